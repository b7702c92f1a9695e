"""Moments of one value, or of a pair, as a vector of Bernstein terms: count, sums, squares and products follow from it.

With z from 0 to 1 between the bounds, the terms C(d, i) z^i (1 - z)^(d - i) add up to 1 in each row, and so do the
products of those of two values. One row moves the vector by 1 in all, so that under Laplace noise each term has the
whole loss: docs/proofs/weights.md, Theorem 10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.kernel.plan import Lattice
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.derivations import number
from dpquery.plan.aggregates.moments import Spread
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.cached import cached
from dpquery.plan.expr import Cast, Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, INT64

Side = tuple[Expression | None, Expression | None]
"""A value, and the condition that its rows fulfil."""
Moments = tuple[tuple[Expression, ...], Expression | None]
"""One value or two in the order of their texts, and the condition that the rows fulfil in which none is NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The noisy terms of one value or two.

    Attributes:
        lattices: Of each value, with its bounds.
        degree: Of the terms of each value.
        terms: Their columns, float64, in the unit of the values to the power of the degree; by ascending powers.
    """

    lattices: tuple[Lattice, ...]
    degree: int
    terms: tuple[Column, ...]

    @property
    def count(self) -> Expression:
        """The number of rows in which no value is NULL, rounded: one expression, however often it is read."""
        return _count_of(self)

    def sum(self, factors: dict[int, tuple[int, Fraction]]) -> Expression:
        """Returns the sum over rows of the product of (value - centre)^power over some of the values.

        Args:
            factors: For a value's place its power, at most the degree, and the centre.
        """
        each = [self._coefficients(place, *factors.get(place, (0, Fraction(0)))) for place in range(len(self.lattices))]
        size = math.prod(_width(lattice) ** self.degree for lattice in self.lattices)
        parts: list[Expression] = []
        for chosen, term in zip(itertools.product(*each), self.terms, strict=True):
            factor = math.prod(chosen, start=Fraction(1)) / size
            if factor:
                parts.append(term if factor == 1 else call("multiply", (term, number(factor, FLOAT64))))
        total: Expression = parts[0]
        for part in parts[1:]:
            total = call("add", (total, part))
        return total

    def _coefficients(self, place: int, power: int, centre: Fraction) -> list[Fraction]:
        """Returns with which factors a value's terms, as parts of 1, add up to (value - centre)^power."""
        lattice = self.lattices[place]
        low, width = lattice.lower * lattice.grid - centre, _width(lattice)
        if power == 2:
            return [low**2, low**2 + low * width, (low + width) ** 2]
        return [(low + width * Fraction(i, self.degree)) ** power for i in range(self.degree + 1)]


@cached
def _count_of(vector: Vector) -> Expression:
    return Cast(argument=vector.sum({}), type=INT64)


def _width(lattice: Lattice) -> Fraction:
    return (lattice.upper - lattice.lower) * lattice.grid


def powers(count: int, degree: int) -> list[tuple[int, ...]]:
    """Returns the powers of each term of so many values."""
    return list(itertools.product(range(degree + 1), repeat=count))


def term(lattice: Lattice, power: int, degree: int) -> Lattice:
    """Returns the lattice of a term of this power."""
    return replace(lattice, offset=0, squared=False, offset_of_square=0, bernstein=(power, degree - power))


def degrees(
    columns: Sequence[AggregateColumn],
    shifted: Collection[Expression | None],
    is_nullable: Callable[[Expression], bool],
) -> dict[Moments, int]:
    """Returns of which values a vector is measured, and of which degree: of means, covariances, and sums whose rows are
    counted 1, of variances and what needs them 2.

    Args:
        shifted: Values to whose sums numbers of rows are added.
    """
    pairs = [(c.function, (values_of(c), c.filter)) for c in columns if isinstance(c.function, PairAggregate)]
    found = {own: 1 for function, own in pairs if function.reads_both and len(own[0]) == 2}
    for function, own in pairs:
        if own in found:
            found[own] = max(found[own], function.degree)
    counted = {_rows_of((c.argument, c.filter), is_nullable) for c in columns if c.function is COUNT}
    for column in columns:
        side = column.argument, column.filter
        is_sum = column.function is SUM and (column.argument in shifted or _rows_of(side, is_nullable) in counted)
        is_square = column.second is not None and len(values_of(column)) == 1  # of a pair of equal values
        if column.argument is None or not (column.function.is_moment or is_sum or is_square):
            continue
        degree = 2 if is_square or isinstance(column.function, Spread) else 1
        own = pair_with(column.argument, column.filter, found, is_nullable) or ((column.argument,), column.filter)
        found[own] = max(found.get(own, 1), degree)
    return found


def values_of(column: AggregateColumn) -> tuple[Expression, ...]:
    """Returns the different values that an aggregate reads, in the order of their texts."""
    return tuple(sorted({v for v in (column.argument, column.second) if v is not None}, key=repr))


def pair_with(
    value: Expression, kept: Expression | None, vectors: dict[Moments, int], is_nullable: Callable[[Expression], bool]
) -> Moments | None:
    """Returns the pair that a value is one of, over the rows in which it is not NULL."""
    for values, own in vectors:
        others = [other for other in values if other != value]
        if own == kept and value in values and len(values) == 2 and not any(map(is_nullable, others)):
            return values, own
    return None


def _rows_of(side: Side, is_nullable: Callable[[Expression], bool]) -> Side:
    """Returns what tells which rows have the value: that are NULL in it left out."""
    value, kept = side
    return (value if value is not None and is_nullable(value) else None), kept
