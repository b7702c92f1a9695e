"""Ranges of a relation's columns, from declared bounds upward.

A range decides how wide the clamp of an aggregated value is. The clamp is part of the plan and enforced, so a wrong
range costs accuracy and never privacy.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Column, Expression, Literal
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
    SetKind,
    SetOperation,
    Sort,
    Values,
    Window,
    WindowColumn,
    output,
)
from dpquery.plan.ranges import UNKNOWN, Range, hull, number_of, total_range
from dpquery.plan.types import Value
from dpquery.plan.windows import frame_of, may_be_empty, summand
from dpquery.planner.ranges.contributions import contribution_of

Ranges = dict[str, Range]


def ranges_of(relation: Relation, catalog: Catalog, *, by_rows: bool = False) -> Ranges:
    """Returns what is known of each column that the relation gives, by id.

    Args:
        by_rows: Whether exact counts and sums within one unit are taken to be of at most the declared `max_rows` rows.
            Without it they have no upper bound, so that a CLAMP of the query decides; with it they have one even
            where the query gives none.
    """
    return _ranges(relation, catalog, by_rows)


@cached
def _ranges(relation: Relation, catalog: Catalog, by_rows: bool) -> Ranges:
    match relation:
        case Scan():
            declared = catalog.tables[relation.table].columns
            found = {column.id: UNKNOWN for column in output(relation)}
            return found | {column.id: declared[column.name].range for column in relation.columns}
        case Filter() | Sort() | Limit():
            return ranges_of(relation.source, catalog, by_rows=by_rows)
        case Project():
            source = ranges_of(relation.source, catalog, by_rows=by_rows)
            found = {column.id: range_of(column.expression, source) for column in relation.columns}
            if isinstance(relation.source, Join) and relation.source.kind == "full":
                sides = tuple(
                    ranges_of(side, catalog, by_rows=by_rows) for side in (relation.source.left, relation.source.right)
                )
                for column in relation.columns:
                    if _is_on_a_side(column.expression, *sides):
                        found[column.id] = replace(found[column.id], nullable=False)
            return found
        case Join(kind="semi" | "anti"):
            return ranges_of(relation.left, catalog, by_rows=by_rows)
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
            made = {column.id: aggregate_range(column, source, rows) for column in relation.aggregates}
            if not relation.group_by:  # there may be no rows
                counts = {a.id for a in relation.aggregates if a.function.counts}
                made = {id: known if id in counts else replace(known, nullable=True) for id, known in made.items()}
            return keys | made
        case SetOperation():
            left, right = (ranges_of(side, catalog, by_rows=by_rows) for side in (relation.left, relation.right))
            return {c.id: _matched(relation.kind, left[c.left], right[c.right]) for c in relation.columns}
        case Window():
            source = ranges_of(relation.source, catalog, by_rows=by_rows)
            rows = contribution_of(relation.source, catalog).rows
            rows = rows if by_rows or rows == 1 else None
            return source | {column.id: window_range(column, source, rows) for column in relation.columns}
        case Values(is_sample=True) | Released():
            return {column.id: UNKNOWN for column in relation.columns}
        case Values():
            return {c.id: _of_values([row[i] for row in relation.rows]) for i, c in enumerate(relation.columns)}
        case _:
            assert_never(relation)


def _is_on_a_side(expression: Expression, left: Ranges, right: Ranges) -> bool:
    """Whether an expression over a full join is whichever there is of two columns, of which no row lacks both.

    Every row has one of the sides at least, and that side's column is not NULL.
    """
    if not (isinstance(expression, Call) and expression.function == "coalesce"):
        return False
    ids = {part.id for part in expression.arguments if isinstance(part, Column)}
    return all(any(not side[id].nullable for id in ids & side.keys()) for side in (left, right))


def _matched(kind: SetKind, left: Range, right: Range) -> Range:
    """Returns the range of a column of a set operation; what EXCEPT gives stands on the left."""
    if kind == "union_all":
        return hull(left, right)
    if kind.startswith("except"):
        return left
    lower = max((end for end in (left.lower, right.lower) if end is not None), default=None)
    upper = min((end for end in (left.upper, right.upper) if end is not None), default=None)
    nullable = left.nullable and right.nullable
    if lower is not None and upper is not None and lower > upper:
        return replace(left, nullable=nullable)
    return Range(lower=lower, upper=upper, nullable=nullable)


def _of_values(values: list[Value]) -> Range:
    """Returns the range of a literal column."""
    numbers = [number_of(value) for value in values if value is not None]
    nullable = None in values
    if not numbers or any(number is None for number in numbers):
        return Range(nullable=nullable)
    known = [number for number in numbers if number is not None]
    return Range(lower=min(known), upper=max(known), nullable=nullable)


def aggregate_range(column: AggregateColumn, source: Ranges, rows: int | None) -> Range:
    """Returns the range of an aggregate of at most `rows` rows, which is exact within one unit."""
    given = [range_of(part, source) for part in (column.argument, column.second) if part is not None]
    return column.function.range(given, None if rows is None else Fraction(rows), column.filter is not None)


def window_range(column: WindowColumn, source: dict[str, Range], rows: int | None) -> Range:
    """Returns the range of a window function over one unit's rows, at most `rows` of them if that is known."""
    most = None if rows is None else Fraction(rows)
    match column.function:
        case "row_number" | "rank" | "dense_rank":
            return Range(lower=Fraction(1), upper=most, nullable=False)
        case "ntile":
            tiles = column.arguments[0]
            number = tiles.value if isinstance(tiles, Literal) and isinstance(tiles.value, int) else 1
            return Range(lower=Fraction(1), upper=Fraction(number), nullable=False)
        case "percent_rank" | "cume_dist":
            return Range(lower=Fraction(0), upper=Fraction(1), nullable=False)
        case "count":
            return Range(lower=Fraction(0), upper=_within_frame(column, most), nullable=False)
        case "lag" | "lead":
            known = range_of(column.arguments[0], source)
            if len(column.arguments) < 3:
                return replace(known, nullable=True)
            return hull(known, range_of(column.arguments[2], source))
    return _of_frame(column, source, most)


def _of_frame(column: WindowColumn, source: dict[str, Range], most: Fraction | None) -> Range:
    """Returns the range of a function of the rows of a frame: NULL where the frame holds no value."""
    argument = column.arguments[0]
    known = range_of(argument, source)
    nullable = known.nullable or column.filter is not None or may_be_empty(frame_of(column))
    match column.function:
        case "first_value" | "last_value" | "min" | "max":
            return replace(known, nullable=nullable)
        case "nth_value":
            return replace(known, nullable=True)
        case "avg":
            return replace(range_of(summand(argument), source), nullable=nullable)
        case "sum":
            return total_range(
                range_of(summand(argument), source),
                _within_frame(column, most),
                nullable=nullable,
            )
        case _:
            return UNKNOWN


def _within_frame(column: WindowColumn, most: Fraction | None) -> Fraction | None:
    """Returns the most rows that a frame holds, where the partition holds `most`."""
    frame = frame_of(column)
    if frame.mode != "rows" or frame.start is None or frame.end is None:
        return most
    width = Fraction(frame.end - frame.start + 1)
    return width if most is None else min(most, width)
