"""Interval analysis: in which range an expression's values lie, from the ranges of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import assert_never

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.functions.casts import cast_range
from dpquery.plan.functions.table import is_null_literal
from dpquery.plan.ranges import UNKNOWN, Range, hull, number_of

_EMPTY = Range(nullable=True)


def range_of(expression: Expression, columns: Mapping[str, Range]) -> Range:
    """Returns bounds on all values of an expression, given those of the columns by id."""
    return Intervals(columns)(expression)


def inner_first(expression: Expression) -> list[Expression]:
    """Returns the parts of an expression, each after its own parts: whoever follows it needs no deep recursion."""
    found, waiting = [], [expression]
    while waiting:
        part = waiting.pop()
        found.append(part)
        waiting.extend(children(part))
    return found[::-1]


class Intervals:
    """`range_of` for many expressions over the same columns; remembers what it has found."""

    def __init__(self, columns: Mapping[str, Range]) -> None:
        self._columns = columns
        self._found: dict[int, tuple[Expression, Range]] = {}

    def __call__(self, expression: Expression) -> Range:
        """Returns bounds on all values of the expression."""
        known = self._found.get(id(expression))
        if known is not None:
            return known[1]
        for part in inner_first(expression):
            if id(part) not in self._found:
                self._found[id(part)] = part, self._derive(part)
        return self._found[id(expression)][1]

    def _derive(self, expression: Expression) -> Range:
        match expression:
            case Column():
                return self._columns.get(expression.id, UNKNOWN)
            case Literal():
                return _literal(expression)
            case Cast():
                return cast_range(self(expression.argument), expression.argument.type, expression.type)
            case Case():
                return self._case(expression)
            case Call():
                ranges = tuple(map(self, expression.arguments))
                return FUNCTIONS[expression.function].range(ranges, expression)
            case _:
                assert_never(expression)

    def _case(self, expression: Case) -> Range:
        """The hull of the arms; conditions are not believed. Arms that are the constant NULL only add NULL."""
        arms = [result for _, result in expression.branches] + [expression.otherwise]
        present = [self(arm) for arm in arms if not is_null_literal(arm)]
        if not present:
            return _EMPTY
        joined = hull(*present)
        nullable = joined.nullable or len(present) < len(arms)
        return Range(lower=joined.lower, upper=joined.upper, nullable=nullable)


def _literal(expression: Literal) -> Range:
    value = expression.value
    if isinstance(value, float) and not math.isfinite(value):
        return UNKNOWN
    number: Fraction | None = number_of(value)
    return Range(lower=number, upper=number, nullable=value is None)
