"""Whether the noise of a plan pays for what the plan itself declares: scales against losses, thresholds against delta.

Computed here from the published formulas, apart from the kernel's own functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dpquery.auditing.inputs import AuditedPlan, Groups
from dpquery.auditing.laws import in_rho, tail, told_loss
from dpquery.kernel.plan import Count
from dpquery.result.measurements import Measurement

TOLERANCE = 1 + 1e-9
"""Scales are told as floats."""


def problems_of_claims(prepared: AuditedPlan, inputs: Sequence[Sequence[Groups]]) -> Iterator[str]:
    """Yields where the noise of a plan is too small for what it declares.

    Args:
        inputs: The exact numbers of some databases; they tell in how many groups a unit counts.
    """
    made = prepared.plan.measurements
    for one in made:
        lost, paid = _lost(one), float(one.loss.epsilon or one.loss.rho)
        if lost > paid * TOLERANCE:
            yield f"{one.label}: noise of scale {one.scale:g} loses {lost:.6g} and pays {paid:.6g}"
    for most in (prepared.plan.guarantee, prepared.plan.charge):
        pure = most.epsilon > 0
        lost, told = _together(made, pure), float(most.epsilon or most.rho)
        if told and lost > told * TOLERANCE:
            yield f"its noises together lose {lost:.6g}, and {most} is told or charged"
    yield from _of_offer(prepared)
    yield from _of_selections(prepared)


def _lost(one: Measurement) -> float:
    """Returns what a measurement loses by its own figures; of quantiles chosen together a part is each one's."""
    return 0.0 if one.together else told_loss(one)


def _together(made: Sequence[Measurement], pure: bool) -> float:
    """Returns what measures lose that are neither side by side nor chosen together, and the dearest of the others."""
    alone = sum(_in(one, pure) for one in made if not (one.parallel or one.together))
    return alone + max((_in(one, pure) for one in made if one.parallel), default=0.0)


def _in(one: Measurement, pure: bool) -> float:
    lost = _lost(one)
    return lost if pure or not one.loss.epsilon else float(in_rho(one, Fraction(lost)))


def _of_offer(prepared: AuditedPlan) -> Iterator[str]:
    """Yields where a query guarantees less than what it was asked to lose at most."""
    offer, told = prepared.offer, prepared.plan.guarantee
    for name, asked, given in (("epsilon", offer.epsilon, told.epsilon), ("rho", offer.rho, told.rho)):
        if asked is not None and given > asked:
            yield f"{name} {float(asked):g} was asked for, and the answer guarantees {told}"


def _of_selections(prepared: AuditedPlan) -> Iterator[str]:
    """Yields selections whose tau shows a group of one unit more often than delta pays for."""
    laws = iter(prepared.noises)
    delta = sum((budgeted.selection_delta for budgeted in prepared.budgeted.aggregates), Fraction(0))
    if delta > min(prepared.plan.charge.delta, prepared.plan.guarantee.delta):
        yield f"selections may fail with a chance of {float(delta):g}, and {prepared.plan.charge} is charged"
    for budgeted in prepared.budgeted.aggregates:
        aggregate = budgeted.aggregate
        own = {measure.id: (measure, next(laws)) for measure in aggregate.measures}
        if aggregate.selection is None:
            continue
        measure, law = own[aggregate.selection]
        taus = [made.tau for made in prepared.plan.measurements if made.id == measure.id and made.tau is not None]
        if measure.count is Count.DECIDING or not taus:
            continue
        groups = aggregate.weights.max_groups or 1
        most = aggregate.weights.most_rows
        groups = groups if most is None else min(groups, most)
        shown = groups * tail(law, taus[0] - 1)
        if shown > float(budgeted.selection_delta) * TOLERANCE:
            yield f"a group of one unit is shown with a chance of {shown:.3g}, above delta {budgeted.selection_delta}"
