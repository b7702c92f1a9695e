"""Names and values that people write, as catalogs and queries take them: the one place where a name becomes a part of a
query. The moments of a column are read, asked for and answered in its time zone.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpquery.catalog.names import name_fault, shown, suggestion
from dpquery.catalog.names import quoted as identifier
from dpquery.errors import ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.plan.zones import UTC, is_shown_twice, tzinfo_of, wall_clock
from dpquery.session.options import NAMES

if TYPE_CHECKING:
    from dpquery.frontends.pandas.columns import FrameColumn

TABLE = "this"
"""How queries call the protected frame."""
ASKED = tuple(name for name in NAMES if name not in ("dialect", "fresh"))
"""The options of `Session.sql` that every call takes."""


_HABITS = {"skipna": True, "numeric_only": True, "axis": 0}
"""Arguments that people write out of habit, with the only value that has a private counterpart."""


def without_habits(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments without those that change nothing; refuses other values of theirs."""
    for name, usual in _HABITS.items():
        if name in asked and asked[name] not in (usual, {0: "index"}.get(usual)):
            advice = f"Leave it out: {name}={usual!r} is what is answered."
            raise UnsupportedQueryError(f"{name}={asked[name]!r} has no private counterpart", advice=advice)
    return {name: value for name, value in asked.items() if name not in _HABITS}


def quoted(name: str) -> str:
    """Returns a name as a quoted identifier; refuses invisible characters."""
    fault = name_fault(name) if isinstance(name, str) else f"a {type(name).__name__} is not a name"
    if fault is not None:
        raise UnsupportedQueryError(fault, advice="Rename the column.")
    return identifier(name)


def known(name: object, names: Iterable[str], why_not: dict[str, str] | None = None) -> str:
    """Returns the name of a column that exists; raises UnknownNameError where there is none.

    Args:
        why_not: Columns of the frame that queries cannot name, with the reason.
    """
    names = list(names)
    if isinstance(name, str) and name in names:
        return name
    if isinstance(name, str) and why_not and name in why_not:
        raise UnknownNameError(f"column {shown(name)} cannot be used: {why_not[name]}")
    if not isinstance(name, str):
        raise UnknownNameError(f"a column name must be a string, not {type(name).__name__}")
    raise UnknownNameError(f"there is no column {shown(name)}; {suggestion(name, names)}")


def plain(value: Any, column: FrameColumn) -> object:
    """Returns a value as a catalog and a query take it: of Python's own types, moments in the column's zone, missing
    ones None."""
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if column.is_moment and isinstance(value, str | np.datetime64 | datetime.date):
        return moment(value, column)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if value != value:
            return None
        whole = column.type == "int64" and value.is_integer()
        return int(value) if whole else value
    if isinstance(value, Decimal) and column.type == "int64" and value == int(value):
        return int(value)
    return value


def moment(value: Any, column: FrameColumn) -> Any:
    """Returns a date or a timestamp without a zone, in that of the column; the value itself where it is none."""
    try:
        found = pd.Timestamp(value)
    except (ValueError, TypeError, OverflowError):
        return value
    if found.tzinfo is not None:
        found = in_zone(found, column.zone)
    return found.date() if column.type == "date" else found.to_pydatetime(warn=False)


def zone_of_dtype(dtype: Any) -> str:
    """Returns the name of a dtype's zone, or "" for none. Objects may each have their own, and are read in UTC."""
    if isinstance(dtype, pd.CategoricalDtype):
        return zone_of_dtype(dtype.categories.dtype)
    if isinstance(dtype, pd.ArrowDtype):
        of = dtype.pyarrow_dtype
        of = of.value_type if pa.types.is_dictionary(of) else of
        return str(of.tz or "") if pa.types.is_timestamp(of) else ""
    if isinstance(dtype, pd.DatetimeTZDtype):
        name = str(dtype.tz)
        return name.removeprefix("UTC") or UTC if name.startswith("UTC") else name
    return UTC if pd.api.types.is_object_dtype(dtype) else ""


def in_zone(moment: pd.Timestamp, zone: str) -> pd.Timestamp:
    """Returns what the clock of a zone shows at a moment with a zone of its own.

    Raises:
        ParameterError: It shows that twice, and comparing with it would mix the two.
    """
    local = wall_clock(moment.to_pydatetime(warn=False), zone or UTC)
    if local is None:
        raise ParameterError(f"{moment} lies outside the years 1 to 9999 in the zone {zone}")
    if is_shown_twice(local, zone or UTC):
        advice = "Give a moment without a zone, or one an hour before or after."
        raise ParameterError(f"{local} is shown twice by the clocks of {zone}, as they are set back", advice=advice)
    return pd.Timestamp(local)


def localized(values: pd.Series[Any], zone: str) -> pd.Series[Any]:
    """Returns moments with their zone: the first one that the clock shows so, or the next where it shows none."""
    made: pd.Series[Any] = values.dt.tz_localize(
        tzinfo_of(zone), ambiguous=np.ones(len(values), dtype=bool), nonexistent="shift_forward"
    )
    return made


def localized_moment(moment: datetime.datetime, zone: str) -> pd.Timestamp:
    """Returns one moment with its zone, as `localized`."""
    return pd.Timestamp(moment).tz_localize(tzinfo_of(zone), ambiguous=True, nonexistent="shift_forward")
