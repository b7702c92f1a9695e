"""Intervals of several parts mean all of their parts."""

from __future__ import annotations

import datetime

import pytest
from sqlglot import exp

from dpquery.errors import ParameterError, QuerySyntaxError
from dpquery.sql.parse.intervals import in_one_unit
from dpquery.sql.parse.parse import parse


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("2 days 03:00:00", "183600 seconds"),
        ("2 days 3 hours", "183600 seconds"),
        ("1 week 1 day", "8 days"),
        ("1 year 2 mons", "14 months"),
        ("-1 day 01:30", "-81000 seconds"),
        ("0 years 0 mons 2 days 0 hours 0 mins 0.0 secs", "2 days"),
        ("1.5 hours 30 min", "7200 seconds"),
        ("1 month 1 day", None),
        ("2 days foo", None),
        ("0.5 seconds 1 s x", None),
        ("1 day 0.25 seconds", None),
        ("days", None),
    ],
)
def test_an_interval_has_one_unit_or_is_not_read(text: str, one: str | None) -> None:
    assert in_one_unit(text) == one


@pytest.mark.parametrize("spelling", ["INTERVAL '2 days 03:00:00'", "'2 days 3 hours'::interval", "$1::interval"])
def test_no_part_is_lost(spelling: str) -> None:
    params = ["2 days 03:00:00"] if "$" in spelling else None
    (found,) = parse(f"SELECT x FROM t WHERE x > y + {spelling}", params=params).find_all(exp.Interval)
    assert (found.this.name, str(found.args["unit"]).upper()) == ("183600", "SECONDS")


def test_a_timedelta_is_an_interval() -> None:
    wait = datetime.timedelta(days=2, hours=3)
    (found,) = parse("SELECT x FROM t WHERE x > y + ?", params=[wait]).find_all(exp.Interval)
    assert (found.this.name, found.args["unit"].name) == ("183600", "SECOND")
    with pytest.raises(ParameterError, match="timedelta"):
        parse("SELECT x FROM t WHERE x > y + ?", params=[datetime.timedelta(microseconds=1)])


@pytest.mark.parametrize("text", ["1 month 3 days", "2 days foo", "1 day 2"])
def test_what_cannot_be_read_whole_is_refused(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match="interval cannot be read"):
        parse(f"SELECT x FROM t WHERE x > y + INTERVAL '{text}'")


def test_single_units_stay_as_they_are() -> None:
    for text in ("1 day", "30 DAYS", "-2 hours", "1"):
        written = f"INTERVAL '{text}'" + (" DAY" if text == "1" else "")
        (found,) = parse(f"SELECT x FROM t WHERE x > y + {written}").find_all(exp.Interval)
        assert found.this.name == text.split()[0]


@pytest.mark.parametrize(
    "condition",
    ["k IN (SELECT unnest(ARRAY['a', 'b']))", "k = ANY(ARRAY['a', 'b'])", "k IN (SELECT unnest($1::text[]))"],
)
def test_lists_are_in(condition: str) -> None:
    params = [["a", "b"]] if "$" in condition else None
    tree = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", params=params)
    assert tree.args["where"].this == parse("SELECT 1 FROM t WHERE k IN ('a', 'b')").args["where"].this


def test_a_range_is_two_comparisons() -> None:
    made = parse("SELECT COUNT(*) FROM t WHERE NOT a <@ int4range(2, 5)").args["where"].this
    assert made == parse("SELECT 1 FROM t WHERE NOT (a >= 2 AND a < 5)").args["where"].this
