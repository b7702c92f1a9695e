"""Tables in the form that the engine reads fastest, with the same rows.

Texts become dictionaries: the engine groups and joins a column of few different texts by its codes. Rows are cut into
pieces, as one thread reads a piece: without that a table of 100,000 rows would keep one core busy and others idle.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CODED_FROM = 10_000
"""Columns of texts are coded from this many rows on, if at most a tenth of as many different ones stand first."""


PIECE = 25_000
"""Most rows of a piece, in tables of up to `PIECES` of them; the engine itself cuts larger tables."""
PIECES = 40


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
