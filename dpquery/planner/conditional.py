"""CASE inside an aggregate as FILTER: SUM(CASE WHEN c THEN x ELSE 0 END) is SUM(x) over the rows where c is true.

So rows that add nothing do not weigh, equal numbers are measured once however they are written, and measures of
disjoint conditions are paid for in parallel (docs/proofs/disjoint.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpquery.plan.aggregates import Function
from dpquery.plan.expr import Case, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import Range
from dpquery.plan.types import INT64

_IGNORING_NULL = ("count", "count_distinct", "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
"""Aggregates of one argument that read the rows alone in which it is not NULL."""


def filtered(
    columns: tuple[AggregateColumn, ...], range_of: Callable[[Expression], Range], moments: tuple[str, ...]
) -> tuple[AggregateColumn, ...]:
    """Returns the aggregates, with what a CASE leaves out moved to their filters.

    Args:
        range_of: What is known of an expression; one of which less is known than of its CASE stays as it is.
        moments: Aggregates that share measures with the SUM of the same values, which then stays a CASE too.
    """
    shared = {(c.argument, c.filter) for c in columns if c.function in moments and not _is_null(c.argument)}
    return tuple(column if (column.argument, column.filter) in shared else _one(column, range_of) for column in columns)


def _is_null(argument: Expression | None) -> bool:
    """Whether it is a CASE that leaves rows out: with NULL."""
    return isinstance(argument, Case) and isinstance(argument.otherwise, Literal) and argument.otherwise.value is None


def _one(column: AggregateColumn, range_of: Callable[[Expression], Range]) -> AggregateColumn:
    given = column.argument
    if not isinstance(given, Case) or len(given.branches) != 1 or column.function not in _IGNORING_NULL:
        return column
    adds_nothing = column.function == "sum" and isinstance(given.otherwise, Literal) and given.otherwise.value == 0
    (condition, value), all_of = given.branches[0], range_of(given)
    known = range_of(value)
    is_known = all_of.lower == known.lower and all_of.upper == known.upper
    if adds_nothing and None not in (all_of.lower, all_of.upper, known.lower, known.upper):
        is_known = all_of.lower <= known.lower and known.upper <= all_of.upper  # type: ignore[operator]
    if not (adds_nothing or _is_null(given)) or value.type != given.type or not is_known:
        return column
    kept = condition if column.filter is None else call("and", (column.filter, condition))
    if column.function == "sum" and value == Literal(value=1, type=INT64):
        return replace(column, function=Function.COUNT, argument=None, filter=kept)
    return replace(column, argument=value, filter=kept)
