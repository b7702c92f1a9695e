"""Intervals that follow the noise: exact for sums, close for averages, never wider than interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from dpquery.accuracy.intervals import IntervalInputs
from dpquery.accuracy.simulated import POINTS, Shared, SharedLaw, SimulatedLaw, _uniform, known_laws, noises_at
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
    noisy: Mapping[str, list[float]], scales: Mapping[str, float], laplace: bool, **laws: SimulatedLaw | None
) -> IntervalInputs:
    def law(id: str) -> SimulatedLaw | None:
        own = SimulatedLaw(
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
        laws=lambda ids: {id: law(id) for id in ids},
        confidence=0.95,
    )


APART = call("subtract", (S, N))
TURNING = {
    "magnitude": call("abs", (APART,)),
    "greater": call("greatest", (APART, call("negate", (APART,)))),
    "square": call("multiply", (APART, APART)),
    "root": call("sqrt", (call("abs", (APART,)),)),
    "product": call("multiply", (S, N)),
}


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("s", [0.0, 1.0, 20.0, 90.0])
@pytest.mark.parametrize("name", TURNING)
def test_they_hold_where_an_expression_turns_around(name: str, s: float, laplace: bool) -> None:
    """Of two numbers that are alike the difference is 0, which is the least that its magnitude can be: noise around any
    other difference seldom reaches it."""
    random = np.random.default_rng(11)
    scales = {"n": 12.0, "s": 12.0}
    draw = random.laplace if laplace else random.normal
    noisy = {"n": draw(0, 12.0, TRIALS).tolist(), "s": (s + draw(0, 12.0, TRIALS)).tolist()}
    found = measured(noisy, scales, laplace).interval(TURNING[name])
    exact = {"magnitude": s, "greater": s, "square": s**2, "root": math.sqrt(s), "product": 0.0}[name]
    held = np.mean((found.lower <= exact + 1e-9) & (exact - 1e-9 <= found.upper))
    assert held >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / TRIALS)


def test_a_magnitude_far_from_0_is_known_as_well_as_what_it_is_of() -> None:
    inputs = measured({"n": [100.0], "s": [900.0]}, {"n": 12.0, "s": 12.0}, laplace=True)
    plain, size = inputs.interval(APART), inputs.interval(TURNING["magnitude"])
    assert (plain.lower[0], plain.upper[0]) == (size.lower[0], size.upper[0])


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
        name: SimulatedLaw(table=i, is_added=i == 1, mechanism=Mechanism.LAPLACE, scale=scales[name])
        for i, name in enumerate(scales)
    }
    plain = measured(noisy, scales, True, n=None, s=None).interval(mean())
    found = measured(noisy, scales, True, **laws).interval(mean())
    assert (found.lower, found.upper) == (plain.lower, plain.upper)


def test_more_noises_than_points_have_dimensions_are_not_followed() -> None:
    """Three tables whose estimates read 24 numbers each: what is not followed is left to interval arithmetic."""
    one = SimulatedLaw(table=0, is_added=False, mechanism=Mechanism.LAPLACE, scale=1.0)
    shared = Shared(sources=(one,) * 24, factors=((0.5,) * 24,))
    for tables in (1, 2, 3):
        laws = {f"n{i}": SharedLaw(table=i, is_added=False, shared=shared, place=0) for i in range(tables)}
        known = known_laws(laws)
        assert (known is None) is (tables == 3)
        assert known is None or len(noises_at(known)) == tables


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


def drawn(random: np.random.Generator, scale: float, laplace: bool, size: int) -> np.ndarray:
    """Returns discrete noise: a difference of two geometric numbers, or a choice among integers by their weights."""
    if laplace:
        chance = -math.expm1(-1 / scale)
        return (random.geometric(chance, size) - random.geometric(chance, size)).astype(float)
    places = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    weights = np.exp(-(places**2) / (2 * scale**2))
    return random.choice(places, size, p=weights / weights.sum()).astype(float)


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.7, 4.0, 30.0])
def test_noise_of_few_steps_has_its_own_law(scale: float, laplace: bool) -> None:
    """A difference of two counts: 20,000 draws lie in it as often as it says, and not in the next narrower one more
    often than that."""
    random = np.random.default_rng(11)
    mechanism = Mechanism.LAPLACE if laplace else Mechanism.GAUSSIAN
    laws = {id: SimulatedLaw(table=0, is_added=False, mechanism=mechanism, scale=scale, step=1.0) for id in "ns"}
    noisy, scales = {"n": [40.0], "s": [90.0]}, {"n": 4 * scale, "s": 4 * scale}
    found = measured(noisy, scales, laplace, n=laws["n"], s=laws["s"]).interval(call("subtract", (S, N)))
    half = (found.upper[0] - found.lower[0]) / 2
    errors = np.abs(drawn(random, scale, laplace, 20_000) - drawn(random, scale, laplace, 20_000))
    assert half == round(half) and (errors <= half).mean() >= 0.94
    assert (errors <= half - max(1, 0.1 * half)).mean() < 0.95


@pytest.mark.parametrize("scale", [0.01, 0.2, 1.0, 3.0])
def test_noise_that_was_rounded_has_the_rounding_in_it(scale: float) -> None:
    random = np.random.default_rng(12)
    law = SimulatedLaw(table=0, is_added=False, mechanism=Mechanism.LAPLACE, scale=scale, step=1.0, is_rounded=True)
    noisy, scales = {"n": [40.0], "s": [90.0]}, {"n": 9.0, "s": 9.0}
    found = measured(noisy, scales, True, n=law, s=law).interval(call("add", (S, N)))
    half = (found.upper[0] - found.lower[0]) / 2
    exact = random.uniform(0, 1, (2, 20_000))
    errors = np.abs((np.round(exact + random.laplace(0, scale, exact.shape)) - exact).sum(axis=0))
    assert (errors <= half).mean() >= 0.94 and (errors <= 0.9 * half).mean() < 0.95
