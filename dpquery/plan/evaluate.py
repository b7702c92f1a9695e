"""The scalar interpreter: what every expression means, in Python. The oracle that backends are compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
