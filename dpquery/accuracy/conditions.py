"""Intervals of what is done to one number, and of choices between numbers: COALESCE and CASE.

A function of one noisy number lies between its ends over that number's interval, whichever way that was found. A
condition over noisy numbers may hold for them and not without the noise. It is decided where the intervals of what it
compares are apart; where they are not, the interval of the choice holds all that may be chosen. The probability to fail
is split among the numbers that are compared and the one that is chosen.
A value that may be NULL has its own interval where it is there, so a branch that is NULL is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.rules import RULES, Floats, Interval
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children, parts_of, rebuild
from dpquery.plan.functions import call
from dpquery.plan.types import BOOLEAN, FLOAT64

Bools = NDArray[np.bool_]
COMPARISONS = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt", "eq": "ne", "ne": "eq"}
"""Each with its opposite, of numbers that are there."""


class IntervalSource(Protocol):
    """What intervals are computed from (accuracy/intervals.py)."""

    @property
    def rows(self) -> int:
        """How many rows the answer has."""

    def interval(self, expression: Expression) -> Interval:
        """Returns the interval of an expression."""

    def is_exact(self, expression: Expression) -> bool:
        """Whether it carries no noise."""

    def exact(self, expression: Expression) -> Floats | None:
        """Returns the values of an expression without noise."""

    def holds(self, condition: Expression) -> Bools:
        """Returns where a condition without noise holds."""

    def shared(self, among: int) -> IntervalSource:
        """Returns the same for intervals that fail with that part of the probability."""


def outermost(expression: Expression, inputs: IntervalSource) -> Interval | None:
    """Returns the interval of a function of one noisy number, or of a choice; None if the expression is neither."""
    while isinstance(expression, Cast) and expression.type.is_numeric and expression.argument.type.is_numeric:
        expression = expression.argument
    match expression:
        case Call(function="nullif", arguments=(value, by)) if inputs.is_exact(by):
            return inputs.interval(value)
        case Call(function="coalesce"):
            *first, last = expression.arguments
            return _chosen([(_all(there(value)), value) for value in first], last, inputs)
        case Case():
            return _case(expression, inputs)
        case Call() if expression.function in RULES:
            return _of_one(expression, inputs)
        case _:
            return None


def there(expression: Expression) -> list[Expression] | None:
    """Returns the conditions under which an expression is not NULL, or None if they are not known."""
    match expression:
        case Column():
            return []
        case Literal():
            return [] if expression.value is not None else None
        case Case(branches=((condition, value),), otherwise=Literal(value=None)):
            own, parts = [condition], [value]
        case Call(function="nullif", arguments=(value, by)):
            own, parts = [call("ne", (value, by))], [value]
        case Call(function="divide", arguments=(_, by)) if not isinstance(by, Literal):
            divisor = by.arguments[0] if isinstance(by, Call) and by.function == "nullif" else by
            own, parts = [call("ne", (divisor, Literal(value=0.0, type=FLOAT64)))], list(expression.arguments)
        case Call(function="coalesce"):
            return there(expression.arguments[-1])
        case Call() if expression.function in RULES:
            own, parts = [], list(expression.arguments)
        case Cast():
            own, parts = [], [expression.argument]
        case _:
            return None
    for part in parts:
        found = there(part)
        if found is None:
            return None
        own += found
    return own


def without_needless_choices(expression: Expression) -> Expression:
    """Returns the expression with COALESCE of what is never NULL left out; itself if there is none."""
    if "coalesce" not in [part.function for part in parts_of(expression) if isinstance(part, Call)]:
        return expression
    made = rebuild(expression, tuple(without_needless_choices(part) for part in children(expression)))
    if isinstance(made, Call) and made.function == "coalesce" and there(made.arguments[0]) == []:
        return made.arguments[0]
    return expression if made == expression else made


def inside(expression: Expression) -> Expression:
    """Returns the number that a choice between it and constants shows, rounded or not, where it is there."""
    while True:
        match expression:
            case Call(function="coalesce" | "nullif" | "round", arguments=(value, *others)) if _are_constants(others):
                expression = value
            case Case(otherwise=Literal(value=None)) if len(expression.branches) == 1:
                return expression  # as AVG is
            case Case():
                arms = (*(arm for _, arm in expression.branches), expression.otherwise)
                values = [arm for arm in arms if not isinstance(arm, Literal)]
                if len(values) != 1:
                    return expression
                expression = values[0]
            case _:
                return expression


def _are_constants(expressions: Iterable[Expression]) -> bool:
    return all(isinstance(one, Literal) for one in expressions)


def _of_one(expression: Call, inputs: IntervalSource) -> Interval | None:
    rule, noisy = RULES[expression.function], [part for part in expression.arguments if not inputs.is_exact(part)]
    if len(noisy) != 1 or rule.interval is None or len(expression.arguments) not in (rule.arguments, rule.fewer):
        return None
    parts: list[Interval] = []
    for part in expression.arguments:
        if part is noisy[0]:
            parts.append(inputs.interval(part))
            continue
        values = inputs.exact(part)
        if values is None:
            return None
        parts.append(Interval(values, values))
    return rule.interval(*parts)


def _case(expression: Case, inputs: IntervalSource) -> Interval | None:
    arms = [arm for _, arm in expression.branches]
    values = [arm for arm in (*arms, expression.otherwise) if not _is_null(arm)]
    if len(values) > 1:
        return _chosen([([condition], arm) for condition, arm in expression.branches], expression.otherwise, inputs)
    if len(values) == 1 and len(arms) == 1 and values[0] is expression.otherwise:
        opposite = _opposite(expression.branches[0][0])
        return inputs.interval(Case(branches=((opposite, values[0]),), otherwise=arms[0], type=expression.type))
    return inputs.interval(values[0]) if len(values) == 1 and len(arms) > 1 else None


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def _opposite(condition: Expression) -> Expression:
    if isinstance(condition, Call) and condition.function in COMPARISONS:
        return call(COMPARISONS[condition.function], condition.arguments)
    return call("not", (condition,))


def _all(conditions: list[Expression] | None) -> list[Expression]:
    """One that is never decided stands for conditions that are not known."""
    return [Literal(value=None, type=BOOLEAN)] if conditions is None else conditions


def _chosen(
    branches: list[tuple[list[Expression], Expression]], otherwise: Expression, inputs: IntervalSource
) -> Interval:
    """Returns the interval of the first branch of which all conditions hold, else of the other value."""
    compared = {side for conditions, _ in branches for condition in conditions for side in _compared(condition, inputs)}
    own = inputs.shared(len(compared) + 1)
    lower, upper = np.full(inputs.rows, np.inf), np.full(inputs.rows, -np.inf)
    left = np.ones(inputs.rows, dtype=np.bool_)
    for conditions, arm in (*branches, ([], otherwise)):
        truths = [_truth(condition, own) for condition in conditions]
        always = np.logical_and.reduce([np.ones_like(left), *(truth.always for truth in truths)])
        never = np.logical_or.reduce([np.zeros_like(left), *(truth.never for truth in truths)])
        if not _is_null(arm):
            taken, may = own.interval(arm), left & ~never
            lower = np.where(may, np.minimum(lower, taken.lower), lower)
            upper = np.where(may, np.maximum(upper, taken.upper), upper)
        left = left & ~always
    some = lower <= upper
    return Interval(np.where(some, lower, np.nan), np.where(some, upper, np.nan))


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a condition holds without noise, and where it does not, as far as intervals say; each of shape (rows,)."""

    always: Bools
    never: Bools


def _compared(condition: Expression, inputs: IntervalSource) -> Iterator[Expression]:
    """Returns the noisy numbers that a condition compares."""
    if isinstance(condition, Call) and condition.function in COMPARISONS:
        yield from (side for side in condition.arguments if not inputs.is_exact(side))
    elif isinstance(condition, Call) and condition.function in ("and", "or", "not"):
        for part in condition.arguments:
            yield from _compared(part, inputs)


def _truth(condition: Expression, inputs: IntervalSource) -> _Truth:
    if inputs.is_exact(condition) and not _is_null(condition):
        holds = inputs.holds(condition)
        return _Truth(holds, ~holds)
    nothing = np.zeros(inputs.rows, dtype=np.bool_)
    if not isinstance(condition, Call):
        return _Truth(nothing, nothing)
    if condition.function in ("and", "or", "not"):
        parts = [_truth(part, inputs) for part in condition.arguments]
        every, some = np.logical_and.reduce, np.logical_or.reduce
        always, never = [part.always for part in parts], [part.never for part in parts]
        match condition.function:
            case "and":
                return _Truth(every(always), some(never))
            case "or":
                return _Truth(some(always), every(never))
            case _:
                return _Truth(never[0], always[0])
    if condition.function not in COMPARISONS or not all(side.type.is_numeric for side in condition.arguments):
        return _Truth(nothing, nothing)
    a, b = (inputs.interval(side) for side in condition.arguments)
    match condition.function:
        case "gt":
            return _Truth(a.lower > b.upper, a.upper <= b.lower)
        case "ge":
            return _Truth(a.lower >= b.upper, a.upper < b.lower)
        case "lt":
            return _Truth(a.upper < b.lower, a.lower >= b.upper)
        case "le":
            return _Truth(a.upper <= b.lower, a.lower > b.upper)
    apart = (a.lower > b.upper) | (a.upper < b.lower)
    return _Truth(nothing, apart) if condition.function == "eq" else _Truth(apart, nothing)
