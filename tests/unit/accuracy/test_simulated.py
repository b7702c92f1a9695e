"""Intervals that follow the noise: exact for sums, close for averages, never wider than interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from dpquery.accuracy.intervals import IntervalInputs
from dpquery.accuracy.simulated import POINTS, Law, _uniform
from dpquery.kernel.plan import Mechanism
from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.types import FLOAT64, INT64

N, S = Column(id="n", type=FLOAT64), Column(id="s", type=FLOAT64)
TRIALS = 1500


def number(value: float) -> Literal:
    return Literal(value=value, type=FLOAT64)


def mean() -> Expression:
    ratio = call("add", (number(50.0), call("divide", (S, N))))
    enough = call("gt", (N, number(0.0)))
    kept = call("clamp", (ratio, number(0.0), number(100.0)))
    return Case(branches=((enough, kept),), otherwise=Literal(value=None, type=FLOAT64), type=FLOAT64)


def measured(
    noisy: Mapping[str, list[float]], scales: Mapping[str, float], laplace: bool, **laws: Law | None
) -> IntervalInputs:
    def law(id: str) -> Law | None:
        own = Law(
            table=0, is_added=False, mechanism=Mechanism.LAPLACE if laplace else Mechanism.GAUSSIAN, scale=scales[id]
        )
        return laws.get(id, own) if laws else own

    def half_width(id: str, sharing: int) -> float:
        return scales[id] * (math.log(20 * sharing) if laplace else 1.96 + 0.28 * (sharing - 1))

    return IntervalInputs(
        rows=len(next(iter(noisy.values()))),
        columns=noisy,
        measures=frozenset(scales),
        half_width=half_width,
        law=law,
        confidence=0.95,
    )


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize(
    ("expression", "n", "s"),
    [
        (mean(), 400.0, 9000.0),
        (mean(), 4000.0, -80000.0),
        (call("subtract", (S, call("multiply", (N, number(3.0))))), 40.0, 7.0),
    ],
)
def test_they_hold_about_as_often_as_they_say(expression: Expression, n: float, s: float, laplace: bool) -> None:
    """Drawn anew 1500 times: 95 %, give or take five deviations, or a little more, as the points are finite."""
    random = np.random.default_rng(7)
    scales = {"n": 12.0, "s": 500.0}
    draw = random.laplace if laplace else random.normal
    noisy = {"n": (n + draw(0, scales["n"], TRIALS)).tolist(), "s": (s + draw(0, scales["s"], TRIALS)).tolist()}
    found = measured(noisy, scales, laplace).interval(expression)
    exact = 50 + s / n if expression == mean() else s - 3 * n
    held = ((found.lower <= exact) & (exact <= found.upper)).mean()
    slack = 5 * math.sqrt(0.95 * 0.05 / TRIALS)
    assert 0.95 - slack <= held <= 0.97 + slack


def test_they_are_narrower_than_interval_arithmetic_and_never_wider() -> None:
    noisy, scales = {"n": [400.0, 3.0, -1.0], "s": [9000.0, 50.0, 2.0]}, {"n": 12.0, "s": 500.0}
    followed = measured(noisy, scales, True).interval(mean())
    plain = measured(noisy, scales, True, n=None, s=None).interval(mean())
    assert (followed.upper - followed.lower)[0] < 0.8 * (plain.upper - plain.lower)[0]
    # Near a count of 0 the average may be NULL: interval arithmetic stands.
    assert np.array_equal(followed.lower[1:], plain.lower[1:])
    assert np.array_equal(followed.upper[1:], plain.upper[1:])


def test_the_same_answer_has_the_same_intervals() -> None:
    noisy, scales = {"n": [400.0], "s": [9000.0]}, {"n": 12.0, "s": 500.0}
    first, again = (measured(noisy, scales, False).interval(mean()) for _ in range(2))
    assert first.lower == again.lower
    assert first.upper == again.upper


def test_noise_of_tables_that_repeat_each_other_is_not_followed() -> None:
    noisy, scales = {"n": [400.0], "s": [9000.0]}, {"n": 12.0, "s": 500.0}
    laws = {
        name: Law(table=i, is_added=i == 1, mechanism=Mechanism.LAPLACE, scale=scales[name])
        for i, name in enumerate(scales)
    }
    plain = measured(noisy, scales, True, n=None, s=None).interval(mean())
    found = measured(noisy, scales, True, **laws).interval(mean())
    assert (found.lower, found.upper) == (plain.lower, plain.upper)


def test_conditions_and_unknown_functions_are_left_to_interval_arithmetic() -> None:
    noisy, scales = {"n": [400.0], "s": [9000.0]}, {"n": 12.0, "s": 500.0}
    whole = Column(id="n", type=INT64)
    odd = call("modulo", (whole, Literal(value=7, type=INT64)))
    found = measured(noisy, scales, True).interval(call("add", (S, odd)))
    assert np.isnan(found.lower).all()


def test_points_are_even_in_each_and_in_two_dimensions() -> None:
    for dimension in range(8):
        assert np.array_equal(np.sort(_uniform(dimension)), (np.arange(POINTS) + 0.5) / POINTS)
        for other in range(dimension):
            counts = np.histogram2d(_uniform(dimension), _uniform(other), bins=8, range=[[0, 1], [0, 1]])[0]
            assert 0.5 * POINTS / 64 < counts.min() <= counts.max() < 1.5 * POINTS / 64
