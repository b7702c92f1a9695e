"""A frame's columns as declared ones: types follow from dtypes; of values only those of object columns are looked at,
to see of which sort they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpquery.catalog.names import fold, name_fault
from dpquery.errors import CatalogError
from dpquery.frontends.pandas.values import zone_of_dtype
from dpquery.plan.zones import tzinfo_of

NUMBERS = ("int64", "float64", "boolean", "decimal")
MOMENTS = ("date", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameColumn:
    """A column that queries may name.

    Attributes:
        name: Its name.
        type: Its declared type, as in a catalog.
        nullable: Whether it may hold NULL.
        dtype: What pandas calls its type, or None where the frame is none of pandas; answers are shaped after it.
        is_missing_unknown: Whether comparing a missing value is unknown (as with `Int64`), not False (as with floats).
        bounds: The declared lower and upper bound, or None.
        zone: The time zone in which its moments are read, "" for moments without one.
    """

    name: str
    type: str
    nullable: bool = True
    dtype: Any = None
    is_missing_unknown: bool = False
    bounds: tuple[object, object] | None = None
    zone: str = ""

    @property
    def is_number(self) -> bool:
        """Whether values can be added up."""
        return self.type.startswith(NUMBERS)

    @property
    def has_bounds(self) -> bool:
        """Whether values have a lower and an upper bound."""
        return self.bounds is not None or self.type == "boolean"

    @property
    def is_moment(self) -> bool:
        """Whether values are dates or timestamps."""
        return self.type in MOMENTS


@dataclass(frozen=True, slots=True)
class Columns:
    """A frame's columns, and those that queries cannot name, with the reason."""

    known: dict[str, FrameColumn] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def columns_of_pandas(frame: pd.DataFrame, types: Mapping[str, str]) -> Columns:
    """Returns the columns of a DataFrame.

    Args:
        types: Types that the owner declares; they replace those that follow from dtypes.
    Raises:
        CatalogError: Several levels of names or rows, or two columns of one name.
    """
    if isinstance(frame.columns, pd.MultiIndex):
        raise CatalogError("the frame has several levels of column names: flatten them first, with to_flat_index()")
    if isinstance(frame.index, pd.MultiIndex):
        raise CatalogError("the frame's rows are indexed by several levels: make columns of them, with reset_index()")
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise CatalogError(
            f"the frame has two columns of the same name, {name!r}: rename one, or keep the first of each name by "
            "df.loc[:, ~df.columns.duplicated()]"
        )
    found = Columns()
    for name in _allowed(list(frame.columns), found):
        series = frame[name]
        missing_unknown = getattr(series.dtype, "na_value", None) is pd.NA
        declared = types.get(name)
        type, nullable = (declared, True) if declared else _of_dtype(series.dtype, series)
        column = FrameColumn(
            name=name, type=type, nullable=nullable, dtype=series.dtype, is_missing_unknown=missing_unknown
        )
        _keep(found, replace(column, zone=zone_of_dtype(series.dtype)))
    return found


def columns_of_arrow(table: pa.Table, types: Mapping[str, str]) -> Columns:
    """Returns the columns of an Arrow table; as `columns_of_pandas`."""
    if len(set(table.column_names)) < len(table.column_names):
        raise CatalogError("the table has two columns of the same name: rename or drop one of them")
    found = Columns()
    for name in _allowed(table.column_names, found):
        declared = types.get(name)
        of = table.schema.field(name).type
        column = FrameColumn(name=name, type=declared or _of_arrow(of), is_missing_unknown=True)
        _keep(found, replace(column, zone=zone_of_dtype(pd.ArrowDtype(of))))
    return found


def _allowed(names: list[Any], found: Columns) -> list[str]:
    """Returns the names that a query can say; notes the others."""
    folded = Counter(fold(name) for name in names if isinstance(name, str))
    allowed = []
    for name in names:
        if not isinstance(name, str):
            found.unknown[str(name)] = "its name is not a string; rename it"
        elif fault := name_fault(name):
            found.unknown[name] = fault
        elif folded[fold(name)] > 1:
            found.unknown[name] = "another column's name differs only in case; rename one of them"
        else:
            allowed.append(name)
    return allowed


def _keep(found: Columns, column: FrameColumn) -> None:
    """Adds a column, or the reason why it cannot be used: a type that begins with `?`, or a zone without a name."""
    why = column.type[1:] if column.type.startswith("?") else ""
    if column.type not in MOMENTS or (column.type == "date" and pd.api.types.is_object_dtype(column.dtype)):
        column = replace(column, zone="")
    if column.zone:
        try:
            tzinfo_of(column.zone)
        except ValueError:
            why = "its time zone has no known name; convert it, for example with dt.tz_convert('UTC')"
    if why:
        found.unknown[column.name] = why
    else:
        found.known[column.name] = column


def _of_dtype(dtype: Any, series: pd.Series[Any] | None) -> tuple[str, bool]:
    """Returns the type of a dtype and whether it holds NULL; a type that begins with `?` is the reason for none."""
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories
        return _of_dtype(categories.dtype, categories.to_series())[0], True
    if isinstance(dtype, pd.ArrowDtype):
        return _of_arrow(dtype.pyarrow_dtype), True
    if isinstance(dtype, pd.StringDtype):
        return "text", True
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "timestamp", True
    if isinstance(dtype, np.dtype) and dtype.kind == "O" and series is not None:
        return _of_objects(series), True
    kinds = {"b": "boolean", "i": "int64", "u": "int64", "f": "float64"}
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return "timestamp", True
    if (
        isinstance(dtype, np.dtype | pd.api.extensions.ExtensionDtype)
        and dtype.kind in kinds
        and not _is_special(dtype)
    ):
        plain = isinstance(dtype, np.dtype) and dtype.kind in "bi"
        return kinds[dtype.kind], not plain
    is_span = getattr(dtype, "kind", "") == "m"
    how = "take its seconds, with .dt.total_seconds()" if is_span else "convert it with astype"
    return f"?its dtype {dtype} is not supported; {how}", True


def _is_special(dtype: Any) -> bool:
    return isinstance(dtype, pd.SparseDtype | pd.PeriodDtype | pd.IntervalDtype)


def _of_objects(series: pd.Series[Any]) -> str:
    """Returns text for a column of Python texts; what else it holds is the owner's to declare."""
    sort = pd.api.types.infer_dtype(series, skipna=True)
    if sort in ("string", "empty"):
        return "text"
    if sort.startswith("mixed"):
        return "?its objects have several types: convert them to one, or declare one with types={...: 'text'}"
    known = {
        "boolean": "boolean",
        "date": "date",
        "integer": "int64",
        "floating": "float64",
        "decimal": "decimal(12,2)",
    }
    return f"?it contains objects ({sort}): declare their type with types={{...: {known.get(sort, 'text')!r}}}"


def _of_arrow(type: Any) -> str:
    if pa.types.is_dictionary(type):
        return _of_arrow(type.value_type)
    if pa.types.is_boolean(type):
        return "boolean"
    if pa.types.is_integer(type):
        return "int64"
    if pa.types.is_floating(type):
        return "float64"
    if pa.types.is_decimal(type) and type.precision <= 38 and 0 <= type.scale <= type.precision:
        return f"decimal({type.precision},{type.scale})"
    if (
        pa.types.is_string(type)
        or pa.types.is_large_string(type)
        or pa.types.is_null(type)
        or str(type) == "string_view"
    ):
        return "text"
    if pa.types.is_date(type):
        return "date"
    if pa.types.is_timestamp(type):
        return "timestamp"
    return f"?its type {type} is not supported"
