"""What a synopsis measures: columns, then pairs and triples of them in as many groups as noise lets be told apart.

Three rounds of ordinary counts by public groups. What is asked in a round follows from what the rounds before released,
and from nothing else: how many groups a column has in pairs and triples, how the loss is divided, and which triples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpquery.catalog.names import quoted
from dpquery.synopsis.axes import MISSING, Axis, Groups
from dpquery.synopsis.model import Floats, Marginal, nonnegative

FIRST = Fraction(1, 10)
"""The share of the loss for the first numbers of all columns."""
AIM, MOST_ALONE = 0.05, Fraction(8, 10)
"""Columns get more where noise is a larger part of their rows, up to a share."""
OF_TRIPLES = Fraction(4, 10)
"""Of what is left for combinations, where triples have at least so many groups in each column:"""
LEAST_GROUPS = 4
MOST_TRIPLES = 60
RESOLUTION = 1.0
"""A cell of a combination has at least so many rows, in standard deviations of its noise, if columns were independent."""
CELLS_KEPT, OF_MEASURES, CLEAR = 32, 64, 2.0
"""Of a range the cells that are kept apart, and how many deviations of noise one has at least."""
MEAN_SIZE = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Numbers of rows by groups of cells of some columns.

    Attributes:
        columns: The places of the axes.
        groups: For each the group of each of its cells.
    """

    columns: tuple[int, ...]
    groups: tuple[Groups, ...]

    def sql(self, table: str, axes: Sequence[Axis]) -> str:
        """Returns the query, with a column for each axis and the number of rows last."""
        pairs = zip(self.columns, self.groups, strict=True)
        keys = [f"{axes[i].sql(groups)} AS k{place}" for place, (i, groups) in enumerate(pairs)]
        numbers = ", ".join(str(place + 1) for place in range(len(keys)))
        return f"SELECT {', '.join(keys)}, COUNT(*) AS n FROM {quoted(table)} GROUP BY {numbers}"

    def marginal(
        self, axes: Sequence[Axis], keys: Sequence[Sequence[int]], numbers: Sequence[int], deviation: float
    ) -> Marginal:
        """Returns what was released for it; what is missing where no NULL is declared is left out."""
        found = np.zeros(tuple(int(groups.max()) + 1 for groups in self.groups))
        kept, places = np.ones(len(numbers), dtype=bool), []
        for i, groups, key in zip(self.columns, self.groups, keys, strict=True):
            codes = np.asarray(key, dtype=np.int64)
            if not axes[i].nullable:
                kept &= codes != MISSING
            places.append(np.where(codes == MISSING, groups[-1], codes))
        found[tuple(place[kept] for place in places)] = np.asarray(numbers, dtype=np.float64)[kept]
        deviations = np.full(found.size, deviation)
        return Marginal(columns=self.columns, groups=self.groups, numbers=found.ravel(), variances=deviations**2)


def alone(axes: Sequence[Axis]) -> list[Question]:
    """Returns the questions for each column by itself, cell by cell."""
    return [Question(columns=(i,), groups=(axis.whole,)) for i, axis in enumerate(axes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the first round says.

    Attributes:
        axes: Those that were asked, with cells of ranges merged that have too few rows.
        merged: For each the cell of its first cells.
        within: For each how its first cells share their rows.
        marginals: The numbers of rows by these axes.
        total: The number of rows.
        deviation: Of the noise of a first number.
    """

    axes: tuple[Axis, ...]
    merged: tuple[Groups, ...]
    within: tuple[Floats, ...]
    marginals: tuple[Marginal, ...]
    total: float
    deviation: float

    def shares(self, marginals: Sequence[Marginal]) -> tuple[Floats, ...]:
        """Returns the distribution of each column's cells, by the numbers of each column that have the least noise."""
        best = {m.columns[0]: m for m in sorted(marginals, key=lambda m: -float(m.variances.mean())) if len(m.columns) == 1}
        found = [nonnegative(best[i].numbers) + 1e-3 for i in range(len(self.axes))]
        return tuple(one / one.sum() for one in found)


def settle(axes: Sequence[Axis], marginals: Sequence[Marginal]) -> Settled:
    """Returns what the first round says."""
    deviation = float(np.sqrt(marginals[0].variances[0]))
    total = max(1.0, float(np.median([one.numbers.sum() for one in marginals])))
    merged, kept, found = [], [], []
    for i, (axis, one) in enumerate(zip(axes, marginals, strict=True)):
        groups = np.arange(axis.size)
        if axis.edges:
            share = max(1 / (OF_MEASURES if axis.is_measure else CELLS_KEPT), CLEAR * deviation / total)
            groups = merge(axis, nonnegative(one.numbers) / total, share)
        merged.append(groups)
        kept.append(_coarser(axis, groups))
        added = [np.bincount(groups, values) for values in (one.numbers, one.variances)]
        found.append(Marginal(columns=(i,), groups=(np.arange(len(added[0])),), numbers=added[0], variances=added[1]))
    within = tuple(nonnegative(one.numbers) + 1e-9 for one in marginals)
    return Settled(
        axes=tuple(kept),
        merged=tuple(merged),
        within=within,
        marginals=tuple(found),
        total=total,
        deviation=deviation,
    )


def _coarser(axis: Axis, groups: Groups) -> Axis:
    if not axis.edges:
        return axis
    first = [i for i in range(axis.plain) if i == 0 or groups[i] != groups[i - 1]]
    return replace(axis, edges=(*(axis.edges[i] for i in first), axis.edges[-1]))


def merge(axis: Axis, shares: Floats, least: float) -> Groups:
    """Returns the group of each cell: groups have at least a share of the rows, but for the last; NULL is one of its own.

    Args:
        shares: For each cell its share of the rows.
    """
    order = np.arange(axis.plain) if axis.is_ordered else np.argsort(-shares[: axis.plain], kind="stable")
    groups, group, held, left = np.zeros(axis.size, dtype=np.int64), 0, 0.0, float(shares[: axis.plain].sum())
    for cell in order:
        groups[cell] = group
        held, left = held + shares[cell], left - shares[cell]
        if held >= least and left >= least:
            group, held = group + 1, 0.0
    if axis.nullable:
        groups[-1] = group + 1
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the loss that is left is divided: shares of the whole for columns again, for pairs and for triples."""

    alone: Fraction
    pairs: Fraction
    triples: Fraction


def divide(settled: Settled, is_pure: bool) -> Division:
    """Returns how the loss that is left is divided.

    Columns by themselves get so much that noise is a twentieth of their rows, if it can be; triples get some where there
    are enough rows to tell them apart.
    """
    columns = len(settled.axes)
    power = 1 if is_pure else 2
    noise = MEAN_SIZE * settled.deviation / settled.total * float(np.mean([axis.size for axis in settled.axes]))
    wanted = Fraction(min(1.0, float(FIRST) * (noise / AIM) ** power)).limit_denominator(1000)
    if columns == 1:
        return Division(alone=1 - FIRST, pairs=Fraction(0), triples=Fraction(0))
    rest = 1 - max(FIRST, min(MOST_ALONE, wanted))
    triples = rest * OF_TRIPLES if columns > 2 else Fraction(0)
    if triples and _groups(settled, 3, triples, is_pure) < LEAST_GROUPS:
        triples = Fraction(0)
    return Division(alone=1 - rest - FIRST, pairs=rest - triples, triples=triples)


def _asked(columns: int, size: int) -> int:
    return min(math.comb(columns, size), MOST_TRIPLES if size == 3 else math.comb(columns, size))


def _least(settled: Settled, size: int, share: Fraction, is_pure: bool) -> float:
    """Returns the least share of the rows of a group in combinations of so many columns."""
    columns = len(settled.axes)
    more = _asked(columns, size) / columns * float(FIRST / share)
    deviation = settled.deviation * (more if is_pure else math.sqrt(more))
    return min(0.5, (RESOLUTION * deviation / settled.total) ** (1 / size))


def _groups(settled: Settled, size: int, share: Fraction, is_pure: bool) -> float:
    return 1 / _least(settled, size, share, is_pure)


def combinations(
    settled: Settled, shares: Sequence[Floats], size: int, share: Fraction, is_pure: bool, worth: Sequence[Floats] = ()
) -> list[Question]:
    """Returns the questions for pairs or triples of columns.

    Args:
        shares: Of the cells of each column.
        size: 2 or 3.
        share: Of the loss, for all of them together.
        worth: How much pairs depend on each other, for each pair of columns: triples with the largest sums are asked.
    """
    least = _least(settled, size, share, is_pure)
    groups = [merge(axis, one, least) for axis, one in zip(settled.axes, shares, strict=True)]
    several = [i for i, one in enumerate(groups) if one.max() > 0]
    chosen = list(itertools.combinations(several, size))
    if len(worth):
        chosen.sort(key=lambda some: -sum(float(worth[a][b]) for a, b in itertools.combinations(some, 2)))
    asked = sorted(chosen[: _asked(len(settled.axes), size)])
    return [Question(columns=some, groups=tuple(groups[i] for i in some)) for some in asked]


def dependence(columns: int, pairs: Sequence[Marginal]) -> Floats:
    """Returns for each pair of columns how far its rows are from those of independent columns, beyond its noise; shape
    (columns, columns)."""
    found = np.zeros((columns, columns))
    for one in pairs:
        table = one.numbers.reshape(one.shape)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(1.0, float(table.sum()))
        noise = MEAN_SIZE * math.sqrt(float(one.variances[0])) * table.size
        found[one.columns] = max(0.0, float(np.abs(table - expected).sum()) - noise)
    return found
