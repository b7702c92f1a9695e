"""How far each two of many databases lie apart in what one aggregate releases, and how far they may.

Numbers of all databases stand in one matrix, so that all pairs that are neighbours are looked at. What a pair may not
move by is decided in integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.auditing.deciding import groups_of_keys as groups_of
from dpquery.auditing.deciding import in_a_round
from dpquery.kernel.choice_utilities import candidates, rank_of_extreme, utilities
from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.plan import Count, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.rounds import weight_of
from dpquery.kernel.sensitivity import Sensitivity, coarseness, finer_steps

Group = tuple[object, ...]
Integers = NDArray[np.int64]
EXACTLY = 1 - 2.0**-40
"""From this part of a bound on, squares are added up in integers."""


@dataclass(slots=True, eq=False)
class Moves:
    """One vector: of a measure its numbers in each database by group, or the utilities of all candidates; of Bernstein
    terms all of them; of units that decide what they weigh in a round.

    Attributes:
        measures: One measure, or all terms of a vector.
        hidden: Of units that decide, whether groups are left out, as if they were shown in earlier rounds.
        best: The largest part of its L1 sensitivity that a pair reached.
        pair: Which pair that was.
        violations: Pairs, and the norm that is larger than it may be.
    """

    aggregate: PrivateAggregate
    measures: tuple[Measure, ...]
    claimed: Sensitivity
    hidden: bool = False
    best: Fraction = Fraction(0)
    pair: tuple[int, int] = (0, 0)
    violations: list[tuple[int, int, str]] = field(default_factory=list)
    _places: dict[object, int] = field(default_factory=dict)
    _new: list[Mapping[object, Integers]] = field(default_factory=list)
    _numbers: Integers = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))
    _there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))

    @property
    def measure(self) -> Measure:
        """The measure, or the first of the terms."""
        return self.measures[0]

    @property
    def name(self) -> str:
        """The vector's name in its aggregate."""
        return f"{self.measure.id}{', later' if self.hidden else ''}"

    def again(self) -> Moves:
        """Returns the same vector, of no databases yet."""
        return Moves(self.aggregate, self.measures, self.claimed, self.hidden)

    def add(self, exact: ExactAggregates) -> None:
        """Takes what the vector is in one more database."""
        groups, ids = groups_of(exact), [measure.id for measure in self.aggregate.measures]
        match self.measure.count:
            case Count.QUANTILE:
                choices = [m.id for m in self.aggregate.measures if m.count is Count.QUANTILE]
                given = exact.histograms[choices.index(self.measure.id)]
                self._new.append({group: _scores(self.measure, given, i) for i, group in enumerate(groups)})
            case Count.DECIDING:
                decided = in_a_round(self.aggregate, exact, hidden=self.hidden)
                self._new.append({group: np.array([weight]) for group, weight in decided.items()})
            case _:
                found: dict[object, Integers] = {}
                for measure in self.measures:
                    coarse, numbers = coarseness(self.aggregate, measure), exact.numbers[ids.index(measure.id)]
                    each = zip(groups, numbers, strict=True)
                    found |= {(measure.id, group): np.array([int(number) // coarse]) for group, number in each}
                self._new.append(found)

    def look(self, pairs: list[tuple[int, int]]) -> None:
        """Compares pairs of databases in all norms."""
        if not pairs:
            return
        self._take()
        numbers, there = self._numbers, self._there
        one, other = (np.array(side) for side in zip(*pairs, strict=True))
        for start in range(0, len(pairs), 4096):
            a, b = one[start : start + 4096], other[start : start + 4096]
            change = numbers[a] - numbers[b]
            if self.measure.count is Count.QUANTILE:
                moved = change.max(axis=2) - change.min(axis=2)
            else:
                moved = np.abs(change[:, :, 0])
            if self.aggregate.is_selected and self.measure.count is not Count.DECIDING:  # delta is for lone groups
                moved = np.where(there[a] & there[b], moved, 0)
            self._compare(moved, a, b)

    def _take(self) -> None:
        """Puts new databases below those before, and groups that are new beside."""
        for group in (group for numbers in self._new for group in numbers):
            self._places.setdefault(group, len(self._places))
        empty, before = self._empty(), self._there.shape
        shape = before[0] + len(self._new), max(1, len(self._places))
        numbers, there = np.broadcast_to(empty, (*shape, len(empty))).copy(), np.zeros(shape, dtype=np.bool_)
        if before[0]:
            numbers[: before[0], : before[1]], there[: before[0], : before[1]] = self._numbers, self._there
        for database, given in enumerate(self._new, before[0]):
            for group, number in given.items():
                numbers[database, self._places[group]], there[database, self._places[group]] = number, True
        self._numbers, self._there, self._new = numbers, there, []

    def _compare(self, moved: Integers, a: Integers, b: Integers) -> None:
        steps = finer_steps(self.aggregate, self.measure)
        linf, l1 = moved.max(axis=1), moved.sum(axis=1)
        squares = self.claimed.l2_squared * steps**2
        doubtful = np.flatnonzero((moved.astype(np.float64) ** 2).sum(axis=1) > float(squares) * EXACTLY)
        wrong = [(int(i), "l2_squared") for i in doubtful if sum(int(m) ** 2 for m in moved[i]) > squares]
        wrong += [(int(i), "linf") for i in np.flatnonzero(linf > int(self.claimed.linf * steps))]
        wrong += [(int(i), "l1") for i in np.flatnonzero(l1 > int(self.claimed.l1 * steps))]
        self.violations += [(int(a[i]), int(b[i]), norm) for i, norm in wrong]
        most = int(l1.argmax())
        part = Fraction(int(l1[most])) / (self.claimed.l1 * steps)
        if part > self.best:
            self.best, self.pair = part, (int(a[most]), int(b[most]))

    def _empty(self) -> Integers:
        """Returns what a group without rows has."""
        if self.measure.count is not Count.QUANTILE:
            return np.zeros(1, dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        return _scores(self.measure, Histogram(group=nothing, value=nothing, weight=nothing), 0)


def deciding_alone(
    aggregate: PrivateAggregate, exact: list[ExactAggregates], pairs: list[tuple[int, int]]
) -> Iterator[tuple[int, int, list[int]]]:
    """Yields pairs of databases of which the first shows groups by itself that may not be there: more than a unit
    counts in, or with more in them than it counts for; with the deciding numbers of these."""
    in_rounds = aggregate.measures[0].count is Count.DECIDING
    decided = [
        in_a_round(aggregate, one) if in_rounds else dict(zip(groups_of(one), map(int, one.numbers[0]), strict=True))
        for one in exact
    ]
    most = groups_per_unit(aggregate) or 0
    for i, j in (ordered for pair in pairs for ordered in (pair, pair[::-1])):
        lone = [decided[i][group] for group in decided[i].keys() - decided[j].keys()]
        allowed = {weight_of(count) for count in range(max(1, len(lone)), most + 1)} if in_rounds else {1}
        if len(lone) > most or not {*lone} <= allowed or len({*lone}) > 1:
            yield i, j, lone


def _scores(measure: Measure, given: Histogram, group: int) -> Integers:
    first, last = candidates(measure)
    weights = np.zeros(last - first + 1, dtype=np.int64)
    here = given.group == group
    np.add.at(weights, given.value[here] - first, given.weight[here])
    total = np.full(len(weights), weights.sum())
    extreme = rank_of_extreme(measure, Fraction(1, 1000))
    return utilities(measure, extreme, below=np.cumsum(weights) - weights, equal=weights, total=total)
