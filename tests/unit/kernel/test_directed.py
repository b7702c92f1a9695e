"""Directed rounding: each bound is on its side, and close."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import mpmath as mp  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.errors import InvalidLossError
from dpquery.kernel import directed

WIDE = Context(prec=200, Emin=-999_999, Emax=999_999)
POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(bool)
EXPONENTS = st.fractions(min_value=-900, max_value=900)
PLACES = st.one_of(
    st.fractions(min_value=0, max_value=50),
    st.sampled_from(
        [Fraction(0), Fraction(1, 10**40), Fraction(4), Fraction(4) + Fraction(1, 10**30), Fraction(10**6)]
    ),
)


def wide(value: Fraction) -> Decimal:
    return WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))


def exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


@given(EXPONENTS)
@settings(deadline=None)
def test_exponentials_and_logarithms_enclose_the_truth(x: Fraction) -> None:
    truth = Fraction(WIDE.exp(wide(x)))
    assert directed.exp_down(x) < truth < directed.exp_up(x)
    assert directed.exp_up(x) - directed.exp_down(x) < truth / 10**55
    low, high = directed.exp_down(x), directed.exp_up(x)
    assert directed.ln_down(low) < x < directed.ln_up(high)


@given(POSITIVE)
@settings(deadline=None)
def test_roots_enclose_the_truth(value: Fraction) -> None:
    low, high = directed.sqrt_down(value), directed.sqrt_up(value)
    assert low * low <= value <= high * high
    assert high - low < high / 10**55


def test_what_is_too_large_is_refused_and_what_is_too_small_stays_a_bound() -> None:
    with pytest.raises(InvalidLossError, match="10000"):
        directed.exp_up(Fraction(10_001))
    assert directed.exp_down(Fraction(10_001)) <= directed.exp_up(Fraction(10_000))
    assert directed.exp_down(Fraction(-(10**9))) == 0 < directed.exp_up(Fraction(-(10**9)))
    with pytest.raises(InvalidLossError):
        directed.mills_ratio(Fraction(-1))
    assert directed.sqrt_down(Fraction(0)) == directed.sqrt_up(Fraction(0)) == 0


def test_what_is_known_exactly_is_given_exactly() -> None:
    assert directed.ln_up(Fraction(1)) == directed.ln_down(Fraction(1)) == 0
    assert directed.ln_up(1 - Fraction(1, 10**80)) == 0
    assert directed.ln_down(1 + Fraction(1, 10**80)) == 0


@given(PLACES)
@settings(deadline=None)
def test_mills_ratio_encloses_the_truth(x: Fraction) -> None:
    low, high = directed.mills_ratio(x)
    with mp.workdps(400):
        place = exact(x)
        if x <= 1000:
            truth = mp.erfc(place / mp.sqrt(2)) / 2 / mp.npdf(place)
            assert exact(low) <= truth <= exact(high)
        else:  # Gordon 1941
            assert exact(low) <= 1 / place
            assert exact(high) >= place / (1 + place**2)
    assert high - low < high / 10**45


@given(st.fractions(min_value=-40, max_value=40))
@settings(deadline=None)
def test_normal_tails_enclose_the_truth(x: Fraction) -> None:
    low, high = directed.normal_tail(x)
    with mp.workdps(500):
        truth = mp.erfc(exact(x) / mp.sqrt(2)) / 2
        assert exact(low) <= truth <= exact(high)
    assert high - low < high / 10**45


@given(PLACES, PLACES)
@settings(deadline=None)
def test_mills_ratio_falls(one: Fraction, other: Fraction) -> None:
    near, far = sorted([one, other])
    assert directed.mills_ratio(far)[0] <= directed.mills_ratio(near)[1]


@given(POSITIVE)
@settings(deadline=None)
def test_thirty_digits_are_kept_to_the_right_side(value: Fraction) -> None:
    low, high = directed.below(value), directed.above(value)
    assert low <= value <= high <= low * (1 + Fraction(2, 10**29))
    assert directed.above(low) == low
    assert directed.below(high) == high
