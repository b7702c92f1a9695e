"""Tails and quantiles against sums of decimal exponentials. Deterministic."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import accumulate

import pytest

from dpquery.errors import InternalError
from dpquery.kernel import tails

CONTEXT = Context(prec=420, Emin=-(10**9))
UNIT = 2**1300  # of the sums here; the package's own rounding is near 2^-950 and must show
RELATIVE = Fraction(1, 10**12)


def exact_exponential(x: Fraction) -> Fraction:
    """Returns exp(-x), correct to 400 digits."""
    return Fraction(CONTEXT.exp(CONTEXT.divide(Decimal(-x.numerator), Decimal(x.denominator))))


def laplace_ideal(scale: Fraction, k: int) -> Fraction:
    ratio = exact_exponential(1 / scale)
    beyond = exact_exponential(Fraction(max(k, 1 - k)) / scale) / (1 + ratio)
    return beyond if k > 0 else 1 - beyond


@cache
def gaussian_ideal(variance: Fraction) -> list[Fraction]:
    """Returns P(X >= k) for k = 0, 1, ..., summing terms down to exp(-700), to within 2^-1000."""
    reach = math.isqrt(int(1400 * variance)) + 2
    terms = [int(exact_exponential(Fraction(j * j) / (2 * variance)) * UNIT) for j in range(reach)]
    total = 2 * sum(terms) - UNIT
    return [Fraction(tail, total) for tail in accumulate(reversed(terms))][::-1]


@pytest.mark.parametrize("k", [-1000, -3, 0, 1, 2, 17, 200])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(10), Fraction(10**6, 7), Fraction(2**52)])
def test_laplace_tail_is_an_upper_bound_and_tight(scale: Fraction, k: int) -> None:
    ideal = laplace_ideal(scale, k)
    assert ideal <= tails.laplace_tail(scale, k) <= ideal * (1 + RELATIVE)


def test_laplace_tail_never_falls_to_zero() -> None:
    assert 0 < tails.laplace_tail(Fraction(1), 10**9) < Fraction(1, 2**980)


@pytest.mark.parametrize("variance", [Fraction(1, 2**20), Fraction(1, 10), Fraction(1), Fraction(99, 7), Fraction(400)])
def test_gaussian_tail_is_an_upper_bound_and_tight(variance: Fraction) -> None:
    for k, ideal in list(enumerate(gaussian_ideal(variance)))[1::3]:
        if ideal > Fraction(1, 2**400):
            assert ideal <= tails.gaussian_tail(variance, k) <= ideal * (1 + RELATIVE)


@pytest.mark.parametrize("variance", [Fraction(400), Fraction(4097)])
def test_gaussian_tail_by_the_normal_law_is_an_upper_bound(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "_SUMMED_VARIANCE", 0)
    ideals = gaussian_ideal(variance)
    deviation = math.isqrt(int(variance))
    for k in [*range(1, 12 * deviation, deviation // 5), deviation, deviation + 1]:
        allowed = 1 + Fraction(k * k) / (20 * variance**2) + 1 / (4 * variance)
        assert ideals[k] <= tails.gaussian_tail(variance, k) <= ideals[k] * allowed


def test_gaussian_tail_of_the_narrowest_law_stays_above_zero() -> None:
    assert 0 < tails.gaussian_tail(Fraction(1, 2**20), 1) < Fraction(1, 2**900)


def test_gaussian_tail_follows_the_normal_law_at_large_variance() -> None:
    variance = Fraction(2**60)
    for deviations in (0.25, 1.0, 2.0, 5.0, 20.0):
        k = int(deviations * 2**30)
        normal = math.erfc((k - 0.5) / 2**30 / math.sqrt(2)) / 2
        assert float(tails.gaussian_tail(variance, k)) == pytest.approx(normal, rel=1e-12)


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(100), Fraction(10**6), Fraction(2**100)])
def test_gaussian_tail_does_not_grow_and_never_falls_to_zero(variance: Fraction) -> None:
    deviation = math.isqrt(int(variance))
    bounds = [tails.gaussian_tail(variance, k) for k in range(-deviation, 60 * deviation, max(1, deviation // 3))]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == 1
    assert 0 < bounds[-1] < Fraction(1, 2**430)


@pytest.mark.parametrize(
    "probability", [Fraction(1), Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**9), Fraction(1, 2**256)]
)
@pytest.mark.parametrize("scale", [Fraction(1, 2**10), Fraction(1, 3), Fraction(1), Fraction(1000, 7), Fraction(2**52)])
def test_laplace_quantile_is_the_smallest(scale: Fraction, probability: Fraction) -> None:
    k = tails.laplace_quantile(scale, probability)
    assert 2 * laplace_ideal(scale, k + 1) <= probability
    assert k == 0 or 2 * laplace_ideal(scale, k) > probability


@pytest.mark.parametrize(
    "probability", [Fraction(1), Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**9), Fraction(1, 10**40)]
)
@pytest.mark.parametrize(
    ("variance", "slack"), [(Fraction(1, 9), 0), (Fraction(1), 0), (Fraction(300), 0), (Fraction(4097), 1)]
)
def test_gaussian_quantile_is_the_smallest_or_the_next(variance: Fraction, slack: int, probability: Fraction) -> None:
    k = tails.gaussian_quantile(variance, probability)
    ideals = gaussian_ideal(variance)
    assert 2 * ideals[k + 1] <= probability
    assert k <= slack or 2 * ideals[k - slack] > probability


def test_gaussian_quantile_follows_the_normal_law_at_large_variance() -> None:
    k = tails.gaussian_quantile(Fraction(2**100), Fraction(1, 20))
    assert k / 2**50 == pytest.approx(1.959963984540054, rel=1e-14)


@pytest.mark.parametrize("guess", [-5, 0, 3, 99, 100, 101, 10**6])
@pytest.mark.parametrize("smallest", [0, 1, 100])
def test_the_search_does_not_depend_on_its_guess(smallest: int, guess: int) -> None:
    assert tails.smallest(lambda k: k >= smallest, guess) == smallest


def test_the_root_of_two_pi() -> None:
    root = Fraction(tails._root_of_two_pi(), 2**1024)
    two_pi = Fraction(
        "6.283185307179586476925286766559005768394338798750211641949889184615632812572417997256069650684234135964296"
    )
    assert abs(root**2 - two_pi) < Fraction(1, 10**100)


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(-1), Fraction(2), Fraction(1, 2**257), 0.05])
def test_a_probability_out_of_range_is_refused(probability: Fraction) -> None:
    with pytest.raises(InternalError, match="probability"):
        tails.laplace_quantile(Fraction(1), probability)
    with pytest.raises(InternalError, match="probability"):
        tails.gaussian_quantile(Fraction(1), probability)


def test_a_quantile_that_is_kept_is_of_the_very_type() -> None:
    assert tails.laplace_quantile(Fraction(10), Fraction(1, 20)) == 30
    with pytest.raises(InternalError, match="scale"):
        tails.laplace_quantile(10, Fraction(1, 20))
    assert tails.laplace_quantile(Fraction(10), Fraction(1)) == 0
    with pytest.raises(InternalError, match="probability"):
        tails.laplace_quantile(Fraction(10), 1)


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(InternalError, match="scale"):
        tails.laplace_tail(Fraction(0), 1)
    with pytest.raises(InternalError, match="variance"):
        tails.gaussian_tail(Fraction(0), 1)
