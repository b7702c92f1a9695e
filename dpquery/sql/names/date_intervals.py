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


def interval_of(node: object) -> tuple[exp.Expression, object] | None:
    """Returns count and unit of an interval, also of one that is multiplied (`3 * INTERVAL '1 day'`); else None."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.Interval):
        known = node.this is not None and _only(node, "this", "unit")
        return (node.this, node.args.get("unit")) if known else None
    if not isinstance(node, exp.Mul) or not _only(node, "this", "expression"):
        return None
    for count, part in ((node.this, node.expression), (node.expression, node.this)):
        found = interval_of(part)
        if found is not None and interval_of(count) is None:
            one = isinstance(found[0], exp.Literal) and found[0].name == "1"
            return (count if one else exp.Mul(this=exp.Paren(this=count.copy()), expression=_number(found[0]))), found[
                1
            ]
    return None


def step_of(node: exp.Expression) -> tuple[str, int] | None:
    """Returns what moves a date by a constant interval, and by how many: (`add_days`, 7); also of `'7 days'`."""
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.INTERVAL:
        node = node.this
    if isinstance(node, exp.Literal) and node.is_string and len(words := node.name.split()) == 2:
        node = exp.Interval(this=exp.Literal.string(words[0]), unit=exp.var(words[1]))
    found = interval_of(node)
    step = None if found is None else _STEPS.get(_name(found[1]))
    if found is None or step is None:
        return None
    count = _scaled(found[0], step[1])
    number = -1 if isinstance(count, exp.Neg) else 1
    inner = count.this if isinstance(count, exp.Neg) else count
    return (step[0], number * int(inner.name)) if isinstance(inner, exp.Literal) else None


def has_interval(node: exp.Expression) -> bool:
    """Whether an operand of a sum or a difference is an interval."""
    return any(interval_of(part) is not None for part in (node.this, node.expression))


def moved(node: exp.Expression) -> Found | None:
    """Returns a sum or difference with an interval as a move of the date, or None without an interval."""
    x, by = node.this, interval_of(node.expression)
    if isinstance(node, exp.Add) and by is None:
        x, by = node.expression, interval_of(node.this)
    if by is None or interval_of(x) is not None or not _only(node, "this", "expression"):
        return None
    return _move(x, *by, -1 if isinstance(node, exp.Sub) else 1)


INTERVAL_DIALECTS = frozenset({"postgres", "redshift", "materialize", "risingwave", "duckdb"})
"""Where the difference of two timestamps is an interval of days and time, and AGE counts years and months."""


def microseconds_of(node: exp.Expression) -> exp.Expression | None:
    """Returns the length of an interval in microseconds, or None for what is none, and of months: they have none."""
    found = interval_of(node)
    step = None if found is None else _STEPS.get(_name(found[1]))
    if found is None or step is None or step[0] == "add_months":
        return None
    return _scaled(found[0], step[1] * (86_400_000_000 if step[0] == "add_days" else 1))


def _number(node: exp.Expression) -> exp.Expression:
    """Returns the count of an interval as a number: it is often written as a text."""
    is_text = isinstance(node, exp.Literal) and node.is_string
    return exp.Literal(this=node.name, is_string=False) if is_text else exp.Paren(this=node.copy())


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
