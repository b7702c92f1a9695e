"""Directed rounding: each bound is on its side, and close."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.errors import InvalidLossError
from dpquery.kernel import directed

WIDE = Context(prec=200, Emin=-999_999, Emax=999_999)
POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(bool)
EXPONENTS = st.fractions(min_value=-900, max_value=900)


def wide(value: Fraction) -> Decimal:
    return WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))


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
    assert directed.sqrt_down(Fraction(0)) == directed.sqrt_up(Fraction(0)) == 0


def test_what_is_known_exactly_is_given_exactly() -> None:
    assert directed.ln_up(Fraction(1)) == directed.ln_down(Fraction(1)) == 0
    assert directed.ln_up(1 - Fraction(1, 10**80)) == 0
    assert directed.ln_down(1 + Fraction(1, 10**80)) == 0


@given(POSITIVE)
@settings(deadline=None)
def test_thirty_digits_are_kept_to_the_right_side(value: Fraction) -> None:
    low, high = directed.below(value), directed.above(value)
    assert low <= value <= high <= low * (1 + Fraction(2, 10**29))
    assert directed.above(low) == low
    assert directed.below(high) == high
