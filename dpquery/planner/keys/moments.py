"""Functions of a timestamp that are constant within each day, hour or minute: one moment of each stands for all."""

from __future__ import annotations

import datetime

from dpquery.plan.expr import Call, Cast, Expression, Literal, children, rebuild
from dpquery.plan.functions.dates import format_parts
from dpquery.plan.ranges import EPOCH, Range
from dpquery.plan.types import DATE, TIMESTAMP, Value

DAY, HOUR, MINUTE, SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000
"""Microseconds."""

_TRUNCATED = dict.fromkeys(("day", "week", "month", "quarter", "year"), DAY)
_TRUNCATED |= {"hour": HOUR, "minute": MINUTE, "second": SECOND}
_PARTS = dict.fromkeys(("year", "isoyear", "quarter", "month", "week", "day", "dow", "isodow", "doy"), DAY)
_PARTS |= {"hour": HOUR, "minute": MINUTE, "second": SECOND}
_FORMATTED = {"%H": HOUR, "%I": HOUR, "%p": HOUR, "%M": MINUTE, "%S": SECOND}


def cell_of(expression: Expression) -> tuple[Expression, int] | None:
    """Returns the timestamp that an operation reads, and a width in microseconds of cells in which it is constant.

    Cells begin at whole multiples of the width since 1970. None for other operations.
    """
    if isinstance(expression, Cast):
        is_cut = expression.type == DATE and expression.argument.type == TIMESTAMP
        return (expression.argument, DAY) if is_cut else None
    if not isinstance(expression, Call):
        return None
    read = [part for part in expression.arguments if part.type == TIMESTAMP]
    named = [part.value for part in expression.arguments if isinstance(part, Literal)]
    if len(read) != 1 or not len(named) == len(expression.arguments) - 1 <= 1:
        return None
    width = _width(expression.function, str(named[0]) if named else "")
    return None if width is None else (read[0], width)


def _width(function: str, named: str) -> int | None:
    if function == "date_trunc":
        return _TRUNCATED.get(named)
    if function == "format_date":
        return min((_FORMATTED.get(part, DAY) for part in format_parts(named)), default=DAY)
    return _PARTS.get(function.removeprefix("extract_")) if function.startswith("extract_") else None


def cells_read(expression: Expression) -> dict[Expression, int]:
    """Returns the timestamps that an expression reads by cells, each with the narrowest width.

    Of an operation on the result of another, as a timestamp cut to months and then to a date, it is the inner one's.
    """
    found: dict[Expression, int] = {}
    for part in children(expression):
        for inner, width in cells_read(part).items():
            found[inner] = min(width, found.get(inner, width))
    cell = cell_of(expression)
    return dict([cell]) if cell is not None and not found else found


def by_cells(expression: Expression, replaced: dict[Expression, tuple[Expression, int]]) -> Expression:
    """Returns the expression with timestamps replaced where it reads no narrower cells of them than are given."""
    cell = cell_of(expression)
    known = None if cell is None else replaced.get(cell[0])
    if cell is not None and known is not None and cell[1] % known[1] == 0:
        return rebuild(expression, tuple(known[0] if part == cell[0] else part for part in children(expression)))
    return rebuild(expression, tuple(by_cells(part, replaced) for part in children(expression)))


def moments(known: Range, width: int, most: int) -> tuple[Value, ...] | None:
    """Returns one moment of each cell of a range, NULL last if it is possible; None for more than `most`."""
    if known.lower is None or known.upper is None:
        return None
    first, last = int(known.lower // width), int(known.upper // width)
    if last - first >= most:
        return None
    found: list[Value] = [EPOCH + cell * datetime.timedelta(microseconds=width) for cell in range(first, last + 1)]
    return (*found, None) if known.nullable else tuple(found)
