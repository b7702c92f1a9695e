"""The passes from logical plans to one budgeted plan, in order, each with its reason.

A pass is a pure function of a draft and of the terms that all passes share. `tests/unit/planner/pass_invariants.py`
says what has to be true after each of them; it is checked of every SQL case of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.catalog import Catalog
from dpquery.kernel.accountant import Budget
from dpquery.kernel.plan import BudgetedPlan
from dpquery.plan.expr import Expression
from dpquery.plan.logical import Filter, Limit, LogicalPlan, Project, Released, Sort
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.budget.targets import AccuracyTarget
from dpquery.planner.choose import all_released, choose_together
from dpquery.planner.debias.randomised import debiased
from dpquery.planner.protect.blocks import within_blocks
from dpquery.planner.protect.disjoint_counts import with_sums
from dpquery.planner.protect.grouping_sets import SeparateMeasurement
from dpquery.planner.protect.protect import (
    ContributionBounds,
    PrivatePlan,
    Tables,
    has_public_keys,
    private_plan,
    separate_measurements,
)
from dpquery.planner.protect.small_groups import without_small_groups
from dpquery.planner.protect.totals import mixes
from dpquery.planner.ranges.declared import Certain, with_declared
from dpquery.planner.unread import without_unread
from dpquery.units.declarations import Neighbours
from dpquery.units.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningTerms:
    """What plans are made with, beside the text of the queries.

    Attributes:
        public: The values and sizes of public tables, and the sizes that may be known of private ones.
        bounds: What the queries say of rows and groups, in place of the catalog.
        offer: What the queries may lose, complete with the catalog's defaults.
        budget: The dataset's; its kind decides which currencies can be offered.
        weights: How much the errors of the answers' columns count, 1 where nothing is said.
        accuracy: The errors asked for instead of a loss.
        adds_up: Whether groupings may be added up from finer ones in place of being released.
    """

    catalog: Catalog
    public: Sizes
    bounds: ContributionBounds
    offer: QueryBudget
    budget: Budget
    neighbours: Neighbours
    weights: Mapping[str, Fraction]
    accuracy: AccuracyTarget | None = None
    adds_up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Queries that are measured at once, on their way to a budgeted plan; what no pass has made yet is empty.

    Attributes:
        logical: One plan for each query.
        variances: For each query the columns that stand for the randomness of reports, and how large it is.
        measured: For each query its boundaries as they would be measured by themselves.
        private: For each query what to measure and what to compute from it.
        budgeted: What all of them measure, with noise.
    """

    logical: tuple[LogicalPlan, ...]
    variances: tuple[Mapping[str, Expression], ...] = ()
    measured: tuple[tuple[SeparateMeasurement, ...], ...] = ()
    private: tuple[PrivatePlan, ...] = ()
    budgeted: BudgetedPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One step of planning: its name, why it is where it is, and what it does.

    Attributes:
        keeps: Whether plans compute the same answer from exact rows as before, if the declarations are true. The others
            change it: by estimates, by bounds on what one unit contributes, by noise.
    """

    name: str
    reason: str
    keeps: bool
    run: Callable[[Draft, PlanningTerms], Draft]


Observer = Callable[[Pass, Draft], None]
"""Is told of each pass and the draft that it made."""


def _unread(draft: Draft, _: PlanningTerms) -> Draft:
    above, projects = draft.logical[0].result, 0
    while isinstance(above, Project | Filter | Sort | Limit):
        projects += isinstance(above, Project)
        above = above.source
    if len(draft.logical) == 1 and isinstance(above, Released) and projects <= 2:
        return draft  # one SELECT computes, and shows; it has the aggregates that it reads
    return replace(draft, logical=without_unread(draft.logical))


def _declared(draft: Draft, terms: PlanningTerms) -> Draft:
    known: Certain = {}  # several queries read the same boundaries
    return replace(draft, logical=tuple([with_declared(plan, terms.catalog, known) for plan in draft.logical]))


def _disjoint_counts(draft: Draft, terms: PlanningTerms) -> Draft:
    filters = [
        c.filter for plan in draft.logical for b in plan.boundaries for c in b.aggregates if c.filter is not None
    ]
    if len(draft.logical) > 1 or len(filters) < 2:  # several queries read the same boundaries
        return draft
    return replace(draft, logical=tuple(with_sums(plan, terms.catalog) for plan in draft.logical))


def _reports(draft: Draft, terms: PlanningTerms) -> Draft:
    if not terms.catalog.has_reports:
        return replace(draft, variances=({},) * len(draft.logical))
    known = has_public_keys(terms.catalog, terms.public)
    pairs = [
        debiased(plan, terms.catalog, max_rows=terms.bounds.max_rows, has_public_keys=known) for plan in draft.logical
    ]
    return replace(draft, logical=tuple(plan for plan, _ in pairs), variances=tuple(found for _, found in pairs))


def _small_groups(draft: Draft, terms: PlanningTerms) -> Draft:
    if not terms.catalog.withholds:
        return draft
    known: dict[tuple[int, ...], LogicalPlan] = {}
    made = []
    for plan in draft.logical:  # several queries share boundaries, which stay the same objects
        one = without_small_groups(plan, terms.catalog)
        first = known.setdefault(tuple(map(id, plan.boundaries)), one)
        made.append(replace(one, boundaries=first.boundaries))
    return replace(draft, logical=tuple(made))


def _blocks(draft: Draft, terms: PlanningTerms) -> Draft:
    if terms.catalog.declarations.blocks is None:
        return draft
    return replace(draft, logical=tuple(within_blocks(plan, terms.catalog) for plan in draft.logical))


def _measure(draft: Draft, terms: PlanningTerms) -> Draft:
    measured, known = [], dict[object, tuple[SeparateMeasurement, ...]]()
    for plan in draft.logical:  # of several queries over the same boundaries each would be measured for each of them
        name = tuple(map(id, plan.boundaries)), plan.families, terms.catalog.has_totals and mixes(plan)
        if name not in known:
            known[name] = separate_measurements(plan, terms.catalog, terms.public, terms.bounds)
        measured.append(known[name])
    return replace(draft, measured=tuple(measured))


def _combine(draft: Draft, _: PlanningTerms) -> Draft:
    made, known = zip(draft.logical, draft.measured, draft.variances, strict=True), Tables()
    return replace(draft, private=tuple(private_plan(*each, known) for each in made))


def _allocate(draft: Draft, terms: PlanningTerms) -> Draft:
    private, budgeted = choose_together(
        draft.private if terms.adds_up else tuple(map(all_released, draft.private)),
        terms.offer,
        budget=terms.budget,
        neighbours=terms.neighbours,
        weights=terms.weights,
        accuracy=terms.accuracy,
    )
    return replace(draft, private=private, budgeted=budgeted)


KEEPING = (
    Pass(
        name="unread",
        reason="aggregates of a subquery that nothing reads are not measured. First, as nothing else need be known of "
        "them",
        keeps=True,
        run=_unread,
    ),
    Pass(
        name="declared",
        reason="counts and sums that follow from the declarations are constants: nothing is measured for them. "
        "Early, as boundaries may vanish",
        keeps=True,
        run=_declared,
    ),
    Pass(
        name="disjoint counts",
        reason="of counts of disjoint rows that are only added up, one is measured. Before reports, whose counts are "
        "estimates",
        keeps=True,
        run=_disjoint_counts,
    ),
    Pass(
        name="blocks",
        reason="each scan of a table in blocks says which of them it may read, so that no other block is charged. "
        "Before people are counted over the same scans",
        keeps=True,
        run=_blocks,
    ),
)
"""What the answer from exact rows stays the same under, if the declarations are true."""

CHANGING = (
    Pass(
        name="reports",
        reason="aggregates over randomised reports become unbiased estimates over plain sums. "
        "Before anything is measured, as the sums are other ones",
        keeps=False,
        run=_reports,
    ),
    Pass(
        name="small groups",
        reason="where the owner wants a minimum of people, they are counted too, and groups of fewer are left out. "
        "After reports, whose sums are counted the same way",
        keeps=False,
        run=_small_groups,
    ),
    Pass(
        name="measure",
        reason="each boundary becomes a table of measures of finite sensitivity: keys, ranges and weights are part of "
        "the plan from here on",
        keeps=False,
        run=_measure,
    ),
)
"""What changes it: by estimates, by groups left out, by bounds on what one unit contributes."""

PROTECT = (
    *KEEPING,
    *CHANGING,
    Pass(
        name="combine",
        reason="the answer is computed from released tables; grouping sets that can be added up from finer ones make "
        "further plans to choose from",
        keeps=True,
        run=_combine,
    ),
)
"""From logical to private plans; what is refused here is refused of a query by itself."""

BUDGET = (
    Pass(
        name="allocate",
        reason="each measure gets its noise and its part of the loss, and the plan that errs least is kept. "
        "Last, as it compares whole plans, of all queries that share one charge",
        keeps=False,
        run=_allocate,
    ),
)
"""From private plans to one budgeted plan."""

PASSES = (*PROTECT, *BUDGET)
"""All passes, in order."""


def run_passes(passes: Sequence[Pass], draft: Draft, terms: PlanningTerms, observe: Observer | None = None) -> Draft:
    """Returns the draft that the passes make in turn.

    Args:
        observe: Is told of each of them.
    Raises:
        QueryError: What is refused.
    """
    for one in passes:
        draft = one.run(draft, terms)
        if observe is not None:
            observe(one, draft)
    return draft
