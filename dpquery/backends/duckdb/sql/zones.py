"""Instants as the wall clock of a zone shows them, in DuckDB's SQL: total, and by the database that Python reads.

The engine has a database of its own, of another release, by which the clocks of some zones show something else.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Sequence
from functools import lru_cache

from dpquery.plan.functions.bounds import FIRST_MICROSECOND, LAST_MICROSECOND
from dpquery.plan.zones import PERIODIC_FROM, offsets

_EPOCH = datetime.datetime(1970, 1, 1)
_YEARS = range(PERIODIC_FROM, PERIODIC_FROM + 28)
"""Years of every kind: of each weekday that a year begins with, common and leap."""


def local_microseconds(instant: str, zone: str, exact: str = "", parts: int = 1) -> str:
    """Returns SQL for the wall clock's microseconds since 1970, NULL where either is outside the years 1 to 9999.

    Args:
        instant: SQL for an instant's microseconds since 1970, rounded down.
        exact: SQL for the instant itself, by which the offset is chosen; by default the microseconds.
        parts: In how many parts of a microsecond that is counted.
    """
    exact, found = exact or instant, offsets(zone)
    added = _choice(exact, found.first, [(at * parts, offset) for at, offset in found.changes])
    final = found.changes[-1][1] if found.changes else found.first
    low, high = FIRST_MICROSECOND - min(0, found.first), LAST_MICROSECOND - max(0, final)
    inside = f"{instant} BETWEEN {low} AND {high}"
    if not found.has_rule:
        return f"CASE WHEN {inside} THEN {instant} + ({added}) END"
    end = _microseconds(_YEARS.stop)
    soon = f"{instant} BETWEEN {low} AND {end - 1}"
    later = f"list_transform([{instant}], lambda instant: {_by_rule(zone)})[1]"  # without a lambda it would be too long
    return f"CASE WHEN {soon} THEN {instant} + {added} WHEN {inside} THEN {later} END"


@lru_cache(maxsize=64)
def _by_rule(zone: str) -> str:
    """Returns SQL for the wall clock at `instant`, in years in which the offset follows one rule."""
    found, start = offsets(zone), _microseconds(_YEARS.start)
    before = [offset for at, offset in found.changes if at < start]
    changes = [change for change in found.changes if change[0] >= start]
    added = _choice("same", before[-1] if before else found.first, changes)
    return f"instant + list_transform([{_same_kind('instant')}], lambda same: {added})[1]"


def _choice(variable: str, first: int, changes: Sequence[tuple[int, int]]) -> str:
    """Returns SQL that finds the offset in force, by halving."""
    if not changes:
        return str(first)
    middle = len(changes) // 2
    at, offset = changes[middle]
    earlier, later = _choice(variable, first, changes[:middle]), _choice(variable, offset, changes[middle + 1 :])
    return f"CASE WHEN {variable} < {at} THEN {earlier} ELSE {later} END"


def _same_kind(instant: str) -> str:
    """Returns SQL for the instant in the one of `_YEARS` that has the same calendar."""
    starts = [0] * 14
    for each in _YEARS:
        weekday = datetime.date(each, 1, 1).isoweekday()
        starts[weekday - 1 + 7 * calendar.isleap(each)] = _microseconds(each)
    moment = f"make_timestamp({instant})"
    year = f"date_trunc('year', {moment})"
    kind = f"isodow({year}) + 7 * CAST(dayofyear({year} + INTERVAL 11 MONTH + INTERVAL 30 DAY) = 366 AS INTEGER)"
    return f"{instant} - epoch_us({year}) + {starts}[{kind}]"


def _microseconds(year: int) -> int:
    return (datetime.datetime(year, 1, 1) - _EPOCH) // datetime.timedelta(microseconds=1)
