"""In what the values of a column agree where those of an expression over it do: a period of time, or altogether."""

from __future__ import annotations

from collections.abc import Iterable

from dpquery.plan.calendar import By
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal
from dpquery.plan.types import DATE, TIMESTAMP

Told = By | str | None
"""In what values agree: in a period that they are in, in a part of that (`month`, `quarter`, of any year), or with None
in all, so that they are equal or both NULL."""

_WITHIN: dict[Told, frozenset[By]] = {
    None: frozenset(By),
    By.DAY: frozenset(By),
    By.WEEK: frozenset({By.WEEK}),
    By.MONTH: frozenset({By.MONTH, By.QUARTER, By.YEAR}),
    By.QUARTER: frozenset({By.QUARTER, By.YEAR}),
    By.YEAR: frozenset({By.YEAR}),
}
"""Where two dates agree in the first, they agree in each of the others."""
_TOUCHED = {
    (By.WEEK, By.DAY): 7,
    (By.MONTH, By.DAY): 31,
    (By.MONTH, By.WEEK): 6,
    (By.QUARTER, By.DAY): 92,
    (By.QUARTER, By.WEEK): 14,
    (By.QUARTER, By.MONTH): 3,
    (By.YEAR, By.DAY): 366,
    (By.YEAR, By.WEEK): 54,
    (By.YEAR, By.MONTH): 12,
    (By.YEAR, By.QUARTER): 4,
}
"""How many of the second one of the first touches at most; a week touches 2 of those that are longer."""
_CUT: dict[object, By] = {**{by.value: by for by in By}, "hour": By.DAY, "minute": By.DAY, "second": By.DAY}
_PARTS: dict[str, Told] = {"extract_year": By.YEAR, "extract_month": "month", "extract_quarter": "quarter"}
_FORMATS = (("Ymd", By.DAY), ("Yj", By.DAY), ("Ym", By.MONTH), ("Y", By.YEAR))


def agreeing(expression: Expression, told: Told) -> Iterable[tuple[str, Told]]:
    """Returns columns of an expression, and in what their values agree on rows on which those of the expression agree
    in `told`."""
    match expression:
        case Column(id=id):
            return ((id, told),)
        case Cast(type=type, argument=inner) if (inner.type, type) == (DATE, TIMESTAMP):
            return agreeing(inner, told)
        case Cast(type=type, argument=inner) if (inner.type, type) == (TIMESTAMP, DATE):
            return _cut(inner, By.DAY, told)
        case Call(function="date_trunc", arguments=(Literal(value=unit), inner)) if unit in _CUT:
            return _cut(inner, _CUT[unit], told)
        case Call(function="format_date", arguments=(inner, Literal(value=form))) if told is None:
            known = next((by for parts, by in _FORMATS if all(f"%{part}" in str(form) for part in parts)), None)
            return () if known is None else agreeing(inner, known)
        case Call(function=function, arguments=(inner,)) if told is None and function in _PARTS:
            return agreeing(inner, _PARTS[function])
        case _:
            return ()


def _cut(inner: Expression, by: By, told: Told) -> Iterable[tuple[str, Told]]:
    """The same of the beginning of the period in which an expression is."""
    if told is None or (isinstance(told, By) and by in _WITHIN[told]):
        return agreeing(inner, by)
    return agreeing(inner, told) if told in _WITHIN[by] else ()


def most_periods(by: By, told: set[Told]) -> int | None:
    """Returns in how many periods values can be that agree in each of these, where they are not all NULL; None where
    nothing limits them."""
    if None in told:
        return 1
    periods = {one for one in told if isinstance(one, By)}
    is_of_year = any(By.YEAR in _WITHIN[one] for one in periods)
    if is_of_year and "month" in told:
        periods |= {By.MONTH, By.QUARTER}
    if is_of_year and "quarter" in told:
        periods.add(By.QUARTER)
    counts = [1 if by in _WITHIN[one] else _TOUCHED.get((one, by), 2) for one in periods]
    return min(counts, default=None)
