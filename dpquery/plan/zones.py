"""Time zones: instants as the wall clock of a zone shows them.

A zone is a name of the IANA database, such as Europe/Berlin, or an offset of whole minutes, such as +02:00. What a name
means is read from the database that Python's `zoneinfo` finds, which pandas uses too.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache

UTC = "UTC"
_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_NO_ZONES = ("localtime", "posixrules", "Factory", "posix", "right")
"""Files beside those of the zones; which zone the first is differs from computer to computer."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST, _END = datetime.datetime(1800, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2129, 1, 1, tzinfo=datetime.UTC)
PERIODIC_FROM = 2101
"""From this year on a zone's offsets follow one rule, by weekday and leap year; 28 years hold every kind of year."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far the wall clock of a zone is ahead, before the year 2129.

    Attributes:
        first: Microseconds that are added to instants before all changes.
        changes: (microseconds since 1970, microseconds that are added from then on), in order.
        has_rule: Whether the offset goes on changing every year.
    """

    first: int
    changes: tuple[tuple[int, int], ...]
    has_rule: bool


@lru_cache(maxsize=64)
def tzinfo_of(zone: str) -> datetime.tzinfo:
    """Returns the zone of this name; raises ValueError where there is none."""
    if found := _OFFSET.fullmatch(zone):
        offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3]))
        return datetime.timezone(-offset if found[1] == "-" else offset)
    if _NAME.fullmatch(zone) and zone.partition("/")[0] not in _NO_ZONES:
        try:
            return zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError(
        f"{zone[:60]!r} is not a time zone; write a name such as Europe/Berlin, or an offset such as +02:00"
    )


def is_fixed(zone: str) -> bool:
    """Whether the clock of a zone is never set, by no release of the database either."""
    return zone == UTC or _OFFSET.fullmatch(zone) is not None


def wall_clock(moment: datetime.datetime, zone: str) -> datetime.datetime | None:
    """Returns what the clocks of a zone show at an instant, or None outside the years 1 to 9999.

    Args:
        moment: With a zone of its own.
    """
    try:
        local = moment.astimezone(datetime.UTC).astimezone(tzinfo_of(zone))
    except OverflowError:
        return None
    return local.replace(tzinfo=None, fold=0)


def is_shown_twice(local: datetime.datetime, zone: str) -> bool:
    """Whether the clocks of a zone show this at two instants, as they are set back."""
    here = local.replace(tzinfo=tzinfo_of(zone))
    return here.replace(fold=0).utcoffset() != here.replace(fold=1).utcoffset()


@lru_cache(maxsize=64)
def offsets(zone: str) -> Offsets:
    """Returns the offsets of a zone from instants."""
    tz, day = tzinfo_of(zone), datetime.timedelta(days=1)
    before, at = _offset(_FIRST, tz), _FIRST
    first, changes = before, []
    while at < _END:
        following = min(at + day, _END)
        if (after := _offset(following, tz)) != before:
            changes.append((_change(at, following, tz), after))
            before = after
        at = following
    periodic = (datetime.datetime(PERIODIC_FROM, 1, 1, tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND
    return Offsets(first, tuple(changes), any(instant >= periodic for instant, _ in changes))


def _offset(instant: datetime.datetime, tz: datetime.tzinfo) -> int:
    found = instant.astimezone(tz).utcoffset()
    return 0 if found is None else found // _MICROSECOND


def _change(low: datetime.datetime, high: datetime.datetime, tz: datetime.tzinfo) -> int:
    """Returns the second, in microseconds since 1970, in which the offset changes between two instants."""
    second, before = datetime.timedelta(seconds=1), _offset(low, tz)
    while high - low > second:
        middle = low + (high - low) // second // 2 * second
        low, high = (middle, high) if _offset(middle, tz) == before else (low, middle)
    return (high - _EPOCH) // _MICROSECOND
