"""Intervals of the numbers that decided which groups are shown: they hold among those that are.

A group is shown where r = x + N is at least tau, so what is seen of N has the law of N given that. Let w be the
half-width of N by itself, and p(x) the chance of N < -w given that the group is shown. An x is spoken against where
r > x + c, with P(N > c given shown) <= failure - p(x), or r < x - w: together with the probability of a failure at
most, for each x. N is log-concave, so P(N >= r - x) / P(N >= tau - x) rises with x, and so does p: what is left is all
from the least such x to r + w. Below tau + 3 scales or so, noise may be all of a number: there it begins at 1.

Source:
    Fithian, Sun, Taylor 2014, "Optimal inference after model selection"; docs/concepts/accuracy.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.rules import Floats, Interval
from dpquery.errors import InternalError
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism

LARGEST_SUMMED = 60.0
"""Up to this deviation tails of the discrete Gaussian are sums; above, those of the normal law differ by less than the
margin as far as a threshold may be."""
FARTHEST = 38
"""Deviations to which they are summed: beyond they are smaller than any float."""
MARGIN = 1e-3
"""Part of the failure that is kept for errors of these tails."""


def shown_interval(noise: NoiseLaw, tau: int, released: Floats, failure: Fraction) -> Interval:
    """Returns the interval of each number, which is at least tau, shape (groups,).

    Args:
        noise: In whole steps.
        failure: With which probability the interval of a shown group may not hold.
    """
    width, allowed = noise.half_width(failure), float(failure) * (1 - MARGIN)
    below = 1 - _tail(noise, np.array([-float(width)]))[0]

    def is_left(x: Floats) -> NDArray[np.bool_]:
        passed = _tail(noise, tau - x)
        low = np.maximum(0.0, below - (1 - passed))
        found: NDArray[np.bool_] = _tail(noise, released - x) + low > allowed * passed
        return found

    out, left = np.zeros_like(released), np.maximum(released, 1.0)
    while (open := left - out > 1).any():
        middle = np.where(open, np.floor((out + left) / 2), left)
        kept = is_left(middle)
        out, left = np.where(kept, out, middle), np.where(kept & open, middle, left)
    return Interval(left, released + width)


def _tail(noise: NoiseLaw, k: Floats) -> Floats:
    """Returns P(noise >= k) for whole k."""
    match noise.mechanism:
        case Mechanism.LAPLACE:
            decay = -1 / float(noise.parameter)
            share = 1 / (1 + math.exp(decay))
            found: Floats = np.where(
                k > 0, np.exp(decay * np.maximum(k, 0)) * share, 1 - np.exp(decay * np.maximum(1 - k, 0)) * share
            )
            return found
        case Mechanism.GAUSSIAN:
            deviation = math.sqrt(float(noise.parameter))
            if deviation > LARGEST_SUMMED:
                places = (k - 0.5) / (deviation * math.sqrt(2))
                return np.array([math.erfc(place) for place in places.tolist()]) / 2
            reach = math.ceil(FARTHEST * deviation)
            density = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * float(noise.parameter)))
            above = density[::-1].cumsum()[::-1] / density.sum()
            return np.where(k > reach, 0.0, above[np.clip(k, -reach, reach).astype(np.int64) + reach])
        case Mechanism.EXPONENTIAL:
            raise InternalError("a choice decides about no group")
