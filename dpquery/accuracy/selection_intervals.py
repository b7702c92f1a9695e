"""Intervals of the numbers that decided which groups are shown: they hold among those that are.

A group is shown where r = x + N is at least tau, so what is seen of N has the law of N given that. Let w be the
half-width of N by itself, and p(x) the chance of N < -w given that the group is shown. An x is spoken against where
r > x + c, with P(N > c given shown) <= failure - p(x), or r < x - w: together with the probability of a failure at
most, at each x. N is log-concave, so P(N >= r - x) / P(N >= tau - x) rises with x, and so does p: what is left is all
from the least such x to r + w. Below tau + 3 scales or so, noise may be all of a number: there it begins at 1.

Source:
    Fithian, Sun, Taylor 2014, "Optimal inference after model selection"; docs/concepts/accuracy.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.accuracy.rules import Floats, Interval
from dpquery.kernel.mechanisms import NoiseLaw

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
    return shape_of(noise.mechanism).up_to(float(noise.parameter), -k)
