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

LEAST = 1e-300
"""Errors below this count as this one."""
Errors = dict[str, tuple[float, float]]
"""Of each of the answer's columns the weight and the mean logarithm of the errors of its numbers."""


def errors_of(plan: BudgetedPlan, aims: Sequence[Aim], neighbours: Neighbours) -> Errors | None:
    """Returns how far each column is off, at public guesses of the data and to first order, but for those of which
    nothing is known; None where the noise cannot be sampled."""
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
    guesses, found = Guesses.of(aggregates), dict[str, list[float]]()
    for aim in aims:
        influence = guesses.influence(aim.expression)
        off = math.nan if influence is None else math.hypot(*(size * known[id] for id, size in influence.items()))
        found.setdefault(aim.name, []).append(math.log(max(off, LEAST)) if off < math.inf else math.nan)
    weights = {aim.name: float(aim.weight) for aim in aims}
    means = {name: math.fsum(logs) / len(logs) for name, logs in found.items()}
    return {name: (weights[name], mean) for name, mean in means.items() if not math.isnan(mean)}


def score(errors: Errors | None, of: Sequence[Errors | None]) -> float:
    """Returns the weighted mean logarithm of the errors of the columns of which all of the plans know one."""
    if errors is None:
        return math.inf
    shared = [errors[name] for name in errors if all(other is None or name in other for other in of)]
    return math.fsum(w * log for w, log in shared) / max(LEAST, math.fsum(w for w, _ in shared))
