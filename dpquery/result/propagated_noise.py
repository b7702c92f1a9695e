"""What is kept of noise while an answer is followed from its released tables up: copies, totals, reports, and laws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.accuracy.combinations import law_of
from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.accuracy.simulated import LEAST_OF_SUM, AnyLaw, SharedLaw, SimulatedLaw
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, Key
from dpquery.kernel.release import NoisyTable
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import Filter, Project, Relation, Released, Window
from dpquery.result.added_tables import LINEAR, AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.inverse_variance import CombinedNoise

Meanings = dict[str, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseSum:
    """The noise of a sum of `count` numbers of one law each, which may depend on each other."""

    noise: AnyNoise
    count: int

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps (union bound)."""
        return self.count * self.noise.half_width(failure / self.count)


@dataclass(slots=True, kw_only=True)
class PropagatedNoise(dict[str, str]):
    """As a dict: columns of a table that is read twice, under the id of the second copy, and their own ids.

    Attributes:
        tables: The released tables.
        measures: The ids of their noisy columns.
        variances: For columns that stand for the randomness of reports, how large it is, over what they stand beside.
        spread: Those of them that were met, and how large, over columns of released tables.
        totals: Sums of a measure over groups: its id, and of how many groups at most.
    """

    tables: Sequence[NoisyTable | AddedTable]
    measures: frozenset[str]
    variances: Mapping[str, Expression]
    spread: dict[str, Expression] = field(default_factory=dict)
    totals: dict[str, tuple[str, int]] = field(default_factory=dict)

    def totals_of(self, window: Window, meanings: Meanings) -> Meanings:
        """Returns the meanings of a window's plain sums of a measure over public groups: noisy numbers of their own."""
        found: Meanings = {}
        for column in window.columns:
            argument = column.arguments[0] if column.arguments else None
            value = meanings.get(argument.id) if isinstance(argument, Column) else None
            plain = column.function == "sum" and not (column.filter or column.order_by or column.frame)
            if plain and isinstance(value, Column) and value.id in self.measures and _is_released(window.source):
                count = self._groups(value.id, column.partition_by)
                if count is not None:
                    self.totals[column.id] = (value.id, count)
                    found[column.id] = Column(id=column.id, type=column.type)
        return found

    def _groups(self, measure: str, kept: Sequence[str]) -> int | None:
        for table in self.tables:
            if any(known.id == measure for known in table.aggregate.measures):
                return None if table.aggregate.is_selected else math.prod(_most(k, kept) for k in table.aggregate.keys)
        return None

    def sums(self, noises: Mapping[str, tuple[AnyNoise, Fraction]]) -> dict[str, tuple[AnyNoise | LooseSum, Fraction]]:
        """Returns the noise of each total, and the unit of its numbers."""
        fresh = {m.id for table in self.tables if isinstance(table, NoisyTable) for m in table.aggregate.measures}
        found: dict[str, tuple[AnyNoise | LooseSum, Fraction]] = {}
        for id, (measure, count) in self.totals.items():
            if measure in noises:
                noise, step = noises[measure]
                one, parts = (noise.noise, noise.count) if isinstance(noise, NoiseOfSum) else (noise, 1)
                if isinstance(one, NoiseLaw) and (one.is_added or measure in fresh):  # each group has noise of its own
                    found[id] = (NoiseOfSum(noise=one, count=parts * count), step)
                else:
                    found[id] = (LooseSum(noise=noise, count=count), step)
        return found

    def is_spread(self, id: str, meanings: Meanings) -> bool:
        """Whether a column stands for the randomness of reports; what is known of it is kept."""
        known = self.variances.get(id)
        if known is None or not all(column.id in meanings for column in columns_of(known)):
            return False
        self.spread[id] = substitute(known, meanings)
        return True


def _most(key: Key, kept: Sequence[str]) -> int:
    """Returns how many values of a public key agree in those of its columns that are kept, at most."""
    columns = [i for i, id in enumerate(key.columns) if id in kept]
    counted = Counter(tuple(values[i] for i in columns) for values in key.domain or ())
    return max(counted.values(), default=0)


def _is_released(relation: Relation) -> bool:
    """Whether each row is a group of one released table."""
    if isinstance(relation, Project | Filter):
        return _is_released(relation.source)
    return isinstance(relation, Released)


def laws_of(tables: Sequence[NoisyTable | AddedTable], again: Mapping[str, str]) -> Callable[[str], AnyLaw | None]:
    """Returns what is known of each measure's noise; nothing where a table is read twice, for noise may be shared."""
    twice = {*again, *again.values()}
    shared: dict[int, dict[str, SharedLaw]] = {}

    def law(id: str) -> AnyLaw | None:
        for number, table in enumerate(tables):
            noises: Sequence[AnyNoise] = table.noises
            for measure, noise in zip(table.aggregate.measures, noises, strict=True):
                if measure.id == id and id not in twice and measure.count not in CHOICES:
                    repeats = isinstance(table, AddedTable) and table.repeats
                    if number not in shared:
                        shared[number] = _shared_laws(table, number)
                    return shared[number].get(id) or _law(noise, number, repeats, measure.unit)
        return None

    return law


def _shared_laws(table: NoisyTable | AddedTable, number: int) -> dict[str, SharedLaw]:
    """Returns the noise of the measures of a table that are estimated together, by id."""
    if not isinstance(table, AddedTable) or not any(isinstance(noise, CombinedNoise) for noise in table.noises):
        return {}
    places = [place for place, measure in enumerate(table.aggregate.measures) if measure.count in LINEAR]
    found = table.shared(table.aggregate, places)
    ids = [table.aggregate.measures[place].id for place in places] if found else []
    return {
        id: SharedLaw(table=number, is_added=table.repeats, shared=found, place=place)
        for place, id in enumerate(ids)
        if found is not None
    }


def _law(noise: AnyNoise, table: int, is_added: bool, step: Fraction) -> SimulatedLaw | None:
    if isinstance(noise, CombinedNoise):
        return None
    one, count = (noise.noise, noise.count) if isinstance(noise, NoiseOfSum) else (noise, 1)
    if not one.is_added:
        return None
    if count == 1:
        return law_of(one, float(step), table=table, is_added=is_added)
    scale = math.sqrt(variance_of(one) * count)
    if scale < LEAST_OF_SUM or not shape_of(one.mechanism).is_stable:
        return None
    return SimulatedLaw(table=table, is_added=is_added, mechanism=one.mechanism, scale=scale * float(step))
