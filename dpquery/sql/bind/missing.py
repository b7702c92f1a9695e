"""Whether an expression over a relation may be NULL, as far as is declared: NOT IN means something else then."""

from __future__ import annotations

from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.plan.expr import Expression
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
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
)
from dpquery.plan.ranges import UNKNOWN, Range

_PRESENT = Range(nullable=False)


def may_be_null(expression: Expression, relation: Relation, present: frozenset[str], catalog: Catalog) -> bool:
    """Returns whether no declaration rules out NULL.

    Args:
        present: Columns that are not NULL on any row that counts, such as those of the privacy unit.
    """
    return range_of(expression, _known(relation, catalog) | dict.fromkeys(present, _PRESENT)).nullable


def _known(relation: Relation, catalog: Catalog) -> dict[str, Range]:
    unknown = {column.id: UNKNOWN for column in output(relation)}
    match relation:
        case Scan():
            declared = catalog.tables[relation.table].columns
            return unknown | {column.id: declared[column.name].range for column in relation.columns}
        case Filter() | Sort() | Limit():
            return _known(relation.source, catalog)
        case Window():
            return unknown | _known(relation.source, catalog)
        case Project():
            source = _known(relation.source, catalog)
            return {column.id: range_of(column.expression, source) for column in relation.columns}
        case Join(kind="semi" | "anti" | "left"):
            return unknown | _known(relation.left, catalog)
        case Join(kind="inner" | "cross"):
            return _known(relation.left, catalog) | _known(relation.right, catalog)
        case Aggregate():
            source = _known(relation.source, catalog)
            counts = {a.id: _PRESENT for a in relation.aggregates if a.function in ("count", "count_distinct")}
            return unknown | {id: source[id] for id in relation.group_by} | counts
        case Join() | SetOperation() | Values() | Released():
            return unknown
        case _:
            assert_never(relation)
