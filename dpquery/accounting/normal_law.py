"""The normal density, its tail and their ratio, each between a lower and an upper bound.

Arguments and bounds are fractions. The steps are proved in docs/proofs/directed.md. Every bound is off by less than
1e-45 of what it bounds, or, where a difference is taken, of the larger of the two numbers.
"""

from __future__ import annotations

from fractions import Fraction

from dpquery.accounting.directed_bounds import exp_down, exp_up, sqrt_down
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import sqrt_up

_PI = Fraction(31415926535897932384626433832795028841971693993751058209749445, 10**61)  # and less than one unit more
_PI_UP = _PI + Fraction(1, 10**61)
_BITS = 512
_ONE = 1 << _BITS
_SERIES_UP_TO = 4
_LEVELS = 300

Bounds = tuple[Fraction, Fraction]
"""a lower and an upper bound on one number"""


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
