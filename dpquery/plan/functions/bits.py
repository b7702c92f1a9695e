"""Bitwise operations on integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call
from dpquery.plan.functions.bounds import any_nullable, between, high, low
from dpquery.plan.functions.promotion import signature
from dpquery.plan.functions.table import Function
from dpquery.plan.ranges import Range
from dpquery.plan.types import INT64


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


def _bitwise(operation: Callable[[int, int], int]) -> Callable[[int | None, int | None], int | None]:
    return lambda a, b: None if a is None or b is None else operation(a, b)


BITS = tuple(
    Function(
        name=name,
        resolve=signature(INT64, INT64, result=INT64),
        range=_bits_range,
        meaning=_bitwise(operation),
        doc=f"Bitwise {word} of two integers; NULL if either is.",
    )
    for name, operation, word in (
        ("bit_and", operator.and_, "AND"),
        ("bit_or", operator.or_, "OR"),
        ("bit_xor", operator.xor, "XOR"),
    )
)
