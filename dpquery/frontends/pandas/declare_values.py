"""Values that people give with a column, as catalogs and queries take them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from dpquery.frontends.pandas.columns import Column
from dpquery.frontends.pandas.zones import in_zone


def plain(value: Any, column: Column) -> object:
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


def moment(value: Any, column: Column) -> Any:
    """Returns a date or a timestamp without a zone, in that of the column; the value itself where it is none."""
    try:
        found = pd.Timestamp(value)
    except (ValueError, TypeError, OverflowError):
        return value
    if found.tzinfo is not None:
        found = in_zone(found, column.zone)
    return found.date() if column.type == "date" else found.to_pydatetime(warn=False)
