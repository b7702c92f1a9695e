"""Arithmetic on measures: the few forms of which computed aggregates are made."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from dpquery.plan.expr import Case, Cast, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.functions.casts import EXACT
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, Kind, Type, decimal

COUNTED = decimal(19, 0)
"""The type of a count among decimals."""


def number(value: Fraction, type: Type) -> Literal:
    """Returns a constant: an integer or decimal where the type is one and holds it, else the nearest float."""
    if type.kind is Kind.DECIMAL and (value * 10**type.scale).denominator == 1:
        units = abs(int(value * 10**type.scale))
        of = decimal(max(len(str(units)), type.scale, 1), type.scale)
        return Literal(value=Decimal(int(value * 10**type.scale)).scaleb(-type.scale, EXACT), type=of)
    if type.kind is Kind.INT64 and value.denominator == 1:
        return Literal(value=int(value), type=INT64)
    return Literal(value=float(value), type=FLOAT64)


def without_number(value: Expression) -> Expression:
    """Returns the boolean that stands as 0 or 1, or the value itself: it is NULL where the value is."""
    as_integer = isinstance(value, Cast) and value.type == INT64 and value.argument.type == BOOLEAN
    return value.argument if isinstance(value, Cast) and as_integer else value


def unrounded(count: Expression) -> Expression:
    """Returns a number of rows as it is computed: one that is rounded to be shown, before that."""
    is_rounded = isinstance(count, Cast) and count.type == INT64 and count.argument.type == FLOAT64
    return count.argument if isinstance(count, Cast) and is_rounded else count


def less_one(count: Expression) -> Expression:
    """Returns a number of rows less 1."""
    given = unrounded(count)
    return call("subtract", (given, number(Fraction(1), given.type)))


def as_float(value: Expression) -> Expression:
    """Returns a number as a float."""
    return value if value.type == FLOAT64 else Cast(argument=value, type=FLOAT64)


def ratio(over: Expression, under: Expression) -> Expression:
    """Returns a quotient of floats; NULL for a divisor of zero."""
    return call("divide", (as_float(unrounded(over)), unrounded(under)))


def clamped(value: Expression, lower: Fraction, upper: Fraction) -> Expression:
    """Returns a float moved into [lower, upper], ends rounded outward."""
    ends = (Literal(value=_down(lower), type=FLOAT64), Literal(value=_up(upper), type=FLOAT64))
    return call("clamp", (value, *ends))


def where_more(count: Expression, least: int, value: Expression) -> Expression:
    """Returns the value where the count exceeds `least`, else NULL."""
    given = unrounded(count)
    enough = call("gt", (given, number(Fraction(least), given.type)))
    return Case(branches=((enough, value),), otherwise=Literal(value=None, type=value.type), type=value.type)


def around(centre: Fraction, deviations: Expression, count: Expression, type: Type) -> Expression:
    """Returns centre * count + sum of deviations as a number of this type, exact where 38 digits suffice."""
    middle = number(centre, deviations.type)
    if middle.type.kind is Kind.DECIMAL:
        count = Cast(argument=count, type=COUNTED)
    part: Expression = call("multiply", (count, middle))
    if part.type.kind is Kind.DECIMAL:
        part = Cast(argument=part, type=deviations.type)
    total = call("add", (part, deviations))
    return total if total.type == type else Cast(argument=total, type=type)


def _down(value: Fraction) -> float:
    rounded = float(value)
    return rounded if Fraction(rounded) <= value else math.nextafter(rounded, -math.inf)


def _up(value: Fraction) -> float:
    return -_down(-value)
