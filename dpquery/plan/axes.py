"""Groups as cells of a table with one axis for each key, and how cells of a finer table make those of a coarser one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Row = tuple[Hashable, ...]


class Axis(Protocol):
    """One key of a table of groups."""

    @property
    def columns(self) -> Row:
        """Names of the key's columns, each once."""
        ...

    @property
    def domain(self) -> Sequence[Row] | None:
        """What the columns hold, each row once; None is read as no rows."""
        ...


def cells(finer: Sequence[Axis], coarser: Sequence[Axis]) -> NDArray[np.int64] | None:
    """Returns for each cell of the finer table the number of the coarser one's cell that holds it, or -1 if none does.

    The last axis varies fastest in both. None where an axis of the coarser table is not within one of the finer's.
    """
    found = np.zeros(math.prod(map(_length, finer)), dtype=np.int64)
    for axis in coarser:
        place = next((i for i, own in enumerate(finer) if {*axis.columns} <= {*own.columns}), None)
        if place is None:
            return None
        codes = _along(_codes(finer[place], axis), place, finer)
        found = np.where((found < 0) | (codes < 0), -1, found * _length(axis) + codes)
    return found


def within(places: NDArray[np.int64], axis: int, finer: Sequence[Axis], kept: Sequence[bool]) -> NDArray[np.int64]:
    """Returns the places that `cells` gave, with -1 for the cells of those rows of an axis that are not kept."""
    return np.where(_along(np.array(kept, dtype=bool), axis, finer), places, -1)


def most_summed(places: NDArray[np.int64]) -> int:
    """Returns how many cells of the finer table make one of the coarser, at most."""
    counted = np.bincount(places[places >= 0])
    return int(counted.max()) if len(counted) else 0


def summed(numbers: NDArray[Any], places: NDArray[np.int64], size: int) -> NDArray[Any]:
    """Returns the sums of the finer table's numbers in each of the coarser one's `size` cells.

    They are Python integers where 64 bits might not suffice.
    """
    kept = places >= 0
    read = numbers[kept]
    if len(read) and read.dtype != object:
        largest = max(abs(int(read.min())), abs(int(read.max())))
        read = read if largest * most_summed(places) < 2**63 else read.astype(object)
    total = np.zeros(size, dtype=read.dtype)
    np.add.at(total, places[kept], read)
    return total


def _length(axis: Axis) -> int:
    return len(axis.domain or ())


def _codes(finer: Axis, coarser: Axis) -> NDArray[np.int64]:
    """Returns for each row of an axis its place on a coarser one, -1 where it has none."""
    columns = [finer.columns.index(name) for name in coarser.columns]
    known = {row: place for place, row in enumerate(coarser.domain or ())}
    return np.array([known.get(tuple(row[i] for i in columns), -1) for row in finer.domain or ()], dtype=np.int64)


def _along(values: NDArray[Any], axis: int, finer: Sequence[Axis]) -> NDArray[Any]:
    """Returns what each row of an axis has, one for each cell of the table."""
    before, after = math.prod(map(_length, finer[:axis])), math.prod(map(_length, finer[axis + 1 :]))
    return np.tile(np.repeat(values, after), before)
