"""What the rules that write operations as SQL are given, and what they give."""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.functions import Function


@dataclass(frozen=True, slots=True)
class Written:
    """SQL for an expression, and whether it may give NaN where the expression is NULL."""

    sql: str
    nan: bool = False


class Lowering(Protocol):
    """Writes one expression."""

    @abstractmethod
    def value(self, expression: Expression) -> str:
        """Returns SQL that never gives NaN."""

    @abstractmethod
    def let(self, sql: str, body: Callable[[str], str]) -> str:
        """Returns `body` of an expression, which it may mention several times."""

    @abstractmethod
    def text(self, value: str) -> str:
        """Returns SQL for a text constant, which becomes a parameter."""


Read = Callable[[Expression], str]
Rule = Callable[[Lowering, Call, list[Read]], str]
"""From the call, and how each of its arguments is to be read, to SQL."""


def arguments(call: Call, read: list[Read]) -> list[str]:
    """Returns SQL for each argument."""
    return list(map(operator.call, read, call.arguments))


def number(expression: Expression) -> float | int | Decimal | None:
    """Returns a constant that is a finite number, or None for anything else: what a guard may be left out for."""
    value = expression.value if isinstance(expression, Literal) else None
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None  # type: ignore[return-value]


def rule_of(row: Function) -> Rule:
    """Returns the rule of an operation whose row says how engines write it."""
    form = row.engine

    def rule(lowering: Lowering, call: Call, read: list[Read]) -> str:
        given = arguments(call, read)
        if row.domain:
            given = [lowering.let(given[0], lambda v: f"(CASE WHEN {row.domain.format(v)} THEN {v} END)")]
        return f"{form}({', '.join(given)})" if form.isidentifier() else form.format(*given)

    return rule


def limited(lowering: Lowering, sql: str, lower: int, upper: int) -> str:
    """Returns an integer moved into [lower, upper]; NULL stays NULL."""
    return lowering.let(
        sql, lambda v: f"(CASE WHEN {v} < {lower} THEN {lower} WHEN {v} > {upper} THEN {upper} ELSE {v} END)"
    )


def within(lowering: Lowering, sql: str, lower: int, upper: int) -> str:
    """Returns an integer that is NULL outside [lower, upper]."""
    return lowering.let(sql, lambda v: f"(CASE WHEN {v} BETWEEN {lower} AND {upper} THEN {v} END)")
