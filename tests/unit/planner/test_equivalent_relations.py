"""Joins in a form of which more is proved: the same rows, and less noise."""

from __future__ import annotations

import pytest

from tests.cases.catalogs import session_of

ANTI = "SELECT COUNT(*) AS n FROM patients AS p LEFT JOIN labs AS l ON l.id = p.id WHERE {}"


@pytest.mark.parametrize("condition", ["l.id IS NULL", "l.id IS NULL AND p.age > 40"])
def test_a_left_join_whose_matches_are_thrown_away_is_an_anti_join(condition: str) -> None:
    plan = session_of("hospital").explain(ANTI.format(condition), epsilon=1)
    assert "Join anti" in str(plan) and plan.measurements[0].l1 == 1


@pytest.mark.parametrize("condition", ["l.value IS NULL", "l.id IS NULL OR p.age > 40", "l.id IS NOT NULL"])
def test_what_may_be_null_in_a_match_makes_no_anti_join(condition: str) -> None:
    plan = session_of("hospital").explain(ANTI.format(condition), epsilon=1)
    assert "Join anti" not in str(plan) and plan.measurements[0].l1 > 1


def test_comparisons_with_public_rows_stand_in_the_join() -> None:
    bands = "(VALUES (0, 10), (11, 100), (101, 512)) AS b(low, high)"
    query = (
        f"SELECT b.low, COUNT(*) AS n FROM labs AS l, {bands} WHERE l.cost >= b.low AND l.cost <= b.high GROUP BY b.low"
    )
    plan = session_of("hospital").explain(query, epsilon=1)
    assert "Join inner cost >= low AND cost <= high" in str(plan)
