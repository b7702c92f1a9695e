"""Types of columns and expressions, and the Python values that stand for them."""

from __future__ import annotations

import builtins
import datetime
import math
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import NoneType

Value = None | bool | int | float | Decimal | str | datetime.date | datetime.datetime
"""One SQL value: NULL, BOOLEAN, INT64, FLOAT64, DECIMAL, TEXT, DATE, TIMESTAMP (naive: what a wall clock shows), or
INTERVAL: its microseconds."""


class Kind(Enum):
    """The closed set of types."""

    BOOLEAN = "boolean"
    INT64 = "int64"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"

    __hash__ = object.__hash__  # members are one object each; that of Enum is in Python, and types are hashed often


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a kind and, for decimals, how many digits in all and after the point."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Kind):
            raise ValueError(f"{self.kind} is no kind of type")
        if self.kind is Kind.DECIMAL and not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise ValueError(f"decimal({self.precision}, {self.scale}) is not a type")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers: INT64, FLOAT64 or DECIMAL."""
        return self.kind in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers: INT64, or DECIMAL without places after the point."""
        return self.kind is Kind.INT64 or (self.kind is Kind.DECIMAL and self.scale == 0)


BOOLEAN = Type(Kind.BOOLEAN)
INT64 = Type(Kind.INT64)
FLOAT64 = Type(Kind.FLOAT64)
TEXT = Type(Kind.TEXT)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
INTERVAL = Type(Kind.INTERVAL)
"""Microseconds between two timestamps. No column is declared so, and no answer holds one."""


PYTHON: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.INT64: int,
    Kind.FLOAT64: float,
    Kind.DECIMAL: Decimal,
    Kind.TEXT: str,
    Kind.DATE: datetime.date,
    Kind.TIMESTAMP: datetime.datetime,
    Kind.INTERVAL: int,
}


def are_values(values: Collection[Value], type: Type) -> bool:
    """Whether values are of the type, or NULL; True is not an integer, a timestamp not a date, NaN no value.

    Nor is a timestamp with a zone: an engine reads it in UTC, and it would be the same value as another one.
    """
    if not set(map(builtins.type, values)) <= {PYTHON[type.kind], NoneType}:
        return False
    match type.kind:
        case Kind.FLOAT64:
            return not any(isinstance(value, float) and math.isnan(value) for value in values)
        case Kind.DECIMAL:
            return not any(isinstance(value, Decimal) and value.is_nan() for value in values)
        case Kind.TIMESTAMP:
            return not any(isinstance(value, datetime.datetime) and value.tzinfo is not None for value in values)
        case _:
            return True


def decimal(precision: int, scale: int) -> Type:
    """Returns the type of decimals with `precision` digits, `scale` of them after the point."""
    return Type(Kind.DECIMAL, precision, scale)


ROOM = 13
"""Digits that a sum has more than its summands: sums of ten million million values fit."""
_INTEGER_DIGITS = 19
EXACT_DIGITS = 28
"""Digits of decimals that engines add up exactly."""


def sum_type(type: Type) -> Type:
    """Returns the type of sums of a numeric type: float64 of floats, else a decimal with `ROOM` digits more, up to 38.

    As in PostgreSQL, where sums of bigint are numeric: they overflow nowhere, and their quotients have fractions.
    """
    if type.kind is Kind.FLOAT64:
        return type
    digits = type.precision if type.kind is Kind.DECIMAL else _INTEGER_DIGITS
    return decimal(min(38, digits + ROOM), type.scale)


def adds_exactly(type: Type) -> bool:
    """Whether aggregates within one unit add values up exactly: integers, decimals of 28 digits, or without places."""
    if type.kind is Kind.DECIMAL:
        return type.precision <= EXACT_DIGITS or type.scale == 0
    return type.kind is Kind.INT64
