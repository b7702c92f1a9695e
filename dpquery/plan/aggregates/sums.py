"""SUM, and the aggregates of different values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.plan.aggregates.aggregate import LARGEST, AggregateFunction, Measures, needs_number, of_rows, other_type
from dpquery.plan.expr import Expression
from dpquery.plan.ranges import Range, total_range
from dpquery.plan.types import FLOAT64, Type, adds_exactly, sum_type

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn


class Summing(AggregateFunction):
    """A sum of numbers."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns a type with more digits than the argument's, or float64."""
        needs_number(name, given[0])
        return sum_type(given[0])

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns the range of a sum of so many values."""
        return total_range(given[0], rows, nullable=given[0].nullable or filtered)

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the noisy sum."""
        return measures.total(column)


class OfDifferent(AggregateFunction):
    """A sum or mean of different numbers."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns the type of the sum, or float64 for a mean."""
        if given[0] != FLOAT64 and not adds_exactly(given[0]):
            what = "a number of at most 28 digits" if given[0].is_numeric else "a number"
            raise other_type(self.shown, what, given[0])
        return FLOAT64 if self is AVG_DISTINCT else sum_type(given[0])

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of the sum or the mean of so many values."""
        if self is AVG_DISTINCT:
            return of_rows(given[0], filtered)
        return total_range(given[0], rows, nullable=given[0].nullable or filtered)


SUM = Summing(
    "sum",
    "The sum; NULL where no value is not NULL.",
    distinct="sum_distinct",
    takes_booleans=True,
    largest=LARGEST,
    skips_null=True,
)
SUM_DISTINCT = OfDifferent(
    "sum_distinct",
    "The sum of different values; NULL where no value is not NULL.",
    takes_booleans=True,
    advice="Use SUM(x), or COUNT(DISTINCT x).",
)
AVG_DISTINCT = OfDifferent(
    "avg_distinct",
    "The mean of different values; NULL where no value is not NULL.",
    takes_booleans=True,
    advice="Use AVG(x), or COUNT(DISTINCT x).",
)
