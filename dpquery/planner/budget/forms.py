"""How far the numbers of an answer are expected to be off: for comparing plans that measure different things."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpquery.accuracy.error_propagation import Guesses
from dpquery.errors import InvalidLossError
from dpquery.kernel.plan import BudgetedPlan
from dpquery.planner.budget.aims import Aim
from dpquery.planner.protect.grouping_sets import expected_errors
from dpquery.units.declarations import Neighbours

Errors = tuple[float | None, ...]
"""Of each number; None where it is not known."""


def errors_of(plan: BudgetedPlan, aims: Sequence[Aim], neighbours: Neighbours) -> Errors | None:
    """Returns the standard deviation of each number's noise, at public guesses of the data, to first order; None where
    the noise cannot be sampled."""
    aggregates = [budgeted.aggregate for budgeted in plan.aggregates]
    try:
        deviations = expected_errors(plan, (), neighbours)
    except InvalidLossError:
        return None
    known = {
        measure.id: error
        for aggregate, errors in zip(aggregates, deviations, strict=True)
        for measure, error in zip(aggregate.measures, errors, strict=True)
    }
    guesses = Guesses.of(aggregates)
    found = [guesses.influence(aim.expression) for aim in aims]
    return tuple(
        None if influence is None else math.hypot(*(size * known[id] for id, size in influence.items()))
        for influence in found
    )


def score(errors: Errors | None, of: Sequence[Errors | None], aims: Sequence[Aim]) -> float:
    """Returns the weighted mean logarithm of the errors of the numbers that all of the plans have one for."""
    if errors is None:
        return math.inf
    logs = [
        (float(aim.weight), math.log(max(error, 1e-300)))
        for place, (aim, error) in enumerate(zip(aims, errors, strict=True))
        if error is not None and all(other is None or other[place] is not None for other in of)
    ]
    return math.fsum(weight * log for weight, log in logs) / max(1e-300, math.fsum(weight for weight, _ in logs))
