"""GEOMEAN: the exponential of the mean logarithm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpquery.errors import MissingBoundsError
from dpquery.plan.aggregates.aggregate import Measures, NumberOfNumbers
from dpquery.plan.aggregates.derivations import as_float, clamped, where_more
from dpquery.plan.aggregates.moments import AVG, argument_of, mean_of
from dpquery.plan.expr import Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.types import FLOAT64

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn


class GeometricMean(NumberOfNumbers):
    """exp(sum of logarithms / count), within the bounds; NULL where the count is not positive."""

    __slots__ = ()

    def exact(self, column: AggregateColumn, id: str) -> tuple[AggregateColumn, Expression]:
        """Returns AVG(LN(x)), and the exponential of it."""
        logarithms = replace(column, id=id, function=AVG, argument=call("ln", (as_float(argument_of(column)),)))
        return logarithms, call("exp", (Column(id=id, type=FLOAT64),))

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns the exponential of the noisy mean of LN(x)."""
        value = argument_of(column)
        name = measures.describe(value)
        lower, upper = measures.bounds(column, value)
        if lower <= 0:
            raise MissingBoundsError(
                f"{self.shown}({name}) has no finite sensitivity: {name} may be 0 or less, which has no logarithm",
                advice=f"Declare a lower bound above 0 in the catalog, or write CLAMP({name}, 0.01, {float(upper):g}).",
                span=column.span,
            )
        inside = clamped(as_float(value), lower, upper)  # what is stored beyond its bounds has a logarithm too
        logarithm, count = call("ln", (inside,)), measures.count(value, column.filter)
        mean = mean_of(logarithm, column.filter, count, measures.bounds(column, logarithm), measures, f"LN({name})")
        return where_more(count, 0, clamped(call("exp", (mean,)), lower, upper))


GEOMEAN = GeometricMean(
    "geomean",
    "The geometric mean of positive numbers, the exponential of the mean logarithm; NULL where there are none.",
    spellings=("GEOMETRIC_MEAN",),
    skips_null=True,
)
