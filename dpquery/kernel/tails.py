"""How far the noise can go: tails of the two laws of `samplers`, rounded up, and their quantiles.

No randomness, and no floating point but in first guesses: what is returned follows from integers alone.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

from dpquery.errors import InternalError
from dpquery.kernel.samplers import EXPONENTIAL_ERROR, PRECISION, check_scale, check_variance, exponential

MIN_PROBABILITY = Fraction(1, 2**256)  # below it the samplers promise nothing

_ONE = 1 << PRECISION
_SUMMED_VARIANCE = 2**12  # up to here tails of the Gaussian are sums of all their terms
_SUM_ERROR = 2**80  # more than all rounding in `_gaussian_sums`, in units of 2^-PRECISION
NORMAL_FOLLOWED = 600  # squares from which the normal tail, about 2^-439, is no longer followed
NORMAL_TAIL_ERROR = Fraction(1, 2**480)  # by which `normal_tail` is too large at most, below such squares


def laplace_tail(scale: Fraction, k: int) -> Fraction:
    """Returns an upper bound on P(X >= k) for the discrete Laplace law, too large by at most 2^-980.

    Example:
        >>> f"{float(laplace_tail(Fraction(10), 100)):.3e}"
        '2.383e-05'
    """
    check_scale(scale)
    ratio = exponential(1 / scale)
    if k <= 0:  # one minus a lower bound on P(X >= 1 - k)
        power = exponential((1 - k) / scale) - EXPONENTIAL_ERROR
        return 1 - Fraction(max(0, power), _ONE + ratio + EXPONENTIAL_ERROR)
    return Fraction(exponential(k / scale) + EXPONENTIAL_ERROR, _ONE + ratio - EXPONENTIAL_ERROR)


def gaussian_tail(variance: Fraction, k: int) -> Fraction:
    """Returns an upper bound on P(X >= k) for the discrete Gaussian law.

    Up to a variance of 2^12 it is too large by at most 2^-500; above, by the relative amount of about
    k^2 / (24 variance^2), and never below 2^-439. For k <= 0 it is 1.

    Source:
        Sharpens the tail bound of Canonne, Kamath, Steinke 2020; docs/proofs/samplers.md.
    """
    check_variance(variance)
    if k <= 0:
        return Fraction(1)
    if variance <= _SUMMED_VARIANCE:
        total, tails = _gaussian_sums(variance)
        return Fraction(tails[min(k, len(tails) - 1)] + _SUM_ERROR, total - _SUM_ERROR)
    return normal_tail(Fraction((2 * k - 1) ** 2) / (4 * variance))


@lru_cache(maxsize=1024, typed=True)
def laplace_quantile(scale: Fraction, probability: Fraction) -> int:
    """Returns the smallest k >= 0 with P(|X| > k) <= probability, from MIN_PROBABILITY to 1."""
    check_scale(scale)
    _check_probability(probability)
    guess = float(scale) * math.log(2 / (float(probability) * (1 + math.exp(-1 / scale)))) - 1
    return smallest(lambda k: 2 * laplace_tail(scale, k + 1) <= probability, round(guess))


@lru_cache(maxsize=1024, typed=True)
def gaussian_quantile(variance: Fraction, probability: Fraction) -> int:
    """Returns the smallest k >= 0 for which `gaussian_tail` shows P(|X| > k) <= probability.

    That is the smallest k at all, or above a variance of 2^12 the one after it; from MIN_PROBABILITY to 1.
    """
    check_variance(variance)
    _check_probability(probability)
    if probability == 1:
        return 0
    guess = -math.sqrt(variance) * NormalDist().inv_cdf(float(probability) / 2) - 0.5
    return smallest(lambda k: 2 * gaussian_tail(variance, k + 1) <= probability, round(guess))


def _check_probability(probability: Fraction) -> None:
    if not isinstance(probability, Fraction) or not MIN_PROBABILITY <= probability <= 1:
        raise InternalError(f"a tail probability must be a Fraction in [2^-256, 1], not {probability!r}")


def smallest(holds: Callable[[int], bool], guess: int) -> int:
    """Returns the smallest k >= 0 with holds(k), where `holds` stays true once it is; steps away from `guess`."""
    high, step = max(0, guess), 1
    while not holds(high):
        high, step = high + step, 2 * step
    low, step = high - 1, 1
    while low >= 0 and holds(low):
        high, low, step = low, low - step, 2 * step
    low = max(low, -1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=32)
def _gaussian_sums(variance: Fraction) -> tuple[int, list[int]]:
    """Returns a lower bound on the sum of exp(-j^2 / (2 variance)) over all j, and upper bounds over j >= k.

    In units of 2^-PRECISION, before rounding, which is less than _SUM_ERROR. Terms below 2^-512 are left out of
    the first; in the others a geometric series stands for them, and its value for all later k.
    """
    term, ratio, step = _ONE, exponential(1 / (2 * variance)), exponential(1 / variance)
    terms = []
    while term >> PRECISION // 2:
        terms.append(term)
        term, ratio = term * ratio >> PRECISION, ratio * step >> PRECISION
    remainder = term * _ONE // (_ONE - ratio)
    tails = [*accumulate(reversed(terms), initial=remainder)]
    return 2 * sum(terms) - _ONE, tails[::-1]


def normal_tail(square: Fraction) -> Fraction:
    """Returns an upper bound on P(N >= x) for standard normal N and x = sqrt(square), too large by 2^-480 at most.

    One half minus a lower bound on the mass of [0, x), which is the density at x times the sum of
    x^(2n+1) / (1 * 3 * ... * (2n+1)) over all n >= 0: every term is positive and rounded down.
    """
    square = min(square, Fraction(NORMAL_FOLLOWED))
    fixed = (square.numerator << PRECISION) // square.denominator
    term = math.isqrt(fixed << PRECISION)
    total, odd = 0, 1
    while term:
        total, odd = total + term, odd + 2
        term = (term * fixed >> PRECISION) // odd
    density = (exponential(square / 2) - EXPONENTIAL_ERROR) * _ONE // (_root_of_two_pi() + 2)
    return Fraction(1, 2) - Fraction(density * total, _ONE * _ONE)


@lru_cache(maxsize=1)
def _root_of_two_pi() -> int:
    """Returns sqrt(2 pi) in units of 2^-PRECISION, off by less than two (Machin 1706, with 32 guard bits)."""
    pi = 4 * (4 * _arccotangent(5) - _arccotangent(239))
    return math.isqrt(2 * pi << PRECISION - 32)


def _arccotangent(n: int) -> int:
    power = total = (1 << PRECISION + 32) // n
    odd, sign = 1, 1
    while power:
        power, odd, sign = power // (n * n), odd + 2, -sign
        total += sign * (power // odd)
    return total
