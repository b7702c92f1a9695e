"""Session: one catalog, one ledger, one backend, one analyst; sql(), explain(), remaining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Unpack

from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.versions import AtVersion
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.passes import Draft, Pass
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.stored_measurements import listing
from dpquery.reuse.text import Fingerprints
from dpquery.session import pipeline
from dpquery.session.dashboard import Dashboard, Planned
from dpquery.session.known_profile import KnownProfiles, is_known
from dpquery.session.ledger_match import check_ledger
from dpquery.session.options import NO_OPTIONS, Asked, Options, Request, several, takes_options
from dpquery.session.planning import PreparedQuery, require_accepted
from dpquery.session.prices import expected, prices
from dpquery.session.profile import Profile
from dpquery.session.profile_buying import buy, loss_of_profile
from dpquery.session.query_plan import Plan, told_with_plan
from dpquery.session.stages import Stages
from dpquery.session.steps import in_steps
from dpquery.session.suggest_bounds import Suggestions, suggest
from dpquery.session.synopses import Synopses
from dpquery.session.synopsis_buying import Buying
from dpquery.sql.parse.parameters import Given
from dpquery.synopsis.synopsis import Synopsis

if TYPE_CHECKING:
    import pandas as pd


class Session:
    """Answers one analyst's queries over one dataset, within the ledger's budget; `synopses` has those of these data.

    In-process use protects honest analysts from mistakes. Whoever can run code in this process can read the data.

    Example:
        >>> session.explain("SELECT AVG(cost) AS mean FROM visits", epsilon="0.1").charge
        epsilon 0.1
        >>> before = session.remaining
        >>> len(session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1"))
        2
        >>> before.epsilon - session.remaining.epsilon
        Fraction(1, 10)
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
        check_ledger(catalog, ledger)
        ledger.remaining(analyst)
        if reuse not in (True, False, "own"):
            raise CatalogError("reuse must be True, False or 'own'")
        self._catalog, self._backend, self._ledger, self._analyst = catalog, backend, ledger, analyst
        self._charged = AtVersion(ledger, ledger.data_version if data_version is None else data_version)
        self._only_own = reuse == "own"
        self._store, fingerprints = ReleaseStore(ledger) if reuse else None, Fingerprints(catalog)
        buying = Buying(catalog=catalog, backend=backend, charged=self._charged, analyst=analyst)
        self.synopses = Synopses(buying, self._store, fingerprints, self._only_own)
        self._stages = Stages(
            catalog=catalog,
            backend=backend,
            ledger=ledger,
            charged=self._charged,
            analyst=analyst,
            store=self._store,
            only_own=self._only_own,
            fingerprints=fingerprints,
            profiles=KnownProfiles(catalog=catalog, ledger=ledger, public=backend),
            synopses=self.synopses,
        )

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
        """What this analyst may still spend, in the ledger's currency: on all rows, where these are in blocks.

        Example:
            >>> 0 < session.remaining.epsilon <= 1000
            True
        """
        return self._ledger.remaining(self._analyst)

    def remaining_for(self, plan: Plan) -> PrivacyLoss:
        """What this analyst may still spend on such a query: where rows are in blocks, on those that it touches.

        Example:
            >>> plan = session.explain("SELECT COUNT(*) AS n FROM visits", epsilon=1)
            >>> session.remaining_for(plan).epsilon >= plan.charge.epsilon
            True
        """
        return self._ledger.remaining(self._analyst, plan.touched)

    @property
    def remaining_by_block(self) -> dict[str, PrivacyLoss]:
        """What this analyst may still spend on each block of rows; empty where the catalog declares no blocks.

        Example:
            >>> session.remaining_by_block
            {}
        """
        return self._ledger.remaining_by_block(self._analyst)

    @takes_options
    def sql(self, query: str, *, params: Given = None, options: Options = NO_OPTIONS, **asked: Unpack[Asked]) -> Result:
        """Answers a query with noise, and charges the ledger for what is not stored already.

        Args:
            query: One SELECT statement.
            params: The values of its parameters: a list for `$1`, `?` and `%s`, a dict for `:name`, `@name` and
                `%(name)s`. None, bool, int, float, Decimal, str, date and datetime; always values, never SQL.
            options: What is asked with it: losses, errors, bounds, dialect, confidence; see `Options`.
            asked: Fields of `Options` by name, in place of those in `options`.
        Raises:
            QueryError: Refused; nothing was charged. BackendError: the engine failed; the charge stands.
            KeyboardInterrupt: Ctrl-C stopped the engine; what was charged by then stays charged.
        Example:
            >>> answer = session.sql("SELECT AVG(cost) AS mean FROM visits WHERE cost < $1", params=[90], epsilon=1)
            >>> answer.charge, answer.columns
            (epsilon 1, ('mean',))
        """
        return self.answered(self._request(query, params, options.but(**asked)))

    def answered(self, request: Request) -> Result:
        """Returns the answer of a request, as `sql` does."""
        return self._stages.answers((request,))[0]

    @takes_options
    def batch(self, queries: Sequence[str], *, options: Options = NO_OPTIONS, **asked: Unpack[Asked]) -> Batch:
        """Answers several queries at once: one loss is split over all, and charged once, or not if one is refused.

        Args:
            queries: SELECT statements, without parameters.
            options: As in `sql`, for all queries together; weights and errors of columns hold in each query that has
                such a column.
        Raises: As `sql`; the place in the text is that of the query at fault.
        Example:
            >>> answers = session.batch(["SELECT COUNT(*) FROM visits", "SELECT SUM(cost) FROM visits"], epsilon="0.4")
            >>> len(answers), answers.charge
            (2, epsilon 0.4)
        """
        return self._stages.answers(several(queries, options.but(**asked), self._catalog.defaults))

    @takes_options
    def plan_dashboard(
        self, queries: Sequence[str], *, options: Options = NO_OPTIONS, **asked: Unpack[Asked]
    ) -> Dashboard:
        """Returns what a batch would cost, and how exact its numbers would be alone and together; `buy()` charges.

        Example:
            >>> queries = ["SELECT COUNT(*) AS n FROM visits", "SELECT SUM(cost) AS s FROM visits"]
            >>> session.plan_dashboard(queries, epsilon="0.5").charge
            epsilon 0.5
        """
        requests = several(queries, options.but(**asked), self._catalog.defaults)

        def planned(some: tuple[Request, ...], fresh: bool) -> Planned:
            reuse = self._stages.reuse(fresh)
            return self._stages.prepared(some, reuse), self._stages.divided(some, reuse)

        least, ledger = self._catalog.defaults.least_charge, self._ledger
        return Dashboard.of(requests, planned, ledger, self._analyst, least, lambda: self._stages.answers(requests))

    def _request(self, query: str, params: Given, options: Options) -> Request:
        return options.request(query, params, self._catalog.defaults)

    @property
    def releases(self) -> pd.DataFrame:
        """What is stored of the data and free for this analyst: a row for each release, with when it was paid, by whom,
        for which query, at what charge, and what was measured.

        Example:
            >>> len(session.releases)  # this session was opened with reuse=False
            0
        """
        reuse = self._stages.reuse(False)
        return listing(self._ledger, () if reuse is None else reuse.everything())

    @takes_options
    def explain(
        self,
        query: str,
        *,
        params: Given = None,
        passes: bool = False,
        options: Options = NO_OPTIONS,
        **asked: Unpack[Asked],
    ) -> Plan:
        """Returns what a query would measure and cost, reading no private row; arguments as in `sql`.

        Args:
            passes: Whether the plan's text also shows what each pass of planning made.
        Raises: What `sql` does before a charge, and no InsufficientBudgetError.
        Example:
            >>> plan = session.explain("SELECT SUM(cost) AS total FROM visits", epsilon=2)
            >>> [(one.aggregate, round(one.scale)) for one in plan.measurements]
            [('sum', 250)]
        """
        request = self._request(query, params, options.but(**asked))
        (prepared,) = self._stages.prepared((request,), self._stages.reuse(request.fresh))
        steps = in_steps(request, prepared.steps)
        *plans, last = [self.explained(one, prepared if one is request else None, passes) for one in steps]
        return last.after(plans) if plans else last

    def explained(self, request: Request, prepared: PreparedQuery | None = None, passes: bool = False) -> Plan:
        """Returns the plan of one step of a query, as `explain` does."""
        reuse = self._stages.reuse(request.fresh)
        prepared = prepared or self._stages.prepared((request,), reuse)[0]
        trace: list[tuple[Pass, Draft]] = []
        least = self._catalog.defaults.least_charge
        if passes:
            self._stages.planned((request,), reuse, lambda one, draft: trace.append((one, draft)))
        require_accepted(prepared, self._ledger, self._backend)
        parts = pipeline.divide((prepared,), ledger=self._ledger, reuse=reuse)
        (known,) = self._stages.remarks((request,), (prepared,), parts, reuse)
        given = request, lambda other: self._stages.prepared((other,), reuse)[0], self._ledger
        lines = told_with_plan(prepared, parts, known, is_known, self._ledger.declarations, trace)
        return Plan(
            prepared,
            parts,
            self._ledger,
            lambda: prices(*given, analyst=self._analyst, least=least),
            expected=lambda: expected(request, prepared, self._ledger),
            analyst=self._analyst,
            least=least,
            notes=known.notes,
            warnings=known.warnings,
            told=lines,
        )

    def suggest_bounds(
        self,
        columns: Sequence[str] | None = None,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        coverage: object = "0.99",
    ) -> Suggestions:
        """Returns bounds of columns and rows of units found with noise, and charges the ledger once for all of them.

        Args:
            columns: As `column` or `table.column`; by default all numbers, dates and timestamps without bounds.
            epsilon, delta, rho: What it may lose, as in `sql`.
            coverage: The part of units that all values, or rows, are within.
        Example:
            >>> session.suggest_bounds(["visits.cost"], epsilon="0.5").charge
            epsilon 0.5
        """
        asked, reuse = Options(epsilon=epsilon, delta=delta, rho=rho), self._stages.reuse(False)
        known = {name: found for name in self._catalog.tables if (found := self._stages.profiles.get(name, reuse))}
        terms = columns, coverage, known, QueryBudget.of(epsilon, delta, rho)
        return suggest(self._catalog, lambda some, held: self.batch(some, options=asked, confidence=held), *terms)

    def profile(
        self,
        table: str | None = None,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        fresh: bool = False,
    ) -> Profile:
        """Returns how rows and values of units lie against the declared bounds, and charges the ledger once: half for
        numbers of rows, the rest for months with rows and for values beyond bounds.

        It is stored like any answer: the same again is free while the data version lasts, and answers, suggested bounds
        and `dpquery check` then say what `max_rows` leaves out. Where rows are in blocks, all blocks are charged.

        Args:
            table: One private table; by default all of them.
            epsilon, delta, rho: What it may lose, by default the catalog's `profile`, else as in `sql`; a twentieth of
                an epsilon is usual for many people.
            fresh: Whether it is measured again, also what is stored.
        Example:
            >>> session.profile("visits", epsilon="0.5").charge
            epsilon 0.5
        """
        asked = Options(epsilon=epsilon, delta=delta, rho=rho, fresh=fresh)
        if epsilon is None and rho is None and self._catalog.profile is not None:
            asked = asked.but(**loss_of_profile(self._catalog.profile, self._catalog.budget))

        def ask(queries: Sequence[str], weights: Mapping[str, object]) -> Batch:
            requests = (self._request(query, None, asked.but(weights=weights)) for query in queries)
            return self._stages.answers(tuple(requests))

        bought = buy(self._catalog, ask, table, self._charged.data_version)
        if self._store is None:
            self._stages.profiles.bought(bought)
        return bought

    def synopsis(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        measures: Sequence[str] = (),
        name: str | None = None,
        rows: int | None = None,
    ) -> Synopsis:
        """Returns synthetic rows of a table, for one charge; SQL reads them as `synopsis.NAME`, free for all analysts.

        Args:
            columns: Those with keys or bounds that queries combine; by default all, at most 16.
            measures: Numbers that queries add up or average: their cells are finer.
            name, rows: By default those of the table, up to a million rows.
        Example:
            >>> session.synopsis("visits", ["region", "cost"], epsilon=1)
            Traceback (most recent call last):
            dpquery.errors.CatalogError: a synopsis is stored with answers; open the session without reuse=False
        """
        return self.synopses.buy(table, columns, measures, QueryBudget.of(epsilon, delta, rho), name=name, rows=rows)

    def for_analyst(self, name: str) -> Session:
        """Returns a session of another analyst over the same catalog, data and ledger; to close one closes all.

        Example:
            >>> session.for_analyst("ann").analyst
            'ann'
        """
        reuse = "own" if self._only_own else self._store is not None
        version, backend, ledger = self._charged.data_version, self._backend, self._ledger
        return Session(self._catalog, backend=backend, ledger=ledger, analyst=name, reuse=reuse, data_version=version)

    def close(self) -> None:
        """Ends the session and its engine; the ledger learns that the last answer was given."""
        if self._store is not None:
            self._store.close()
        self.synopses.close()
        self._ledger.close()
        self._backend.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled, because it holds data and a ledger")

    def __repr__(self) -> str:
        return f"Session(dataset={self._catalog.dataset!r}, analyst={self._analyst!r}, remaining={self.remaining})"
