"""Half-widths of numbers with noise in finer steps than their own, which are rounded after it was added.

A released whole number r = round(x + N) of an exact x, not always whole, is further from it than w = k + g, 0 <= g < 1,
where N is large enough for the first whole number beyond x + w, or small enough for the one before x - w. With f the
part of x behind the point, these are N >= k + 1/2 - f, or a step more from f = 1 - g on, and N <= -(k + 1/2 + f), or a
step less beyond f = g. Between such places the chance of both is convex in f, because tails of the laws are convex, so
it is largest at their ends. Where the noise is of few steps, that is worth more than half a step for any rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.noise_laws import LAWS

PARTS = 16
"""Of a step: half-widths are multiples of it."""
WIDEST = 16
"""Steps of noise beyond which half a step matters little."""
HALF = Fraction(1, 2)


@lru_cache(maxsize=1024)
def half_width(noise: NoiseLaw, failure: Fraction) -> Fraction:
    """Returns a w with P(|error| > w) <= failure, in lattice steps, of noise and rounding together.

    Example:
        >>> from dpquery.kernel.plan import Mechanism
        >>> three = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(3), steps=2**24)
        >>> float(half_width(three, Fraction(1, 20))), three.half_width(Fraction(1, 20))
        (9.25, 10)
    """
    plain = noise.half_width(failure)
    if noise.steps <= 1 or plain > 4 * WIDEST:
        return Fraction(plain)
    low, high = 0, plain * PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _outside(noise, Fraction(middle, PARTS)) <= failure else (middle, high)
    return Fraction(high, PARTS)


def _outside(noise: NoiseLaw, width: Fraction) -> Fraction:
    """Returns an upper bound on the probability that the error is larger, for the worst exact number."""
    whole = math.floor(width)
    part = width - whole
    largest = Fraction(0)
    ends = sorted({Fraction(0), part, 1 - part, Fraction(1)})
    for first, last in pairwise(ends):
        middle = (first + last) / 2
        above = whole + HALF + (1 if middle > 1 - part else 0)
        below = whole + HALF - (1 if middle > part else 0)
        largest = max(largest, *(_tail(noise, above - f) + _tail(noise, below + f) for f in (first, last)))
    return largest


def _tail(noise: NoiseLaw, least: Fraction) -> Fraction:
    """Returns an upper bound on P(noise >= least), in lattice steps."""
    return LAWS[noise.mechanism].tail(noise.sampled, math.floor(least * noise.steps))
