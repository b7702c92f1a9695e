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


def evaluate_rows(expression: Expression, columns: Mapping[str, Sequence[Value]], rows: int) -> list[Value]:
    """Returns the values of an expression on so many rows, each as `evaluate` does; columns are given by id."""
    match expression:
        case Column():
            return [normal(value) if isinstance(value, float) else value for value in columns[expression.id]]
        case Literal():
            return [normal(expression.value)] * rows
        case Cast(argument=argument, type=type):
            return [cast_value(value, argument.type, type) for value in evaluate_rows(argument, columns, rows)]
        case Case():
            found = evaluate_rows(expression.otherwise, columns, rows)
            for condition, result in reversed(expression.branches):
                holds, taken = (evaluate_rows(part, columns, rows) for part in (condition, result))
                found = [new if is_met is True else old for is_met, new, old in zip(holds, taken, found, strict=True)]
            return found
        case Call():
            given = [evaluate_rows(argument, columns, rows) for argument in expression.arguments]
            meaning = FUNCTIONS[expression.function].meaning
            return [meaning(*values) for values in zip(*given, strict=True)] if given else [meaning()] * rows
        case _:
            assert_never(expression)
