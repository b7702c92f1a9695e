"""Which of the plans that answer a query errs least for the loss offered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.accuracy.error_propagation import influence_of
from dpquery.errors import InvalidLossError, QueryError
from dpquery.kernel.accountant import Budget, charge_of
from dpquery.kernel.plan import BudgetedPlan
from dpquery.planner.budget.aims import Aim, aims_of, check_names
from dpquery.planner.budget.allocate import QueryBudget, allocate
from dpquery.planner.budget.targets import AccuracyTarget, allocate_for
from dpquery.planner.protect.grouping_sets import expected_errors
from dpquery.planner.protect.protect import PrivatePlan
from dpquery.units.declarations import Neighbours

LEAST = 1e-300
"""Errors below this count as this one: logarithms are taken of them."""

ColumnErrors = Mapping[str, tuple[float, float]]
"""Of each of the answer's columns the weight and the mean logarithm of the errors of its numbers."""
Errors = Mapping[int, tuple[float, ...]]
"""For each boundary the expected error of each measure."""


def choose_together(
    queries: Sequence[PrivatePlan],
    offer: QueryBudget,
    *,
    budget: Budget,
    neighbours: Neighbours,
    weights: Mapping[str, Fraction],
    accuracy: AccuracyTarget | None,
) -> tuple[tuple[PrivatePlan, ...], BudgetedPlan]:
    """Returns the plans of least expected error for queries over the same released tables, with their noise.

    Of the forms of their moments it is the one whose answers are expected to be off least; of each, sums over groups
    are chosen as `_with_sums` does.

    Args:
        queries: One for each query; they differ in what they compute from the tables alone.
        weights: How much the errors of the answers' columns count, 1 where nothing is said.
        accuracy: The errors asked for instead of a loss; then moments have the form of the least charge, and nothing is
            added up.
    Raises:
        InvalidLossError, MissingDeltaError, UnsupportedQueryError: As `allocate` and `allocate_for` do.
    """
    others = zip(*(query.forms for query in queries), strict=True)
    made, refused = [], list[QueryError]()
    for form in (queries, *others):
        given = tuple(replace(query, forms=()) for query in form)
        try:
            made.append(
                _with_sums(given, offer, budget=budget, neighbours=neighbours, weights=weights, accuracy=accuracy)
            )
        except QueryError as error:  # a target that this form cannot keep
            if accuracy is None:
                raise
            refused.append(error)
    if not made:
        raise refused[0]
    best = 0
    if len(made) > 1 and accuracy is not None:
        charges = [charge_of(plan, budget.kind, neighbours) for _, plan, _ in made]
        best = min(range(len(made)), key=lambda place: charges[place].epsilon + charges[place].rho)
    elif len(made) > 1:
        errors = [_errors_of_columns(*one, neighbours) for one in made]
        best = min(range(len(made)), key=lambda place: _mean_error(errors[place], errors))
    plans, plan, _ = made[best]
    return plans, plan


def all_released(query: PrivatePlan) -> PrivatePlan:
    """Returns the plan without the ways to add up groupings from finer ones."""
    forms = tuple(map(all_released, query.forms))
    return replace(query, alternatives=(), families=(), forms=forms)


def _errors_of_columns(
    queries: Sequence[PrivatePlan], plan: BudgetedPlan, aims: Sequence[Aim], neighbours: Neighbours
) -> ColumnErrors | None:
    """Returns the expected error of each column to first order, with public guesses in place of the data; columns of
    which nothing is known are left out. None where some noise cannot be sampled."""
    aggregates = queries[0].aggregates
    try:
        deviations = expected_errors(plan, (), neighbours)
    except InvalidLossError:
        return None
    known = {
        measure.id: error
        for aggregate, errors in zip(aggregates, deviations, strict=True)
        for measure, error in zip(aggregate.measures, errors, strict=True)
    }
    found: dict[str, list[float]] = {}
    for aim in aims:
        influence = influence_of(aim.expression, aggregates)
        off = math.nan if influence is None else math.hypot(*(size * known[id] for id, size in influence.items()))
        found.setdefault(aim.name, []).append(math.log(max(off, LEAST)) if off < math.inf else math.nan)
    weights = {aim.name: float(aim.weight) for aim in aims}
    means = {name: math.fsum(logs) / len(logs) for name, logs in found.items()}
    return {name: (weights[name], mean) for name, mean in means.items() if not math.isnan(mean)}


def _mean_error(errors: ColumnErrors | None, of: Sequence[ColumnErrors | None]) -> float:
    """Returns the weighted mean logarithm of the errors of the columns of which all of the plans know one."""
    if errors is None:
        return math.inf
    names = set(errors).intersection(*[other for other in of if other is not None])
    shared = [errors[name] for name in errors if name in names]
    return math.fsum([w * log for w, log in shared]) / max(LEAST, math.fsum([w for w, _ in shared]))


def _with_sums(
    queries: Sequence[PrivatePlan],
    offer: QueryBudget,
    *,
    budget: Budget,
    neighbours: Neighbours,
    weights: Mapping[str, Fraction],
    accuracy: AccuracyTarget | None,
) -> tuple[tuple[PrivatePlan, ...], BudgetedPlan, Sequence[Aim]]:
    """Returns the plans of least expected error by what is added up over groups, their noise and their numbers.

    The error of a plan is the geometric mean of the standard deviations of all its numbers' noise, one for each
    boundary and measure: each grouping set counts alike, however many groups it has.
    """
    first = queries[0]
    aims = [aim for query in queries for aim in aims_of(query, weights)]
    check_names(weights, {aim.name for aim in aims}, "weight")
    if accuracy is not None:
        made = allocate_for(first.aggregates, aims, accuracy, offer, budget=budget, neighbours=neighbours)
        notes = tuple(f"each of {len(n)} is released: {why or 'errors are asked for'}" for n, why in first.families)
        return tuple(replace(query, alternatives=(), notes=notes) for query in queries), made, aims
    ways = list(zip(*((query, *query.alternatives) for query in queries), strict=True))
    plans = tuple(way[0] for way in ways)
    budgeted = [allocate(first.aggregates, aims, offer, budget=budget, neighbours=neighbours)]
    numbers = [aims]
    for way in ways[1:]:
        numbers.append([aim for plan in way for aim in aims_of(plan, weights)])
        budgeted.append(allocate(way[0].aggregates, numbers[-1], offer, budget=budget, neighbours=neighbours))
    if len(plans) == 1:
        return _noted(queries, 0, plans, []), budgeted[0], aims
    errors = [_errors(plan, made, neighbours) for plan, made in zip(plans, budgeted, strict=True)]
    best = min(range(len(plans)), key=lambda place: _score(errors[place], errors[0] or {}))
    return _noted(queries, best, plans, errors), budgeted[best], numbers[best]


def _errors(plan: PrivatePlan, budgeted: BudgetedPlan, neighbours: Neighbours) -> Errors | None:
    """Returns what is expected of each boundary; None where the noise cannot be sampled."""
    try:
        found = expected_errors(budgeted, plan.added, neighbours)
    except InvalidLossError:
        return None
    return dict(zip(plan.boundaries, found, strict=True))


def _score(errors: Errors | None, of: Errors | Sequence[int]) -> float:
    """Returns the mean logarithm of the errors of these boundaries, all measures alike."""
    if errors is None:
        return math.inf
    logs = [math.log(max(error, LEAST)) for number in (of or errors) for error in errors[number]]
    return math.fsum(logs) / max(1, len(logs))


def _noted(
    queries: Sequence[PrivatePlan], best: int, plans: tuple[PrivatePlan, ...], errors: list[Errors | None]
) -> tuple[PrivatePlan, ...]:
    families = queries[0].families
    notes = tuple(_note(numbers, obstacle, best, plans, errors) for numbers, obstacle in families)
    chosen = ((query, *query.alternatives)[best] for query in queries)
    return tuple(replace(plan, families=families, alternatives=(), notes=notes) for plan in chosen)


def _note(
    numbers: tuple[int, ...],
    obstacle: str,
    best: int,
    plans: tuple[PrivatePlan, ...],
    errors: list[Errors | None],
) -> str:
    """Returns what was decided for one family of grouping sets, and why."""
    if obstacle:
        return f"each of {len(numbers)} is released: {obstacle}"
    summed = [{number for number in numbers if number in _added(plan)} for plan in plans]
    other = min(
        (place for place in range(len(plans)) if bool(summed[place]) is not bool(summed[best])),
        key=lambda place: _score(errors[place], numbers),
    )
    gain = _score(errors[other], numbers) - _score(errors[best], numbers)
    factor = f"{math.exp(gain):.3g} times the error" if math.isfinite(gain) else "noise that cannot be sampled"
    if summed[best]:
        return f"{len(summed[best])} of {len(numbers)} are added up from finer ones; releasing each has {factor}"
    return f"each of {len(numbers)} is released; adding up finer ones has {factor}"


def _added(plan: PrivatePlan) -> tuple[int, ...]:
    return plan.boundaries[len(plan.aggregates) :]
