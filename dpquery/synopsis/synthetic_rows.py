"""Rows of cells as rows of values: of a range a value anywhere in the cell, as often as the first numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpquery.data.arrow import arrow_type
from dpquery.plan.types import Kind
from dpquery.synopsis.axes import Axis, numbers_of, value_of
from dpquery.synopsis.model import Integers
from dpquery.synopsis.rounds import Settled
from dpquery.synopsis.scattered import Scattered

WEIGHT = "row_weight"
PARTS = 16
"""Values of float64 lie on so many places of a cell: more would take space and tell nothing."""


def table_of(rows: Integers, asked: Sequence[Axis], settled: Settled, weight: float, scattered: Scattered) -> pa.Table:
    """Returns the rows with typed columns, and the number of rows that each stands for.

    Args:
        rows: Cells, shape (rows, columns).
        asked: The axes of the first round; `settled` has what was made of them.
    """
    columns = {axis.name: _column(rows[:, i], axis, settled, i, scattered) for i, axis in enumerate(asked)}
    return pa.table({**columns, weight_name(asked): pa.array(np.full(len(rows), weight))})


def weight_name(axes: Sequence[Axis]) -> str:
    """Returns the name of the column of weights."""
    name, taken = WEIGHT, {axis.name.casefold() for axis in axes}
    while name in taken:
        name += "_"
    return name


def _column(cells: Integers, axis: Axis, settled: Settled, at: int, scattered: Scattered) -> pa.Array:
    kind, is_null = arrow_type(axis.type), np.zeros(len(cells), dtype=bool)
    if axis.nullable:
        is_null = cells == settled.axes[at].size - 1
    if axis.values:
        held = pa.array(list(axis.values), kind)
        return held.take(pa.array(np.where(is_null, 0, cells), mask=is_null))
    first = _first_cells(np.where(is_null, 0, cells), settled.merged[at], settled.within[at], scattered)
    edges = numbers_of(axis.edges)
    low, high = edges[first], edges[first + 1]
    match axis.type.kind:
        case Kind.INT64 | Kind.DATE:
            last = first == axis.plain - 1
            numbers = low + np.floor(scattered.numbers(len(low)) * np.maximum(1, high - low + last))
        case Kind.TIMESTAMP:
            numbers = low + np.floor(scattered.numbers(len(low)) * np.maximum(1, (high - low) // 10**6)) * 10**6
        case _:
            numbers = (
                low + np.floor(scattered.numbers(len(low)) * PARTS) * (high - low) / PARTS + (high - low) / (2 * PARTS)
            )
    numbers = np.minimum(numbers, edges[-1])
    different, places = np.unique(numbers, return_inverse=True)
    values = pa.array([value_of(Fraction(number), axis.type) for number in different.tolist()], kind)
    return values.take(pa.array(places, mask=is_null))


def _first_cells(
    cells: Integers, merged: Integers, within: np.ndarray[tuple[int], np.dtype[np.float64]], scattered: Scattered
) -> Integers:
    """Returns for each cell one of the first cells that were merged into it, by their numbers of rows."""
    ends = np.cumsum(within)
    start = np.concatenate([[0.0], ends])[np.searchsorted(merged, np.arange(merged.max() + 1))]
    whole = np.bincount(merged, within)
    at = start[cells] + scattered.numbers(len(cells)) * whole[cells]
    found = np.minimum(np.searchsorted(ends, at, side="right"), len(merged) - 1)
    return np.where(merged[found] == cells, found, np.searchsorted(merged, cells))
