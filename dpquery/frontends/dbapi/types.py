"""Types of PEP 249: what `cursor.description` says of columns, and the constructors of values."""

from __future__ import annotations

import datetime

import pyarrow as pa


class TypeObject:
    """A kind of column types: equal to each `type_code` that belongs to it."""

    def __init__(self, name: str, codes: frozenset[str]) -> None:
        self._name, self._codes = name, codes

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other in self._codes)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


STRING = TypeObject("STRING", frozenset({"text"}))
BINARY = TypeObject("BINARY", frozenset())
NUMBER = TypeObject("NUMBER", frozenset({"boolean", "int64", "float64", "decimal"}))
DATETIME = TypeObject("DATETIME", frozenset({"date", "timestamp"}))
ROWID = TypeObject("ROWID", frozenset())

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """Returns the local date of seconds since 1970."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:
    """Returns the local time of day of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Returns the local time of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks)


Described = tuple[str, str, None, int | None, int | None, int | None, bool | None]
"""Name, type code, display size, internal size, precision, scale, whether NULL may occur."""


def described(field: pa.Field) -> Described:
    """Returns what PEP 249 says of one column of an answer."""
    of = field.type
    if pa.types.is_decimal(of):
        return field.name, "decimal", None, None, of.precision, of.scale, True
    return field.name, _code(of), None, None, None, None, True


def _code(of: pa.DataType) -> str:
    kinds = (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "int64"),
        (pa.types.is_floating, "float64"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "timestamp"),
    )
    return next((code for belongs, code in kinds if belongs(of)), "text")
