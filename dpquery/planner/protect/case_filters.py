"""CASE inside an aggregate as FILTER: SUM(CASE WHEN c THEN x ELSE 0 END) is SUM(x) over the rows where c is true.

A number that is 1 where a condition holds and else 0 is that condition: its sum counts rows, and its mean is a share.

So rows that add nothing do not weigh, equal numbers are measured once however they are written, and measures of
disjoint conditions are paid for in parallel (docs/proofs/disjoint.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.moments import AVG
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Call, Case, Cast, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, INT64, Kind, Type


def condition_of(value: Expression | None) -> Expression | None:
    """Returns the condition for which a number of 0 and 1 stands: 1 where it is true; None for other values.

    The number may be of any type: what is added up is 0 and 1 all the same.
    """
    match value:
        case Cast(argument=condition, type=type) if type == INT64 and condition.type == BOOLEAN:
            return condition
        case Cast(argument=number, type=type) if type.is_numeric and number.type.is_numeric and _holds_one(type):
            return condition_of(number)
        case Case(branches=((condition, one),), otherwise=zero, type=type) if type.is_numeric:
            return condition if _is_number(one, 1) and _is_number(zero, 0) else None
        case Call(function="multiply", arguments=(first, second)) if _holds_one(value.type):
            for one, other in ((first, second), (second, first)):
                if _is_number(one, 1):
                    return condition_of(other)
    return None


def _is_number(value: Expression | None, number: int) -> bool:
    while isinstance(value, Cast) and value.type.is_numeric and _holds_one(value.type):
        value = value.argument
    return isinstance(value, Literal) and value.type.is_numeric and value.value == number


def _holds_one(type: Type) -> bool:
    """Whether 1 is a number of a type."""
    return type.is_numeric and (type.kind is not Kind.DECIMAL or type.precision > type.scale)


def and_also(kept: Expression | None, condition: Expression | None) -> Expression | None:
    """Returns a filter with one more condition; None is not a condition."""
    if kept is None or condition is None:
        return kept if condition is None else condition
    return call("and", (kept, condition))


def shares(columns: tuple[AggregateColumn, ...]) -> frozenset[str]:
    """Returns the ids of means that are shares of rows, of values that no other moment is asked of."""
    others = {(c.argument, c.filter) for c in columns if c.function.is_moment and c.function is not AVG}
    return frozenset(
        c.id
        for c in columns
        if c.function is AVG and condition_of(c.argument) is not None and (c.argument, c.filter) not in others
    )


def filtered(
    columns: tuple[AggregateColumn, ...], range_of: Callable[[Expression], Range]
) -> tuple[AggregateColumn, ...]:
    """Returns the aggregates, with what a CASE leaves out moved to their filters; of a value that moments read too it
    stays a CASE.

    Args:
        range_of: What is known of an expression; one of which less is known than of its CASE stays as it is.
    """
    by_rows = shares(columns)
    shared = {
        (c.argument, c.filter)
        for c in columns
        if c.function.is_moment and c.id not in by_rows and not _is_null(c.argument)
    }
    return tuple(column if (column.argument, column.filter) in shared else _one(column, range_of) for column in columns)


def _is_null(argument: Expression | None) -> bool:
    """Whether it is a CASE that leaves rows out: with NULL."""
    return isinstance(argument, Case) and isinstance(argument.otherwise, Literal) and argument.otherwise.value is None


def _one(column: AggregateColumn, range_of: Callable[[Expression], Range]) -> AggregateColumn:
    given = column.argument
    condition = condition_of(given)
    if column.function is SUM and condition is not None:
        return replace(column, function=COUNT, argument=None, filter=and_also(column.filter, condition))
    if not isinstance(given, Case) or len(given.branches) != 1 or not column.function.skips_null:
        return column
    adds_nothing = column.function is SUM and isinstance(given.otherwise, Literal) and given.otherwise.value == 0
    (condition, value), all_of = given.branches[0], range_of(given)
    known = range_of(value)
    is_known = all_of.lower == known.lower and all_of.upper == known.upper
    narrower = _narrower(value, known, all_of) if adds_nothing else None
    if narrower is not None:
        value, known, is_known = narrower, all_of, True
    elif adds_nothing and None not in (all_of.lower, all_of.upper, known.lower, known.upper):
        is_known = all_of.lower <= known.lower and known.upper <= all_of.upper  # type: ignore[operator]
    if not (adds_nothing or _is_null(given)) or value.type != given.type or not is_known:
        return column
    kept = and_also(column.filter, condition)
    if column.function is SUM and value == Literal(value=1, type=INT64):
        return replace(column, function=COUNT, argument=None, filter=kept)
    return replace(column, argument=value, filter=kept)


def _narrower(value: Expression, known: Range, within: Range) -> Expression | None:
    """Returns an integer clamped to what the condition of its CASE leaves of its range, which changes it in no row that
    passes; None where that is the whole range."""
    if value.type != INT64 or None in (within.lower, within.upper, known.lower, known.upper):
        return None
    assert within.lower is not None and within.upper is not None
    assert known.lower is not None and known.upper is not None
    lower, upper = max(within.lower, known.lower), min(within.upper, known.upper)
    if lower > upper or (lower, upper) == (known.lower, known.upper) or lower.denominator * upper.denominator != 1:
        return None
    return call("clamp", (value, *(Literal(value=int(end), type=INT64) for end in (lower, upper))))
