"""Exponentials, roots and shorter fractions, each rounded to the side that its name says.

Arguments and values are fractions. The steps are proved in docs/proofs/directed.md. Every bound is off by less than
1e-45 of what it bounds, or, where a difference is taken, of the larger of the two numbers.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import TRAPS, UPWARD, next_up, quotient

DOWNWARD = Context(prec=60, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=TRAPS)
_KEPT_UP = Context(prec=30, rounding=ROUND_CEILING, Emin=-999_999, Emax=999_999, traps=TRAPS)
_KEPT_DOWN = Context(prec=30, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=TRAPS)

LARGEST_EXPONENT = 10_000
SMALLEST_EXPONENT = -1_000
"""Below it e^x, which is under 1e-434, is not followed: it lies between 0 and e^-1000."""


def above(value: Fraction) -> Fraction:
    """Returns the smallest number of 30 decimal digits that is not below the value."""
    return Fraction(_KEPT_UP.divide(Decimal(value.numerator), Decimal(value.denominator)))


def below(value: Fraction) -> Fraction:
    """Returns the greatest number of 30 decimal digits that is not above the value."""
    return Fraction(_KEPT_DOWN.divide(Decimal(value.numerator), Decimal(value.denominator)))


def sqrt_down(value: Fraction) -> Fraction:
    """Returns a lower bound on the square root of a number of at least 0: a unit less than the nearest."""
    found = DOWNWARD.sqrt(quotient(DOWNWARD, value))
    return Fraction(DOWNWARD.next_minus(found)) if found else Fraction(0)


def exp_up(x: Fraction) -> Fraction:
    """Returns an upper bound on e^x; refuses x above LARGEST_EXPONENT."""
    if x > LARGEST_EXPONENT:
        raise InvalidLossError(f"a privacy loss above {LARGEST_EXPONENT} is not computed with")
    return next_up(UPWARD.exp(quotient(UPWARD, max(x, Fraction(SMALLEST_EXPONENT)))))


def exp_down(x: Fraction) -> Fraction:
    """Returns a lower bound on e^x; 0 for x below SMALLEST_EXPONENT."""
    if x < SMALLEST_EXPONENT:
        return Fraction(0)
    return Fraction(DOWNWARD.next_minus(DOWNWARD.exp(quotient(DOWNWARD, min(x, Fraction(LARGEST_EXPONENT))))))
