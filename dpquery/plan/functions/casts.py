"""Casts: which exist, what they give, in which range.

A cast is NULL where the value does not fit. Floats become integers by rounding half to even, decimals by rounding
half away from zero, as in PostgreSQL. Text is read in one syntax each, without spaces, on every backend.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from dpquery.errors import Span
from dpquery.plan.expr import Cast, Expression, Literal
from dpquery.plan.functions.bounds import (
    DAY,
    INT64_MAX,
    INT64_MIN,
    MARGIN,
    End,
    domain,
    effective,
    fitted,
    high,
    low,
    rounded,
)
from dpquery.plan.functions.table import SignatureError
from dpquery.plan.ranges import Range
from dpquery.plan.types import Kind, Type, Value

EXACT = Context(prec=200)
"""Decimal arithmetic that never rounds what decimals of 38 digits can give."""

_DATE = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
SYNTAX: dict[Kind, str] = {
    Kind.BOOLEAN: r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[tTfF]",
    Kind.INT64: r"[+-]?[0-9]{1,100}",
    Kind.DECIMAL: r"[+-]?[0-9]{1,100}(?:[.][0-9]{1,100})?",
    Kind.FLOAT64: r"[+-]?[0-9]{1,100}(?:[.][0-9]{1,100})?(?:[eE][+-]?[0-9]{1,4})?",
    Kind.DATE: _DATE,
    Kind.TIMESTAMP: _DATE + r"(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?)?",
}
"""What a text must be, from end to end, to be read as a type. RE2 and Python read these patterns alike."""
_COMPILED = {kind: re.compile(pattern) for kind, pattern in SYNTAX.items()}

_NUMBERS = (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)
_TARGETS: dict[Kind, tuple[Kind, ...]] = {
    Kind.BOOLEAN: (Kind.INT64, Kind.TEXT),
    Kind.INT64: (*_NUMBERS, Kind.BOOLEAN, Kind.TEXT, Kind.INTERVAL),
    Kind.FLOAT64: _NUMBERS,
    Kind.DECIMAL: (*_NUMBERS, Kind.TEXT),
    Kind.TEXT: tuple(SYNTAX),
    Kind.DATE: (Kind.TIMESTAMP, Kind.TEXT),
    Kind.TIMESTAMP: (Kind.DATE, Kind.TEXT),
    Kind.INTERVAL: (Kind.INT64,),
}


def castable(source: Type, target: Type) -> bool:
    """Whether the cast exists. Floats have no portable text; decimals that are all fraction have none either.

    An interval is cast from and to its microseconds only.
    """
    unprintable = source.kind is Kind.DECIMAL and source.scale == 38 and target.kind is Kind.TEXT
    return source == target or (target.kind in _TARGETS[source.kind] and not unprintable)


def cast(argument: Expression, to: Type, span: Span | None = None) -> Expression:
    """Returns the argument as an expression of type `to`: itself, a retyped NULL, or a cast.

    Raises:
        SignatureError: There is no such cast.
    """
    if argument.type == to:
        return argument
    if isinstance(argument, Literal) and argument.value is None:
        return Literal(value=None, type=to, span=span or argument.span)
    if not castable(argument.type, to):
        raise SignatureError(f"{argument.type} cannot be cast to {to}")
    return Cast(argument=argument, type=to, span=span or argument.span)


def cast_value(value: Value, source: Type, target: Type) -> Value:
    """Returns the value read as another type, or None where it does not fit."""
    if value is None or source == target:
        return value
    if isinstance(value, str) and not _COMPILED[target.kind].fullmatch(value):
        return None
    match target.kind:
        case Kind.BOOLEAN:
            return value[0] in "tT" if isinstance(value, str) else value != 0
        case Kind.INT64 | Kind.INTERVAL:
            return _integer(value)
        case Kind.FLOAT64:
            return float(value) + 0.0 if isinstance(value, int | float | str | Decimal) else None
        case Kind.DECIMAL:
            return _decimal(value, target)
        case Kind.TEXT:
            return _text(value, source)
        case Kind.DATE:
            return _date(value)
        case Kind.TIMESTAMP:
            return _timestamp(value)


def _integer(value: Value) -> int | None:
    number: int
    match value:
        case float():
            if not math.isfinite(value):
                return None
            number = round(value)
        case Decimal():
            number = int(value.to_integral_value(ROUND_HALF_UP, EXACT))
        case str() | int():
            number = int(value)
        case _:
            return None
    return number if INT64_MIN <= number <= INT64_MAX else None


def _decimal(value: Value, target: Type) -> Decimal | None:
    step = Decimal(1).scaleb(-target.scale)
    number: Decimal
    match value:
        case float():
            scaled = value * 10.0**target.scale
            if not math.isfinite(scaled):
                return None
            number = Decimal(round(scaled)).scaleb(-target.scale, Context(prec=400))
        case int() | str() | Decimal():
            number = Decimal(value)
        case _:
            return None
    if number.copy_abs() >= 10 ** (target.precision - target.scale):
        return None
    number = number.quantize(step, ROUND_HALF_UP, EXACT)
    return number if number.copy_abs() < 10 ** (target.precision - target.scale) else None


def _text(value: Value, source: Type) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            number = value.quantize(Decimal(1).scaleb(-source.scale), ROUND_HALF_UP, EXACT)
            return format(abs(number) if number == 0 else number, "f")
        case datetime.datetime():
            whole = f"{value:%H:%M:%S}" + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
            return f"{value.date().isoformat()} {whole}"
        case datetime.date():
            return value.isoformat()
        case _:
            return str(value)


def _date(value: Value) -> datetime.date | None:
    match value:
        case datetime.datetime():
            return value.date()
        case str():
            try:
                return datetime.date.fromisoformat(value)
            except ValueError:
                return None
        case _:
            return None


def _timestamp(value: Value) -> datetime.datetime | None:
    match value:
        case str():
            day = _date(value[:10])
            clock = value[11:].split(":")
            if day is None:
                return None
            hours, minutes = (int(clock[0]), int(clock[1])) if len(clock) > 1 else (0, 0)
            seconds, _, fraction = clock[2].partition(".") if len(clock) > 2 else ("0", "", "")
            return datetime.datetime(
                day.year, day.month, day.day, hours, minutes, int(seconds), int(fraction.ljust(6, "0"))
            )
        case datetime.date() if not isinstance(value, datetime.datetime):
            return datetime.datetime(value.year, value.month, value.day)
        case _:
            return None


def cast_range(known: Range, source: Type, target: Type) -> Range:
    """Returns the range of a cast from the range of its argument."""
    if source == target:
        return known
    if source.kind is Kind.TEXT or target.kind is Kind.TEXT:
        least, most = domain(target) if target.kind is Kind.BOOLEAN else (-math.inf, math.inf)
        return Range(
            lower=None if least == -math.inf else Fraction(least),
            upper=None if most == math.inf else Fraction(most),
            nullable=known.nullable or source.kind is Kind.TEXT,
        )
    if target.kind is Kind.FLOAT64:
        return _float_range(known, source)
    total = effective(known, source)
    ends = _moved(low(known), source, target), _moved(high(known), source, target)
    sure = _moved(low(total), source, target), _moved(high(total), source, target)
    if target.kind is Kind.BOOLEAN:
        always = low(known) > 0 or high(known) < 0
        never = known.lower == known.upper == 0
        return Range(lower=Fraction(always), upper=Fraction(not never), nullable=known.nullable)
    return fitted(ends, sure, target, nullable=known.nullable)


def _float_range(known: Range, source: Type) -> Range:
    ends = rounded(low(known), high(known), nullable=known.nullable)
    if source.kind is Kind.DECIMAL and source.precision > 15:  # engines divide twice-rounded numbers
        return rounded(_outward(low(ends), -1), _outward(high(ends), 1), nullable=known.nullable)
    return ends


def _outward(end: End, sign: int) -> End:
    return end if isinstance(end, float) else end + sign * abs(end) * MARGIN


def _moved(end: End, source: Type, target: Type) -> End:
    """Returns what an endpoint becomes; casts are monotone."""
    if isinstance(end, float):
        return end
    match source.kind, target.kind:
        case Kind.FLOAT64, Kind.INT64:
            return Fraction(round(end))
        case Kind.FLOAT64, Kind.DECIMAL:
            ends = rounded(end * Fraction(10.0**target.scale), end * Fraction(10.0**target.scale), nullable=False)
            return Fraction(round(ends.lower), 10**target.scale) if ends.lower is not None else end
        case _, Kind.INT64 | Kind.DECIMAL:
            unit = Fraction(1, 10**target.scale)
            return unit * math.floor(abs(end) / unit + Fraction(1, 2)) * (1 if end >= 0 else -1)
        case Kind.DATE, Kind.TIMESTAMP:
            return end * DAY
        case Kind.TIMESTAMP, Kind.DATE:
            return Fraction(end // DAY)
        case _:
            return end
