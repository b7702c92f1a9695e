"""Ranges of arithmetic: exact for integers and decimals, correctly rounded for floats."""

from __future__ import annotations

import math
from fractions import Fraction

from dpquery.plan.expr import Call, Cast, Expression
from dpquery.plan.functions.bounds import (
    MARGIN,
    Ends,
    any_nullable,
    corners,
    effective,
    fitted,
    high,
    low,
    over,
    rounded,
    span,
    times,
)
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, INT64, Kind


def sum_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on a sum."""
    a, b = ranges
    nullable = any_nullable(ranges)
    if call.type == FLOAT64:
        clash = (a.lower is None and b.upper is None) or (a.upper is None and b.lower is None)
        return rounded(low(a) + low(b), high(a) + high(b), nullable=nullable or clash)
    known = low(a) + low(b), high(a) + high(b)
    a, b = (effective(r, argument.type) for r, argument in zip(ranges, call.arguments, strict=True))
    return fitted(known, (low(a) + low(b), high(a) + high(b)), call.type, nullable=nullable)


def negative(r: Range) -> Range:
    """Returns the range of the negated values."""
    return span(-high(r), -low(r), nullable=r.nullable)


def difference_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on a difference."""
    a, b = ranges
    if call.type == FLOAT64:
        return sum_range((a, negative(b)), call)
    known = low(a) - high(b), high(a) - low(b)
    total = effective(a, call.arguments[0].type), effective(b, call.arguments[1].type)
    exact = low(total[0]) - high(total[1]), high(total[0]) - low(total[1])
    return fitted(known, exact, call.type, nullable=any_nullable(ranges))


def product_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on a product."""
    a, b = ranges
    known = corners(times, a, b)
    if call.type == FLOAT64:
        clash = (_unbounded(a) and _has_zero(b)) or (_unbounded(b) and _has_zero(a))
        return rounded(*known, nullable=any_nullable(ranges) or clash)
    a, b = (effective(r, argument.type) for r, argument in zip(ranges, call.arguments, strict=True))
    return fitted(known, corners(times, a, b), call.type, nullable=any_nullable(ranges))


def _unbounded(r: Range) -> bool:
    return not r.is_finite


def _has_zero(r: Range) -> bool:
    return low(r) <= 0 <= high(r)


def _parts(divisor: Range, smallest: Fraction | None) -> list[Range]:
    """Returns the divisors without zero, where none but zero is smaller than `smallest` in absolute value."""
    if not _has_zero(divisor):
        return [divisor]
    least = smallest or Fraction(0)
    parts = []
    if high(divisor) > 0 and least <= high(divisor):
        parts.append(span(least, high(divisor), nullable=False))
    if low(divisor) < 0 and low(divisor) <= -least:
        parts.append(span(low(divisor), -least, nullable=False))
    return parts


def _smallest(expression: Expression) -> Fraction | None:
    """Returns the least absolute value but zero, where the type (before a cast to float) has one."""
    of = expression.argument.type if isinstance(expression, Cast) else expression.type
    if of.kind not in (Kind.INT64, Kind.DECIMAL):
        return None
    return Fraction(1, 10**of.scale) * (1 - MARGIN if of.scale else 1)


def quotient_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on a quotient of floats."""
    a, b = ranges
    smallest = _smallest(call.arguments[1])
    nullable = any_nullable(ranges) or _has_zero(b) or (_unbounded(a) and _unbounded(b))
    parts = _parts(b, smallest)
    if not parts:
        return Range(nullable=True)
    if any(low(part) == 0 or high(part) == 0 for part in parts):
        positive = (low(a) >= 0 and low(b) >= 0) or (high(a) <= 0 and high(b) <= 0)
        return Range(lower=Fraction(0) if positive else None, nullable=nullable)
    ends = [end for part in parts for end in corners(over, a, part)]
    return rounded(min(ends), max(ends), nullable=nullable)


def int_quotient_range(ranges: tuple[Range, ...], call: Call) -> Range:
    known = _truncated_quotients(*ranges)
    total = _truncated_quotients(*(effective(r, INT64) for r in ranges))
    if known is None or total is None:
        return Range(nullable=True)
    return fitted(known, total, INT64, nullable=any_nullable(ranges) or _has_zero(ranges[1]))


def _truncated_quotients(a: Range, b: Range) -> Ends | None:
    ends = [end for part in _parts(b, Fraction(1)) for end in corners(over, a, part)]
    cut = [end if isinstance(end, float) else Fraction(math.trunc(end)) for end in ends]
    return (min(cut), max(cut)) if cut else None


def remainder_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on a remainder: below the divisor, not beyond the dividend."""
    a, b = ranges
    most = max(-low(b), high(b))
    if call.type != FLOAT64:
        most = max(most - Fraction(1, 10**call.type.scale), Fraction(0))
    lower = max(low(a), -most) if low(a) < 0 else Fraction(0)
    upper = min(high(a), most) if high(a) > 0 else Fraction(0)
    infinite = call.type == FLOAT64 and _unbounded(a)
    return span(lower, upper, nullable=any_nullable(ranges) or _has_zero(b) or infinite)


def negate_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on the negated number."""
    known = negative(ranges[0])
    total = negative(effective(ranges[0], call.type))
    return fitted((low(known), high(known)), (low(total), high(total)), call.type, nullable=known.nullable)


def abs_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds on the absolute value."""
    x = ranges[0]
    return fitted(_sizes(x), _sizes(effective(x, call.type)), call.type, nullable=x.nullable)


def _sizes(x: Range) -> Ends:
    return max(low(x), -high(x), Fraction(0)), max(-low(x), high(x))


def sign_range(ranges: tuple[Range, ...], _: Call) -> Range:
    """Bounds on the sign."""
    x = ranges[0]
    lower = 1 if low(x) > 0 else 0 if low(x) == 0 else -1
    upper = -1 if high(x) < 0 else 0 if high(x) == 0 else 1
    return span(Fraction(lower), Fraction(upper), nullable=x.nullable)
