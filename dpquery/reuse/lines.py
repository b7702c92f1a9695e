"""Keys and conditions that tell intervals of one ordered value, so that all of them are sets of places on one line.

`v`, `v / 10`, `CASE WHEN v <= 3 THEN ...`, `v <= 7`, `date_trunc('month', day)`, its year, and `day >= '2024-03-01'`
change at certain values alone. Between two of these all rows are in the same groups and fulfil the same conditions.
"""

from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from dpquery.plan.calendar import By, first_day, number_of
from dpquery.plan.evaluate import evaluate, evaluate_rows
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children, rebuild
from dpquery.plan.types import DATE, INT64, TIMESTAMP, Kind, Type, Value
from dpquery.reuse.text import expression_of, value_of

Row = tuple[str, ...]
Period = tuple[Expression, By]
"""A date or timestamp, and how long the periods are."""
_BY = {by.value: by for by in By}
MOST = 20_000
"""Values at which the keys of one release may change."""
_CHANGES = {"lt": (False,), "ge": (False,), "le": (True,), "gt": (True,), "eq": (False, True), "ne": (False, True)}
"""Comparisons with a number on their right, and whether they change where it is reached or after it."""
_MIRRORED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "eq", "ne": "ne"}
_LOGIC = frozenset({"and", "or", "not"})
_PARTS = {
    "extract_quarter": By.QUARTER,
    "extract_month": By.MONTH,
    "extract_week": By.WEEK,
    "extract_isoyear": By.WEEK,
    **dict.fromkeys(("extract_day", "extract_dow", "extract_isodow", "extract_doy"), By.DAY),
}
"""Parts of a date that come again, and how long each lasts."""
_ORDERED = frozenset({Kind.INT64, Kind.FLOAT64, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
_LEAST: dict[Kind, Any] = {
    Kind.INT64: -(2**63),
    Kind.FLOAT64: -math.inf,
    Kind.DECIMAL: Decimal("-1e38"),
    Kind.DATE: datetime.date.min,
    Kind.TIMESTAMP: datetime.datetime.min,
}
_MOST: dict[Kind, Any] = {
    Kind.INT64: 2**63 - 1,
    Kind.FLOAT64: math.inf,
    Kind.DECIMAL: Decimal("1e38"),
    Kind.DATE: datetime.date.max,
    Kind.TIMESTAMP: datetime.datetime.max,
}


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """An ordered value cut into places: below the first of `begins`, from each of them up to the next, and NULL."""

    value: Expression
    begins: tuple[Any, ...]

    @property
    def ends(self) -> list[tuple[Any, Any]]:
        """The first and the last value of each place but that of NULL."""
        kind = self.value.type.kind
        lasts = [_before(begin, self.value.type) for begin in self.begins]
        return list(zip((_LEAST[kind], *self.begins), (*lasts, _MOST[kind]), strict=True))

    @property
    def inside(self) -> list[Value]:
        """One value of each place."""
        return [_before(self.begins[0], self.value.type), *self.begins, None]

    def values(self, expression: str) -> tuple[Value, ...]:
        """Returns what an expression over the value, as text, is in each place, if it is the same in all of it."""
        return _values(expression, self.value, self.begins)

    def holds(self, columns: Row, domain: tuple[Row, ...], possible: Sequence[bool]) -> bool:
        """Whether each group of keys, as texts, is some of the places, of those in which rows may be."""
        begins = begins_of(columns, domain, self.value)
        if begins is None:
            return not any(self.divides(expression_of(text), possible) for text in columns)
        return not any(self._is_within(begin, possible) for begin in begins)

    def divides(self, expression: Expression, possible: Sequence[bool]) -> bool:
        """Whether some place, of those in which rows may be, may hold several values of an expression."""
        if isinstance(expression, Case) or (isinstance(expression, Call) and expression.function in _LOGIC):
            return any(self.divides(part, possible) for part in children(expression))
        if expression == self.value or _is_rising(expression, self.value):
            return any(first != last for first, last in self._told(expression, possible))
        by = _lasting(expression, self.value)
        if by is not None:
            kept = [ends for ends, may in zip(self.ends, possible, strict=False) if may]
            return any(number_of(first, by) != number_of(last, by) for first, last in kept)
        found = changes(expression, self.value)
        return found is None or any(self._is_within(change, possible) for change in found)

    def _told(self, expression: Expression, possible: Sequence[bool]) -> Iterable[tuple[Value, Value]]:
        column = Column(id="value", type=self.value.type)
        over = _replaced(expression, self.value, column)
        for (first, last), may in zip(self.ends, possible, strict=False):
            if may:
                yield evaluate(over, {"value": first}), evaluate(over, {"value": last})

    def _is_within(self, change: Any, possible: Sequence[bool]) -> bool:
        place = bisect.bisect_left(self.begins, change)
        return (place == len(self.begins) or self.begins[place] != change) and possible[place]


@lru_cache(maxsize=4096)
def _values(text: str, value: Expression, begins: tuple[Any, ...]) -> tuple[Value, ...]:
    over = _replaced(expression_of(text), value, Column(id="value", type=value.type))
    inside = [_before(begins[0], value.type), *begins, None]
    return tuple(evaluate_rows(over, {"value": inside}, len(inside)))


@lru_cache(maxsize=4096)
def behind(columns: Row) -> Expression | None:
    """Returns the ordered value that keys or conditions, as texts, are functions of; None where there are several."""
    try:
        found = {value for text in columns for value in _values_behind(expression_of(text))}
    except ValueError:
        return None
    value = found.pop() if len(found) == 1 else None
    return value if value is not None and value.type.kind in _ORDERED else None


@lru_cache(maxsize=4096)
def begins_of(columns: Row, domain: tuple[Row, ...], value: Expression) -> frozenset[Any] | None:
    """Returns where the groups of keys begin and end; None where the public values do not tell."""
    found, spans = set[Any](), set[tuple[Any, Any]]()
    parts = list[By]()
    for place, text in enumerate(columns):
        expression = expression_of(text)
        by = _lasting(expression, value)
        if by is not None:
            parts.append(by)
        elif expression == value or _is_rising(expression, value):
            each = {value_of(row[place]) for row in domain} - {None}
            ends = {tuple(_reached(expression, value, one, after) for after in (False, True)) for one in each}
            spans |= ends
            found |= {end for both in ends for end in both if end is not None}
        else:
            own = changes(expression, value)
            if own is None:
                return None
            found |= own
    for by in parts:
        if not spans or any(None in span for span in spans):
            return None
        for first, last in spans:
            numbers = range(number_of(first, by) + 1, number_of(last, by))
            found |= {_like(first_day(number, by), value.type) for number in numbers}
    return frozenset(found) if found and len(found) <= MOST else None


def changes(expression: Expression, value: Expression) -> frozenset[Any] | None:
    """Returns the values at which an expression may change; None where they are not known, or do not end."""
    match expression:
        case Literal():
            return frozenset()
        case Call(function="is_null" | "is_not_null", arguments=(read,)) if read == value or _is_rising(read, value):
            return frozenset()
        case Call(function="in", arguments=(read, *listed)):
            each = [_compared("eq", read, one, value) for one in listed]
        case Call(function=function, arguments=(Literal() as first, second)) if function in _CHANGES:
            each = [_compared(_MIRRORED[function], second, first, value)]
        case Call(function=function, arguments=(first, second)) if function in _CHANGES:
            each = [_compared(function, first, second, value)]
        case Case() | Call(function="and" | "or" | "not" | "is_null" | "is_not_null"):
            each = [changes(part, value) for part in children(expression)]
        case _:
            return None
    return None if None in each else frozenset().union(*(one for one in each if one is not None))


def _compared(function: str, read: Expression, with_: Expression, value: Expression) -> frozenset[Any] | None:
    if not isinstance(with_, Literal) or not (read == value or _is_rising(read, value)):
        return None
    if with_.value is None:
        return frozenset()
    found = {_reached(read, value, with_.value, after) for after in _CHANGES[function]}
    return frozenset(found - {None})


def _values_behind(expression: Expression) -> set[Expression]:
    """Returns what comparisons with literals, periods and further steps of an expression read."""
    period = period_of(expression)
    if period is not None:
        return {period[0]}
    match expression:
        case Literal():
            return set()
        case Case() | Call(function="and" | "or" | "not" | "is_null" | "is_not_null" | "in"):
            return {value for part in children(expression) for value in _values_behind(part)}
        case Call(function=function) if function in _CHANGES:
            return {value for part in children(expression) for value in _values_behind(part)}
        case Call(function=function, arguments=(inner,)) if function in _PARTS or function in ("floor", "ceil"):
            return {inner} if function in _PARTS else _values_behind(inner)
        case Call(function="int_divide", arguments=(inner, Literal(value=int(by)))) if by > 0:
            return _values_behind(inner)
        case _:
            return {expression}


def _is_rising(expression: Expression, value: Expression) -> bool:
    """Whether an expression never falls as the value rises, and is NULL where that is alone."""
    match expression:
        case Call(function="floor" | "ceil", arguments=(inner,)) if value.type == INT64:
            return inner == value or _is_rising(inner, value)
        case Call(function="int_divide", arguments=(inner, Literal(value=int(by)))) if by > 0 and value.type == INT64:
            return inner == value or _is_rising(inner, value)
    period = period_of(expression)
    return period is not None and period[0] == value


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


def before_next(condition: Expression) -> Expression:
    """Returns a comparison of a date with a day as that with the next one, so that both spellings are the same."""
    match condition:
        case Call(function="le", arguments=(read, Literal(type=type) as day)) if read.type == type == DATE:
            after = following(day.value, DATE)
            before = read, replace(day, value=after)
            return condition if after is None else replace(condition, function="lt", arguments=before)
        case Call(function="lt", arguments=(Literal(type=type) as day, read)) if read.type == type == DATE:
            after = following(day.value, DATE)
            reached = replace(day, value=after), read
            return condition if after is None else replace(condition, function="le", arguments=reached)
        case _:
            return condition


def _lasting(expression: Expression, value: Expression) -> By | None:
    match expression:
        case Call(function=function, arguments=(inner,)) if inner == value:
            return _PARTS.get(function)
    return None


def _reached(rising: Expression, value: Expression, asked: Any, after: bool) -> Any:
    """Returns the least value at which a rising expression is at least, or more than, what is asked; None for none."""
    kind, period = value.type.kind, period_of(rising)
    try:
        if rising == value:
            return following(asked, value.type) if after else asked
        if period is not None and period[0] == value:
            day = datetime.date(asked, 1, 1) if isinstance(asked, int) else asked
            number = number_of(day, period[1])
            begins = _like(first_day(number, period[1]), value.type)
            reached = datetime.datetime(*begins.timetuple()[:6]) == datetime.datetime.combine(day, _clock(day))
            return begins if reached and not after else _like(first_day(number + 1, period[1]), value.type)
    except (OverflowError, ValueError):
        return None
    column = Column(id="value", type=value.type)
    over = _replaced(rising, value, column)

    def is_reached(one: int) -> bool:
        told: Any = evaluate(over, {"value": one})
        return bool(told > asked if after else told >= asked)

    least, most = _LEAST[kind], _MOST[kind]
    if not is_reached(most):
        return None
    return _bisected(least, most, is_reached)


def _bisected(least: int, most: int, is_reached: Callable[[int], bool]) -> int | None:
    if is_reached(least):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_reached(middle) else (middle, most)
    return most


def _clock(day: datetime.date) -> datetime.time:
    return day.time() if isinstance(day, datetime.datetime) else datetime.time()


def _like(day: datetime.date, type: Type) -> datetime.date:
    if type == TIMESTAMP:
        return day if isinstance(day, datetime.datetime) else datetime.datetime.combine(day, datetime.time())
    return datetime.date(day.year, day.month, day.day)


def following(value: Any, type: Type, by: int = 1) -> Any:
    """Returns the next value of an ordered type; None where there is none."""
    if value is None:
        return None
    try:
        match type.kind:
            case Kind.INT64:
                return value + by
            case Kind.FLOAT64:
                return math.nextafter(value, by * math.inf)
            case Kind.DECIMAL:
                return value + by * Decimal(1).scaleb(-type.scale)
            case Kind.DATE:
                return value + datetime.timedelta(days=by)
            case _:
                return value + datetime.timedelta(microseconds=by)
    except OverflowError:
        return None


def _before(value: Any, type: Type) -> Any:
    return following(value, type, -1)


def _replaced(expression: Expression, value: Expression, column: Column) -> Expression:
    if expression == value:
        return column
    return rebuild(expression, tuple(_replaced(part, value, column) for part in children(expression)))
