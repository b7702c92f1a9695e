"""The normal equations of released tables, for unknown numbers over sets of axes: solved at once, or by descent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import Floats, Functionals, Layout, Sums, descended, inverted, spread

KNOWN = 1e-7
"""A question whose residual is larger, relatively, is not determined by what was released."""
MOST_DENSE = 1200
"""Unknown numbers of a system that is inverted once."""
MOST_WORK = 50_000_000
"""Unknown numbers, times tables, times kinds of groups that the exactness of one answer is computed for."""
MOST_SUMS = 2_500
"""Tables times sets of axes of a system that is solved by descent."""


class NormalEquations:
    """Those of some tables.

    Args:
        information: For each table F' W F, shape (coordinates, coordinates), F the factors of its measures.
    """

    def __init__(self, layout: Layout, tables: Sequence[Sums], information: Sequence[Floats]) -> None:
        self._layout, self._tables, self._information = layout, tables, information
        self._coordinates = layout.shapes[0][0]

    def is_little_work(self, groups: int) -> bool:
        """Whether so many groups can be asked."""
        work = groups * self._layout.size * len(self._tables)
        few = len(self._tables) * len(self._layout.sets) <= MOST_SUMS
        return self._layout.size <= MOST_DENSE or (few and work <= MOST_WORK)

    def solution(self, cells: Sequence[Floats]) -> Floats:
        """Returns unknown numbers, given for each table what its cells have, times their weights."""
        right = np.zeros(self._layout.size)  # (unknown numbers,)
        for table, own in zip(self._tables, cells, strict=True):
            self._layout.up(table, own, right)
        found: Floats = self._solve(right[None])[0][0]
        return found

    def asked(self, own: Sums, factors: Sequence[float], groups: NDArray[np.int64]) -> Functionals:
        """Returns the estimates of some groups of a table, by axis, and of a sum of coordinates."""
        count = len(groups)
        cells = np.zeros((count, *(own.rules[axis].count for axis in own.keys)))
        cells[(np.arange(count), *groups.T)] = 1.0  # (groups, blocks of each key)
        rows = np.concatenate([own.up(cells, have).reshape(count, -1) for have in self._layout.sets], axis=1)
        rights = np.zeros((count, self._layout.size))
        for places, factor in zip(self._apart, factors, strict=True):
            rights[:, places] = factor * rows  # rows: (groups, unknown numbers of one coordinate)
        solutions, off = self._solve(rights)
        variances = (rights * solutions).sum(axis=1)  # (groups,)
        return Functionals(variances, self._read(solutions), not np.any(off > KNOWN))

    def _read(self, solutions: Floats) -> list[Floats]:
        """Returns what the cells of each table are by some solutions, shape (solutions, coordinates, cells)."""
        count = len(solutions)
        if self._dense is not None and self._every_row is not None:
            every = solutions[:, self._apart] @ self._every_row.T  # (solutions, coordinates, cells of all tables)
            return np.split(every, np.cumsum([table.cells for table in self._tables])[:-1], axis=2)
        views = [  # each (solutions * coordinates, places of each axis)
            (have, solutions[:, start:end].reshape(count * self._coordinates, *shape[1:]))
            for have, (start, end), shape in zip(
                self._layout.sets, self._layout.spans, self._layout.shapes, strict=True
            )
        ]
        return [
            np.add.reduce([table.down(view, have) for have, view in views]).reshape(count, self._coordinates, -1)
            for table in self._tables
        ]

    @cached_property
    def _preconditioner(self) -> Floats:
        size = self._layout.size
        if self._matrix is not None:
            diagonal: Floats = self._matrix.diagonal()
        else:
            diagonal = np.zeros(size)
            for table, weights in zip(self._tables, self._information, strict=True):
                ones = np.ones((1, *(table.rules[a].count for a in table.keys)))  # (1, blocks of each key)
                for have, view in self._layout.views(diagonal):
                    view += spread(np.diag(weights), table.up(ones, have, power=2))  # (coordinates, places of axes)
        found: Floats = np.divide(1.0, diagonal, out=np.zeros(size), where=diagonal > 0)
        return found

    @cached_property
    def _matrix(self) -> Floats | None:
        """Returns the matrix, where the unknown numbers are few."""
        size = self._layout.size
        if size > MOST_DENSE:
            return None
        normal, own = np.zeros((size, size)), self._apart
        for some in self._in_batches():
            rows = self._every_row
            if rows is None:
                rows = np.concatenate([self._rows(self._tables[number]) for number in some])
            counts = [self._tables[number].cells for number in some]
            for a, b in itertools.product(range(self._coordinates), repeat=2):
                weights = np.repeat([self._information[number][a, b] for number in some], counts)  # (cells,)
                normal[np.ix_(own[a], own[b])] += (rows * weights[:, None]).T @ rows  # rows: (cells, places)
        return normal

    @cached_property
    def _dense(self) -> tuple[Floats, Floats] | None:
        """Returns the matrix and a generalised inverse of it, where the unknown numbers are few."""
        if self._matrix is None:
            return None
        roots = np.sqrt(self._preconditioner)
        return self._matrix, roots[:, None] * inverted(roots[:, None] * self._matrix * roots) * roots

    def _in_batches(self) -> Iterator[list[int]]:
        """Yields the numbers of the tables, about `MOST_DENSE` cells of them at a time."""
        some, cells = list[int](), 0
        for number, table in enumerate(self._tables):
            some, cells = [*some, number], cells + table.cells
            if cells > MOST_DENSE or number + 1 == len(self._tables):
                yield some
                some, cells = [], 0

    @cached_property
    def _every_row(self) -> Floats | None:
        """Returns what `_rows` does of all tables, one after the other, where that is one batch."""
        is_one = sum(table.cells for table in self._tables) <= MOST_DENSE
        return np.concatenate([self._rows(table) for table in self._tables]) if is_one else None

    def _rows(self, table: Sums) -> Floats:
        """Returns for each cell of a table which places of one coordinate it adds up, with their shares."""
        shape = [table.rules[axis].count for axis in table.keys]
        cells = np.eye(table.cells).reshape(-1, *shape)  # each in the place of a coordinate
        return np.concatenate([table.up(cells, have).reshape(table.cells, -1) for have in self._layout.sets], axis=1)

    @cached_property
    def _apart(self) -> NDArray[np.int64]:
        """Returns for each coordinate the places of its unknown numbers, one set of axes after the other."""
        spans = [np.arange(start, end).reshape(self._coordinates, -1) for start, end in self._layout.spans]
        return np.concatenate(spans, axis=1)

    def _normal(self, flat: Floats) -> Floats:
        made = np.zeros(self._layout.size)
        for table, weights in zip(self._tables, self._information, strict=True):
            cells = self._layout.down(table, flat)  # (coordinates, blocks of each key)
            self._layout.up(table, np.tensordot(weights, cells, axes=1), made)
        return made

    def _solve(self, rights: Floats) -> tuple[Floats, Floats]:
        """Returns solutions for some right sides, shape (sides, unknown numbers), and of each the residual relative to
        the right side."""
        if self._dense is not None:
            normal, inverse = self._dense
            x = rights @ inverse
            rests = rights - x @ normal
        else:
            x = np.array([descended(self._normal, right, self._preconditioner) for right in rights])
            rests = rights - np.array([self._normal(each) for each in x])
        roots = np.sqrt(np.where(self._preconditioner > 0, self._preconditioner, 1.0))
        largest = np.abs(rights * roots).max(axis=1, initial=0.0)
        off = np.abs(rests * roots).max(axis=1, initial=0.0)
        far = np.divide(off, largest, out=np.zeros(len(rights)), where=largest > 0)
        return x, np.where(np.any(rights[:, self._preconditioner == 0], axis=1), 1.0, far)
