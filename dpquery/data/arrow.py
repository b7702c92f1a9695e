"""Arrow's types for the types of plans, and what kind of source somebody hands over."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

import pyarrow as pa

from dpquery.plan.types import Kind, Type

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as pads


def is_frame(source: object) -> TypeGuard[pd.DataFrame]:
    """Says whether this is a DataFrame of pandas, without loading pandas: before it is loaded there is none."""
    return _is_of(source, "pandas", "DataFrame")


def is_dataset(source: object) -> TypeGuard[pads.Dataset]:
    """Says whether this is a dataset of Arrow, whose module loads pandas."""
    return _is_of(source, "pyarrow.dataset", "Dataset")


def is_dataset_of_files(source: object) -> TypeGuard[pads.FileSystemDataset]:
    """Says whether this is a dataset of files."""
    return _is_of(source, "pyarrow.dataset", "FileSystemDataset")


def _is_of(source: object, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(source, getattr(loaded, name))


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
        case Kind.INT64 | Kind.INTERVAL:
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
