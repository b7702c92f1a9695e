"""What is measured of queries whose numbers follow from each other: of batches, cubes, ranges and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.errors import InvalidLossError, QueryError
from dpquery.kernel.accountant import charge_of
from dpquery.kernel.loss import show_amount
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import BudgetedPlan
from dpquery.ledger.ledger import Ledger
from dpquery.plan.expr import columns_of
from dpquery.planner.budget.aims import aims_of
from dpquery.planner.passes import BUDGET, Draft, PlanningTerms, run_passes
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.contrasts import MOST_SUMS, with_contrasts
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.implied import Known, Replaced, all_follow, found_again, vectors_of, without, without_following
from dpquery.reuse.query_split import wanted_of
from dpquery.reuse.ranges import with_ranges
from dpquery.reuse.strategy import Strategy, paid_in, with_losses, with_strategy, workloads
from dpquery.reuse.targets_met import Reached, bases_of, largest_by_base, reached, times


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What is measured of queries that are asked together, so far.

    Attributes:
        draft: The queries, as they are planned one by one; `plain` is what is measured then.
        kept: Where losses are scaled afterwards, so that errors are kept: the ids of what is measured as it is planned.
        looked_at: What was worked out of plans that were tried.
        made: The plan, what was added to it, and what of it follows.
        wanted: Its aggregates in the form of the store.
        left_out: The ids of what follows besides.
        found: The plan with its loss split anew; None before that.
    """

    draft: Draft
    plain: BudgetedPlan
    terms: PlanningTerms
    ledger: Ledger
    is_little_work: Callable[[BudgetedPlan], bool]
    kept: frozenset[str] | None
    looked_at: Known = field(default_factory=dict)
    made: Replaced
    wanted: tuple[Wanted, ...]
    left_out: frozenset[str] = frozenset()
    found: Strategy | None = None

    @property
    def fixed(self) -> frozenset[str]:
        """The ids of what has its loss already."""
        return self.made.follows | self.made.settled | (self.kept or frozenset())

    def of(self, made: Replaced) -> tuple[Wanted, ...]:
        """Returns the aggregates of a plan that measures more, in the form of the store."""
        added = BudgetedPlan(aggregates=made.plan.aggregates[len(self.plain.aggregates) :])
        return (*self.wanted[: len(self.plain.aggregates)], *alone(added, made.groupings, self.ledger))

    def usable(self, tried: Replaced) -> bool:
        """Whether all that a plan does not measure follows, with little work."""
        if not tried.groupings or not self.is_little_work(without(tried.plan, tried.follows)):
            return False
        declared = self.ledger.declarations
        return all_follow(tried.plan, self.of(tried), tried.follows, declared, self.looked_at)


def _ranges(now: Sharing) -> Sharing:
    wholes = [one.whole for one in now.draft.private[0].groupings]
    kind, declared, kept = now.ledger.budget.kind, now.ledger.declarations, now.kept or frozenset()
    tried = with_ranges(now.plain, now.wanted, wholes, kind, declared, now.terms.public, kept)
    return replace(now, made=tried, wanted=now.of(tried)) if now.usable(tried) else now


def _contrasts(now: Sharing) -> Sharing:
    kind, declared = now.ledger.budget.kind, now.ledger.declarations
    tables = [
        one for one in workloads(now.made.plan, now.wanted, kind, declared.neighbours, now.fixed) if one.power == 1
    ]
    for most in MOST_SUMS if tables else ():
        tried = with_contrasts(now.made, tables, now.wanted, kind, declared, now.terms.public, most)
        if tried is now.made:
            break
        if now.usable(tried):
            return replace(now, made=tried, wanted=now.of(tried))
    return now


def _following(now: Sharing) -> Sharing:
    if len(now.draft.logical) == 1:
        return now
    kind, declared, plan = now.ledger.budget.kind, now.ledger.declarations, now.made.plan
    together = [frozenset(one.ids) for one in workloads(plan, now.wanted, kind, declared.neighbours, now.fixed)]
    plan, more = without_following(plan, now.wanted, together, kind, declared, now.fixed, now.made.follows)
    return replace(now, made=replace(now.made, plan=plan), left_out=more)


def _losses(now: Sharing) -> Sharing:
    paid = paid_in(now.made.plan, now.made.follows | now.left_out)
    kind, declared = now.ledger.budget.kind, now.ledger.declarations
    return replace(now, found=with_strategy(now.made.plan, now.wanted, paid, kind, declared, now.fixed))


def _free_again(now: Sharing) -> Sharing:
    if now.found is None or not now.found.follows or now.kept is not None:
        return now
    declared = now.ledger.declarations
    plan = found_again(now.found.plan, now.wanted, now.found.follows, declared, now.looked_at)
    return replace(now, found=replace(now.found, plan=plan))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingStep:
    """One step towards measuring less for the same charge; `reason` says what it is for, and why it is where it is."""

    name: str
    reason: str
    run: Callable[[Sharing], Sharing]


SHARING = (
    SharingStep(
        name="ranges",
        reason="sums over ranges of one value become sums over a tree of ranges. First, as the others would see as "
        "many numbers as there are ranges",
        run=_ranges,
    ),
    SharingStep(
        name="contrasts",
        reason="counts by several sets of keys become sums with signs. After `ranges`, whose sums have their loss",
        run=_contrasts,
    ),
    SharingStep(
        name="following",
        reason="of queries of a batch, tables that follow from finer ones are left out. After both, which put finer "
        "ones in",
        run=_following,
    ),
    SharingStep(
        name="losses",
        reason="the loss is split over what is left, so that all of it, reconciled, is off least. After it is known "
        "what is measured",
        run=_losses,
    ),
    SharingStep(
        name="free again",
        reason="what follows asks to be as exact as it will be, so that it is free the next time. Last, as errors are "
        "known by then",
        run=_free_again,
    ),
)
"""All of them, in order."""


def strategy_of(
    protected: Draft,
    draft: Draft,
    terms: PlanningTerms,
    ledger: Ledger,
    is_little_work: Callable[[BudgetedPlan], bool],
    kept: frozenset[str] | None = None,
) -> tuple[Draft, BudgetedPlan, Strategy, tuple[DeclaredGrouping, ...]]:
    """Returns a draft, the plan that measures all of it, a strategy that measures less, and the groupings of what the
    strategy adds, for queries whose answers are estimated by least squares.

    Args:
        kept: As in `Sharing`.
    """
    plain, notes = draft.budgeted, tuple[str, ...]()
    assert plain is not None
    whole = _all_released(protected, terms, is_little_work) if draft.private[0].added else None
    if whole is not None and whole.budgeted is not None:  # sums over groups: their own releases may be worth more
        others = alone(whole.budgeted, whole.private[0].groupings, ledger)
        paid = paid_in(plain, frozenset())
        found = with_strategy(whole.budgeted, others, paid, ledger.budget.kind, ledger.declarations)
        if found.is_better:
            return whole, whole.budgeted, found, ()
        notes = found.notes
    now = Sharing(
        draft=draft,
        plain=plain,
        terms=terms,
        ledger=ledger,
        is_little_work=is_little_work,
        kept=kept,
        made=Replaced(plan=plain),
        wanted=alone(plain, draft.private[0].groupings, ledger),
    )
    for step in SHARING:
        now = step.run(now)
    assert now.found is not None
    strategy = replace(now.found, notes=(*(notes or now.found.notes), *now.made.notes))
    return draft, plain, strategy, now.made.groupings


def _all_released(
    protected: Draft, terms: PlanningTerms, is_little_work: Callable[[BudgetedPlan], bool]
) -> Draft | None:
    """Returns the plan in which no grouping is added up from finer ones; None where it is refused, with more work."""
    try:
        whole = run_passes(BUDGET, protected, replace(terms, adds_up=False))
    except QueryError:
        return None
    return whole if whole.budgeted is not None and is_little_work(whole.budgeted) else None


def alone(budgeted: BudgetedPlan, groupings: Sequence[DeclaredGrouping], ledger: Ledger) -> tuple[Wanted, ...]:
    """Returns the aggregates of a plan in the form of the store, where nothing else is known of their tables."""
    return wanted_of(budgeted, groupings, ["" for _ in groupings], ledger.declarations)


ROUNDS = 2
"""Times that a strategy is chosen; after each those numbers count more that need most."""
TRIES = 5
"""Steps towards the least loss of a strategy."""
CLOSE = 0.995
MARGIN = 1.0002
FINE = 10**9

Shared = tuple[Draft, BudgetedPlan, Strategy, tuple[DeclaredGrouping, ...]]


def planned_together(
    protected: Draft,
    draft: Draft,
    terms: PlanningTerms,
    ledger: Ledger,
    is_little_work: Callable[[BudgetedPlan], bool],
    failure: Fraction | None,
) -> Shared | None:
    """Returns what is measured of queries whose answers are reconciled; None where it is what was planned.

    Args:
        failure: Where errors are asked for, with which probability an interval may not hold.
    """
    if failure is None:
        return strategy_of(protected, draft, terms, ledger, is_little_work)

    def choose(plan: BudgetedPlan, kept: frozenset[str]) -> Shared:
        return strategy_of(protected, replace(draft, budgeted=plan), terms, ledger, is_little_work, kept)

    return _least_loss(choose, draft, failure, ledger)


def _least_loss(
    choose: Callable[[BudgetedPlan, frozenset[str]], Shared], draft: Draft, failure: Fraction, ledger: Ledger
) -> Shared | None:
    """Returns what is measured so that each number is found as exact as it would be by its own measurement, for less
    than all of these; None where nothing cheaper is found.

    Numbers that are computed from several measures keep these: a strategy knows how exact each is, not what they have
    in common.

    Args:
        choose: Returns the strategy of a plan in which some ids are kept as they are.
        draft: The queries, with the noise that keeps every error if each number is measured by itself.
        failure: With which probability an interval may not hold.
    """
    plain, kept = draft.budgeted, _computed_together(draft)
    assert plain is not None
    demanded = alone(plain, draft.private[0].groupings, ledger)
    own = paid_in(plain, frozenset())
    best, price = None, _price(plain, ledger)
    dearest, losses = price, own
    for _ in range(ROUNDS):
        made = choose(with_losses(plain, losses), kept)
        if not made[2].follows and made[2].plan == plain:
            break
        scaled = _least(made[2], (*draft.private[0].groupings, *made[3]), demanded, kept, plain, failure, ledger)
        if scaled is None:
            break
        plan, needs = scaled
        cost = _price(without(plan, made[2].follows), ledger)
        if cost < price:
            best, price = (draft, plain, replace(made[2], plan=plan), made[3]), cost
        parts = {id: min(1.0, max(need, 1e-3)) for id, (_, need) in needs.items()}
        losses = {id: amount * Fraction(round(parts.get(id, 1.0) * FINE), FINE) for id, amount in losses.items()}
    if best is None:
        return None
    note = (
        f"errors are asked for: they cost {show_amount(price)} where what is measured tells of all numbers, and "
        f"{show_amount(dearest)} with each measured by itself"
    )
    return best[0], best[1], replace(best[2], notes=(note,)), best[3]


def _least(
    found: Strategy,
    groupings: Sequence[DeclaredGrouping],
    demanded: Sequence[Wanted],
    kept: frozenset[str],
    plain: BudgetedPlan,
    failure: Fraction,
    ledger: Ledger,
) -> tuple[BudgetedPlan, Reached] | None:
    """Returns a strategy with the least loss at which it keeps all errors, and how exact each number is then."""
    own, declared = paid_in(plain, frozenset()), ledger.declarations
    wanted = alone(found.plan, groupings, ledger)
    moved = {id: base for id, base in bases_of(wanted).items() if id not in kept | found.follows}
    plan = with_losses(found.plan, {id: loss for id, loss in own.items() if id not in moved})
    factors, best = dict.fromkeys(moved.values(), 1.0), None
    for _ in range(TRIES):
        tried = times(plan, {id: factors[base] for id, base in moved.items()})
        try:
            pairs = [(one, calibrated(b, declared.neighbours)) for one, b in zip(wanted, tried.aggregates, strict=True)]
        except InvalidLossError:  # noise that cannot be sampled
            break
        needs = reached(demanded, vectors_of(pairs, found.follows), failure)
        largest = largest_by_base(needs)
        if max(largest.values(), default=0.0) == float("inf"):
            break
        if all(need <= 1 for need in largest.values()):
            best = tried, needs
        if best is not None and all(largest[base] > CLOSE for base in factors if base in largest):
            break
        factors = {base: now * largest.get(base, 1.0) * MARGIN for base, now in factors.items()}
    return best


def _computed_together(draft: Draft) -> frozenset[str]:
    """Returns the ids of the measures of numbers that are computed from several of them, and of terms of vectors, whose
    noise has to be equal."""
    measures = [measure for aggregate in draft.private[0].aggregates for measure in aggregate.measures]
    ids = {measure.id for measure in measures}
    read = ({c.id for c in columns_of(aim.expression)} & ids for one in draft.private for aim in aims_of(one, {}))
    terms = frozenset(measure.id for measure in measures if measure.family is not None)
    return terms.union(*(some for some in read if len(some) > 1))


def _price(plan: BudgetedPlan, ledger: Ledger) -> Fraction:
    charge = charge_of(plan, ledger.budget.kind, ledger.declarations.neighbours)
    return charge.epsilon + charge.rho
