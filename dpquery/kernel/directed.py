"""Exponentials, logarithms, roots and the normal law, each rounded to the side that its name says.

Arguments and values are fractions. The steps are proved in docs/proofs/directed.md. Every bound is off by less than
1e-45 of what it bounds, or, where a difference is taken, of the larger of the two numbers.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction

from dpquery.errors import InvalidLossError

_TRAPS = [InvalidOperation, DivisionByZero]
UPWARD = Context(prec=60, rounding=ROUND_CEILING, Emin=-999_999, Emax=999_999, traps=_TRAPS)
DOWNWARD = Context(prec=60, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=_TRAPS)
_KEPT_UP = Context(prec=30, rounding=ROUND_CEILING, Emin=-999_999, Emax=999_999, traps=_TRAPS)
_KEPT_DOWN = Context(prec=30, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=_TRAPS)

LARGEST_EXPONENT = 10_000
SMALLEST_EXPONENT = -1_000
"""Below it e^x, which is under 1e-434, is not followed: it lies between 0 and e^-1000."""

_PI = Fraction(31415926535897932384626433832795028841971693993751058209749445, 10**61)  # and less than one unit more
_PI_UP = _PI + Fraction(1, 10**61)
_BITS = 512
_ONE = 1 << _BITS
_SERIES_UP_TO = 4
_LEVELS = 300

Bounds = tuple[Fraction, Fraction]
"""a lower and an upper bound on one number"""


def above(value: Fraction) -> Fraction:
    """Returns the smallest number of 30 decimal digits that is not below the value."""
    return Fraction(_KEPT_UP.divide(Decimal(value.numerator), Decimal(value.denominator)))


def below(value: Fraction) -> Fraction:
    """Returns the greatest number of 30 decimal digits that is not above the value."""
    return Fraction(_KEPT_DOWN.divide(Decimal(value.numerator), Decimal(value.denominator)))


def ln_up(value: Fraction) -> Fraction:
    """Returns an upper bound on ln(value): the quotient rounds up, ln rounds to nearest, one unit more exceeds it."""
    return _next_up(UPWARD.ln(_quotient(UPWARD, value)))


def ln_down(value: Fraction) -> Fraction:
    """Returns a lower bound on ln(value), in the same way."""
    found = DOWNWARD.ln(_quotient(DOWNWARD, value))
    return Fraction(DOWNWARD.next_minus(found)) if found else Fraction(0)


def sqrt_up(value: Fraction) -> Fraction:
    """Returns an upper bound on the square root, in the same way."""
    return _next_up(UPWARD.sqrt(_quotient(UPWARD, value)))


def sqrt_down(value: Fraction) -> Fraction:
    """Returns a lower bound on the square root of a number of at least 0, in the same way."""
    found = DOWNWARD.sqrt(_quotient(DOWNWARD, value))
    return Fraction(DOWNWARD.next_minus(found)) if found else Fraction(0)


def exp_up(x: Fraction) -> Fraction:
    """Returns an upper bound on e^x; refuses x above LARGEST_EXPONENT."""
    if x > LARGEST_EXPONENT:
        raise InvalidLossError(f"a privacy loss above {LARGEST_EXPONENT} is not computed with")
    return _next_up(UPWARD.exp(_quotient(UPWARD, max(x, Fraction(SMALLEST_EXPONENT)))))


def exp_down(x: Fraction) -> Fraction:
    """Returns a lower bound on e^x; 0 for x below SMALLEST_EXPONENT."""
    if x < SMALLEST_EXPONENT:
        return Fraction(0)
    return Fraction(DOWNWARD.next_minus(DOWNWARD.exp(_quotient(DOWNWARD, min(x, Fraction(LARGEST_EXPONENT))))))


def normal_density(x: Fraction) -> Bounds:
    """Returns bounds on exp(-x^2 / 2) / sqrt(2 pi)."""
    low, high = exp_down(-x * x / 2), exp_up(-x * x / 2)
    return low / sqrt_up(2 * _PI_UP), high / sqrt_down(2 * _PI)


def normal_tail(x: Fraction) -> Bounds:
    """Returns bounds on P(N >= x) for a standard normal N."""
    (low, high), (thin, thick) = mills_ratio(abs(x)), normal_density(x)
    low, high = low * thin, min(high * thick, Fraction(1, 2))
    return (low, high) if x >= 0 else (1 - high, 1 - low)


def mills_ratio(x: Fraction) -> Bounds:
    """Returns bounds on P(N >= x) divided by the normal density at x, for x of at least 0; it falls in x.

    Source:
        Abramowitz, Stegun 1964, 26.2.11 (the series) and 26.2.14 (the continued fraction); docs/proofs/directed.md.
    """
    if x < 0:
        raise InvalidLossError("Mills' ratio is computed for x of at least 0")
    fixed = (x.numerator << _BITS) // x.denominator
    if x > _SERIES_UP_TO:
        return Fraction(_continued(fixed + 1)[0], _ONE), Fraction(_continued(fixed)[1], _ONE)
    low, high = _series(fixed)[0], _series(fixed + 1)[1]
    area_low, area_high = exp_down(x * x / 2) * sqrt_down(_PI / 2), exp_up(x * x / 2) * sqrt_up(_PI_UP / 2)
    return area_low - Fraction(high, _ONE), area_high - Fraction(low, _ONE)


def _series(x: int) -> tuple[int, int]:
    """Returns bounds on the sum of x^(2n+1) / (1 * 3 * ... * (2n+1)), all in units of 2^-_BITS, x up to 4.

    Each term is rounded down in one sum and up in the other; once the quotient of two terms is below one half, all
    that is left out is less than the last term.
    """
    low = high = term_low = term_high = x
    odd = 1
    while term_low or 2 * x * x >= odd * _ONE * _ONE:
        odd += 2
        term_low = (term_low * x >> _BITS) * x // (odd << _BITS)
        term_high = -(-term_high * x * x // (odd << 2 * _BITS))
        low, high = low + term_low, high + term_high
    return low, high + term_high


def _continued(x: int) -> tuple[int, int]:
    """Returns bounds on 1 / (x + 1 / (x + 2 / (x + 3 / ...))), all in units of 2^-_BITS.

    The part from level n on lies between x and x + n / x; from there inwards a lower bound gives an upper one.
    """
    square = 1 << 2 * _BITS
    low, high = x, x - (-_LEVELS * square // x)
    for level in range(_LEVELS - 1, 0, -1):
        low, high = x + level * square // high, x - (-level * square // low)
    return square // high, -(-square // low)


def _quotient(context: Context, value: Fraction) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _next_up(found: Decimal) -> Fraction:
    """Returns the number after it. 0 is exact, ln(1) or the root of 0, and the number after it has a million digits."""
    return Fraction(UPWARD.next_plus(found)) if found else Fraction(0)
