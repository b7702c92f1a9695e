"""Window functions over the rows of different units: what they read of others is released first, as a step.

`AVG(x) OVER (PARTITION BY k)` reads a released average of each k. Of a rank as NTILE(10) the limits between the tiles
are released, which are quantiles; a row's tile follows from its own value and these constants.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.aggregates import aggregate_named
from dpquery.plan.aggregates.choices import QUANTILE_DISC
from dpquery.plan.canonical import Names, copied, rename
from dpquery.plan.definitions import taken_apart
from dpquery.plan.expr import Case, Column, Expression, Literal, conjuncts
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Join,
    Project,
    Relation,
    WindowColumn,
    column,
    output,
)
from dpquery.plan.ranges import UNKNOWN
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, TEXT
from dpquery.sql.bind.boundary import at_boundary
from dpquery.sql.bind.predicates import known_ranges
from dpquery.sql.bind.scope import Context
from dpquery.sql.bind.steps import as_step

_AGGREGATES = ("count", "sum", "avg", "min", "max")
_RANKS = ("ntile", "percent_rank", "cume_dist")
_FINEST = 100
"""Tiles at most; ranks from 0 to 1 are known to one of so many parts."""


def reads_released(window: WindowColumn, relation: Relation) -> bool:
    """Whether a window function over rows of different units can read what is released of them."""
    if window.function in _AGGREGATES:
        return not window.order_by and window.frame is None
    if window.function not in _RANKS or len(window.order_by) != 1 or not 2 <= _parts(window) <= _FINEST:
        return False
    return column(relation, window.order_by[0].column).type not in (BOOLEAN, TEXT)


def with_released(relation: Relation, window: WindowColumn, node: exp.Expression, context: Context) -> Relation:
    """Returns the rows with the column of a window function."""
    if window.function in _RANKS and _may_lack(relation, window.order_by[0].column, context):
        reason = f"{window.function.upper()} over rows of different units takes no values that may be NULL"
        raise context.unsupported(reason, node, "Add WHERE ... IS NOT NULL.")
    source, names = copied(relation, context.fresh)
    keys = tuple(names[id] for id in window.partition_by)
    made = _limits(window, relation, names, context) if window.function in _RANKS else _value(window, names, context)
    grouped = Aggregate(source=source, group_by=keys, aggregates=made, spans=(window.span,) * len(keys))
    step = as_step(at_boundary(grouped, node, context), node, context)
    pairs = tuple((column(relation, id), column(step, names[id])) for id in window.partition_by)
    kept = tuple(Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(relation))
    read: Expression = _within(window, relation, column(step, made[0].id), context)
    if window.function in _RANKS:
        read = _rank(window, relation, [column(step, limit.id) for limit in made])
    joined = Join(left=relation, right=step, kind="left" if pairs else "cross", equalities=pairs, span=window.span)
    return Project(source=joined, columns=(*kept, Computed(id=window.id, name=window.name, expression=read)))


def _may_lack(relation: Relation, id: str, context: Context) -> bool:
    """Whether a bounded column is declared to hold NULL, and no condition says that it does not here."""
    known = known_ranges(relation, context.catalog).get(id, UNKNOWN)
    _, conditions, values = taken_apart(relation)
    is_present = functions.call("is_not_null", (values[id],))
    return known.is_finite and known.nullable and is_present not in (c for one in conditions for c in conjuncts(one))


def _value(window: WindowColumn, names: Names, context: Context) -> tuple[AggregateColumn, ...]:
    argument = rename(window.arguments[0], names) if window.arguments else None
    kept = None if window.filter is None else rename(window.filter, names)
    function = aggregate_named(window.function)
    made = AggregateColumn(
        id=context.fresh(), name=window.name, function=function, argument=argument, filter=kept, type=window.type
    )
    return (replace(made, span=window.span),)


def _within(window: WindowColumn, relation: Relation, read: Column, context: Context) -> Expression:
    """Returns a released average or extreme within the bounds of its values: what reads it has bounds, too."""
    if window.function not in ("avg", "min", "max"):
        return read
    declared = range_of(window.arguments[0], known_ranges(relation, context.catalog))
    if not declared.is_finite or read.type not in (INT64, FLOAT64):
        return read
    assert declared.lower is not None and declared.upper is not None
    ends = (float(declared.lower), float(declared.upper))
    return functions.call("clamp", (read, *(Literal(value=end, type=FLOAT64) for end in ends)))


def _parts(window: WindowColumn) -> int:
    if window.function != "ntile":
        return _FINEST
    (count,) = window.arguments
    return count.value if isinstance(count, Literal) and isinstance(count.value, int) else 0


def _limits(window: WindowColumn, relation: Relation, names: Names, context: Context) -> tuple[AggregateColumn, ...]:
    """Returns the quantiles between the parts, from the lowest."""
    parts, ordered = _parts(window), column(relation, window.order_by[0].column)
    return tuple(
        AggregateColumn(
            id=context.fresh(),
            name="quantile_disc",
            function=QUANTILE_DISC,
            argument=Column(id=names[ordered.id], type=ordered.type),
            filter=None,
            type=ordered.type,
            fraction=Fraction(place, parts),
            span=window.span,
        )
        for place in range(1, parts)
    )


def _rank(window: WindowColumn, relation: Relation, limits: list[Column]) -> Expression:
    """Returns the number of a row's part, or the middle of its ranks where they go from 0 to 1."""
    key, parts = window.order_by[0], _parts(window)
    value = column(relation, key.column)
    results = [_number(window, place, parts) for place in range(parts)]
    tests = [functions.call("le", (value, limit)) for limit in limits]
    if key.descending:
        tests = [functions.call("gt", (value, limit)) for limit in reversed(limits)]
    nulls = (functions.call("is_null", (value,)), results[0 if key.nulls_first else -1])
    branches = (nulls, *zip(tests, results, strict=False))
    return Case(branches=branches, otherwise=results[-1], type=window.type, span=window.span)


def _number(window: WindowColumn, place: int, parts: int) -> Literal:
    number: int | float = place + 1 if window.function == "ntile" else (place + 0.5) / parts
    return Literal(value=number, type=window.type)
