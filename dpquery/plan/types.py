"""Types of columns and expressions, and the Python values that stand for them."""

from __future__ import annotations

import builtins
import datetime
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

Value = None | bool | int | float | Decimal | str | datetime.date | datetime.datetime
"""One SQL value: NULL, BOOLEAN, INT64, FLOAT64, DECIMAL, TEXT, DATE or TIMESTAMP (naive, UTC)."""


class Kind(Enum):
    """The closed set of types."""

    BOOLEAN = "boolean"
    INT64 = "int64"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a kind and, for decimals only, how many digits in all and after the point."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL and not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise ValueError(f"decimal({self.precision}, {self.scale}) is no type")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value

    @property
    def is_numeric(self) -> bool:
        """Whether values can be added: INT64, FLOAT64 or DECIMAL."""
        return self.kind in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)


BOOLEAN = Type(Kind.BOOLEAN)
INT64 = Type(Kind.INT64)
FLOAT64 = Type(Kind.FLOAT64)
TEXT = Type(Kind.TEXT)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)


_PYTHON: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.INT64: int,
    Kind.FLOAT64: float,
    Kind.DECIMAL: Decimal,
    Kind.TEXT: str,
    Kind.DATE: datetime.date,
    Kind.TIMESTAMP: datetime.datetime,
}


def is_value(value: object, type: Type) -> bool:
    """Whether a Python value is one of the type, or NULL; True is no integer, a timestamp no date, and NaN no value."""
    return value is None or (builtins.type(value) is _PYTHON[type.kind] and value == value)


def decimal(precision: int, scale: int) -> Type:
    """Returns the type of decimals with `precision` digits, `scale` of them after the point."""
    return Type(Kind.DECIMAL, precision, scale)
