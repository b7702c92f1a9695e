"""The stages in order, one call each; no logic of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.backends.base import Backend
from dpquery.cancelling import check_cancelled
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, QueryError, QuerySyntaxError
from dpquery.kernel.accountant import guarantee_of
from dpquery.kernel.ledger import Ledger
from dpquery.kernel.plan import BudgetedPlan
from dpquery.kernel.release import check, release
from dpquery.plan.expr import Expression
from dpquery.plan.logical import Relation
from dpquery.plan.show import names_of, show
from dpquery.planner.allocate import Offer
from dpquery.planner.choose import choose_together
from dpquery.planner.keys import PublicValues
from dpquery.planner.protect import Bounds, PrivatePlan, protect
from dpquery.planner.targets import Accuracy
from dpquery.result.batch import Batch, of_tables
from dpquery.result.finish import finish
from dpquery.result.table import Result
from dpquery.sql.bind import bind, bind_together
from dpquery.sql.parameters import Given
from dpquery.sql.parse import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query and all that is asked with it.

    Attributes:
        params: The values of the query's parameters, by position or by name.
        weights: How much the errors of columns count when the loss is split.
        accuracy: The errors asked for instead of a loss.
    """

    text: str
    offer: Offer
    bounds: Bounds
    dialect: str = "postgres"
    confidence: Fraction = Fraction(95, 100)
    params: Given = None
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    accuracy: Accuracy | None = None

    @property
    def recorded(self) -> str:
        """The text for the ledger's log, with the values of its parameters."""
        return self.text if not self.params else f"{self.text}\n-- params: {self.params!a}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A query that is ready to be measured; no row was read for it."""

    private: PrivatePlan
    budgeted: BudgetedPlan


def prepare(request: Request, *, catalog: Catalog, ledger: Ledger, public: PublicValues) -> Prepared:
    """Returns the plan of a query: text to tree to logical to private to budgeted plan. Reads no private row.

    Raises:
        QueryError: What is refused, with its place in the text.
    """
    return prepare_together((request,), catalog=catalog, ledger=ledger, public=public)[0]


def prepare_together(
    requests: Sequence[Request], *, catalog: Catalog, ledger: Ledger, public: PublicValues
) -> tuple[Prepared, ...]:
    """Returns the plans of queries that are measured at once: they share tables, one split and one charge.

    Args:
        requests: They differ in their texts and parameters alone.
    """
    first = requests[0]
    text = first.text if len(requests) == 1 else None
    try:
        if len(requests) > 1:  # each by itself, so that what is refused is found in its own text
            for request in requests:
                text = request.text
                alone = bind(parse(text, request.dialect, request.params), catalog, text, request.dialect)
                protect(alone, catalog, public=public, describe=_describe, bounds=request.bounds)
            text = None  # what is refused from here on concerns all of them
        trees = [(parse(request.text, request.dialect, request.params), request.text) for request in requests]
        logical = bind_together(trees, catalog, first.dialect)
        private: Sequence[PrivatePlan] = [
            protect(plan, catalog, public=public, describe=_describe, bounds=request.bounds)
            for plan, request in zip(logical, requests, strict=True)
        ]
        private, budgeted = choose_together(
            private,
            first.offer,
            budget=ledger.budget,
            neighbours=ledger.declarations.neighbours,
            weights=first.weights,
            accuracy=first.accuracy,
        )
    except RecursionError:
        raise QuerySyntaxError("the query is nested too deep") from None
    except QueryError as error:
        raise (error if text is None else error.locate(text)) from None
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be planned ({type(error).__name__}); nothing was charged") from None
    for aggregate in budgeted.aggregates:
        check(aggregate, ledger.declarations)
    return tuple(Prepared(private=plan, budgeted=budgeted) for plan in private)


def answer(request: Request, *, catalog: Catalog, ledger: Ledger, backend: Backend, analyst: str) -> Result:
    """Answers one query: the stages in order, and nothing else."""
    return answer_together((request,), catalog=catalog, ledger=ledger, backend=backend, analyst=analyst)[0]


def answer_together(
    requests: Sequence[Request], *, catalog: Catalog, ledger: Ledger, backend: Backend, analyst: str
) -> Batch:
    """Answers queries that are measured at once: the stages in order, and nothing else."""
    prepared = prepare_together(requests, catalog=catalog, ledger=ledger, public=backend.public_values)
    recorded = ";\n".join(request.recorded for request in requests)
    check_cancelled()
    noisy = release(prepared[0].budgeted, run=backend.run, ledger=ledger, analyst=analyst, query=recorded)
    guarantee = guarantee_of(prepared[0].budgeted)
    results = []
    for request, made in zip(requests, prepared, strict=True):
        added = [(one.leaf, one.aggregate) for one in made.private.added]
        finished = finish(
            noisy, made.private.result, evaluate=backend.evaluate, confidence=request.confidence, added=added
        )
        own = noisy if len(requests) == 1 else of_tables(noisy, finished.tables)
        results.append(
            Result(own, finished, guarantee=guarantee, confidence=float(request.confidence), charged_with=len(requests))
        )
    return Batch(results, noisy=noisy, guarantee=guarantee)


def _describe(expression: Expression, relation: Relation) -> str:
    return show(expression, names_of(relation))
