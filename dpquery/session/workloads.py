"""What is measured of queries whose numbers follow from each other: of batches, cubes, ranges and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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

    Why its steps are in this order: docs/concepts/pipeline.md.

    Args:
        kept: Where losses are scaled afterwards, so that errors are kept: the ids of what is measured as it is planned.
    """
    is_scaled, kept = kept is not None, kept or frozenset()
    plain, kind, declared = draft.budgeted, ledger.budget.kind, ledger.declarations
    assert plain is not None
    wanted = alone(plain, draft.private[0].groupings, ledger)
    notes: tuple[str, ...] = ()
    looked_at: Known = {}
    whole = _all_released(protected, terms, is_little_work) if draft.private[0].added else None
    if whole is not None and whole.budgeted is not None:  # sums over groups: their own releases may be worth more
        others = alone(whole.budgeted, whole.private[0].groupings, ledger)
        found = with_strategy(whole.budgeted, others, paid_in(plain, frozenset()), kind, declared)
        if found.is_better:
            return whole, whole.budgeted, found, ()
        notes = found.notes
    wholes = [one.whole for one in draft.private[0].groupings]

    def usable(tried: Replaced) -> Replaced | None:
        """Returns a plan if all that is not measured follows, with little work."""
        whole = (*wanted, *alone(_added(tried, plain), tried.groupings, ledger))
        if not tried.groupings or not is_little_work(without(tried.plan, tried.follows)):
            return None
        return tried if all_follow(tried.plan, whole, tried.follows, declared, looked_at) else None

    made = usable(with_ranges(plain, wanted, wholes, kind, declared, terms.public, kept)) or Replaced(plan=plain)
    every = (*wanted, *alone(_added(made, plain), made.groupings, ledger))
    fixed = made.follows | made.settled | kept
    tables = [one for one in workloads(made.plan, every, kind, declared.neighbours, fixed) if one.power == 1]
    for most in MOST_SUMS if tables else ():
        tried = with_contrasts(made, tables, every, kind, declared, terms.public, most)
        better = made if tried is made else usable(tried)
        if better is not None:
            made = better
            break
    wanted = (*wanted, *alone(_added(made, plain), made.groupings, ledger))
    budgeted, follows, chosen = made.plan, made.follows, made.follows | made.settled | kept
    if len(draft.logical) > 1:
        together = [frozenset(one.ids) for one in workloads(budgeted, wanted, kind, declared.neighbours, chosen)]
        budgeted, more = without_following(budgeted, wanted, together, kind, declared, chosen, made.follows)
        follows |= more
    found = with_strategy(budgeted, wanted, paid_in(budgeted, follows), kind, declared, chosen)
    notes = (*(notes or found.notes), *made.notes)
    if found.follows and not is_scaled:
        again = found_again(found.plan, wanted, found.follows, declared, looked_at)
        found = replace(found, plan=again)
    return draft, plain, replace(found, notes=notes), made.groupings


def _added(made: Replaced, plain: BudgetedPlan) -> BudgetedPlan:
    """Returns what a plan measures in place of what was planned."""
    return BudgetedPlan(aggregates=made.plan.aggregates[len(plain.aggregates) :])


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
