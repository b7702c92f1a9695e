"""SQL's operators and functions to operations of plans: the classes and names that rows of `plan/functions` list, and
forms that need more than a list.

A parsed node is known by its class, or by its name where the parser knows no class. Whatever it carries beyond the
listed arguments (a flag, a time zone, a position to start from) makes it unknown: nothing is dropped silently.
Units, weeks (ISO 8601), LIKE (backslash escapes) and logarithms mean what PostgreSQL means by them, in every dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.types import INT64, Type
from dpquery.sql.names.date_intervals import (
    as_moment,
    date_difference,
    has_interval,
    moved,
    moved_by_function,
    part_name,
    unit_name,
)

Found = tuple[str, list[exp.Expression]]


def _spelled() -> Iterator[tuple[str, str, str]]:
    """Yields each operation, a class or a name, and what follows it: arguments in brackets, or their number."""
    for row in FUNCTIONS.values():
        for spelling in row.parsed.split():
            name, _, rest = spelling.partition("(" if spelling[0].isupper() else "/")
            yield row.name, name, rest.removesuffix(")")


def _keys(of: type[exp.Expression], listed: str) -> tuple[str, ...]:
    return tuple(listed.split(",")) if listed else tuple(key for key, is_needed in of.arg_types.items() if is_needed)


PLAIN: Mapping[type[exp.Expression], tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        getattr(exp, name): (operation, _keys(getattr(exp, name), rest))
        for operation, name, rest in _spelled()
        if name[0].isupper()
    }
)
"""By class: the operation, and which of the node's arguments it takes, "?" marking those that may be missing."""
NAMED: Mapping[str, tuple[str, int]] = MappingProxyType(
    {name: (operation, int(count)) for operation, name, count in _spelled() if name[0].islower()}
)
"""By name, for what the parser has no class for: the operation and how many arguments."""
_HARMLESS: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Length: ("binary",),
    exp.Trunc: ("fractions_supported",),
    exp.Round: ("casts_non_integer_decimals",),
    exp.StrPosition: ("clamp_position",),
    exp.DPipe: ("safe",),
    exp.Concat: ("safe", "coalesce"),
    exp.Coalesce: ("is_null", "is_nvl"),
    exp.TimestampTrunc: ("input_type_preserved",),
    exp.DateTrunc: ("input_type_preserved",),
    exp.DateDiff: ("date_part_boundary",),
}
"""Notes of the parser that change no value here."""


def operation_of(node: exp.Expression) -> Found | None:
    """Returns the operation that a node stands for and its arguments, or None if it is not known in full."""
    special = _SPECIAL.get(type(node))
    if special is not None:
        return special(node)
    plain = PLAIN.get(type(node))
    if plain is None:
        return None
    name, keys = plain
    found = _with(name, node, *keys)
    return found and (found[0], [as_moment(part) for part in found[1]])


def is_known(node: exp.Expression) -> bool:
    """Whether the function is known in some form, if not in this one."""
    if isinstance(node, exp.Anonymous):
        return isinstance(node.this, str) and (node.this.lower() in NAMED or node.this.lower() == "date_part")
    return type(node) in _SPECIAL or type(node) in PLAIN


def division_of(node: exp.Div, left: Type, right: Type) -> str:
    """Returns the operation of `/`: integers divide without fraction where the dialect (as PostgreSQL) says so."""
    return "int_divide" if node.args.get("typed") and left == right == INT64 else "divide"


def _with(name: str, node: exp.Expression, *keys: str) -> Found | None:
    """Returns the operation with the arguments under these keys, if the node carries no others."""
    wanted = [key.rstrip("?") for key in keys]
    if not carries_only(node, *wanted):
        return None
    given = [node.args.get(key) for key in wanted]
    if any(value is None and not key.endswith("?") for key, value in zip(keys, given, strict=True)):
        return None
    parts = [value for value in given if isinstance(value, exp.Expression)]
    return (name, parts) if len(parts) == sum(value is not None for value in given) else None


def carries_only(node: exp.Expression, *keys: str) -> bool:
    """Whether a node has no arguments but these and those that change nothing."""
    known = (*keys, *_HARMLESS.get(type(node), ()))
    return all(key in known or value is None or value is False or value == [] for key, value in node.args.items())


def _flat(name: str, of: type[exp.Expression]) -> Callable[[exp.Expression], Found | None]:
    """A chain such as `a AND b AND c` is one operation on many arguments."""

    def found(node: exp.Expression) -> Found | None:
        parts: list[exp.Expression] = []
        waiting = [node]
        while waiting:
            part = waiting.pop()
            inner = part.unnest() if isinstance(part, exp.Paren) else part
            if type(inner) is not of:
                parts.append(part)
            elif carries_only(inner, "this", "expression"):
                waiting += [inner.expression, inner.this]
            else:
                return None
        return name, parts

    return found


def _variadic(name: str) -> Callable[[exp.Expression], Found | None]:
    def found(node: exp.Expression) -> Found | None:
        first = [node.this] if node.args.get("this") is not None else []
        return (name, [*first, *node.expressions]) if carries_only(node, "this", "expressions") else None

    return found


def _extreme(name: str) -> Callable[[exp.Expression], Found | None]:
    """GREATEST and LEAST, only where the dialect says that NULLs do not count."""

    def found(node: exp.Expression) -> Found | None:
        if not node.args.get("ignore_nulls") or not carries_only(node, "this", "expressions", "ignore_nulls"):
            return None
        return name, [node.this, *node.expressions]

    return found


def _is(node: exp.Expression) -> Found | None:
    tested, negated = node.args.get("expression"), bool(node.args.get("negate"))
    if not carries_only(node, "this", "expression", "negate"):
        return None
    if isinstance(tested, exp.Null):
        return ("is_not_null" if negated else "is_null"), [node.this]
    if isinstance(tested, exp.Boolean):
        return f"is_{'not_' if negated else ''}{'true' if tested.this else 'false'}", [node.this]
    return None


def _like(node: exp.Expression) -> Found | None:
    escaped = isinstance(node, exp.Escape)
    like = node.this if escaped else node
    if not isinstance(like, exp.Like | exp.ILike) or not carries_only(like, "this", "expression", "negate"):
        return None
    if not isinstance(like.expression, exp.Literal) or (escaped and not carries_only(node, "this", "expression")):
        return None
    if like.args.get("negate"):
        positive = node.copy()
        (positive.this if escaped else positive).set("negate", None)
        return "not", [positive]
    return ("ilike" if isinstance(like, exp.ILike) else "like"), [
        like.this,
        like.expression,
        *([node.expression] if escaped else []),
    ]


def _trim(node: exp.Expression) -> Found | None:
    name = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "")
    if name is None or not carries_only(node, "this", "expression", "position"):
        return None
    characters = node.args.get("expression")
    return name, [node.this, *([characters] if characters is not None else [])]


def _concat(node: exp.Expression) -> Found | None:
    name = "concat_without_nulls" if node.args.get("coalesce") else "concat"
    return (name, list(node.expressions)) if carries_only(node, "expressions") else None


def _concat_ws(node: exp.Expression) -> Found | None:
    """CONCAT_WS('/', a, b): each text that is not NULL behind the separator, and then without the first of these."""
    if not carries_only(node, "expressions", "safe", "coalesce") or not node.args.get("coalesce"):
        return None
    separator, *parts = node.expressions
    if not isinstance(separator, exp.Literal) or not separator.is_string or not parts:
        return None
    given = [exp.DPipe(this=separator.copy(), expression=exp.Paren(this=part.copy())) for part in parts]
    joined = exp.Concat(expressions=given, coalesce=True)
    return "substring", [joined, exp.Literal.number(len(separator.name) + 1)]


def _similar(node: exp.Expression) -> Found | None:
    """SIMILAR TO is a regular expression of the whole text, with % and _ as in LIKE."""
    pattern = node.expression
    if not carries_only(node, "this", "expression") or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return None
    words = {"%": "(?:.|\\n)*", "_": "(?:.|\\n)", ".": "\\.", "^": "\\^", "$": "\\$"}
    escaped = "".join(words.get(part, part) for part in re.findall(r"\\.|\[[^\]]*\]|.", pattern.name, re.DOTALL))
    return "regexp_matches", [node.this, exp.Literal.string(f"^(?:{escaped})$")]


def _substring(node: exp.Expression) -> Found | None:
    """SUBSTRING(a FROM 'x(y)') takes what a pattern matches."""
    start = node.args.get("start")
    if isinstance(start, exp.Literal) and start.is_string and node.args.get("length") is None:
        return _with("regexp_extract", node, "this", "start")
    return _with("substring", node, "this", "start", "length?")


def _regexp_extract(node: exp.Expression) -> Found | None:
    """REGEXP_EXTRACT, where no match is NULL and the group is the only one."""
    noted = ("null_if_no_match", "null_if_pos_overflow", "empty_if_group_missing", "group")
    if not carries_only(node, "this", "expression", *noted) or not node.args.get("null_if_no_match"):
        return None
    return "regexp_extract", [node.this, node.expression]


def _regexp_replace(node: exp.Expression) -> Found | None:
    """REGEXP_REPLACE replaces the first match where the dialect says so, else all."""
    if not carries_only(node, "this", "expression", "replacement", "modifiers", "single_replace"):
        return None
    flags = node.args.get("modifiers") or exp.Literal.string("" if node.args.get("single_replace") else "g")
    parts = [node.this, node.expression, node.args.get("replacement")]
    return ("regexp_replace", [*parts, flags]) if all(parts) else None


def _pad(node: exp.Expression) -> Found | None:
    if not carries_only(node, "this", "expression", "fill_pattern", "is_left"):
        return None
    fill = node.args.get("fill_pattern")
    parts = [node.this, node.expression, *([fill] if fill is not None else [])]
    return ("lpad" if node.args.get("is_left") else "rpad"), parts


def _log(node: exp.Expression) -> Found | None:
    """LOG(x) is the decimal logarithm, as in PostgreSQL; the parser turns LOG into LN where a dialect means that."""
    base = node.this
    if node.args.get("expression") is None:
        return _with("log10", node, "this")
    name = {"2": "log2", "10": "log10"}.get(base.name) if isinstance(base, exp.Literal) else None
    return (name, [node.expression]) if name and carries_only(node, "this", "expression") else None


def _plus(name: str) -> Callable[[exp.Expression], Found | None]:
    """A sum or difference: of numbers, of a date and days, or of a date and an interval."""

    def found(node: exp.Expression) -> Found | None:
        if isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval) or has_interval(node):
            return moved(node)
        return _with(name, node, "this", "expression")

    return found


def _extract(node: exp.Expression) -> Found | None:
    part = part_name(node.this)
    return (f"extract_{part}", [node.expression]) if part and carries_only(node, "this", "expression") else None


def _trunc(node: exp.Expression) -> Found | None:
    unit = unit_name(node.args.get("unit"))
    if unit is None or not carries_only(node, "this", "unit"):
        return None
    return "date_trunc", [exp.Literal.string(unit), node.this]


def _last_day(node: exp.Expression) -> Found | None:
    unit = node.args.get("unit")
    known = carries_only(node, "this", "unit") and (unit is None or unit_name(unit) == "month")
    return ("last_day", [node.this]) if known else None


def _anonymous(node: exp.Expression) -> Found | None:
    if not isinstance(node.this, str) or not carries_only(node, "this", "expressions"):
        return None
    name, given = node.this.lower(), list(node.expressions)
    if name == "date_part" and len(given) == 2 and isinstance(given[0], exp.Literal):
        part = part_name(given[0])
        return (f"extract_{part}", given[1:]) if part else None
    known = NAMED.get(name)
    return (known[0], given) if known and known[1] == len(given) else None


_SPECIAL: Mapping[type[exp.Expression], Callable[..., Found | None]] = MappingProxyType(
    {
        exp.And: _flat("and", exp.And),
        exp.Or: _flat("or", exp.Or),
        exp.DPipe: _flat("concat", exp.DPipe),
        exp.Coalesce: _variadic("coalesce"),
        exp.Greatest: _extreme("greatest"),
        exp.Least: _extreme("least"),
        exp.Is: _is,
        exp.Like: _like,
        exp.ILike: _like,
        exp.Escape: _like,
        exp.Trim: _trim,
        exp.Concat: _concat,
        exp.ConcatWs: _concat_ws,
        exp.SimilarTo: _similar,
        exp.Substring: _substring,
        exp.RegexpExtract: _regexp_extract,
        exp.RegexpReplace: _regexp_replace,
        exp.Pad: _pad,
        exp.Log: _log,
        exp.Extract: _extract,
        exp.DateTrunc: _trunc,
        exp.TimestampTrunc: _trunc,
        exp.LastDay: _last_day,
        exp.Add: _plus("add"),
        exp.Sub: _plus("subtract"),
        exp.DateAdd: moved_by_function,
        exp.DateSub: moved_by_function,
        exp.DatetimeAdd: moved_by_function,
        exp.DatetimeSub: moved_by_function,
        exp.TimestampAdd: moved_by_function,
        exp.TimestampSub: moved_by_function,
        exp.DateDiff: date_difference,
        exp.DatetimeDiff: date_difference,
        exp.TimestampDiff: date_difference,
        exp.TsOrDsDiff: date_difference,
        exp.Anonymous: _anonymous,
    }
)
