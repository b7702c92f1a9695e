"""Measurements of stored numbers: how they were measured once, and how exact they are here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.kernel.accountant import compose
from dpquery.kernel.mechanisms import Calibrated
from dpquery.kernel.plan import CHOICES, Measure, Mechanism
from dpquery.kernel.quantiles import asked
from dpquery.kernel.utilities import step_of
from dpquery.result.combined import CombinedNoise
from dpquery.result.measurements import Measurement
from dpquery.stored.chosen import drawn_with
from dpquery.stored.estimates import Estimate, Found, Wanted, spread

_FAILURE = Fraction(1, 20)


def described(
    measured: Sequence[Measurement], wanted: Sequence[Wanted], found: Sequence[Found]
) -> tuple[Measurement, ...]:
    """Returns the measurements of a plan, with what is said of those that are stored."""
    remaining, made = iter(measured), []
    for one, there in zip(wanted, found, strict=True):
        for measure, estimate in zip(one.budgeted.aggregate.measures, there.estimates, strict=True):
            plain = next(remaining)
            if estimate is not None:
                loss = compose(part.loss for _, part in estimate.parts)
                tau = None if there.release is None else there.release.tau
                plain = replace(_exactness(plain, measure, one, estimate), loss=loss, tau=tau, stored=estimate.entries)
            made.append(plain)
    return tuple(made)


def with_combined(
    measured: Sequence[Measurement], wanted: Sequence[Wanted], before: Sequence[Found], after: Sequence[Found]
) -> tuple[Measurement, ...]:
    """Returns the measurements with the exactness of new numbers that were combined with stored ones."""
    remaining, made = iter(measured), []
    for one, old, new in zip(wanted, before, after, strict=True):
        pairs = zip(one.budgeted.aggregate.measures, old.estimates, new.estimates, strict=True)
        for measure, here, estimate in pairs:
            plain = next(remaining)
            if here is None and estimate is not None and isinstance(estimate.law, CombinedNoise):
                plain = _exactness(plain, measure, one, estimate)
            made.append(plain)
    return tuple(made)


def _exactness(plain: Measurement, measure: Measure, wanted: Wanted, estimate: Estimate) -> Measurement:
    """Returns a measurement with the mechanism, scale and error of an estimate."""
    aggregate, law = wanted.budgeted.aggregate, estimate.law
    mechanism = min((part.noise for _, part in estimate.parts), key=spread).mechanism
    if measure.count in CHOICES and isinstance(law, Calibrated):
        release, part = estimate.parts[0]
        together = drawn_with(measure, release, part)
        drawn = replace(aggregate, measures=tuple(choice for choice, _ in together), selection=None)
        own = next(choice for choice, member in together if member.measure == part.measure)
        scale = float(step_of(*asked(drawn, own)) / law.parameter)
        return replace(
            plain,
            mechanism=mechanism.value,
            scale=scale,
            error95=estimate.variance,
            together=len(release.chosen_with(part)),
        )
    step = measure.lattice.unit if measure.lattice else Fraction(1)
    if isinstance(law, Calibrated) and mechanism is Mechanism.LAPLACE:
        scale = float(law.parameter * step)
    else:
        scale = math.sqrt(estimate.variance / (2 if mechanism is Mechanism.LAPLACE else 1)) * float(step)
    return replace(plain, mechanism=mechanism.value, scale=scale, error95=float(law.half_width(_FAILURE) * step))
