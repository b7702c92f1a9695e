"""Intervals as columns of the answer itself: NAME_low and NAME_high behind each noisy number NAME."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.result.arrays import is_number
from dpquery.result.table import Result

ENDS = ("low", "high")


def names_beside(names: Sequence[str], noisy: Collection[int]) -> dict[int, tuple[str, str]]:
    """Returns the names of the columns to add behind those at some places, as the query alone decides them.

    A name that another column has already gets a number, the same for both ends.

    Example:
        >>> names_beside(["region", "n", "n_low"], [1])
        {1: ('n_low_2', 'n_high_2')}
    """
    used, found = set(names), {}
    for place in sorted(noisy):
        number, suffix = 1, ""
        while any(f"{names[place]}_{end}{suffix}" in used for end in ENDS):
            number += 1
            suffix = f"_{number}"
        low, high = (f"{names[place]}_{end}{suffix}" for end in ENDS)
        used |= {low, high}
        found[place] = low, high
    return found


def with_intervals(answer: Result, noisy: Collection[int] | None = None) -> pa.Table:
    """Returns the answer with the ends of each noisy number's interval behind it, as floats; NULL where none is known.

    Texts, dates and timestamps have no such columns.

    Args:
        noisy: The places of the columns that carry noise, where the query alone shall decide it; by default those of
            the answer.
    """
    table, bounds = answer.to_arrow(), answer.accuracy
    carried = {i for i, name in enumerate(table.column_names) if (name, "lower") in bounds.columns}
    places = {i for i in (carried if noisy is None else noisy) if is_number(table.schema.field(i).type)}
    added = names_beside(table.column_names, places)
    names: list[str] = []
    columns: list[pa.ChunkedArray] = []
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        names.append(name)
        columns.append(column)
        for end, beside in zip(("lower", "upper"), added.get(i, ()), strict=False):
            names.append(beside)
            columns.append(_floats(bounds[(name, end)].to_numpy() if i in carried else None, len(table)))
    return pa.Table.from_arrays(columns, names=names)


def _floats(values: NDArray[np.float64] | None, rows: int) -> pa.ChunkedArray:
    made = pa.nulls(rows, pa.float64()) if values is None else pa.array(values, pa.float64(), from_pandas=True)
    return pa.chunked_array([made])
