"""Interval analysis: in which range an expression's values lie, from the ranges of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, conjuncts, inner_first
from dpquery.plan.functions import FUNCTIONS, TEXT_LIMIT
from dpquery.plan.functions.casts import cast_range
from dpquery.plan.functions.table import is_null_literal
from dpquery.plan.ranges import UNKNOWN, Range, hull, number_of
from dpquery.plan.types import TEXT

_EMPTY = Range(nullable=True)


def range_of(expression: Expression, columns: Mapping[str, Range]) -> Range:
    """Returns bounds on all values of an expression, given those of the columns by id."""
    return columns.get(expression.id, UNKNOWN) if isinstance(expression, Column) else Intervals(columns)(expression)


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
                return self._call(expression)
            case _:
                assert_never(expression)

    def _call(self, call: Call) -> Range:
        """What the function's rule says, and of a text how long it is where that follows from its arguments."""
        function, ranges = FUNCTIONS[call.function], tuple(map(self, call.arguments))
        found = function.range(ranges, call)
        if call.type != TEXT or function.texts is None:
            return found
        longest = function.texts.makes(call, tuple(TEXT_LIMIT + 1 if r.longest is None else r.longest for r in ranges))
        return found if longest > TEXT_LIMIT else replace(found, longest=longest)

    def _case(self, expression: Case) -> Range:
        """The hull of the arms. Those that are no CASE are taken over the columns as the conditions before them and
        their own leave these: one within another would be followed twice, and so on. The constant NULL only adds NULL.
        """
        arms = [result for _, result in expression.branches] + [expression.otherwise]
        present: list[Range] = []
        known = dict(self._columns)
        for condition, arm in (*expression.branches, (None, expression.otherwise)):
            inside = known if condition is None else self._where(condition, known, holds=True)
            if not is_null_literal(arm):
                is_plain = inside == self._columns or any(isinstance(part, Case) for part in inner_first(arm))
                present.append(self(arm) if is_plain else Intervals(inside)(arm))
            known = known if condition is None else self._where(condition, known, holds=False)
        if not present:
            return _EMPTY
        joined = hull(*present)
        nullable = joined.nullable or len(present) < len(arms)
        return replace(joined, nullable=nullable)

    def _where(self, condition: Expression, known: dict[str, Range], *, holds: bool) -> dict[str, Range]:
        """Returns what is known of columns where a condition is true, or is not; comparisons with constants tell it."""
        found = dict(known)
        for part in conjuncts(condition) if holds else [condition]:
            if not (isinstance(part, Call) and part.function in _OPPOSITES and len(part.arguments) == 2):
                continue
            function, (first, second) = part.function, part.arguments
            if not isinstance(first, Column):
                function, first, second = _MIRRORED[function], second, first
            end = self(second)
            if isinstance(first, Column) and end.lower is not None and end.lower == end.upper and not end.nullable:
                function = function if holds else _OPPOSITES[function]
                found[first.id] = _cut(found.get(first.id, UNKNOWN), function, end.lower, holds)
        return found


_OPPOSITES = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _cut(known: Range, function: str, end: Fraction, holds: bool) -> Range:
    """Returns the part of a range on one side of an end, the end included; what NULL is compared with is not true."""
    lower, upper = known.lower, known.upper
    if function in ("lt", "le"):
        upper = end if upper is None else min(upper, end)
    else:
        lower = end if lower is None else max(lower, end)
    if lower is not None and upper is not None and lower > upper:
        return known
    return Range(lower=lower, upper=upper, nullable=known.nullable and not holds)


def _literal(expression: Literal) -> Range:
    value = expression.value
    if isinstance(value, float) and not math.isfinite(value):
        return UNKNOWN
    number: Fraction | None = number_of(value)
    longest = len(value or "") if isinstance(value, str | None) else None
    return Range(lower=number, upper=number, nullable=value is None, longest=longest)
