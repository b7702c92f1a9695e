"""Arithmetic and logic over columns of numbers, all rows at once: values as of `plan/evaluate`, to the last digit.

Every value is a float: NULL is NaN, which is NULL in expressions too, a truth value is 1.0 or 0.0, and whole numbers
are exact as long as they are below 2^53. Only operations that have one correct result are known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.data.arrow import arrow_type
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, inner_first, parts_of
from dpquery.plan.types import Kind, Type

Values = NDArray[np.float64]
Known = dict[int, tuple[Expression, Values]]
"""The values of parts over the same rows, by identity; each part is kept, so that no other can have its own."""
WHOLE = 2.0**53
"""Integers of a smaller magnitude are floats without rounding, and so are their sums and products that are smaller."""
_KINDS = frozenset({Kind.BOOLEAN, Kind.INT64, Kind.FLOAT64})


def _compared(holds: Callable[[Values, Values], Any], a: Values, b: Values) -> Values:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, holds(a, b))


def _all(*truths: Values) -> Values:
    """AND of three truth values: false where one is, also beside NULL."""
    return np.where(reduce(np.fmin, truths) == 0, 0.0, reduce(np.minimum, truths))


def _any(*truths: Values) -> Values:
    """OR of three truth values: true where one is, also beside NULL."""
    return np.where(reduce(np.fmax, truths) == 1, 1.0, reduce(np.maximum, truths))


_OPERATIONS: dict[str, Callable[..., Values]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda a, b: np.divide(a, np.where(b == 0, np.nan, b)),
    "negate": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "clamp": lambda value, lower, upper: np.minimum(np.maximum(value, lower), upper),
    **{
        name: partial(_compared, holds)
        for name, holds in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
        }.items()
    },
    "and": _all,
    "or": _any,
    "not": lambda truth: 1.0 - truth,
    "is_null": lambda value: np.isnan(value).astype(np.float64),
    "is_not_null": lambda value: 1.0 - np.isnan(value),
    "coalesce": lambda *values: reduce(lambda a, b: np.where(np.isnan(a), b, a), values),
    "nullif": lambda a, b: np.where(a == b, np.nan, a),
}


def is_arithmetic(expressions: Iterable[Expression]) -> bool:
    """Whether expressions are arithmetic or logic on numbers, and nothing else."""
    return all(
        expression.type.kind in _KINDS and all(map(_is_known, parts_of(expression))) for expression in expressions
    )


def _is_known(part: Expression) -> bool:
    is_whole = part.type.kind is Kind.DECIMAL and part.type.scale == 0 and not isinstance(part, Column)
    return (is_whole or part.type.kind in _KINDS) and not (isinstance(part, Call) and part.function not in _OPERATIONS)


def values_of(expression: Expression, source: pa.Table, known: Known) -> Values | None:
    """Returns the values of an expression that `is_arithmetic`, shape (rows,); None where a whole number is too large.

    Args:
        source: The columns that it reads, by id.
        known: Gets the values of all parts: one that is read twice is evaluated once.
    """
    with np.errstate(all="ignore"):  # what is not defined is NULL
        for part in inner_first(expression):
            if id(part) in known:
                continue
            made = _values_of(part, source, known)
            if part.type.kind not in (Kind.FLOAT64, Kind.BOOLEAN) and np.any(np.abs(made) >= WHOLE):
                return None
            known[id(part)] = part, made + 0.0  # -0.0 is 0.0
    return np.broadcast_to(known[id(expression)][1], len(source))


def _values_of(part: Expression, source: pa.Table, known: Known) -> Values:
    """Returns the values of an expression whose parts are known."""
    match part:
        case Column():
            return np.asarray(source[part.id].cast(pa.float64(), safe=False), np.float64)
        case Literal():
            return np.asarray(np.nan if part.value is None else part.value, np.float64)
        case Cast(argument=argument, type=type):
            return _cast(known[id(argument)][1], type)
        case Case():
            found = known[id(part.otherwise)][1]
            for condition, result in reversed(part.branches):
                found = np.where(known[id(condition)][1] == 1, known[id(result)][1], found)
            return found
        case Call():
            return _OPERATIONS[part.function](*[known[id(one)][1] for one in part.arguments])


def _cast(values: Values, type: Type) -> Values:
    match type.kind:
        case Kind.BOOLEAN:
            return np.where(np.isnan(values), np.nan, values != 0)
        case Kind.FLOAT64:
            return values
        case _:  # whole numbers; what is not finite is none
            most = 10.0**type.precision if type.kind is Kind.DECIMAL else 2.0**63
            rounded = np.rint(values)
            return np.where(np.abs(rounded) < most, rounded, np.nan)


def as_column(values: Values, type: Type) -> pa.Array:
    """Returns values of an expression as a column of its type."""
    missing = np.isnan(values)
    filled = values if type.kind is Kind.FLOAT64 else np.where(missing, 0, values)
    plain = {Kind.FLOAT64: np.float64, Kind.INT64: np.int64, Kind.BOOLEAN: np.bool_}[type.kind]
    return pa.array(filled.astype(plain), arrow_type(type), mask=missing)


def is_number(type: pa.DataType) -> bool:
    """Whether values of a type are integers, floats or decimals."""
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))
