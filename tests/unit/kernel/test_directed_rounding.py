"""Logarithms and roots that are rounded up: never below the truth, and close."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.kernel import directed_rounding

WIDE = Context(prec=200, Emin=-999_999, Emax=999_999)
POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(bool)


def wide(value: Fraction) -> Decimal:
    return WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))


@given(POSITIVE.filter(lambda value: value != 1))
@settings(deadline=None)
def test_logarithms_are_not_below_the_truth(value: Fraction) -> None:
    truth = Fraction(WIDE.ln(wide(value)))
    assert truth < directed_rounding.ln_up(value) < truth + Fraction(1, 10**50)


@given(POSITIVE)
@settings(deadline=None)
def test_roots_are_not_below_the_truth(value: Fraction) -> None:
    high = directed_rounding.sqrt_up(value)
    assert value <= high * high <= value * (1 + Fraction(1, 10**55))


def test_what_is_known_exactly_is_given_exactly() -> None:
    assert directed_rounding.ln_up(Fraction(1)) == directed_rounding.sqrt_up(Fraction(0)) == 0
    assert directed_rounding.ln_up(1 - Fraction(1, 10**80)) == 0
