"""The scalar interpreter: what every expression means, in Python. The oracle that backends are compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
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


def evaluate_rows(
    expression: Expression, columns: Mapping[str, Sequence[Value]], rows: int, known: Known | None = None
) -> list[Value]:
    """Returns the values of an expression on so many rows, each as `evaluate` does; columns are given by id.

    Args:
        known: Gets the values of all parts: one that is read twice is evaluated once.
    """
    parts: Known = {} if known is None else known
    if id(expression) in parts:
        return parts[id(expression)][1]
    found: list[Value]
    match expression:
        case Column():
            found = [normal(value) if isinstance(value, float) else value for value in columns[expression.id]]
        case Literal():
            found = [normal(expression.value)] * rows
        case Cast(argument=argument, type=type):
            given = evaluate_rows(argument, columns, rows, parts)
            found = [cast_value(value, argument.type, type) for value in given]
        case Case():
            found = evaluate_rows(expression.otherwise, columns, rows, parts)
            for condition, result in reversed(expression.branches):
                holds, taken = (evaluate_rows(part, columns, rows, parts) for part in (condition, result))
                found = [new if is_met is True else old for is_met, new, old in zip(holds, taken, found, strict=True)]
        case Call():
            arguments = [evaluate_rows(argument, columns, rows, parts) for argument in expression.arguments]
            meaning = FUNCTIONS[expression.function].meaning
            found = [meaning(*values) for values in zip(*arguments, strict=True)] if arguments else [meaning()] * rows
        case _:
            assert_never(expression)
    parts[id(expression)] = expression, found
    return found
