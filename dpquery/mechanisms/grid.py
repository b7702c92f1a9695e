"""Values as integers: the grid, how many steps a sensitivity is, and back. docs/proofs/values.md, "The grid"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import ParameterError
from dpquery.kernel.directed_rounding import sqrt_up

LARGEST = 2**61
"""Steps beyond are cut: no sum with noise overflows."""
_FINER = 1024
"""A step is at most this part of the sensitivity and of each cell that differs: rounding adds a thousandth to it."""
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGrid:
    """A value as integers.

    Attributes:
        steps: Shape (cells,), at most LARGEST in magnitude.
        exponent: One step is 2^exponent.
        are_whole: Whether the value consists of integers, and one step is 1.
        is_number: Whether a single number was given.
    """

    steps: Integers
    exponent: int
    are_whole: bool
    is_number: bool

    def back(self, steps: Integers) -> Any:
        """Returns steps in the form of the value: an int or float, or an array of integers or floats."""
        found = steps if self.are_whole else np.ldexp(steps.astype(np.float64), self.exponent)
        return found[0].item() if self.is_number else found

    def l1(self, sensitivity: Fraction, moved: int) -> int:
        """Returns how many steps neighbours differ by at most, added up over cells of which `moved` differ."""
        if self.are_whole:
            return max(1, math.floor(sensitivity))
        return math.ceil(sensitivity / self.unit) + moved - 1

    def l2(self, sensitivity: Fraction, moved: int) -> Fraction:
        """Returns the largest Euclidean distance of neighbours, in steps; rounded up."""
        return sensitivity if self.are_whole else sensitivity / self.unit + sqrt_up(Fraction(moved))

    @property
    def unit(self) -> Fraction:
        """One step, in the unit of the value."""
        return Fraction(2) ** self.exponent


def on_grid(value: Any, sensitivity: Fraction, *, moved: int = 1) -> OnGrid:
    """Returns a number, or a vector of numbers, as integers.

    Args:
        value: An int, float, list or array of one dimension. Integers stay as they are.
        sensitivity: Of the value, in its unit; the grid follows from it and `moved` alone.
        moved: In how many cells neighbours differ at most.
    Raises:
        ParameterError: No such number, or NaN, or infinite: whether one is follows from the data. Clamp before.
    """
    given = np.asarray(value)
    if given.ndim > 1 or given.dtype.kind not in "iuf" or given.size == 0:
        raise ParameterError("a value is a number or a list of numbers; booleans and texts are none")
    cells = np.atleast_1d(given)
    if given.dtype.kind in "iu":
        if cells.dtype == np.uint64:
            cells = np.minimum(cells, LARGEST)
        return OnGrid(steps=_cut(cells.astype(np.int64)), exponent=0, are_whole=True, is_number=given.ndim == 0)
    if not np.isfinite(cells).all():
        raise ParameterError("a value is not finite", advice="Clamp it to public bounds before.")
    aim = sensitivity / (_FINER * moved)
    exponent = max(-900, math.floor(math.log2(aim.numerator) - math.log2(aim.denominator)))
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is cut
        floors = np.floor(np.ldexp(cells.astype(np.float64), -exponent))
    steps = np.clip(floors, -float(LARGEST), float(LARGEST)).astype(np.int64)
    return OnGrid(steps=steps, exponent=exponent, are_whole=False, is_number=given.ndim == 0)


def cells_moved(asked: int | None, cells: int) -> int:
    """Returns in how many cells neighbours differ at most, which is all of them where nothing was said."""
    if asked is None:
        return cells
    if type(asked) is not int or not asked >= 1:
        raise ParameterError("cells_moved is a whole number of at least 1")
    return min(asked, cells)


def _cut(steps: Integers) -> Integers:
    return np.clip(steps, -LARGEST, LARGEST)
