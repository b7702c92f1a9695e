"""Plan: what a query would measure and cost."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from dpquery.data.arrow import arrow_type
from dpquery.kernel.accountant import charge_at_least
from dpquery.kernel.checks import blocks_of
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import output
from dpquery.planner.passes import Draft, Pass
from dpquery.result.measurements import Measurement
from dpquery.reuse.query_split import QuerySplit
from dpquery.session.answering import Remarks
from dpquery.session.explain import explain, ranks_needed, show_passes
from dpquery.session.planning import PreparedQuery
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations

if TYPE_CHECKING:
    import pandas as pd


class Plan:
    """What a query would measure and cost; no row was read for it and nothing was charged. `str(plan)` is for people.

    Attributes:
        measurements: Every noisy column, with its mechanism, sensitivity, scale and expected error.
        charge: What the ledger would count: the loss of what is measured, and at least the least charge.
        guarantee: What the answer alone satisfies: epsilon and delta, or rho and delta.
        columns: The names of the answer's columns.
        schema: The Arrow schema of the answer, the same for all data.
        blocks: The blocks that would be charged, as "2024-01 to 2024-03"; "" where the dataset's rows are in none.
        notes: What is known of what bounds leave out, a line for each table, as the answer's `notes` will say; the text
            has those that tell something.
        warnings: Which numbers can say nothing, as far as the profile of a table tells it; the answer will say so too.
        protects: What the charge is a loss for, in words: "the rows of one patient in one month".

    Example:
        >>> plan = session.explain("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1")
        >>> plan.charge, plan.columns, plan.protects
        (epsilon 0.1, ('region', 'n'), 'all rows of one patient')
        >>> [(one.aggregate, one.mechanism, one.l1) for one in plan.measurements]
        [('count', 'laplace', Fraction(1, 1))]
    """

    def __init__(
        self,
        prepared: PreparedQuery,
        parts: QuerySplit,
        ledger: Ledger,
        prices: Callable[[], pd.DataFrame],
        *,
        expected: Callable[[], tuple[str, ...]],
        analyst: str,
        least: Fraction,
        notes: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        told: tuple[str, ...] = (),
    ) -> None:
        self._prices, self._expected, self._told = prices, expected, told
        self.measurements: tuple[Measurement, ...] = parts.measurements(ledger.declarations)
        loss = parts.charge(ledger.budget.kind, ledger.declarations)
        self.charge: PrivacyLoss = charge_at_least(loss, ledger.budgets.get(analyst, ledger.budget), least)
        self.guarantee: PrivacyLoss = parts.guarantee(ledger.declarations)
        self.columns: tuple[str, ...] = tuple(column.name for column in output(prepared.private.result))
        self.schema: pa.Schema = pa.schema([(c.name, arrow_type(c.type)) for c in output(prepared.private.result)])
        self.touched: Touched = blocks_of(parts.rest, ledger.declarations)
        self.blocks: str = "" if self.charge == ZERO else ledger.shown_blocks(self.touched)
        self.notes: tuple[str, ...] = notes
        self.warnings: tuple[str, ...] = warnings
        self.protects: str = ledger.declarations.protected
        self._text = explain(
            parts.plan,
            prepared.private.result,
            self.measurements,
            self.charge,
            added=[(one.leaf, one.aggregate) for one in prepared.private.added],
            notes=prepared.private.notes,
            loss=loss,
            blocks=f"{self.blocks}; protects {self.protects}" if self.blocks else "",
        )

    def after(self, steps: Sequence[Plan]) -> Plan:
        """Returns the plan of a query whose steps are planned: its charge, guarantee and text are those of all."""
        made = copy.copy(self)
        made.charge = sum((step.charge for step in steps), self.charge)
        made.guarantee = sum((step.guarantee for step in steps), self.guarantee)
        made.measurements = tuple(one for step in (*steps, self) for one in step.measurements)
        made.notes = tuple(dict.fromkeys(note for step in (*steps, self) for note in step.notes))
        made.warnings = tuple(dict.fromkeys(note for step in (*steps, self) for note in step.warnings))
        texts = [f"Step {number} of {len(steps) + 1}:\n{step}" for number, step in enumerate((*steps, self), start=1)]
        made._text, made._told = "\n".join(texts), (f"Charge of all steps: {made.charge}",)
        made._prices = _no_prices
        return made

    @cached_property
    def prices(self) -> pd.DataFrame:
        """What other losses and errors would mean for this query, one row for each way to ask: the charge, and for each
        column the half-width of its intervals; NaN where that depends on the data. Reads no private row. Of a query in
        steps it is empty.

        Example:
            >>> prices = session.explain("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").prices
            >>> [*prices.columns], bool(prices.loc["epsilon=1", "n"] < prices.loc["epsilon=0.1", "n"])
            (['charge', 'n'], True)
        """
        return self._prices()

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """How far the noisy columns of the answer would be off, with the confidence that is asked: a phrase for each,
        as `n ± 30`. An average has it for a number of rows, a quantile in ranks. What is stored already is not
        considered. Of a query in steps only the last one is.

        Example:
            >>> session.explain("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").expected
            ('n ± 31',)
        """
        return self._expected()

    def __str__(self) -> str:
        return "\n".join([self._text, *self._told])

    def __repr__(self) -> str:
        return str(self)


def _no_prices() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()


def told_with_plan(
    prepared: PreparedQuery,
    parts: QuerySplit,
    known: Remarks,
    is_known: Callable[[str], bool],
    declared: Declarations,
    trace: Sequence[tuple[Pass, Draft]],
) -> tuple[str, ...]:
    """Returns what the text of a plan says beside what is measured, a line each."""
    return (
        *(f"Workload: {note}" for note in prepared.notes),
        *(f"Left out: {note}" for note in known.notes if is_known(note)),
        *(f"Ranks: {line}" for line in ranks_needed(parts.measurements(declared))),
        *(f"Warning: {words}" for words in known.warnings),
        *show_passes(trace),
    )
