"""How far two moments are apart: parts of `a - b` and `AGE(a, b)`. Intervals are no type here, so they stand in
EXTRACT alone, or are compared with an interval (`without_interval`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.expr import Cast, Expression, Literal
from dpquery.plan.types import DATE, INT64, TIMESTAMP
from dpquery.sql.names.date_intervals import INTERVAL_DIALECTS, has_interval, part_name

ADVICE = "Write EXTRACT(EPOCH FROM a - b) / 86400 for days, EXTRACT(DAY FROM a - b), or compare it with an INTERVAL."

_PARTS = {"epoch": (1_000_000, 0), "day": (86_400_000_000, 0), "hour": (3_600_000_000, 24), "minute": (60_000_000, 60)}
"""Of a difference: microseconds in one, and how many of them make the next larger part."""
_AGES = {"year": (12, 0), "month": (1, 12)}
"""Of an age, by months."""


def extracted(
    node: exp.Extract, dialect: str, bind: Callable[[Sequence[exp.Expression]], list[Expression]]
) -> Expression | None:
    """Returns a part of a difference of two moments, or None where the node is something else."""
    given, part = node.expression.unnest(), part_name(node.this)
    if dialect not in INTERVAL_DIALECTS or part is None:
        return None
    if isinstance(given, exp.Sub) and not has_interval(given):
        later, earlier = bind([given.this, given.expression])
        if not _are_moments(later, earlier):
            return functions.call(f"extract_{part}", (functions.call("subtract", (later, earlier)),))
        if part not in _PARTS:
            raise TypeError(f"the difference of two timestamps is in days and time and has no {part}; AGE(a, b) has")
        return _part(functions.call("microseconds_between", (earlier, later)), *_PARTS[part])
    if isinstance(given, exp.Anonymous) and given.name.lower() == "age" and 1 <= len(given.expressions) <= 2:
        moments = given.expressions if len(given.expressions) == 2 else [exp.CurrentDate(), *given.expressions]
        later, earlier = bind(moments)
        if part not in _AGES:
            raise TypeError(f"of AGE the years and months are known, not {part}")
        return _part(functions.call("full_months_between", (earlier, later)), *_AGES[part])
    return None


def moved(made: Expression, node: exp.Expression, dialect: str) -> Expression:
    """Returns a date that the node moves by an interval as a timestamp, where the dialect has it so."""
    by_interval = isinstance(node, exp.Add | exp.Sub) and dialect in INTERVAL_DIALECTS and has_interval(node)
    return functions.cast(made, TIMESTAMP, made.span) if by_interval and made.type == DATE else made


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "in", "is_distinct_from", "is_not_distinct_from")


def as_dates(operation: str, arguments: Sequence[Expression]) -> list[Expression]:
    """Returns the arguments of a comparison as dates where all are dates or dates read as timestamps, at midnight:
    the comparison is the same, and known keys and bounds of a date serve it."""
    dates = [one.argument if isinstance(one, Cast) and one.type == TIMESTAMP else one for one in arguments]
    fits = operation in _COMPARISONS and all(one.type == DATE for one in dates)
    return dates if fits else list(arguments)


def _are_moments(*given: Expression) -> bool:
    return all(one.type in (DATE, TIMESTAMP) for one in given)


def _part(total: Expression, size: int, most: int) -> Expression:
    if not most and size == _PARTS["epoch"][0]:
        return functions.call("divide", (total, _number(size)))
    whole = functions.call("int_divide", (total, _number(size))) if size > 1 else total
    return functions.call("modulo", (whole, _number(most))) if most else whole


def _number(value: int) -> Literal:
    return Literal(value=value, type=INT64)
