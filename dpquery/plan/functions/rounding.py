"""Rounding, and the number of a bucket. Floats round half to even, decimals half away from zero, as in PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from dpquery.plan.expr import Call, Literal
from dpquery.plan.functions.arithmetic import real
from dpquery.plan.functions.bounds import End, between, high, low, rounded, span
from dpquery.plan.functions.casts import EXACT, cast_value
from dpquery.plan.functions.promotion import Expressions, Types, untyped
from dpquery.plan.functions.table import Signature, SignatureError, constant, function, integer_literal
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, INT64, Kind, Type, decimal

INTEGRAL = 2.0**52
"""Floats from here on are integers, and rounding to places after the point changes nothing."""
DIGITS = 15
BUCKETS = 10_000


def _to_whole(types: Types, expressions: Expressions) -> Signature | None:
    types = untyped(types, expressions, INT64)
    if len(types) != 1 or not types[0].is_numeric:
        return None
    return types, _rounded_type(types[0], 0)


def _rounded_type(of: Type, digits: int) -> Type:
    if of.kind is not Kind.DECIMAL or of.scale <= digits:
        return of
    return decimal(of.precision - of.scale + digits + 1, digits)


def _round_resolve(types: Types, expressions: Expressions) -> Signature | None:
    types = untyped(types[:1], expressions[:1], INT64) + types[1:]
    if not 1 <= len(types) <= 2 or not types[0].is_numeric:
        return None
    digits = 0
    if len(types) == 2:
        least = -DIGITS if types[0] == FLOAT64 else 0
        digits = integer_literal(expressions[1], "the number of digits of ROUND", least, DIGITS)
    return types, _rounded_type(types[0], digits)


def digits_of(call: Call) -> int:
    """Returns to how many places after the point a call of `round` rounds."""
    return int(constant(call, 1)) if len(call.arguments) > 1 else 0


def _monotone(function: Callable[[Fraction], int]) -> Callable[[tuple[Range, ...], Call], Range]:
    def rule(ranges: tuple[Range, ...], _: Call) -> Range:
        x = ranges[0]
        lower, upper = (e if isinstance(e, float) else Fraction(function(e)) for e in (low(x), high(x)))
        return span(lower, upper, nullable=x.nullable)

    return rule


def _round_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Each step is monotone, so the rounded ends bound the rounded values; large floats stay as they are."""
    x, digits, nullable = ranges[0], digits_of(call), ranges[0].nullable
    of = call.arguments[0].type
    if of != FLOAT64:
        ends = [_half_away(e, min(digits, of.scale)) for e in (low(x), high(x))]
        return span(ends[0], ends[1], nullable=nullable)
    lower, upper = (_half_even(e, digits) for e in (low(x), high(x)))
    return rounded(
        min(lower, low(x)) if digits >= 0 else lower, max(upper, high(x)) if digits >= 0 else upper, nullable=nullable
    )


def _half_away(end: End, digits: int) -> End:
    if isinstance(end, float):
        return end
    steps = math.floor(abs(end) * 10**digits + Fraction(1, 2))
    return Fraction(steps, 10**digits) * (1 if end >= 0 else -1)


def _half_even(end: End, digits: int) -> End:
    if isinstance(end, float):
        return end
    scaled = rounded(end * Fraction(10) ** digits, end * Fraction(10) ** digits, nullable=False).lower
    return end if scaled is None else Fraction(round(scaled)) / Fraction(10) ** digits


def _bucket_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if len(types) != 4 or not untyped(types, expressions, INT64)[0].is_numeric:
        return None
    ends = [
        cast_value(e.value, e.type, FLOAT64) if isinstance(e, Literal) and e.type.is_numeric else None
        for e in expressions[1:3]
    ]
    lower, upper = ends
    if not isinstance(lower, float) or not isinstance(upper, float):
        raise SignatureError("the bounds of WIDTH_BUCKET must be numeric constants")
    if not lower < upper or math.isinf(upper - lower):
        raise SignatureError("the bounds of WIDTH_BUCKET must be finite and ascend")
    integer_literal(expressions[3], "the number of buckets", 1, BUCKETS)
    return (FLOAT64, FLOAT64, FLOAT64, INT64), INT64


def _bucket_range(ranges: tuple[Range, ...], call: Call) -> Range:
    x, count = ranges[0], constant(call, 3)
    first = 0 if low(x) < low(ranges[1]) else 1
    last = count + 1 if high(x) >= high(ranges[2]) else count
    return between(first, last, nullable=x.nullable)


def _step(name: str, step: Callable[[Any], int], doc: str) -> None:
    def meaning(x: Any) -> Any:
        return x if isinstance(x, int) or (isinstance(x, float) and math.isinf(x)) else type(x)(step(x))

    function(_to_whole, _monotone(step), name=name, engine="", doc=doc)(meaning)


_step("floor", math.floor, "The greatest whole number that is not above; NULL if the number is.")
_step("ceil", math.ceil, "The least whole number that is not below; NULL if the number is.")
_step("trunc", math.trunc, "The number without its fraction; NULL if it is.")


@function(_round_resolve, _round_range, sql="ROUND(a, 2)", parsed="Round(this,decimals?)", engine="")
def round_(x: Any, digits: int = 0) -> Any:
    """The number rounded to a constant number of places; NULL if it is."""
    if isinstance(x, int):
        return x
    if isinstance(x, Decimal):
        places = -int(x.as_tuple().exponent)
        return x if places <= digits else x.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)
    if digits >= 0:
        return x if abs(x) >= INTEGRAL else real(round(x * 10.0**digits) / 10.0**digits)
    return x if math.isinf(x) else real(round(x / 10.0**-digits) * 10.0**-digits)


@function(
    _bucket_resolve,
    _bucket_range,
    sql="WIDTH_BUCKET(a, 0, 10, 5)",
    parsed="WidthBucket(this,min_value,max_value,num_buckets)",
    engine="",
)
def width_bucket(x: float, lower: float, upper: float, count: int) -> int:
    """The number from 0 to n + 1 of the one of n equal buckets of [lower, upper); NULL if the number is."""
    if x < lower or x >= upper:
        return 0 if x < lower else count + 1
    return min(count, math.floor((x - lower) / (upper - lower) * count) + 1)
