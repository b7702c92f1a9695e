"""Arrow's types for the types of plans."""

from __future__ import annotations

import pyarrow as pa

from dpquery.plan.types import Kind, Type


def for_pandas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column as pandas computes with it: decimals without places (sums of integers) as int64, if all fit."""
    if not pa.types.is_decimal(column.type) or column.type.scale != 0:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def arrow_type(type: Type) -> pa.DataType:
    """Returns the Arrow type of a plan's type."""
    match type.kind:
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.INT64:
            return pa.int64()
        case Kind.FLOAT64:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(type.precision, type.scale)
        case Kind.TEXT:
            return pa.string()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
