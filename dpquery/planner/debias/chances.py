"""The law of a report of randomised response, and the estimates that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.catalog.tables import Randomized
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import WindowColumn
from dpquery.plan.types import FLOAT64, Value

Weights = tuple[float, ...]
"""A number for each category: what a row counts with that has it."""


@dataclass(frozen=True, slots=True)
class Chances:
    """The law of a report: of telling the value, p, and of telling any one other category, q."""

    p: float
    q: float

    @staticmethod
    def of(declared: Randomized) -> Chances:
        """Returns the law that a declaration means; the nearest floats, for estimates alone."""
        power = math.exp(-float(declared.epsilon))
        p = 1 / (1 + (len(declared.categories) - 1) * power)
        return Chances(p, p * power)

    @property
    def gap(self) -> float:
        """Returns p - q."""
        return self.p - self.q

    def variance(self, weight: float, weights: Weights) -> float:
        """Returns the variance of the estimate of what one row counts with, whose own category has the given weight."""
        mean = self.gap * weight + self.q * sum(weights)
        square = self.gap * weight**2 + self.q * sum(w**2 for w in weights)
        return max(0.0, square - mean**2) / self.gap**2


def without_bias(reported: Expression, rows: Expression, weights: Weights, chances: Chances) -> Expression:
    """Returns (reported - q H rows) / (p - q)."""
    less = times(rows, chances.q * sum(weights))
    gap = Literal(value=chances.gap, type=FLOAT64)
    return call("divide", (call("subtract", (Cast(argument=reported, type=FLOAT64), less)), gap))


def times(value: Expression, factor: float) -> Expression:
    """Returns a multiple of a number."""
    return call("multiply", (value, Literal(value=factor, type=FLOAT64)))


def numbers_of(values: Sequence[Value]) -> Weights:
    """Returns values as numbers; NULL counts nothing."""
    return tuple(0.0 if value is None else float(value) for value in values)  # type: ignore[arg-type]


def total_over(id: str, number: Column, groups: tuple[str, ...]) -> WindowColumn:
    """Returns the sum of a column over all rows of equal groups, as a column of a window."""
    return WindowColumn(
        id=id,
        name="",
        function="sum",
        arguments=(number,),
        filter=None,
        partition_by=groups,
        order_by=(),
        frame=None,
        type=number.type,
    )
