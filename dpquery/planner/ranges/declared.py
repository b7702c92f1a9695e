"""Aggregates whose value follows from the declarations: counts and sums of rows that none can be.

A column that is not declared nullable holds no NULL, as far as analysts hear: only the owner hears of what is stored
otherwise. So `x IS NULL` is true of none of its rows, and a count of such rows is 0, which is not measured and is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpquery.catalog import Catalog
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, columns_of, conjuncts
from dpquery.plan.functions import cast_value
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    OutputColumn,
    Project,
    Relation,
    Released,
    Sort,
    Values,
    sources,
    with_sources,
)
from dpquery.plan.types import INT64
from dpquery.planner.ranges.ranges import Ranges, ranges_of

_ONE_ROW = Values(columns=(OutputColumn(id="one_row", name="", type=INT64),), rows=((0,),))


Certain = dict[int, dict[str, Expression]]
"""Of boundaries, by identity, the aggregates that are certain."""


def with_declared(logical: LogicalPlan, catalog: Catalog, found: Certain) -> LogicalPlan:
    """Returns the plan without the aggregates that the declarations answer, which are read as constants instead.

    A grand total of nothing else is no boundary any more. Grouping sets stay as they are: they are planned together.

    Args:
        found: Gets what is certain of each boundary, which several plans may share.
    """
    if logical.families:
        return logical
    found |= {id(one): _certain(one, catalog) for one in logical.boundaries if id(one) not in found}
    certain = [found[id(boundary)] for boundary in logical.boundaries]
    kept: list[Aggregate] = []
    places: dict[int, int] = {}
    for index, (boundary, known) in enumerate(zip(logical.boundaries, certain, strict=True)):
        rest = tuple(column for column in boundary.aggregates if column.id not in known)
        if not rest and boundary.group_by:
            known.clear()
            rest = boundary.aggregates
        if rest or not known:
            places[index] = len(kept)
            kept.append(replace(boundary, aggregates=rest))
    if not any(certain):
        return logical
    result = _read(logical.result, certain, places)
    return replace(logical, boundaries=tuple(kept), result=result)


def _certain(boundary: Aggregate, catalog: Catalog) -> dict[str, Expression]:
    """Returns the aggregates of a boundary that are certain, by id."""
    known, nothing = ranges_of(boundary.source, catalog), _is_empty(boundary.source, catalog)
    return {
        column.id: _zero(column)
        for column in boundary.aggregates
        if (column.function.counts or column.function is SUM) and (nothing or _counts_nothing(column, known))
    }


def _counts_nothing(column: AggregateColumn, known: Ranges) -> bool:
    """Whether no row passes FILTER, or the condition of a CASE that leaves all others out."""
    if column.filter is not None and _is_never(column.filter, known):
        return True
    case = column.argument
    if not isinstance(case, Case) or not isinstance(case.otherwise, Literal):
        return False
    neutral = (None,) if column.function.counts else (None, 0)
    return case.otherwise.value in neutral and all(_is_never(condition, known) for condition, _ in case.branches)


def _zero(column: AggregateColumn) -> Expression:
    return Literal(value=cast_value(0, INT64, column.type), type=column.type)


def _is_empty(relation: Relation, catalog: Catalog) -> bool:
    """Whether the declarations say that a relation has no row."""
    match relation:
        case Filter():
            never = _is_never(relation.condition, ranges_of(relation.source, catalog))
            return never or _is_empty(relation.source, catalog)
        case Project() | Sort() | Limit():
            return _is_empty(relation.source, catalog)
        case Join(kind="inner"):
            return _is_empty(relation.left, catalog) or _is_empty(relation.right, catalog)
        case Join(kind="left" | "semi" | "anti"):
            return _is_empty(relation.left, catalog)
        case _:
            return False


def _is_never(condition: Expression, known: Ranges) -> bool:
    """Whether a condition is true of no row: IS NULL of what is never NULL, or a constant that is not true."""
    return any(_is_no_row(part, known) for part in conjuncts(condition))


def _is_no_row(part: Expression, known: Ranges) -> bool:
    if isinstance(part, Call) and part.function == "is_null":
        return not range_of(part.arguments[0], known).nullable
    return not any(columns_of(part)) and evaluate(part, {}) is not True


def _read(relation: Relation, certain: list[dict[str, Expression]], places: Mapping[int, int]) -> Relation:
    """Returns the relation with constants for what is certain, and new numbers of the tables that remain."""
    if not isinstance(relation, Released):
        return with_sources(relation, tuple(_read(source, certain, places) for source in sources(relation)))
    known = certain[relation.index]
    measured = tuple(column for column in relation.columns if column.id not in known)
    place = places.get(relation.index)
    source = _ONE_ROW if place is None else replace(relation, index=place, columns=measured)
    if place is not None and len(measured) == len(relation.columns):
        return source
    read = {column.id: known.get(column.id, Column(id=column.id, type=column.type)) for column in relation.columns}
    return Project(
        source=source, columns=tuple(Computed(id=c.id, name=c.name, expression=read[c.id]) for c in relation.columns)
    )
