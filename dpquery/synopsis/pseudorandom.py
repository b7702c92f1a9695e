"""Numbers that are scattered as if drawn by chance, and follow from a start: for sampling what was released already.

No noise comes from here. The same start has the same numbers, so that synthetic rows follow from their transcript.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


class Scattered:
    """Numbers from a start on.

    Source:
        Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators": SplitMix64.

    Example:
        >>> Scattered(7).numbers(1) == Scattered(7).numbers(1), sorted(Scattered(7).order(3).tolist())
        (array([ True]), [0, 1, 2])
    """

    def __init__(self, start: int) -> None:
        self._at = start % 2**64

    def numbers(self, count: int) -> NDArray[np.float64]:
        """Returns the next numbers, from 0 to below 1; shape (count,)."""
        at = np.uint64(self._at) + np.arange(1, count + 1, dtype=np.uint64) * _STEP
        self._at = (self._at + count * int(_STEP)) % 2**64
        at = (at ^ (at >> _SHIFTS[0])) * _MIX[0]
        at = (at ^ (at >> _SHIFTS[1])) * _MIX[1]
        scattered: NDArray[np.float64] = ((at ^ (at >> _SHIFTS[2])) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return scattered

    def order(self, count: int) -> NDArray[np.int64]:
        """Returns places in a scattered order; shape (count,)."""
        return np.argsort(self.numbers(count), kind="stable")
