"""Trade-off functions against the tests of Neyman and Pearson, and never above them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import tradeoff
from dpquery.accounting.gaussian_calibration import gaussian_delta
from dpquery.errors import InvalidLossError

EPSILONS = st.fractions(min_value=0, max_value=12, max_denominator=1000)
SMALL = st.fractions(min_value=0, max_value=1, max_denominator=10**6)
CHANCES = st.fractions(min_value=0, max_value=1, max_denominator=10**4)
GRID = [Fraction(n, 40) for n in range(41)] + [Fraction(1, 10**6), 1 - Fraction(1, 10**6)]


def best_test(first: list[float], second: list[float], false_alarms: float) -> float:
    """Neyman, Pearson: the least chance of a miss, raising alarms in the order of the likelihood ratio."""
    order = sorted(range(len(first)), key=lambda i: math.inf if first[i] == 0 else second[i] / first[i], reverse=True)
    left, hits = false_alarms, 0.0
    for i in order:
        share = 1.0 if first[i] <= left else left / first[i]
        left, hits = left - share * first[i], hits + share * second[i]
    return 1 - hits


def leaky(epsilon: float, delta: float) -> tuple[list[float], list[float]]:
    """The outcomes: the first is given away, the second is, true, false."""
    odds = math.exp(epsilon)
    true, false = (1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds)
    return [delta, 0.0, true, false], [0.0, delta, false, true]


@pytest.mark.parametrize("x", GRID, ids=str)
@pytest.mark.parametrize("delta", ["0", "1e-3", "0.2"])
@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "5"])
def test_leaks_and_responses_against_the_best_test(epsilon: str, delta: str, x: Fraction) -> None:
    truth = best_test(*leaky(float(epsilon), float(delta)), float(x))
    found = tradeoff.tradeoff_of_leaky_response(Fraction(epsilon), Fraction(delta), x)
    assert float(found) == pytest.approx(truth, abs=1e-12)
    assert found == tradeoff.tradeoff_of_approximate(Fraction(epsilon), Fraction(delta), x)
    if delta == "0":
        assert found == tradeoff.tradeoff_of_randomised_response(Fraction(epsilon), x)
    if epsilon == "0":
        assert found == tradeoff.tradeoff_of_leak(Fraction(delta), x)


@pytest.mark.parametrize("x", GRID, ids=str)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_laplace_against_the_best_test(epsilon: str, x: Fraction) -> None:
    shift = float(epsilon)

    def above(place: float) -> float:
        return math.exp(-place) / 2 if place > 0 else 1 - math.exp(place) / 2

    chance = float(x)
    place = (-math.log(2 * chance) if chance < 0.5 else math.log(2 * (1 - chance))) if 0 < chance < 1 else 0.0
    truth = 1 - above(place - shift) if 0 < chance < 1 else 1 - chance
    assert float(tradeoff.tradeoff_of_laplace(Fraction(epsilon), x)) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("x", GRID, ids=str)
@pytest.mark.parametrize("mu", ["0.01", "1", "4"])
def test_gaussian_against_the_best_test(mu: str, x: Fraction) -> None:
    normal = NormalDist()
    truth = normal.cdf(normal.inv_cdf(1 - float(x)) - float(mu)) if 0 < x < 1 else 1 - float(x)
    assert float(tradeoff.tradeoff_of_gaussian(Fraction(mu), x)) == pytest.approx(truth, rel=1e-8, abs=1e-12)


@given(EPSILONS, SMALL, CHANCES, CHANCES)
@settings(deadline=None)
def test_what_every_trade_off_is(epsilon: Fraction, delta: Fraction, one: Fraction, other: Fraction) -> None:
    low, high = sorted([one, other])
    kinds: list[Callable[[Fraction], Fraction]] = [
        lambda x: tradeoff.tradeoff_of_approximate(epsilon, delta, x),
        lambda x: tradeoff.tradeoff_of_laplace(epsilon, x),
        lambda x: tradeoff.tradeoff_of_gaussian(epsilon, x),
    ]
    tiny = Fraction(1, 10**9)
    for misses in kinds:
        assert 0 <= misses(high) <= misses(low) + tiny
        assert misses(low) <= 1 - low
        assert misses((low + high) / 2) <= (misses(low) + misses(high)) / 2 + tiny
    for misses in kinds[:2]:  # symmetric: its own inverse, where it is positive
        assert misses(misses(low)) <= low + tiny


@given(EPSILONS, CHANCES)
@settings(deadline=None)
def test_what_is_promised_is_below_what_is_true(epsilon: Fraction, x: Fraction) -> None:
    assert tradeoff.tradeoff_of_randomised_response(epsilon, x) <= tradeoff.tradeoff_of_laplace(epsilon, x)
    mu = epsilon / 4
    promised = tradeoff.tradeoff_of_approximate(epsilon, gaussian_delta(mu, epsilon), x)
    assert promised <= tradeoff.tradeoff_of_gaussian(mu, x) + Fraction(1, 10**9)


@given(EPSILONS, EPSILONS, CHANCES)
@settings(deadline=None)
def test_the_delta_of_laplace_lies_on_its_trade_off(epsilon: Fraction, total: Fraction, x: Fraction) -> None:
    delta = tradeoff.laplace_delta(epsilon, total)
    assert tradeoff.tradeoff_of_approximate(total, delta, x) <= tradeoff.tradeoff_of_laplace(epsilon, x) + Fraction(
        1, 10**25
    )
    if delta:
        touching = math.exp(-(float(epsilon) + float(total)) / 2) / 2
        promised = 1 - float(delta) - math.exp(float(total)) * touching
        assert promised == pytest.approx(float(tradeoff.tradeoff_of_laplace(epsilon, Fraction(touching))), abs=1e-9)


def test_edges_and_refusals() -> None:
    tiny, one = Fraction(1, 10**400), Fraction(1)
    assert 0 < tradeoff.tradeoff_of_gaussian(one, tiny) <= 1
    assert tradeoff.tradeoff_of_gaussian(one, 1 - tiny) == 0
    assert tradeoff.tradeoff_of_leak(one, Fraction(0)) == 0
    for refused in (
        lambda: tradeoff.tradeoff_of_leak(one, Fraction(2)),
        lambda: tradeoff.tradeoff_of_leak(Fraction(2), one),
        lambda: tradeoff.tradeoff_of_laplace(-one, one),
        lambda: tradeoff.laplace_delta(one, -one),
    ):
        with pytest.raises(InvalidLossError):
            refused()  # type: ignore[no-untyped-call]
