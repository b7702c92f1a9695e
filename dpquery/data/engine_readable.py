"""Arrow data in the form that the engine reads without failing, for any values of its rows, and fastest.

The engine trusts that texts are UTF-8, and converts zoned moments to microseconds without asking whether they fit.
Texts become dictionaries: it groups and joins a column of few different texts by its codes. Rows are cut into
pieces, as one thread reads a piece: without that a table of 100,000 rows would keep one core busy and others idle.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpquery.errors import CatalogError

_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last moment of the years 1 to 9999."""
_STEPS = {"s": 1, "ms": 1000}
CODED_FROM = 10_000
"""Columns of texts are coded from this many rows on, if at most a tenth of as many different ones stand first."""
PIECE = 25_000
"""Most rows of a piece, in tables of up to `PIECES` of them; the engine itself cuts larger tables."""
PIECES = 40


def readable(table: str, data: pa.Table) -> pa.Table:
    """Returns the table with coarse timestamps in microseconds, NULL where they lie outside the years 1 to 9999.

    Raises:
        CatalogError: A column's bytes are not what its type says, such as texts that are not UTF-8.
    """
    for name in data.column_names:
        valid = True
        try:
            data[name].validate(full=True)
        except pa.ArrowInvalid:
            valid = False
        if not valid:
            raise CatalogError(
                f"column {name} of table {table} contains bytes that its type does not allow, such as invalid UTF-8"
            )
    return pa.table({name: _in_microseconds(data[name]) for name in data.column_names})


def _in_microseconds(column: Any) -> Any:
    if not pa.types.is_timestamp(column.type) or column.type.unit not in _STEPS:
        return column
    step = _STEPS[column.type.unit]
    number = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(number, _FIRST * step), pc.less(number, (_LAST + 1) * step))
    kept = pc.if_else(inside, number, pa.scalar(None, pa.int64()))
    return kept.cast(column.type).cast(pa.timestamp("us", column.type.tz))


def coded(table: pa.Table) -> pa.Table:
    """Returns the table with its columns of few different texts as dictionaries; numbers are not copied."""
    made = pa.table({name: _coded(table[name]) for name in table.column_names})
    if len(made) > PIECE * PIECES:
        return made
    return pa.Table.from_batches(made.to_batches(max_chunksize=PIECE), made.schema)


def _coded(column: Any) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or len(column) < CODED_FROM:
        return column
    if len(pc.unique(column.slice(0, CODED_FROM))) > CODED_FROM // 10:
        return column
    return pc.dictionary_encode(column)
