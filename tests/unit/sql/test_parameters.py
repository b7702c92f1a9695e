"""Parameters: values in place of $1, ?, :name and the like; never text, and refused where no value can stand."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

import dpquery as dp
from dpquery.frontends.opening import read_params
from dpquery.sql.parse.parse import read
from tests.cases.catalogs import session_of
from tests.scripted import zero_noise

DATE, MOMENT = datetime.date(2011, 3, 4), datetime.datetime(2011, 3, 4, 5, 6, 7, 89)


class Nowhere(datetime.tzinfo):
    """A zone that somebody else wrote."""


def count(condition: str, params: Any = None, dialect: str = "postgres", catalog: str = "hospital") -> str:
    """Returns the plan of a count under a condition; conditions stand in it as they were understood."""
    query = f"SELECT COUNT(*) AS n FROM patients WHERE {condition}"
    plan = str(session_of(catalog).explain(query, params=params, dialect=dialect))
    return next((line.split("Filter ", 1)[1] for line in plan.split("\n") if "Filter " in line), "")


@pytest.mark.parametrize(
    ("condition", "params", "literal", "dialect"),
    [
        ("age > $1", [40], "age > 40", "postgres"),
        ("age > $2 AND age < $1", (60, 40), "age > 40 AND age < 60", "postgres"),
        ("age > $1 OR ward = $1", [2], "age > 2 OR ward = 2", "postgres"),
        ("age > ? AND sex = ?", [40, "F"], "age > 40 AND sex = 'F'", "postgres"),
        ("age > %s AND sex = %s", [40, "F"], "age > 40 AND sex = 'F'", "postgres"),
        ("age > :least AND sex = :sex", {"least": 40, "sex": "F"}, "age > 40 AND sex = 'F'", "postgres"),
        ("age > %(least)s AND age<%(most)s", {"least": 4, "most": 50}, "age > 4 AND age < 50", "postgres"),
        ("age > :end AND age < :limit", {"end": 1, "limit": 2}, "age > 1 AND age < 2", "postgres"),
        ("age > $1", [40], "age > 40", "duckdb"),
        ("age > $least", {"least": 40}, "age > 40", "duckdb"),
        ("age > @least", {"least": 40}, "age > 40", "bigquery"),
        ("age > @least", {"least": 40}, "age > 40", "tsql"),
        ("age > ?", [40], "age > 40", "mysql"),
        ("age > ?2 AND age < ?1", [50, 40], "age > 40 AND age < 50", "sqlite"),
        ("age > $least", {"least": 40}, "age > 40", "sqlite"),
        ("age > :1", [40], "age > 40", "oracle"),
        ("age > :1", [40], "age > 40", "snowflake"),
        ("age % 5 = %s", [3], "age % 5 = 3", "postgres"),
        ("age % $1 = 3", [5], "age % 5 = 3", "postgres"),
        ("age BETWEEN ? AND ?", [3, 9], "age BETWEEN 3 AND 9", "postgres"),
        ("age IN (?, ?)", [3, 9], "age IN (3, 9)", "postgres"),
        ("town LIKE ?", ["R%"], "town LIKE 'R%'", "postgres"),
        ("smoker = ?", [True], "smoker = TRUE", "postgres"),
        ("bmi > ?", [-1.5], "bmi > -1.5e0", "postgres"),
        ("bmi > ?", [1e-300], "bmi > 1e-300", "postgres"),
        ("bmi > ?", [Decimal("1.50")], "bmi > CAST('1.50' AS DECIMAL(3, 2))", "postgres"),
        ("age > ?", [Decimal("-5")], "age > CAST(-5 AS DECIMAL(1, 0))", "postgres"),
        ("age > ?", [Decimal("1E+5")], "age > CAST(100000 AS DECIMAL(6, 0))", "postgres"),
        ("income > ?", [-(2**63)], "income > CAST('-9223372036854775808' AS BIGINT)", "postgres"),
        ("born > ?", [DATE], "born > DATE '2011-03-04'", "postgres"),
        ("born > ?", ["2011-03-04"], "born > '2011-03-04'", "postgres"),
        ("born > ?", [MOMENT], "born > TIMESTAMP '2011-03-04 05:06:07.000089'", "postgres"),
        ("age > ?::bigint", ["40"], "age > CAST('40' AS BIGINT)", "postgres"),
        ("COALESCE(ward, ?) = 1", [None], "COALESCE(ward, NULL) = 1", "postgres"),
        ("age > ?", [np.int64(40)], "age > 40", "postgres"),
        ("age > ?", [np.uint8(40)], "age > 40", "postgres"),
        ("bmi > ?", [np.float64(2.5)], "bmi > 2.5e0", "postgres"),
        ("smoker = ?", [np.bool_(False)], "smoker = FALSE", "postgres"),
    ],
)
def test_a_parameter_means_what_a_constant_means(condition: str, params: Any, literal: str, dialect: str) -> None:
    assert count(condition, params, dialect) == count(literal)


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE patients; --",
        "' OR '1'='1",
        "F' UNION SELECT note FROM patients --",
        "\\'; --",
        '"',
        "$1",
        "?",
        ":name",
        "/*",
        "{}",
        "%s",
        "é\u202e",
        "",
        "\n",
    ],
)
@pytest.mark.parametrize("dialect", ["postgres", "mysql", "bigquery", "spark"])
def test_a_text_is_a_value_whatever_it_holds(text: str, dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PAR-04, BAK-01: no value becomes a part of the query."""
    zero_noise(monkeypatch)
    session = session_of("hospital")
    answer = session.sql("SELECT COUNT(*) AS n FROM patients WHERE town <> ?", params=[text], dialect=dialect)
    assert answer.to_arrow()["n"].to_pylist() == [20]
    plan = str(session.explain("SELECT COUNT(*) AS n FROM patients WHERE sex = ?", params=[text], dialect=dialect))
    assert f"Filter sex = '{text.replace(chr(39), chr(39) * 2)}'" in plan


def test_a_parameter_is_an_ordinal_or_a_limit_where_a_constant_is(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    session = session_of("hospital")
    query = (
        "SELECT sex, COUNT(*) AS n FROM patients GROUP BY $1 HAVING COUNT(*) > $4 ORDER BY $2 DESC LIMIT $1 OFFSET $3"
    )
    answer = session.sql(query, params=[1, 2, 1, 0])
    assert answer.to_arrow().to_pylist() == [{"sex": "F", "n": 9}]


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1 IN ($1,$2)", ["$1", "$2"]),
        ("SELECT $1::int,$2", ["$1", "$2"]),
        ("SELECT x[$1:$2]", ["$1", "$2"]),
        ("SELECT -$1,$2-$3", ["$1", "$2", "$3"]),
        ("SELECT $a,$b", ["$a", "$b"]),
        ("SELECT '$1', \"$2\", $x$ $3 $x$, $4", ["$4"]),
        ("SELECT $$a$1b$$,$2", ["$2"]),
        ("SELECT /* $1 /* $2 */ $3 */ $4 -- $5", ["$4"]),
        ("SELECT E'\\'$1',$2", ["$2"]),
        ("SELECT a$1,$2", ["$2"]),
    ],
)
def test_a_dollar_is_read_by_the_rules_of_postgresql(text: str, found: list[str], dialect: str) -> None:
    _, placeholders = read(text, dialect)
    assert [text[one.span.start : one.span.end] for one in placeholders] == found


@pytest.mark.parametrize("text", ["SELECT $1and", "SELECT 1$1", "SELECT $1$2", "SELECT $1$$x$$", "SELECT $99999"])
def test_a_parameter_that_has_no_clear_end_is_refused(text: str) -> None:
    with pytest.raises(dp.QueryError):
        read(text)


REFUSED = [
    ("age > $1", None, "the query has a parameter, but no value is given", "$1"),
    ("age > ?", [], "the query has a parameter 1, and 0 values are given", "?"),
    ("age > ? AND age < ?", [1], "the query has a parameter 2, and 1 values are given", "?"),
    ("age > $2", [1, 2], "2 values are given, but the query has no parameter 1", None),
    ("age > ?", [1, 2], "2 values are given, but the query has no parameter 2", None),
    ("age > $0", [1], "the query has a parameter 0, and 1 values are given", "$0"),
    ("age > 1", [1], "values are given, but the query has no parameter", None),
    ("age > :a", {"b": 1}, "no value is given for a", ":a"),
    ("age > :a", {"a": 1, "b": 1}, "the query has no parameter 'b'", None),
    ("age > :a", [1], "parameter a has a name", ":a"),
    ("age > ?", {"a": 1}, "this parameter must have a name", "?"),
    ("age > ? AND age < $1", [1, 2], "the query mixes parameters of several forms", "$1"),
    ("age > :a AND age < ?", {"a": 1}, "the query mixes parameters of several forms", "?"),
    ("age > ?", "1", "params must be a list or tuple of values, or a dict of values by name", None),
    ("age > ?", {1: 1}, "the names in params must be strings", None),
    ("age > ?", [0] * 1001, "a query has at most 1000 parameters", None),
    ("bmi > ?", [math.nan], "NaN and infinities are not accepted as values", "?"),
    ("bmi > ?", [-math.inf], "NaN and infinities are not accepted as values", "?"),
    ("bmi > ?", [np.float64("nan")], "NaN and infinities are not accepted as values", "?"),
    ("bmi > ?", [Decimal("NaN")], "NaN and infinities are not accepted as values", "?"),
    ("bmi > ?", [Decimal("1e39")], "a decimal has more than 38 digits", "?"),
    ("bmi > ?", [Decimal("1e-39")], "a decimal has more than 38 digits", "?"),
    ("age > ?", [2**63], "an integer is beyond 64 bits", "?"),
    ("age > ?", [object()], "a value of the type object cannot be a parameter", "?"),
    ("age > ?", [[1]], "a value of the type list cannot be a parameter", "?"),
    ("age > ?", [b"1"], "a value of the type bytes cannot be a parameter", "?"),
    ("age > ?", [pd.NA], "a value of the type NAType cannot be a parameter", "?"),
    ("born > ?", [pd.Timestamp(DATE)], "a value of the type Timestamp cannot be a parameter", "?"),
    ("born > ?", [MOMENT.replace(tzinfo=Nowhere())], "the time zone of a parameter is not known", "?"),  # type: ignore[abstract]
    ("sex = ?", ["\0"], "a text holds control characters", "?"),
    ("sex = ?", ["\ud800"], "a text holds control characters", "?"),
    ("sex = ?", ["x" * 10_001], "a text is longer than 10000 characters", "?"),
    ("? > 1", ["age"], "the text constant is not a valid int64", "? > 1"),
    ("patients.? > 1", ["age"], "a parameter is a value, and no value is allowed here", "?"),
    ("?.age > 1", ["patients"], "a parameter is a value, and no value is allowed here", "?"),
    ("?(age) > 1", ["abs"], "a parameter is a value, and no value is allowed here", "?"),
]


@pytest.mark.parametrize(("condition", "params", "reason", "caret"), REFUSED)
def test_what_does_not_fit_is_refused_at_its_place(condition: str, params: Any, reason: str, caret: str | None) -> None:
    with pytest.raises(dp.QueryError) as refused:
        count(condition, params)
    assert refused.value.reason == reason
    assert isinstance(refused.value, dp.ParameterError) or "constant" in reason
    span, text = refused.value.span, refused.value.text
    if caret is not None:
        assert span is not None
        assert text is not None
        assert text[span.start : span.end] == caret


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) AS n FROM ?",
        "SELECT COUNT(*) AS n FROM patients AS ?",
        "SELECT COUNT(*) AS ? FROM patients",
        "SELECT COUNT(*) ? FROM patients",
        "SELECT COUNT(*) AS n FROM patients ORDER BY n ?",
        "WITH ? AS (SELECT id FROM patients) SELECT COUNT(*) AS n FROM patients",
        "SELECT COUNT(*) AS n FROM patients ?",
        "?",
        "SELECT COUNT(*) AS n FROM patients JOIN labs USING (?)",
        "SELECT CAST(COUNT(*) AS ?) AS n FROM patients",
        "SELECT EXTRACT(? FROM born) AS x, COUNT(*) AS n FROM patients GROUP BY 1",
        "SELECT COUNT(*) AS n FROM patients WHERE age > -?::?",
    ],
)
@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "mysql", "tsql", "bigquery", "snowflake"])
def test_a_parameter_is_no_name_and_no_keyword(query: str, dialect: str) -> None:
    with pytest.raises(dp.QueryError):
        session_of("hospital").explain(query, params=["patients"] * query.count("?"), dialect=dialect)


@pytest.mark.parametrize("dialect", ["mysql", "bigquery", "spark", "snowflake"])
def test_no_escape_makes_a_placeholder(dialect: str) -> None:
    for text in ("'\\0'", "'\\00'", "'\\x000'", "'\\u00000'", "`\\x000`"):
        query = f"SELECT COUNT(*) AS n FROM patients WHERE town <> {text} AND age > ?"
        try:
            plan = str(session_of("hospital").explain(query, params=[17], dialect=dialect))
        except dp.QueryError:
            continue
        assert plan.count("17") == 1


def test_the_ledger_records_the_values() -> None:
    session = session_of("hospital")
    session.sql("SELECT COUNT(*) AS n FROM patients WHERE town = ?", params=["it's\n"])
    recorded = session._ledger.entries()[-1].query
    assert recorded.split("\n")[-1] == '-- params: ("it\'s\\n",)'


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (["1=40", "2=F"], [40, "F"]),
        (["2=F", "1=40"], [40, "F"]),
        (["a=1.50", "b=1e3"], {"a": Decimal("1.50"), "b": 1000.0}),
        (["a=true", "b=NULL"], {"a": True, "b": None}),
        (["a='40'", "b='it''s'"], {"a": "40", "b": "it's"}),
        (["a=007", "b=2011-03-04", "c=a=b", "d="], {"a": "007", "b": "2011-03-04", "c": "a=b", "d": ""}),
        (["a=nan", "b=inf", "c=1_0"], {"a": "nan", "b": "inf", "c": "1_0"}),
        ([], None),
    ],
)
def test_the_command_line_reads_plain_values(given: list[str], values: Any) -> None:
    assert read_params(given) == values


@pytest.mark.parametrize("given", [["a"], ["=1"], ["a=1", "a=2"]])
def test_the_command_line_refuses_other_forms(given: list[str]) -> None:
    with pytest.raises(typer.BadParameter):
        read_params(given)
