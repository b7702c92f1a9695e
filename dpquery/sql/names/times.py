"""Times of day, compared: `CAST(at AS time) < TIME '05:00'` says that a timestamp lies before five hours of its day."""

from __future__ import annotations

import datetime

from sqlglot import exp

_ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)
_FLIPPED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}


def compared_times(node: exp.Expression) -> exp.Expression | None:
    """Returns a comparison of the time of a timestamp with a constant time as one of moments; None for another."""
    if isinstance(node, exp.Between) and _timed(node.this) is not None:
        low = compared_times(exp.GTE(this=node.this, expression=node.args["low"]))
        high = compared_times(exp.LTE(this=node.this, expression=node.args["high"]))
        return None if low is None or high is None else exp.Paren(this=exp.And(this=low, expression=high))
    kind = next((kind for kind in _ORDERS if type(node) is kind), None)
    if kind is None:
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
    node = node.unnest()
    is_time = isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.TIME
    return node.this if is_time and not isinstance(node.this, exp.Literal) else None


def _constant(node: exp.Expression) -> datetime.time | None:
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.TIME:
        node = node.this
    if not (isinstance(node, exp.Literal) and node.is_string):
        return None
    try:
        time = datetime.time.fromisoformat(node.name.strip())
    except ValueError:
        return None
    return time if time.tzinfo is None else None
