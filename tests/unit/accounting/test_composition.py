"""Composition theorems: the optimal one against all outcomes of randomised response, the others never below it."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath as mp  # type: ignore[import-untyped]
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import composition
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import PrivacyLoss

EPSILONS = st.fractions(min_value=Fraction(1, 10**4), max_value=5, max_denominator=10**4)
COUNTS = st.integers(1, 60)
DELTAS = st.integers(2, 10**9).map(lambda n: Fraction(1, n))
CLOSE = 1 + Fraction(1, 10**20)


def exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


def hockey_stick(epsilon: Fraction, delta: Fraction, count: int, total: Fraction) -> mp.mpf:
    """delta of `count` leaky randomised responses at epsilon `total`, summed over the number of lies."""
    odds, reached = mp.exp(exact(epsilon)), mp.exp(exact(total))
    masses = [comb(count, i) * odds ** (count - i) / (1 + odds) ** count for i in range(count + 1)]
    lost = mp.fsum(max(mp.mpf(0), masses[i] - reached * masses[count - i]) for i in range(count + 1))
    return 1 - (1 - exact(delta)) ** count * (1 - lost)


@given(EPSILONS, st.one_of(st.just(Fraction(0)), DELTAS), COUNTS, st.fractions(min_value=0, max_value=1))
@settings(deadline=None)
def test_the_optimal_delta_is_that_of_randomised_response(
    epsilon: Fraction, delta: Fraction, count: int, share: Fraction
) -> None:
    total = share * count * epsilon
    with mp.workdps(100):
        truth, found = (
            hockey_stick(epsilon, delta, count, total),
            composition.optimal_delta(epsilon, count, delta=delta, total_epsilon=total),
        )
        assert truth - mp.mpf(10) ** -90 <= exact(found) <= truth * (1 + mp.mpf(10) ** -25) + mp.mpf(10) ** -50


@given(EPSILONS, st.one_of(st.just(Fraction(0)), DELTAS), COUNTS, DELTAS)
@settings(deadline=None)
def test_the_optimal_epsilon_reaches_its_delta_and_no_smaller_one_does(
    epsilon: Fraction, delta: Fraction, count: int, slack: Fraction
) -> None:
    total = 1 - (1 - delta) ** count * (1 - slack)
    found = composition.optimal(epsilon, count, delta=delta, total_delta=total)
    assert found <= epsilon * count
    with mp.workdps(100):
        assert hockey_stick(epsilon, delta, count, found) <= exact(total) * (1 + mp.mpf(10) ** -40)
        if found:
            assert hockey_stick(epsilon, delta, count, found * (1 - Fraction(1, 10**12))) > exact(total)
    basic = PrivacyLoss(epsilon=epsilon, delta=delta)
    assert found <= composition.advanced([basic] * count, slack).epsilon * CLOSE


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
def test_the_optimal_epsilon_agrees_with_the_library(epsilon: str, count: int) -> None:
    found = float(composition.optimal(epsilon, count, delta="1e-8", total_delta="1e-5"))
    one = pld.from_randomized_response(2 / (1 + mp.exp(float(epsilon))), 2, value_discretization_interval=1e-4)
    leaky = one.self_compose(count)
    library = leaky.get_epsilon_for_delta(1 - (1 - 1e-5) / (1 - 1e-8) ** count)
    assert found <= library * 1.000001 + 1e-9
    assert found >= library * 0.99 - 1e-9


@given(EPSILONS, COUNTS, DELTAS)
@settings(deadline=None, max_examples=50)
def test_more_mechanisms_lose_more(epsilon: Fraction, count: int, total: Fraction) -> None:
    found = composition.optimal(epsilon, count, total_delta=total)
    assert found <= composition.optimal(epsilon, count + 1, total_delta=total) * CLOSE
    assert found <= composition.optimal(epsilon * 2, count, total_delta=total) * CLOSE
    assert found * CLOSE >= composition.optimal(
        epsilon, count, total_delta=2 * total if total < Fraction(1, 2) else total
    )


def test_nothing_to_gain_and_nothing_left() -> None:
    assert composition.optimal(Fraction(1, 10), 7, total_delta=0) == Fraction(7, 10)
    assert composition.optimal(0, 7, total_delta=Fraction(1, 2)) == 0
    assert composition.optimal(1000, 10_000, total_delta=Fraction(1, 1000)) <= 10**7
    assert composition.optimal_delta(1, 2, delta=1, total_epsilon=1) == 1
    with pytest.raises(InvalidLossError, match="exceed the total"):
        composition.optimal(1, 3, delta="0.1", total_delta="0.1")


def test_advanced_composition_by_hand() -> None:
    many = composition.advanced(
        [PrivacyLoss(epsilon=Fraction(1, 100), delta=Fraction(1, 10**9))] * 1000, Fraction(1, 10**6)
    )
    mean = 1000 * 0.01 * mp.tanh(mp.mpf("0.005"))
    assert float(many.epsilon) == pytest.approx(float(mean + mp.sqrt(2 * mp.log(10**6) * 1000 * 0.0001)), rel=1e-12)
    assert many.delta >= 1 - (1 - Fraction(1, 10**6)) * (1 - Fraction(1, 10**9)) ** 1000
    few = composition.advanced([PrivacyLoss(epsilon=Fraction(1), delta=Fraction(1, 10**9))] * 2, Fraction(1, 10**6))
    assert few == PrivacyLoss(epsilon=Fraction(2), delta=Fraction(2, 10**9))


@given(st.lists(EPSILONS, min_size=1, max_size=8), DELTAS)
@settings(deadline=None)
def test_sequential_and_parallel(epsilons: list[Fraction], delta: Fraction) -> None:
    losses = [PrivacyLoss(epsilon=epsilon, delta=delta) for epsilon in epsilons]
    together = composition.sequential(losses)
    assert together == PrivacyLoss(epsilon=sum(epsilons, start=Fraction(0)), delta=len(losses) * delta)
    assert composition.parallel(losses) == PrivacyLoss(epsilon=max(epsilons), delta=delta)
    assert composition.advanced(losses, Fraction(1, 2)).epsilon <= together.epsilon


@given(EPSILONS, DELTAS, st.integers(1, 12), st.integers(1, 12))
@settings(deadline=None)
def test_groups_of_groups_are_groups(epsilon: Fraction, delta: Fraction, one: int, other: int) -> None:
    loss = PrivacyLoss(epsilon=epsilon, delta=delta)
    at_once, in_turn = composition.group(loss, one * other), composition.group(composition.group(loss, one), other)
    assert at_once.epsilon == in_turn.epsilon
    assert in_turn.delta <= at_once.delta * CLOSE
    assert at_once.delta <= in_turn.delta * CLOSE
    with mp.workdps(60):
        truth = exact(delta) * mp.fsum(mp.exp(i * exact(epsilon)) for i in range(one))
        assert min(truth, 1) <= exact(composition.group(loss, one).delta) * (1 + mp.mpf(10) ** -50)
    rho = PrivacyLoss(rho=epsilon)
    assert composition.group(rho, one) == PrivacyLoss(rho=one * one * epsilon)


def test_groups_by_hand() -> None:
    loss = composition.group(PrivacyLoss(epsilon=Fraction(0), delta=Fraction(1, 10)), 3)
    assert Fraction(3, 10) <= loss.delta <= Fraction(3, 10) * CLOSE
    assert composition.group(PrivacyLoss(epsilon=Fraction(9), delta=Fraction(1, 10)), 5).delta == 1
    assert composition.group(PrivacyLoss(epsilon=Fraction(9)), 10_000).delta == 0


def test_refusals() -> None:
    half, rho = PrivacyLoss(epsilon=Fraction(1, 2)), PrivacyLoss(rho=Fraction(1, 2))
    for refused in (
        lambda: composition.group(half, 0),
        lambda: composition.group(half, True),
        lambda: composition.group(PrivacyLoss(rho=Fraction(1), delta=Fraction(1, 9)), 2),
        lambda: composition.parallel([half, rho]),
        lambda: composition.advanced([rho], Fraction(1, 9)),
        lambda: composition.advanced([], Fraction(1, 9)),
        lambda: composition.advanced([half], Fraction(0)),
        lambda: composition.optimal(1, 0, total_delta=Fraction(1, 9)),
        lambda: composition.optimal(1, 10_001, total_delta=Fraction(1, 9)),
        lambda: composition.optimal_delta(1, 1, total_epsilon=-1),
        lambda: composition.optimal_delta(-1, 1, total_epsilon=1),
    ):
        with pytest.raises(InvalidLossError):
            refused()
    assert composition.group(PrivacyLoss(rho=Fraction(1), delta=Fraction(1, 9)), 1).rho == 1
