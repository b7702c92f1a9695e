"""Stored values read as declared, one by one in Python: the oracle of `reading.py`.

A value that does not fit the declared type is NULL. NaN is NULL, -0.0 is 0.0, infinities stay, zoned timestamps are
read as the wall clock of the declared zone, and without one as NULL. Integers are booleans only where they are 0 or
1; decimals are integers only where they are whole, floats only where they are whole and below 2^53 (from there on one
float stands for several integers, which must not merge units). How one value is read never depends on another: in a
column of mixed types a misfit changes no other row.
"""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd

from dpquery.catalog import Catalog
from dpquery.data.owners import leading_to_owners
from dpquery.plan.functions import cast_value
from dpquery.plan.logical import LONGEST_OWNER
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, Value, decimal
from dpquery.plan.zones import wall_clock


def read(stored: object, declared: Type, zone: str = "") -> Value:
    """Returns a stored value as the declared type says, or None where it does not fit.

    Args:
        zone: The declared zone of a date or timestamp, if it has one.
    """
    match _plain(stored, zone):
        case None:
            return None
        case bool() as truth:
            return _read_boolean(truth, declared)
        case int() as whole:
            return _read_integer(whole, declared)
        case float() as number:
            return _read_float(number, declared)
        case Decimal() as number:
            return _read_decimal(number, declared)
        case str() as text:
            return cast_value(text, TEXT, declared) if _is_unicode(text) else None
        case datetime.datetime() as moment:
            return cast_value(moment, TIMESTAMP, declared) if declared in (DATE, TIMESTAMP) else None
        case datetime.date() as day:
            return cast_value(day, DATE, declared) if declared in (DATE, TIMESTAMP, TEXT) else None
        case _:
            return None


def _plain(stored: object, zone: str) -> object:
    """Returns a cell of a pandas column as a plain Python value; None for every form of NULL."""
    if stored is None or stored is pd.NA or stored is pd.NaT:
        return None
    if isinstance(stored, np.generic):
        stored = stored.item()
    if isinstance(stored, pd.Timestamp):
        try:
            stored = stored.to_pydatetime(warn=False)
        except ValueError:  # a year that Python does not know
            return None
    if isinstance(stored, datetime.datetime):
        return _local(stored, zone)
    if isinstance(stored, uuid.UUID):
        return str(stored)
    return stored


def _local(moment: datetime.datetime, zone: str) -> datetime.datetime | None:
    if moment.tzinfo is None:
        return moment.replace(fold=0)
    return wall_clock(moment, zone) if zone else None


def _read_boolean(truth: bool, declared: Type) -> Value:
    return cast_value(truth, BOOLEAN, declared) if declared in (BOOLEAN, TEXT) else None


def _read_integer(whole: int, declared: Type) -> Value:
    match declared.kind:
        case Kind.BOOLEAN:
            return bool(whole) if whole in (0, 1) else None
        case Kind.INT64:
            return whole if -(2**63) <= whole < 2**63 else None
        case Kind.FLOAT64:
            return float(whole) if abs(whole) < 2**1000 else None
        case Kind.DECIMAL:
            return cast_value(whole, INT64, declared)
        case Kind.TEXT:
            return str(whole)
        case Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL:
            return None


def _read_float(number: float, declared: Type) -> Value:
    if math.isnan(number):
        return None
    match declared.kind:
        case Kind.INT64:
            return cast_value(number, FLOAT64, INT64) if number.is_integer() and abs(number) < 2**53 else None
        case Kind.FLOAT64:
            return number + 0.0
        case Kind.DECIMAL:
            return cast_value(number, FLOAT64, declared)
        case Kind.BOOLEAN | Kind.TEXT | Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL:
            return None


def _read_decimal(number: Decimal, declared: Type) -> Value:
    if not number.is_finite():
        return None
    stored = decimal(38, 0 if declared.scale else 38)  # never the declared type, so that the cast is carried out
    match declared.kind:
        case Kind.INT64:
            return cast_value(number, stored, INT64) if number == number.to_integral_value() else None
        case Kind.FLOAT64 | Kind.DECIMAL:
            return cast_value(number, stored, declared)
        case Kind.BOOLEAN | Kind.TEXT | Kind.DATE | Kind.TIMESTAMP | Kind.INTERVAL:
            return None


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogates, which UTF-8 cannot hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def declared_values(
    catalog: Catalog, table: str, column: str, frame: pd.DataFrame, type: Type | None = None
) -> list[Value]:
    """Returns the values of a frame's column as the catalog declares them, one by one: what does not fit is None.

    Args:
        type: How it is read; None for as declared. A key of a parent's owner need not be a declared column.
    """
    said = catalog.tables[table].columns.get(column)
    if type is None:
        type = catalog.tables[table].columns[column].type
    values = [read(stored, type, "" if said is None else said.zone) for stored in frame[column].tolist()]
    if type != TEXT:
        return values
    most = LONGEST_OWNER if said is None else said.max_length
    is_whole = (table, column) in leading_to_owners(catalog)
    return [_limited(value, most, is_whole=is_whole) if isinstance(value, str) else value for value in values]


def _limited(text: str, most: int, *, is_whole: bool) -> Value:
    """Returns the first characters of a text; None in place of a longer one that counts whole."""
    return None if is_whole and len(text) > most else text[:most]
