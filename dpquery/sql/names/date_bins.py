"""DATE_BIN and TIME_SLICE with constants: the start of the bin of equal width in which a moment lies.

Bins of a part of a day are told by the day and the hours, minutes or seconds since midnight; bins of whole days by the
days since their origin. So they are made of operations that are known, and the keys of groups follow from these.
"""

from __future__ import annotations

import datetime

from sqlglot import exp

from dpquery.plan.functions.bounds import DAY
from dpquery.sql.names.date_intervals import step_of

_SECOND = 1_000_000
_EPOCH = datetime.datetime(1970, 1, 1)


def in_bins(node: exp.Expression) -> exp.Expression | None:
    """Returns what a node of DATE_BIN or TIME_SLICE means in other operations; None where that is not known: a width
    that does not divide a day, an origin that is not a constant."""
    width, origin = _width(node), _origin(node)
    if width is None or origin is None or width <= 0:
        return None
    x = exp.Cast(this=(node.expression if isinstance(node, exp.DateBin) else node.this).copy(), to=_type("timestamp"))
    since = (origin - datetime.datetime.combine(origin.date(), datetime.time())) // datetime.timedelta(microseconds=1)
    if DAY % width == 0 and width % _SECOND == 0 and since % width == 0:
        return _of_a_day(x, width // _SECOND)
    if width % DAY == 0 and since == 0:
        return _of_days(x, width // DAY, origin.date())
    return None


def _width(node: exp.Expression) -> int | None:
    """Returns a width in microseconds."""
    if isinstance(node, exp.TimeSlice):
        kind = node.args.get("kind")
        if not isinstance(node.expression, exp.Literal) or (kind is not None and kind.name.upper() != "START"):
            return None
        step = step_of(exp.Interval(this=node.expression.copy(), unit=node.args.get("unit")))
    else:
        step = None if node.args.get("zone") is not None else step_of(node.this)
    if step is None or step[0] == "add_months":
        return None
    return step[1] * (DAY if step[0] == "add_days" else 1)


def _origin(node: exp.Expression) -> datetime.datetime | None:
    given = node.args.get("origin") or (node.args.get("unit") if isinstance(node, exp.DateBin) else None)
    if given is None:
        return _EPOCH if isinstance(node, exp.TimeSlice) else None
    inner = given.this if isinstance(given, exp.Cast) else given
    try:
        return datetime.datetime.fromisoformat(inner.name) if isinstance(inner, exp.Literal) else None
    except ValueError:
        return None


def _of_a_day(x: exp.Expression, seconds: int) -> exp.Expression:
    units = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
    unit = next(unit for unit, size in units.items() if seconds % size == 0)
    size = units[unit]
    count = _times(_part("HOUR", x), 3600 // size)
    if size < 3600:
        count = exp.Add(this=count, expression=_times(_part("MINUTE", x), 60 // size))
    if size == 1:
        count = exp.Add(this=count, expression=_part("SECOND", x))
    bins = exp.Div(this=exp.Paren(this=count), expression=_number(seconds // size), typed=True)
    moved = exp.Interval(this=exp.Paren(this=_times(bins, seconds // size)), unit=exp.var(unit))
    day = cut(x.copy(), "DAY")
    return exp.Paren(this=exp.Add(this=day, expression=moved))


def _of_days(x: exp.Expression, days: int, origin: datetime.date) -> exp.Expression:
    """Returns the origin moved by whole bins; the remainder is taken twice, as it has the dividend's sign."""
    start = exp.Cast(this=exp.Literal.string(str(origin)), to=_type("date"))
    since = exp.Paren(this=exp.Sub(this=exp.Cast(this=x, to=_type("date")), expression=start.copy()))
    rest: exp.Expression = exp.Mod(this=since.copy(), expression=_number(days))
    rest = exp.Mod(this=exp.Paren(this=exp.Add(this=rest, expression=_number(days))), expression=_number(days))
    whole = exp.Paren(this=exp.Sub(this=since, expression=rest))
    return exp.Cast(this=exp.Paren(this=exp.Add(this=start, expression=whole)), to=_type("timestamp"))


def cut(x: exp.Expression, unit: str) -> exp.Expression:
    """Returns DATE_TRUNC of an expression."""
    made: exp.Expression = exp.DateTrunc(this=x, unit=exp.Literal.string(unit))  # type: ignore[no-untyped-call]
    return made


def _part(unit: str, x: exp.Expression) -> exp.Expression:
    return exp.Extract(this=exp.var(unit), expression=x.copy())


def _times(count: exp.Expression, factor: int) -> exp.Expression:
    return count if factor == 1 else exp.Mul(this=exp.Paren(this=count), expression=_number(factor))


def _number(value: int) -> exp.Expression:
    return exp.Literal.number(value)


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name)
