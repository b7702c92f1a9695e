"""Texts as dictionaries: the engine groups and joins a column of few different texts by its codes. No value changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CODED_FROM = 10_000
"""Columns of texts are coded from this many rows on, if at most a tenth of as many different ones stand first."""


def coded(table: pa.Table) -> pa.Table:
    """Returns the table with its columns of few different texts as dictionaries."""
    return pa.table({name: _coded(table[name]) for name in table.column_names})


def _coded(column: Any) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or len(column) < CODED_FROM:
        return column
    if len(pc.unique(column.slice(0, CODED_FROM))) > CODED_FROM // 10:
        return column
    return pc.dictionary_encode(column)
