"""The calendar as numbers: days, weeks, months, quarters and years, each known by a number that grows with time."""

from __future__ import annotations

import datetime
import re
from enum import Enum

_PARTS = re.compile(r"(\d{4})(?:-(?:Q([1-4])|W(\d\d)|(\d\d)(?:-(\d\d))?))?", re.ASCII)


class By(Enum):
    """How long a period is."""

    DAY = "day"
    WEEK = "week"
    """From Monday on, as ISO 8601 says."""
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


def number_of(value: datetime.date, by: By) -> int:
    """Returns the number of the period that a date or timestamp is in."""
    match by:
        case By.DAY:
            return value.toordinal()
        case By.WEEK:
            return (value.toordinal() - 1) // 7
        case By.MONTH:
            return value.year * 12 + value.month - 1
        case By.QUARTER:
            return value.year * 4 + (value.month - 1) // 3
        case By.YEAR:
            return value.year


def first_day(number: int, by: By) -> datetime.date:
    """Returns the day on which a period begins; raises ValueError or OverflowError beyond the years 1 to 9999."""
    match by:
        case By.DAY:
            return datetime.date.fromordinal(number)
        case By.WEEK:
            return datetime.date.fromordinal(number * 7 + 1)
        case By.MONTH:
            return datetime.date(number // 12, number % 12 + 1, 1)
        case By.QUARTER:
            return datetime.date(number // 4, number % 4 * 3 + 1, 1)
        case By.YEAR:
            return datetime.date(number, 1, 1)


def name_of(number: int, by: By) -> str:
    """Returns the name of a period: 2024-03-31, 2024-W13, 2024-03, 2024-Q1 or 2024."""
    day = first_day(number, by)
    match by:
        case By.DAY:
            return day.isoformat()
        case By.WEEK:
            year, week, _ = day.isocalendar()
            return f"{year:04}-W{week:02}"
        case By.MONTH:
            return f"{day.year:04}-{day.month:02}"
        case By.QUARTER:
            return f"{day.year:04}-Q{(day.month + 2) // 3}"
        case By.YEAR:
            return f"{day.year:04}"


def number_named(name: str, by: By) -> int:
    """Returns the number of the period of a name; raises ValueError for any other text."""
    matched = _PARTS.fullmatch(name)
    if matched is None:
        raise ValueError(f"{name} names no {by.value}")
    year, quarter, week, month, day = (int(part) if part else None for part in matched.groups())
    if week is not None:
        start = datetime.date.fromisocalendar(year or 0, week, 1)
    else:
        start = datetime.date(year or 0, quarter * 3 - 2 if quarter else month or 1, day or 1)
    number = number_of(start, by)
    if name_of(number, by) != name:
        raise ValueError(f"{name} names no {by.value}")
    return number
