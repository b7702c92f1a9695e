"""Moving dates by intervals, the distance between dates, and the names of units and parts."""

from __future__ import annotations

from sqlglot import exp

from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.functions.dates import UNITS

Found = tuple[str, list[exp.Expression]]

_STEPS: dict[str, tuple[str, int]] = {
    "day": ("add_days", 1),
    "week": ("add_days", 7),
    "month": ("add_months", 1),
    "quarter": ("add_months", 3),
    "year": ("add_months", 12),
    "hour": ("add_microseconds", 3_600_000_000),
    "minute": ("add_microseconds", 60_000_000),
    "second": ("add_microseconds", 1_000_000),
    "millisecond": ("add_microseconds", 1_000),
    "microsecond": ("add_microseconds", 1),
}
_PARTS = frozenset(name.removeprefix("extract_") for name in FUNCTIONS if name.startswith("extract_"))
_SAME = {"isoweek": "week", "dayofyear": "doy", "dayofweekiso": "isodow", "dayofweek_iso": "isodow"}


def _name(node: object) -> str:
    """Returns the word of a unit in small letters and the singular, or ""."""
    if not isinstance(node, exp.Var | exp.Literal):
        return ""
    word = node.name.lower()
    word = word[:-1] if word.endswith("s") and word[:-1] in _STEPS else word
    return _SAME.get(word, word)


def unit_name(node: object) -> str | None:
    """Returns the unit of time that a node names, or None."""
    return _name(node) if _name(node) in UNITS else None


def part_name(node: object) -> str | None:
    """Returns the part of a date that a node names, or None. (DAYOFWEEK counts differently in each dialect.)"""
    return _name(node) if _name(node) in _PARTS else None


def _only(node: exp.Expression, *keys: str) -> bool:
    return all(key in keys or value is None or value is False for key, value in node.args.items())


def _scaled(count: exp.Expression, factor: int) -> exp.Expression | None:
    """Returns the count times a constant: a number where it is one, else a product."""
    negative = isinstance(count, exp.Neg)
    inner = count.this if negative else count
    if isinstance(inner, exp.Literal):
        try:
            number = int(inner.name) * (-factor if negative else factor)
        except ValueError:
            return None
        made = exp.Literal(this=str(number), is_string=False)
        made.meta.update(inner.meta)
        return made
    if factor == 1:
        return count
    number_node = exp.Literal(this=str(factor), is_string=False)
    return exp.Mul(this=exp.Paren(this=count.copy()), expression=number_node)


def _move(x: exp.Expression, count: exp.Expression, unit: object, sign: int) -> Found | None:
    step = _STEPS.get(_name(unit))
    if step is None:
        return None
    by = _scaled(count, sign * step[1])
    return None if by is None else (step[0], [as_moment(x), by])


def moved(node: exp.Expression) -> Found | None:
    """Returns a sum or difference with an interval as a move of the date, or None without an interval."""
    x, interval = node.this, node.expression
    if isinstance(node, exp.Add) and isinstance(x, exp.Interval):
        x, interval = interval, x
    if not isinstance(interval, exp.Interval) or isinstance(x, exp.Interval):
        return None
    if not _only(node, "this", "expression") or not _only(interval, "this", "unit") or interval.this is None:
        return None
    return _move(x, interval.this, interval.args.get("unit"), -1 if isinstance(node, exp.Sub) else 1)


def moved_by_function(node: exp.Expression) -> Found | None:
    """Returns DATE_ADD(x, n, unit) and its kin as a move of the date."""
    if not _only(node, "this", "expression", "unit"):
        return None
    sign = -1 if isinstance(node, exp.DateSub | exp.DatetimeSub | exp.TimestampSub) else 1
    count, unit = node.expression, node.args.get("unit")
    if isinstance(count, exp.Interval):
        if unit is not None or not _only(count, "this", "unit"):
            return None
        count, unit = count.this, count.args.get("unit")
    return None if count is None else _move(node.this, count, unit, sign)


def date_difference(node: exp.Expression) -> Found | None:
    """Returns DATE_DIFF as an operation on (unit, from, to); without unit it counts days."""
    if not _only(node, "this", "expression", "unit", "date_part_boundary"):
        return None
    unit = "day" if node.args.get("unit") is None else unit_name(node.args["unit"])
    if unit is None or isinstance(node.this, exp.Literal):
        return None
    return "date_diff", [exp.Literal.string(unit), as_moment(node.expression), as_moment(node.this)]


def as_moment(node: exp.Expression) -> exp.Expression:
    """Returns a date argument, where the parser wrapped it into a conversion, as a cast."""
    if isinstance(node, exp.TimeStrToTime | exp.TsOrDsToTimestamp) and _only(node, "this"):
        return exp.Cast(this=node.this.copy(), to=exp.DataType.build("timestamp"))
    if isinstance(node, exp.TsOrDsToDate) and _only(node, "this", "default_date"):
        return exp.Cast(this=node.this.copy(), to=exp.DataType.build("date"))
    return node
