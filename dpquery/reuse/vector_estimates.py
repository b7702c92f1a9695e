"""One state of knowledge: all stored sums over one base as measurements of one vector, and what is estimated from them.

Numbers are of one vector where their rows have the same weights, the catalog says the same of them, and the conditions
that are on no public key are the same; which groups and conditions they have beside is where they lie in it. Left out
are numbers of selected groups, of units and of different values, and choices. docs/concepts/stored-answers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.accuracy.simulated import Shared
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.result.added_tables import AnyNoise, of_sum
from dpquery.result.inverse_variance import CombinedNoise, Component
from dpquery.reuse.cells import Axes, CellTable, Row
from dpquery.reuse.coordinates import Factors, is_of_vector, signed_rows, solved, without_filter
from dpquery.reuse.frames import AskedAggregate, Equation, MeasurementFrame
from dpquery.reuse.joint_noise import joint
from dpquery.reuse.least_squares import MOST_CELLS, Exactness, Observed, System
from dpquery.reuse.releases import Facts, ReleasedMeasure, StoredRelease

MOST_COMPONENTS = 48
"""Noises of an estimate that are followed by themselves; the rest is taken for one normal noise."""
ONE = 1e-7
"""How far from 1 the weight of a number may be that is shown as it was released."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSource:
    """Numbers of a vector: those of a stored part, or, without one, those of a measure that is yet to be released."""

    frame: MeasurementFrame
    facts: Facts
    measure: str
    noise: NoiseLaw
    equations: tuple[Equation, ...]
    stored: tuple[StoredRelease, ReleasedMeasure] | None = None


def stored(releases: Iterable[StoredRelease]) -> list[VectorSource]:
    """Returns the sums among stored numbers, but for those of selected groups."""
    return [
        VectorSource(release.frame, release.facts, part.measure, part.noise, release.equations, (release, part))
        for release in releases
        for part in release.parts
        if part.noise.is_added and is_of_vector(release.frame, part.measure)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class VectorEstimate:
    """Numbers for the groups that are asked, where they come from and how exact they are.

    Attributes:
        numbers: In lattice steps, for all groups in order; of selected groups for those shown.
        law: Their noise; of a choice its coefficient.
        variance: Of the noise, in squared steps; of a choice how many ranks it may be off, which orders them alike.
        parts: The stored numbers behind them, with the release that each is of; of quantiles that were chosen together
            its own alone.
    """

    numbers: NDArray[Any]
    law: AnyNoise
    variance: float
    parts: tuple[tuple[StoredRelease, ReleasedMeasure], ...]

    @property
    def entries(self) -> tuple[int, ...]:
        """The ledger's entries that they were charged with."""
        return tuple(sorted({release.entry for release, _ in self.parts}))


class Vectors:
    """The vectors that sums over one base are measurements of.

    Args:
        sources: What was released, or is about to be, oldest first.
    """

    def __init__(self, sources: Sequence[VectorSource]) -> None:
        alike: dict[object, list[VectorSource]] = {}
        for source in sources:
            alike.setdefault((source.frame.weights.of_rows, source.facts.catalog), []).append(source)
        self._axes = {
            key: Axes([(s.frame, s.facts) for s in some], {c for s in some for c in _conditions(s.measure)})
            for key, some in alike.items()
        }
        self._alike: dict[object, list[VectorSource]] = {}
        for key, some in alike.items():
            for source in some:
                elsewhere = self._axes[key].elsewhere(source.frame, without_filter(source.measure)[1])
                self._alike.setdefault((key, elsewhere), []).append(source)
        self._families: dict[object, _Family] = {}
        self._known: dict[object, tuple[tuple[_Part, CellTable, Exactness] | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._axes)

    def estimate(self, asked: AskedAggregate, facts: Facts, measure: str) -> VectorEstimate | None:
        """Returns the best estimate of a measure of all groups; None where some group is not determined."""
        found = self._find(asked, facts, measure)
        if found is None:
            return None
        part, table, exactness = found
        numbers = part.numbers(table)
        law, variance = _law(part.sources, exactness)
        return VectorEstimate(numbers=numbers, law=law, variance=variance, parts=_stored(part.sources, exactness))

    def law(self, asked: AskedAggregate, facts: Facts, measure: str) -> tuple[AnyNoise, float] | None:
        """Returns the noise of the estimate and its variance, in squared lattice steps; None where there is none."""
        found = self._find(asked, facts, measure)
        return None if found is None else _law(found[0].sources, found[2])

    def variance(self, asked: AskedAggregate, facts: Facts, measure: str) -> float | None:
        """Returns the variance of the noise of the estimate, in squared lattice steps; None where there is none."""
        found = self._find(asked, facts, measure)
        return None if found is None else _variance(found[0].sources, found[2])

    def behind(
        self, asked: AskedAggregate, facts: Facts, measure: str
    ) -> tuple[tuple[StoredRelease, ReleasedMeasure], ...] | None:
        """Returns the stored numbers that a measure is estimated from; None where it is not."""
        found = self._find(asked, facts, measure)
        return None if found is None else _stored(found[0].sources, found[2])

    def shared(
        self, asked: AskedAggregate, facts: Facts, measures: Sequence[str], units: Sequence[float]
    ) -> Shared | None:
        """Returns the noise that some measures have together; None where it is not known, and where each is shown as
        it was released, for then they have none."""
        found = [self._find(asked, facts, measure) for measure in measures]
        if all(one is None or one[0].system is None for one in found):
            return None
        if any(one is not None and one[0].system is None for one in found):
            found = [self._look(asked, facts, measure, as_released=False) for measure in measures]
        known = [
            (part.system, [s.noise for s in part.sources], table, part.factors, exactness.roundings)
            for part, table, exactness in filter(None, found)
            if part.system is not None
        ]
        return joint(known, units) if len(known) == len(found) else None

    def _find(self, asked: AskedAggregate, facts: Facts, measure: str) -> tuple[_Part, CellTable, Exactness] | None:
        name = asked.frame, facts.catalog, measure
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = (self._look(asked, facts, measure),)
        return known[0]

    def _look(
        self, asked: AskedAggregate, facts: Facts, measure: str, *, as_released: bool = True
    ) -> tuple[_Part, CellTable, Exactness] | None:
        key = asked.frame.weights.of_rows, facts.catalog
        if (
            key not in self._axes
            or not is_of_vector(asked.frame, measure)
            or not self._axes[key].knows(asked.frame, facts)
        ):
            return None
        bare, kept, placed = _placed(self._axes[key], asked.frame, measure)
        family = self._family(self._axes[key], (key, self._axes[key].elsewhere(asked.frame, kept)))
        if placed is None or family is None:
            return None
        alone = family.alone(bare, asked.frame, measure) if as_released else None
        if alone is not None:
            return _Part(None, (alone,), ()), placed, ITSELF
        best = None
        for part in family.parts(bare, asked.equations):
            assert part.system is not None
            exactness = part.system.exactness(placed, part.factors)
            if (
                exactness is not None
                and exactness.read
                and (best is None or exactness.variance < best[2].variance * (1 - 1e-9))
            ):
                best = part, placed, exactness
        if best is None and as_released:
            of_no_cell = family.released(asked.frame, measure)
            return None if of_no_cell is None else (_Part(None, (of_no_cell,), ()), placed, ITSELF)
        return best

    def _family(self, axes: Axes, name: tuple[object, frozenset[str]]) -> _Family | None:
        """Returns what was released of one vector, looked at when it is first asked; None without anything."""
        if name not in self._families and name in self._alike:
            placed = ((source, *_placed(axes, source.frame, source.measure)) for source in self._alike[name])
            members = [(source, table, measure) for source, measure, _, table in placed if table is not None]
            self._families[name] = _Family(axes.sizes, members)
        return self._families.get(name)


@lru_cache(maxsize=4096)
def _conditions(measure: str) -> tuple[str, ...]:
    """Returns what of a measure may cut an ordered value into places: conditions, and the expression of signs."""
    bare, kept = without_filter(measure)
    signed = signed_rows(bare)
    return kept if signed is None else (*kept, signed[1])


def _placed(axes: Axes, frame: MeasurementFrame, measure: str) -> tuple[str, Row, CellTable | None]:
    """Returns what a measure adds up, without its filter, the filter's conditions, and the cells: of a sum of signs the
    rows, each with its sign, where that is known of each cell."""
    bare, kept = without_filter(measure)
    signed = signed_rows(bare)
    found = None if signed is None else axes.signs(frame, kept, signed[1])
    return bare if signed is None or found is None else signed[0], kept, axes.table(frame, kept, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A system, what it was made of, and the factors of its coordinates in a measure that is asked; no system where
    the one source is shown as it is."""

    system: System | None
    sources: Sequence[VectorSource]
    factors: tuple[Fraction, ...]

    def numbers(self, table: CellTable) -> NDArray[Any]:
        """Returns the estimates."""
        if self.system is not None:
            return self.system.numbers(table, self.factors)
        stored = self.sources[0].stored
        assert stored is not None
        return stored[1].numbers


ITSELF = Exactness(0.0, {0: (np.ones(1), np.ones(1, dtype=np.int64))}, frozenset({0}), 0)
"""A number as it was released; the variance is its own."""


class _Family:
    """The measurements of one vector, in systems of measures that are bound by equations."""

    def __init__(self, sizes: list[int], members: list[tuple[VectorSource, CellTable, str]]) -> None:
        equations = {
            tuple([(without_filter(name)[0], by) for name, by in equation])
            for source, _, _ in members
            for equation in source.equations
        }
        self._factors = solved((measure for _, _, measure in members), equations)
        self._sizes, self._members = sizes, members
        self._groups = _connected(self._factors.values())
        self._systems: dict[frozenset[str], list[tuple[System, list[VectorSource]]]] = {}

    def alone(self, bare: str, frame: MeasurementFrame, measure: str) -> VectorSource | None:
        """Returns the numbers that were released of a measure if nothing else tells of it: they are its estimate."""
        told = [source for source, _, own in self._members if bare in self._factors[own]]
        is_free = (
            len(told) == 1 and self._factors.get(bare) == {bare: Fraction(1)} and frozenset({bare}) in self._groups
        )
        return told[0] if is_free and (told[0].frame, told[0].measure) == (frame, measure) else None

    def released(self, frame: MeasurementFrame, measure: str) -> VectorSource | None:
        """Returns the most exact numbers that were released of a measure as it is asked."""
        same = [source for source, _, _ in self._members if (source.frame, source.measure) == (frame, measure)]
        return min(same, key=lambda source: variance_of(source.noise), default=None)

    def parts(self, measure: str, equations: Sequence[Equation]) -> Iterable[_Part]:
        """Yields the systems that may tell of a measure, which the equations may give by others."""
        factors = self._factors.get(measure) or self._given(measure, equations)
        group = next((g for g in self._groups if factors is not None and factors.keys() <= g), None)
        if factors is None or group is None or not any(self._factors[m].keys() <= group for _, _, m in self._members):
            return  # it may be named by an equation alone
        names = sorted(group)
        for system, sources in self._of(group):
            yield _Part(system, sources, tuple(factors.get(name, Fraction(0)) for name in names))

    def _given(self, measure: str, equations: Sequence[Equation]) -> Factors | None:
        for equation in equations:
            plain = {without_filter(name)[0]: by for name, by in equation}
            if measure in plain and all(name in self._factors for name in plain.keys() - {measure}):
                found: Factors = {}
                for name in plain.keys() - {measure}:
                    for free, by in self._factors[name].items():
                        found[free] = found.get(free, Fraction(0)) - by * plain[name] / plain[measure]
                return {name: by for name, by in found.items() if by}
        return None

    def _of(self, group: frozenset[str]) -> list[tuple[System, list[VectorSource]]]:
        """Returns one system, or where its unknown numbers are too many, one for each set of axes; where it is too much
        work otherwise, several."""
        if group not in self._systems:
            members = [m for m in self._members if self._factors[m[2]].keys() <= group]
            system = self._system(group, members)
            self._systems[group] = [(system, [source for source, _, _ in members])]
            if system.size > MOST_CELLS:
                apart: dict[object, list[tuple[VectorSource, CellTable, str]]] = {}
                for member in members:
                    axes = frozenset(axis for axis, _ in (*member[1].keys, *member[1].limits))
                    apart.setdefault(axes, []).append(member)
                self._systems[group] = [(self._system(group, some), [s for s, _, _ in some]) for some in apart.values()]
            elif not system.is_little_work:
                self._systems[group] = [*self._oldest_first(group, members)]
        return self._systems[group]

    def _oldest_first(
        self, group: frozenset[str], members: Sequence[tuple[VectorSource, CellTable, str]]
    ) -> Iterator[tuple[System, list[VectorSource]]]:
        """Yields systems of as many measurements as are little work together: what was known stays known beside
        what is released later."""
        while members:
            low, high = 1, len(members)
            while low < high:
                middle = (low + high + 1) // 2
                fits = self._system(group, members[:middle]).is_little_work
                low, high = (middle, high) if fits else (low, middle - 1)
            yield self._system(group, members[:low]), [source for source, _, _ in members[:low]]
            members = members[low:]

    def _system(self, group: frozenset[str], members: Sequence[tuple[VectorSource, CellTable, str]]) -> System:
        names = sorted(group)
        observed = [
            Observed(
                table,
                tuple(self._factors[measure].get(name, Fraction(0)) for name in names),
                variance_of(source.noise),
                None if source.stored is None else source.stored[1].numbers,
            )
            for source, table, measure in members
        ]
        return System(self._sizes, observed)


def _connected(sums: Iterable[Factors]) -> list[frozenset[str]]:
    """Returns the free measures in groups: those that one sum has are in one."""
    groups: list[frozenset[str]] = []
    for factors in sums:
        own = frozenset(factors)
        touching = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [own.union(*touching)]
    return groups


def _stored(sources: Sequence[VectorSource], exactness: Exactness) -> tuple[tuple[StoredRelease, ReleasedMeasure], ...]:
    return tuple(known for number in sorted(exactness.read) if (known := sources[number].stored) is not None)


def _plain(sources: Sequence[VectorSource], exactness: Exactness) -> tuple[NoiseLaw, int] | None:
    """Returns the noise of released numbers and how many of them an estimate is the sum of; None where it is another
    combination."""
    if len(exactness.weights) == 1:
        ((number, (sizes, counts)),) = exactness.weights.items()
        if len(sizes) == 1 and abs(float(sizes[0]) - 1) < ONE:
            return sources[number].noise, int(counts[0])
    return None


def _variance(sources: Sequence[VectorSource], exactness: Exactness) -> float:
    """Returns the variance of an estimate; that of numbers which are shown as released is theirs."""
    plain = _plain(sources, exactness)
    return exactness.variance if plain is None else plain[1] * variance_of(plain[0])


def _law(sources: Sequence[VectorSource], exactness: Exactness) -> tuple[AnyNoise, float]:
    """Returns the noise of an estimate, and its variance."""
    plain = _plain(sources, exactness)
    if plain is not None:
        noise, count = plain
        return (noise if count == 1 else of_sum(noise, count)), _variance(sources, exactness)
    parts = [
        (int(count) * float(size) ** 2 * variance, number, float(size), int(count))
        for number, (sizes, counts) in exactness.weights.items()
        for variance in (variance_of(sources[number].noise),)
        for size, count in zip(sizes, counts, strict=True)
    ]
    parts.sort(key=lambda part: -part[0])
    made = [
        Component(noise=sources[number].noise, count=count, weight=Fraction(round(size * 2**40), 2**40))
        for _, number, size, count in parts[:MOST_COMPONENTS]
    ]
    rest = sum(part[0] for part in parts[MOST_COMPONENTS:])
    law = CombinedNoise(components=tuple(made), rounded=exactness.roundings, rest=rest)
    return law, exactness.variance
