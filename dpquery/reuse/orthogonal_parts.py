"""Least squares over whole marginals in closed form: they measure orthogonal parts, and each part is a mean.

Where each table has all cells of its axes, n_A of them, and noise of weight w_A, the part of the unknown table that
varies over the axes B and no fewer is measured by every table A that holds B. With
p_B = sum over A that hold B of w_A / n_A, the estimate of a sum q of cells is q' x, x = sum over B of x_B, each x_B the
mean of what the tables say of it, weighted by w_A / n_A / p_B; its variance is the sum of |q_B|^2 / p_B, for vectors
over the axes of q, over their number of cells.

Source:
    Xiao, He, Zhang, Kifer 2023 (ResidualPlanner), as for `strategy`; docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import Axes, Floats, Functionals, Layout, Sums

MOST_READ = 50_000_000
"""Cells of tables, times kinds of groups that the exactness of one answer is computed for."""
MOST_PARTS = 20_000
"""Parts of tables, each counted for each of them."""


def are_marginals(tables: Sequence[Sums], sizes: Sequence[int]) -> bool:
    """Whether each table has a cell for each combination of places of its axes, without signs, and all rows of the
    others."""
    return sum(2 ** len(table.keys) for table in tables) <= MOST_PARTS and all(
        table.rules.keys() == {*table.keys}
        and all(
            rule.count == sizes[axis] and rule.single and len(rule.kept) == sizes[axis] and rule.signs is None
            for axis, rule in table.rules.items()
        )
        for table in tables
    )


class OrthogonalParts:
    """Marginals as measurements of orthogonal parts, which the normal equations of them fall into.

    Args:
        weights: Of each table the sum of the inverses of the variances of its measures.
        sizes: The places of each axis.
    """

    def __init__(self, layout: Layout, tables: Sequence[Sums], weights: Sequence[float], sizes: Sequence[int]) -> None:
        self._layout, self._tables, self._sizes = layout, tables, sizes
        self._known: dict[Axes, float] = {}
        for table, weight in zip(tables, weights, strict=True):
            for part in _subsets(tuple(sorted(table.keys))):
                self._known[part] = self._known.get(part, 0.0) + weight / table.cells

    def is_little_work(self, groups: int) -> bool:
        """Whether so many groups can be asked."""
        return groups * sum(table.cells for table in self._tables) <= MOST_READ

    def solution(self, cells: Sequence[Floats]) -> Floats:
        """Returns unknown numbers, given for each table what its cells have, times their weights."""
        found: dict[Axes, Floats] = {}
        for table, own in zip(self._tables, cells, strict=True):
            values = own[0]  # (blocks of each key)
            for place, axis in enumerate(table.keys):
                values = table.rules[axis].up(values, place, 1)  # in the order of places
            for part in _subsets(table.keys):
                rest = tuple(place for place, axis in enumerate(table.keys) if axis not in part)
                share = math.prod(self._sizes[axis] for axis in part) / table.cells
                mean = values.sum(axis=rest) * share  # (places of each axis of the part)
                found[part] = found[part] + mean if part in found else mean
        made, given = np.zeros(self._layout.size), set[Axes]()
        for have, view in self._layout.views(made):
            cells_of = math.prod(self._sizes[axis] for axis in have)
            for part in _subsets(have):
                if part in found and part not in given:
                    given.add(part)
                    values = found[part] / (cells_of * self._known[part])  # (places of each axis of the part)
                    for place in range(len(part)):
                        values = values - values.mean(axis=place, keepdims=True)
                    shape = [self._sizes[axis] if axis in part else 1 for axis in have]
                    view += values.reshape(1, *shape)  # (1, places of each axis), 1 along axes beyond the part
        return made

    def asked(self, own: Sums, factors: Sequence[float], groups: NDArray[np.int64]) -> Functionals:
        """Returns the estimates of some groups, by axis, of a table that varies over axes of one set alone: a part that
        no table measures is nothing in it."""
        (factor,), axes, count = factors, tuple(sorted(own.rules)), len(groups)
        means, centred = dict[int, Floats](), dict[int, Floats]()
        for axis in axes:
            rule = own.rules[axis]
            number = groups[:, own.keys.index(axis)] if axis in own.keys else np.zeros(count, dtype=np.int64)
            signs = np.ones(self._sizes[axis]) if rule.signs is None else rule.signs
            inside = np.where(rule.codes == number[:, None], signs, 0.0)  # (groups, places)
            means[axis] = inside.mean(axis=1)  # (groups,)
            centred[axis] = inside - means[axis][:, None]  # (groups, places)
        size, variances = math.prod(self._sizes[axis] for axis in axes), np.zeros(count)
        for part in _subsets(axes):
            norms = np.ones(count)
            for axis in axes:
                kept = (centred[axis] ** 2).sum(axis=1) if axis in part else self._sizes[axis] * means[axis] ** 2
                norms = norms * kept  # (groups,)
            if part in self._known:
                variances += norms / (size * self._known[part])
        cells = [self._read(table, means, centred, count) * factor for table in self._tables]  # each (groups, 1, cells)
        return Functionals(factor**2 * variances, cells)

    def _read(self, table: Sums, means: dict[int, Floats], centred: dict[int, Floats], count: int) -> Floats:
        """Returns what of each cell of a table is in the estimates of some groups, shape (groups, 1, cells)."""
        both = tuple(axis for axis in table.keys if axis in means)
        made: Floats = np.zeros((count, *(1,) * len(table.keys)))
        for part in _subsets(both):
            values: Floats = np.full((count, *(1,) * len(table.keys)), 1 / (table.cells * self._known[part]))
            for axis, mean in means.items():
                if axis not in part:
                    values = values * mean.reshape(-1, *(1,) * len(table.keys))  # still 1 along each key
            for axis in part:
                shape = [count, *(self._sizes[axis] if axis == other else 1 for other in table.keys)]
                values = values * centred[axis].reshape(shape)  # (groups, places of each key), 1 before it is met
            made = made + values
        made = np.broadcast_to(made, (count, *(self._sizes[axis] for axis in table.keys)))  # over all places
        for place, axis in enumerate(table.keys):
            made = table.rules[axis].down(made, place + 1)  # (groups, blocks of each key)
        return made.reshape(count, 1, -1)


def _subsets(axes: Axes) -> Iterator[Axes]:
    return itertools.chain.from_iterable(itertools.combinations(axes, size) for size in range(len(axes) + 1))
