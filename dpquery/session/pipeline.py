"""The stages in order, one call each; no logic of its own."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from dpquery.backends.base import Backend, PublicFacts
from dpquery.cancelling import check_cancelled
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, QueryError, QuerySyntaxError, UnsupportedQueryError
from dpquery.kernel.checks import check
from dpquery.kernel.durable import DurableLedger
from dpquery.kernel.failures import one_error
from dpquery.kernel.plan import BudgetedPlan
from dpquery.kernel.release import release
from dpquery.kernel.work import Allowed, require_bounded
from dpquery.ledger.ledger import Ledger
from dpquery.plan.expr import Expression
from dpquery.plan.logical import LogicalPlan, Relation
from dpquery.plan.show import names_of, show
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.budget.targets import Accuracy
from dpquery.planner.choose import choose_together
from dpquery.planner.protect.protect import ContributionBounds, PrivatePlan, protect
from dpquery.result.batch import Batch, of_tables
from dpquery.result.finish import finish
from dpquery.result.table import Result
from dpquery.reuse.answers import Answered, Reuse, Split, combined, split, turn, wanted_of
from dpquery.reuse.releases import Facts
from dpquery.sql.bind.bind import bind_together
from dpquery.sql.parse.parameters import Given
from dpquery.sql.parse.parse import parse
from dpquery.units.sizes import Sizes, Unbounded

Made = TypeVar("Made")

PARAMETERS = frozenset({type(None), bool, int, float, Decimal, str, datetime.date, datetime.datetime})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query and all that is asked with it.

    Attributes:
        params: The values of the query's parameters, by position or by name.
        weights: How much the errors of columns count when the loss is split.
        accuracy: The errors asked for instead of a loss.
    """

    text: str
    offer: QueryBudget
    bounds: ContributionBounds
    dialect: str = "postgres"
    confidence: Fraction = Fraction(95, 100)
    params: Given = None
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    accuracy: Accuracy | None = None

    @property
    def key(self) -> tuple[object, ...] | None:
        """What tells requests apart, parameters by their types too; None for what will be refused."""
        given = () if self.params is None else self.params
        if not isinstance(given, Mapping | tuple):
            return None
        params = given if isinstance(given, Mapping) else dict(enumerate(given))
        if {type(self.text), type(self.dialect)} != {str} or not {*map(type, params.values())} <= PARAMETERS:
            return None
        errors = () if self.accuracy is None else (self.accuracy.errors, self.accuracy.failure, self.accuracy.rows)
        amounts = (repr(self.offer), repr(self.bounds), repr(self.weights), repr(errors), str(self.confidence))
        return self.text, self.dialect, *amounts, tuple((name, type(v), repr(v)) for name, v in params.items())

    @property
    def recorded(self) -> str:
        """The text for the ledger's log, with the values of its parameters."""
        return self.text if not self.params else f"{self.text}\n-- params: {self.params!a}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A query that is ready to be measured; no row was read for it."""

    private: PrivatePlan
    budgeted: BudgetedPlan
    reads_clock: bool = False


def prepare(request: Request, *, catalog: Catalog, ledger: Ledger, public: PublicFacts) -> Prepared:
    """Returns the plan of a query: text to tree to logical to private to budgeted plan. Reads no private row.

    Raises:
        QueryError: What is refused, with its place in the text.
    """
    return prepare_together((request,), catalog=catalog, ledger=ledger, public=public)[0]


def prepare_together(
    requests: Sequence[Request], *, catalog: Catalog, ledger: Ledger, public: PublicFacts
) -> tuple[Prepared, ...]:
    """Returns the plans of queries that are measured at once: they share tables, one split and one charge.

    Args:
        requests: They differ in their texts and parameters alone.
    """
    first = requests[0]
    text = first.text if len(requests) == 1 else None
    try:
        private = _protected(requests, catalog, public)
        reads_clock = any(plan.reads_clock for plan, _ in private)
        plans, budgeted = choose_together(
            [plan for _, plan in private],
            first.offer,
            budget=ledger.budget,
            neighbours=ledger.declarations.neighbours,
            weights=first.weights,
            accuracy=first.accuracy,
        )
        require_little_work(budgeted, catalog, public)
    except RecursionError:
        raise QuerySyntaxError("the query is nested too deep") from None
    except QueryError as error:
        raise (error if text is None else error.locate(text)) from None
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be planned ({type(error).__name__}); nothing was charged") from None
    for aggregate in budgeted.aggregates:
        check(aggregate, ledger.declarations, public)
    return tuple(Prepared(private=plan, budgeted=budgeted, reads_clock=reads_clock) for plan in plans)


def _protected(
    requests: Sequence[Request], catalog: Catalog, public: PublicFacts
) -> list[tuple[LogicalPlan, PrivatePlan]]:
    """Returns the logical and the private plans of queries over the same boundaries.

    Raises:
        QueryError: What is refused, knowing its text: where several are asked, the first that is refused by itself.
    """
    try:
        trees = [(parse(request.text, request.dialect, request.params), request.text) for request in requests]
        logical = bind_together(trees, catalog, requests[0].dialect)
        return [
            (
                plan,
                protect(plan, catalog, public=public.public_rows, sizes=public, describe=_describe, bounds=each.bounds),
            )
            for plan, each in zip(logical, requests, strict=True)
        ]
    except QueryError as error:
        if len(requests) == 1:
            raise error.locate(requests[0].text) from None
        for request in requests:
            _protected((request,), catalog, public)
        raise


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
    facts = [Facts.of(grouping, told) for grouping, told in zip(first.private.groupings, said, strict=True)]
    wholes = [grouping.whole for grouping in first.private.groupings]
    wanted = wanted_of(first.budgeted, facts, wholes, ledger.declarations, is_stored=reuse is not None)
    return split(first.budgeted, wanted, reuse, ledger.declarations)


def answer(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    parts: Split,
    *,
    catalog: Catalog,
    ledger: DurableLedger,
    backend: Backend,
    reuse: Reuse | None,
    analyst: str,
    least: Fraction,
    notes: Sequence[tuple[str, ...]],
) -> Batch:
    """Answers queries that were prepared together: the stages in order, and nothing else.

    Args:
        notes: For each what its answer says beside its intervals.
    """
    recorded = ";\n".join(request.recorded for request in requests)
    allowed = Allowed(steps=catalog.work, sizes=backend)
    with turn(parts, reuse, ledger.declarations) as lacking:
        noisy = None
        if lacking.rest.aggregates:
            check_cancelled()
            backend.check()
            noisy = release(
                lacking.rest,
                engine=backend,
                allowed=allowed,
                ledger=ledger,
                analyst=analyst,
                query=recorded,
                least=least,
            )
        entry = None if noisy is None else noisy.entry
        answered = _after(entry, lambda: combined(lacking, noisy, reuse, ledger.declarations))
    return _after(entry, lambda: _finished(requests, prepared, answered, backend, notes))


def _after(entry: int | None, compute: Callable[[], Made]) -> Made:
    """Returns what is computed after a charge, whose failures are one error; where nothing was charged, as they are."""
    return compute() if entry is None else one_error(compute, entry)


def _finished(
    requests: Sequence[Request],
    prepared: Sequence[Prepared],
    answered: Answered,
    backend: Backend,
    notes: Sequence[tuple[str, ...]],
) -> Batch:
    """Returns the answers that follow from released and public tables."""
    results = []
    for request, made, told in zip(requests, prepared, notes, strict=True):
        finished = finish(
            answered.tables,
            made.private.result,
            evaluate=backend.evaluate,
            added=[(one.leaf, one.aggregate) for one in made.private.added],
            variances=made.private.variances,
        )
        own = of_tables(answered.tables, answered.measurements, finished.tables)
        results.append(
            Result(
                finished,
                charge=answered.charge,
                guarantee=answered.guarantee,
                measurements=answered.measurements if len(requests) == 1 else own,
                confidence=request.confidence,
                protects=answered.protects,
                blocks=answered.blocks,
                charged_with=len(requests),
                entry=answered.entry,
                notes=told,
            )
        )
    return Batch(results, charge=answered.charge, guarantee=answered.guarantee, measurements=answered.measurements)


def _describe(expression: Expression, relation: Relation) -> str:
    return show(expression, names_of(relation))
