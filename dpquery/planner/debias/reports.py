"""Which columns hold reports of randomised response, and where a query may read them: in aggregates and keys alone.

A filter, a join or a total of one person that reads a report speaks of the report and not of the value, and nothing
that follows could be debiased; so it is refused. Conditions of WHERE are moved into the aggregates, where they can be.
Proof: docs/proofs/randomised-response.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.catalog.tables import Randomized
from dpquery.errors import QueryError, Span, UnsupportedQueryError
from dpquery.plan.expr import Expression, columns_of, conjuncts
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    output,
    sources,
)
from dpquery.planner.ranges.contributions import contribution_of, counted_rows

ELSEWHERE = (
    "Read it in COUNT, SUM, AVG, COUNT_IF, FILTER or WHERE of the query that aggregates over people, or as a column of "
    "its GROUP BY."
)


def scanned(scan: Scan, catalog: Catalog) -> dict[str, Randomized]:
    """Returns the columns of a scan that hold reports, by id."""
    declared = catalog.tables[scan.table].columns
    found = {column.id: declared[column.name].randomized for column in scan.columns}
    return {id: randomized for id, randomized in found.items() if randomized is not None}


def reading_reports(relation: Relation, catalog: Catalog) -> frozenset[str]:
    """Returns the columns of a private relation that follow from reports.

    Raises:
        UnsupportedQueryError: Reports decide about rows, groups or numbers of single units.
    """
    match relation:
        case Scan():
            return frozenset(scanned(relation, catalog))
        case Project():
            below = reading_reports(relation.source, catalog)
            return frozenset(c.id for c in relation.columns if reads(c.expression, below))
        case Filter():
            below = reading_reports(relation.source, catalog)
            _refuse([relation.condition], below)
            return below
        case Join():
            below = reading_reports(relation.left, catalog) | reading_reports(relation.right, catalog)
            _refuse([part for pair in relation.equalities for part in pair], below)
            _refuse([] if relation.condition is None else [relation.condition], below)
            return below & {column.id for column in output(relation)}
        case Aggregate():
            below = reading_reports(relation.source, catalog)
            for a in relation.aggregates:
                _refuse([part for part in (a.argument, a.second, a.filter) if part is not None], below, a.span)
            _refuse_ids(relation.group_by, below)
            return frozenset()
        case Window():
            below = reading_reports(relation.source, catalog)
            for w in relation.columns:
                _refuse([*w.arguments, *([] if w.filter is None else [w.filter])], below, w.span)
                _refuse_ids((*w.partition_by, *(key.column for key in w.order_by)), below)
            return below
        case SetOperation():
            _refuse_ids([c.left for c in relation.columns], reading_reports(relation.left, catalog))
            _refuse_ids([c.right for c in relation.columns], reading_reports(relation.right, catalog))
            return frozenset()
        case Sort() | Limit():
            below = reading_reports(relation.source, catalog)
            _refuse_ids([c.id for c in output(relation)], below)
            return below
        case Values() | Released():
            return frozenset()
        case _:
            assert_never(relation)


def lifted(relation: Relation, catalog: Catalog) -> tuple[Relation, tuple[Expression, ...]]:
    """Returns the relation without the conditions of its WHERE that read reports, and these, over its columns."""
    match relation:
        case Filter():
            source, found = lifted(relation.source, catalog)
            below = reading_reports(source, catalog)
            parts = conjuncts(relation.condition)
            kept = [part for part in parts if not reads(part, below)]
            moved = tuple(part for part in parts if reads(part, below))
            if not moved and source is relation.source:
                return relation, found
            return (Filter(source=source, condition=both(kept)) if kept else source), (*found, *moved)
        case Project():
            source, found = lifted(relation.source, catalog)
            given = {column.id for column in relation.columns}
            read = {column.id: column for part in found for column in columns_of(part)}
            more = [Computed(id=id, name="", expression=column) for id, column in read.items() if id not in given]
            if not more and source is relation.source:
                return relation, found
            return replace(relation, source=source, columns=(*relation.columns, *more)), found
        case _:
            return relation, ()


def reads(expression: Expression, ids: Iterable[str]) -> bool:
    """Whether an expression reads one of the columns."""
    return any(column.id in ids for column in columns_of(expression))


def both(parts: Iterable[Expression]) -> Expression:
    """Returns the conjunction of conditions, at least one."""
    return reduce(lambda first, second: call("and", (first, second)), parts)


def refusal(reason: str, advice: str, span: Span | None = None) -> QueryError:
    """Returns the refusal of what cannot be debiased."""
    return UnsupportedQueryError(reason, advice=advice, span=span)


def _refuse(expressions: Iterable[Expression], below: frozenset[str], span: Span | None = None) -> None:
    for expression in expressions:
        found = next((column for column in columns_of(expression) if column.id in below), None)
        if found is not None:
            reason = "a column of randomised reports decides here about rows or numbers of single units"
            raise refusal(reason, ELSEWHERE, expression.span or found.span or span)


def _refuse_ids(ids: Iterable[str], below: frozenset[str]) -> None:
    if not below.isdisjoint(ids):
        raise refusal("rows are grouped, ordered or put together by a column of randomised reports", ELSEWHERE)


def stored(relation: Relation, catalog: Catalog) -> dict[str, Randomized]:
    """Returns all stored columns of reports under a relation, by id."""
    found = scanned(relation, catalog) if isinstance(relation, Scan) else {}
    for source in sources(relation):
        found |= stored(source, catalog)
    return found


def repeats(relation: Relation, catalog: Catalog, max_rows: int | None) -> int:
    """Returns in how many counted rows of a group one report may stand: in several where its table is joined."""
    if not _has_join(relation) or catalog.declarations.unit_is_row:
        return 1
    return 1 if contribution_of(relation, catalog).rows == 1 else counted_rows(relation, catalog, max_rows)


def _has_join(relation: Relation) -> bool:
    return isinstance(relation, Join) or any(_has_join(source) for source in sources(relation))
