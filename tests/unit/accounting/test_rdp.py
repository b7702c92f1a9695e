"""Rényi losses: never below the divergence itself, and close to it and to the library's conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import rdp
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import zcdp_to_approximate

EPSILONS = st.fractions(min_value=Fraction(1, 10**6), max_value=200)
ORDER = st.sampled_from([*rdp.ORDERS[::23], Fraction(2), Fraction(5, 2)])
DELTAS = st.integers(2, 10**15).map(lambda n: Fraction(1, n))
SOME_ORDERS = [Fraction(text) for text in ("1.001", "1.5", "2", "7", "64", "1000")]
SOME_EPSILONS = [Fraction(text) for text in ("1e-4", "0.1", "1", "4", "30")]
CLOSE = 1 + Fraction(1, 10**20)


def divergence(first: list[mp.mpf], second: list[mp.mpf], order: Fraction) -> mp.mpf:
    alpha = mp.mpf(order.numerator) / order.denominator
    return mp.log(mp.fsum(p**alpha * q ** (1 - alpha) for p, q in zip(first, second, strict=True))) / (alpha - 1)


def is_close_above(found: Fraction, truth: mp.mpf, factor: Fraction = CLOSE) -> bool:
    value = mp.mpf(found.numerator) / found.denominator
    return bool(truth <= value <= truth * factor.numerator / factor.denominator)


@pytest.mark.parametrize("order", SOME_ORDERS, ids=str)
@pytest.mark.parametrize("epsilon", SOME_EPSILONS, ids=str)
def test_randomised_response_attains_the_curve_of_pure_privacy(epsilon: Fraction, order: Fraction) -> None:
    with mp.workdps(80):
        odds = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
        truth = divergence([odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)], order)
        assert is_close_above(rdp.rdp_of_pure(epsilon, order), truth)


@pytest.mark.parametrize("order", SOME_ORDERS, ids=str)
@pytest.mark.parametrize("epsilon", SOME_EPSILONS, ids=str)
def test_laplace_against_its_integral(epsilon: Fraction, order: Fraction) -> None:
    shift, alpha = float(epsilon), float(order)
    place = np.concatenate([[0.0], np.geomspace(shift * 1e-9, shift, 400_001)])
    density = np.exp(-alpha * place + (alpha - 1) * (shift - place) - (alpha - 1) * shift) / 2
    middle = float(np.sum((density[1:] + density[:-1]) / 2 * np.diff(place)))
    outside = 0.5 + math.exp(-alpha * shift - (alpha - 1) * shift) / 2
    truth = shift + math.log(middle + outside) / (alpha - 1)
    assert float(rdp.rdp_of_laplace(epsilon, order)) == pytest.approx(truth, rel=1e-6, abs=1e-9 / (alpha - 1))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("order", SOME_ORDERS[:-1], ids=str)
@pytest.mark.parametrize("scale", ["0.3", "1", "8"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_discrete_laplace_against_its_sum(scale: str, steps: int, order: Fraction) -> None:
    with mp.workdps(120):
        width = mp.mpf(scale)
        reach = math.ceil(float(scale) * 200) + 2 * steps
        mass = [mp.exp(-abs(k) / width) for k in range(-reach, reach + 1)]
        moved = [mp.exp(-abs(k - steps) / width) for k in range(-reach, reach + 1)]
        ratio = mp.exp(-1 / width)
        norm = (1 - ratio) / (1 + ratio)
        truth = divergence([norm * m for m in mass], [norm * m for m in moved], order)
        found = rdp.rdp_of_discrete_laplace(Fraction(scale), steps, order)
        assert is_close_above(found * CLOSE, truth, 1 + Fraction(1, 10**15))
    if steps == 1:  # randomised response
        assert found == pytest.approx(rdp.rdp_of_pure(1 / Fraction(scale), order), rel=1e-25)


@given(EPSILONS, ORDER)
@settings(deadline=None, max_examples=40)
def test_discrete_noise_loses_more_than_continuous_noise_and_less_than_pure_privacy_allows(
    epsilon: Fraction, order: Fraction
) -> None:
    continuous, pure = rdp.rdp_of_laplace(epsilon, order), rdp.rdp_of_pure(epsilon, order)
    one, many = (rdp.rdp_of_discrete_laplace(steps / epsilon, steps, order) for steps in (1, 1000))
    assert continuous <= many * CLOSE <= one * CLOSE**2 <= pure * CLOSE**3
    assert pure <= min(epsilon, order * epsilon * epsilon / 2) * CLOSE


@given(EPSILONS, ORDER, ORDER)
@settings(deadline=None)
def test_curves_grow_with_the_order_and_with_epsilon(epsilon: Fraction, one: Fraction, other: Fraction) -> None:
    low, high = sorted([one, other])
    for curve in (rdp.rdp_of_pure, rdp.rdp_of_laplace):
        assert curve(epsilon, low) <= curve(epsilon, high) * CLOSE
        assert curve(epsilon, low) <= curve(epsilon * 2, low) * CLOSE


@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "1e-2"])
@pytest.mark.parametrize("rho", ["1e-6", "1e-3", "0.1", "1", "20"])
def test_the_curve_of_zcdp_leads_where_its_own_conversion_does(rho: str, delta: str) -> None:
    curve = {order: rdp.rdp_of_zcdp(Fraction(rho), order) for order in rdp.ORDERS}
    through, direct = (
        rdp.rdp_to_approximate(curve, Fraction(delta)),
        zcdp_to_approximate(Fraction(rho), Fraction(delta)),
    )
    assert direct - Fraction(1, 10**18) <= through * CLOSE or through == 0
    assert through <= direct * Fraction(101, 100)
    assert rdp.delta_of_rdp(curve, direct) <= Fraction(delta) * Fraction(105, 100)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("delta", ["1e-9", "1e-5", "0.01"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
@pytest.mark.parametrize("count", [1, 30, 1000])
def test_conversion_agrees_with_the_library(epsilon: str, count: int, delta: str) -> None:
    curve = {order: count * rdp.rdp_of_laplace(Fraction(epsilon), order) for order in rdp.ORDERS}
    orders = np.array([float(order) for order in curve])
    library, _ = rdp_privacy_accountant.compute_epsilon(orders, [float(e) for e in curve.values()], float(delta))
    found = float(rdp.rdp_to_approximate(curve, Fraction(delta)))
    assert library * (1 - 1e-9) <= found <= library * (1 + 1e-9) + 1e-12
    if found:
        back, _ = rdp_privacy_accountant.compute_delta(orders, [float(e) for e in curve.values()], found)
        ours = float(rdp.delta_of_rdp(curve, Fraction(found)))
        assert back * (1 - 1e-6) <= ours
        assert float(rdp.delta_of_rdp(curve, rdp.rdp_to_approximate(curve, Fraction(delta)))) <= float(delta) * 1.000001


@given(EPSILONS, DELTAS)
@settings(deadline=None)
def test_there_and_back(epsilon: Fraction, delta: Fraction) -> None:
    curve = {order: rdp.rdp_of_laplace(epsilon, order) for order in rdp.ORDERS[::9]}
    found = rdp.rdp_to_approximate(curve, delta)
    if found:
        assert rdp.delta_of_rdp(curve, found) <= delta * (1 + Fraction(1, 10**20))
    assert rdp.delta_of_rdp(curve, found + 1) <= rdp.delta_of_rdp(curve, found)


def test_curves_add_over_common_orders() -> None:
    one, two = (
        {Fraction(2): Fraction(1), Fraction(3): Fraction(2)},
        {Fraction(3): Fraction(5), Fraction(4): Fraction(1)},
    )
    assert rdp.compose_rdp([one, two]) == {Fraction(3): 7}
    assert set(rdp.compose_rdp([])) == set(rdp.ORDERS)
    with pytest.raises(InvalidLossError, match="one order"):
        rdp.rdp_to_approximate(
            rdp.compose_rdp([{Fraction(2): Fraction(1)}, {Fraction(3): Fraction(1)}]), Fraction(1, 9)
        )


def test_a_large_delta_needs_no_epsilon() -> None:
    curve = {Fraction(2): Fraction(1, 10)}
    assert rdp.rdp_to_approximate(curve, Fraction(32, 100)) == 0
    assert 1 - math.exp(-0.1) < 0.32**2


def test_gaussian_curve_and_domains() -> None:
    assert rdp.rdp_of_gaussian(Fraction(2), Fraction(9), Fraction(3)) == Fraction(2, 3)
    for order in (Fraction(1), Fraction(1, 2), Fraction(10**10)):
        with pytest.raises(InvalidLossError):
            rdp.rdp_of_pure(Fraction(1), order)
    for bad in (
        lambda: rdp.rdp_of_gaussian(Fraction(1), Fraction(0), Fraction(2)),
        lambda: rdp.rdp_of_laplace(Fraction(-1), Fraction(2)),
        lambda: rdp.rdp_of_discrete_laplace(Fraction(0), 1, Fraction(2)),
        lambda: rdp.rdp_to_approximate({Fraction(2): Fraction(1)}, Fraction(1)),
        lambda: rdp.delta_of_rdp({Fraction(2): Fraction(1)}, Fraction(-1)),
    ):
        with pytest.raises(InvalidLossError):
            bad()  # type: ignore[no-untyped-call]


def test_extreme_parameters_stay_bounds() -> None:
    for epsilon in (Fraction(1, 10**30), Fraction(10**6)):
        for order in (1 + Fraction(1, 10**6), Fraction(10**9)):
            assert 0 <= rdp.rdp_of_laplace(epsilon, order) <= epsilon * CLOSE
            assert rdp.rdp_of_pure(epsilon, order) <= epsilon * CLOSE
    assert rdp.rdp_of_discrete_laplace(Fraction(10**70), 1, Fraction(2)) < Fraction(1, 10**100)
    assert rdp.rdp_of_discrete_laplace(Fraction(1), 0, Fraction(2)) == 0
