"""Logarithms and roots, rounded up.

Arguments and values are fractions. The steps are proved in docs/proofs/directed.md. Every bound is off by less than
1e-45 of what it bounds. What is rounded down, and exponentials, are in `accounting/directed_bounds.py`.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction

TRAPS = [InvalidOperation, DivisionByZero]
UPWARD = Context(prec=60, rounding=ROUND_CEILING, Emin=-999_999, Emax=999_999, traps=TRAPS)


def ln_up(value: Fraction) -> Fraction:
    """Returns an upper bound on ln(value): the quotient rounds up, ln rounds to nearest, one unit more exceeds it."""
    return next_up(UPWARD.ln(quotient(UPWARD, value)))


def sqrt_up(value: Fraction) -> Fraction:
    """Returns an upper bound on the square root, in the same way."""
    return next_up(UPWARD.sqrt(quotient(UPWARD, value)))


def quotient(context: Context, value: Fraction) -> Decimal:
    """Returns a fraction with the digits and the direction of a context."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def next_up(found: Decimal) -> Fraction:
    """Returns the number after it. 0 is exact, ln(1) or the root of 0, and the number after it has a million digits."""
    return Fraction(UPWARD.next_plus(found)) if found else Fraction(0)
