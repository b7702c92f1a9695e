"""What a synopsis measures: columns, then pairs and triples of them in as many groups as noise lets be told apart.

Three rounds of ordinary counts by public groups. What is asked in a round follows from what the rounds before released,
and from nothing else: how many groups a column has in pairs and triples, how the loss is divided, and which triples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpquery.catalog.names import quoted
from dpquery.synopsis.axes import MISSING, Groups, SynopsisAxis
from dpquery.synopsis.model import Floats, Marginal, nonnegative

FIRST = Fraction(1, 10)
"""The share of the loss for the first numbers of all columns."""
AIM, MOST_ALONE = 0.02, Fraction(8, 10)
"""Columns get more where noise is a larger part of their rows, up to a share."""
OF_ALL_PAIRS, OF_TRIPLES = Fraction(3, 10), Fraction(6, 10)
"""Of what is left then, what all pairs get; and of the rest the triples of columns that depend on each other."""
CERTAIN = 3.0
"""Deviations by which the rows of dependent columns are elsewhere."""
MOST_TRIPLES, LEAST_GROUPS = 25, 3
"""How many triples are asked, and how many groups each of their columns has at least."""
RESOLUTION = 1.0
"""The rows that a cell of a combination has at least if columns are independent, in deviations of its noise."""
CELLS_KEPT, OF_MEASURES, CLEAR = 32, 64, 2.0
"""Of a range the cells that are kept apart, and how many deviations of noise one has at least."""
MEAN_SIZE = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalQuestion:
    """Numbers of rows by groups of cells of some columns.

    Attributes:
        columns: The places of the axes.
        groups: For each the group of each of its cells.
    """

    columns: tuple[int, ...]
    groups: tuple[Groups, ...]

    def sql(self, table: str, axes: Sequence[SynopsisAxis]) -> str:
        """Returns the query, with a column for each axis and the number of rows last."""
        pairs = zip(self.columns, self.groups, strict=True)
        keys = [f"{axes[i].sql(groups)} AS k{place}" for place, (i, groups) in enumerate(pairs)]
        numbers = ", ".join(str(place + 1) for place in range(len(keys)))
        return f"SELECT {', '.join(keys)}, COUNT(*) AS n FROM {quoted(table)} GROUP BY {numbers}"

    def marginal(
        self, axes: Sequence[SynopsisAxis], keys: Sequence[Sequence[int]], numbers: Sequence[int], deviation: float
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


def alone(axes: Sequence[SynopsisAxis]) -> list[MarginalQuestion]:
    """Returns the questions for each column by itself, cell by cell."""
    return [MarginalQuestion(columns=(i,), groups=(axis.whole,)) for i, axis in enumerate(axes)]


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

    axes: tuple[SynopsisAxis, ...]
    merged: tuple[Groups, ...]
    within: tuple[Floats, ...]
    marginals: tuple[Marginal, ...]
    total: float
    deviation: float

    def shares(self, marginals: Sequence[Marginal]) -> tuple[Floats, ...]:
        """Returns the distribution of each column's cells, by the numbers of each column that have the least noise."""
        best = {
            m.columns[0]: m for m in sorted(marginals, key=lambda m: -float(m.variances.mean())) if len(m.columns) == 1
        }
        found = [nonnegative(best[i].numbers) + 1e-3 for i in range(len(self.axes))]
        return tuple(one / one.sum() for one in found)


def settle(axes: Sequence[SynopsisAxis], marginals: Sequence[Marginal]) -> Settled:
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
        added = [np.bincount(groups, values).astype(np.float64) for values in (one.numbers, one.variances)]
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


def _coarser(axis: SynopsisAxis, groups: Groups) -> SynopsisAxis:
    if not axis.edges:
        return axis
    first = [i for i in range(axis.plain) if i == 0 or groups[i] != groups[i - 1]]
    return replace(axis, edges=(*(axis.edges[i] for i in first), axis.edges[-1]))


def merge(axis: SynopsisAxis, shares: Floats, least: float) -> Groups:
    """Returns the group of each cell: groups have at least a share of the rows, but for the last; NULL is its own.

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


def for_columns(settled: Settled, is_pure: bool) -> Fraction:
    """Returns the share of the loss for columns by themselves: so much that noise is a fiftieth of their rows, if
    that can be."""
    if len(settled.axes) == 1:
        return Fraction(1)
    size = float(np.mean([axis.size for axis in settled.axes]))
    noise = MEAN_SIZE * settled.deviation / settled.total * size
    wanted = float(FIRST) * (noise / AIM) ** (1 if is_pure else 2)
    return max(FIRST, Fraction(min(float(MOST_ALONE), wanted)).limit_denominator(1000))


def least_share(settled: Settled, size: int, asked: int, share: Fraction, is_pure: bool) -> float:
    """Returns the least share of the rows that a group has in combinations of so many columns, if so many are asked."""
    more = asked / len(settled.axes) * float(FIRST / share)
    deviation = settled.deviation * (more if is_pure else math.sqrt(more))
    return float(min(0.5, (RESOLUTION * deviation / settled.total) ** (1 / size)))


def combined(
    settled: Settled,
    shares: Sequence[Floats],
    chosen: Sequence[tuple[int, ...]],
    share: Fraction,
    is_pure: bool,
    crowding: Mapping[tuple[int, ...], float],
) -> list[MarginalQuestion]:
    """Returns the questions for chosen pairs or triples of columns.

    Args:
        shares: Of the cells of each column.
        share: Of the loss, for all of them together.
        crowding: For pairs how many times as many rows as of independent columns are in the cells that have some.
    """
    size, questions = len(chosen[0]), []
    least = least_share(settled, size, len(chosen), share, is_pure)
    for some in chosen:
        pairs = sorted(crowding.get(pair, 1.0) for pair in itertools.combinations(some, 2))
        chain = math.prod(pairs[1 - size :])  # as if it were a chain of its strongest pairs
        groups = resolved([settled.axes[i] for i in some], [shares[i] for i in some], least**size / chain)
        if all(one.max() > 0 for one in groups):
            questions.append(MarginalQuestion(columns=some, groups=groups))
    return questions


def resolved(axes: Sequence[SynopsisAxis], shares: Sequence[Floats], least: float) -> tuple[Groups, ...]:
    """Returns groups of the columns' cells, whose combinations have about a share of the rows if they are independent.

    Columns take an equal part in it. What a column has no cells for is left to those whose values have no order: of
    values beside each other one tells of the other, and finer groups of them tell more of noise.

    Args:
        shares: For each column those of its cells.
        least: The share of a combination.
    """
    part, finest = least ** (1 / len(axes)), [1 / axis.size for axis in axes]
    parts, free = [part] * len(axes), [i for i, axis in enumerate(axes) if not axis.is_ordered]
    while free:
        taken = math.prod(max(parts[i], finest[i]) for i in range(len(axes)) if i not in free)
        part = min(part, (least / taken) ** (1 / len(free)))
        for i in free:
            parts[i] = part
        coarser = [i for i in free if part >= finest[i]]
        if coarser == free:
            break
        free = coarser
    return tuple(merge(axis, one, min(0.5, part)) for axis, one, part in zip(axes, shares, parts, strict=True))


def all_pairs(settled: Settled) -> list[tuple[int, ...]]:
    """Returns the pairs of columns."""
    return list(itertools.combinations(range(len(settled.axes)), 2))


def dependent(pairs: Sequence[Marginal]) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], float]]:
    """Returns of the pairs whose columns depend on each other, beyond what noise may have made, about how many rows are
    elsewhere than if they did not; and how crowded their cells are: how many times as likely two rows share one."""
    worth, crowding = dict[tuple[int, ...], float](), dict[tuple[int, ...], float]()
    for one in pairs:
        table, variances = one.numbers.reshape(one.shape), one.variances.reshape(one.shape)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(1.0, float(table.sum()))
        usual = variances + np.maximum(expected, 0)
        over = float(((table - expected) ** 2 - usual).sum())
        if over > CERTAIN * math.sqrt(2 * float((usual**2).sum())):
            worth[one.columns] = math.sqrt(over * table.size)
            crowding[one.columns] = max(1.0, float((table**2 - variances).sum() / (expected**2).sum()))
    return worth, crowding


def triples_of(columns: int, worth: Mapping[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    """Returns the triples of columns of which two pairs at least depend on each other, those of most worth."""
    found = []
    for some in itertools.combinations(range(columns), 3):
        within = [worth[pair] for pair in itertools.combinations(some, 2) if pair in worth]
        if len(within) >= 2:
            found.append((-sum(within), some))
    return sorted(some for _, some in sorted(found)[:MOST_TRIPLES])
