"""Expressions as DuckDB SQL that gives the values of `plan/evaluate` and raises on no row.

Totality is by data, not by control: a partial function of the engine is given NULL instead of a bad argument, so no
order of evaluation that an optimiser may choose can make it raise. An argument that is needed twice is written twice
only while it is short, else bound by a lambda: DuckDB plans nested copies in exponential time.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import assert_never

from dpquery.backends.duckdb.sql.sql_casts import cast_sql, type_name
from dpquery.backends.duckdb.sql.sql_dates import DATE_RULES
from dpquery.backends.duckdb.sql.sql_numbers import NUMBER_RULES
from dpquery.backends.duckdb.sql.sql_rules import Lowering, Rule, Written, number, rule_of
from dpquery.backends.duckdb.sql.sql_texts import TEXT_RULES
from dpquery.errors import InternalError
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, inner_first
from dpquery.plan.functions import FUNCTIONS, cast_value
from dpquery.plan.types import FLOAT64, TEXT, Kind, Type, Value

RULES: Mapping[str, Rule] = {
    **{name: rule_of(row) for name, row in FUNCTIONS.items() if row.engine},
    **NUMBER_RULES,
    **TEXT_RULES,
    **DATE_RULES,
}
"""How each operation is written: as its row says, or by a rule here."""

_NAN_PASSES = ("add", "subtract", "multiply", "divide", "negate", "abs")
"""Operations through which NaN goes unchanged, so that it may become NULL after them."""
_NAN_ARISES = ("add", "subtract", "multiply", "divide", "modulo", "power")
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/+-]*")
"""Texts that are written as they are, under a cast: a bare literal would mean a column's number, or be refused."""
_SHORT = 120
"""Longest SQL that is written twice rather than bound by a lambda."""


def lower(expression: Expression, *, names: Callable[[str], str]) -> str:
    """Returns DuckDB SQL for an expression.

    Args:
        names: From column ids to SQL that reads the column, as `reading` reads it: no NaN, no -0.0, no dates beyond.
    """
    writer = _Writer(names)
    for part in inner_first(expression):
        if not isinstance(part, Literal):  # some constants are not written, and none may be a parameter in vain
            writer.raw(part)
    return writer.value(expression)


class _Writer(Lowering):
    """Writes one expression."""

    def __init__(self, names: Callable[[str], str]) -> None:
        self._names = names
        self._bound = 0
        self._found: dict[int, Written] = {}

    def value(self, expression: Expression) -> str:
        written = self.raw(expression)
        if not written.nan:
            return written.sql
        return self.let(written.sql, lambda v: f"(CASE WHEN isnan({v}) THEN NULL ELSE {v} END)")

    def raw(self, expression: Expression) -> Written:
        """Returns SQL that may give NaN instead of NULL, and remembers it."""
        found = self._found.get(id(expression))
        if found is None:
            found = self._found[id(expression)] = self._write(expression)
        return found

    def _write(self, expression: Expression) -> Written:
        match expression:
            case Column():
                return Written(self._names(expression.id))
            case Literal():
                return Written(self._literal(expression.value, expression.type))
            case Cast():
                return Written(cast_sql(self, expression))
            case Case():
                arms = "".join(f" WHEN {self.value(c)} THEN {self.value(r)}" for c, r in expression.branches)
                return Written(f"(CASE{arms} ELSE {self.value(expression.otherwise)} END)")
            case Call():
                return self._call(expression)
            case _:
                assert_never(expression)

    def _call(self, call: Call) -> Written:
        rule = RULES.get(call.function)
        if rule is None:
            raise InternalError(f"DuckDB has no form of the operation {call.function}")
        if call.type != FLOAT64 or call.function not in (*_NAN_PASSES, *_NAN_ARISES):
            return Written(rule(self, call, [self.value] * len(call.arguments)))
        passed: list[bool] = []

        def read(argument: Expression) -> str:
            written = self.raw(argument)
            passed.append(written.nan)
            return written.sql

        passes = call.function in _NAN_PASSES
        sql = rule(self, call, [read if passes else self.value] * len(call.arguments))
        arises = call.function in _NAN_ARISES and not _no_nan(call)
        return Written(sql, nan=arises or any(passed))

    def let(self, sql: str, body: Callable[[str], str]) -> str:
        if len(sql) <= _SHORT:
            return body(sql)
        self._bound += 1
        name = f"let_{self._bound}"
        return f"list_transform([{sql}], lambda {name}: {body(name)})[1]"

    def text(self, value: str) -> str:
        if "\0" in value:
            raise InternalError("a text constant holds the character NUL")
        if _PLAIN.fullmatch(value):
            return f"CAST('{value}' AS VARCHAR)"
        return f"decode(unhex('{value.encode().hex()}'))"  # a constant to the engine, with any characters

    def _literal(self, value: Value, of: Type) -> str:
        name = type_name(of)
        match value:
            case None:
                return f"CAST(NULL AS {name})"
            case bool():
                return "TRUE" if value else "FALSE"
            case str():
                return self.text(value)
            case float() if not math.isfinite(value):
                return "CAST(NULL AS DOUBLE)" if math.isnan(value) else f"CAST('{value}' AS DOUBLE)"
            case float():
                return f"CAST('{value + 0.0!r}' AS {name})"
            case int() | Decimal() | datetime.date():
                return f"CAST('{cast_value(value, of, TEXT)}' AS {name})"


def _no_nan(call: Call) -> bool:
    """Whether a float operation gives NaN for no values, infinities among them, but NaN: by constants and types."""
    first, second = call.arguments
    match call.function:
        case "add" | "subtract":
            return _is_finite(first) or _is_finite(second)
        case "multiply":
            return bool(number(first) or number(second)) or (_is_finite(first) and _is_finite(second))
        case "divide":
            return bool(number(second))
        case "power":
            return (number(first) or 0) > 0
        case _:
            return _is_finite(first) and bool(number(second))


def _is_finite(expression: Expression) -> bool:
    """Whether a float is finite: a constant, or what was an integer or a decimal."""
    if isinstance(expression, Cast):
        return expression.argument.type.kind in (Kind.INT64, Kind.DECIMAL, Kind.BOOLEAN)
    return number(expression) is not None
