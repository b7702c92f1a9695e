"""Moments of one value as a vector of Bernstein terms, from which its count, sums and sums of squares follow.

With z from 0 to 1 between the bounds, the terms C(d, i) z^i (1 - z)^(d - i) add up to 1 in each row. One row moves the
vector by 1 in all, so that under Laplace noise each term has the whole loss: docs/proofs/weights.md, Theorem 10.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.kernel.plan import Lattice
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.derivations import number
from dpquery.plan.aggregates.moments import Spread
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Cast, Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, INT64

Side = tuple[Expression | None, Expression | None]
"""A value, and the condition that its rows fulfil."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The noisy terms of a value, in the order of their power.

    Attributes:
        lattice: Of the value, with its bounds.
        terms: Their columns, float64, in the unit of the value to the power of the degree.
    """

    lattice: Lattice
    terms: tuple[Column, ...]

    @property
    def degree(self) -> int:
        """Of the terms."""
        return len(self.terms) - 1

    @property
    def width(self) -> Fraction:
        """Of the range, in the unit of the value."""
        return (self.lattice.upper - self.lattice.lower) * self.lattice.grid

    @property
    def count(self) -> Expression:
        """The number of rows in which the value is not NULL, rounded."""
        return Cast(argument=self._sum([Fraction(1)] * len(self.terms)), type=INT64)

    def powers(self, power: int, centre: Fraction) -> Expression:
        """Returns the sum of (value - centre)^power: z^k is the sum over i of C(i, k) / C(d, k) times term i."""
        low, width = self.lattice.lower * self.lattice.grid - centre, self.width
        if power == 1:
            return self._sum([low + width * Fraction(i, self.degree) for i in range(len(self.terms))])
        middle, last = [low**2, low**2 + low * width], (low + width) ** 2
        return self._sum([*middle, last])

    def _sum(self, factors: Sequence[Fraction]) -> Expression:
        """Returns the terms times these factors, added up."""
        parts: list[Expression] = []
        for factor, term in zip(factors, self.terms, strict=True):
            made = factor / self.width**self.degree
            if made:
                parts.append(term if made == 1 else call("multiply", (term, number(made, FLOAT64))))
        total: Expression = parts[0] if parts else number(Fraction(0), FLOAT64)
        for part in parts[1:]:
            total = call("add", (total, part))
        return total


def degrees(columns: Sequence[AggregateColumn], is_nullable: Callable[[Expression], bool]) -> dict[Side, int]:
    """Returns of which values a vector is measured, and of which degree: of means and sums whose rows are counted 1,
    of variances 2. Values of pairs have none."""
    pairs = {side for c in columns if isinstance(c.function, PairAggregate) for side in _sides_of(c)}
    found: dict[Side, int] = {}
    for column in columns:
        side = column.argument, column.filter
        if column.function.is_moment and side not in pairs:
            found[side] = max(found.get(side, 1), 2 if isinstance(column.function, Spread) else 1)
    counted = {_rows_of((c.argument, c.filter), is_nullable) for c in columns if c.function is COUNT}
    for column in columns:
        side = column.argument, column.filter
        if column.function is SUM and side not in pairs and _rows_of(side, is_nullable) in counted:
            found.setdefault(side, 1)
    return found


def _sides_of(column: AggregateColumn) -> Collection[Side]:
    return (column.argument, column.filter), (column.second, column.filter)


def _rows_of(side: Side, is_nullable: Callable[[Expression], bool]) -> Side:
    """Returns what tells which rows have the value: that are NULL in it left out."""
    value, kept = side
    return (value if value is not None and is_nullable(value) else None), kept


def term(lattice: Lattice, power: int, degree: int) -> Lattice:
    """Returns the lattice of a term of this power."""
    return replace(lattice, offset=0, squared=False, offset_of_square=0, bernstein=(power, degree - power))
