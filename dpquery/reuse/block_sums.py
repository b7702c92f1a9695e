"""Sums of arrays over products of blocks, and their transposes: how a released table follows from unknown cells.

At the end the linear algebra, and the whole numbers, that least squares over them are made of.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.cells import AxisPartition

Floats = NDArray[np.float64]
Axes = tuple[int, ...]

MOST_STEPS = 400
"""Of conjugate gradients."""
CLOSE = 1e-26
"""By how much squared residuals shrink until they are small enough."""
FLAT = 1e-12
"""Curvature along a direction, relative to that of its parts by themselves, below which it is none."""
FAR = 1e-4
"""Pivots of a matrix with ones on its diagonal that is inverted as it is; one with smaller ones may have no inverse."""
NOTHING = 1e-9
"""Relative weight below which a number is not read."""


class AxisSums:
    """Blocks of one axis as sums along it."""

    def __init__(self, blocks: AxisPartition) -> None:
        codes = blocks.codes
        self.codes, self.count, self.signs, self.marks = codes, blocks.count, blocks.signs, blocks.marks
        self.kept = np.flatnonzero(codes >= 0)  # (places in blocks,)
        self.rows = self.kept[np.argsort(codes[self.kept], kind="stable")]  # the same, those of one block together
        rows = np.bincount(codes[self.kept], minlength=blocks.count)  # (blocks,)
        self.filled = np.flatnonzero(rows)  # (blocks with places,), as `starts`
        self.starts = np.append(0, rows[self.filled].cumsum())[:-1]
        self.single = bool((rows <= 1).all())
        self.whole = (
            blocks.signs is None and blocks.count == len(codes) and np.array_equal(codes, np.arange(len(codes)))
        )
        self.sizes, self.is_mixed = rows, False
        if blocks.signs is not None:  # of which each counts with its sign
            self.is_mixed = len({*blocks.signs[self.kept].tolist()}) > 1
            self.sizes = np.zeros(blocks.count, dtype=np.int64)
            np.add.at(self.sizes, codes[self.kept], blocks.signs[self.kept])

    @cached_property
    def edges(self) -> int:
        """How many roundings of prefixes are in a block, at most: a prefix with a factor counts as its square; the
        empty one is not counted."""
        signs = np.ones(len(self.codes), dtype=np.int64) if self.signs is None else self.signs
        codes, following = np.append(self.codes, -1), np.append(self.codes[1:], (-1, -1))
        own, other = np.append(signs, 0), np.append(signs[1:], (0, 0))
        ends = codes != following
        found = np.zeros(self.count + 1, dtype=np.int64)  # the last is of places that no block holds
        np.add.at(found, codes, np.where(ends, own**2, (own - other) ** 2))
        np.add.at(found, following[ends], other[ends] ** 2)
        return int(found[:-1].max(initial=0))

    def down(self, values: NDArray[Any], place: int) -> NDArray[Any]:
        """Returns the sums over blocks along a dimension."""
        if self.whole:
            return values
        read = values.take(self.rows, axis=place)  # (..., places in blocks, ...)
        if self.signs is not None:
            read = read * along(self.signs[self.rows], place, read.ndim)
        if not self.single:
            read = np.add.reduceat(read, self.starts, axis=place)  # (..., blocks with places, ...)
        if len(self.filled) == self.count:
            return read
        made = np.zeros((*read.shape[:place], self.count, *read.shape[place + 1 :]), dtype=read.dtype)
        made[(slice(None),) * place + (self.filled,)] = read  # (..., blocks, ...)
        return made

    def up(self, cells: NDArray[Any], place: int, power: int) -> NDArray[Any]:
        """Returns for each row of the axis what its block has, times its sign to a power; 0 where it has none."""
        if self.whole:
            return cells
        made = np.zeros((*cells.shape[:place], len(self.codes), *cells.shape[place + 1 :]), dtype=cells.dtype)
        read = cells.take(self.codes[self.kept], axis=place)  # (..., places in blocks, ...)
        if self.signs is not None:
            read = read * along(self.signs[self.kept] ** power, place, read.ndim)
        made[(slice(None),) * place + (self.kept,)] = read  # (..., places, ...)
        return made


@dataclass(eq=False)
class Sums:
    """A table in a system: its rules, on the places that the system keeps apart."""

    rules: dict[int, AxisSums]
    keys: Axes
    sizes: Sequence[int]

    @property
    def cells(self) -> int:
        """How many groups it has."""
        return math.prod([self.rules[axis].count for axis in self.keys])

    @cached_property
    def support(self) -> Axes:
        """The axes that its numbers depend on."""
        return tuple(sorted([a for a, r in self.rules.items() if r.is_mixed or np.any(r.sizes % self.sizes[a])]))

    def down(self, values: NDArray[Any], have: Axes) -> NDArray[Any]:
        """Returns the sums of an array over the axes `have`, shape (coordinates, places of each axis), by cell of the
        table, shape (coordinates, blocks of each key, by axis)."""
        for place in reversed(range(len(have))):
            rule = self.rules.get(have[place])
            values = values.sum(axis=place + 1) if rule is None else rule.down(values, place + 1)
            if rule is not None and have[place] not in self.keys:
                values = values.take(0, axis=place + 1)
        for place, axis in enumerate(self.keys):
            if axis not in have:
                values = np.expand_dims(values, place + 1) * along(self._shares(axis), place + 1, values.ndim + 1)
        for axis in self.rules.keys() - {*self.keys, *have}:
            values = values * self._shares(axis)[0]
        return values

    def _shares(self, axis: int) -> NDArray[Any]:
        """Returns the part of an axis that each block has; whole numbers where it is all or nothing."""
        sizes, all = self.rules[axis].sizes, self.sizes[axis]
        return sizes / all if np.any(sizes % all) else sizes // all

    def up(self, cells: Floats, have: Axes, *, power: int = 1) -> Floats:
        """Returns the transposed of `down`, with its factors to a power."""
        for place in reversed(range(len(self.keys))):
            axis = self.keys[place]
            if axis not in have:
                shares = self._shares(axis) ** power
                cells = (cells * along(shares, place + 1, cells.ndim)).sum(axis=place + 1)
        for axis in self.rules.keys() - {*self.keys, *have}:
            cells = cells * self._shares(axis)[0] ** power
        for place, axis in enumerate(have):
            rule = self.rules.get(axis)
            if axis not in self.keys:
                cells = np.expand_dims(cells, place + 1)
            if rule is not None:
                cells = rule.up(cells, place + 1, power)
            elif axis not in self.keys:
                cells = np.repeat(cells, self.sizes[axis], axis=place + 1)
        return cells


class Layout:
    """Unknown numbers over sets of axes, in one row.

    Args:
        shapes: For each set how many coordinates there are, and how many places each axis has.
    """

    def __init__(self, sets: Sequence[Axes], shapes: Sequence[tuple[int, ...]]) -> None:
        self.sets, self.shapes = sets, shapes
        ends = [*itertools.accumulate(math.prod(shape) for shape in shapes)]
        self.spans = [(end - math.prod(shape), end) for end, shape in zip(ends, shapes, strict=True)]
        self.size = ends[-1]

    def views(self, flat: Floats) -> Iterator[tuple[Axes, Floats]]:
        """Yields each set of axes with its numbers."""
        for have, (start, end), shape in zip(self.sets, self.spans, self.shapes, strict=True):
            yield have, flat[start:end].reshape(shape)

    def down(self, table: Sums, flat: Floats) -> Floats:
        """Returns what a table adds up, shape (coordinates, blocks of each key, by axis)."""
        made: Floats = np.zeros(1)
        for number, (have, view) in enumerate(self.views(flat)):
            own = table.down(view, have)
            made = own if number == 0 else made + own
        return made

    def up(self, table: Sums, cells: Floats, into: Floats) -> None:
        """Adds the transposed of `down` to a row."""
        for have, view in self.views(into):
            view += table.up(cells, have)


@dataclass(frozen=True, eq=False)
class Functionals:
    """Estimates of some groups.

    Attributes:
        variances: Of each group.
        cells: For each table what of each of its cells is in an estimate, for measures of unit variance and factor,
            shape (groups, coordinates, cells).
        is_determined: Whether what was released tells of all of them.
    """

    variances: Floats
    cells: list[Floats]
    is_determined: bool = True


def kinds(tables: Iterable[Sums], axis: int, rule: AxisSums, size: int) -> NDArray[np.int64]:
    """Returns the kind of each block of an axis: blocks are of one kind where exchanging their places leaves all
    tables as they are."""
    marks = [np.zeros(size, dtype=np.int64)]
    for table in tables:
        known = table.rules.get(axis)
        if known is not None:
            alone = (known.sizes[known.codes] == 1) & (known.signs is None)
            marks.append(np.where(known.codes < 0, -1, np.where(alone, -2, known.marks)))
    _, kind = np.unique(np.stack(marks), axis=1, return_inverse=True)  # of (tables, places): the kind of each place
    counts = np.zeros((rule.count, int(kind.max()) + 1), dtype=np.int64)  # (blocks, kinds of places)
    np.add.at(counts, (rule.codes[rule.kept], kind.reshape(-1)[rule.kept]), 1)
    return np.unique(counts, axis=0, return_inverse=True)[1].reshape(-1)


def along(values: NDArray[Any], place: int, dimensions: int) -> NDArray[Any]:
    """Returns values along one dimension of so many."""
    return values.reshape((1,) * place + (-1,) + (1,) * (dimensions - place - 1))


def identity(size: int) -> AxisSums:
    """Returns the blocks of one place each."""
    return AxisSums(AxisPartition(np.arange(size, dtype=np.int64), size))


def spread(factors: Floats, cells: Floats) -> Floats:
    """Returns cells of shape (1, ...) once for each coordinate, times its factor."""
    made: Floats = along(factors, 0, cells.ndim) * cells
    return made


def inverted(matrix: Floats) -> Floats:
    """Returns a generalised inverse of a symmetric matrix of ones or zeros on its diagonal and no negative value."""
    try:
        if float(np.linalg.cholesky(matrix).diagonal().min()) > FAR:
            found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
            return (found + found.T) / 2
    except np.linalg.LinAlgError:
        pass  # along some direction nothing was released
    return np.asarray(np.linalg.pinv(matrix, rcond=FLAT, hermitian=True), dtype=np.float64)


def descended(normal: Callable[[Floats], Floats], right: Floats, weights: Floats) -> Floats:
    """Returns a solution of normal equations by conjugate gradients.

    Args:
        normal: The product with their matrix.
        weights: The inverses of its diagonal, 0 where that is 0.
    """
    diagonal = np.divide(1.0, weights, out=np.zeros(len(right)), where=weights > 0)
    x, r = np.zeros(len(right)), right.copy()
    z = weights * r
    p, last = z.copy(), float((r * z).sum())
    first = last
    for _ in range(MOST_STEPS):
        if last <= first * CLOSE:
            break
        q = normal(p)
        curve = float((p * q).sum())
        if curve <= FLAT * float((p * p * diagonal).sum()):
            break  # along it nothing was released
        x += (last / curve) * p
        r -= (last / curve) * q
        z = weights * r
        now = float((r * z).sum())
        p = z + (now / last) * p
        last = now
    return x


def kept_apart(blocks: Sequence[AxisPartition]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first of the places that some table tells from all before it, and for each place its number."""
    codes = np.stack([*{marks.tobytes(): marks for marks in (b.marks for b in blocks)}.values()])  # (blocks, places)
    _, first, number = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[number.reshape(-1)]


def whole_of(values: Floats) -> NDArray[Any]:
    """Returns whole floats as integers, in 64 bits where they fit, else as Python's."""
    if np.abs(values).max(initial=0.0) < 2**61:
        return values.astype(np.int64)
    made = np.empty(values.shape, dtype=object)
    made.reshape(-1)[:] = [int(value) for value in values.reshape(-1).tolist()]
    return made


def exact(numbers: NDArray[Any], by: int = 1) -> NDArray[Any]:
    """Returns whole numbers in 64 bits where they, times a factor and added up, fit, else as Python's."""
    if numbers.size == 0:
        return numbers
    largest = max(-int(numbers.min()), int(numbers.max())) * max(1, abs(by)) * numbers.size
    return numbers.astype(np.int64 if largest < 2**62 else object)


def read_by(factors: Sequence[Floats], deviations: Sequence[float]) -> set[int]:
    """Returns the numbers of the released measures that some estimate reads.

    Args:
        factors: Of each measure those of its numbers, shape (estimates, numbers).
        deviations: The standard deviation of each measure's noise.
    """
    sizes = np.array([np.abs(own).max(axis=1) for own in factors])  # (measures, estimates)
    sizes *= np.array(deviations)[:, None]
    return {*np.flatnonzero(np.any(sizes > NOTHING * sizes.max(axis=0), axis=1)).tolist()}


def weights_of(factors: Sequence[Floats], deviations: Sequence[float]) -> dict[int, tuple[Floats, NDArray[np.int64]]]:
    """Returns for each released measure that an estimate reads the sizes of the factors of its numbers, and how many
    numbers have each; arguments as of `read_by`, of one estimate."""
    found = [np.abs(own) for own in factors]
    largest = max(float(sizes.max()) * off for sizes, off in zip(found, deviations, strict=True))
    made = {}
    for number, (sizes, off) in enumerate(zip(found, deviations, strict=True)):
        sizes = sizes[sizes > NOTHING * largest / off]
        if len(sizes):
            digits = np.round(sizes / sizes.max(), 9)
            each, counts = np.unique(digits, return_counts=True)
            made[number] = each * sizes.max(), counts
    return made
