"""Weights of a stored table's rows under which a column adds up to a bounded total for each privacy unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Steps = tuple[Fraction, int, int]
"""The grid of a lattice, and its bounds in steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """Weights that a scan gives for one stored column, an int64 in steps of 1 / 2^24, NULL for rows without an owner:
    floor(2^24 * min(1, max_rows / T, most / X)), without most / X where X is 0. Backends owe the kernel this sentence.

    T is as of a scan's weights. X is the sum, over all stored rows of the unit in the table (in the row's block of it,
    where rows are in blocks), of the magnitude of the column's lattice value round(clamp(v / grid, lower, upper)), read
    as `kernel/measures.py` says of a lattice; 0 where the column is NULL.

    Attributes:
        id: The id under which the weights are given.
        column: The name of the stored column, which the scan need not give.
        grid, lower, upper: The lattice.
        most: What weights times magnitudes add up to at most, in lattice steps.
        max_rows: What the weights add up to at most, in rows.
    """

    id: str
    column: str
    grid: Fraction
    lower: int
    upper: int
    most: int
    max_rows: int

    def __post_init__(self) -> None:
        if self.grid <= 0 or self.lower > self.upper:
            raise ValueError("a lattice needs a positive grid and ordered bounds")
        if self.most < 1 or self.max_rows < 1:
            raise ValueError("a unit may weigh one row and one lattice step at least")

    @property
    def lattice(self) -> Steps:
        """What makes lattice values equal: the grid and its bounds."""
        return self.grid, self.lower, self.upper
