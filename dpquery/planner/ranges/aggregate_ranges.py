"""Ranges of exact aggregates within one unit, from the ranges of their arguments."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpquery.plan.aggregates import BITS, CHOSEN, PAIRS
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import UNKNOWN, Range

Ranges = dict[str, Range]


def exact_range(column: AggregateColumn, source: Ranges, most: Fraction | None) -> Range | None:
    """Returns the range of an aggregate of `plan/aggregates.py`, or None for any other.

    Args:
        source: What is known of the columns that it reads.
        most: The rows of a group at most, or None.
    """
    if column.argument is None:
        return None
    known = range_of(column.argument, source)
    nullable = known.nullable or column.filter is not None
    name = column.function
    if name in PAIRS and column.second is not None:
        return _pair(name, known, range_of(column.second, source), most, nullable)
    if name in CHOSEN:
        by = UNKNOWN if column.second is None else range_of(column.second, source)
        return replace(known, nullable=nullable or (name.startswith("arg") and by.nullable))
    if name in BITS:
        return _bits(name, known, nullable)
    if name in ("bool_and", "bool_or"):
        return Range(lower=Fraction(0), upper=Fraction(1), nullable=nullable)
    if name == "string_agg":
        return Range(nullable=nullable)
    return None


def _pair(name: str, y: Range, x: Range, most: Fraction | None, filtered: bool) -> Range:
    nullable = filtered or x.nullable
    if name == "regr_count":
        return Range(lower=Fraction(0), upper=most, nullable=False)
    if name in ("regr_avgx", "regr_avgy"):
        return replace(x if name == "regr_avgx" else y, nullable=nullable)
    if name in ("corr", "regr_r2"):
        return Range(lower=Fraction(-1 if name == "corr" else 0), upper=Fraction(1), nullable=True)
    if name in ("regr_slope", "regr_intercept"):
        return UNKNOWN
    sides = {"regr_sxx": (x, x), "regr_syy": (y, y)}.get(name, (y, x))
    reaches = [(side.upper - side.lower) / 2 for side in sides if side.lower is not None and side.upper is not None]
    if len(reaches) < 2:
        return Range(lower=Fraction(0) if name in ("regr_sxx", "regr_syy") else None, nullable=nullable)
    factor = {"covar_pop": Fraction(1), "covar_samp": Fraction(2)}.get(name, most)
    if factor is None:
        return Range(lower=Fraction(0) if name in ("regr_sxx", "regr_syy") else None, nullable=nullable)
    reach = reaches[0] * reaches[1] * factor
    lower = Fraction(0) if name in ("regr_sxx", "regr_syy") else -reach
    return Range(lower=lower, upper=reach, nullable=nullable or name == "covar_samp")


def _bits(name: str, known: Range, nullable: bool) -> Range:
    """Bits beyond those of both bounds are all equal in every value, and stay as they are in AND and OR."""
    if known.lower is None or known.upper is None:
        return Range(nullable=nullable)
    size = max(int(abs(known.lower)), int(abs(known.upper))).bit_length()
    above = Fraction(2**size - 1)
    if known.lower < 0:
        return Range(lower=-above - 1, upper=above, nullable=nullable)
    if name == "bit_and":
        return Range(lower=Fraction(0), upper=known.upper, nullable=nullable)
    return Range(lower=known.lower if name == "bit_or" else Fraction(0), upper=above, nullable=nullable)
