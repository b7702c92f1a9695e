"""Logic, choice and numbers as DuckDB SQL.

Guards are left out for constants alone, never for what interval arithmetic believes of a column.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.sql.sql_dates import moved_day
from dpquery.backends.duckdb.sql.sql_rules import Lowering, Read, Rule, arguments, number
from dpquery.plan.expr import Call
from dpquery.plan.functions.rounding import INTEGRAL, digits_of
from dpquery.plan.functions.table import constant
from dpquery.plan.types import DATE, FLOAT64, INT64, Kind

_WHOLE = int(INTEGRAL)


def _chain(word: str) -> Rule:
    return lambda _, call, read: f"({f' {word} '.join(arguments(call, read))})"


def _in(_: Lowering, call: Call, read: list[Read]) -> str:
    x, *choices = arguments(call, read)
    return f"({x} IN ({', '.join(choices)}))"


def _nullif(lowering: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)
    return lowering.let(a, lambda v: f"(CASE WHEN {v} = {b} THEN NULL ELSE {v} END)")


def _clamp(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, least, most = arguments(call, read)
    return lowering.let(
        x, lambda v: f"(CASE WHEN {v} > {most} THEN {most} WHEN {v} < {least} THEN {least} ELSE {v} END)"
    )


def _wide(form: str, values: list[str]) -> str:
    """Integers: computed in 128 bits and NULL beyond 64."""
    return f"TRY_CAST({form.format(*(f'CAST({v} AS HUGEINT)' for v in values))} AS BIGINT)"


def _sum(sign: str) -> Rule:
    def rule(lowering: Lowering, call: Call, read: list[Read]) -> str:
        a, b = arguments(call, read)
        if call.arguments[0].type == DATE:
            if call.type == INT64:
                return f"({a} - {b})"
            return moved_day(lowering, a, f"{sign} CAST({b} AS HUGEINT)")
        if call.type == INT64:
            return _wide(f"{{0}} {sign} {{1}}", [a, b])
        return _typed(call, f"({a} {sign} {b})")

    return rule


def _typed(call: Call, sql: str) -> str:
    """Decimals are given the precision of the plan; all values have room in it."""
    return f"CAST({sql} AS {type_name(call.type)})" if call.type.kind is Kind.DECIMAL else sql


def _product(_: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)
    if call.type == INT64:
        return _wide("{0} * {1}", [a, b])
    if call.type == FLOAT64:
        return f"({a} * {b})"
    return _typed(call, f"(CAST({a} AS DECIMAL({call.type.precision},{call.arguments[0].type.scale})) * {b})")


def _not_zero(lowering: Lowering, call: Call, sql: str) -> str:
    """Returns the divisor with NULL for zero."""
    if number(call.arguments[1]):
        return sql
    return lowering.let(sql, lambda v: f"(CASE WHEN {v} <> 0 THEN {v} END)")


def _divide(lowering: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)
    return f"({a} / {_not_zero(lowering, call, b)})"


def _int_divide(lowering: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)
    return _wide("{0} // {1}", [a, _not_zero(lowering, call, b)])


def _modulo(lowering: Lowering, call: Call, read: list[Read]) -> str:
    """The engine fails for the least integer modulo -1.

    Until https://github.com/duckdb/duckdb/issues/25112 is closed.
    """
    a, b = arguments(call, read)
    b = _not_zero(lowering, call, b)
    if call.type == INT64 and number(call.arguments[1]) in (None, -1):
        return f"TRY_CAST(CAST({a} AS HUGEINT) % CAST({b} AS HUGEINT) AS BIGINT)"
    return _typed(call, f"({a} % {b})")


def _unary(form: str) -> Rule:
    def rule(_: Lowering, call: Call, read: list[Read]) -> str:
        x = read[0](call.arguments[0])
        return _wide(form, [x]) if call.type == INT64 else _typed(call, f"({form.format(x)})")

    return rule


def _to_whole(name: str) -> Rule:
    def rule(_: Lowering, call: Call, read: list[Read]) -> str:
        x = read[0](call.arguments[0])
        return x if call.type == INT64 else _typed(call, f"{name}({x})")

    return rule


def _round(lowering: Lowering, call: Call, read: list[Read]) -> str:
    """DuckDB's own ROUND moves halves away from zero; its cast of floats to integers rounds half to even."""
    x, digits = read[0](call.arguments[0]), digits_of(call)
    if call.type != FLOAT64:
        return x if call.type == call.arguments[0].type else f"CAST({x} AS {type_name(call.type)})"
    factor = f"CAST('1e{abs(digits)}' AS DOUBLE)"
    there, back = ("*", "/") if digits >= 0 else ("/", "*")

    def body(v: str) -> str:
        scaled = f"({v} {there} {factor})" if digits else v
        whole = f"CAST(TRY_CAST({scaled} AS BIGINT) AS DOUBLE)"
        near = f"(CASE WHEN abs({scaled}) < {_WHOLE} THEN {whole} ELSE {scaled} END)"
        if digits <= 0:
            return f"({near} {back} {factor})" if digits else near
        return f"(CASE WHEN abs({v}) < {_WHOLE} THEN {near} {back} {factor} ELSE {v} END)"

    return lowering.let(x, body)


def _width_bucket(lowering: Lowering, call: Call, read: list[Read]) -> str:
    x, lower, upper = (one(argument) for one, argument in zip(read[:3], call.arguments[:3], strict=True))
    count = constant(call, 3)

    def body(v: str) -> str:
        place = f"TRY_CAST(floor((({v} - {lower}) / ({upper} - {lower})) * {count}.0::DOUBLE) AS BIGINT)"
        inside = f"(CASE WHEN {place} < {count} THEN {place} + 1 ELSE {count} END)"
        outside = f"WHEN {v} < {lower} THEN 0 WHEN {v} >= {upper} THEN {count + 1}"
        return f"(CASE {outside} WHEN {v} IS NOT NULL THEN {inside} END)"

    return f"CAST({lowering.let(x, body)} AS BIGINT)"


def _power(lowering: Lowering, call: Call, read: list[Read]) -> str:
    a, b = arguments(call, read)
    base, exponent = map(number, call.arguments)
    if (base is not None and base > 0) or (exponent is not None and exponent >= 0):
        return f"power({a}, {b})"
    return lowering.let(
        a, lambda v: lowering.let(b, lambda w: f"power((CASE WHEN {v} = 0 AND {w} < 0 THEN NULL ELSE {v} END), {w})")
    )


NUMBER_RULES: Mapping[str, Rule] = {
    "and": _chain("AND"),
    "or": _chain("OR"),
    "in": _in,
    "nullif": _nullif,
    "clamp": _clamp,
    "add": _sum("+"),
    "subtract": _sum("-"),
    "multiply": _product,
    "divide": _divide,
    "int_divide": _int_divide,
    "modulo": _modulo,
    "negate": _unary("-{0}"),
    "abs": _unary("abs({0})"),
    "floor": _to_whole("floor"),
    "ceil": _to_whole("ceil"),
    "trunc": _to_whole("trunc"),
    "round": _round,
    "width_bucket": _width_bucket,
    "power": _power,
}
