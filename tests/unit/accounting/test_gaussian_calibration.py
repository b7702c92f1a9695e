"""Gaussian noise for one release: the exact delta, and widths that are never too small."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting  # type: ignore[import-untyped]
import mpmath as mp  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import gaussian_calibration as gaussian
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import rho_within

EPSILONS = st.fractions(min_value=0, max_value=50, max_denominator=10**6)
MUS = st.fractions(min_value=Fraction(1, 10**6), max_value=30, max_denominator=10**6)
DELTAS = st.integers(2, 10**15).map(lambda n: Fraction(1, n))


def exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


def true_delta(mu: Fraction, epsilon: Fraction) -> mp.mpf:
    near, far = exact(epsilon / mu - mu / 2), exact(epsilon / mu + mu / 2)
    return mp.erfc(near / mp.sqrt(2)) / 2 - mp.exp(exact(epsilon)) * mp.erfc(far / mp.sqrt(2)) / 2


@given(MUS, EPSILONS)
@settings(deadline=None)
def test_delta_is_never_below_and_hardly_above(mu: Fraction, epsilon: Fraction) -> None:
    with mp.workdps(300):
        truth, found = true_delta(mu, epsilon), exact(gaussian.gaussian_delta(mu, epsilon))
        assert truth <= found * (1 + mp.mpf(10) ** -200)
        assert found <= truth * (1 + mp.mpf(10) ** -25) + mp.mpf(10) ** -300


@pytest.mark.thinned(2)
@pytest.mark.parametrize("delta", ["1e-15", "1e-6", "0.01", "0.4"])
@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "10", "100"])
def test_the_scale_is_within_and_nearly_the_smallest(epsilon: str, delta: str) -> None:
    small, allowed = Fraction(epsilon), Fraction(delta)
    scale = gaussian.gaussian_scale(Fraction(3), small, allowed)
    with mp.workdps(100):
        assert true_delta(3 / scale, small) <= exact(allowed)
        assert true_delta(3 / (scale * (1 - Fraction(1, 10**11))), small) > exact(allowed)
    library = 3 * dp_accounting.get_sigma_gaussian(float(epsilon), float(delta))
    assert float(scale) == pytest.approx(library, rel=1e-6)
    rho = rho_within(small, allowed)
    if rho > Fraction(1, 10**6):
        assert scale * scale <= 9 / (2 * rho) * (1 + Fraction(1, 10**9)), "the exact law beats the way through zCDP"


@given(MUS, DELTAS)
@settings(deadline=None, max_examples=15)
def test_there_and_back(mu: Fraction, delta: Fraction) -> None:
    epsilon = gaussian.gaussian_epsilon(mu, delta)
    assert gaussian.gaussian_delta(mu, epsilon) <= delta
    if epsilon:
        assert gaussian.gaussian_delta(mu, epsilon * (1 - Fraction(1, 10**9))) > delta
        assert gaussian.mu_within(epsilon, delta) >= mu * (1 - Fraction(1, 10**9))


@given(MUS, MUS, EPSILONS, EPSILONS)
@settings(deadline=None)
def test_delta_falls_in_epsilon_and_grows_with_sensitivity(a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> None:
    (less, more), (low, high) = sorted([a, b]), sorted([c, d])
    close = 1 + Fraction(1, 10**25)
    assert gaussian.gaussian_delta(less, high) <= gaussian.gaussian_delta(less, low) * close
    assert gaussian.gaussian_delta(less, low) <= gaussian.gaussian_delta(more, low) * close


@pytest.mark.parametrize("epsilon", ["0", "0.3", "1", "6"])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("variance", ["0.2", "1", "17", "400"])
def test_the_discrete_law_against_its_sum(variance: str, steps: int, epsilon: str) -> None:
    with mp.workdps(80):
        twice, factor = 2 * mp.mpf(variance), mp.exp(mp.mpf(epsilon))
        reach = 40 * math.ceil(math.sqrt(float(variance))) + steps
        mass = {k: mp.exp(-mp.mpf(k * k) / twice) for k in range(-reach - steps, reach + 1)}
        whole = mp.fsum(mass.values())
        truth = mp.fsum(max(mp.mpf(0), mass[k] - factor * mass[k - steps]) for k in range(-reach, reach + 1)) / whole
        found = exact(gaussian.discrete_gaussian_delta(Fraction(variance), steps, Fraction(epsilon)))
        assert truth - mp.mpf(10) ** -60 <= found <= truth * (1 + mp.mpf(10) ** -20) + mp.mpf(10) ** -60


@pytest.mark.parametrize(("steps", "epsilon"), [(1, "0.5"), (1, "3"), (4, "1")])
def test_the_variance_of_the_discrete_law_suffices(steps: int, epsilon: str) -> None:
    small, allowed = Fraction(epsilon), Fraction(1, 10**6)
    variance = gaussian.discrete_gaussian_variance(steps, small, allowed)
    assert gaussian.discrete_gaussian_delta(variance, steps, small) <= allowed
    continuous = gaussian.gaussian_scale(Fraction(steps), small, allowed) ** 2
    assert continuous * (1 - Fraction(1, 10**25)) <= variance <= continuous * Fraction(105, 100)


def test_the_continuous_scale_does_not_suffice_for_the_discrete_law() -> None:
    variance = gaussian.gaussian_scale(Fraction(1), Fraction(1), Fraction(1, 10**6)) ** 2
    assert gaussian.discrete_gaussian_delta(variance, 1, Fraction(1)) > Fraction(101, 10**8)


def test_edges_and_refusals() -> None:
    one, small = Fraction(1), Fraction(1, 10**6)
    assert gaussian.gaussian_delta(Fraction(0), one) == gaussian.gaussian_epsilon(Fraction(0), small) == 0
    assert gaussian.gaussian_delta(Fraction(10**6), one) == 1
    assert gaussian.gaussian_delta(Fraction(1, 10**9), one) < Fraction(1, 10**400)
    assert gaussian.discrete_gaussian_delta(one, 0, one) == 0
    for refused in (
        lambda: gaussian.gaussian_delta(-one, one),
        lambda: gaussian.gaussian_delta(one, Fraction(1001)),
        lambda: gaussian.gaussian_epsilon(one, Fraction(0)),
        lambda: gaussian.gaussian_epsilon(Fraction(10**6), small),
        lambda: gaussian.gaussian_scale(Fraction(0), one, small),
        lambda: gaussian.mu_within(one, Fraction(1, 10**31)),
        lambda: gaussian.discrete_gaussian_delta(Fraction(5000), 1, one),
        lambda: gaussian.discrete_gaussian_variance(0, one, small),
    ):
        with pytest.raises(InvalidLossError):
            refused()  # type: ignore[no-untyped-call]
