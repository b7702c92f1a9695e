"""COUNT and COUNT(DISTINCT)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.plan.aggregates.aggregate import AggregateFunction, Measures
from dpquery.plan.expr import Expression
from dpquery.plan.ranges import Range
from dpquery.plan.types import INT64, Type

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn


class Counting(AggregateFunction):
    """A number of rows or values."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns int64."""
        return INT64

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns from 0 to the rows of a group."""
        return Range(lower=Fraction(0), upper=rows, nullable=False)

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the noisy number."""
        if self is COUNT_DISTINCT and column.argument is not None:
            return measures.distinct(column.argument, column.filter)
        return measures.count(column.argument, column.filter)


COUNT = Counting(
    "count",
    "The number of rows, or of those in which x is not NULL.",
    distinct="count_distinct",
    counts=True,
    skips_null=True,
    in_any_order=True,
)
COUNT_DISTINCT = Counting(
    "count_distinct",
    "The number of different values that are not NULL.",
    spellings=("APPROX_DISTINCT",),
    counts=True,
    skips_null=True,
)
