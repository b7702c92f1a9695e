"""Texts and patterns as DuckDB SQL."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.backends.duckdb.sql.sql_rules import Lowering, Read, Rule, arguments, limited
from dpquery.plan.expr import Call
from dpquery.plan.functions.patterns import compiled, like_parts, pattern_part, replaces_all
from dpquery.plan.functions.table import TEXT_LIMIT, constant
from dpquery.plan.functions.text import lower, replaced_part

_MOST = 2**31 - 1
"""The longest text; the engine fails for places far beyond."""


def _cut(sql: str) -> str:
    return f"left({sql}, {TEXT_LIMIT})"


def _substring(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, start, *count = arguments(call, read)
    if not count:
        return f"substring({x}, {limited(lowering, start, 1, _MOST)})"

    def body(s: str, n: str) -> str:
        first = f"(CASE WHEN {s} < 1 THEN 1 WHEN {s} > {_MOST} THEN {_MOST} ELSE {s} END)"
        before = f"(CASE WHEN {s} < 1 THEN CAST({s} AS HUGEINT) - 1 ELSE 0 END)"
        length = f"greatest(0, least({_MOST}, CAST({n} AS HUGEINT) + {before}))"
        return f"substring({x}, {first}, CAST((CASE WHEN {n} >= 0 THEN {length} END) AS BIGINT))"

    return lowering.let(start, lambda s: lowering.let(count[0], lambda n: body(s, n)))


def _end(name: str) -> Rule:
    def rule(lowering: Lowering, call: Call, read: list[Read]) -> str:
        x, count = arguments(call, read)
        return f"{name}({x}, {limited(lowering, count, -_MOST, _MOST)})"

    return rule


def _join(form: str) -> Rule:
    """Returns the rule that joins texts one after another: each intermediate is cut before the next text is added."""

    def rule(_: Lowering, call: Call, read: list[Read]) -> str:
        made, *others = arguments(call, read)
        made = _cut(form.format(made, "''"))
        for other in others:
            made = _cut(form.format(made, other))
        return made

    return rule


def _replace(lowering: Lowering, call: Call, read: list[Read]) -> str:
    part = replaced_part(constant(call, 1), constant(call, 2))
    x, old, new = arguments(call, read)
    return f"replace(left({x}, {part}), {old}, {new})"


def _pad(name: str) -> Rule:
    def rule(lowering: Lowering, call: Call, read: list[Read]) -> str:
        fill = lowering.text(constant(call, 2)) if len(call.arguments) > 2 else "' '"
        return f"{name}({read[0](call.arguments[0])}, {constant(call, 1)}, {fill})"

    return rule


def _split_part(lowering: Lowering, call: Call, read: list[Read]) -> str:
    return f"split_part({read[0](call.arguments[0])}, {lowering.text(constant(call, 1))}, {constant(call, 2)})"


def _regexp_extract(lowering: Lowering, call: Call, read: list[Read]) -> str:
    """DuckDB's gives an empty text where nothing matches."""
    pattern, group = lowering.text(constant(call, 1)), compiled(constant(call, 1)).groups
    return lowering.let(
        read[0](call.arguments[0]),
        lambda x: f"(CASE WHEN regexp_matches({x}, {pattern}) THEN regexp_extract({x}, {pattern}, {group}) END)",
    )


def _regexp_replace(lowering: Lowering, call: Call, read: list[Read]) -> str:
    part, flags = pattern_part(call), ", 'g'" if replaces_all(call) else ""
    pattern, new = (lowering.text(constant(call, place)) for place in (1, 2))
    return f"regexp_replace(left({read[0](call.arguments[0])}, {part}), {pattern}, {new}{flags})"


def _like(lowering: Lowering, call: Call, read: list[Read]) -> str:
    folded = call.function == "ilike"
    x = read[0](call.arguments[0])
    escape = constant(call, 2) if len(call.arguments) > 2 else "\\"
    written, escaped = "", False
    for part in like_parts(constant(call, 1), escape):
        character = part[1:]
        special = character in ("%", "_", "\\")
        escaped = escaped or special
        written += (
            part if not character else ("\\" if special else "") + (lower.meaning(character) if folded else character)
        )
    if not escaped:
        form = lowering.text(written)
    else:
        form = f"{lowering.text(written)} ESCAPE '\\'"
    return f"({f'lower({x})' if folded else x} LIKE {form})"


TEXT_RULES: Mapping[str, Rule] = {
    "substring": _substring,
    "left": _end("left"),
    "right": _end("right"),
    "replace": _replace,
    "concat": _join("({} || {})"),
    "concat_without_nulls": _join("concat({}, {})"),
    "split_part": _split_part,
    "lpad": _pad("lpad"),
    "rpad": _pad("rpad"),
    "regexp_extract": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "like": _like,
    "ilike": _like,
}
