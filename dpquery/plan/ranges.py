"""Ranges: what is known of an expression's values before any row is read.

Numbers stand for themselves, booleans for 0 and 1, dates for days and timestamps for microseconds since 1970-01-01.
A text has no ends, but it may be known how long it is. A range is a statement about non-NULL values; `nullable` says
whether NULL is possible.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpquery.plan.types import Kind, Type, Value

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Values lie in [lower, upper]; None means no bound on that side. Texts have at most `longest` characters; None
    means that this is not declared.
    """

    lower: Fraction | None = None
    upper: Fraction | None = None
    nullable: bool = True
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError("a range's lower bound exceeds its upper bound")

    @property
    def is_finite(self) -> bool:
        """Whether both bounds are known."""
        return self.lower is not None and self.upper is not None


UNKNOWN = Range()


def number_of(value: Value) -> Fraction | None:
    """Returns the number that stands for a value in ranges, or None for NULL and text."""
    match value:
        case None | str():
            return None
        case bool() | int() | float() | Decimal():
            return Fraction(value)
        case datetime.datetime():
            return Fraction((value - EPOCH) // MICROSECOND)
        case datetime.date():
            return Fraction((value - EPOCH.date()).days)


def whole_values(type: Type, numbers: Iterable[int]) -> list[Value]:
    """Returns integers as values of a type of whole numbers."""
    return [Decimal(number) for number in numbers] if type.kind is Kind.DECIMAL else list(numbers)


def hull(*ranges: Range) -> Range:
    """Returns the smallest range that contains all the given ones (at least one)."""
    lowers, uppers = [r.lower for r in ranges], [r.upper for r in ranges]
    lengths = [r.longest for r in ranges]
    return Range(
        lower=None if None in lowers else min(x for x in lowers if x is not None),
        upper=None if None in uppers else max(x for x in uppers if x is not None),
        nullable=any(r.nullable for r in ranges),
        longest=None if None in lengths else max(x for x in lengths if x is not None),
    )


def total_range(known: Range, most: Fraction | None, *, nullable: bool) -> Range:
    """Returns the range of a sum of 1 to `most` values; without `most`, an end beyond 0 is open."""
    lower, upper = known.lower, known.upper
    if lower is not None and lower < 0:
        lower = None if most is None else most * lower
    if upper is not None and upper > 0:
        upper = None if most is None else most * upper
    return Range(lower=lower, upper=upper, nullable=nullable)
