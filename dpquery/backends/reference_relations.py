"""Relations as lists of rows: plain loops over Python values, one function for each node.

A row is a dict from column ids to values. Nothing here is clever; that is the point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, sqrt
from typing import Any, assert_never

from dpquery.errors import InternalError
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Expression
from dpquery.plan.functions import cast_value
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
from dpquery.plan.types import FLOAT64, Kind, Value, decimal

Row = dict[str, Value]

LARGEST_SUMMAND = 1e290
LARGEST_SQUARED = 1e140


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Turns relations into rows.

    Attributes:
        scan: Reads a stored table as declared.
        released: Reads a released table.
    """

    scan: Callable[[Scan], list[Row]]
    released: Callable[[Released], list[Row]]

    def rows(self, relation: Relation) -> list[Row]:
        """Returns the rows of a relation; their order is an order only under Sort."""
        match relation:
            case Scan():
                return self.scan(relation)
            case Released():
                return self.released(relation)
            case Filter():
                return [row for row in self.rows(relation.source) if evaluate(relation.condition, row) is True]
            case Project():
                return [
                    {column.id: evaluate(column.expression, row) for column in relation.columns}
                    for row in self.rows(relation.source)
                ]
            case Join():
                return self._join(relation)
            case Aggregate():
                return _aggregate(relation, self.rows(relation.source))
            case Sort():
                return _sort(relation, self.rows(relation.source))
            case Limit():
                end = None if relation.count is None else relation.offset + relation.count
                return self.rows(relation.source)[relation.offset : end]
            case _:
                assert_never(relation)

    def _join(self, join: Join) -> list[Row]:
        if join.kind not in ("inner", "cross", "left"):
            raise InternalError(f"a {join.kind} join has no meaning here")
        rights = [(row, [evaluate(b, row) for _, b in join.equalities]) for row in self.rows(join.right)]
        nothing: Row = {column.id: None for column in output(join.right)}
        joined: list[Row] = []
        for left in self.rows(join.left):
            wanted = [evaluate(a, left) for a, _ in join.equalities]
            pairs = [left | right for right, given in rights if _all_equal(wanted, given)]
            if join.condition is not None:
                pairs = [pair for pair in pairs if evaluate(join.condition, pair) is True]
            if not pairs and join.kind == "left":
                pairs = [left | nothing]
            joined += pairs
        return joined


def sum_of(values: list[Value], column: AggregateColumn) -> Value:
    """Returns the sum of values that are not NULL; NULL of none, and where it does not fit its type."""
    assert column.argument is not None
    given = column.argument.type
    if not values:
        return None
    if given.kind is Kind.INT64:
        exact = sum(value for value in values if isinstance(value, int))
        return exact if -(2**63) <= exact < 2**63 else None
    if given.kind is Kind.DECIMAL and given.precision <= 18:
        steps = sum(int(value.scaleb(given.scale)) for value in values if isinstance(value, Decimal))
        return Decimal(steps).scaleb(-given.scale)
    total = 0.0
    for number in _floats(values, column.argument, LARGEST_SUMMAND):
        total += number
    return total if given == FLOAT64 else cast_value(total, FLOAT64, decimal(38, given.scale))


def _all_equal(left: list[Value], right: list[Value]) -> bool:
    return all(a is not None and b is not None and a == b for a, b in zip(left, right, strict=True))


def _sort(sort: Sort, rows: list[Row]) -> list[Row]:
    """Returns the rows in order, by stable sorts from the last key to the first."""
    for key in reversed(sort.keys):
        id = key.column
        known = [row for row in rows if row[id] is not None]
        unknown = [row for row in rows if row[id] is None]

        def value_of(row: Row, id: str = id) -> Any:
            return row[id]

        known.sort(key=value_of, reverse=key.descending)
        rows = unknown + known if key.nulls_first else known + unknown
    return rows


def _aggregate(aggregate: Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Value, ...], list[Row]] = {} if aggregate.group_by else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[id] for id in aggregate.group_by), []).append(row)
    return [
        dict(zip(aggregate.group_by, key, strict=True)) | {a.id: _value_of(a, group) for a in aggregate.aggregates}
        for key, group in groups.items()
    ]


def _value_of(column: AggregateColumn, rows: list[Row]) -> Value:
    if column.filter is not None:
        rows = [row for row in rows if evaluate(column.filter, row) is True]
    if column.argument is None:
        return len(rows)
    values: list[Value] = [v for row in rows if (v := evaluate(column.argument, row)) is not None]
    match column.function:
        case "count":
            return len(values)
        case "count_distinct":
            return len(set(values))
        case "min" | "max":
            return _extreme(column.function, values)
        case "sum":
            return sum_of(values, column)
        case "mode":
            return min(values, key=lambda value: (-values.count(value), value)) if values else None
        case "quantile_disc":
            return _place(sorted(values), column.fraction)  # type: ignore[type-var]
        case "quantile_cont":
            return _between(_floats(values, column.argument, LARGEST_SUMMAND), column.fraction)
        case "avg":
            return _mean(_floats(values, column.argument, LARGEST_SUMMAND))
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _spread(column.function, _floats(values, column.argument, LARGEST_SQUARED))
        case _:
            raise InternalError(f"the aggregate {column.function} has no meaning here")


def _place(ordered: list[Value], fraction: Fraction | None) -> Value:
    """Returns the first value at which so large a part of all is reached."""
    return ordered[max(1, ceil(len(ordered) * (fraction or 0))) - 1] if ordered else None


def _between(ordered: list[float], fraction: Fraction | None) -> float | None:
    """Returns the value at a place, with fractions of places interpolated."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * (fraction or Fraction(0))
    low = ordered[floor(place)]
    part = place - floor(place)
    return low if not part else low + (ordered[floor(place) + 1] - low) * (part.numerator / part.denominator)


def _extreme(function: str, values: list[Any]) -> Value:
    if not values:
        return None
    found: Value = min(values) if function == "min" else max(values)
    return found


def _floats(values: list[Value], argument: Expression, limit: float) -> list[float]:
    """Returns the values as floats within the limit, in ascending order: then rounding is repeatable."""
    numbers = [cast_value(value, argument.type, FLOAT64) for value in values]
    return sorted(min(max(number, -limit), limit) for number in numbers if isinstance(number, float))


def _mean(numbers: list[float]) -> float | None:
    total = 0.0
    for number in numbers:
        total += number
    return total / len(numbers) if numbers else None


def _spread(function: str, numbers: list[float]) -> float | None:
    """Returns a variance or standard deviation by Welford's recurrence."""
    mean = squares = 0.0
    for count, number in enumerate(numbers, start=1):
        before = number - mean
        mean += before / count
        squares += before * (number - mean)
    under = len(numbers) - (1 if function.endswith("samp") else 0)
    if under < 1:
        return None
    variance = squares / under
    return sqrt(variance) if function.startswith("stddev") else variance
