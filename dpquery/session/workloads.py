"""What is measured of queries whose numbers follow from each other: of batches, cubes, ranges and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpquery.errors import QueryError
from dpquery.kernel.plan import BudgetedPlan
from dpquery.ledger.ledger import Ledger
from dpquery.planner.passes import BUDGET, Draft, PlanningTerms, run_passes
from dpquery.planner.protect.grouping_sets import Grouping
from dpquery.reuse.dividing import wanted_of
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.follows import all_follow, found_again, without_following
from dpquery.reuse.ranges import Ranges, with_ranges
from dpquery.reuse.strategy import Strategy, paid_in, with_strategy, workloads


def strategy_of(
    protected: Draft,
    draft: Draft,
    terms: PlanningTerms,
    ledger: Ledger,
    is_little_work: Callable[[BudgetedPlan], bool],
    kept: frozenset[str] | None = None,
) -> tuple[Draft, BudgetedPlan, Strategy, tuple[Grouping, ...]]:
    """Returns what is measured of queries whose answers are reconciled, with the plan in which nothing is left out, and
    what is known of the groups of what is measured beside it.

    Args:
        kept: Where losses are scaled afterwards, so that errors are kept: the ids of what is measured as it is planned.
    """
    is_scaled, kept = kept is not None, kept or frozenset()
    plain, kind, declared = draft.budgeted, ledger.budget.kind, ledger.declarations
    assert plain is not None
    wanted = alone(plain, draft.private[0].groupings, ledger)
    notes: tuple[str, ...] = ()
    whole = _all_released(protected, terms, is_little_work) if draft.private[0].added else None
    if whole is not None and whole.budgeted is not None:  # sums over groups: their own releases may be worth more
        others = alone(whole.budgeted, whole.private[0].groupings, ledger)
        found = with_strategy(whole.budgeted, others, paid_in(plain, frozenset()), kind, declared)
        if found.is_better:
            return whole, whole.budgeted, found, ()
        notes = found.notes
    wholes = [one.whole for one in draft.private[0].groupings]
    ranges = with_ranges(plain, wanted, wholes, kind, declared, terms.public, kept)
    if ranges.groupings:
        wanted = alone(ranges.plan, (*draft.private[0].groupings, *ranges.groupings), ledger)
        if not (is_little_work(ranges.plan) and all_follow(wanted, ranges.follows)):
            ranges, wanted = Ranges(plan=plain), wanted[: len(plain.aggregates)]
    budgeted, follows = ranges.plan, ranges.follows
    own = frozenset(m.id for one in budgeted.aggregates[len(plain.aggregates) :] for m in one.aggregate.measures)
    chosen = ranges.follows | own | kept
    if len(draft.logical) > 1:
        together = [frozenset(one.ids) for one in workloads(budgeted, wanted, kind, declared.neighbours, chosen)]
        budgeted, more = without_following(budgeted, wanted, together, kind, declared, chosen, ranges.follows)
        follows |= more
    found = with_strategy(budgeted, wanted, paid_in(budgeted, follows), kind, declared, chosen)
    notes = (*(notes or found.notes), *ranges.notes)
    if found.follows and not is_scaled:
        again = found_again(found.plan, wanted, found.follows, declared)
        found = replace(found, plan=again)
    return draft, plain, replace(found, notes=notes), ranges.groupings


def _all_released(
    protected: Draft, terms: PlanningTerms, is_little_work: Callable[[BudgetedPlan], bool]
) -> Draft | None:
    """Returns the plan in which no grouping is added up from finer ones; None where it is refused, with more work."""
    try:
        whole = run_passes(BUDGET, protected, replace(terms, adds_up=False))
    except QueryError:
        return None
    return whole if whole.budgeted is not None and is_little_work(whole.budgeted) else None


def alone(budgeted: BudgetedPlan, groupings: Sequence[Grouping], ledger: Ledger) -> tuple[Wanted, ...]:
    """Returns the aggregates of a plan in the form of the store, where nothing else is known of their tables."""
    return wanted_of(budgeted, groupings, ["" for _ in groupings], ledger.declarations)
