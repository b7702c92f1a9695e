"""Intervals of functions of one number and of choices: they are those of what is inside, and hold all that may be
chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpquery.accuracy.conditions import there
from dpquery.accuracy.rules import Interval
from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64
from tests.unit.accuracy.test_quotients import SLACK, TRIALS, A, B, inputs, mean, number

NULL = Literal(value=None, type=FLOAT64)
RATIO = call("divide", (A, call("nullif", (B, number(0.0)))))
DIGITS = Literal(value=1, type=INT64)


def case(condition: Expression, value: Expression, otherwise: Expression) -> Case:
    return Case(branches=((condition, value),), otherwise=otherwise, type=FLOAT64)


def same(one: Interval, other: Interval) -> bool:
    return bool(np.array_equal(one.lower, other.lower) and np.array_equal(one.upper, other.upper))


def test_a_function_of_one_number_lies_between_its_ends() -> None:
    known = inputs(np.array([500.0, 77.0]), np.array([900.0, 700.0]), 4.0)
    plain = known.interval(RATIO)
    rounded = known.interval(call("round", (RATIO, DIGITS)))
    assert rounded.lower.tolist() == [round(x, 1) for x in plain.lower]
    assert rounded.upper.tolist() == [round(x, 1) for x in plain.upper]
    logarithm = known.interval(call("ln", (RATIO,)))
    assert logarithm.lower.tolist() == np.log(plain.lower).tolist()
    assert same(known.interval(call("nullif", (A, number(0.0)))), known.interval(A))
    assert same(known.interval(call("coalesce", (A, number(0.0)))), known.interval(A)), "a sum is never NULL"


def test_ties_are_rounded_outward() -> None:
    """As ROUND takes the even one of floats, and the farther one of decimals."""
    known = inputs(np.array([0.5, 2.5]), np.ones(2), 0.25)
    found = known.interval(call("round", (A,)))  # A is within 1 of its number
    assert found.lower.tolist() == [-1, 1] and found.upper.tolist() == [2, 4]


def test_what_is_surely_there_has_its_own_interval_and_what_may_be_missing_holds_the_other_value_too() -> None:
    a, b = np.array([300.0, 9.0]), np.array([900.0, 14.0])
    known = inputs(a, b, 4.0)
    found, alone = known.interval(call("coalesce", (RATIO, number(-3.0)))), known.shared(2).interval(RATIO)
    assert (found.lower[0], found.upper[0]) == (alone.lower[0], alone.upper[0])
    assert (found.lower[1], found.upper[1]) == (-3.0, alone.upper[1])
    whole = known.interval(call("coalesce", (mean(0.0, 1.0), number(5.0))))
    assert whole.upper[0] < 1 and whole.upper[1] == 1, "no count here may be 0"


def test_a_branch_that_is_null_says_nothing() -> None:
    known = inputs(np.array([300.0, 9.0]), np.array([900.0, 14.0]), 4.0)
    few = call("lt", (B, number(10.0)))
    many = call("ge", (B, number(10.0)))
    assert same(known.interval(case(few, NULL, A)), known.interval(case(many, A, NULL)))
    assert np.isfinite(known.interval(case(call("is_null", (B,)), NULL, A)).lower).all()


@pytest.mark.parametrize(
    ("name", "decided"),
    [("gt", [1, None, 0]), ("ge", [1, None, 0]), ("lt", [0, None, 1]), ("le", [0, None, 1]), ("ne", [1, None, 1])],
)
def test_conditions_are_decided_where_intervals_are_apart(name: str, decided: list[int | None]) -> None:
    known = inputs(np.array([300.0, 101.0, -300.0]), np.ones(3), 4.0)
    for negated in (False, True):
        condition = call(name, (A, number(100.0)))
        made = case(call("not", (condition,)) if negated else condition, number(1.0), number(0.0))
        found = known.interval(made)
        shown = [int(low) if low == high else None for low, high in zip(found.lower, found.upper, strict=True)]
        assert shown == [x if x is None else x ^ negated for x in decided]


def test_several_conditions() -> None:
    known = inputs(np.array([300.0, 101.0, -300.0]), np.array([300.0, 300.0, 50.0]), 4.0)
    many = call("gt", (A, number(100.0))), call("gt", (B, number(100.0)))
    for name, ends in (("and", [(1, 1), (0, 1), (0, 0)]), ("or", [(1, 1), (1, 1), (0, 0)])):
        found = known.interval(case(call(name, many), number(1.0), number(0.0)))
        assert list(zip(found.lower, found.upper, strict=True)) == ends
    three = Case(branches=((many[0], number(1.0)), (many[1], number(2.0))), otherwise=number(3.0), type=FLOAT64)
    found = known.interval(three)
    assert list(zip(found.lower, found.upper, strict=True)) == [(1, 1), (1, 2), (3, 3)]
    unknown = call("is_null", (A,))
    found = known.interval(case(unknown, number(1.0), number(0.0)))
    assert (found.lower.tolist(), found.upper.tolist()) == ([0] * 3, [1] * 3)


def test_when_an_expression_is_there() -> None:
    assert there(A) == [] and there(NULL) is None and there(number(1.0)) == []
    apart = call("ne", (B, number(0.0)))
    assert there(call("nullif", (A, B))) == [call("ne", (A, B))]
    assert there(call("divide", (A, B))) == [apart]
    assert there(call("round", (RATIO, DIGITS))) == [apart, apart]
    assert there(call("coalesce", (RATIO, number(0.0)))) == []
    assert there(case(apart, A, NULL)) == [apart] and there(case(apart, A, B)) is None
    assert there(Column(id="t", type=BOOLEAN)) == [] and there(call("is_null", (A,))) is None


@pytest.mark.thinned(2)
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (3.0, 4.0), (0.0, 30.0), (8.0, 25.0), (300.0, 900.0)])
def test_choices_hold_for_any_numbers_of_rows(a: float, b: float, laplace: bool) -> None:
    """Laplace noise of the test's inputs is within 4 scales but with 0.018, normal noise nearly always."""
    random = np.random.default_rng(6)
    draw = random.laplace if laplace else random.normal
    noisy = [exact + draw(0, 10.0, TRIALS) for exact in (a, b)]
    drawn = inputs(noisy[0], noisy[1], 10.0, laplace=laplace)
    guarded = case(call("gt", (B, number(0.0))), call("divide", (A, B)), number(-2.0))
    exact = a / b if b else -2.0
    few = case(call("lt", (B, number(20.0))), number(-1.0), call("multiply", (A, number(3.0))))
    for made, true in (
        (guarded, exact),
        (call("coalesce", (RATIO, number(-2.0))), exact),
        (few, -1.0 if b < 20 else 3 * a),
        (call("round", (call("coalesce", (mean(0.0, 1.0), number(0.0))), DIGITS)), round(a / (a + b) if b else 0, 1)),
    ):
        found = drawn.interval(made)
        unknown = np.isnan(found.lower)
        held = (unknown | ((found.lower <= true + 1e-9) & (true - 1e-9 <= found.upper))).mean()
        assert held >= 0.95 - SLACK, made
    assert math.isfinite(drawn.interval(guarded).upper.max()) or b < 100
