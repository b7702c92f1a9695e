"""How far two moments are apart: intervals, their parts, and those of `AGE(a, b)`; times of day, since midnight.

Intervals are compared, moved by and taken apart; where an aggregate needs numbers, it takes their microseconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.expr import Call, Cast, Expression, Literal
from dpquery.plan.functions.bounds import DAY
from dpquery.plan.types import DATE, INT64, INTERVAL, TEXT, TIMESTAMP, Value
from dpquery.sql.names.date_intervals import INTERVAL_DIALECTS, has_interval, part_name, step_of

ADVICE = "Write EXTRACT(EPOCH FROM x) / 86400 for its days, or compare it with an INTERVAL."

_PARTS = {
    "epoch": (1_000_000, 0),
    "day": (DAY, 0),
    "hour": (3_600_000_000, 24),
    "minute": (60_000_000, 60),
    "second": (1_000_000, 60),
}
"""Of an interval: microseconds in one, and how many of them make the next larger part."""
_AGES = {"year": (12, 0), "month": (1, 12)}
"""Of an age, by months."""
_MOMENTS = (DATE, TIMESTAMP)
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.](\d{1,6}))?)?", re.ASCII)

Bind = Callable[[Sequence[exp.Expression]], list[Expression]]


def read_apart(node: exp.Expression, dialect: str, bind: Bind) -> Expression | None:
    """Returns a time of day, or a part of `AGE(a, b)`; None where the node is something else."""
    moment = timed(node)
    if moment is not None:
        return _time_of_day(moment, bind)
    if not isinstance(node, exp.Extract):
        return None
    if timed(node.expression.unnest()) is not None and part_name(node.this) not in (
        "hour",
        "minute",
        "second",
        "epoch",
    ):
        raise TypeError(f"a time of day has no {node.name.lower()}; the timestamp may have")
    return _of_ages(node, dialect, bind)


def timed(node: exp.Expression) -> exp.Expression | None:
    """Returns the moment of which a node is the time of day, or the text that names it; None for another node."""
    match node:
        case exp.Cast() if node.to.this is exp.DataType.Type.TIME and not node.to.expressions:
            given: exp.Expression = node.this
        case exp.Extract() if node.name.upper() == "TIME":
            given = node.expression
        case exp.Time() | exp.TsOrDsToTime() if not any(v for k, v in node.args.items() if k != "this"):
            given = node.this
        case _:
            return None
    return given


def _time_of_day(moment: exp.Expression, bind: Bind) -> Expression:
    (given,) = bind([moment])
    constant = _since_midnight(given.value) if isinstance(given, Literal) else None
    if constant is not None:
        return Literal(value=constant, type=INTERVAL)
    if given.type != TIMESTAMP:
        raise TypeError("a time of day is that of a timestamp, or a text such as '08:30:00'")
    midnight = functions.call("date_trunc", (Literal(value="day", type=TEXT), given))
    since = functions.call("microseconds_between", (midnight, given))
    return functions.cast(functions.call("clamp", (since, _number(0), _number(DAY - 1))), INTERVAL)  # for its range


def _since_midnight(value: Value) -> int | None:
    """Returns the microseconds since midnight of a text such as '08:30' or '08:30:15.5'; None for any other value."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    hours, minutes, seconds, fraction = found.groups(default="0")
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int(fraction.ljust(6, "0"))


def _of_ages(node: exp.Extract, dialect: str, bind: Bind) -> Expression | None:
    given, part = node.expression.unnest(), part_name(node.this)
    is_age = isinstance(given, exp.Anonymous) and given.name.lower() == "age" and 1 <= len(given.expressions) <= 2
    if not is_age or part is None or dialect not in INTERVAL_DIALECTS:
        return None
    moments = given.expressions if len(given.expressions) == 2 else [exp.CurrentDate(), *given.expressions]
    later, earlier = bind(moments)
    if part not in _AGES:
        raise TypeError(f"of AGE the years and months are known, not {part}; a - b has days and time")
    return _part(functions.call("full_months_between", (earlier, later)), *_AGES[part])


def of_intervals(operation: str, given: Sequence[Expression], dialect: str) -> Expression | None:
    """Returns an operation that gives an interval or takes one, or None for any other.

    Two dates are a number of days apart; beside an interval and in EXTRACT they are read as midnights.
    """
    types = [one.type for one in given]
    if operation.startswith("extract_"):
        whole = _apart(given[0])
        return None if whole.type != INTERVAL else _extracted(whole, operation.removeprefix("extract_"))
    if operation == "subtract" and TIMESTAMP in types and all(type in _MOMENTS for type in types):
        return _between(*given) if dialect in INTERVAL_DIALECTS else None
    if INTERVAL not in types:
        return None
    if operation in _COMPARISONS and any(type != INTERVAL for type in types):
        return functions.call(operation, [_apart(one) for one in given])
    if operation not in ("add", "subtract"):
        return None
    moment, by = given if operation == "subtract" else sorted(given, key=lambda one: one.type == INTERVAL)
    if moment.type not in _MOMENTS or by.type != INTERVAL:
        return None
    number = microseconds(by)
    number = functions.call("negate", (number,)) if operation == "subtract" else number
    return functions.call("add_microseconds", (functions.cast(moment, TIMESTAMP), number))


def _between(later: Expression, earlier: Expression) -> Expression:
    return functions.cast(functions.call("microseconds_between", (earlier, later)), INTERVAL)


def _apart(days: Expression) -> Expression:
    """Returns the interval between two dates that are subtracted, and that of a text; anything else as it is."""
    match days:
        case Literal(value=str(text)) if (length := _length(text)) is not None:
            return Literal(value=length, type=INTERVAL, span=days.span)
        case Call(function="subtract", arguments=(later, earlier)) if later.type == earlier.type == DATE:
            return _between(later, earlier)
        case _:
            return days


def _length(text: str) -> int | None:
    """Returns the microseconds of '08:30' or '3 days'; None for a text that has no fixed length."""
    step = step_of(exp.Literal.string(text))
    if step is None or step[0] == "add_months":
        return _since_midnight(text)
    return step[1] * (DAY if step[0] == "add_days" else 1)


def _extracted(whole: Expression, part: str) -> Expression:
    if part not in _PARTS:
        raise TypeError(f"the difference of two timestamps is in days and time and has no {part}; AGE(a, b) has")
    return _part(microseconds(whole), *_PARTS[part])


def microseconds(interval: Expression) -> Expression:
    """Returns the length of an interval in microseconds."""
    match interval:
        case Cast(argument=length) if length.type == INT64:
            return length
        case _:
            return functions.cast(interval, INT64)


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


def _part(total: Expression, size: int, most: int) -> Expression:
    if not most and size == _PARTS["epoch"][0]:
        return functions.call("divide", (total, _number(size)))
    whole = functions.call("int_divide", (total, _number(size))) if size > 1 else total
    return functions.call("modulo", (whole, _number(most))) if most else whole


def _number(value: int) -> Literal:
    return Literal(value=value, type=INT64)
