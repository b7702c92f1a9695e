"""In how many strata rows can be that agree in some columns, or pass a filter, and in which periods dates agree.

docs/proofs/weights.md, Lemma 8.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpquery.plan.calendar import By
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal
from dpquery.plan.logical import Filter, Project, Scan
from dpquery.plan.strata import Strata
from dpquery.plan.types import DATE, TIMESTAMP
from dpquery.units.blocks import ALL, may_hold

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


Agreed = frozenset[tuple[str, Told]]
"""Columns, and in what rows agree of each."""


def below(project: Project, agreed: Agreed) -> Agreed:
    """Returns in what the rows of a projection's source agree, if its own rows agree in this."""
    made = {column.id: column.expression for column in project.columns}
    return frozenset(each for id, told in agreed if id in made for each in agreeing(made[id], told))


def strata_of(agreed: Agreed, scan: Scan, strata: Strata) -> int | None:
    """Returns in how many strata rows of a scan can be that agree in this; None where nothing limits them."""
    ids = {column.id for column in scan.columns if column.name == strata.column}
    told = {told for id, told in agreed if id in ids}
    if strata.by is None:
        return 1 if None in told else None
    return most_periods(strata.by, told)


def strata_read(filtered: Filter) -> tuple[Scan, int] | None:
    """Returns the scan under filters, and in how many strata the rows that pass can be at most; None where that is not
    known: what does not stand directly on a scan of calendar periods tells nothing."""
    conditions, relation = [filtered.condition], filtered.source
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.source
    if not isinstance(relation, Scan) or relation.strata is None or relation.strata.by is None:
        return None
    column = next((column for column in relation.columns if column.name == relation.strata.column), None)
    if column is None:
        return None
    found = ALL
    for condition in conditions:
        found &= may_hold(condition, frozenset({column.id}), column.type, relation.strata.by)
    return relation, sum(last - first + 1 for first, last in found.spans) + found.undated
