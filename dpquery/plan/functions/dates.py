"""Parts of dates and timestamps, and truncation. Years run from 1 to 9999; weeks start on Monday, as ISO 8601 says."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.functions.bounds import between, effective, span
from dpquery.plan.functions.promotion import Expressions, Types, signature
from dpquery.plan.functions.table import (
    READS,
    Constant,
    RangeRule,
    Signature,
    SignatureError,
    Texts,
    constant,
    function,
    is_null_literal,
    text_literal,
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


def _part_range(function: Callable[[Day], int], unit: str, lower: int, upper: int) -> RangeRule:
    """The part's own bounds, sharper where both ends lie in one period: there the parts rise with time (but `dow`)."""

    def rule(ranges: tuple[Range, ...], call: Call) -> Range:
        x = ranges[0]
        first, last = ends_as_dates(x, call.arguments[0].type)
        if unit in ("year", "isoyear"):
            return Range(
                lower=None if first is None else Fraction(function(first)),
                upper=None if last is None else Fraction(function(last)),
                nullable=x.nullable,
            )
        within = _WITHIN.get(unit)
        if first is None or last is None or within is None or truncated(within, first) != truncated(within, last):
            return between(lower, upper, nullable=x.nullable)
        return span(Fraction(function(first)), Fraction(function(last)), nullable=x.nullable)

    return rule


def _part_resolve(types: Types, expressions: Expressions) -> Signature | None:
    of = date_type(types, expressions)
    return ((of,), INT64) if of and len(types) == 1 else None


def _epoch_range(ranges: tuple[Range, ...], _: Call) -> Range:
    x = ranges[0]
    ends = [None if e is None else Fraction(float(e) / 1e6) for e in (x.lower, x.upper)]
    return Range(lower=ends[0], upper=ends[1], nullable=x.nullable)


def _trunc_range(ranges: tuple[Range, ...], call: Call) -> Range:
    unit, x = constant(call, 0), ranges[1]
    ends = ends_as_dates(x, TIMESTAMP)
    lower, upper = (None if end is None else Fraction(microseconds(truncated(unit, end))) for end in ends)
    return Range(lower=lower, upper=upper, nullable=x.nullable)


_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_FORMATS: dict[str, Callable[[datetime.datetime], str]] = {
    "Y": lambda x: f"{x.year:04}",
    "y": lambda x: f"{x.year % 100:02}",
    "G": lambda x: f"{x.isocalendar().year:04}",
    "q": lambda x: f"{(x.month + 2) // 3}",
    "m": lambda x: f"{x.month:02}",
    "b": lambda x: _MONTHS[x.month - 1][:3],
    "B": lambda x: _MONTHS[x.month - 1],
    "V": lambda x: f"{x.isocalendar().week:02}",
    "d": lambda x: f"{x.day:02}",
    "j": lambda x: f"{x.timetuple().tm_yday:03}",
    "a": lambda x: _DAYS[x.weekday()][:3],
    "A": lambda x: _DAYS[x.weekday()],
    "u": lambda x: f"{x.isoweekday()}",
    "H": lambda x: f"{x.hour:02}",
    "I": lambda x: f"{(x.hour + 11) % 12 + 1:02}",
    "p": lambda x: "AM" if x.hour < 12 else "PM",
    "M": lambda x: f"{x.minute:02}",
    "S": lambda x: f"{x.second:02}",
}
"""The parts of a date, by the letters of `strftime` (`q` is the quarter)."""
_BETWEEN = frozenset("-/:., _")


def format_parts(form: str) -> list[str]:
    """Returns a format in parts: directives such as `%Y`, and single characters.

    Raises:
        SignatureError: It holds something else.
    """
    characters, parts = iter(form), []
    for character in characters:
        part = character + next(characters, "") if character == "%" else character
        if not (part[1:] in _FORMATS if character == "%" else part in _BETWEEN or (part.isascii() and part.isalpha())):
            known = " ".join(f"%{directive}" for directive in _FORMATS)
            raise SignatureError(f"date formats may hold {known}, letters and - / : . , _ or spaces")
        parts.append(part)
    return parts


def formatted(x: Day, form: str) -> str:
    """Returns a date in a format of `strftime`; raises SignatureError for what is not on the list."""
    moment = timestamp_of(x)
    return "".join(_FORMATS[part[1]](moment) if part[0] == "%" else part for part in format_parts(form))


def _is_unit(given: Expression) -> bool:
    if not isinstance(given, Literal) or given.type != TEXT or given.value not in UNITS:
        raise SignatureError(f"the unit must be one of {', '.join(UNITS)}")
    return True


def _is_format(given: Expression) -> bool:
    if not formatted(_ORIGIN, text_literal(given, "a date format", limit=50)):
        raise SignatureError("the date format is empty")
    return True


UNIT = Constant(TEXT, _is_unit)


def _part(
    unit: str, lower: int, upper: int, doc: str, parsed: str, meaning: Callable[[Day], int], engine: str | None = None
) -> None:
    """An operation `extract_unit`; by default engines call it as the unit."""
    made = function(
        _part_resolve,
        _part_range(meaning, unit, lower, upper),
        name=f"extract_{unit}",
        sql=f"EXTRACT({unit.upper()} FROM a)",
        parsed=parsed,
        engine=engine or unit,
        doc=f"{doc}; NULL if the date is.",
    )
    made(meaning)


def _clock(unit: str, upper: int, doc: str) -> None:
    engine = f"{unit}(CAST({{0}} AS TIMESTAMP))"
    _part(unit, 0, upper, doc, unit.title(), lambda x: int(getattr(timestamp_of(x), unit)), engine)


_part("year", 1, 9999, "The year", "Year", lambda x: x.year)
_part("quarter", 1, 4, "The quarter, 1 to 4", "Quarter", lambda x: (x.month + 2) // 3)
_part("month", 1, 12, "The month, 1 to 12", "Month", lambda x: x.month)
_part("day", 1, 31, "The day of the month", "Day DayOfMonth", lambda x: x.day)
_part("dow", 0, 6, "The day of the week, 0 for Sunday", "DayOfWeek", lambda x: x.isoweekday() % 7, "dayofweek")
_part(
    "isodow", 1, 7, "The day of the week, 1 for Monday, 7 for Sunday", "DayOfWeekIso isodow/1", lambda x: x.isoweekday()
)
_part("doy", 1, 366, "The day of the year", "DayOfYear", lambda x: x.timetuple().tm_yday, "dayofyear")
_part("week", 1, 53, "The week as ISO 8601 counts it", "Week WeekOfYear", lambda x: x.isocalendar().week, "weekofyear")
_part("isoyear", 1, 9999, "The year to which the ISO 8601 week belongs", "isoyear/1", lambda x: x.isocalendar().year)
_clock("hour", 23, "The hour, 0 to 23")
_clock("minute", 59, "The minute")
_clock("second", 59, "The second, without fraction")


@function(
    signature(TIMESTAMP, result=FLOAT64),
    _epoch_range,
    sql="EXTRACT(EPOCH FROM a)",
    parsed="TimeToUnix epoch/1",
    engine="(CAST(epoch_us({0}) AS DOUBLE) / 1000000.0::DOUBLE)",
)
def extract_epoch(x: Day) -> float:
    """The seconds since 1970 as a float; NULL if the timestamp is."""
    return float(microseconds(x)) / 1e6


@function(
    signature(UNIT, TIMESTAMP, result=TIMESTAMP),
    _trunc_range,
    sql="DATE_TRUNC('month', a)",
    parsed="",
    engine="",
    texts=READS,
)
def date_trunc(unit: str, x: Day) -> datetime.datetime:
    """The timestamp at which its second, minute, hour, day, week, month, quarter or year began."""
    return truncated(unit, x)


@function(
    signature(TIMESTAMP, Constant(TEXT, _is_format), result=TEXT),
    lambda ranges, _: Range(nullable=ranges[0].nullable),
    sql="TO_CHAR(a, 'YYYY-MM')",
    parsed="TimeToStr",
    engine="",
    texts=Texts(makes=lambda call, _: 10 * len(format_parts(constant(call, 1)))),
)
def format_date(x: Day, form: str) -> str:
    """The date in a constant format of years, quarters, months, weeks, days and times; NULL if it is."""
    return formatted(x, form)
