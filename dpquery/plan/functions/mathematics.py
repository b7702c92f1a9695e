"""Roots, logarithms, powers and angles, all on floats; NULL outside their domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call
from dpquery.plan.functions.arithmetic import real
from dpquery.plan.functions.bounds import any_nullable, between, float_above, float_below, high, low, span, widened
from dpquery.plan.functions.promotion import signature
from dpquery.plan.functions.table import RangeRule, function
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64

Real = float | None
PI = math.pi
OVER_PI = Fraction(31416, 10_000)
"""A little more than pi, for ranges."""


def _total(function: Callable[..., float]) -> Callable[..., Real]:
    """Returns the function with NULL outside its domain, and inf on overflow."""

    def meaning(*values: float) -> Real:
        try:
            return real(function(*values))
        except OverflowError:
            return math.inf
        except ValueError:
            return None

    return meaning


def _power(a: float, b: float) -> Real:
    if a == 0 and b < 0:
        return None
    try:
        return real(math.pow(a, b))
    except ValueError:
        return None
    except OverflowError:
        return -math.inf if a < 0 and math.fmod(b, 2) != 0 else math.inf


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


def _real(
    name: str,
    meaning: Callable[[float], float],
    rule: RangeRule,
    doc: str,
    *,
    domain: str = "",
    sql: str | None = None,
    parsed: str | None = None,
    engine: str | None = None,
) -> None:
    """A function of one float."""
    row = function(_ONE, rule, name=name, sql=sql, parsed=parsed, engine=engine, domain=domain, doc=doc)
    row(_total(meaning))


_ONE, _TWO = signature(FLOAT64, result=FLOAT64), signature(FLOAT64, FLOAT64, result=FLOAT64)
_QUARTER, _HALF = OVER_PI / 2, OVER_PI
_ANGLE, _INVERSE, _POSITIVE = "isfinite({0})", "{0} BETWEEN -1 AND 1", "{0} > 0"
_WAVE = _bounded(-1, 1, infinite=True)
_ARC = _bounded(-_QUARTER, _QUARTER, least=-1, most=1)
_ARC_COSINE = _bounded(0, _HALF, least=-1, most=1)

_real("sqrt", math.sqrt, _sqrt_range, "The square root; NULL for negative numbers.", domain="{0} >= 0")
_real("cbrt", math.cbrt, _rising(math.cbrt), "The cube root; NULL if the number is.")
_real("exp", math.exp, _exp_range, "The exponential function; NULL if the number is.")
_real("ln", math.log, _log_range(math.log), "The natural logarithm; NULL up to 0.", domain=_POSITIVE)
_real(
    "log10",
    math.log10,
    _log_range(math.log10),
    "The decimal logarithm; NULL up to 0.",
    domain=_POSITIVE,
    sql="LOG(a)",
    parsed="",
)
_real(
    "log2",
    math.log2,
    _log_range(math.log2),
    "The binary logarithm; NULL up to 0.",
    domain=_POSITIVE,
    sql="LOG(2, a)",
    parsed="",
)


@function(_TWO, _power_range, sql="POWER(a, b)", parsed="Pow", engine="")
def power(a: float, b: float) -> Real:
    """The power; NULL for 0 to a negative and a negative to a fraction."""
    return _power(a, b)


_real("sin", math.sin, _WAVE, "The sine; NULL for infinities.", domain=_ANGLE)
_real("cos", math.cos, _WAVE, "The cosine; NULL for infinities.", domain=_ANGLE)
_real("asin", math.asin, _ARC, "The inverse sine; NULL outside [-1, 1].", domain=_INVERSE)
_real("acos", math.acos, _ARC_COSINE, "The inverse cosine; NULL outside [-1, 1].", domain=_INVERSE)
_real("atan", math.atan, _bounded(-_QUARTER, _QUARTER), "The inverse tangent; NULL if the number is.")


@function(_TWO, _bounded(-_HALF, _HALF), sql="ATAN2(a, b)", engine="atan2({0} + 0.0::DOUBLE, {1} + 0.0::DOUBLE)")
def atan2(y: float, x: float) -> Real:
    """The angle of the point (x, y), given as (y, x)."""
    return real(math.atan2(y + 0.0, x + 0.0))


def _turned(name: str, factor: float, doc: str) -> None:
    def scaled(x: float) -> float:
        return x * factor

    _real(name, scaled, _rising(scaled), doc, engine=f"({{0}} * CAST('{factor!r}' AS DOUBLE))")


_turned("radians", PI / 180, "Degrees as radians.")
_turned("degrees", 180 / PI, "Radians as degrees.")


@function(
    signature(result=FLOAT64),
    lambda _, __: between(Fraction(PI), Fraction(PI), nullable=False),
    sql="PI()",
    engine=f"CAST('{PI!r}' AS DOUBLE)",
)
def pi() -> float:
    """The float nearest to pi; never NULL."""
    return PI
