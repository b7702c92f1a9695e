"""MIN, MAX, quantiles and MODE: over different privacy units a value is chosen, and no noise added to it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.errors import InternalError
from dpquery.plan.aggregates.aggregate import AggregateFunction, Form, Measures, of_rows, other_type
from dpquery.plan.aggregates.moments import argument_of
from dpquery.plan.expr import Cast, Expression
from dpquery.plan.ranges import Range
from dpquery.plan.types import DATE, FLOAT64, TIMESTAMP, Type

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn


class Choice(AggregateFunction):
    """One of the values."""

    __slots__ = ()

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of the values."""
        return of_rows(given[0], filtered)


class Quantile(Choice):
    """The value at a rank; QUANTILE_CONT and QUANTILE_DISC differ by less than their noise."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns the type of the values; of a place between two values float64."""
        if self.form is Form.RANKED and not (given[0].is_numeric or given[0] in (DATE, TIMESTAMP)):
            raise other_type(name.upper(), "a number, a date or a timestamp", given[0])
        return FLOAT64 if self is QUANTILE_CONT else given[0]

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the choice of the value at the rank."""
        value = argument_of(column)
        target = Fraction(0) if self is MIN else Fraction(1) if self is MAX else column.fraction
        if target is None:
            raise InternalError(f"{self} has a fraction")
        chosen = measures.quantile(column, value, target)
        return chosen if chosen.type == column.type else Cast(argument=chosen, type=column.type)


class Mode(Choice):
    """The most frequent value."""

    __slots__ = ()

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the choice among the public values of the argument."""
        return measures.most_frequent(column, argument_of(column))


MIN = Quantile("min", "The least value; NULL where no value is not NULL.", distinct="min", in_any_order=True)
MAX = Quantile("max", "The greatest value; NULL where no value is not NULL.", distinct="max", in_any_order=True)
QUANTILE_CONT = Quantile(
    "quantile_cont",
    "The value at a fraction of the ranks, or between two values; NULL where no value is not NULL.",
    spellings=("MEDIAN", "PERCENTILE_CONT"),
    form=Form.RANKED,
)
QUANTILE_DISC = Quantile(
    "quantile_disc",
    "The first value at or beyond a fraction of the ranks; NULL where no value is not NULL.",
    spellings=("QUANTILE", "APPROX_QUANTILE", "PERCENTILE_DISC"),
    form=Form.RANKED,
)
MODE = Mode("mode", "The most frequent value, of several the least; NULL where no value is not NULL.", form=Form.CHOSEN)
