"""The least loss with which quantiles, minima and maxima are off by at most so many ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.errors import InvalidLossError
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import BudgetedAggregate, Measure, Noise, PrivateAggregate
from dpquery.kernel.quantiles import family_of, rank_errors
from dpquery.planner.budget.allocate import noise_of
from dpquery.units.declarations import Neighbours

DIGITS = 3
"""Losses are solved for to so many digits, rounded up."""
LARGEST = 40
"""Losses beyond 2 to the power of it, or below its inverse, are not looked for."""

Need = tuple[Fraction, Fraction]
"""How many ranks a choice may be off, but with a probability."""


def choices_for(
    aggregate: PrivateAggregate, needs: Mapping[str, Sequence[Need]], neighbours: Neighbours, *, pure: bool
) -> dict[str, Noise]:
    """Returns the noise of choices that have targets, and of all that are chosen together with them.

    Those that are chosen together pay alike, because each level of their tree loses the same part of what all pay.

    Args:
        needs: For the id of each choice with a target what is asked of it.
        pure: Whether they are paid for with epsilon; else with rho.
    Raises:
        InvalidLossError: A target that no loss keeps.
    """
    found: dict[str, Noise] = {}
    for measure in aggregate.measures:
        if measure.id in needs and measure.id not in found:
            together = family_of(aggregate, measure) or (measure,)
            noise = _least(aggregate, together, needs, neighbours, pure=pure)
            found |= {one.id: noise for one in together}
    return found


def _least(
    aggregate: PrivateAggregate,
    together: tuple[Measure, ...],
    needs: Mapping[str, Sequence[Need]],
    neighbours: Neighbours,
    *,
    pure: bool,
) -> Noise:
    alone = replace(aggregate, measures=together, selection=None)
    high = next((p for p in range(-LARGEST, LARGEST) if _keeps(alone, Fraction(2) ** p, needs, neighbours, pure)), None)
    if high is None:
        raise InvalidLossError(
            f"{together[0].label} cannot be chosen within so few ranks", advice="Ask for an error of more ranks."
        )
    unit = Fraction(10) ** (math.floor(math.log10(2.0**high)) - DIGITS)
    least, most = math.floor(Fraction(2) ** (high - 1) / unit), math.ceil(Fraction(2) ** high / unit)
    while most - least > 1:
        middle = (least + most) // 2
        fine = _keeps(alone, middle * unit, needs, neighbours, pure)
        least, most = (least, middle) if fine else (middle, most)
    return noise_of(together[0], most * unit, in_epsilon=pure, pure=pure)


def _keeps(
    aggregate: PrivateAggregate,
    amount: Fraction,
    needs: Mapping[str, Sequence[Need]],
    neighbours: Neighbours,
    pure: bool,
) -> bool:
    noise = tuple(noise_of(measure, amount, in_epsilon=pure, pure=pure) for measure in aggregate.measures)
    budgeted = BudgetedAggregate(aggregate=aggregate, noise=noise, selection_delta=Fraction(0))
    try:
        scales = [made.choosing for made in calibrated(budgeted, neighbours)]
    except InvalidLossError:
        return False
    wanted = [(i, need) for i, measure in enumerate(aggregate.measures) for need in needs.get(measure.id, ())]
    errors = {failure: rank_errors(aggregate, scales, failure) for failure in {failure for _, (_, failure) in wanted}}
    return all(errors[failure][i] <= ranks for i, (ranks, failure) in wanted)
