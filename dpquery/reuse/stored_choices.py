"""Stored choices: quantiles that were chosen together are read, judged and counted as what they were drawn as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpquery.kernel.plan import CHOICES, WHOLE_ROW, Count, Measure, PrivateAggregate, Weighing
from dpquery.kernel.quantiles import FEWEST, Scale, rank_errors
from dpquery.plan.logical import Scan
from dpquery.result.measurements import FAILURE
from dpquery.reuse.frames import MeasurementFrame
from dpquery.reuse.group_derivations import GroupDerivation
from dpquery.reuse.releases import ReleasedMeasure, StoredRelease

ROUNDING = 1 + 1e-9
"""Variances and errors are floats; equal noises may differ by less than this."""


def read_at_once(measures: Sequence[Measure]) -> list[tuple[int, ...]]:
    """Returns the choices of an aggregate, by their places; those of one tuple are all read from one release or all
    measured, for fewer quantiles of a value would be chosen in another way than the query was planned for.
    """
    alone: list[tuple[int, ...]] = []
    sharing: dict[object, list[int]] = {}
    for i, measure in enumerate(measures):
        if measure.count is Count.QUANTILE and 0 < (measure.target or 0) < 1:
            sharing.setdefault((measure.value, measure.filter, measure.lattice), []).append(i)
        elif measure.count in CHOICES:
            alone.append((i,))
    few = [places for places in sharing.values() if len(places) < FEWEST]
    return alone + [(i,) for places in few for i in places] + [tuple(p) for p in sharing.values() if p not in few]


def best(
    aggregate: PrivateAggregate,
    places: Sequence[int],
    texts: Sequence[str],
    allowed: Sequence[float],
    ways: Iterable[tuple[StoredRelease, GroupDerivation]],
    *,
    enough: bool,
) -> tuple[StoredRelease, tuple[ReleasedMeasure, ...], GroupDerivation, list[float]] | None:
    """Returns the release that choices are read from, with their rank errors: the same groups first, then the least
    error; one that is as accurate as asked, or where that need not be, one of the same groups."""
    candidates = []
    measures = [aggregate.measures[place] for place in places]
    for release, way in ways:
        parts = release.of([texts[place] for place in places])
        if parts is None or not all(map(way.serves, measures)):
            continue
        errors = errors_of(aggregate, measures, release, parts)
        fine = are_enough(errors, [allowed[place] for place in places])
        if fine or (way.same and not enough):
            candidates.append(((not fine, not way.same, sum(errors)), (release, parts, way, errors)))
    return min(candidates, key=lambda one: one[0])[1] if candidates else None


def are_enough(errors: Sequence[float], allowed: Sequence[float]) -> bool:
    """Whether no choice errs more than is allowed."""
    return all(error <= most * ROUNDING for error, most in zip(errors, allowed, strict=True))


def drawn_with(
    measure: Measure, release: StoredRelease, part: ReleasedMeasure
) -> list[tuple[Measure, ReleasedMeasure]]:
    """Returns what a stored choice was drawn with, as measures and parts: itself alone, or the whole family.

    Args:
        measure: What reads it, of the same value and filter.
    """
    together = release.chosen_with(part) or ((measure.target, part),)
    return [(replace(measure, id=str(i), target=target), member) for i, (target, member) in enumerate(together)]


Place = tuple[int, MeasurementFrame, str]
"""Where stored numbers are: the entry and the frame of their release, and the text of their measure."""


def place_of(release: StoredRelease, part: ReleasedMeasure) -> Place:
    """Returns where a part of a release is."""
    return release.entry, release.frame, part.measure


def drawn_together(
    read: Iterable[tuple[Measure, StoredRelease, ReleasedMeasure]],
) -> dict[Place, list[tuple[Measure, ReleasedMeasure]]]:
    """Returns what each of these stored choices was drawn with, by their places: one list for all of a family.

    Args:
        read: Stored choices, and what reads them.
    """
    found: dict[Place, list[tuple[Measure, ReleasedMeasure]]] = {}
    for measure, release, part in read:
        if place_of(release, part) not in found:
            drawn = drawn_with(measure, release, part)
            found |= {place_of(release, member): drawn for _, member in drawn}
    return found


def errors_of(
    aggregate: PrivateAggregate,
    measures: Sequence[Measure],
    release: StoredRelease,
    parts: Sequence[ReleasedMeasure],
    failure: Fraction = FAILURE,
) -> list[float]:
    """Returns how many ranks stored choices are off at most, but with this probability; 0 for the rest."""
    known: dict[str, float] = {}
    for measure, part in zip(measures, parts, strict=True):
        if part.measure not in known:
            together = drawn_with(replace(measure, label="", value=measure.value and "", filter=None), release, part)
            scales = tuple(member.noise.choosing for _, member in together)
            found = _rank_errors(tuple(drawn for drawn, _ in together), scales, aggregate.weights.weighing, failure)
            known |= {member.measure: error for (_, member), error in zip(together, found, strict=True)}
    return [known[part.measure] for part in parts]


@lru_cache(maxsize=1024)
def _rank_errors(
    measures: tuple[Measure, ...],
    scales: tuple[Scale, ...],
    weighing: Weighing,
    failure: Fraction,
) -> tuple[float, ...]:
    column = "" if weighing is Weighing.STORED else None
    aggregate = PrivateAggregate(
        source=Scan(table="", columns=(), public=True),
        unit=None,
        keys=(),
        weights=replace(WHOLE_ROW, weighing=weighing, column=column),
        measures=measures,
    )
    return tuple(rank_errors(aggregate, scales, failure))
