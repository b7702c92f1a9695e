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


def template(form: str) -> Rule:
    """Returns the rule that puts the arguments into a form with {0}, {1}, ..."""
    return lambda _, call, read: form.format(*arguments(call, read))


def joined(name: str) -> Rule:
    """Returns the rule of a function of the engine that takes the arguments as they are."""
    return lambda _, call, read: f"{name}({', '.join(arguments(call, read))})"


def guarded(form: str, condition: str) -> Rule:
    """Returns the rule of a function of one argument that is given NULL where the condition on {0} fails."""

    def rule(lowering: Lowering, call: Call, read: list[Read]) -> str:
        x = read[0](call.arguments[0])
        return form.format(lowering.let(x, lambda v: f"(CASE WHEN {condition.format(v)} THEN {v} END)"))

    return rule


def limited(lowering: Lowering, sql: str, lower: int, upper: int) -> str:
    """Returns an integer moved into [lower, upper]; NULL stays NULL."""
    return lowering.let(
        sql, lambda v: f"(CASE WHEN {v} < {lower} THEN {lower} WHEN {v} > {upper} THEN {upper} ELSE {v} END)"
    )


def within(lowering: Lowering, sql: str, lower: int, upper: int) -> str:
    """Returns an integer that is NULL outside [lower, upper]."""
    return lowering.let(sql, lambda v: f"(CASE WHEN {v} BETWEEN {lower} AND {upper} THEN {v} END)")
