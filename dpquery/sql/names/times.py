"""Times of day, compared: `CAST(at AS time) < TIME '05:00'` says that a timestamp lies before five hours of its day."""

from __future__ import annotations

import datetime

from sqlglot import exp

_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


def compared_times(node: exp.Expression) -> exp.Expression | None:
    """Returns a comparison of the time of a timestamp with a constant time as one of moments; None for another."""
    if isinstance(node, exp.Between) and _timed(node.this) is not None:
        low = compared_times(exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()))
        high = compared_times(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()))
        return None if low is None or high is None else exp.Paren(this=exp.And(this=low, expression=high))
    kind = type(node)
    if kind not in _FLIPPED:
        return None
    timed, constant = node.this, node.expression
    if _timed(timed) is None:
        kind, timed, constant = _FLIPPED[kind], constant, timed
    moment, time = _timed(timed), _constant(constant)
    if moment is None or time is None:
        return None
    since = datetime.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second, microseconds=time.microsecond)
    count = exp.Literal.string(str(since // datetime.timedelta(microseconds=1)))
    day = exp.TimestampTrunc(this=moment.copy(), unit=exp.var("DAY"))
    then = exp.Add(this=day, expression=exp.Interval(this=count, unit=exp.var("MICROSECOND")))
    return kind(this=moment.copy(), expression=then)


def _timed(node: exp.Expression) -> exp.Expression | None:
    """Returns the moment of which a node is the time of day, or None."""
    inner = node.unnest()
    is_time = isinstance(inner, exp.Cast) and inner.to.this is exp.DataType.Type.TIME
    return inner.this if is_time and not isinstance(inner.this, exp.Literal) else None


def _constant(node: exp.Expression) -> datetime.time | None:
    inner = node.unnest()
    if isinstance(inner, exp.Cast) and inner.to.this is exp.DataType.Type.TIME:
        inner = inner.this
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return None
    try:
        time = datetime.time.fromisoformat(inner.name.strip())
    except ValueError:
        return None
    return time if time.tzinfo is None else None
