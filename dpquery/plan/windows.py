"""What window functions mean, as far as backends, planner and kernel must agree on it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from dpquery.plan.expr import Cast, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.functions.casts import EXACT
from dpquery.plan.logical import Frame, WindowColumn
from dpquery.plan.types import EXACT_DIGITS, FLOAT64, Kind, Type, Value, decimal
from dpquery.plan.window_functions import PICKS as PICKS
from dpquery.plan.window_functions import PLACES as PLACES
from dpquery.plan.window_functions import RANKS as RANKS
from dpquery.plan.window_functions import TOTALS as TOTALS
from dpquery.plan.window_functions import WINDOW_FUNCTIONS as WINDOW_FUNCTIONS

WHOLE = Frame(mode="rows", start=None, end=None)
"""All rows of the partition."""

LARGEST_SUMMAND = 1e17
SUMMAND = decimal(EXACT_DIGITS, 10)
"""What a float is rounded to before it is added up; 10^10 of them fit into 38 digits."""
MOST_UNITS = 10**SUMMAND.precision - 1
"""Units of the last place that a decimal may have when it is added up."""


def frame_of(column: WindowColumn) -> Frame:
    """Returns the frame that a function sees: as SQL has it, up to the last equal row where the query says nothing."""
    frame = column.frame or Frame(mode="range", start=None, end=0)
    if frame.mode == "range" and not column.order_by:
        return WHOLE
    return WHOLE if frame.start is None and frame.end is None else frame


def is_positional(column: WindowColumn) -> bool:
    """Whether rows equal in all columns may get different values: then their places decide who gets which."""
    if column.function in RANKS:
        return False
    frame = frame_of(column)
    return column.function in PLACES or (frame.mode == "rows" and frame != WHOLE)


def frame_text(frame: Frame) -> str:
    """Returns a frame as SQL writes it."""
    first, last = _end(frame.start, "PRECEDING"), _end(frame.end, "FOLLOWING")
    return f"{frame.mode.upper()} BETWEEN {first} AND {last}"


def _end(rows: int | None, open_side: str) -> str:
    if rows is None:
        return f"UNBOUNDED {open_side}"
    if rows == 0:
        return "CURRENT ROW"
    return f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def may_be_empty(frame: Frame) -> bool:
    """Whether a frame may hold no row: one that does not reach the current row."""
    return (frame.start is not None and frame.start > 0) or (frame.end is not None and frame.end < 0)


def exact_sum(values: Iterable[Value], type: Type) -> Decimal | int | None:
    """Returns the sum of integers or decimals as an integer or decimal of this type, or None where it does not fit."""
    units = sum(int(EXACT.scaleb(Decimal(value), type.scale)) for value in values if isinstance(value, int | Decimal))
    if type.kind is Kind.INT64:
        return units if -(2**63) <= units < 2**63 else None
    return Decimal(units).scaleb(-type.scale, EXACT) if abs(units) < 10**type.precision else None


def summand(argument: Expression) -> Expression:
    """Returns what `sum` and `avg` add up in a window: integers or decimals, whose sums are exact and do not overflow.

    A float is clamped to +-10^17 and rounded to ten decimal places; a decimal of more than 28 digits is clamped to 28.
    Exact sums do not depend on how an engine groups its additions, hence not on the rows of others.
    """
    given = argument.type
    if given == FLOAT64:
        ends = (Literal(value=-LARGEST_SUMMAND, type=FLOAT64), Literal(value=LARGEST_SUMMAND, type=FLOAT64))
        return Cast(argument=call("clamp", (argument, *ends)), type=SUMMAND)
    if given.kind is Kind.DECIMAL and given.precision > SUMMAND.precision:
        most = Decimal(MOST_UNITS).scaleb(-given.scale)
        return call("clamp", (argument, Literal(value=-most, type=given), Literal(value=most, type=given)))
    return argument
