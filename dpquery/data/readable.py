"""Arrow data that the engine can read without failing, for any values of its rows.

The engine trusts that texts are UTF-8, and converts zoned moments to microseconds without asking whether they fit.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpquery.errors import CatalogError

_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last moment of the years 1 to 9999."""
_STEPS = {"s": 1, "ms": 1000}


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
