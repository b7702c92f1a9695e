"""Parts of dates and timestamps, and truncation. Years run from 1 to 9999; weeks start on Monday, as ISO 8601 says."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call
from dpquery.plan.functions.bounds import between, effective, span
from dpquery.plan.functions.promotion import Expressions, Types
from dpquery.plan.functions.table import (
    READS,
    Function,
    RangeRule,
    Signature,
    SignatureError,
    Texts,
    constant,
    is_null_literal,
    text_literal,
    unit_literal,
)
from dpquery.plan.ranges import EPOCH, MICROSECOND, Range
from dpquery.plan.types import DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type

Day = datetime.date
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_ORIGIN = datetime.date(1970, 1, 1)


def timestamp_of(x: Day) -> datetime.datetime:
    """Returns the timestamp, or a date's midnight."""
    return x if isinstance(x, datetime.datetime) else datetime.datetime(x.year, x.month, x.day)


def microseconds(x: Day) -> int:
    """Returns the microseconds since 1970."""
    return (timestamp_of(x) - EPOCH) // MICROSECOND


def date_number(x: Day) -> int:
    """Returns the days since 1970, without the time of day."""
    return x.toordinal() - _ORIGIN.toordinal()


def date_type(types: Types, expressions: Expressions) -> Type | None:
    """Returns DATE or TIMESTAMP, the type of the first argument; of NULL it is TIMESTAMP."""
    if not types:
        return None
    if is_null_literal(expressions[0]):
        return TIMESTAMP
    return types[0] if types[0] in (DATE, TIMESTAMP) else None


def truncated(unit: str, x: Day) -> datetime.datetime:
    """Returns the start of the unit of time that holds a timestamp."""
    x = timestamp_of(x)
    match unit:
        case "year":
            return datetime.datetime(x.year, 1, 1)
        case "quarter":
            return datetime.datetime(x.year, (x.month - 1) // 3 * 3 + 1, 1)
        case "month":
            return datetime.datetime(x.year, x.month, 1)
        case "week":
            return datetime.datetime(x.year, x.month, x.day) - datetime.timedelta(days=x.weekday())
        case "day":
            return datetime.datetime(x.year, x.month, x.day)
        case "hour":
            return x.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return x.replace(second=0, microsecond=0)
        case _:
            return x.replace(microsecond=0)


def _at(end: Fraction, of: Type) -> Day:
    """Returns the date or the timestamp that an endpoint stands for."""
    if of.kind is Kind.DATE:
        return datetime.date.fromordinal(_ORIGIN.toordinal() + int(end // 1))
    return EPOCH + int(end // 1) * MICROSECOND


def ends_as_dates(r: Range, of: Type) -> tuple[Day | None, Day | None]:
    """Returns the first and the last moment of a range, None where it is not known."""
    known = effective(r, of)
    if known.lower is None or known.upper is None:
        return None, None
    return (None if r.lower is None else _at(known.lower, of), None if r.upper is None else _at(known.upper, of))


def _part(unit: str, function: Callable[[Day], int | float], lower: int, upper: int, doc: str) -> Function:
    """An operation `extract_unit`; its rule is the part's own bounds, which are always known."""

    def resolve(types: Types, expressions: Expressions) -> Signature | None:
        of = date_type(types, expressions)
        return ((of,), INT64) if of and len(types) == 1 else None

    def rule(ranges: tuple[Range, ...], call: Call) -> Range:
        return between(lower, upper, nullable=ranges[0].nullable)

    return Function(
        name=f"extract_{unit}",
        resolve=resolve,
        range=_refined(function, rule, unit),
        meaning=lambda x: None if x is None else function(x),
        doc=doc + "; NULL if the date is.",
    )


_WITHIN = {
    "quarter": "year",
    "month": "year",
    "doy": "year",
    "isodow": "week",
    "day": "month",
    "hour": "day",
    "minute": "hour",
    "second": "minute",
}


def _refined(function: Callable[[Day], int | float], rule: RangeRule, unit: str) -> RangeRule:
    """Returns the rule, sharper where both ends lie in one period: there the parts rise with time (but `dow`)."""

    def refined(ranges: tuple[Range, ...], call: Call) -> Range:
        first, last = ends_as_dates(ranges[0], call.arguments[0].type)
        if unit in ("year", "isoyear"):
            return Range(
                lower=None if first is None else Fraction(function(first)),
                upper=None if last is None else Fraction(function(last)),
                nullable=ranges[0].nullable,
            )
        if first is None or last is None or unit not in _WITHIN:
            return rule(ranges, call)
        if truncated(_WITHIN[unit], first) != truncated(_WITHIN[unit], last):
            return rule(ranges, call)
        return span(Fraction(function(first)), Fraction(function(last)), nullable=ranges[0].nullable)

    return refined


def _clock(name: str) -> Callable[[Day], int]:
    return lambda x: int(getattr(timestamp_of(x), name))


def _epoch_resolve(types: Types, expressions: Expressions) -> Signature | None:
    return ((TIMESTAMP,), FLOAT64) if date_type(types, expressions) and len(types) == 1 else None


def _epoch_range(ranges: tuple[Range, ...], _: Call) -> Range:
    x = ranges[0]
    ends = [None if e is None else Fraction(float(e) / 1e6) for e in (x.lower, x.upper)]
    return Range(lower=ends[0], upper=ends[1], nullable=x.nullable)


def _trunc_resolve(types: Types, expressions: Expressions) -> Signature | None:
    of = date_type(types[1:], expressions[1:])
    if len(types) != 2 or of is None:
        return None
    unit_literal(expressions[0], UNITS)
    return (TEXT, TIMESTAMP), TIMESTAMP


def _trunc_range(ranges: tuple[Range, ...], call: Call) -> Range:
    unit, x = constant(call, 0), ranges[1]
    ends = ends_as_dates(x, TIMESTAMP)
    lower, upper = (None if end is None else Fraction(microseconds(truncated(unit, end))) for end in ends)
    return Range(lower=lower, upper=upper, nullable=x.nullable)


_FORMATS = {
    "Y": "{0.year:04}",
    "m": "{0.month:02}",
    "d": "{0.day:02}",
    "H": "{0.hour:02}",
    "M": "{0.minute:02}",
    "S": "{0.second:02}",
    "j": "{1:03}",
}


def formatted(x: Day, form: str) -> str:
    """Returns a date in a format of `strftime`; raises SignatureError for what is not on the list."""
    moment = timestamp_of(x)
    characters, parts = iter(form), []
    for character in characters:
        if character == "%":
            directive = next(characters, "")
            if directive not in _FORMATS:
                raise SignatureError("date formats may hold %Y %m %d %H %M %S %j and - / : . , _ T or spaces")
            parts.append(_FORMATS[directive].format(moment, moment.timetuple().tm_yday))
        elif character in "-/:., _T":
            parts.append(character)
        else:
            raise SignatureError("date formats may hold %Y %m %d %H %M %S %j and - / : . , _ T or spaces")
    return "".join(parts)


def _format_resolve(types: Types, expressions: Expressions) -> Signature | None:
    of = date_type(types, expressions)
    if of is None or len(types) != 2:
        return None
    if not formatted(_ORIGIN, text_literal(expressions[1], "a date format", limit=50)):
        raise SignatureError("the date format is empty")
    return (TIMESTAMP, TEXT), TEXT


DATES = (
    _part("year", lambda x: x.year, 1, 9999, "The year"),
    _part("quarter", lambda x: (x.month + 2) // 3, 1, 4, "The quarter, 1 to 4"),
    _part("month", lambda x: x.month, 1, 12, "The month, 1 to 12"),
    _part("day", lambda x: x.day, 1, 31, "The day of the month"),
    _part("dow", lambda x: x.isoweekday() % 7, 0, 6, "The day of the week, 0 for Sunday"),
    _part("isodow", lambda x: x.isoweekday(), 1, 7, "The day of the week, 1 for Monday, 7 for Sunday"),
    _part("doy", lambda x: x.timetuple().tm_yday, 1, 366, "The day of the year"),
    _part("week", lambda x: x.isocalendar().week, 1, 53, "The week as ISO 8601 counts it"),
    _part("isoyear", lambda x: x.isocalendar().year, 1, 9999, "The year to which the ISO 8601 week belongs"),
    _part("hour", _clock("hour"), 0, 23, "The hour, 0 to 23"),
    _part("minute", _clock("minute"), 0, 59, "The minute"),
    _part("second", _clock("second"), 0, 59, "The second, without fraction"),
    Function(
        name="extract_epoch",
        resolve=_epoch_resolve,
        range=_epoch_range,
        meaning=lambda x: None if x is None else float(microseconds(x)) / 1e6,
        doc="The seconds since 1970 as a float; NULL if the timestamp is.",
    ),
    Function(
        name="date_trunc",
        resolve=_trunc_resolve,
        range=_trunc_range,
        meaning=lambda unit, x: None if x is None else truncated(unit, x),
        doc="The timestamp at which its second, minute, hour, day, week, month, quarter or year began.",
        texts=READS,
    ),
    Function(
        name="format_date",
        resolve=_format_resolve,
        range=lambda r, _: Range(nullable=r[0].nullable),
        meaning=lambda x, form: None if x is None else formatted(x, form),
        doc="The date in a constant format of %Y %m %d %H %M %S %j; NULL if it is.",
        texts=Texts(makes=lambda call, _: len(formatted(_ORIGIN, constant(call, 1)))),
    ),
)
