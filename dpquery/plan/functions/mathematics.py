"""Roots, logarithms, powers and angles, all on floats; NULL outside their domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call
from dpquery.plan.functions.arithmetic import real
from dpquery.plan.functions.bounds import any_nullable, between, float_above, float_below, high, low, span, widened
from dpquery.plan.functions.promotion import signature
from dpquery.plan.functions.table import Function, RangeRule
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64

Real = float | None
PI = math.pi
OVER_PI = Fraction(31416, 10_000)
"""A little more than pi, for ranges."""


def _total(function: Callable[[float], float], *, above: float | None = None) -> Callable[[Real], Real]:
    """Returns the function with NULL up to and including `above` and outside its domain, and inf on overflow."""

    def meaning(x: Real) -> Real:
        if x is None or (above is not None and x <= above):
            return None
        try:
            return real(function(x))
        except OverflowError:
            return math.inf
        except ValueError:
            return None

    return meaning


def _sqrt(x: Real) -> Real:
    return None if x is None or x < 0 else real(math.sqrt(x))


def _power(a: Real, b: Real) -> Real:
    if a is None or b is None or (a == 0 and b < 0):
        return None
    try:
        return real(math.pow(a, b))
    except ValueError:
        return None
    except OverflowError:
        return -math.inf if a < 0 and math.fmod(b, 2) != 0 else math.inf


def _atan2(y: Real, x: Real) -> Real:
    return None if x is None or y is None else real(math.atan2(y + 0.0, x + 0.0))


def _rising(function: Callable[[float], float]) -> RangeRule:
    """The rule of an increasing function that is defined everywhere."""

    def rule(ranges: tuple[Range, ...], _: Call) -> Range:
        x = ranges[0]
        ends = [_safe(function, end) for end in (float_below(low(x)), float_above(high(x)))]
        return widened(ends[0], ends[1], nullable=x.nullable)

    return rule


def _safe(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _exp_range(ranges: tuple[Range, ...], call: Call) -> Range:
    found = _rising(math.exp)(ranges, call)
    return span(max(low(found), Fraction(0)), high(found), nullable=found.nullable)


def _log_range(function: Callable[[float], float]) -> RangeRule:
    def rule(ranges: tuple[Range, ...], _: Call) -> Range:
        x = ranges[0]
        if high(x) <= 0:
            return Range(nullable=True)
        lower = -math.inf if low(x) <= 0 else function(max(float_below(low(x)), math.ulp(0.0)))
        return widened(lower, function(float_above(high(x))), nullable=x.nullable or low(x) <= 0)

    return rule


def _sqrt_range(ranges: tuple[Range, ...], _: Call) -> Range:
    """Square roots are correctly rounded, and so monotone in floats."""
    x = ranges[0]
    if high(x) < 0:
        return Range(nullable=True)
    lower, upper = (math.sqrt(end) for end in (max(float_below(low(x)), 0.0), float_above(high(x))))
    return span(Fraction(lower), math.inf if math.isinf(upper) else Fraction(upper), nullable=x.nullable or low(x) < 0)


def _bounded(
    lower: Fraction | int,
    upper: Fraction | int,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    infinite: bool = False,
) -> RangeRule:
    """The rule of a function with values in [lower, upper], NULL outside [least, most], and at +-inf if `infinite`."""

    def rule(ranges: tuple[Range, ...], _: Call) -> Range:
        outside = any(low(r) < least or high(r) > most or (infinite and not r.is_finite) for r in ranges)
        return between(lower, upper, nullable=any_nullable(ranges) or outside)

    return rule


def _power_range(ranges: tuple[Range, ...], _: Call) -> Range:
    a, b = ranges
    nullable = any_nullable(ranges) or (low(a) <= 0 <= high(a) and low(b) < 0)
    if low(a) >= 0:
        if low(a) == 0 and low(b) < 0:
            return Range(lower=Fraction(0), nullable=True)
        return _positive_power(a, b, nullable=nullable)
    largest = span(Fraction(0), max(-low(a), high(a)), nullable=False)
    if low(b) < 0:
        return Range(nullable=True)
    size = high(_positive_power(largest, b, nullable=False))
    whole = b.lower is not None and b.lower == b.upper and b.lower.denominator == 1
    even = whole and b.lower is not None and b.lower % 2 == 0
    return span(Fraction(0) if even else -size, size, nullable=nullable or not whole)


def _positive_power(a: Range, b: Range, *, nullable: bool) -> Range:
    """Bounds for a base that is not negative: the power is monotone in each argument."""
    values = []
    for base in (max(float_below(low(a)), 0.0), float_above(high(a))):
        for exponent in (float_below(low(b)), float_above(high(b))):
            if base == 0 and exponent < 0:
                values.append(math.inf)
                continue
            value = _power(base, exponent)
            values += [0.0, math.inf] if value is None else [value]
    if low(a) <= 1 <= high(a):
        values.append(1.0)
    found = widened(min(values), max(values), nullable=nullable)
    return span(max(low(found), Fraction(0)), high(found), nullable=nullable)


def _function(name: str, meaning: Callable[..., Real], range: RangeRule, doc: str, *, arguments: int = 1) -> Function:
    return Function(
        name=name, resolve=signature(*(FLOAT64,) * arguments, result=FLOAT64), range=range, meaning=meaning, doc=doc
    )


def _scaled(factor: float) -> Callable[[float], float]:
    return lambda x: x * factor


_QUARTER, _HALF = OVER_PI / 2, OVER_PI
MATHEMATICS = (
    _function("sqrt", _sqrt, _sqrt_range, "The square root; NULL for negative numbers."),
    _function("cbrt", _total(math.cbrt), _rising(math.cbrt), "The cube root; NULL if the number is."),
    _function("exp", _total(math.exp), _exp_range, "The exponential function; NULL if the number is."),
    _function("ln", _total(math.log, above=0.0), _log_range(math.log), "The natural logarithm; NULL up to 0."),
    _function("log10", _total(math.log10, above=0.0), _log_range(math.log10), "The decimal logarithm; NULL up to 0."),
    _function("log2", _total(math.log2, above=0.0), _log_range(math.log2), "The binary logarithm; NULL up to 0."),
    _function(
        "power", _power, _power_range, "The power; NULL for 0 to a negative and a negative to a fraction.", arguments=2
    ),
    _function("sin", _total(math.sin), _bounded(-1, 1, infinite=True), "The sine; NULL for infinities."),
    _function("cos", _total(math.cos), _bounded(-1, 1, infinite=True), "The cosine; NULL for infinities."),
    _function(
        "asin",
        _total(math.asin),
        _bounded(-_QUARTER, _QUARTER, least=-1, most=1),
        "The inverse sine; NULL outside [-1, 1].",
    ),
    _function(
        "acos", _total(math.acos), _bounded(0, _HALF, least=-1, most=1), "The inverse cosine; NULL outside [-1, 1]."
    ),
    _function("atan", _total(math.atan), _bounded(-_QUARTER, _QUARTER), "The inverse tangent; NULL if the number is."),
    _function("atan2", _atan2, _bounded(-_HALF, _HALF), "The angle of the point (x, y), given as (y, x).", arguments=2),
    _function("radians", _total(_scaled(PI / 180)), _rising(_scaled(PI / 180)), "Degrees as radians."),
    _function("degrees", _total(_scaled(180 / PI)), _rising(_scaled(180 / PI)), "Radians as degrees."),
    Function(
        name="pi",
        resolve=lambda types, _: ((), FLOAT64) if not types else None,
        range=lambda _, __: between(Fraction(PI), Fraction(PI), nullable=False),
        meaning=lambda: PI,
        doc="The float nearest to pi; never NULL.",
    ),
)
