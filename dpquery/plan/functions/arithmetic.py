"""Arithmetic and bits: integers and decimals exact and NULL beyond their type, floats as IEEE 754 with NaN as NULL.

Integers and decimals give decimals where 38 digits suffice, else floats. Dates move by whole days.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpquery.plan.expr import Call
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
from dpquery.plan.functions.bounds import INT64_MAX, INT64_MIN, any_nullable, between, high, low
from dpquery.plan.functions.casts import EXACT
from dpquery.plan.functions.promotion import Expressions, Types, decimals_of, joined_decimal, signature, untyped
from dpquery.plan.functions.table import Signature, function
from dpquery.plan.ranges import Range
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


def _unary(types: Types, expressions: Expressions) -> Signature | None:
    types = untyped(types, expressions, INT64)
    return (types, types[0]) if len(types) == 1 and types[0].is_numeric else None


def _sign_resolve(types: Types, expressions: Expressions) -> Signature | None:
    unary = _unary(types, expressions)
    return unary and (unary[0], INT64)


_PLAIN = (INT64, INT64), (FLOAT64, FLOAT64)


def _numeric(
    types: Types, expressions: Expressions, in_decimal: Callable[[list[Type]], Signature | None]
) -> Signature | None:
    """Types of a binary operation: integers stay, decimals where `in_decimal` finds room, else floats."""
    if types in _PLAIN:
        return types, types[0]
    if len(types) != 2:
        return None
    types = untyped(types, expressions, next((t for t in types if t.is_numeric), INT64))
    if not all(t.is_numeric for t in types):
        return None
    if types == _PLAIN[0]:
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


def _divide_resolve(types: Types, expressions: Expressions) -> Signature | None:
    found = _numeric(types, expressions, _in_sum)
    return ((FLOAT64, FLOAT64), FLOAT64) if found else None


_INTEGERS = signature(INT64, INT64, result=INT64)


def _subtracted(a: Any, b: Any) -> Any:
    if isinstance(a, datetime.date):
        return (a - b).days if isinstance(b, datetime.date) else shifted(a, -b)
    if isinstance(a, Decimal):
        return EXACT.subtract(a, b)
    return whole(a - b) if isinstance(a, int) else real(a - b)


@function(_add_resolve, sum_range, sql="a + b", parsed="", engine="")
def add(a: Any, b: Any) -> Any:
    """The sum, or the date so many days later; NULL on overflow and for inf + -inf."""
    if isinstance(a, datetime.date):
        return shifted(a, b)
    if isinstance(a, Decimal):
        return EXACT.add(a, b)
    return whole(a + b) if isinstance(a, int) else real(a + b)


@function(_subtract_resolve, difference_range, sql="a - b", parsed="", engine="")
def subtract(a: Any, b: Any) -> Any:
    """The difference, the days between dates, or an earlier date; NULL on overflow and for inf - inf."""
    return _subtracted(a, b)


@function(lambda t, e: _numeric(t, e, _in_product), product_range, sql="a * b", parsed="Mul", engine="")
def multiply(a: Any, b: Any) -> Any:
    """The product; NULL on overflow of integers and for 0 * inf."""
    if isinstance(a, Decimal):
        return EXACT.multiply(a, b)
    return whole(a * b) if isinstance(a, int) else real(a * b)


@function(_divide_resolve, quotient_range, sql="a / b", parsed="SafeDivide", engine="")
def divide(a: float, b: float) -> float | None:
    """The quotient as a float; NULL for a zero divisor and for inf / inf."""
    return real(a / b) if b else None


@function(_INTEGERS, int_quotient_range, sql="a / b of two integers", parsed="IntDiv", engine="")
def int_divide(a: int, b: int) -> int | None:
    """The quotient of integers without its fraction; NULL for a zero divisor and on overflow."""
    return whole(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else None


@function(lambda t, e: _numeric(t, e, _in_remainder), remainder_range, sql="a % b", parsed="Mod", engine="")
def modulo(a: Any, b: Any) -> Any:
    """The remainder, with the dividend's sign; NULL for a zero divisor."""
    if not b:
        return None
    if isinstance(a, Decimal):
        return EXACT.remainder(a, b)
    if isinstance(a, int):
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return None if math.isinf(a) else real(math.fmod(a, b))


@function(_unary, negate_range, sql="-a", parsed="Neg", engine="")
def negate(x: Any) -> Any:
    """The number with the other sign; NULL for the least integer."""
    return _subtracted(type(x)(0), x)


@function(_unary, abs_range, engine="")
def abs_(x: Any) -> Any:
    """The absolute value; NULL for the least integer."""
    return x if x >= 0 else _subtracted(type(x)(0), x)


@function(_sign_resolve, sign_range, engine="CAST(sign({0}) AS BIGINT)")
def sign(x: Any) -> int:
    """-1, 0 or 1 as an integer; NULL if the number is."""
    return int(x > 0) - int(x < 0)


def _bits_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds for numbers that are not negative: AND is at most the lesser, OR and XOR use no higher bit."""
    a, b = ranges
    nullable = any_nullable(ranges)
    if call.function == "bit_and" and max(low(a), low(b)) >= 0:
        tops = [high(r) for r in ranges if low(r) >= 0]
        top = min(tops)
        return Range(lower=Fraction(0), upper=None if isinstance(top, float) else top, nullable=nullable)
    if min(low(a), low(b)) >= 0 and a.upper is not None and b.upper is not None:
        return between(0, (1 << int(max(a.upper, b.upper)).bit_length()) - 1, nullable=nullable)
    return Range(nullable=nullable)


@function(_INTEGERS, _bits_range, sql="a & b", parsed="BitwiseAnd", engine="({0} & {1})")
def bit_and(a: int, b: int) -> int:
    """Bitwise AND of two integers; NULL if either is."""
    return a & b


@function(_INTEGERS, _bits_range, sql="a | b", parsed="BitwiseOr", engine="({0} | {1})")
def bit_or(a: int, b: int) -> int:
    """Bitwise OR of two integers; NULL if either is."""
    return a | b


@function(_INTEGERS, _bits_range, sql="a # b", parsed="BitwiseXor bit_xor/2 xor/2", engine="xor({0}, {1})")
def bit_xor(a: int, b: int) -> int:
    """Bitwise XOR of two integers; NULL if either is."""
    return a ^ b
