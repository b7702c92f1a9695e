"""Numbers of rows of which a query asks the sum alone: of disjoint conditions one number is measured.

COUNT(*) FILTER (WHERE c) + COUNT(*) FILTER (WHERE NOT c) is COUNT(*): one measurement, and the noise of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from dpquery.catalog import Catalog
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.expr import Call, Column, Expression, children, columns_of, conjuncts, parts_of, rebuild
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    LogicalPlan,
    Project,
    Relation,
    Released,
    sources,
    with_sources,
)
from dpquery.planner.protect.complements import all_of, opposites
from dpquery.planner.ranges.ranges import ranges_of
from dpquery.units.disjoint import disjoint

Pair = tuple[AggregateColumn, AggregateColumn]


def with_sums(logical: LogicalPlan, catalog: Catalog) -> LogicalPlan:
    """Returns the plan with one count for each sum of two of disjoint rows, of which neither is read otherwise.

    Only sums directly over a boundary are looked at; grouping sets stay as they are: they are planned together.
    """
    if logical.families:
        return logical
    read = Counter(leaf.index for leaf in _leaves(logical.result))
    boundaries, result = list(logical.boundaries), logical.result
    for index, boundary in enumerate(boundaries):
        if read[index] == 1:
            boundaries[index], result = _merged(boundary, index, result, catalog)
    return replace(logical, boundaries=tuple(boundaries), result=result)


def _leaves(relation: Relation) -> Iterator[Released]:
    if isinstance(relation, Released):
        yield relation
    for source in sources(relation):
        yield from _leaves(source)


def _merged(boundary: Aggregate, index: int, result: Relation, catalog: Catalog) -> tuple[Aggregate, Relation]:
    """Returns a boundary and what is computed from it, with as many counts made one as can be."""
    known = ranges_of(boundary.source, catalog)

    def is_nullable(condition: Expression) -> bool:
        return range_of(condition, known).nullable

    while (pair := _pair(boundary, _over(result, index))) is not None:
        first, second = pair
        assert first.filter is not None and second.filter is not None
        one = replace(first, filter=_either(first.filter, second.filter, is_nullable))
        columns = (one if c is first else c for c in boundary.aggregates if c is not second)
        boundary = replace(boundary, aggregates=tuple(columns))
        result = _read(result, index, pair)
    return boundary, result


def _over(relation: Relation, index: int) -> Project | None:
    """Returns the projection directly over a released table, or None."""
    if isinstance(relation, Project) and isinstance(relation.source, Released) and relation.source.index == index:
        return relation
    return next((found for source in sources(relation) if (found := _over(source, index)) is not None), None)


def _pair(boundary: Aggregate, read: Project | None) -> Pair | None:
    """Returns two counts that are read in sums of both alone, of rows that are not in both."""
    if read is None:
        return None
    counts = {c.id: c for c in boundary.aggregates if c.function is COUNT and c.filter is not None}
    expressions = [column.expression for column in read.columns]
    uses = Counter(column.id for expression in expressions for column in columns_of(expression))
    sums = Counter(ids for expression in expressions for part in parts_of(expression) if (ids := _added(part)))
    for (a, b), times in sums.items():
        one, other = counts.get(a), counts.get(b)
        if one is None or other is None or a == b or one.filter is None or other.filter is None:
            continue
        alone = uses[a] == uses[b] == times and repr(one.argument) == repr(other.argument)
        if alone and disjoint(one.filter, other.filter):
            places = [c.id for c in boundary.aggregates]
            return (one, other) if places.index(a) < places.index(b) else (other, one)
    return None


def _added(part: Expression) -> tuple[str, str] | None:
    """Returns the ids of two columns that an expression adds up, or None."""
    if not isinstance(part, Call) or part.function != "add":
        return None
    a, b = part.arguments
    return (min(a.id, b.id), max(a.id, b.id)) if isinstance(a, Column) and isinstance(b, Column) else None


def _either(one: Expression, other: Expression, is_nullable: Callable[[Expression], bool]) -> Expression | None:
    """Returns the condition of rows that pass either of two filters; None where these are all rows."""
    first, second = conjuncts(one), conjuncts(other)
    common = {repr(part) for part in first} & {repr(part) for part in second}
    kept = [part for part in first if repr(part) in common]
    rests = [[part for part in parts if repr(part) not in common] for parts in (first, second)]
    if not all(rests):
        return all_of(kept) if kept else None
    a, b = (all_of(rest) for rest in rests)
    for x, y in ((a, b), (b, a)):
        if repr(y) in [*map(repr, opposites(x, nullable=is_nullable(x)))]:
            return all_of(kept) if kept else None
        if repr(y) in [*map(repr, opposites(x, nullable=False))]:
            return all_of([*kept, call("is_not_null", (x,))])
    return call("or", (one, other))


def _read(relation: Relation, index: int, pair: Pair) -> Relation:
    """Returns the relation with the first of two counts in place of their sum."""
    ids = min(pair[0].id, pair[1].id), max(pair[0].id, pair[1].id)

    def read(expression: Expression) -> Expression:
        if _added(expression) == ids:
            return Column(id=pair[0].id, type=pair[0].type)
        below = children(expression)
        return rebuild(expression, tuple(map(read, below))) if below else expression

    over = relation.source if isinstance(relation, Project) else None
    if isinstance(relation, Project) and isinstance(over, Released) and over.index == index:
        kept = tuple(column for column in over.columns if column.id != pair[1].id)
        columns = tuple(replace(column, expression=read(column.expression)) for column in relation.columns)
        return replace(relation, source=replace(over, columns=kept), columns=columns)
    return with_sources(relation, tuple(_read(source, index, pair) for source in sources(relation)))
