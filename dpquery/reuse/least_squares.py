"""Weighted least squares over released tables: the unknown cells, their best estimate, and how exact it is.

The unknown table over all axes is never made. For each largest set of axes U that a released table depends on there
is an array f_U, and the sum over a product of blocks B_a is sum_U prod_{a not in U} |B_a| / n_a * sum f_U over the
blocks of U. Every true table has such arrays with the same sums (its projection on their span), so nothing is assumed
by them, and what they cannot tell apart no released table can. Normal equations are solved by conjugate gradients,
those of whole marginals in closed form (`normal_equations`, `orthogonal_parts`).

Shown numbers are differences of rounded cumulative sums: F_U = round(S_U), S_U the sums over prefixes of all axes of U.
A prefix that is all of an axis is read from one array for all sets U, so all tables agree, and parts add up exactly.
docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.reuse.block_sums import (
    AxisSums,
    Floats,
    Functionals,
    Layout,
    Sums,
    exact,
    identity,
    kept_apart,
    kinds,
    read_by,
    spread,
    weights_of,
    whole_of,
)
from dpquery.reuse.cells import AxisPartition, CellTable
from dpquery.reuse.normal_equations import NormalEquations
from dpquery.reuse.orthogonal_parts import OrthogonalParts, are_marginals

MOST_CELLS = 2_000_000
"""Unknown numbers of one system."""
AT_ONCE = 256
"""Groups whose estimates are computed together."""
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

    table: CellTable
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
        used: dict[int, list[AxisPartition]] = {}
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
        self._layout = Layout(self.sets, [(self.coordinates, *(self._sizes[a] for a in s)) for s in self.sets])
        self.size = self._layout.size

    def _known(self, table: CellTable, made: dict[object, Sums]) -> Sums:
        found = self._narrowed(table)
        assert found is not None
        name = tuple(
            (axis, axis in found.keys, rule.signs is None, rule.marks.tobytes())
            for axis, rule in sorted(found.rules.items())
        )
        return made.setdefault(name, found)

    def _narrowed(self, table: CellTable) -> Sums | None:
        """Returns a table on the places that are kept apart; None where it tells more of them apart."""
        rules = {}
        for axis, blocks in (*table.keys, *table.limits):
            first, number = self._places.get(axis) or (
                np.zeros(1, dtype=np.int64),
                np.zeros(self._full[axis], dtype=np.int64),
            )
            if not np.array_equal(blocks.marks[first][number], blocks.marks):
                return None
            signs = None if blocks.signs is None else blocks.signs[first]
            rules[axis] = AxisSums(AxisPartition(blocks.codes[first], blocks.count, signs))
        return Sums(rules, tuple(axis for axis, _ in table.keys), self._sizes)

    @cached_property
    def _equations(self) -> NormalEquations | OrthogonalParts:
        information = [np.zeros((self.coordinates, self.coordinates)) for _ in self._tables]
        for of, one in zip(self._of, self.observed, strict=True):
            factors = np.array([float(f) for f in one.factors])
            information[of] += np.outer(factors, factors) / one.variance
        if self.coordinates == 1 and are_marginals(self._tables, self._sizes):
            return OrthogonalParts(self._layout, self._tables, [float(one[0, 0]) for one in information], self._sizes)
        return NormalEquations(self._layout, self._tables, information)

    @property
    def is_little_work(self) -> bool:
        """Whether the exactness of a group can be computed."""
        return self._equations.is_little_work(1)

    @cached_property
    def _cells(self) -> list[NDArray[Any]]:
        """Returns for each set of axes the estimates, whole lattice steps, shape (coordinates, places); they agree.

        Solved twice: the second time for what the first left over, which is small, so that no digits are lost.
        """
        whole: list[NDArray[Any]] = [np.zeros(shape, dtype=np.int64) for shape in self._layout.shapes]
        for _ in range(2):
            rests = [np.zeros((self.coordinates, *(t.rules[a].count for a in t.keys))) for t in self._tables]
            for of, one, table in zip(self._of, self.observed, self._sums, strict=True):
                over, under = self._read(table, one.factors, whole)  # over: (blocks of each key)
                assert one.numbers is not None
                rest = exact(one.table.by_axis(one.numbers), under) * under - exact(over, 2)
                factors = np.array([float(f) for f in one.factors]) / one.variance  # (coordinates,)
                rests[of] += spread(factors, rest.astype(np.float64)[None] / under)  # (coordinates, blocks of each key)
            more = self._rounded(self._equations.solution(rests))  # each (coordinates, places of each axis)
            whole = [exact(old) + exact(new) for old, new in zip(whole, more, strict=True)]
        return whole

    def _rounded(self, flat: Floats) -> list[NDArray[Any]]:
        cumulative: list[NDArray[Any]] = []
        for number, have in enumerate(self.sets):
            own = Sums({a: identity(self._sizes[a]) for a in have}, have, self._sizes)
            sums = self._layout.down(own, flat)  # (coordinates, places of each axis)
            for place in range(len(have)):
                sums = sums.cumsum(axis=place + 1)  # the same, over prefixes
            rounded = whole_of(np.floor(np.rint(sums * TIES) / TIES + 0.5))
            for other, before in zip(self.sets[:number], cumulative, strict=True):
                face = tuple(slice(None) if axis in other else -1 for axis in have)
                same = tuple(slice(None) if axis in have else -1 for axis in other)
                if rounded.dtype != before.dtype:
                    rounded = rounded.astype(object)
                rounded[(slice(None), *face)] = before[(slice(None), *same)]  # (coordinates, places of shared axes)
            cumulative.append(rounded)
        made = []
        for have, sums in zip(self.sets, cumulative, strict=True):
            for place in range(len(have)):
                sums = np.diff(sums, axis=place + 1, prepend=0)  # (coordinates, places of each axis)
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
                values = whole[place][coordinate : coordinate + 1]  # (1, places of each axis)
                part = table.down(values, self.sets[place]).squeeze(0)  # (blocks of each key)
                by = int(factor * under)
                part = part if by == 1 else exact(part, by) * by
                made = part if made is None else exact(made, 2) + exact(part, 2)
        assert made is not None
        return made, under

    def numbers(self, table: CellTable, factors: Sequence[Fraction]) -> NDArray[Any]:
        """Returns the estimates of a measure that `exactness` knows, by group in the order of the table's keys; where
        its factors are not whole, rounded once more, halves up."""
        own = self._narrowed(table)
        assert own is not None
        made, under = self._read(own, factors, self._cells)  # made: (blocks of each key)
        if under > 1:
            made = (2 * made.astype(object) + under) // (2 * under)
        return exact(table.by_key(made))

    def exactness(self, table: CellTable, factors: Sequence[Fraction]) -> Exactness | None:
        """Returns how exact a measure of a table can be estimated; None where some group is not determined."""
        own = self._narrowed(table)
        if own is None or not any({*own.support} <= {*have} for have in self.sets):
            return None
        firsts = [np.unique(labels, return_index=True)[1] for labels in self.kinds_of(table)]
        count = math.prod(map(len, firsts))
        if not self._equations.is_little_work(count):
            return None
        groups = np.array([*itertools.product(*firsts)], dtype=np.int64).reshape(count, len(firsts))  # (groups, keys)
        worst: tuple[float, list[Floats]] | None = None
        deviations = [math.sqrt(one.variance) for one in self.observed]
        read = set[int]()
        for first in range(0, len(groups), AT_ONCE):
            found = self._equations.asked(own, [float(f) for f in factors], groups[first : first + AT_ONCE])
            if not found.is_determined:
                return None
            made = self._factors(found)  # each (groups, numbers)
            read |= read_by(made, deviations)
            place = int(found.variances.argmax())
            if worst is None or found.variances[place] > worst[0]:
                worst = float(found.variances[place]), [own[place] for own in made]
        if worst is None:
            return None
        roundings = math.prod(rule.edges for rule in own.rules.values())
        return Exactness(worst[0], weights_of(worst[1], deviations), frozenset(read), roundings)

    def kinds_of(self, table: CellTable) -> list[NDArray[np.int64]]:
        """Returns for each axis of a table's keys the kind of each block: groups of one kind are as exact."""
        own = self._narrowed(table)
        assert own is not None
        return [kinds(self._tables, axis, own.rules[axis], self._sizes[axis]) for axis in own.keys]

    def _factors(self, found: Functionals) -> list[Floats]:
        """Returns for each released measure the factors of its numbers in estimates, shape (estimates, numbers)."""
        return [
            np.tensordot(found.cells[of], np.array([float(f) for f in one.factors]) / one.variance, axes=(1, 0))
            for of, one in zip(self._of, self.observed, strict=True)
        ]

    def factors_of(self, table: CellTable, factors: Sequence[Fraction], groups: NDArray[np.int64]) -> list[Floats]:
        """Returns for each released measure the factors of its numbers in estimates of groups of a table, by axis,
        shape (groups, numbers)."""
        own = self._narrowed(table)
        assert own is not None
        return self._factors(self._equations.asked(own, [float(f) for f in factors], groups))

    @property
    def numbers_released(self) -> int:
        """How many numbers were released."""
        return sum(table.cells for table in self._sums)
