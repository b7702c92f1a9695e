"""A synopsis bought: one charge for all of it, then rounds of ordinary queries within that charge."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.catalog.min_units import least_units
from dpquery.catalog.names import shown
from dpquery.catalog.rows import rows_of
from dpquery.catalog.tables import DEFAULT_SHARE_OF_DELTA
from dpquery.errors import InvalidLossError, ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.kernel.accountant import BudgetKind, charge_at_least
from dpquery.kernel.loss import PrivacyLoss, rho_within
from dpquery.kernel.plan import Mechanism
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.reserved import Reserved
from dpquery.ledger.versions import AtVersion
from dpquery.plan.types import Value
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.result.measurements import Measurement
from dpquery.session import pipeline
from dpquery.session.answering import Execution, Remarks
from dpquery.session.options import Options, Request
from dpquery.session.planning import PreparedQuery
from dpquery.synopsis.axes import SynopsisAxis, axes_of
from dpquery.synopsis.making import draw, measure
from dpquery.synopsis.model import Marginal
from dpquery.synopsis.rounds import MarginalQuestion, alone
from dpquery.synopsis.synopsis import Synopsis, SynopsisPlan, expected, quality_of

MOST_ROWS = 10_000_000
ROOT_TWO = 2**0.5
STEP = Fraction(1, 10**12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buying:
    """Of what synopses are bought, and who pays.

    Attributes:
        charged: The ledger, at the version of the data that the session began with.
    """

    catalog: Catalog
    backend: Backend
    charged: AtVersion
    analyst: str

    def axes(self, table: str, columns: Sequence[str] | None, measures: Sequence[str]) -> tuple[SynopsisAxis, ...]:
        """Returns the axes of a private table's columns."""
        declared = self.catalog.tables.get(table)
        if declared is None or declared.public:
            raise UnknownNameError(f"{shown(table)} is not a declared private table")
        if least_units(declared, self.catalog) is not None:
            raise UnsupportedQueryError(
                f"a synopsis has cells of few people, which min_units of {shown(table)} withholds",
                advice="Ask queries, or leave min_units out.",
            )
        return axes_of(declared, columns, measures, self._values)

    def buy(
        self,
        name: str,
        table: str,
        columns: Sequence[str] | None,
        measures: Sequence[str],
        offer: QueryBudget,
        rows: int | None,
    ) -> Synopsis:
        """Returns a new synopsis, for one charge that is recorded before a row is read.

        Privacy:
            Ordinary counts by public groups, each released by the gate. What later rounds ask follows from what earlier
            ones released, and their losses add up to the charge at most (`Reserved`). The rest is post-processing.
        Raises:
            InsufficientBudgetError: Nothing was charged.
        """
        axes, loss = self.axes(table, columns, measures), self._loss(offer)
        if rows is not None and (type(rows) is not int or not 1 <= rows <= MOST_ROWS):
            raise ParameterError(f"rows must be a whole number from 1 to {MOST_ROWS:,}")
        for question in alone(axes):
            self._planned(question, table, axes, loss)  # what is refused is refused before the charge
        text = f"synopsis {name} of {table}: {', '.join(axis.name for axis in axes)}"
        reserved = Reserved(self.charged, analyst=self.analyst, loss=loss, query=text)

        def ask(
            questions: Sequence[MarginalQuestion], asked: Sequence[SynopsisAxis], share: Fraction
        ) -> list[Marginal]:
            part = _part(loss, share / len(questions))
            return [self._measured(question, table, asked, reserved, part) for question in questions]

        transcript = measure(axes, ask, self._is_pure)
        made, cells = draw(transcript, rows=rows)
        return Synopsis(
            name=name,
            table=table,
            columns=tuple(axis.name for axis in axes),
            measures=tuple(measures),
            rows=made,
            weight=float(made.column(made.num_columns - 1)[0].as_py()),
            quality=quality_of(transcript, cells),
            charge=loss,
            entry=reserved.entry,
            analyst=self.analyst,
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            data_version=self.charged.data_version,
            transcript=transcript,
        )

    def plan(
        self, table: str, columns: Sequence[str] | None, measures: Sequence[str], offer: QueryBudget, rows: object
    ) -> SynopsisPlan:
        """Returns what a synopsis would measure if the table had so many rows; reads nothing and charges nothing."""
        if type(rows) is not int or rows < 1:
            raise ParameterError("if_rows must be a whole number of rows of at least 1")
        axes, loss, most = self.axes(table, columns, measures), self._loss(offer), self._rows_of_unit(table)
        deviation = most * (ROOT_TWO / float(loss.epsilon) if self._is_pure else (2 * float(loss.rho)) ** -0.5)
        return SynopsisPlan(
            table=table,
            columns={axis.name: axis.size for axis in axes},
            rows=rows,
            loss=loss,
            quality=expected(axes, rows, deviation, self._is_pure),
        )

    @property
    def ledger(self) -> Ledger:
        """The ledger, at any version."""
        return self.charged.ledger

    @property
    def _is_pure(self) -> bool:
        return self.ledger.budget.kind is BudgetKind.PURE

    def _rows_of_unit(self, table: str) -> int:
        bound = rows_of(self.catalog.tables[table], self.catalog)
        return bound if isinstance(bound, int) else 1

    def _values(self, table: str, column: str) -> list[Value]:
        return [row[0] for row in self.backend.public_rows(table, (column,))]

    def _loss(self, offer: QueryBudget) -> PrivacyLoss:
        """Returns what the whole synopsis is charged, in the ledger's currency."""
        given, budget = self.catalog.defaults, self.ledger.budget
        asked = offer.or_default(QueryBudget(epsilon=given.epsilon, delta=given.delta, rho=given.rho))
        loss: PrivacyLoss | None = None
        if budget.kind is BudgetKind.PURE:
            loss = None if asked.epsilon is None else PrivacyLoss(epsilon=asked.epsilon)
        elif asked.rho is not None:
            loss = PrivacyLoss(rho=asked.rho)
        elif budget.kind is BudgetKind.APPROXIMATE and asked.epsilon is not None:
            loss = PrivacyLoss(rho=rho_within(asked.epsilon, asked.delta or budget.delta * DEFAULT_SHARE_OF_DELTA))
        if loss is None:
            word = "rho='0.05'" if budget.kind is BudgetKind.ZCDP else "epsilon='1'"
            raise InvalidLossError("a synopsis needs a loss in the budget's currency", advice=f"Write {word}.")
        return charge_at_least(loss, self.ledger.budgets.get(self.analyst, budget), given.least_charge)

    def _planned(
        self, question: MarginalQuestion, table: str, axes: Sequence[SynopsisAxis], loss: PrivacyLoss
    ) -> tuple[Request, tuple[PreparedQuery, ...]]:
        options = Options(epsilon=loss.epsilon) if self._is_pure else Options(rho=loss.rho)
        request = options.request(question.sql(table, axes), None, self.catalog.defaults)
        public = self.backend
        made = pipeline.plan((request,), catalog=self.catalog, ledger=self.ledger, public=public, gaps=public.gaps)
        return request, made

    def measurement(
        self, question: MarginalQuestion, table: str, axes: Sequence[SynopsisAxis], loss: PrivacyLoss
    ) -> Measurement:
        """Returns what a question would measure if it had all of a loss."""
        _, prepared = self._planned(question, table, axes, loss)
        (found,) = pipeline.divide(prepared, ledger=self.ledger, reuse=None).measurements(self.ledger.declarations)
        return found

    def _measured(
        self,
        question: MarginalQuestion,
        table: str,
        axes: Sequence[SynopsisAxis],
        reserved: Reserved,
        loss: PrivacyLoss,
    ) -> Marginal:
        """Returns what the gate released for a question by itself: no stored number is read or kept."""
        request, prepared = self._planned(question, table, axes, loss)
        parts = pipeline.divide(prepared, ledger=self.ledger, reuse=None)
        execution = Execution(
            catalog=self.catalog,
            backend=self.backend,
            ledger=reserved,
            reuse=None,
            analyst=self.analyst,
            is_reserved=True,
        )
        (answer,) = pipeline.answer((request,), prepared, parts, (Remarks(),), execution)
        *keys, numbers = (column.to_pylist() for column in answer.to_arrow().columns)
        (measurement,) = answer.measurements
        shape = shape_of(Mechanism(measurement.mechanism))
        deviation = math.sqrt(shape.variance(shape.parameter(measurement.scale)))
        return question.marginal(axes, keys, numbers, deviation)


def _part(loss: PrivacyLoss, share: Fraction) -> PrivacyLoss:
    """Returns a share of a loss, rounded down to what a charge is counted in, so that all shares fit."""
    return PrivacyLoss(
        epsilon=Fraction(math.floor(loss.epsilon * share / STEP)) * STEP,
        rho=Fraction(math.floor(loss.rho * share / STEP)) * STEP,
    )
