"""Which sums of a batch follow from its others exactly enough: they are not measured, and the others get their part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of
from dpquery.kernel.mechanisms import NoiseLaw, calibrated
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Noise
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.estimates import StoredEstimate, Wanted
from dpquery.reuse.stored_choices import ROUNDING
from dpquery.reuse.strategy import amount_of, with_losses
from dpquery.reuse.vector_estimates import Vectors, VectorSource
from dpquery.units.declarations import Declarations

MOST = 64
"""Sums of one batch that are looked at."""
LESS = 0.999
"""Part of a loss that is taken where noise is to be no smaller than what is expected."""
ROOTS = 10**12
"""Parts of one to which a root is rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A plan in which sums follow from others that were added to it.

    Attributes:
        plan: What was planned and, last, what is measured in its place.
        groupings: What is known of the groups of each that was added.
        follows: The ids of what is not measured.
        settled: The ids of what has the noise that suits it beside what was added, these included.
        notes: What was chosen, for people.
    """

    plan: BudgetedPlan
    groupings: tuple[DeclaredGrouping, ...] = ()
    follows: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def costs_no_more(self, other: Replaced, kind: BudgetKind, declared: Declarations) -> bool:
        """Whether what is measured is charged no more than in another plan."""
        own, others = (charge_of(without(one.plan, one.follows), kind, declared.neighbours) for one in (self, other))
        return own.epsilon <= others.epsilon and own.rho <= others.rho and own.delta <= others.delta


Known = dict[object, Vectors]
"""By measurements that are about to be made what is known of their vector, so that it is worked out once."""


def without_following(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    together: Sequence[frozenset[str]],
    kind: BudgetKind,
    declared: Declarations,
    others: frozenset[str] = frozenset(),
    gone: frozenset[str] = frozenset(),
) -> tuple[BudgetedPlan, frozenset[str]]:
    """Returns the plan with the noise of what is measured for the same charge, and the ids of what follows from it.

    Those with the fewest groups are tried first. One is left out if each that is left out has, estimated from what is
    measured, at most the variance that it has in the plan as it was given; all others get more accurate.

    Args:
        together: Ids of which all are left out or none, because their loss is split by `strategy` afterwards.
        others: Ids of what was chosen otherwise, and stays as it is.
        gone: Those of them that are not measured.
    """
    sums = [
        (one, text, measure.id)
        for one in wanted
        if one.asked is not None
        for text, measure in zip(one.asked.measures, one.budgeted.aggregate.measures, strict=True)
        if is_of_vector(one.asked.frame, text) and measure.id not in others
    ]
    if not 2 <= len(sums) <= MOST:
        return plan, frozenset()
    best, dropped = plan, frozenset[str]()
    ids = [id for _, _, id in sorted(sums, key=lambda one: one[0].budgeted.aggregate.public_groups or 0)]
    units = dict.fromkeys(next((own for own in together if id in own), frozenset({id})) for id in ids)
    last = None
    while last != dropped:  # what is left out gives its part to others, from which more may follow then
        last = dropped
        for unit in units:
            tried = dropped | unit
            made = _scaled(plan, tried, gone, kind, declared) if tried != dropped else None
            if made is not None and _are_enough(made, wanted, tried, gone, declared):
                best, dropped = made, tried
    return best, dropped


def rests(
    wanted: Sequence[Wanted], found: Sequence[StoredEstimate], follows: frozenset[str]
) -> list[BudgetedAggregate | None]:
    """Returns the part of each aggregate that has to be measured, or None."""
    made: list[BudgetedAggregate | None] = []
    for one, there in zip(wanted, found, strict=True):
        pairs = zip(one.budgeted.aggregate.measures, there.estimates, strict=True)
        known = frozenset(measure.id for measure, estimate in pairs if estimate is not None)
        made.append(None if there.is_complete else _measured(one.budgeted, known | follows))
    return made


def without(plan: BudgetedPlan, dropped: frozenset[str]) -> BudgetedPlan:
    """Returns the part of a plan that is measured where these measures are not."""
    kept = (_measured(budgeted, dropped) for budgeted in plan.aggregates)
    return BudgetedPlan(aggregates=tuple(part for part in kept if part is not None))


def _measured(budgeted: BudgetedAggregate, dropped: frozenset[str]) -> BudgetedAggregate | None:
    """Returns an aggregate without some measures; None where nothing is left."""
    places = [place for place, measure in enumerate(budgeted.aggregate.measures) if measure.id not in dropped]
    if not places:
        return None
    aggregate = replace(budgeted.aggregate, measures=tuple(budgeted.aggregate.measures[place] for place in places))
    return replace(budgeted, aggregate=aggregate, noise=tuple(budgeted.noise[place] for place in places))


def _scaled(
    plan: BudgetedPlan, dropped: frozenset[str], gone: frozenset[str], kind: BudgetKind, declared: Declarations
) -> BudgetedPlan | None:
    """Returns the plan in which what is measured is charged as much as all was; losses of both kinds stay as they are,
    because they are not added up. None where nothing would be measured."""
    rest = without(plan, dropped | gone)
    if not rest.aggregates:
        return None
    by_epsilon, by_rho = _factors(without(plan, gone), rest, kind, declared)

    def more(noise: Noise) -> Noise:
        loss = replace(noise.loss, epsilon=noise.loss.epsilon * by_epsilon, rho=noise.loss.rho * by_rho)
        return replace(noise, loss=loss)

    aggregates = tuple(
        replace(
            budgeted,
            noise=tuple(
                noise if measure.id in dropped else more(noise)
                for measure, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True)
            ),
        )
        for budgeted in plan.aggregates
    )
    return BudgetedPlan(aggregates=aggregates)


def _factors(
    plan: BudgetedPlan, rest: BudgetedPlan, kind: BudgetKind, declared: Declarations
) -> tuple[Fraction, Fraction]:
    """Returns by how much epsilons and rhos may grow in a part of a plan for what all of it loses and is charged."""
    losses = [noise.loss for budgeted in plan.aggregates for noise in budgeted.noise]
    before, after = (guarantee_of(each, declared.neighbours) for each in (plan, rest))
    if kind is BudgetKind.PURE:
        return before.epsilon / after.epsilon, Fraction(1)
    if all(loss.rho and not loss.epsilon for loss in losses):
        return Fraction(1), before.rho / after.rho
    if any(loss.rho for loss in losses):
        return Fraction(1), Fraction(1)
    charged, least = (charge_of(each, kind, declared.neighbours).rho for each in (plan, rest))
    root = Fraction(math.isqrt(int(charged / least * ROOTS**2)), ROOTS)  # a Laplace measure is charged epsilon^2 / 2
    return min(before.epsilon / after.epsilon, root), Fraction(1)


def all_follow(
    plan: BudgetedPlan, wanted: Sequence[Wanted], dropped: frozenset[str], declared: Declarations, looked_at: Known
) -> bool:
    """Whether each of these sums is determined by the others of a plan."""
    pairs = [(one, calibrated(own, declared.neighbours)) for one, own in zip(wanted, plan.aggregates, strict=True)]
    return all(variance is not None for _, _, variance in _estimated(pairs, dropped, looked_at=looked_at))


def found_again(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    dropped: frozenset[str],
    declared: Declarations,
    looked_at: Known,
) -> BudgetedPlan:
    """Returns the plan in which what follows from others asks to be no more exact than it is expected to be, so that
    the same queries find it again for nothing; it is not measured, and so the charge is the same."""
    pairs = [(one, calibrated(own, declared.neighbours)) for one, own in zip(wanted, plan.aggregates, strict=True)]
    there, losses = {id(one): at for at, one in enumerate(wanted)}, dict[str, Fraction]()
    for one, place, variance in _estimated(pairs, dropped, looked_at=looked_at):
        at = there[id(one)]
        own = variance_of(pairs[at][1][place])
        if variance is not None and variance > own:
            noise = plan.aggregates[at].noise[place]
            part = (own / variance) ** (1 if noise.loss.rho else 0.5)
            losses[one.budgeted.aggregate.measures[place].id] = amount_of(noise) * Fraction(LESS * part)
    return with_losses(plan, losses)


def _are_enough(
    plan: BudgetedPlan,
    wanted: Sequence[Wanted],
    dropped: frozenset[str],
    gone: frozenset[str],
    declared: Declarations,
) -> bool:
    pairs = [
        (one, calibrated(budgeted, declared.neighbours))
        for one, budgeted in zip(wanted, plan.aggregates, strict=True)
        if one.asked is not None
    ]
    return all(
        variance is not None and variance <= variance_of(one.noises[place]) * ROUNDING
        for one, place, variance in _estimated(pairs, dropped, gone)
    )


def _estimated(
    pairs: Sequence[tuple[Wanted, Sequence[NoiseLaw]]],
    dropped: frozenset[str],
    gone: frozenset[str] = frozenset(),
    looked_at: Known | None = None,
) -> Iterator[tuple[Wanted, int, float | None]]:
    """Yields the sums that are dropped, by their places, with their variances as far as they are determined.

    Args:
        pairs: Aggregates with the noise of each measure.
        gone: What is not measured either.
        looked_at: What was found of the same measurements before; what is found is added.
    """
    vectors = vectors_of(pairs, dropped | gone, looked_at)
    for one, _ in pairs:
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            if one.asked is not None and measure.id in dropped:
                own = vectors.get(one.asked.frame.base)
                found = None if own is None else own.variance(one.asked, one.facts, one.asked.measures[place])
                yield one, place, found


def vectors_of(
    pairs: Sequence[tuple[Wanted, Sequence[NoiseLaw]]], gone: frozenset[str], looked_at: Known | None = None
) -> dict[str, Vectors]:
    """Returns by base what is known of sums once all but these ids is measured, where nothing is stored; arguments as
    of `_estimated`."""
    sources: dict[str, list[VectorSource]] = {}
    for one, noises in pairs:
        for place, measure in enumerate(one.budgeted.aggregate.measures):
            if one.asked is not None and measure.id not in gone:
                text = one.asked.measures[place]
                if is_of_vector(one.asked.frame, text):
                    source = VectorSource(one.asked.frame, one.facts, text, noises[place], one.asked.equations)
                    sources.setdefault(one.asked.frame.base, []).append(source)
    known, made = {} if looked_at is None else looked_at, dict[str, Vectors]()
    for base, some in sources.items():
        name = tuple(map(_name, some))
        if name not in known:
            known[name] = Vectors(some)
        made[base] = known[name]
    return made


def _name(source: VectorSource) -> object:
    return source.frame, source.facts, source.measure, source.noise, source.equations
