"""Moving along the calendar: NULL outside the years 1 to 9999."""

from __future__ import annotations

import calendar
import datetime
from fractions import Fraction

from dpquery.plan.expr import Call
from dpquery.plan.functions.arithmetic import shifted
from dpquery.plan.functions.bounds import DAY, Ends, any_nullable, effective, fitted, high, low, span, times
from dpquery.plan.functions.dates import (
    UNIT,
    Day,
    date_number,
    date_type,
    ends_as_dates,
    microseconds,
    timestamp_of,
    truncated,
)
from dpquery.plan.functions.promotion import Expressions, Types, signature, untyped
from dpquery.plan.functions.table import READS, Signature, constant, function
from dpquery.plan.ranges import EPOCH, MICROSECOND, Range
from dpquery.plan.types import DATE, INT64, TIMESTAMP

_SECONDS = {"second": 1, "minute": 60, "hour": 3600}


def _moved_microseconds(x: datetime.datetime, count: int) -> datetime.datetime | None:
    try:
        return EPOCH + (microseconds(x) + count) * MICROSECOND
    except OverflowError:
        return None


def _index(unit: str, x: Day) -> int:
    """Returns the number of the unit of time that holds a timestamp; numbers count on from one unit to the next."""
    match unit:
        case "year":
            return x.year
        case "quarter":
            return x.year * 4 + (x.month - 1) // 3
        case "month":
            return x.year * 12 + x.month
        case "week":
            return (date_number(x) + 3) // 7
        case "day":
            return date_number(x)
        case _:
            return microseconds(x) // (_SECONDS[unit] * 1_000_000)


def _month_end(x: Day) -> Day:
    return datetime.date(x.year, x.month, calendar.monthrange(x.year, x.month)[1])


def _move_resolve(types: Types, expressions: Expressions) -> Signature | None:
    of = date_type(types, expressions)
    fit = of is not None and untyped(types[1:], expressions[1:], INT64) == (INT64,)
    return ((of, INT64), of) if of and fit else None


def _last_day_resolve(types: Types, expressions: Expressions) -> Signature | None:
    of = date_type(types, expressions)
    return ((of,), DATE) if of and len(types) == 1 else None


def _step(call: Call) -> tuple[Fraction, Fraction, Fraction]:
    """Returns by how much one unit moves at least and at most, and what the last day of a month may take back."""
    day = Fraction(DAY if call.type == TIMESTAMP else 1)
    if call.function == "add_months":
        return 28 * day, 31 * day, 3 * day
    one = day if call.function == "add_days" else Fraction(1)
    return one, one, Fraction(0)


def _move_range(ranges: tuple[Range, ...], call: Call) -> Range:
    def moved(x: Range, count: Range) -> Ends:
        least, most, slack = _step(call)
        back = times(low(count), most if low(count) < 0 else least)
        ahead = times(high(count), most if high(count) > 0 else least)
        return low(x) + back - slack, high(x) + ahead + slack

    total = [effective(r, argument.type) for r, argument in zip(ranges, call.arguments, strict=True)]
    return fitted(moved(*ranges), moved(*total), call.type, nullable=any_nullable(ranges))


def _diff_range(ranges: tuple[Range, ...], call: Call) -> Range:
    unit = constant(call, 0)
    (first_a, last_a), (first_b, last_b) = (ends_as_dates(r, TIMESTAMP) for r in ranges[1:])
    lower = None if first_b is None or last_a is None else Fraction(_index(unit, first_b) - _index(unit, last_a))
    upper = None if last_b is None or first_a is None else Fraction(_index(unit, last_b) - _index(unit, first_a))
    return Range(lower=lower, upper=upper, nullable=any_nullable(ranges))


def _in_month(x: Day) -> int:
    return microseconds(x) - microseconds(truncated("month", x))


def _between_range(ranges: tuple[Range, ...], _: Call) -> Range:
    first, last = (effective(r, TIMESTAMP) for r in ranges)
    return span(low(last) - high(first), high(last) - low(first), nullable=any_nullable(ranges))


def _full_months(a: Day, b: Day) -> int:
    first, last = (a, b) if a <= b else (b, a)
    count = _index("month", last) - _index("month", first) - (_in_month(last) < _in_month(first))
    return count if a <= b else -count


def _months_range(ranges: tuple[Range, ...], _: Call) -> Range:
    """More the later the second and the earlier the first."""
    (first_a, last_a), (first_b, last_b) = (ends_as_dates(r, TIMESTAMP) for r in ranges)
    lower = None if first_b is None or last_a is None else Fraction(_full_months(last_a, first_b))
    upper = None if last_b is None or first_a is None else Fraction(_full_months(first_a, last_b))
    return Range(lower=lower, upper=upper, nullable=any_nullable(ranges))


def _make_range(ranges: tuple[Range, ...], _: Call) -> Range:
    """Only what is surely a date is never NULL: days up to 28."""
    year, month, day = ranges
    sure = (
        low(year) >= 1
        and high(year) <= 9999
        and low(month) >= 1
        and high(month) <= 12
        and low(day) >= 1
        and high(day) <= 28
    )
    first, last = (_year_end(end, last=i == 1) for i, end in enumerate((year.lower, year.upper)))
    if high(year) < 1 or low(year) > 9999:
        return Range(nullable=True)
    return Range(lower=first, upper=last, nullable=any_nullable(ranges) or not sure)


def _year_end(year: Fraction | None, *, last: bool) -> Fraction | None:
    if year is None:
        return None
    within = min(max(int(year // 1), 1), 9999)
    return Fraction(date_number(datetime.date(within, 12 if last else 1, 31 if last else 1)))


def _last_day_range(ranges: tuple[Range, ...], call: Call) -> Range:
    ends = ends_as_dates(ranges[0], call.arguments[0].type)
    days = [None if end is None else _month_end(end) for end in ends]
    lower, upper = (None if day is None else Fraction(date_number(day)) for day in days)
    return Range(lower=lower, upper=upper, nullable=ranges[0].nullable)


@function(_move_resolve, _move_range, sql="a + INTERVAL '7 days'", parsed="", engine="")
def add_days(x: Day, count: int) -> Day | None:
    """The date or timestamp so many days later; NULL outside the years 1 to 9999."""
    return _moved_microseconds(x, count * DAY) if isinstance(x, datetime.datetime) else shifted(x, count)


@function(_move_resolve, _move_range, sql="a - INTERVAL '1 month'", engine="")
def add_months(x: Day, count: int) -> Day | None:
    """The date or timestamp so many months later, on the last day of a shorter month; NULL outside the years 1 to
    9999."""
    month = x.year * 12 + x.month - 1 + count
    if not 12 <= month < 120_000:
        return None
    year, zero_based = divmod(month, 12)
    day = min(x.day, calendar.monthrange(year, zero_based + 1)[1])
    return x.replace(year=year, month=zero_based + 1, day=day)


@function(
    signature(TIMESTAMP, INT64, result=TIMESTAMP), _move_range, sql="a + INTERVAL '3 hours'", parsed="", engine=""
)
def add_microseconds(x: datetime.datetime, count: int) -> datetime.datetime | None:
    """The timestamp so many microseconds later; NULL outside the years 1 to 9999."""
    return _moved_microseconds(x, count)


@function(
    signature(UNIT, TIMESTAMP, TIMESTAMP, result=INT64),
    _diff_range,
    sql="DATE_DIFFERENCE('month', a, b)",
    parsed="date_difference/3",
    engine="",
    texts=READS,
)
def date_diff(unit: str, a: Day, b: Day) -> int:
    """How many starts of a unit (weeks: Mondays) lie between two timestamps; NULL if either is."""
    return _index(unit, b) - _index(unit, a)


@function(
    signature(TIMESTAMP, TIMESTAMP, result=INT64),
    _between_range,
    sql="MICROSECONDS_BETWEEN(a, b)",
    parsed="microseconds_between/2",
    engine="(epoch_us({1}) - epoch_us({0}))",
)
def microseconds_between(a: Day, b: Day) -> int:
    """The microseconds from a timestamp to another, negative where that is earlier; NULL if either is."""
    return microseconds(b) - microseconds(a)


@function(
    signature(TIMESTAMP, TIMESTAMP, result=INT64),
    _months_range,
    sql="FULL_MONTHS_BETWEEN(a, b)",
    parsed="full_months_between/2",
    engine="",
)
def full_months_between(a: Day, b: Day) -> int:
    """The full months from a timestamp to another, as AGE counts them, negative where that is earlier; NULL if either
    is."""
    return _full_months(timestamp_of(a), timestamp_of(b))


@function(
    signature(INT64, INT64, INT64, result=DATE),
    _make_range,
    sql="MAKE_DATE(2024, a, 1)",
    parsed="DateFromParts(year,month,day) make_date/3",
    engine="",
)
def make_date(year: int, month: int, day: int) -> Day | None:
    """The date of a year, month and day; NULL if there is none."""
    try:
        return datetime.date(year, month, day)
    except (ValueError, OverflowError):
        return None


@function(_last_day_resolve, _last_day_range, parsed="")
def last_day(x: Day) -> Day:
    """The last day of the month; NULL if the date is."""
    return _month_end(x)
