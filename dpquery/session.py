"""Session: one catalog, one ledger, one backend, one analyst; sql(), explain(), remaining."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NoReturn

import pandas as pd

from dpquery import pipeline
from dpquery.backends.base import Backend
from dpquery.backends.duckdb import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, InvalidLossError, LedgerError
from dpquery.explain import explain
from dpquery.kernel.accountant import Budget, charge_of, guarantee_of, parts_of
from dpquery.kernel.ledger import Ledger
from dpquery.kernel.loss import PrivacyLoss, parse_amount
from dpquery.kernel.measurements import Measurement, measurements
from dpquery.plan.logical import output
from dpquery.planner.allocate import Offer
from dpquery.planner.protect import Bounds
from dpquery.planner.targets import Accuracy
from dpquery.prices import prices, read_amounts, read_weights
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.sql.parameters import Given

MOST_QUERIES = 50
"""Queries of one batch."""


class Plan:
    """What a query would measure and cost; no row was read for it and nothing was charged. `str(plan)` is for people.

    Attributes:
        measurements: Every noisy column, with its mechanism, sensitivity, scale and expected error.
        charge: What the ledger would count.
        guarantee: What the answer alone satisfies: epsilon and delta, or rho and delta.
        columns: The names of the answer's columns.
    """

    def __init__(self, prepared: pipeline.Prepared, ledger: Ledger, prices: Callable[[], pd.DataFrame]) -> None:
        self._prices = prices
        self.measurements: tuple[Measurement, ...] = measurements(prepared.budgeted, ledger.declarations.neighbours)
        self.charge: PrivacyLoss = charge_of(prepared.budgeted, ledger.budget.kind)
        self.guarantee: PrivacyLoss = guarantee_of(prepared.budgeted)
        self.columns: tuple[str, ...] = tuple(column.name for column in output(prepared.private.result))
        self._text = explain(
            prepared.budgeted,
            prepared.private.result,
            self.measurements,
            self.charge,
            added=[(one.leaf, one.aggregate) for one in prepared.private.added],
            notes=prepared.private.notes,
        )

    @cached_property
    def prices(self) -> pd.DataFrame:
        """What other losses and errors would mean for this query, one row for each way to ask: the charge, and for each
        column the half-width of its intervals; NaN where that depends on the data. Reads no private row."""
        return self._prices()

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


class Session:
    """Answers one analyst's queries over one dataset, within the ledger's budget.

    In-process use protects honest analysts from mistakes. Whoever can run code in this process can read the data.
    """

    def __init__(self, catalog: Catalog, *, backend: Backend, ledger: Ledger, analyst: str) -> None:
        _check_ledger(catalog, ledger)
        ledger.remaining(analyst)
        self._catalog, self._backend, self._ledger, self._analyst = catalog, backend, ledger, analyst

    @property
    def catalog(self) -> Catalog:
        """The declarations."""
        return self._catalog

    @property
    def analyst(self) -> str:
        """Who asks, as the ledger knows them."""
        return self._analyst

    @property
    def remaining(self) -> PrivacyLoss:
        """What this analyst may still spend, in the ledger's currency."""
        return self._ledger.remaining(self._analyst)

    def sql(
        self,
        query: str,
        *,
        params: Given = None,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        error: object = None,
        weights: Mapping[str, object] | None = None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        dialect: str = "postgres",
        confidence: object = "0.95",
    ) -> Result:
        """Answers a query with noise, and charges the ledger for it.

        Args:
            query: One SELECT statement.
            params: The values of its parameters: a list for `$1`, `?` and `%s`, a dict for `:name`, `@name` and
                `%(name)s`. None, bool, int, float, Decimal, str, date and datetime; always values, never SQL.
            epsilon, delta, rho: What the query may lose, as str, int, Decimal, Fraction or float; by default what the
                catalog says.
            error: Instead of a loss, the largest half-width of the intervals: a number for all columns, or a dict of
                columns. The least loss for it is charged. Counts and sums can have one.
            weights: A dict of columns to positive numbers: a column of weight 2 gets twice the loss of one of weight 1.
            max_groups, max_rows: Contribution bounds instead of the catalog's.
            dialect: The SQL dialect of the query; any that sqlglot reads.
            confidence: Of the intervals, between 0 and 1.
        Raises:
            QueryError: The query is refused; nothing was charged.
            BackendError: The engine failed; the charge stands.
        """
        request = self._request(
            query,
            params,
            Offer.of(epsilon, delta, rho),
            Bounds(max_groups=max_groups, max_rows=max_rows),
            dialect,
            _confidence(confidence),
            error,
            weights,
        )
        return pipeline.answer(
            request, catalog=self._catalog, ledger=self._ledger, backend=self._backend, analyst=self._analyst
        )

    def batch(
        self,
        queries: Sequence[str],
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        error: object = None,
        weights: Mapping[str, object] | None = None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        dialect: str = "postgres",
        confidence: object = "0.95",
    ) -> Batch:
        """Answers several queries at once: what two of them ask is measured once, one loss is split over all, and the
        ledger is charged once. Nothing is charged if one of them is refused.

        Args:
            queries: SELECT statements, without parameters.
            epsilon, delta, rho, error, weights, max_groups, max_rows, dialect, confidence: As in `sql`, for all
                queries together; weights and errors of columns hold in each query that has such a column.
        """
        if not isinstance(queries, list | tuple) or not 1 <= len(queries) <= MOST_QUERIES:
            raise InvalidLossError(f"a batch is a list of 1 to {MOST_QUERIES} queries", advice="Write [query, query].")
        bounds, offer = Bounds(max_groups=max_groups, max_rows=max_rows), Offer.of(epsilon, delta, rho)
        requests = [
            self._request(query, None, offer, bounds, dialect, _confidence(confidence), error, weights)
            for query in queries
        ]
        return pipeline.answer_together(
            requests, catalog=self._catalog, ledger=self._ledger, backend=self._backend, analyst=self._analyst
        )

    def explain(
        self,
        query: str,
        *,
        params: Given = None,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        error: object = None,
        weights: Mapping[str, object] | None = None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        dialect: str = "postgres",
        confidence: object = "0.95",
    ) -> Plan:
        """Returns what a query would measure and cost, reading no private row; arguments as in `sql`."""
        request = self._request(
            query,
            params,
            Offer.of(epsilon, delta, rho),
            Bounds(max_groups=max_groups, max_rows=max_rows),
            dialect,
            _confidence(confidence),
            error,
            weights,
        )

        def prepare(asked: pipeline.Request) -> pipeline.Prepared:
            public = self._backend.public_values
            return pipeline.prepare(asked, catalog=self._catalog, ledger=self._ledger, public=public)

        return Plan(prepare(request), self._ledger, lambda: prices(request, prepare, self._ledger))

    def _request(
        self,
        query: str,
        params: Given,
        offer: Offer,
        bounds: Bounds,
        dialect: str,
        confidence: Fraction,
        error: object,
        weights: object,
    ) -> pipeline.Request:
        defaults = self._catalog.defaults
        usual = Offer(epsilon=defaults.epsilon, delta=defaults.delta, rho=defaults.rho)
        asks_error = error is not None
        if asks_error and (offer.epsilon is not None or offer.rho is not None):
            raise InvalidLossError("a query offers a loss or asks an error, not both", advice="Leave one of them out.")
        if asks_error and weights is not None:
            raise InvalidLossError("weights split a loss, and error= asks for none", advice="Leave one of them out.")
        accuracy = Accuracy(errors=read_amounts(error, "error"), failure=1 - confidence) if asks_error else None
        return pipeline.Request(
            text=query,
            offer=offer.or_default(usual),
            bounds=bounds,
            dialect=dialect,
            confidence=confidence,
            params=tuple(params) if isinstance(params, list) else dict(params) if isinstance(params, dict) else params,
            weights=read_weights(weights),
            accuracy=accuracy,
        )

    def close(self) -> None:
        """Ends the session; the ledger learns that the last answer was given."""
        self._ledger.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: it holds data and a ledger")

    def __repr__(self) -> str:
        return f"Session(dataset={self._catalog.dataset!r}, analyst={self._analyst!r}, remaining={self.remaining})"


def connect(
    catalog: Catalog | str | os.PathLike[str],
    sources: Mapping[str, object],
    *,
    ledger: Ledger | str | os.PathLike[str],
    analyst: str = "analyst",
    mark: str | os.PathLike[str] | None = None,
) -> Session:
    """Returns a session over tables.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: For each declared table its data: a pandas DataFrame, an Arrow table or dataset, or the path of a
            Parquet file (or folder, or glob), a CSV, Feather or DuckDB file.
        ledger: The ledger, its path, or the URL of its PostgreSQL database; it must exist (`dpquery ledger create`).
        analyst: Who asks; one of the catalog's analysts if it names any.
        mark: The file of the ledger's mark, where it is not in the place that the ledger knows.
    Raises:
        CatalogError: Mistakes in the catalog, or data that contradict it.
        LedgerError: The ledger is missing, damaged, or was made for other declarations.
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger, mark=mark)
    _check_ledger(declared, opened)
    missing = sorted(declared.tables.keys() - sources.keys())
    unknown = sorted(sources.keys() - declared.tables.keys())
    problems = [f"table {name} has no source" for name in missing]
    problems += [f"source {name} is no declared table" for name in unknown]
    if problems:
        raise CatalogError(problems)
    return Session(declared, backend=DuckDBBackend(declared, sources), ledger=opened, analyst=analyst)


def create_ledger(
    catalog: Catalog | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    mark: str | os.PathLike[str] | None = None,
) -> Ledger:
    """Returns a new ledger for a catalog's declarations and budgets; an owner's act, done once for a dataset.

    Args:
        catalog: The declarations, or the path of their YAML file.
        path: Where the ledger will be: a file, or the URL of a PostgreSQL database; what exists is never touched.
        mark: The file of its high-water mark, best on another disk; by default beside the ledger's file.
    Raises:
        LedgerError: The file exists or cannot be made.
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    return Ledger.create(path, declared.declarations, declared.budget, declared.analysts, mark=mark)


def _check_ledger(catalog: Catalog, ledger: Ledger) -> None:
    """The promise is the ledger's: a catalog that says otherwise is refused."""
    if catalog.declarations.fingerprint() != ledger.declarations.fingerprint():
        raise LedgerError(
            f"the catalog of {catalog.dataset} is not the one that the ledger was created for: the dataset, its "
            "privacy unit, its neighbours, or which rows are whose has changed. Restore the catalog, or create a new "
            "ledger if the promise may start anew."
        )
    _check_budget("all analysts together", catalog.budget, ledger.budget)
    for analyst, declared in catalog.analysts.items():
        _check_budget(f"analyst {analyst}", declared, ledger.budgets.get(analyst))
    if missing := sorted(ledger.budgets.keys() - catalog.analysts.keys()):
        raise LedgerError(f"the ledger has budgets for analysts that the catalog leaves out: {', '.join(missing)}")


def _check_budget(who: str, declared: Budget, counts: Budget | None) -> None:
    """After the owner changed a limit in the ledger, the catalog has to say the same."""
    if counts is None:
        raise LedgerError(
            f"the catalog gives {who} a budget, and the ledger none, which is what counts. The owner opens an account "
            "with dpquery ledger limit LEDGER --analyst NAME, or takes the analyst out of the catalog"
        )
    if declared != counts:
        raise LedgerError(
            f"the catalog's budget for {who} is {parts_of(declared)}, and the ledger's is {parts_of(counts)}, which "
            "counts: write it in the catalog, or have the owner change the ledger with dpquery ledger limit"
        )


def _confidence(value: object) -> Fraction:
    amount = parse_amount(value, name="confidence")
    if amount >= 1:
        raise InvalidLossError("confidence lies between 0 and 1", advice="0.95 is usual.")
    return amount
