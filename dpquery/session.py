"""Session: one catalog, one ledger, one backend, one analyst; sql(), explain(), remaining."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import NoReturn

from dpquery import pipeline
from dpquery.backends.base import Backend
from dpquery.backends.duckdb import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, InvalidLossError, LedgerError
from dpquery.explain import explain
from dpquery.kernel.accountant import limit_of
from dpquery.kernel.ledger import Ledger
from dpquery.kernel.loss import PrivacyLoss, parse_amount
from dpquery.kernel.mechanisms import Measurement
from dpquery.plan.logical import output
from dpquery.planner.allocate import Offer
from dpquery.planner.protect import Bounds
from dpquery.result.table import Result
from dpquery.sql.parameters import Given
from dpquery.stored.answers import Reuse, Split
from dpquery.stored.repeats import Repeats
from dpquery.stored.store import Store
from dpquery.stored.text import fingerprint


class Plan:
    """What a query would measure and cost; no row was read for it and nothing was charged. `str(plan)` is for people.

    Attributes:
        measurements: Every noisy column, with its mechanism, sensitivity, scale and expected error.
        charge: What the ledger would count.
        guarantee: What the answer alone satisfies: epsilon and delta, or rho and delta.
        columns: The names of the answer's columns.
    """

    def __init__(self, prepared: pipeline.Prepared, parts: Split, ledger: Ledger) -> None:
        self.measurements: tuple[Measurement, ...] = parts.measurements(ledger.declarations)
        self.charge: PrivacyLoss = parts.charge(ledger.budget.kind)
        self.guarantee: PrivacyLoss = parts.guarantee()
        self.columns: tuple[str, ...] = tuple(column.name for column in output(prepared.private.result))
        self._text = explain(
            prepared.budgeted,
            prepared.private.result,
            self.measurements,
            self.charge,
            added=[(one.leaf, one.aggregate) for one in prepared.private.added],
            notes=prepared.private.notes,
        )

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


class Session:
    """Answers one analyst's queries over one dataset, within the ledger's budget.

    In-process use protects honest analysts from mistakes. Whoever can run code in this process can read the data.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        backend: Backend,
        ledger: Ledger,
        analyst: str,
        reuse: bool | str = True,
        data_version: str | None = None,
    ) -> None:
        _check_ledger(catalog, ledger)
        ledger.remaining(analyst)
        if reuse not in (True, False, "own") or not isinstance(data_version, str | None):
            raise CatalogError("reuse is True, False or 'own', and a version of the data is a text")
        self._catalog, self._backend, self._ledger, self._analyst = catalog, backend, ledger, analyst
        self._data_version, self._only_own = data_version, reuse == "own"
        self._store = Store(ledger.path, ledger) if reuse else None
        self._fingerprint, self._repeats = fingerprint(catalog), Repeats()

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
        max_groups: int | None = None,
        max_rows: int | None = None,
        dialect: str = "postgres",
        confidence: object = "0.95",
        fresh: bool = False,
    ) -> Result:
        """Answers a query with noise, and charges the ledger for what is not stored already.

        Args:
            query: One SELECT statement.
            params: The values of its parameters: a list for `$1`, `?` and `%s`, a dict for `:name`, `@name` and
                `%(name)s`. None, bool, int, float, Decimal, str, date and datetime; always values, never SQL.
            epsilon, delta, rho: What the query may lose, as str, int, Decimal, Fraction or float; by default what the
                catalog says.
            max_groups, max_rows: Contribution bounds instead of the catalog's.
            dialect: The SQL dialect of the query; any that sqlglot reads.
            confidence: Of the intervals, between 0 and 1.
            fresh: Whether everything is measured anew, and charged, whatever is stored.
        Raises:
            QueryError: The query is refused; nothing was charged.
            BackendError: The engine failed; the charge stands.
        """
        request = self._request(query, params, epsilon, delta, rho, max_groups, max_rows, dialect, confidence)
        reuse = self._reuse(fresh)
        if reuse is None or fresh:
            return self._answer(request, reuse)[0]
        key, state = (reuse.version, request.key), reuse.store.state()
        known = self._repeats.get(key, state)
        if known is not None:
            return known
        answer, lasts = self._answer(request, reuse)
        if lasts:
            self._repeats.put(key, state, answer)
        return answer

    def _answer(self, request: pipeline.Request, reuse: Reuse | None) -> tuple[Result, bool]:
        """Returns an answer, and whether it was made of stored releases alone and holds whenever it is asked."""
        prepared, parts = self._prepared(request, reuse)
        answer = pipeline.answer(
            request,
            prepared,
            parts,
            ledger=self._ledger,
            backend=self._backend,
            reuse=reuse,
            analyst=self._analyst,
        )
        stored = bool(parts.wanted) and not parts.rest.aggregates
        return answer, stored and not prepared.reads_clock

    def _prepared(self, request: pipeline.Request, reuse: Reuse | None) -> tuple[pipeline.Prepared, Split]:
        public = self._backend.public_values
        prepared = pipeline.prepare(request, catalog=self._catalog, ledger=self._ledger, public=public)
        return prepared, pipeline.divide(prepared, ledger=self._ledger, reuse=reuse)

    def _reuse(self, fresh: bool) -> Reuse | None:
        if self._store is None:
            return None
        version = self._data_version or str(getattr(self._ledger, "data_version", "1"))
        return Reuse(
            store=self._store,
            version=version,
            catalog=self._fingerprint,
            analyst=self._analyst,
            only_own=self._only_own,
            fresh=fresh,
        )

    def explain(
        self,
        query: str,
        *,
        params: Given = None,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        dialect: str = "postgres",
        fresh: bool = False,
    ) -> Plan:
        """Returns what a query would measure and cost, reading no private row; arguments as in `sql`."""
        request = self._request(query, params, epsilon, delta, rho, max_groups, max_rows, dialect, "0.95")
        return Plan(*self._prepared(request, self._reuse(fresh)), self._ledger)

    def _request(
        self,
        query: str,
        params: Given,
        epsilon: object,
        delta: object,
        rho: object,
        max_groups: int | None,
        max_rows: int | None,
        dialect: str,
        confidence: object,
    ) -> pipeline.Request:
        defaults = self._catalog.defaults
        offer = Offer.of(epsilon, delta, rho)
        return pipeline.Request(
            text=query,
            offer=offer.or_default(Offer(epsilon=defaults.epsilon, delta=defaults.delta, rho=defaults.rho)),
            bounds=Bounds(max_groups=max_groups, max_rows=max_rows),
            dialect=dialect,
            confidence=_confidence(confidence),
            params=tuple(params) if isinstance(params, list) else dict(params) if isinstance(params, dict) else params,
        )

    def close(self) -> None:
        """Ends the session; the ledger learns that the last answer was given."""
        if self._store is not None:
            self._store.close()
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
    reuse: bool | str = True,
    data_version: str | None = None,
) -> Session:
    """Returns a session over tables.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: For each declared table its data: a pandas DataFrame, an Arrow table or dataset, or the path of a
            Parquet file (or folder, or glob), a CSV, Feather or DuckDB file.
        ledger: The ledger, or its path; it must exist (`dpquery ledger create`).
        analyst: Who asks; one of the catalog's analysts if it names any.
        reuse: Whether answers are stored beside the ledger and used again, at no charge, for every analyst of the
            dataset; with "own" only those given to this analyst are.
        data_version: A name for the state of the data; answers about another state are not used. By default the
            ledger's.
    Raises:
        CatalogError: Mistakes in the catalog, or data that contradict it.
        LedgerError: The ledger is missing, damaged, or was made for other declarations.
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    _check_ledger(declared, opened)
    missing = sorted(declared.tables.keys() - sources.keys())
    unknown = sorted(sources.keys() - declared.tables.keys())
    problems = [f"table {name} has no source" for name in missing]
    problems += [f"source {name} is no declared table" for name in unknown]
    if problems:
        raise CatalogError(problems)
    return Session(
        declared,
        backend=DuckDBBackend(declared, sources),
        ledger=opened,
        analyst=analyst,
        reuse=reuse,
        data_version=data_version,
    )


def create_ledger(catalog: Catalog | str | os.PathLike[str], path: str | os.PathLike[str]) -> Ledger:
    """Returns a new ledger for a catalog's declarations and budgets; an owner's act, done once for a dataset.

    Args:
        catalog: The declarations, or the path of their YAML file.
        path: Where the ledger will be; an existing file is never touched.
    Raises:
        LedgerError: The file exists or cannot be made.
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    return Ledger.create(path, declared.declarations, declared.budget, declared.analysts)


def _check_ledger(catalog: Catalog, ledger: Ledger) -> None:
    """The promise is the ledger's: a catalog that says otherwise is refused."""
    if catalog.declarations.fingerprint() != ledger.declarations.fingerprint():
        raise LedgerError(
            f"the catalog of {catalog.dataset} is not the one that the ledger was created for: the dataset, its "
            "privacy unit, its neighbours, or which rows are whose has changed. Restore the catalog, or create a new "
            "ledger if the promise may start anew."
        )
    if catalog.budget != ledger.budget:
        raise LedgerError("the catalog's budget is not the ledger's, and the ledger's is the one that counts")
    if {name: limit_of(budget) for name, budget in catalog.analysts.items()} != ledger.analysts:
        raise LedgerError("the catalog's analysts are not the ledger's, and the ledger's are the ones that count")


def _confidence(value: object) -> Fraction:
    amount = parse_amount(value, name="confidence")
    if amount >= 1:
        raise InvalidLossError("confidence lies between 0 and 1", advice="0.95 is usual.")
    return amount
