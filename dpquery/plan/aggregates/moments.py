"""Means, variances and standard deviations: from a count, and sums of deviations and of their squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.errors import InternalError, MissingBoundsError
from dpquery.plan.aggregates.aggregate import LARGEST, Measures, NumberOfNumbers, of_rows
from dpquery.plan.aggregates.derivations import clamped, less_one, number, ratio, where_more
from dpquery.plan.expr import Expression
from dpquery.plan.functions import call
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import FLOAT64

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn

WIDEST_SPREAD = Fraction(10) ** 140
"""Width of the range of a value whose variance can be computed in double precision."""


class Mean(NumberOfNumbers):
    """middle + sum of deviations / count, within the bounds; NULL where the count is not positive."""

    __slots__ = ()

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of the values."""
        return of_rows(given[0], filtered)

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the noisy mean."""
        value = argument_of(column)
        lower, upper = measures.bounds(column, value)
        count = measures.count(value, column.filter)
        return where_more(count, 0, mean_of(value, column.filter, count, (lower, upper), measures))

    def moved(self, value: Expression, factor: Fraction, shift: Fraction) -> Expression:
        """Returns factor * mean + shift."""
        made = call("multiply", (value, number(factor, FLOAT64))) if factor != 1 else value
        return call("add", (made, number(shift, FLOAT64))) if shift else made


class Spread(NumberOfNumbers):
    """A variance or standard deviation: mean squared deviation less squared mean deviation."""

    __slots__ = ()

    @property
    def is_root(self) -> bool:
        """Whether it is a standard deviation."""
        return self in (STDDEV_POP, STDDEV_SAMP)

    @property
    def is_sample(self) -> bool:
        """Whether it divides by one less than the count."""
        return self in (VAR_SAMP, STDDEV_SAMP)

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns from 0 to what values at both ends have: no two values are farther apart."""
        lower, upper = given[0].lower, given[0].upper
        if lower is None or upper is None:
            return UNKNOWN
        most = (upper - lower) ** 2 / (2 if self.is_sample else 4)
        if self.is_root:
            most = Fraction(math.nextafter(math.sqrt(most), math.inf))
        return Range(lower=Fraction(0), upper=most, nullable=True)

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the noisy variance or its root; NULL where too few rows are counted."""
        value = argument_of(column)
        lower, upper = measures.bounds(column, value)
        if upper - lower > WIDEST_SPREAD:
            raise MissingBoundsError(
                f"{column.name.upper()} of values with such wide bounds has no finite square",
                advice="CLAMP the value to narrower bounds.",
                span=column.span,
            )
        count = measures.count(value, column.filter)
        spread = variance_of(value, column.filter, count, (lower, upper), measures)
        most, least = (upper - lower) ** 2 / 4, 0
        if self.is_sample:
            spread = call("multiply", (spread, ratio(count, less_one(count))))
            most, least = most * 2, 1
        spread = clamped(spread, Fraction(0), most)
        return where_more(count, least, call("sqrt", (spread,)) if self.is_root else spread)

    def moved(self, value: Expression, factor: Fraction, shift: Fraction) -> Expression:
        """Returns factor^2 * variance, or |factor| * standard deviation."""
        size = abs(factor) if self.is_root else factor**2
        return call("multiply", (value, number(size, FLOAT64))) if size != 1 else value


def argument_of(column: AggregateColumn) -> Expression:
    """Returns the argument of an aggregate that has one."""
    if column.argument is None:
        raise InternalError(f"{column.function} has an argument")
    return column.argument


def mean_of(
    value: Expression,
    kept: Expression | None,
    count: Expression,
    bounds: tuple[Fraction, Fraction],
    measures: Measures,
    name: str = "",
) -> Expression:
    """Returns the mean of a value within its bounds, which people read as `name`."""
    deviations = measures.deviations(value, kept, *bounds, name)
    middle = number(measures.centre(value, *bounds), FLOAT64)
    return clamped(call("add", (middle, ratio(deviations, count))), *bounds)


def variance_of(
    value: Expression,
    kept: Expression | None,
    count: Expression,
    bounds: tuple[Fraction, Fraction],
    measures: Measures,
) -> Expression:
    """Returns the mean squared deviation less the squared mean deviation, before any clamp."""
    deviations, squares = measures.deviations(value, kept, *bounds), measures.squares(value, kept, *bounds)
    shift = number(measures.centre(value, *bounds) - squares.centre, FLOAT64)
    mean = call("add", (shift, ratio(deviations, count)))
    whole = call("add", (number(squares.middle, FLOAT64), ratio(squares.total, count)))
    return call("subtract", (whole, call("multiply", (mean, mean))))


def _spread(name: str, doc: str, *spellings: str) -> Spread:
    return Spread(name, doc, spellings, takes_booleans=True, skips_null=True)


AVG = Mean(
    "avg",
    "The mean; NULL where no value is not NULL.",
    distinct="avg_distinct",
    takes_booleans=True,
    largest=LARGEST,
    skips_null=True,
)
VAR_POP = _spread("var_pop", "The variance of these values; NULL where no value is not NULL.", "VARIANCE_POP")
VAR_SAMP = _spread(
    "var_samp",
    "The variance as a sample estimates it; NULL where fewer than two values are not NULL.",
    "VARIANCE",
    "VAR",
)
STDDEV_POP = _spread("stddev_pop", "The root of `VAR_POP`; NULL where that is.")
STDDEV_SAMP = _spread("stddev_samp", "The root of `VAR_SAMP`; NULL where that is.", "STDDEV", "STD")
