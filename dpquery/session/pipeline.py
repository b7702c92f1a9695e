"""The flow of a query: `plan`, from text to a budgeted plan, and `answer`, from there to an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpquery.backends.base import Backend, PublicFacts
from dpquery.backends.features import NO_GAPS, Gaps, require
from dpquery.cancelling import check_cancelled
from dpquery.catalog import Catalog
from dpquery.errors import (
    BackendError,
    DPQueryError,
    InternalError,
    QueryError,
    QuerySyntaxError,
    UnsupportedQueryError,
)
from dpquery.kernel.checks import check
from dpquery.kernel.durable import DurableLedger
from dpquery.kernel.failures import one_error
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan
from dpquery.kernel.release import NoisyAggregates, release
from dpquery.kernel.work import Allowed, require_bounded
from dpquery.ledger.ledger import Ledger
from dpquery.planner.budget.targets import failure_of_each
from dpquery.planner.keys.unlisted import unlisted_constants
from dpquery.planner.passes import PASSES, PROTECT, Draft, Observer, PlanningTerms, run_passes
from dpquery.planner.protect.grouping_sets import Grouping
from dpquery.planner.protect.protect import PrivatePlan
from dpquery.result.batch import Batch, of_tables
from dpquery.result.finish import finish
from dpquery.result.table import Result
from dpquery.reuse.answers import Answered, combined, turn
from dpquery.reuse.dividing import Reuse, Split, split, wanted_of
from dpquery.session.aimed import planned_together
from dpquery.session.options import Request
from dpquery.sql.bind.bind import bind_step, bind_together
from dpquery.sql.parse.parse import parse
from dpquery.units.sizes import Sizes, Unbounded

if TYPE_CHECKING:
    from dpquery.result.measurements import Measurement
    from dpquery.session.known_profile import KnownProfiles

Made = TypeVar("Made")
LEAST_PART = Fraction(1, 10**12)
"""Of a limit, what a part of a reserved charge uses at least: the whole was at least the least charge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A query that is ready to be measured; no row was read for it.

    Attributes:
        follows: The ids of measures that are not measured, because they follow from others of the same batch.
        groupings: What is known of the groups of each aggregate of the plan: those of the private plan, and of what is
            measured in place of ranges that are asked together.
        plain: The plan in which these are measured too, for the same charge; None where there are none.
        notes: What was chosen for groupings of the same rows, for people.
        failure: Where errors are asked for, with which probability the interval of a number may not hold.
        steps: How many steps have to be answered before this can be measured; 0 where it can.
    """

    private: PrivatePlan
    budgeted: BudgetedPlan
    groupings: tuple[Grouping, ...]
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
class Told:
    """What is said with an answer, and known before it: of what bounds leave out, and of numbers that say nothing."""

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where queries are answered: declarations, data, what was spent, what is stored, and who asks.

    Attributes:
        ledger: Charges at the version of the data that the session began with.
        reuse: How stored answers are used; None where nothing is stored.
        is_reserved: Whether what is charged is a part of a charge that was at least the least one.
    """

    catalog: Catalog
    backend: Backend
    ledger: DurableLedger
    reuse: Reuse | None
    analyst: str
    is_reserved: bool = False


def plan(
    requests: Sequence[Request],
    *,
    catalog: Catalog,
    ledger: Ledger,
    public: PublicFacts,
    gaps: Gaps = NO_GAPS,
    observe: Observer | None = None,
    derives: bool = False,
) -> tuple[Prepared, ...]:
    """Returns the plans of queries that are measured at once: they share tables, one split and one charge.

    Args:
        requests: They differ in their texts and parameters alone.
        public: What may be known of data; no private row is read.
        gaps: What the backend lacks that is to answer.
        observe: Is told of each pass.
        derives: Whether what follows from other numbers of a batch is left out; it is computed from what is stored.
    Raises:
        QueryError: What is refused, with its place in the text.
    """
    first, declared = requests[0], ledger.declarations
    terms = PlanningTerms(
        catalog=catalog,
        public=public,
        bounds=first.bounds,
        offer=first.offer,
        budget=ledger.budget,
        neighbours=declared.neighbours,
        weights=first.weights,
        accuracy=first.accuracy,
    )
    try:
        draft = _refused_alone(requests, lambda some: _protected(some, terms, observe))
        protected = draft
        draft = run_passes(PASSES[len(PROTECT) :], protected, terms, observe)
        plain = budgeted = draft.budgeted
        assert plain is not None and budgeted is not None
        follows, notes, groupings = frozenset[str](), tuple[str, ...](), draft.private[0].groupings
        failure = None if first.accuracy is None else failure_of_each(first.accuracy, draft.private[0].aggregates)
        if derives and _asks_several(draft):

            def is_little_work(plan: BudgetedPlan) -> bool:
                try:
                    require_little_work(plan, catalog, public)
                except QueryError:
                    return False
                return True

            made = planned_together(protected, draft, terms, ledger, is_little_work, failure)
            if made is not None:
                draft, plain, strategy, more = made
                budgeted, follows, notes = strategy.plan, strategy.follows, strategy.notes
                groupings = (*draft.private[0].groupings, *more)
        require_little_work(plain, catalog, public)
    except RecursionError:
        raise QuerySyntaxError("the query is nested too deeply") from None
    except QueryError as error:
        raise (error.locate(first.text) if len(requests) == 1 else error) from None
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be planned ({type(error).__name__}); nothing was charged") from None
    for aggregate in budgeted.aggregates:
        require(aggregate.aggregate, catalog, gaps)
    reads_clock = any(one.reads_clock for one in draft.logical)
    return tuple(
        Prepared(
            private=one,
            budgeted=budgeted,
            groupings=groupings,
            reads_clock=reads_clock,
            follows=follows,
            plain=plain if follows or (failure is not None and budgeted is not plain) else None,
            notes=notes,
            failure=failure,
            steps=draft.logical[0].steps,
        )
        for one in draft.private
    )


def require_accepted(prepared: Prepared, ledger: Ledger, public: PublicFacts) -> None:
    """Raises InternalError where the gate would refuse a plan; of one that is measured it finds that out itself."""
    for aggregate in prepared.budgeted.aggregates:
        check(aggregate, ledger.declarations, public)


def _asks_several(draft: Draft) -> bool:
    """Whether some numbers may follow from others: several aggregates, or parts of one."""
    plan = draft.budgeted
    assert plan is not None
    if len(plan.aggregates) > 1 or draft.private[0].added:
        return True
    return sum(m.filter is not None for one in plan.aggregates for m in one.aggregate.measures) > 1


def require_little_work(plan: BudgetedPlan, catalog: Catalog, sizes: Sizes) -> None:
    """Raises UnsupportedQueryError where the gate would refuse what one stored row could cause, with its place."""
    try:
        require_bounded(plan, catalog.declarations, Allowed(steps=catalog.work, sizes=sizes))
    except Unbounded as error:
        raise UnsupportedQueryError(error.reason, advice=error.advice, span=error.span) from None


def divide(prepared: Sequence[Prepared], *, ledger: Ledger, reuse: Reuse | None) -> Split:
    """Returns what of prepared queries is stored, and what is to be measured; reads no private row."""
    first = prepared[0]
    sources = [budgeted.aggregate.source for budgeted in first.budgeted.aggregates]
    said = ["" if reuse is None else reuse.catalog.of(source) for source in sources]
    wanted = wanted_of(first.budgeted, first.groupings, said, ledger.declarations, is_stored=reuse is not None)
    plain = None
    if first.plain is not None:
        own = first.private.groupings
        plain = (
            first.plain,
            wanted_of(first.plain, own, said[: len(own)], ledger.declarations, is_stored=reuse is not None),
        )
    return split(
        first.budgeted, wanted, reuse, ledger.declarations, first.follows, plain, len(first.read), first.failure
    )


def answer(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    parts: Split,
    told: Sequence[Told],
    around: Surroundings,
) -> Batch:
    """Answers queries that were planned together: the stages in order, and nothing else.

    Args:
        parts: What of them is stored, and what is to be measured.
        told: For each what its answer says beside its intervals.
    """
    if any(one.steps for one in prepared):
        raise InternalError("a plan over rows that are not known yet cannot be measured")
    declared = around.ledger.declarations
    with turn(parts, around.reuse, declared) as lacking:
        noisy = _measured(requests, lacking.rest, around)
        answered = _after(noisy, lambda: combined(lacking, noisy, around.reuse, declared))
    return _after(noisy, lambda: _finished(requests, prepared, told, answered, around.backend))


def _protected(requests: Sequence[Request], terms: PlanningTerms, observe: Observer | None) -> Draft:
    """Returns the private plans of queries over the same boundaries."""
    trees = [(parse(request.text, request.dialect, request.params), request.text) for request in requests]
    if len(requests) == 1:
        (tree, text), (request,) = trees[0], requests
        alone = bind_step(tree, terms.catalog, text, request.dialect, request.given, request.step)
        return run_passes(PROTECT, Draft(logical=(alone,)), terms, observe)
    logical = bind_together(trees, terms.catalog, requests[0].dialect)
    return run_passes(PROTECT, Draft(logical=logical), terms, observe)


def _refused_alone(requests: Sequence[Request], make: Callable[[Sequence[Request]], Made]) -> Made:
    """Returns what is made of queries; of several the first that is refused by itself is refused, with its place."""
    try:
        return make(requests)
    except QueryError as error:
        if len(requests) == 1:
            raise error.locate(requests[0].text) from None
        for request in requests:
            _refused_alone((request,), make)
        raise


def _measured(requests: Sequence[Request], rest: BudgetedPlan, around: Surroundings) -> NoisyAggregates | None:
    """Returns what the gate released of a plan, charged for; None where nothing is lacking."""
    if not rest.aggregates:
        return None
    check_cancelled()
    _require_unchanged(around.backend)
    return release(
        rest,
        engine=around.backend,
        allowed=Allowed(steps=around.catalog.work, sizes=around.backend),
        ledger=around.ledger,
        analyst=around.analyst,
        query=";\n".join(request.recorded for request in requests),
        least=LEAST_PART if around.is_reserved else around.catalog.defaults.least_charge,
    )


def _require_unchanged(backend: Backend) -> None:
    """Raises BackendError where the data are not those that were opened; the words of other errors may quote them."""
    try:
        backend.check()
        return
    except DPQueryError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise BackendError(f"the tables could not be looked at ({kind}); nothing was charged")


def _after(noisy: NoisyAggregates | None, compute: Callable[[], Made]) -> Made:
    """Returns what is computed after a charge, whose failures are one error; where nothing was charged, as they are."""
    return compute() if noisy is None or noisy.entry is None else one_error(compute, noisy.entry)


def _finished(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    told: Sequence[Told],
    answered: Answered,
    backend: Backend,
) -> Batch:
    """Returns the answers that follow from released and public tables."""
    results, tables = [], answered.tables[: len(prepared[0].read)]
    for request, made, said in zip(requests, prepared, told, strict=True):
        finished = finish(
            tables,
            made.private.result,
            evaluate=backend.evaluate,
            added=[(one.leaf, one.aggregate) for one in made.private.added],
            variances=made.private.variances,
            whole=frozenset[str]().union(*[grouping.whole for grouping in made.private.groupings]),
            halved=[one for grouping in made.private.groupings for one in grouping.halved],
            taus={one.id: one.tau for one in answered.measurements if one.tau is not None},
            withheld=made.private.withheld,
        )
        own = of_tables(answered.tables, answered.measurements, finished.tables)
        results.append(
            Result(
                finished,
                charge=answered.charge,
                guarantee=answered.guarantee,
                measurements=answered.measurements if len(requests) == 1 else own,
                confidence=request.confidence,
                simultaneous=request.simultaneous,
                protects=answered.protects,
                blocks=answered.blocks,
                charged_with=len(requests),
                entry=answered.entry,
                notes=said.notes,
                warnings=said.warnings,
            )
        )
    return Batch(results, charge=answered.charge, guarantee=answered.guarantee, measurements=answered.measurements)


def told_of(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    measured: tuple[Measurement, ...],
    reuse: Reuse | None,
    profiles: KnownProfiles,
    catalog: Catalog,
) -> list[Told]:
    """Returns for each query what is told with its answer; refuses errors that are out of reach."""
    bounds = requests[0].bounds
    ranked = [made for made in measured if made.unit == "ranks"]
    for request, one in zip(requests, prepared, strict=True):
        profiles.require_reachable(one, request, reuse)
    return [
        Told(
            notes=profiles.notes(one, measured, bounds, reuse),
            warnings=(
                *unlisted_constants(one.private.aggregates, catalog),
                *(dict.fromkeys(profiles.too_small(one, measured, bounds, reuse)) if ranked else ()),
            ),
        )
        for one in prepared
    ]
