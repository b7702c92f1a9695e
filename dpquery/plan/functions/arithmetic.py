"""Arithmetic: integers and decimals exact and NULL beyond their type, floats as IEEE 754 with NaN as NULL.

Integers and decimals give decimals where 38 digits suffice, else floats. Dates move by whole days.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dpquery.plan.functions.arithmetic_ranges import (
    abs_range,
    difference_range,
    int_quotient_range,
    negate_range,
    product_range,
    quotient_range,
    remainder_range,
    sign_range,
    sum_range,
)
from dpquery.plan.functions.bounds import INT64_MAX, INT64_MIN
from dpquery.plan.functions.casts import EXACT
from dpquery.plan.functions.promotion import Expressions, Types, decimals_of, joined_decimal, untyped
from dpquery.plan.functions.table import Function, Signature
from dpquery.plan.types import DATE, FLOAT64, INT64, Type, decimal


def whole(value: int) -> int | None:
    """Returns an integer, or None beyond 64 bits."""
    return value if INT64_MIN <= value <= INT64_MAX else None


def real(value: float) -> float | None:
    """Returns a float, or None for NaN; -0.0 becomes 0.0."""
    return None if math.isnan(value) else value + 0.0


def shifted(day: datetime.date, days: int) -> datetime.date | None:
    """Returns the day so many days later, or None outside the years 1 to 9999."""
    try:
        return day + datetime.timedelta(days=days)
    except OverflowError:
        return None


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if isinstance(a, datetime.date):
        return shifted(a, b)
    if isinstance(a, Decimal):
        return EXACT.add(a, b)
    return whole(a + b) if isinstance(a, int) else real(a + b)


def _subtract(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if isinstance(a, datetime.date):
        return (a - b).days if isinstance(b, datetime.date) else shifted(a, -b)
    if isinstance(a, Decimal):
        return EXACT.subtract(a, b)
    return whole(a - b) if isinstance(a, int) else real(a - b)


def _multiply(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if isinstance(a, Decimal):
        return EXACT.multiply(a, b)
    return whole(a * b) if isinstance(a, int) else real(a * b)


def _divide(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else real(a / b)


def _int_divide(a: int | None, b: int | None) -> int | None:
    if a is None or not b:
        return None
    return whole(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _modulo(a: Any, b: Any) -> Any:
    if a is None or not b:
        return None
    if isinstance(a, Decimal):
        return EXACT.remainder(a, b)
    if isinstance(a, int):
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return None if math.isinf(a) else real(math.fmod(a, b))


def _negate(x: Any) -> Any:
    return None if x is None else _subtract(type(x)(0), x)


def _abs(x: Any) -> Any:
    return x if x is None or x >= 0 else _negate(x)


def _unary(types: Types, expressions: Expressions) -> Signature | None:
    types = untyped(types, expressions, INT64)
    return (types, types[0]) if len(types) == 1 and types[0].is_numeric else None


def _sign_resolve(types: Types, expressions: Expressions) -> Signature | None:
    unary = _unary(types, expressions)
    return unary and (unary[0], INT64)


def _numeric(
    types: Types, expressions: Expressions, in_decimal: Callable[[list[Type]], Signature | None]
) -> Signature | None:
    """Types of a binary operation: integers stay, decimals where `in_decimal` finds room, else floats."""
    if len(types) != 2:
        return None
    types = untyped(types, expressions, next((t for t in types if t.is_numeric), INT64))
    if not all(t.is_numeric for t in types):
        return None
    if types == (INT64, INT64):
        return types, INT64
    decimals = decimals_of(types, expressions)
    return (in_decimal(decimals) if decimals else None) or ((FLOAT64, FLOAT64), FLOAT64)


def _in_sum(types: list[Type]) -> Signature | None:
    result = joined_decimal(types, room=1)
    return ((result, result), result) if result else None


def _in_product(types: list[Type]) -> Signature | None:
    precision, scale = (sum(t.precision for t in types), sum(t.scale for t in types))
    return (tuple(types), decimal(precision, scale)) if precision <= 38 else None


def _in_remainder(types: list[Type]) -> Signature | None:
    result = joined_decimal(types, room=0)
    return ((result, result), result) if result else None


def _add_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if types == (DATE, INT64):
        return types, DATE
    return _numeric(types, expressions, _in_sum)


def _subtract_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if types == (DATE, INT64):
        return types, DATE
    return (types, INT64) if types == (DATE, DATE) else _numeric(types, expressions, _in_sum)


def _integers(types: Types, expressions: Expressions) -> Signature | None:
    return ((INT64, INT64), INT64) if untyped(types, expressions, INT64) == (INT64, INT64) else None


def _divide_resolve(types: Types, expressions: Expressions) -> Signature | None:
    found = _numeric(types, expressions, _in_sum)
    return ((FLOAT64, FLOAT64), FLOAT64) if found else None


ARITHMETIC = (
    Function(
        name="add",
        resolve=_add_resolve,
        range=sum_range,
        meaning=_add,
        doc="The sum, or the date so many days later; NULL on overflow and for inf + -inf.",
    ),
    Function(
        name="subtract",
        resolve=_subtract_resolve,
        range=difference_range,
        meaning=_subtract,
        doc="The difference, the days between dates, or an earlier date; NULL on overflow and for inf - inf.",
    ),
    Function(
        name="multiply",
        resolve=lambda t, e: _numeric(t, e, _in_product),
        range=product_range,
        meaning=_multiply,
        doc="The product; NULL on overflow of integers and for 0 * inf.",
    ),
    Function(
        name="divide",
        resolve=_divide_resolve,
        range=quotient_range,
        meaning=_divide,
        doc="The quotient as a float; NULL for a zero divisor and for inf / inf.",
    ),
    Function(
        name="int_divide",
        resolve=_integers,
        range=int_quotient_range,
        meaning=_int_divide,
        doc="The quotient of integers without its fraction; NULL for a zero divisor and on overflow.",
    ),
    Function(
        name="modulo",
        resolve=lambda t, e: _numeric(t, e, _in_remainder),
        range=remainder_range,
        meaning=_modulo,
        doc="The remainder, with the dividend's sign; NULL for a zero divisor.",
    ),
    Function(
        name="negate",
        resolve=_unary,
        range=negate_range,
        meaning=_negate,
        doc="The number with the other sign; NULL for the least integer.",
    ),
    Function(
        name="abs", resolve=_unary, range=abs_range, meaning=_abs, doc="The absolute value; NULL for the least integer."
    ),
    Function(
        name="sign",
        resolve=_sign_resolve,
        range=sign_range,
        meaning=lambda x: None if x is None else int(x > 0) - int(x < 0),
        doc="-1, 0 or 1 as an integer; NULL if the number is.",
    ),
)
