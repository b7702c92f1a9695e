"""The stages in order, one call each; no logic of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, QueryError, QuerySyntaxError
from dpquery.kernel.ledger import Ledger
from dpquery.kernel.plan import BudgetedPlan
from dpquery.kernel.release import NoisyAggregates, check, release
from dpquery.plan.expr import Expression
from dpquery.plan.logical import Relation
from dpquery.plan.show import names_of, show
from dpquery.planner.allocate import Offer
from dpquery.planner.choose import choose
from dpquery.planner.keys import PublicValues
from dpquery.planner.protect import Bounds, PrivatePlan, protect
from dpquery.result.finish import finish
from dpquery.result.table import Result
from dpquery.sql.bind import bind
from dpquery.sql.parameters import Given
from dpquery.sql.parse import parse
from dpquery.stored.answers import Reuse, Split, measure, split, wanted_of
from dpquery.stored.releases import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query and all that is asked with it.

    Attributes:
        params: The values of the query's parameters, by position or by name.
    """

    text: str
    offer: Offer
    bounds: Bounds
    dialect: str = "postgres"
    confidence: Fraction = Fraction(95, 100)
    params: Given = None

    @property
    def key(self) -> tuple[object, ...]:
        """What tells requests apart; parameters by their types too."""
        given = self.params.items() if isinstance(self.params, Mapping) else enumerate(self.params or ())
        params = tuple((name, type(value).__name__, repr(value)) for name, value in given)
        return self.text, self.offer, self.bounds, self.dialect, self.confidence, params

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


def prepare(request: Request, *, catalog: Catalog, ledger: Ledger, public: PublicValues) -> Prepared:
    """Returns the plan of a query: text to tree to logical to private to budgeted plan. Reads no private row.

    Raises:
        QueryError: What is refused, with its place in the text.
    """
    try:
        tree = parse(request.text, request.dialect, request.params)
        logical = bind(tree, catalog, request.text, request.dialect)
        private = protect(logical, catalog, public=public, describe=_describe, bounds=request.bounds)
        neighbours = ledger.declarations.neighbours
        private, budgeted = choose(private, request.offer, budget=ledger.budget, neighbours=neighbours)
    except RecursionError:
        raise QuerySyntaxError("the query is nested too deep") from None
    except QueryError as error:
        raise error.locate(request.text) from None
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be planned ({type(error).__name__}); nothing was charged") from None
    for aggregate in budgeted.aggregates:
        check(aggregate, ledger.declarations)
    return Prepared(private=private, budgeted=budgeted, reads_clock=logical.reads_clock)


def divide(prepared: Prepared, *, ledger: Ledger, reuse: Reuse | None) -> Split:
    """Returns what of a prepared query is stored, and what is to be measured; reads no private row."""
    catalog = "" if reuse is None else reuse.catalog
    facts = [Facts.of(grouping, catalog) for grouping in prepared.private.groupings]
    wanted = wanted_of(prepared.budgeted, facts, ledger.declarations)
    return split(prepared.budgeted, wanted, reuse, ledger.declarations)


def answer(
    request: Request,
    prepared: Prepared,
    parts: Split,
    *,
    ledger: Ledger,
    backend: Backend,
    reuse: Reuse | None,
    analyst: str,
) -> Result:
    """Answers one prepared query: the stages in order, and nothing else."""

    def measured(plan: BudgetedPlan) -> NoisyAggregates:
        return release(plan, run=backend.run, ledger=ledger, analyst=analyst, query=request.recorded)

    answered = measure(parts, reuse, ledger.declarations, measured)
    finished = finish(
        answered.tables,
        prepared.private.result,
        evaluate=backend.evaluate,
        confidence=request.confidence,
        added=[(one.leaf, one.aggregate) for one in prepared.private.added],
    )
    return Result(
        finished,
        charge=answered.charge,
        guarantee=answered.guarantee,
        measurements=answered.measurements,
        confidence=float(request.confidence),
    )


def _describe(expression: Expression, relation: Relation) -> str:
    return show(expression, names_of(relation))
