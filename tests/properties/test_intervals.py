"""Intervals are sound: no expression leaves the range derived for it, and none raises."""

from __future__ import annotations

import random

import pytest

from dpquery.plan.evaluate import evaluate
from dpquery.plan.intervals import range_of
from tests.properties.expressions import Drawn, draw, inside
from tests.unit.plan.engine import shown

POINTS = 200


def first_escape(drawn: Drawn) -> str | None:
    """Returns the first row on which an expression leaves its range, if there is one."""
    known = range_of(drawn.expression, drawn.ranges)
    for row in drawn.rows:
        value = evaluate(drawn.expression, row)
        if not inside(value, known):
            return f"{shown(drawn.expression)} = {value!r} on {row}, outside {known}; columns {drawn.ranges}"
    return None


def check(seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        assert first_escape(draw(chance, POINTS)) is None


def test_no_expression_leaves_its_range() -> None:
    """A rule that is wrong for one of 50 expressions is met with a chance of 95 %; the long run draws 20,000."""
    check(0, 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_expression_leaves_its_range_at_length(seed: int) -> None:
    check(seed, 500)
