"""The time zones of a frame's columns: moments are read, asked for and answered in them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpquery.errors import ParameterError
from dpquery.plan.zones import UTC, is_shown_twice, tzinfo_of, wall_clock


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
