"""Ranges of a relation's columns, from declared bounds upward.

A range decides how wide the clamp of an aggregated value is. The clamp is part of the plan and enforced, so a wrong
range costs accuracy and never privacy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    output,
)
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.planner.contributions import contribution_of

Ranges = dict[str, Range]


def ranges_of(relation: Relation, catalog: Catalog, *, by_rows: bool = False) -> Ranges:
    """Returns what is known of each column that the relation gives, by id.

    Args:
        by_rows: Whether exact counts and sums within one unit are taken to be of at most the declared `max_rows` rows.
            Without it they have no upper bound, so that a CLAMP of the query decides; with it they have one even
            where the query gives none.
    """
    match relation:
        case Scan():
            declared = catalog.tables[relation.table].columns
            found = {column.id: UNKNOWN for column in output(relation)}
            return found | {column.id: declared[column.name].range for column in relation.columns}
        case Filter() | Sort() | Limit():
            return ranges_of(relation.source, catalog, by_rows=by_rows)
        case Project():
            source = ranges_of(relation.source, catalog, by_rows=by_rows)
            return {column.id: range_of(column.expression, source) for column in relation.columns}
        case Join():
            left, right = (ranges_of(side, catalog, by_rows=by_rows) for side in (relation.left, relation.right))
            if relation.kind in ("left", "full"):
                right = {id: replace(known, nullable=True) for id, known in right.items()}
            if relation.kind in ("right", "full"):
                left = {id: replace(known, nullable=True) for id, known in left.items()}
            return left | right
        case Aggregate():
            source = ranges_of(relation.source, catalog, by_rows=by_rows)
            rows = contribution_of(relation.source, catalog).rows
            rows = rows if by_rows or rows == 1 else None
            keys = {id: source[id] for id in relation.group_by}
            return keys | {column.id: _aggregate(column, source, rows) for column in relation.aggregates}
        case Released():
            return {column.id: UNKNOWN for column in relation.columns}
        case _:
            assert_never(relation)


def _aggregate(column: AggregateColumn, source: Ranges, rows: int | None) -> Range:
    """Returns the range of an aggregate of at most `rows` rows, which is exact within one unit."""
    most = None if rows is None else Fraction(rows)
    if column.argument is None or column.function in ("count", "count_distinct"):
        return Range(lower=Fraction(0), upper=most, nullable=False)
    known = range_of(column.argument, source)
    nullable = known.nullable or column.filter is not None
    if column.function in ("min", "max", "avg", "quantile_cont", "quantile_disc", "mode"):
        return replace(known, nullable=nullable)
    if column.function == "sum":
        return _sum(known, most, nullable)
    if known.lower is None or known.upper is None:
        return UNKNOWN
    spread = (known.upper - known.lower) ** 2 / (4 if column.function.endswith("pop") else 2)
    if column.function.startswith("stddev"):
        spread = Fraction(math.nextafter(math.sqrt(spread), math.inf))
    return Range(lower=Fraction(0), upper=spread, nullable=True)


def _sum(known: Range, most: Fraction | None, nullable: bool) -> Range:
    """Returns the range of a sum of 1 to `most` values; without `most`, an end beyond 0 is open."""
    lower, upper = known.lower, known.upper
    if lower is not None and lower < 0:
        lower = None if most is None else most * lower
    if upper is not None and upper > 0:
        upper = None if most is None else most * upper
    return Range(lower=lower, upper=upper, nullable=nullable)
