"""The range of a sum of values of a known range."""

from __future__ import annotations

from fractions import Fraction

from dpquery.plan.ranges import Range


def sum_range(known: Range, most: Fraction | None, *, nullable: bool) -> Range:
    """Returns the range of a sum of 1 to `most` values; without `most`, an end beyond 0 is open."""
    lower, upper = known.lower, known.upper
    if lower is not None and lower < 0:
        lower = None if most is None else most * lower
    if upper is not None and upper > 0:
        upper = None if most is None else most * upper
    return Range(lower=lower, upper=upper, nullable=nullable)
