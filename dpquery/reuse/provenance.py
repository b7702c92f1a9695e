"""Which stored numbers an answer is computed from, and what they lost: known before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, Measure, Noise
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.estimates import StoredEstimate, Wanted, find
from dpquery.reuse.frames import unfiltered
from dpquery.reuse.releases import ReleasedMeasure, StoredRelease
from dpquery.reuse.stored_choices import ROUNDING, Place, drawn_together, place_of
from dpquery.reuse.text import measure_of
from dpquery.reuse.vector_estimates import VectorEstimate, Vectors, VectorSource, stored
from dpquery.units.declarations import Declarations


def planned_vectors(
    wanted: Sequence[Wanted],
    found: Sequence[StoredEstimate],
    vectors: Mapping[str, Vectors],
    over: Mapping[str, Sequence[StoredRelease]],
    follows: frozenset[str],
) -> dict[str, Vectors]:
    """Returns what will be known of sums, as far as something is to be measured: estimates read old and new numbers."""
    new: dict[str, list[VectorSource]] = {}
    for one, there in zip(wanted, found, strict=True):
        if one.asked is None:
            continue
        ids = [measure.id for measure in one.budgeted.aggregate.measures]
        for text, noise, estimate, id in zip(one.asked.measures, one.noises, there.estimates, ids, strict=True):
            if estimate is None and is_of_vector(one.asked.frame, text) and id not in follows:
                source = VectorSource(one.asked.frame, one.facts, text, noise, one.asked.equations)
                new.setdefault(one.asked.frame.base, []).append(source)
    made = dict(vectors)
    for base, sources in new.items():
        old = stored(over[base])
        made[base] = Vectors([*old, *sources]) if old else Vectors(())
    return made


def behind(
    wanted: Wanted,
    releases: Sequence[StoredRelease],
    found: StoredEstimate,
    rest: BudgetedAggregate | None,
    vectors: Mapping[str, Vectors],
    declared: Declarations,
    entry: int | None,
    counted: set[Place],
) -> list[BudgetedAggregate]:
    """Returns what the stored numbers lost that an aggregate is computed from; what this entry released is not one.

    Args:
        counted: Numbers that other aggregates of the plan are computed from too, which are left out; these are added.
    """
    used = used_by(wanted, releases, found, rest, vectors, declared)
    old = [
        (measure, [part for part in parts if part[0].entry != entry and place_of(*part) not in counted])
        for measure, parts in used
    ]
    counted |= {place_of(*part) for _, parts in old for part in parts}
    return lost_behind(wanted, old, found.release)


def undetermined(wanted: Sequence[Wanted], planned: Mapping[str, Vectors], follows: frozenset[str]) -> frozenset[str]:
    """Returns the ids of measures that are to follow from others, and do not as exactly as they were planned to once
    these are beside what is stored."""
    found = set[str]()
    for one in wanted:
        vectors = None if one.asked is None else planned[one.asked.frame.base]
        if one.asked is None or not vectors:
            continue
        each = zip(one.asked.measures, one.budgeted.aggregate.measures, one.noises, strict=True)
        for text, measure, noise in each:
            if measure.id in follows:
                variance = vectors.variance(one.asked, one.facts, text)
                if variance is None or variance > variance_of(noise) * ROUNDING:
                    found.add(measure.id)
    return frozenset(found)


def used_by(
    wanted: Wanted,
    releases: Sequence[StoredRelease],
    found: StoredEstimate,
    rest: BudgetedAggregate | None,
    planned: Mapping[str, Vectors],
    declared: Declarations,
) -> list[tuple[Measure, Sequence[tuple[StoredRelease, ReleasedMeasure]]]]:
    """Returns the measures of an aggregate with the stored numbers that each will be computed from."""
    asked, used = wanted.asked, list[tuple[Measure, Sequence[tuple[StoredRelease, ReleasedMeasure]]]]()
    if asked is None:
        return used
    also: Sequence[VectorEstimate | None] = found.estimates
    if rest is not None and releases and not asked.frame.is_selected:
        also = find(wanted, releases, Vectors(()), unit_is_row=declared.unit_is_row, enough=False).estimates
    for place, (measure, here) in enumerate(zip(wanted.budgeted.aggregate.measures, found.estimates, strict=True)):
        old, parts = here or also[place], None
        if is_of_vector(asked.frame, asked.measures[place]):
            parts = planned[asked.frame.base].behind(asked, wanted.facts, asked.measures[place])
        if parts is not None:
            used.append((measure, parts))
        elif old is not None and (here is not None or measure.count not in CHOICES):  # the new choice is shown
            used.append((measure, old.parts))
    return used


def lost_behind(
    wanted: Wanted,
    used: Sequence[tuple[Measure, Sequence[tuple[StoredRelease, ReleasedMeasure]]]],
    chosen: StoredRelease | None,
) -> list[BudgetedAggregate]:
    """Returns aggregates that lose what the stored numbers, and the selection of their groups, lost.

    Numbers of one release, of the very measures that are wanted, stand side by side as they were released: those of
    disjoint filters are in parallel where the kernel says so of them, and so are the terms of one vector. A reader of
    one of several quantiles that were chosen together reads what all of them lost, once.
    """
    texts = dict(zip(wanted.budgeted.aggregate.measures, wanted.asked.measures if wanted.asked else (), strict=False))
    parts: dict[Place, tuple[StoredRelease, Measure, ReleasedMeasure]] = {}
    for measure, some in used:
        for release, part in some:
            if place_of(release, part) not in parts or texts.get(measure) == part.measure:
                parts[place_of(release, part)] = release, measure, part
    choices = drawn_together((m, r, p) for r, m, p in parts.values() if m.count in CHOICES)
    releases: dict[object, tuple[StoredRelease, bool, list[tuple[Measure, ReleasedMeasure]]]] = {}
    for place, (release, measure, part) in parts.items():
        if measure.count in CHOICES:
            drawn = choices[place]
            releases[place_of(release, drawn[0][1])] = (release, True, drawn)
            continue
        is_itself = texts.get(measure) == part.measure
        lost = measure if is_itself else measure_of(part.measure)
        releases.setdefault((*place[:2], is_itself), (release, is_itself, []))[2].append((lost, part))
    found = []
    for release, is_itself, lost_by in releases.values():
        aggregate = wanted.budgeted.aggregate
        given = release.frame.weights
        weights = replace(aggregate.weights, max_rows=given.max_rows, max_groups=given.max_groups)
        same = wanted.asked is not None and set(release.frame.conditions) == set(wanted.asked.frame.conditions)
        source = aggregate.source if same and is_itself else unfiltered(aggregate.source)
        aggregate = replace(
            aggregate, source=source, measures=tuple(measure for measure, _ in lost_by), weights=weights
        )
        noise = tuple(Noise(mechanism=part.noise.mechanism, loss=part.loss) for _, part in lost_by)
        found.append(BudgetedAggregate(aggregate=aggregate, noise=noise))
    if chosen is not None and found:
        found[0] = replace(found[0], selection_delta=chosen.delta)
    return found
