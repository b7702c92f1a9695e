"""The cells of a column: its public values, or parts of its declared range; how SQL counts rows by groups of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.catalog import ColumnDeclaration, Table
from dpquery.catalog.names import quoted, shown
from dpquery.errors import ParameterError, UnknownNameError
from dpquery.plan.types import BOOLEAN, Kind, Type, Value

CELLS = 128
"""Of a range that has no fewer values: cells of equal width, of which those with few rows are merged later."""
MOST_VALUES, MOST_COLUMNS = 1_000, 16
MISSING = -1
"""The group of NULL, and of what is none of the public values."""

Groups = NDArray[np.int64]
Values = Callable[[str, str], Sequence[Value]]
"""Returns the values of a column of a public table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynopsisAxis:
    """One column's cells.

    Attributes:
        name: The column's.
        type: Its type.
        values: Its cells where each is one value; else ().
        edges: Where its cells are ranges the least value of each, behind them the largest of the last; else ().
        nullable: Whether NULL is a cell, behind the others.
        is_measure: Whether queries add its values up, so that more of its cells are kept apart.
    """

    name: str
    type: Type
    values: tuple[Value, ...] = ()
    edges: tuple[Value, ...] = ()
    nullable: bool = False
    is_measure: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring cells are merged; else the smallest ones are."""
        return bool(self.edges) or self.type.is_numeric

    @property
    def plain(self) -> int:
        """The number of cells without NULL."""
        return len(self.values) or len(self.edges) - 1

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.plain + self.nullable

    @property
    def whole(self) -> Groups:
        """Each cell as a group of its own."""
        return np.arange(self.size)

    def sql(self, groups: Groups) -> str:
        """Returns an expression of the group of a row's value; groups of ranges are neighbours.

        Args:
            groups: For each cell its group, shape (size,).
        """
        name, number = quoted(self.name), groups[: self.plain]
        arms = []
        if self.edges:
            last = [i for i in range(self.plain) if i + 1 == self.plain or number[i] != number[i + 1]]
            arms = [f"WHEN {name} < {literal(self.edges[i + 1], self.type)} THEN {number[i]}" for i in last[:-1]]
            arms.append(f"WHEN {name} IS NOT NULL THEN {number[last[-1]]}")
        else:
            for group in dict.fromkeys(number.tolist()):
                same = [literal(self.values[i], self.type) for i in np.flatnonzero(number == group)]
                arms.append(f"WHEN {name} IN ({', '.join(same)}) THEN {group}")
        return f"CASE {' '.join(arms)} ELSE {MISSING} END"


def axes_of(
    table: Table, columns: Sequence[str] | None, measures: Sequence[str], values_from: Values
) -> tuple[SynopsisAxis, ...]:
    """Returns the axes of a table's columns, by default of all that have public values or bounds.

    Raises:
        UnknownNameError: The table has no such column.
        ParameterError: A column has neither public values nor bounds, or there are too few or too many columns.
    """
    if unknown := [name for name in (*(columns or ()), *measures) if name not in table.columns]:
        raise UnknownNameError(f"column {shown(unknown[0])} of {shown(table.name)} does not exist")
    found: dict[str, SynopsisAxis] = {}
    for name in dict.fromkeys((*(table.columns if columns is None else columns), *measures)):
        made = _axis(table.columns[name], name in measures, values_from)
        if made is not None:
            found[name] = made
        elif columns is not None:
            raise ParameterError(
                f"{shown(name)} cannot be part of a synopsis: it has neither public values (keys) nor bounds, or more "
                f"than {MOST_VALUES:,} values, or is randomised",
                advice="Declare its keys or its bounds, or leave it out.",
            )
    if not 1 <= len(found) <= MOST_COLUMNS:
        raise ParameterError(
            f"a synopsis has 1 to {MOST_COLUMNS} columns with keys or bounds; these are {len(found)}",
            advice="Name the columns with columns=[...].",
        )
    return tuple(found.values())


def _axis(column: ColumnDeclaration, is_measure: bool, values_from: Values) -> SynopsisAxis | None:
    if column.randomized is not None:
        return None
    said: dict[str, Any] = {"name": column.name, "type": column.type, "nullable": column.nullable}
    said["is_measure"] = is_measure
    keys = column.keys
    if column.type == BOOLEAN:
        keys = (False, True)
    elif column.keys_from is not None:
        keys = tuple(sorted({v for v in values_from(*column.keys_from) if v is not None}, key=str))
    if keys is not None:
        known = tuple(key for key in keys if key is not None)
        return SynopsisAxis(values=known, **said) if 1 <= len(known) <= MOST_VALUES else None
    return None if column.lower is None else SynopsisAxis(edges=_edges(column), **said)


def _edges(column: ColumnDeclaration) -> tuple[Value, ...]:
    """Returns the edges of cells of equal width, whole in the type's own steps."""
    low, high = _number(column.lower), _number(column.upper)
    match column.type.kind:
        case Kind.INT64 | Kind.DATE:
            count = min(CELLS, int(high - low) + 1)
            inner = [low + i * (high - low + 1) // count for i in range(count)]
        case Kind.TIMESTAMP:  # in microseconds; cells of whole seconds
            count = max(1, min(CELLS, int(high - low) // 10**6))
            inner = [low + i * (high - low) // count // 10**6 * 10**6 for i in range(count)]
        case _:
            digits = column.type.scale if column.type.kind is Kind.DECIMAL else 12
            wide = [low + i * (high - low) / CELLS for i in range(CELLS)]
            inner = [Fraction(round(edge * 10**digits), 10**digits) for edge in wide]
    return tuple(value_of(edge, column.type) for edge in (*dict.fromkeys(map(Fraction, inner)), high))


_EPOCH = datetime.datetime(1970, 1, 1)


def _number(value: Value) -> Fraction:
    if isinstance(value, datetime.datetime):
        return Fraction((value - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return Fraction(value.toordinal())
    assert isinstance(value, int | float | Decimal | Fraction)
    return Fraction(value)


def numbers_of(values: Sequence[Value]) -> NDArray[np.float64]:
    """Returns values as numbers: dates as days, timestamps as microseconds."""
    return np.array([float(_number(value)) for value in values])


def value_of(number: Fraction | float, type: Type) -> Value:
    """Returns the value of a type that such a number means."""
    match type.kind:
        case Kind.INT64:
            return int(number)
        case Kind.DATE:
            return datetime.date.fromordinal(int(number))
        case Kind.TIMESTAMP:
            return _EPOCH + datetime.timedelta(microseconds=int(number))
        case Kind.DECIMAL:
            return Decimal(round(Fraction(number) * 10**type.scale)).scaleb(-type.scale)
        case _:
            return float(number)


def literal(value: Value, type: Type) -> str:
    """Returns a value as SQL."""
    match type.kind:
        case Kind.TEXT:
            return "'" + str(value).replace("'", "''") + "'"
        case Kind.DATE:
            return f"DATE '{value}'"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP '{value}'"
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case _:
            return format(Decimal(repr(value)) if isinstance(value, float) else Decimal(str(value)), "f")
