"""The distribution of rows that noisy marginals tell of, and rows drawn from it: post-processing.

Of all distributions it is the one that is most likely, where each marginal has Gaussian errors and the least informed
table is the likeliest: it maximises - sum of (y - N mu)^2 / (2 sigma^2) - s N KL(p || p0), where mu is a marginal of p,
p0 the product of the columns' own distributions and s small. So p is proportional to p0 exp(sum of theta), with one
theta for each measured cell and theta = (y - N mu) / (s sigma^2): cells whose noise is large against their rows stay
near what others tell of them. Where cells overlap in any way, sums over all combinations are out of reach; p is a
sample of rows. They get weights by which each marginal in turn fulfils its equation (a soft iterative proportional
fitting), then they are drawn again by these weights, and each column anew given the others (Gibbs sampling).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpquery.synopsis.pseudorandom import Scattered

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
STRENGTH = 5.0
"""s times the median deviation of noise: how much the least informed table counts. Cells of independent columns hold
about as many rows as their noise deviates, so that it moves them by the same part of their rows under any noise."""
ROUNDS, PASSES, CALM = 16, 3, 5
"""Of weighing and drawing anew, at most; of all marginals in each; and of those that could finish, until it ends."""
LEAST_EVEN, LARGEST = 0.4, 2.0
"""The share of rows that weights leave effective, and the largest change of a theta, before rows are drawn anew."""
CHUNK = 1 << 16
EXCHANGES, CHOICE = 60, 4
"""Of rows among those that are taken, at most; and among how many times as many they are chosen."""
LARGEST_KEPT, MOST_PLACES = 3, 40_000_000
"""Columns of the tables that rows keep when some are taken; and rows of all these tables together, at most."""
FARTHEST = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """Noisy numbers of rows by groups of cells of some columns.

    Attributes:
        columns: The places of its columns.
        groups: For each of them the group of each cell.
        numbers: The noisy numbers, groups of the last column next to each other; shape (product of groups,).
        variances: Of their noise, of the same shape.
    """

    columns: tuple[int, ...]
    groups: tuple[Integers, ...]
    numbers: Floats
    variances: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups each column has."""
        return tuple(int(groups.max()) + 1 for groups in self.groups)

    def places(self, rows: Integers) -> Integers:
        """Returns the cell of each row, shape (rows,)."""
        found = np.zeros(len(rows), dtype=np.int64)
        for column, groups, size in zip(self.columns, self.groups, self.shape, strict=True):
            found = found * size + groups[rows[:, column]]
        return found


class Model:
    """Rows of cells, shape (rows, columns), that stand for a distribution.

    Args:
        alone: For each column the distribution of its cells.
        total: N, the number of rows that marginals add up to.
        rows: The number of rows of the sample.
        marginals: What is known.
        strength: s.
        scattered: What rows are drawn with.
    """

    def __init__(
        self,
        alone: Sequence[Floats],
        total: float,
        rows: int,
        marginals: Sequence[Marginal],
        strength: float,
        scattered: Scattered,
    ) -> None:
        self._marginals, self._total, self._strength, self._scattered = marginals, total, strength, scattered
        self._alone = [np.log(np.maximum(one, 1e-9)).astype(np.float32) for one in alone]  # each (cells,)
        self._thetas = [np.zeros(len(marginal.numbers)) for marginal in marginals]  # each (product of groups,)
        self.rows = np.stack([_evenly(one, rows, scattered)[scattered.order(rows)] for one in alone], axis=1)
        self._logs = np.zeros(rows)

    def fit(self) -> None:
        """Moves the rows until they fulfil what the marginals say, as far as noise lets it be known."""
        calm = 0
        for _ in range(ROUNDS):
            calm += all(self._weigh(LEAST_EVEN) for _ in range(PASSES))
            self._draw_anew()
            if calm == CALM:
                return

    def sample(self, rows: int) -> Integers:
        """Returns rows of equal weight, in an order that says nothing."""
        if rows > len(self.rows):
            self._take(rows)
            self._draw_anew()
        for _ in range(3 * PASSES):
            self._weigh(0.0)
        taken = np.bincount(_evenly(self._weights, rows, self._scattered), minlength=len(self.rows))
        taken = self._balanced(taken)  # (rows of the sample,): how often each
        return np.repeat(self.rows, taken, axis=0)[self._scattered.order(rows)]

    def _balanced(self, taken: Integers) -> Integers:
        """Returns how often each row is taken, so that marginals of those that are come near those of the weights: rows
        of crowded cells are exchanged for others as long as that helps."""
        at = self._kept()  # each (rows,)
        whole, weights = int(taken.sum()), self._weights
        aims = [np.bincount(places, weights) * (whole / self._total) for places in at]  # each (cells,)

        def crowded(counts: Integers) -> tuple[Floats, float]:
            score, apart = np.zeros(len(counts)), 0.0
            for places, aim in zip(at, aims, strict=True):
                over = np.bincount(places, counts, minlength=len(aim)) - aim  # (cells,)
                score += (over / (aim + 1))[places]  # (rows,)
                apart += float((over**2 / (aim + 1)).sum())
            return score, apart

        score, apart = crowded(taken)
        exchanged = whole // 20
        for _ in range(EXCHANGES):
            if exchanged == 0:
                break
            there = np.flatnonzero(taken)
            fewer = self._some(there, score[there], exchanged)
            more = self._some(np.arange(len(taken)), -score, exchanged)
            others = taken.copy()
            np.subtract.at(others, fewer, 1)
            np.add.at(others, more, 1)
            next_score, next_apart = crowded(others)
            if next_apart < apart:
                taken, score, apart = others, next_score, next_apart
            else:
                exchanged //= 2
        return taken

    def _kept(self) -> list[NDArray[np.int32]]:
        """Returns the cell of each row in the measured tables, and in those by all pairs and triples of columns as far
        as there is room: the fitted distribution tells of them all, and taking whole rows shall not blur them."""
        found = [marginal.places(self.rows).astype(np.int32) for marginal in self._marginals]
        room = max(0, MOST_PLACES // len(self.rows) - len(found))
        columns, sizes = range(len(self._alone)), [len(one) for one in self._alone]
        sets = itertools.chain.from_iterable(
            itertools.combinations(columns, size) for size in range(2, LARGEST_KEPT + 1)
        )
        for some in itertools.islice(sets, room):
            cells = np.ravel_multi_index(tuple(self.rows[:, some].T), tuple(sizes[i] for i in some))  # (rows,)
            found.append(np.unique(cells, return_inverse=True)[1].astype(np.int32))
        return found

    def _some(self, places: Integers, scores: Floats, count: int) -> Integers:
        """Returns so many of the places with the highest scores, chosen among a few times as many."""
        best = min(len(places), CHOICE * count)
        found = places[np.argpartition(-scores, best - 1)[:best]]
        chosen: Integers = found[self._scattered.order(best)[:count]]
        return chosen

    @property
    def _weights(self) -> Floats:
        weights: Floats = np.exp(self._logs - self._logs.max())
        weights *= self._total / weights.sum()
        return weights

    def _weigh(self, least_even: float) -> bool:
        """Gives rows the weights that fulfil each marginal's equation once; False where they got too uneven for it."""
        for marginal, theta in zip(self._marginals, self._thetas, strict=True):
            places = marginal.places(self.rows)  # (rows,)
            found = np.bincount(places, self._weights, minlength=len(theta)).astype(np.float64)  # as theta: (groups,)
            change = np.clip(_change(found, theta, marginal, self._strength), -LARGEST, LARGEST)
            part = 1.0
            while least_even and _evenness(self._logs + part * change[places]) < least_even and part > 0.01:
                part *= 0.6
            theta += part * change
            self._logs = self._logs + part * change[places]  # (rows,)
            if part < 0.3:
                return False
        return True

    def _take(self, rows: int) -> None:
        """Draws rows by their weights."""
        self.rows = self.rows[_evenly(self._weights, rows, self._scattered)]
        self._logs = np.zeros(rows)

    def _draw_anew(self) -> None:
        """Draws rows by their weights, and then each cell given the row's others."""
        self._take(len(self.rows))
        for column in self._scattered.order(len(self._alone)).tolist():
            tables = [self._given(column, m, t) for m, t in zip(self._marginals, self._thetas, strict=True)]
            for start in range(0, len(self.rows), CHUNK):
                part = self.rows[start : start + CHUNK]  # (some rows, columns), a view: cells are drawn in place
                logs = np.tile(self._alone[column], (len(part), 1))  # (some rows, cells of the column)
                for table in tables:
                    if table is not None:
                        others, change = table
                        logs += change[others.places(part)]  # change: (groups of the others, cells of the column)
                logs -= logs.max(axis=1, keepdims=True)
                sums = np.cumsum(np.exp(logs, out=logs), axis=1, out=logs)
                drawn = self._scattered.numbers(len(part)).astype(np.float32) * sums[:, -1]  # (some rows,)
                part[:, column] = np.minimum((sums < drawn[:, None]).sum(axis=1), sums.shape[1] - 1)

    def _given(self, column: int, marginal: Marginal, theta: Floats) -> tuple[Marginal, NDArray[np.float32]] | None:
        """Returns the other columns of a marginal, and by their groups the thetas of a column's cells."""
        if column not in marginal.columns:
            return None
        at = marginal.columns.index(column)
        moved = np.moveaxis(theta.reshape(marginal.shape), at, -1)[..., marginal.groups[at]]  # (groups of each, cells)
        flat = moved.reshape(-1, moved.shape[-1]).astype(np.float32)  # (product of the others' groups, cells)
        columns = tuple(c for c in marginal.columns if c != column)
        groups = tuple(g for c, g in zip(marginal.columns, marginal.groups, strict=True) if c != column)
        empty = np.zeros(0)
        return Marginal(columns=columns, groups=groups, numbers=empty, variances=empty), flat


def _change(found: Floats, theta: Floats, marginal: Marginal, strength: float) -> Floats:
    """Returns d of each cell, the root of n e^d = y - s sigma^2 (theta + d), by Newton's method: the left side less the
    right one is convex and increasing, and the start lies right of the root or at it."""
    slack = np.maximum(strength * marginal.variances, 1e-9)
    rows, rest = np.maximum(found, 1e-9), marginal.numbers - slack * theta
    above = np.minimum(np.log(np.maximum(rest, rows) / rows), np.maximum(rest, 0) / slack)
    d: Floats = np.where(rest > rows, above, 0.0)
    for _ in range(30):
        grown = rows * np.exp(d)
        d = np.clip(d - (grown + slack * d - rest) / (grown + slack), -FARTHEST, FARTHEST)
    return d


def _evenness(logs: Floats) -> float:
    weights = np.exp(logs - logs.max())
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))


def _evenly(weights: Floats, count: int, scattered: Scattered) -> Integers:
    """Returns places drawn by weights, each as often as its weight says but for less than one."""
    ends = np.cumsum(weights)
    at = (np.arange(count) + scattered.numbers(1)[0]) * (ends[-1] / count)
    places: Integers = np.minimum(np.searchsorted(ends, at, side="right"), len(weights) - 1)
    return places


def nonnegative(numbers: Floats) -> Floats:
    """Returns the nearest numbers of at least 0 with the same sum, which must be above 0."""
    ordered = np.sort(numbers)[::-1]
    over = (np.cumsum(ordered) - max(float(numbers.sum()), 1.0)) / np.arange(1, len(numbers) + 1)
    last = np.flatnonzero(ordered > over)[-1]
    nearest: Floats = np.maximum(numbers - over[last], 0.0)
    return nearest
