"""Constants in the forms of tools: moments with formats and zones, lists."""

from __future__ import annotations

import pytest

import dpquery as dp
from dpquery.plan.types import TIMESTAMP
from tests.cases.catalogs import session_of

ONE_DAY = "WHERE created_at >= timestamp '2023-03-01 00:00:00'"


def plan(condition: str) -> str:
    return str(session_of("orders").explain(f"SELECT COUNT(*) FROM orders WHERE {condition}"))


@pytest.mark.parametrize(
    "moment",
    [
        "TO_TIMESTAMP('2023-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
        "TO_TIMESTAMP('01.03.2023', 'DD.MM.YYYY')",
        "TO_DATE('2023-03-01', 'YYYY-MM-DD')",
        "'2023-03-01T00:00:00Z'",
        "'2023-03-01 00:00:00+00'",
        "'2023-03-01 00:00:00 UTC'",
        "'2023-03-01'::timestamptz",
        "TIMESTAMP WITH TIME ZONE '2023-03-01 00:00:00.000Z'",
        "TIMESTAMP '2023-03-01 00:00:00' AT TIME ZONE 'UTC'",
    ],
)
def test_a_constant_moment_is_its_plain_form(moment: str) -> None:
    shown = plan(f"created_at >= {moment}")
    assert "created_at >= timestamp '2023-03-01 00:00:00'" in shown


@pytest.mark.parametrize(
    "moment",
    [
        "TO_TIMESTAMP('2023-13-01', 'YYYY-MM-DD')",
        "TO_TIMESTAMP('2023-03-01', 'TZ')",
        "TO_TIMESTAMP(region, 'YYYY')",
        "'2023-03-01 00:00:00+02'",
        "'2023-03-01 00:00:00+02'::timestamptz",
        "TIMESTAMP '2023-03-01 00:00:00' AT TIME ZONE 'Europe/Zurich'",
    ],
)
def test_other_zones_and_formats_are_refused(moment: str) -> None:
    with pytest.raises(dp.QueryError):
        plan(f"created_at >= {moment}")


def test_a_text_is_compared_as_it_is() -> None:
    assert "'12:00Z'" in plan("region = '12:00Z'")


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("region = ANY (ARRAY['east', 'west'])", "region IN ('east', 'west')"),
        ("region = ANY ('{east,west}')", "region IN ('east', 'west')"),
        ("region = ANY ('{ east , west }'::text[])", "region IN ('east', 'west')"),
        ("region <> ALL (ARRAY['east'])", "NOT region IN ('east')"),
        ("region = ANY (ARRAY[]::text[])", "FALSE"),
    ],
)
def test_lists_are_in(condition: str, same: str) -> None:
    assert plan(condition) == plan(same)


@pytest.mark.parametrize(
    "condition",
    ["region = ALL (ARRAY['a'])", "region <> ANY (ARRAY['a'])", "region = ANY ('{\"a,b\"}')", "qty < ANY ('{1}')"],
)
def test_other_lists_are_refused(condition: str) -> None:
    with pytest.raises(dp.QueryError):
        plan(condition)


def test_times_of_where_bound_the_keys() -> None:
    session = session_of("orders")
    text = (
        "SELECT DATE_TRUNC('month', created_at) AS m, COUNT(*) FROM orders "
        "WHERE created_at >= '2023-03-04' AND created_at < '2023-06-01' GROUP BY 1"
    )
    assert session.explain(text).schema.types[0].unit == "us" and str(TIMESTAMP) == "timestamp"
    assert "public(3)" in str(session.explain(text))
    never = text.replace("2023-06-01", "2023-01-01")
    assert session.sql(never).to_arrow().num_rows >= 0
