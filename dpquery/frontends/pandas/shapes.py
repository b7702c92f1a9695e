"""Answers in the shapes of pandas: what `DataFrame.sum`, `groupby` or `crosstab` would have returned."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpquery.data.arrow import for_pandas
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.values import localized, localized_moment
from dpquery.result.table import Result

ATTRS = "dp"
"""The key in `attrs` of an answer, with its price."""


def cells(result: Result) -> list[Any]:
    """Returns the cells of an answer of one row; a missing number is NaN."""
    return [_cell(for_pandas(column)[0].as_py()) for column in result.to_arrow().columns]


def _cell(value: Any) -> Any:
    return np.nan if value is None else value


def series(values: Sequence[Any], index: Any, result: Result, name: Any = None) -> pd.Series[Any]:
    """Returns a Series of an answer's cells, which knows what it cost."""
    made: pd.Series[Any] = priced(pd.Series(list(values), index=index, name=name), result)
    return made


def priced(made: Any, result: Result) -> Any:
    """Returns a pandas object after noting in `attrs` what it cost and how sure its intervals are."""
    made.attrs[ATTRS] = {"charge": str(result.charge), "confidence": result.confidence}
    return made


def columns_of(result: Result) -> list[pd.Series[Any]]:
    """Returns the columns of an answer by their places, for names may repeat."""
    table = result.to_arrow()
    return [_values(for_pandas(table.column(i)).to_pandas()) for i in range(table.num_columns)]


def _values(column: pd.Series[Any]) -> pd.Series[Any]:
    if column.dtype == object and len(column) and all(v is None for v in column):
        return column.astype("float64")
    return column


def keyed(result: Result, keys: Sequence[FrameColumn], names: Sequence[Any], *, sort: bool) -> pd.DataFrame:
    """Returns a frame of an answer whose first columns are keys: they become the index, as `groupby` has it.

    Args:
        names: The labels of the other columns.
    """
    parts = columns_of(result)
    index = index_of(parts[: len(keys)], keys)
    frame = pd.DataFrame(dict(enumerate(parts[len(keys) :])))
    frame.index = index
    frame.columns = names if isinstance(names, pd.Index) else pd.Index(list(names))
    return frame.sort_index() if sort and not index.is_monotonic_increasing else frame


def grid(result: Result, rows: Sequence[FrameColumn], across: Sequence[FrameColumn]) -> pd.DataFrame:
    """Returns an answer of keys and one number as a table: its first keys down, the others across."""
    keys = [*rows, *across]
    if len(keys) > 2:
        number = keyed(result, keys, ["number"], sort=False)["number"]
        made: pd.DataFrame = number.unstack(list(range(len(rows), len(keys))))
        return made
    *parts, numbers = columns_of(result)
    sides = [pd.factorize(as_frame_has_it(p, k), sort=True) for p, k in zip(parts, keys, strict=True)]
    (down, downs), (over, overs) = sides
    values = numbers.to_numpy()
    is_full = len(values) == len(downs) * len(overs)
    cells = np.full((len(downs), len(overs)), 0 if is_full else np.nan, dtype=values.dtype if is_full else float)
    cells[down, over] = values
    index, columns = (pd.Index(side, name=k.name) for side, k in zip((downs, overs), keys, strict=True))
    return pd.DataFrame(cells, index=index, columns=columns)


def index_of(parts: Sequence[pd.Series[Any]], keys: Sequence[FrameColumn]) -> Any:
    """Returns keys as an index, with the dtypes that the frame has."""
    restored = [as_frame_has_it(part, key) for part, key in zip(parts, keys, strict=True)]
    if len(keys) == 1:
        return pd.Index(restored[0], name=keys[0].name)
    return pd.MultiIndex.from_arrays(restored, names=[key.name for key in keys])


def as_frame_has_it(values: Any, column: FrameColumn) -> Any:
    """Returns the values of a column with its dtype in the frame; as they are where one does not fit it."""
    dtype = column.dtype
    if dtype is None or values.dtype == dtype:
        return values
    try:
        if column.zone and column.type == "timestamp" and values.dtype.kind == "M":
            values = localized(values, column.zone)
            return (values.dt.tz_convert(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else values).astype(dtype)
        made = values.astype(object if isinstance(dtype, np.dtype) and dtype.kind == "O" else dtype)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return values
    is_integer = isinstance(dtype, np.dtype) and dtype.kind in "iu"
    fits = (made == values).all() if is_integer else (made.isna() == values.isna()).all()
    return made if fits else values


def has_family(column: FrameColumn) -> bool:
    """Whether aggregates of a column have a dtype of its sort: of pandas' own nullable ones, Arrow's, or moments."""
    return column.type == "timestamp" or column.is_missing_unknown


def in_family(values: Any, column: FrameColumn) -> Any:
    """Returns aggregates with a dtype of the column's sort, wide enough for them: sums of `Int8` are `Int64`."""
    kind = values.dtype.kind
    if kind == "M":
        return as_frame_has_it(values, column)
    if isinstance(column.dtype, pd.ArrowDtype):
        array = pa.array(values, from_pandas=True)
        return pd.Series(pd.array(array, pd.ArrowDtype(array.type)), index=values.index)
    if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) and kind in "if":
        return values.astype("Int64" if kind == "i" else "Float64")
    return values


def scalar_as_frame_has_it(value: Any, column: FrameColumn) -> Any:
    """Returns one value of a column as the frame has it: a moment as a Timestamp in the column's zone."""
    if value is None:
        return np.nan
    if column.type != "timestamp" or isinstance(value, float | int | Decimal):
        return value
    tz = getattr(column.dtype, "tz", None)
    return pd.Timestamp(value) if tz is None else localized_moment(value, column.zone).tz_convert(tz)


def priced_or_plain(made: Any, result: Result) -> Any:
    """Returns a pandas object with its price, or a scalar as it is."""
    return priced(made, result) if isinstance(made, pd.Series | pd.DataFrame) else made
