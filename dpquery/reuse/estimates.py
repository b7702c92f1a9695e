"""The best that is known of each measure of a query from stored releases, and whether it is as exact as asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.accuracy.noise_shapes import noises_of, spread_of
from dpquery.kernel.mechanisms import NoiseLaw, tau_of
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, Measure, PrivateAggregate
from dpquery.kernel.quantiles import rank_errors
from dpquery.plan.cached import cached
from dpquery.result.added_tables import of_sum
from dpquery.result.inverse_variance import CombinedNoise, Component, combined, weights_of
from dpquery.result.measurements import FAILURE
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.frames import AskedAggregate, MeasurementFrame
from dpquery.reuse.group_derivations import GroupDerivation, way
from dpquery.reuse.releases import Facts, ReleasedMeasure, StoredRelease
from dpquery.reuse.stored_choices import ROUNDING, are_enough, best, errors_of, read_at_once
from dpquery.reuse.vector_estimates import VectorEstimate, Vectors
from dpquery.units.declarations import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An aggregate of a query, with the noise that it was given.

    Attributes:
        asked: Its form in the store; None where it has none, so that nothing stored can serve it.
        facts: What the catalog says of its groups.
        noises, tau: The noise of each measure, and the tau of its groups.
        ranks: How many ranks each choice may be off; 0 for the rest.
    """

    budgeted: BudgetedAggregate
    asked: AskedAggregate | None
    facts: Facts
    noises: tuple[NoiseLaw, ...]
    tau: int | None
    ranks: tuple[float, ...]

    @staticmethod
    def of(budgeted: BudgetedAggregate, asked: AskedAggregate | None, facts: Facts, neighbours: Neighbours) -> Wanted:
        """Returns an aggregate with its noise, as the kernel will calibrate it."""
        noises = noises_of(budgeted, neighbours)
        tau, ranks = tau_of(budgeted, noises), _ranks(budgeted, neighbours)
        return Wanted(budgeted=budgeted, asked=asked, facts=facts, noises=noises, tau=tau, ranks=ranks)


@cached
def _ranks(budgeted: BudgetedAggregate, neighbours: Neighbours) -> tuple[float, ...]:
    scales = [noise.choosing for noise in noises_of(budgeted, neighbours)]
    return tuple(rank_errors(budgeted.aggregate, scales, FAILURE))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEstimate:
    """What the store gives for an aggregate.

    Attributes:
        estimates: For each measure; None for one that has to be measured.
        release: The release whose groups are shown, where groups are selected.
        vectors: What the estimates of sums are of.
    """

    estimates: tuple[VectorEstimate | None, ...]
    release: StoredRelease | None = None
    vectors: Vectors | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing has to be measured."""
        return all(estimate is not None for estimate in self.estimates)


def ranks_of(aggregate: PrivateAggregate, estimates: Sequence[VectorEstimate], failure: Fraction) -> list[float]:
    """Returns how many ranks stored choices are off at most but with a probability; 0 for other numbers."""
    found = [0.0] * len(estimates)
    for i, (measure, estimate) in enumerate(zip(aggregate.measures, estimates, strict=True)):
        if measure.count in CHOICES:
            release, part = estimate.parts[0]
            (found[i],) = errors_of(aggregate, [measure], release, [part], failure)
    return found


def find(
    wanted: Wanted, releases: Iterable[StoredRelease], vectors: Vectors, *, unit_is_row: bool, enough: bool = True
) -> StoredEstimate:
    """Returns what stored releases give for an aggregate.

    Args:
        releases: Those over the same rows, oldest first.
        vectors: Of all that is stored over the same base.
        enough: Whether only what is as accurate as asked counts; if not, of units, different values and choices the
            same groups count, however inexact.
    """
    measures = wanted.budgeted.aggregate.measures
    if wanted.asked is None:
        return StoredEstimate(estimates=(None,) * len(measures))
    if wanted.asked.frame.is_selected:
        return _selected(wanted, wanted.asked, releases)
    texts = wanted.asked.measures
    estimates: list[VectorEstimate | None] = [
        _of_vector(wanted, wanted.asked, place, vectors, enough=enough)
        if is_of_vector(wanted.asked.frame, text)
        else None
        for place, text in enumerate(texts)
    ]
    if all(is_of_vector(wanted.asked.frame, text) for text in texts) and None not in estimates:
        return StoredEstimate(estimates=tuple(estimates), vectors=vectors)
    ways = [
        (release, found)
        for release in releases
        if (found := way(release.frame, release.facts, wanted.asked, wanted.facts, unit_is_row=unit_is_row))
    ]
    for place, (measure, text, noise) in enumerate(zip(measures, texts, wanted.noises, strict=True)):
        if is_of_vector(wanted.asked.frame, text):  # under another catalog, the same groups are the same numbers
            same = [(r, found) for r, found in ways if found.same and r.facts.catalog != wanted.facts.catalog]
            if estimates[place] is None and same:
                estimates[place] = _estimate(measure, text, noise, same, enough=enough)
        elif measure.count not in CHOICES:
            estimates[place] = _estimate(measure, text, noise, ways, enough=enough)
    for places in read_at_once(measures):
        read = best(wanted.budgeted.aggregate, places, texts, wanted.ranks, ways, enough=enough)
        if read is not None:
            for place, made in zip(places, _chosen(*read), strict=True):
                estimates[place] = made
    return StoredEstimate(estimates=tuple(estimates), vectors=vectors)


def _of_vector(
    wanted: Wanted, asked: AskedAggregate, place: int, vectors: Vectors, *, enough: bool
) -> VectorEstimate | None:
    made = vectors.estimate(asked, wanted.facts, asked.measures[place])
    return made if made is None or not enough or _is_enough(made, wanted.noises[place]) else None


def _chosen(
    release: StoredRelease, parts: Sequence[ReleasedMeasure], taken: GroupDerivation, errors: Sequence[float]
) -> list[VectorEstimate]:
    return [
        VectorEstimate(numbers=taken.follow(part.numbers), law=part.noise, variance=error, parts=((release, part),))
        for part, error in zip(parts, errors, strict=True)
    ]


def _selected(wanted: Wanted, asked: AskedAggregate, releases: Iterable[StoredRelease]) -> StoredEstimate:
    """Selected groups come from one release, for which others are shown depends on its noise."""
    measures = wanted.budgeted.aggregate.measures
    nothing = StoredEstimate(estimates=(None,) * len(asked.measures))
    fitting = []
    for release in releases:
        kept, same = release.of(asked.measures), release.frame == asked.frame
        if not same or release.facts.catalog != wanted.facts.catalog or release.tau is None or kept is None:
            continue
        fine = [
            measure.count in CHOICES or spread_of(p.noise) <= spread_of(n) * ROUNDING
            for measure, p, n in zip(measures, kept, wanted.noises, strict=True)
        ]
        errors = errors_of(wanted.budgeted.aggregate, measures, release, kept)
        if all(fine) and are_enough(errors, wanted.ranks) and wanted.tau is not None and release.tau <= wanted.tau:
            fitting.append((release.tau, release.entry, release, kept))
    if not fitting:
        return nothing
    *_, release, kept = min(fitting, key=lambda one: one[:2])
    estimates = (
        VectorEstimate(numbers=p.numbers, law=p.noise, variance=spread_of(p.noise), parts=((release, p),)) for p in kept
    )
    return StoredEstimate(estimates=tuple(estimates), release=release)


def _estimate(
    measure: Measure, text: str, noise: NoiseLaw, ways: Sequence[tuple[StoredRelease, GroupDerivation]], *, enough: bool
) -> VectorEstimate | None:
    """Returns the same groups if they are accurate enough, else what follows from the oldest release that is."""
    candidates: dict[MeasurementFrame | None, list[tuple[StoredRelease, ReleasedMeasure, GroupDerivation]]] = {}
    for release, found in ways:
        part = next((part for part in release.parts if part.measure == text), None)
        if part is not None and found.serves(measure):
            candidates.setdefault(None if found.same else release.frame, []).append((release, part, found))
    same = candidates.pop(None, None)
    direct = _together(same) if same else None
    if not enough or (direct is not None and _is_enough(direct, noise)):
        return direct
    others = (_together(several) for several in candidates.values())
    return next((estimate for estimate in others if _is_enough(estimate, noise)), None)


def _is_enough(estimate: VectorEstimate, asked: NoiseLaw) -> bool:
    return estimate.variance <= spread_of(asked) * ROUNDING


def _together(several: list[tuple[StoredRelease, ReleasedMeasure, GroupDerivation]]) -> VectorEstimate:
    """Returns one release's numbers, or several releases' of the same groups combined."""
    numbers = [found.follow(part.numbers) for _, part, found in several]
    parts = tuple((release, part) for release, part, _ in several)
    variances = [spread_of(part.noise) * found.count for _, part, found in several]
    if len(several) == 1:
        _, part, found = several[0]
        law = of_sum(part.noise, found.count) if found.count > 1 else part.noise
        return VectorEstimate(numbers=numbers[0], law=law, variance=variances[0], parts=parts)
    weights = weights_of(variances)
    components = tuple(
        Component(noise=part.noise, count=found.count, weight=weight)
        for (_, part, found), weight in zip(several, weights, strict=True)
    )
    return VectorEstimate(
        numbers=combined(numbers, weights),
        law=CombinedNoise(components=components, rounded=1),
        variance=1 / math.fsum(1 / variance for variance in variances),
        parts=parts,
    )
