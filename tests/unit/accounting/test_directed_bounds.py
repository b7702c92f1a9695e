"""Directed rounding: each bound is on its side, and close."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import directed_bounds as bounds
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import ln_up, sqrt_up

WIDE = Context(prec=200, Emin=-999_999, Emax=999_999)
POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(bool)
EXPONENTS = st.fractions(min_value=-900, max_value=900)


def wide(value: Fraction) -> Decimal:
    return WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))


@given(EXPONENTS)
@settings(deadline=None)
def test_exponentials_and_logarithms_enclose_the_truth(x: Fraction) -> None:
    truth = Fraction(WIDE.exp(wide(x)))
    assert bounds.exp_down(x) < truth < bounds.exp_up(x)
    assert bounds.exp_up(x) - bounds.exp_down(x) < truth / 10**55
    assert x < ln_up(bounds.exp_up(x)) < x + Fraction(1, 10**50)


@given(POSITIVE)
@settings(deadline=None)
def test_roots_enclose_the_truth(value: Fraction) -> None:
    low, high = bounds.sqrt_down(value), sqrt_up(value)
    assert low * low <= value <= high * high
    assert high - low < high / 10**55


def test_what_is_too_large_is_refused_and_what_is_too_small_stays_a_bound() -> None:
    with pytest.raises(InvalidLossError, match="10000"):
        bounds.exp_up(Fraction(10_001))
    assert bounds.exp_down(Fraction(10_001)) <= bounds.exp_up(Fraction(10_000))
    assert bounds.exp_down(Fraction(-(10**9))) == 0 < bounds.exp_up(Fraction(-(10**9)))
    assert bounds.sqrt_down(Fraction(0)) == sqrt_up(Fraction(0)) == 0


@given(POSITIVE)
@settings(deadline=None)
def test_thirty_digits_are_kept_to_the_right_side(value: Fraction) -> None:
    low, high = bounds.below(value), bounds.above(value)
    assert low <= value <= high <= low * (1 + Fraction(2, 10**29))
    assert bounds.above(low) == low
    assert bounds.below(high) == high
