"""Arrow's types for the types of plans."""

from __future__ import annotations

import pyarrow as pa

from dpquery.plan.types import Kind, Type


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
