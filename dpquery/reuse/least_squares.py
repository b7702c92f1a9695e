"""Weighted least squares over released tables: the unknown cells, their best estimate, and how exact it is.

The unknown table over all axes is never made. For each largest set of axes U that a released table depends on there
is an array f_U, and the sum over a product of blocks B_a is sum_U prod_{a not in U} |B_a| / n_a * sum f_U over the
blocks of U. Every true table has such arrays with the same sums (its projection on their span), so nothing is assumed
by them, and what they cannot tell apart no released table can. Normal equations are solved by conjugate gradients.

Shown numbers are differences of rounded cumulative sums: F_U = round(S_U), S_U the sums over prefixes of all axes of U.
A prefix that is all of an axis is read from one array for all sets U, so all tables agree, and parts add up exactly.
docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import (
    Axes,
    Floats,
    Rule,
    Sums,
    descended,
    exact,
    identity,
    inverted,
    kept_apart,
    kinds,
    spread,
    whole_of,
)
from dpquery.reuse.cells import Blocks, Table

KNOWN = 1e-7
"""A question whose residual is larger, relatively, is not determined by what was released."""
MOST_DENSE = 1200
"""Unknown numbers of a system that is inverted once."""
MOST_CELLS = 2_000_000
"""Unknown numbers of one system."""
MOST_WORK = 50_000_000
"""Unknown numbers, times tables, times kinds of groups that the exactness of one answer is computed for."""
AT_ONCE = 256
"""Groups whose estimates are computed together."""
NOTHING = 1e-9
"""Relative weight below which a number is not read."""
TIES = 2.0**16
"""Parts of a step to which cumulative sums are taken before they are rounded: halves are not left to the last bit."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Released numbers of one measure: which cells, which coordinates, how exact, and the numbers in lattice steps.

    Attributes:
        factors: Of each coordinate.
        variance: Of the noise of one number, in squared steps.
        numbers: By group, in the order of the table's keys; None for numbers that are yet to be released.
    """

    table: Table
    factors: tuple[Fraction, ...]
    variance: float
    numbers: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Exactness:
    """How exact estimates are: of the group that is least so.

    Attributes:
        variance: Of the noise, in squared lattice steps.
        weights: For each released measure that is read: the sizes of the factors of its numbers in an estimate, and how
            many numbers have each.
        read: The released measures that some group reads, by number.
        roundings: How many cumulative sums a shown number is made of.
    """

    variance: float
    weights: dict[int, tuple[Floats, NDArray[np.int64]]]
    read: frozenset[int]
    roundings: int


class System:
    """Released tables over the same axes and coordinates as one weighted least squares problem.

    Args:
        sizes: The places of each axis.
        observed: What was released, in order.
    """

    def __init__(self, sizes: Sequence[int], observed: Sequence[Observed]) -> None:
        self.observed, self._full = observed, sizes
        used: dict[int, list[Blocks]] = {}
        for axis, blocks in (each for one in observed for each in (*one.table.keys, *one.table.limits)):
            used.setdefault(axis, []).append(blocks)
        self._places = {axis: kept_apart(blocks) for axis, blocks in used.items()}
        self._sizes = [len(self._places[a][0]) if a in self._places else 1 for a in range(len(sizes))]
        made: dict[object, Sums] = {}
        self._sums = [self._known(o.table, made) for o in observed]
        self._tables = list(made.values())
        number = {id(table): i for i, table in enumerate(self._tables)}
        self._of = [number[id(table)] for table in self._sums]
        supports = {table.support for table in self._tables}
        self.sets = sorted(s for s in supports if not any({*s} < {*other} for other in supports))
        self.coordinates = len(observed[0].factors)
        shapes = [(self.coordinates, *(self._sizes[a] for a in s)) for s in self.sets]
        ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
        self._spans = [(end - math.prod(shape), end, shape) for end, shape in zip(ends, shapes, strict=True)]
        self.size = ends[-1]

    def _known(self, table: Table, made: dict[object, Sums]) -> Sums:
        found = self._narrowed(table)
        assert found is not None
        name = tuple((axis, axis in found.keys, rule.codes.tobytes()) for axis, rule in sorted(found.rules.items()))
        return made.setdefault(name, found)

    def _narrowed(self, table: Table) -> Sums | None:
        """Returns a table on the places that are kept apart; None where it tells more of them apart."""
        rules = {}
        for axis, blocks in (*table.keys, *table.limits):
            first, number = self._places.get(axis) or (
                np.zeros(1, dtype=np.int64),
                np.zeros(self._full[axis], dtype=np.int64),
            )
            codes = blocks.codes[first]
            if not np.array_equal(codes[number], blocks.codes):
                return None
            rules[axis] = Rule(Blocks(codes, blocks.count))
        return Sums(rules, tuple(axis for axis, _ in table.keys), self._sizes)

    @cached_property
    def _information(self) -> list[Floats]:
        """Returns for each table F' W F, shape (coordinates, coordinates)."""
        found = [np.zeros((self.coordinates, self.coordinates)) for _ in self._tables]
        for of, one in zip(self._of, self.observed, strict=True):
            factors = np.array([float(f) for f in one.factors])
            found[of] += np.outer(factors, factors) / one.variance
        return found

    @cached_property
    def _preconditioner(self) -> Floats:
        diagonal = np.zeros(self.size)
        for table, weights in zip(self._tables, self._information, strict=True):
            ones = np.ones((1, *(table.rules[a].count for a in table.keys)))
            for have, view in self._views(diagonal):
                view += spread(np.diag(weights), table.up(ones, have, power=2))
        return np.divide(1.0, diagonal, out=np.zeros(self.size), where=diagonal > 0)

    @cached_property
    def _dense(self) -> tuple[Floats, Floats] | None:
        """Returns the matrix of the normal equations and a generalised inverse of it, where they are few."""
        if self.size > MOST_DENSE:
            return None
        normal = np.zeros((self.size, self.size))
        own = self._apart
        for some in self._in_batches():
            rows = np.concatenate([self._rows(self._tables[number]) for number in some])
            counts = [self._tables[number].cells for number in some]
            for a, b in itertools.product(range(self.coordinates), repeat=2):
                weights = np.repeat([self._information[number][a, b] for number in some], counts)
                normal[np.ix_(own[a], own[b])] += (rows * weights[:, None]).T @ rows
        roots = np.sqrt(self._preconditioner)
        return normal, roots[:, None] * inverted(roots[:, None] * normal * roots) * roots

    def _in_batches(self) -> Iterator[list[int]]:
        """Yields the numbers of the tables, about `MOST_DENSE` cells of them at a time."""
        some, cells = list[int](), 0
        for number, table in enumerate(self._tables):
            some, cells = [*some, number], cells + table.cells
            if cells >= MOST_DENSE or number + 1 == len(self._tables):
                yield some
                some, cells = [], 0

    def _rows(self, table: Sums) -> Floats:
        """Returns for each cell of a table which places of one coordinate it adds up, with their shares."""
        shape = [table.rules[axis].count for axis in table.keys]
        cells = np.eye(table.cells).reshape(-1, *shape)  # each in the place of a coordinate
        return np.concatenate([table.up(cells, have).reshape(table.cells, -1) for have in self.sets], axis=1)

    @property
    def _apart(self) -> NDArray[np.int64]:
        """Returns for each coordinate the places of its unknown numbers, one set of axes after the other."""
        spans = [np.arange(start, end).reshape(self.coordinates, -1) for start, end, _ in self._spans]
        return np.concatenate(spans, axis=1)

    def _views(self, flat: Floats) -> Iterator[tuple[Axes, Floats]]:
        for have, (start, end, shape) in zip(self.sets, self._spans, strict=True):
            yield have, flat[start:end].reshape(shape)

    def _down(self, table: Sums, flat: Floats) -> Floats:
        made: Floats = np.zeros(1)
        for number, (have, view) in enumerate(self._views(flat)):
            own = table.down(view, have)
            made = own if number == 0 else made + own
        return made

    def _up(self, table: Sums, cells: Floats, into: Floats) -> None:
        for have, view in self._views(into):
            view += table.up(cells, have)

    def _normal(self, flat: Floats) -> Floats:
        made = np.zeros(self.size)
        for table, weights in zip(self._tables, self._information, strict=True):
            cells = self._down(table, flat)
            self._up(table, np.tensordot(weights, cells, axes=1), made)
        return made

    def _solve(self, rights: Floats) -> tuple[Floats, Floats]:
        """Returns solutions of the normal equations for some right sides, shape (sides, unknown numbers), and of each
        the residual relative to the right side."""
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

    @cached_property
    def _cells(self) -> list[NDArray[Any]]:
        """Returns for each set of axes the estimates, whole lattice steps, shape (coordinates, places); they agree.

        Solved twice: the second time for what the first left over, which is small, so that no digits are lost.
        """
        shapes = [shape for _, _, shape in self._spans]
        whole: list[NDArray[Any]] = [np.zeros(shape, dtype=np.int64) for shape in shapes]
        for _ in range(2):
            right = np.zeros(self.size)
            for one, table in zip(self.observed, self._sums, strict=True):
                over, under = self._read(table, one.factors, whole)
                assert one.numbers is not None
                rest = exact(one.table.by_axis(one.numbers), under) * under - exact(over, 2)
                factors = np.array([float(f) for f in one.factors]) / one.variance
                self._up(table, spread(factors, rest.astype(np.float64)[None] / under), right)
            more = self._rounded(self._solve(right[None])[0][0])
            whole = [exact(old) + exact(new) for old, new in zip(whole, more, strict=True)]
        return whole

    def _rounded(self, flat: Floats) -> list[NDArray[Any]]:
        cumulative: list[NDArray[Any]] = []
        for number, have in enumerate(self.sets):
            own = Sums({a: identity(self._sizes[a]) for a in have}, have, self._sizes)
            sums = self._down(own, flat)
            for place in range(len(have)):
                sums = sums.cumsum(axis=place + 1)
            rounded = whole_of(np.floor(np.rint(sums * TIES) / TIES + 0.5))
            for other, before in zip(self.sets[:number], cumulative, strict=True):
                face = tuple(slice(None) if axis in other else -1 for axis in have)
                same = tuple(slice(None) if axis in have else -1 for axis in other)
                if rounded.dtype != before.dtype:
                    rounded = rounded.astype(object)
                rounded[(slice(None), *face)] = before[(slice(None), *same)]
            cumulative.append(rounded)
        made = []
        for have, sums in zip(self.sets, cumulative, strict=True):
            for place in range(len(have)):
                sums = np.diff(sums, axis=place + 1, prepend=0)
            made.append(sums)
        return made

    def _read(
        self, table: Sums, factors: Sequence[Fraction], whole: Sequence[NDArray[Any]]
    ) -> tuple[NDArray[Any], int]:
        """Returns a measure of a table from estimates, times a common denominator of its factors, and that."""
        place = [{*table.support} <= {*have} for have in self.sets].index(True)
        under, made = math.lcm(*[f.denominator for f in factors]), None
        for coordinate, factor in enumerate(factors):
            if factor:
                values = whole[place][coordinate : coordinate + 1]
                part = table.down(values, self.sets[place]).squeeze(0)
                by = int(factor * under)
                part = part if by == 1 else exact(part, by) * by
                made = part if made is None else exact(made, 2) + exact(part, 2)
        assert made is not None
        return made, under

    def numbers(self, table: Table, factors: Sequence[Fraction]) -> NDArray[Any]:
        """Returns the estimates of a measure that `exactness` knows, by group in the order of the table's keys; where
        its factors are not whole, rounded once more, halves up."""
        own = self._narrowed(table)
        assert own is not None
        made, under = self._read(own, factors, self._cells)
        if under > 1:
            made = (2 * made.astype(object) + under) // (2 * under)
        return exact(table.by_key(made))

    def exactness(self, table: Table, factors: Sequence[Fraction]) -> Exactness | None:
        """Returns how exact a measure of a table can be estimated; None where some group is not determined."""
        own = self._narrowed(table)
        if own is None or not any({*own.support} <= {*have} for have in self.sets):
            return None
        firsts = [np.unique(labels, return_index=True)[1] for labels in self.kinds_of(table)]
        if self._dense is None and math.prod(map(len, firsts)) * self.size * len(self._tables) > MOST_WORK:
            return None
        groups = np.array([*itertools.product(*firsts)], dtype=np.int64).reshape(
            math.prod(map(len, firsts)), len(firsts)
        )
        worst: tuple[float, list[Floats]] | None = None
        read = set[int]()
        for first in range(0, len(groups), AT_ONCE):
            rights = self._asked(own, factors, groups[first : first + AT_ONCE])
            solutions, off = self._solve(rights)
            if np.any(off > KNOWN):
                return None
            variances = (rights * solutions).sum(axis=1)
            made = self._factors(solutions)
            read |= self._read_by(made)
            place = int(variances.argmax())
            if worst is None or variances[place] > worst[0]:
                worst = float(variances[place]), [own[place] for own in made]
        if worst is None:
            return None
        roundings = math.prod(rule.edges for rule in own.rules.values())
        return Exactness(worst[0], self._weights(worst[1]), frozenset(read), roundings)

    def kinds_of(self, table: Table) -> list[NDArray[np.int64]]:
        """Returns for each axis of a table's keys the kind of each block: groups of one kind are as exact."""
        own = self._narrowed(table)
        assert own is not None
        return [kinds(self._tables, axis, own.rules[axis], self._sizes[axis]) for axis in own.keys]

    def _asked(self, own: Sums, factors: Sequence[Fraction], groups: NDArray[np.int64]) -> Floats:
        """Returns what some groups of a table, by axis, add up of the unknown numbers, shape (groups, numbers)."""
        cells = np.zeros((len(groups), *(own.rules[axis].count for axis in own.keys)))
        cells[(np.arange(len(groups)), *groups.T)] = 1.0
        rows = np.concatenate([own.up(cells, have).reshape(len(groups), -1) for have in self.sets], axis=1)
        made = np.zeros((len(groups), self.size))
        for places, factor in zip(self._apart, factors, strict=True):
            made[:, places] = float(factor) * rows
        return made

    def _factors(self, solutions: Floats) -> list[Floats]:
        """Returns for each released measure the factors of its numbers in estimates, shape (estimates, numbers)."""
        count = len(solutions)
        views = [
            (have, solutions[:, start:end].reshape(count * self.coordinates, *shape[1:]))
            for have, (start, end, shape) in zip(self.sets, self._spans, strict=True)
        ]
        cells = [
            np.add.reduce([table.down(view, have) for have, view in views]).reshape(count, self.coordinates, -1)
            for table in self._tables
        ]
        return [
            np.tensordot(cells[of], np.array([float(f) for f in one.factors]) / one.variance, axes=(1, 0))
            for of, one in zip(self._of, self.observed, strict=True)
        ]

    def factors_of(self, table: Table, factors: Sequence[Fraction], groups: NDArray[np.int64]) -> list[Floats]:
        """Returns for each released measure the factors of its numbers in estimates of groups of a table, by axis,
        shape (groups, numbers)."""
        own = self._narrowed(table)
        assert own is not None
        return self._factors(self._solve(self._asked(own, factors, groups))[0])

    @property
    def numbers_released(self) -> int:
        """How many numbers were released."""
        return sum(table.cells for table in self._sums)

    def _read_by(self, factors: Sequence[Floats]) -> set[int]:
        sizes = np.array([np.abs(own).max(axis=1) for own in factors])  # (measures, estimates)
        sizes *= np.sqrt([[one.variance] for one in self.observed])
        return {*np.flatnonzero(np.any(sizes > NOTHING * sizes.max(axis=0), axis=1)).tolist()}

    def _weights(self, factors: Sequence[Floats]) -> dict[int, tuple[Floats, NDArray[np.int64]]]:
        found = [np.abs(own) for own in factors]
        deviations = [math.sqrt(one.variance) for one in self.observed]
        largest = max(float(sizes.max()) * off for sizes, off in zip(found, deviations, strict=True))
        made = {}
        for number, (sizes, off) in enumerate(zip(found, deviations, strict=True)):
            sizes = sizes[sizes > NOTHING * largest / off]
            if len(sizes):
                digits = np.round(sizes / sizes.max(), 9)
                each, counts = np.unique(digits, return_counts=True)
                made[number] = each * sizes.max(), counts
        return made
