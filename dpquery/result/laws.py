"""The noise of the measures of released tables, as intervals follow it through an answer's columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from dpquery.accuracy.combinations import law_of
from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.accuracy.simulated import LEAST_OF_SUM, AnyLaw, Law, SharedLaw
from dpquery.kernel.plan import CHOICES
from dpquery.kernel.release import NoisyTable
from dpquery.result.added import LINEAR, AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.combined import CombinedNoise


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


def _law(noise: AnyNoise, table: int, is_added: bool, step: Fraction) -> Law | None:
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
    return Law(table=table, is_added=is_added, mechanism=one.mechanism, scale=scale * float(step))
