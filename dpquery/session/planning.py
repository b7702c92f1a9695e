"""From the texts of queries to what is measured of them: the parts of `pipeline.plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from dpquery.backends.base import PublicFacts
from dpquery.backends.features import Gaps, require
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, QueryError, QuerySyntaxError, UnsupportedQueryError
from dpquery.kernel.checks import check
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan
from dpquery.kernel.work import Allowed, require_bounded
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import LogicalPlan
from dpquery.planner.budget.targets import failure_of_each
from dpquery.planner.passes import Draft, PlanningTerms
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.planner.protect.protect import PrivatePlan
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.query_split import Plain, Reuse, wanted_of
from dpquery.session.options import Request
from dpquery.session.workloads import planned_together
from dpquery.sql.bind.bind import bind_step, bind_together
from dpquery.sql.parse.parse import Tree, parse
from dpquery.units.declarations import Declarations
from dpquery.units.sizes import Sizes, Unbounded

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query that is ready to be measured; no row was read for it.

    Attributes:
        follows: The ids of measures that are not measured, because they follow from others of the same batch.
        groupings: What is known of the groups of each aggregate of the plan: those of the private plan, and of what is
            measured in place of ranges that are asked together.
        plain: The plan in which these are measured too, for the same charge; None where there are none.
        notes: What was shared for groupings of the same rows, for people.
        failure: Where errors are asked for, with which probability the interval of a number may not hold.
        steps: How many steps have to be answered before this can be measured; 0 where it can.
    """

    private: PrivatePlan
    budgeted: BudgetedPlan
    groupings: tuple[DeclaredGrouping, ...]
    reads_clock: bool = False
    follows: frozenset[str] = frozenset()
    plain: BudgetedPlan | None = None
    notes: tuple[str, ...] = ()
    failure: Fraction | None = None
    steps: int = 0

    @property
    def read(self) -> tuple[BudgetedAggregate, ...]:
        """The aggregates that queries read; further ones of the plan are measured so that these follow."""
        return self.budgeted.aggregates[: len(self.private.aggregates)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """What is measured of queries that are planned together.

    Attributes:
        plan: What is measured; `plain` is the plan in which nothing is left out.
        groupings, follows, notes, failure: As in `PreparedQuery`.
    """

    draft: Draft
    plan: BudgetedPlan
    plain: BudgetedPlan
    groupings: tuple[DeclaredGrouping, ...]
    failure: Fraction | None
    follows: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def terms_of(request: Request, catalog: Catalog, ledger: Ledger, public: PublicFacts) -> PlanningTerms:
    """Returns what queries are planned with, beside their texts."""
    return PlanningTerms(
        catalog=catalog,
        public=public,
        bounds=request.bounds,
        offer=request.offer,
        budget=ledger.budget,
        neighbours=ledger.declarations.neighbours,
        weights=request.weights,
        accuracy=request.accuracy,
    )


def parse_all(requests: Sequence[Request]) -> list[tuple[Tree, str]]:
    """Returns the tree of each query, with its values in place of parameters, beside its text."""
    return [(parse(request.text, request.dialect, request.params), request.text) for request in requests]


def bind_all(trees: list[tuple[Tree, str]], requests: Sequence[Request], catalog: Catalog) -> tuple[LogicalPlan, ...]:
    """Returns the logical plans of queries, over the same boundaries: names and types are resolved."""
    if len(requests) > 1:
        return bind_together(trees, catalog, requests[0].dialect)
    ((tree, text),), (request,) = trees, requests
    return (bind_step(tree, catalog, text, request.dialect, request.given, request.step),)


def blaming_one(requests: Sequence[Request], make: Callable[[Sequence[Request]], Made]) -> Made:
    """Returns make(requests). Where several queries are refused together, each is planned by itself, so that the error
    points at the first one at fault."""
    try:
        return make(requests)
    except QueryError as error:
        if len(requests) == 1:
            raise error.locate(requests[0].text) from None
        for request in requests:
            blaming_one((request,), make)
        raise


@contextmanager
def errors_located(requests: Sequence[Request]) -> Iterator[None]:
    """Adds the place in the query's text to a QueryError raised inside; other exceptions become an InternalError."""
    try:
        yield
    except RecursionError:
        raise QuerySyntaxError("the query is nested too deeply") from None
    except QueryError as error:
        raise (error.locate(requests[0].text) if len(requests) == 1 else error) from None
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be planned ({type(error).__name__}); nothing was charged") from None


def share_measurements(
    protected: Draft, draft: Draft, request: Request, terms: PlanningTerms, ledger: Ledger, derives: bool
) -> SharedPlan:
    """Returns what is measured of queries: what was planned, or less, from which the rest follows.

    Args:
        protected: The queries before a loss was split.
        derives: Whether what follows may be left out.
    """
    plan, groupings = draft.budgeted, draft.private[0].groupings
    assert plan is not None
    failure = None if request.accuracy is None else failure_of_each(request.accuracy, draft.private[0].aggregates)
    if derives and _asks_several(draft, plan):

        def is_little_work(plan: BudgetedPlan) -> bool:
            try:
                _require_little_work(plan, terms.catalog, terms.public)
            except QueryError:
                return False
            return True

        made = planned_together(protected, draft, terms, ledger, is_little_work, failure)
        if made is not None:
            draft, plain, strategy, more = made
            return SharedPlan(
                draft=draft,
                plan=strategy.plan,
                plain=plain,
                groupings=(*draft.private[0].groupings, *more),
                failure=failure,
                follows=strategy.follows,
                notes=strategy.notes,
            )
    return SharedPlan(draft=draft, plan=plan, plain=plan, groupings=groupings, failure=failure)


def require_answerable(shared: SharedPlan, terms: PlanningTerms, gaps: Gaps) -> None:
    """Raises UnsupportedQueryError where a plan could be too much work, or needs what the backend lacks."""
    _require_little_work(shared.plain, terms.catalog, terms.public)
    for aggregate in shared.plan.aggregates:
        require(aggregate.aggregate, terms.catalog, gaps)


def prepare(shared: SharedPlan) -> tuple[PreparedQuery, ...]:
    """Returns each query with what is measured of all."""
    draft, plain = shared.draft, None
    if shared.follows or (shared.failure is not None and shared.plan is not shared.plain):
        plain = shared.plain
    reads_clock = any(one.reads_clock for one in draft.logical)
    return tuple(
        [
            PreparedQuery(
                private=one,
                budgeted=shared.plan,
                groupings=shared.groupings,
                reads_clock=reads_clock,
                follows=shared.follows,
                plain=plain,
                notes=shared.notes,
                failure=shared.failure,
                steps=draft.logical[0].steps,
            )
            for one in draft.private
        ]
    )


def as_stored(
    prepared: PreparedQuery, declared: Declarations, reuse: Reuse | None
) -> tuple[tuple[Wanted, ...], Plain | None]:
    """Returns what is measured in the form of the store; and, where some of it is left out because it follows from the
    rest, also the plan that measures all of it."""
    sources = [budgeted.aggregate.source for budgeted in prepared.budgeted.aggregates]
    said, is_stored = ["" if reuse is None else reuse.catalog.of(source) for source in sources], reuse is not None
    wanted = wanted_of(prepared.budgeted, prepared.groupings, said, declared, is_stored=is_stored)
    if prepared.plain is None:
        return wanted, None
    own = prepared.private.groupings
    return wanted, (prepared.plain, wanted_of(prepared.plain, own, said[: len(own)], declared, is_stored=is_stored))


def require_accepted(prepared: PreparedQuery, ledger: Ledger, public: PublicFacts) -> None:
    """Raises InternalError where the gate would refuse a plan; of one that is measured it finds that out itself."""
    for aggregate in prepared.budgeted.aggregates:
        check(aggregate, ledger.declarations, public)


def _asks_several(draft: Draft, plan: BudgetedPlan) -> bool:
    """Whether some numbers may follow from others: several aggregates, or parts of one."""
    if len(plan.aggregates) > 1 or draft.private[0].added:
        return True
    return sum(m.filter is not None for one in plan.aggregates for m in one.aggregate.measures) > 1


def _require_little_work(plan: BudgetedPlan, catalog: Catalog, sizes: Sizes) -> None:
    """Raises UnsupportedQueryError where the gate would refuse what one stored row could cause, with its place."""
    try:
        require_bounded(plan, catalog.declarations, Allowed(steps=catalog.work, sizes=sizes))
    except Unbounded as error:
        raise UnsupportedQueryError(error.reason, advice=error.advice, span=error.span) from None
