"""The scalar interpreter: what every expression means, in Python. The oracle that backends are compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, inner_first
from dpquery.plan.functions import FUNCTIONS, cast_value
from dpquery.plan.types import Value


def evaluate(expression: Expression, row: Mapping[str, Value]) -> Value:
    """Returns the value of an expression on one row, given by column id. Never raises on any value."""
    match expression:
        case Column():
            return normal(row[expression.id])
        case Literal():
            return normal(expression.value)
        case Cast():
            return cast_value(evaluate(expression.argument, row), expression.argument.type, expression.type)
        case Case():
            for condition, result in expression.branches:
                if evaluate(condition, row) is True:
                    return evaluate(result, row)
            return evaluate(expression.otherwise, row)
        case Call():
            values = [evaluate(argument, row) for argument in expression.arguments]
            found: Value = FUNCTIONS[expression.function].meaning(*values)
            return found
        case _:
            assert_never(expression)


def normal(value: Value) -> Value:
    """Returns a value as expressions know it: NaN is NULL and -0.0 is 0.0."""
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


Known = dict[int, tuple[Expression, list[Value]]]
"""The values of parts over the same rows, by identity; each part is kept, so that no other can have its own."""


def evaluate_rows(expression: Expression, columns: Mapping[str, Sequence[Value]], rows: int) -> list[Value]:
    """Returns the values of an expression on so many rows, each as `evaluate` does; columns are given by id."""
    parts: Known = {}
    for part in inner_first(expression):
        if id(part) not in parts:
            parts[id(part)] = part, _values_of(part, columns, rows, parts)
    return parts[id(expression)][1]


def _values_of(part: Expression, columns: Mapping[str, Sequence[Value]], rows: int, known: Known) -> list[Value]:
    """Returns the values of an expression whose parts are evaluated."""
    match part:
        case Column():
            return [normal(value) if isinstance(value, float) else value for value in columns[part.id]]
        case Literal():
            return [normal(part.value)] * rows
        case Cast(argument=argument, type=type):
            return [cast_value(value, argument.type, type) for value in known[id(argument)][1]]
        case Case():
            found = known[id(part.otherwise)][1]
            for condition, result in reversed(part.branches):
                holds, taken = known[id(condition)][1], known[id(result)][1]
                found = [new if is_met is True else old for is_met, new, old in zip(holds, taken, found, strict=True)]
            return found
        case Call():
            arguments, meaning = [known[id(one)][1] for one in part.arguments], FUNCTIONS[part.function].meaning
            return [meaning(*values) for values in zip(*arguments, strict=True)] if arguments else [meaning()] * rows
        case _:
            assert_never(part)
