"""Measurements of stored numbers: how they were measured once, and how exact they are here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.accuracy.noise_shapes import scale_of, shape_of, spread_of
from dpquery.kernel.accountant import compose
from dpquery.kernel.choice_utilities import step_of
from dpquery.kernel.loss import ZERO
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, Measure, PrivateAggregate
from dpquery.kernel.quantiles import asked
from dpquery.ledger.ledger import Ledger
from dpquery.result.inverse_variance import CombinedNoise
from dpquery.result.measurements import Measurement
from dpquery.reuse.estimates import StoredEstimate, Wanted
from dpquery.reuse.releases import StoredRelease
from dpquery.reuse.stored_choices import Place, drawn_together, place_of
from dpquery.reuse.vector_estimates import VectorEstimate

if TYPE_CHECKING:
    import pandas as pd

_FAILURE = Fraction(1, 20)


def described(
    measured: Sequence[Measurement], wanted: Sequence[Wanted], found: Sequence[StoredEstimate], follows: frozenset[str]
) -> tuple[Measurement, ...]:
    """Returns the measurements of a plan, with what is said of those that are stored or follow from others."""
    remaining, made = iter(measured), []
    for one, there in zip(wanted, found, strict=True):
        choices = _choices(one.budgeted.aggregate, there)
        for measure, estimate in zip(one.budgeted.aggregate.measures, there.estimates, strict=True):
            plain = next(remaining)
            if estimate is not None:
                loss = compose(part.loss for _, part in estimate.parts)
                tau = None if there.release is None else there.release.tau
                chosen = choices.get(measure.id)
                exact = _exactness(plain, measure, estimate) if chosen is None else _of_choice(plain, estimate, *chosen)
                plain = replace(exact, loss=loss, tau=tau, stored=estimate.entries)
            elif measure.id in follows:
                plain = replace(plain, loss=ZERO, parallel=0, follows=True)
            made.append(plain)
    return tuple(made)


def with_combined(
    measured: Sequence[Measurement],
    wanted: Sequence[Wanted],
    before: Sequence[StoredEstimate],
    after: Sequence[StoredEstimate],
) -> tuple[Measurement, ...]:
    """Returns the measurements with the exactness of new numbers that were combined with stored ones."""
    remaining, made = iter(measured), []
    for one, old, new in zip(wanted, before, after, strict=True):
        pairs = zip(one.budgeted.aggregate.measures, old.estimates, new.estimates, strict=True)
        for measure, here, estimate in pairs:
            plain = next(remaining)
            if here is None and estimate is not None and (plain.follows or isinstance(estimate.law, CombinedNoise)):
                plain = _exactness(plain, measure, estimate)
            made.append(plain)
    return tuple(made)


def _choices(aggregate: PrivateAggregate, found: StoredEstimate) -> dict[str, tuple[Fraction, int]]:
    """Returns for each stored choice, by its id, the step of its utility and how many were chosen together, or 0."""
    read = [
        (measure, *estimate.parts[0])
        for measure, estimate in zip(aggregate.measures, found.estimates, strict=True)
        if measure.count in CHOICES and estimate is not None and isinstance(estimate.law, NoiseLaw)
    ]
    drawn = drawn_together(read)
    steps: dict[Place, tuple[Fraction, int]] = {}
    for place, together in drawn.items():
        if place not in steps:
            made = replace(aggregate, measures=tuple(choice for choice, _ in together), selection=None)
            number = len(together) if len(together) > 1 else 0
            steps |= {(*place[:2], member.measure): (step_of(*asked(made, own)), number) for own, member in together}
    return {measure.id: steps[place_of(release, part)] for measure, release, part in read}


def _of_choice(plain: Measurement, estimate: VectorEstimate, step: Fraction, together: int) -> Measurement:
    """Returns a measurement with the scale and error of a stored choice."""
    (_, part), law = estimate.parts[0], estimate.law
    assert isinstance(law, NoiseLaw)
    return replace(
        plain,
        mechanism=part.noise.mechanism.value,
        scale=float(scale_of(law) * step),
        error95=estimate.variance,
        together=together,
    )


def _exactness(plain: Measurement, measure: Measure, estimate: VectorEstimate) -> Measurement:
    """Returns a measurement with the mechanism, scale and error of an estimate that was not chosen."""
    law, step = estimate.law, measure.unit
    mechanism = min((part.noise for _, part in estimate.parts), key=spread_of).mechanism
    if isinstance(law, NoiseLaw):
        scale = float(scale_of(law) * step)
    else:
        scale = math.sqrt(estimate.variance) * shape_of(mechanism).scale_of_deviation * float(step)
    return replace(plain, mechanism=mechanism.value, scale=scale, error95=float(law.half_width(_FAILURE) * step))


COLUMNS = ("release", "time", "analyst", "groups", "columns", "query", "charge")


def listing(ledger: Ledger, releases: Sequence[StoredRelease]) -> pd.DataFrame:
    """Returns one row for each stored table: the ledger's entry that paid for it, when and for whom, by which keys it
    is grouped, what was measured, the query as it was asked, and what that query was charged, for all its tables."""
    import pandas as pd

    entries = {entry.seq: entry for entry in ledger.entries()} if releases else {}
    rows = [
        (
            release.entry,
            release.time,
            release.analyst,
            ", ".join(release.names[0]),
            ", ".join(release.names[1]),
            entries[release.entry].query,
            str(entries[release.entry].loss),
        )
        for release in releases
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
