"""Conditions on a date that whole periods fulfil or fail: they are conditions on a key that tells the period.

`day >= '2024-03-01'` is true of all days of a month or of none, so beside groups of months it is a set of cells.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from dpquery.plan.calendar import By, first_day, number_of
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal, rebuild
from dpquery.plan.types import DATE, INT64, TIMESTAMP, Value

_BY = {by.value: by for by in By}
_MIRRORED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
_LOGIC = frozenset({"and", "or", "not"})
MOST = 10_000
"""Periods that are listed."""
Period = tuple[Expression, By]
"""A date or timestamp, and how long the periods are."""


def period_of(key: Expression) -> Period | None:
    """Returns what a key tells the period of; None where it tells anything else."""
    match key:
        case Call(function="date_trunc", arguments=(Literal(value=str(unit)), inner)) if unit in _BY:
            found = inner, _BY[unit]
        case Call(function="extract_year", arguments=(inner,)):
            found = inner, By.YEAR
        case _:
            return None
    inner, by = found
    if isinstance(inner, Cast) and (inner.argument.type, inner.type) == (DATE, TIMESTAMP):
        inner = inner.argument
    return (inner, by) if inner.type in (DATE, TIMESTAMP) else None


def over_period(condition: Expression, period: Period, column: Column) -> Expression | None:
    """Returns a condition on a date as one on the key that tells its period; None where it divides a period, or reads
    anything else.

    Args:
        column: The key.
    """
    inner, by = period
    match condition:
        case Call(function=function, arguments=(Literal() as first, other)) if other == inner and function in _MIRRORED:
            mirrored = replace(condition, function=_MIRRORED[function], arguments=(other, first))
            return over_period(mirrored, period, column)
        case Call(function=function, arguments=arguments) if function in _LOGIC:
            parts = [over_period(part, period, column) for part in arguments]
            return None if None in parts else rebuild(condition, tuple(part for part in parts if part is not None))
        case Call(function="is_null" | "is_not_null", arguments=(read,)) if read == inner:
            return replace(condition, arguments=(column,))
        case Call(function=function, arguments=(read, Literal(value=value))) if read == inner and function in _MIRRORED:
            begins = _after(value) if function in ("le", "gt") else value
        case _:
            return None
    if not isinstance(begins, datetime.date) or not _is_first(begins, by):
        return None
    bound = Literal(value=_of(begins, column), type=column.type)
    return replace(condition, function="lt" if function in ("lt", "le") else "ge", arguments=(column, bound))


def listed(conditions: Sequence[Expression], key: Expression) -> list[Value] | None:
    """Returns the periods that conditions on a key, as `over_period` makes them, leave; None where they do not end."""
    period, ends = period_of(key), dict[str, list[datetime.date]]()
    for condition in conditions:
        match condition:
            case Call(function="lt" | "ge" as function, arguments=(Column(), Literal(value=value))):
                day = datetime.date(value, 1, 1) if isinstance(value, int) else value
                if isinstance(day, datetime.date):
                    ends.setdefault(function, []).append(datetime.date(day.year, day.month, day.day))
    if period is None or len(ends) < 2:
        return None
    first, last = number_of(max(ends["ge"]), period[1]), number_of(min(ends["lt"]), period[1])
    if last - first > MOST:
        return None
    return [_of(first_day(number, period[1]), Column(id="", type=key.type)) for number in range(first, last)]


def before_next(condition: Expression) -> Expression:
    """Returns a comparison of a date with a day as that with the next one, so that both spellings are the same."""
    match condition:
        case Call(function="le", arguments=(read, Literal(type=type) as day)) if read.type == type == DATE:
            after = _after(day.value)
            return condition if after is None else _compared(condition, "lt", read, replace(day, value=after))
        case Call(function="lt", arguments=(Literal(type=type) as day, read)) if read.type == type == DATE:
            after = _after(day.value)
            return condition if after is None else _compared(condition, "le", replace(day, value=after), read)
        case _:
            return condition


def _compared(condition: Call, function: str, *arguments: Expression) -> Call:
    return replace(condition, function=function, arguments=arguments)


def _after(value: Value) -> datetime.date | None:
    """Returns the next value of a date's or a timestamp's type."""
    if not isinstance(value, datetime.date):
        return None
    step = datetime.timedelta(microseconds=1) if isinstance(value, datetime.datetime) else datetime.timedelta(days=1)
    try:
        return value + step
    except OverflowError:
        return None


def _is_first(value: datetime.date, by: By) -> bool:
    midnight = not isinstance(value, datetime.datetime) or value.time() == datetime.time()
    return midnight and first_day(number_of(value, by), by).timetuple()[:3] == value.timetuple()[:3]


def _of(begins: datetime.date, column: Column) -> Value:
    """Returns the value of a key for the period that begins on a day."""
    day = datetime.date(begins.year, begins.month, begins.day)
    if column.type == INT64:
        return day.year
    return datetime.datetime.combine(day, datetime.time()) if column.type == TIMESTAMP else day
