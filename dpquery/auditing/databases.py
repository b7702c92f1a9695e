"""Databases of one catalog under one ledger of their own, and what can be seen of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpquery.auditing.inputs import AuditedPlan, Groups, groups_of
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError
from dpquery.kernel.accountant import LARGEST, Budget, BudgetKind
from dpquery.ledger.ledger import Ledger
from dpquery.result.table import Result
from dpquery.session import pipeline, planning
from dpquery.session.options import Options, Request
from dpquery.session.query_plan import Plan
from dpquery.session.session import Session
from dpquery.session.steps import answered_in_steps, in_steps
from dpquery.sql.parse.parameters import Given

Opens = Callable[[Catalog, Any], Backend]
_MOMENT = re.compile(r"timestamp '[^']*'")
ANALYST = "auditor"
ROWS_WHERE_AUTO = 8
"""Rows of one unit that weigh in full in made-up data, where the catalog leaves the number to a profile."""


def in_one_thread(catalog: Catalog, sources: Any) -> Backend:
    """Returns the engine over a few made-up rows, for which one thread is faster than several."""
    return DuckDBBackend(catalog, sources, resources=Resources(threads=1))


class Hall:
    """Databases of the same catalog under one ledger, in one engine.

    Args:
        folder: Where the ledger is made.
        opens: The engine.
    """

    def __init__(self, catalog: Catalog, folder: str | Path, opens: Opens = in_one_thread) -> None:
        self.catalog, self.opens = catalog, opens
        place = Path(folder) / f"{next(_numbers)}.ledger"
        self.ledger = Ledger.create(place, catalog.declarations, catalog.budget, catalog.analysts)

    def open(self, sources: Mapping[str, object]) -> AuditedDatabase:
        """Returns a database of these tables."""
        backend = self.opens(self.catalog, sources)
        session = Session(self.catalog, backend=backend, ledger=self.ledger, analyst=ANALYST, reuse=False)
        return AuditedDatabase(self, backend, session)


_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class AuditedDatabase:
    """One database, and what can be seen of it."""

    hall: Hall
    backend: Backend
    session: Session

    def prepare(self, text: str, options: Options) -> AuditedPlan:
        """Returns what would be measured, in the last of its steps; raises QueryError for what is refused."""
        return self.steps(text, options)[-1]

    def steps(self, text: str, options: Options, params: Given = None) -> tuple[AuditedPlan, ...]:
        """Returns what would be measured in each step of a query: in those after the first, with what the steps before
        them release of this database as constants. Raises QueryError for what is refused."""
        request = options.request(text, params, self.hall.catalog.defaults)
        steps = in_steps(request, self._planned(request).steps)
        if len(steps) == 1:
            return (self._prepared(request),)
        asked: list[Request] = []

        def answer(step: Request) -> Result:
            asked.append(step)
            return self.session.answered(step)

        answered_in_steps(steps, answer)
        return tuple(self._prepared(step) for step in asked)

    def _prepared(self, request: Request) -> AuditedPlan:
        planned = self._planned(request)
        return AuditedPlan(
            budgeted=planned.budgeted,
            result=planned.private.result,
            plan=self.session.explained(request),
            neighbours=self.hall.catalog.neighbours,
            offer=request.offer,
        )

    def _planned(self, request: Request) -> planning.PreparedQuery:
        hall = self.hall
        (made,) = pipeline.plan((request,), catalog=hall.catalog, ledger=hall.ledger, public=self.backend)
        return made

    def explain(self, text: str, options: Options, params: Given = None) -> Plan:
        """Returns the plan as an analyst sees it."""
        return self.session.explain(text, params=params, options=options)

    def preview(self, text: str, options: Options, params: Given = None) -> tuple[object, ...]:
        """Returns all that an analyst sees before any charge: the plan, its price and its columns, or the error."""
        try:
            plan = self.explain(text, options, params)
        except DPQueryError as error:
            return type(error), str(error)
        shown = str(plan)
        if self._planned(options.request(text, params, self.hall.catalog.defaults)).reads_clock:
            shown = _MOMENT.sub("timestamp 'now'", shown)  # two plans are made at two moments
        return shown, plan.charge, plan.guarantee, plan.columns, plan.measurements

    def answer(self, text: str, options: Options, params: Given = None) -> Result:
        """Returns the answer."""
        return self.session.sql(text, params=params, options=options)

    def close(self) -> None:
        """Ends the engine."""
        self.backend.close()

    def inputs(self, prepared: AuditedPlan, key: int) -> tuple[Groups, ...]:
        """Returns the exact numbers of every aggregate of a plan: what noise will be added to. Where nothing is
        measured, the gate reads nothing."""
        return tuple(
            groups_of(a, self.backend.run(self.backend.prepare(a), key)) if a.measures else {}
            for a in prepared.aggregates
        )


def visible(answer: Result, keys: int) -> tuple[object, ...]:
    """Returns what public keys fix of an answer: names, types, the number of rows, and the key columns in order."""
    table = answer.to_arrow()
    rows = [table.column(i).to_pylist() for i in range(keys)]
    return table.schema, table.num_rows, rows, answer.charge, answer.measurements, tuple(answer.accuracy)


def for_simulation(catalog: Catalog) -> Catalog:
    """Returns the catalog under the largest budget of its kind, without limits of analysts or a least charge, and with
    a number where `max_rows` is to be measured. Sensitivities, bounds and keys are the same."""
    delta = None if catalog.budget.kind is BudgetKind.PURE else Fraction(1, 2)
    if catalog.budget.kind is BudgetKind.ZCDP:
        budget = Budget.of(rho=LARGEST, delta=delta)
    else:
        budget = Budget.of(epsilon=LARGEST, delta=delta)
    auto = {
        name: ROWS_WHERE_AUTO for name, table in catalog.tables.items() if not isinstance(table.max_rows, int | None)
    }
    return catalog.with_max_rows(auto).with_budget(budget, least_charge=Fraction(1, 10**18))
