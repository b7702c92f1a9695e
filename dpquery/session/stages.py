"""What one session adds to the stages of `pipeline.py`: its catalog and engine, and what it keeps of plans and answers.

What is asked again is neither planned again nor, where it came from the store, computed again.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dpquery.backends.base import Backend
from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog import Catalog
from dpquery.errors import InsufficientBudgetError
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.versions import AtVersion
from dpquery.planner.passes import Observer
from dpquery.result.batch import Batch
from dpquery.reuse.query_split import QuerySplit, Reuse
from dpquery.reuse.shelf import State
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import Fingerprints
from dpquery.session import pipeline
from dpquery.session.answering import Execution, Remarks, remarks_of
from dpquery.session.known_profile import KnownProfiles
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery
from dpquery.session.smaller_offers import in_words_of
from dpquery.session.steps import answered_in_steps, in_steps, require_enough
from dpquery.session.synopses import Synopses

Requests = tuple[Request, ...]
MOST_ANSWERS = 500
"""Answers that are remembered."""
MOST = 100
"""Plans that are kept."""
LARGEST = 10_000
"""Public values of the keys of a plan that is kept."""


@dataclass(slots=True)
class PlanCache:
    """The last plans of a session. A plan holds for one budget, one set of declarations and one number of rows of a
    unit in each table, which a profile may tell; for the rest it follows from the catalog, from public tables, which
    are read once, and from the request. One that reads the clock is not kept."""

    known: OrderedDict[object, tuple[object, tuple[PreparedQuery, ...]]] = field(default_factory=OrderedDict)

    def get(
        self,
        requests: tuple[Request, ...],
        ledger: Ledger,
        catalog: Catalog,
        prepare: Callable[[], tuple[PreparedQuery, ...]],
    ) -> tuple[PreparedQuery, ...]:
        """Returns the plans of requests that are answered together; makes them if they are not known.

        Args:
            catalog: As it is planned with: with the numbers of rows that were measured.
        """
        key = tuple(request.key for request in requests)
        if None in key:
            return prepare()
        rows = tuple(table.max_rows for table in catalog.tables.values())
        terms = (ledger.budget, ledger.declarations, rows)
        found = self.known.get(key)
        if found is not None and found[0] == terms:
            return found[1]
        made = prepare()
        if not any(one.reads_clock for one in made) and _size(made) <= LARGEST:
            self.known[key] = (terms, made)
            while len(self.known) > MOST:
                self.known.popitem(last=False)
        return made


def _size(made: tuple[PreparedQuery, ...]) -> int:
    return sum(len(key.domain or ()) for budgeted in made[0].budgeted.aggregates for key in budgeted.aggregate.keys)


@dataclass(slots=True)
class Repeats:
    """The last answers, each with the state of the store that it was made from: any change asks the store again."""

    known: OrderedDict[object, tuple[State, Batch]] = field(default_factory=OrderedDict)

    def get(self, key: object, state: State) -> Batch | None:
        """Returns the answers that the store would give, or None."""
        found = self.known.get(key)
        return None if found is None or found[0] != state else found[1]

    def put(self, key: object, state: State, answers: Batch) -> None:
        """Remembers answers that were made of stored releases alone, when the store was in this state."""
        self.known[key] = (state, answers)
        while len(self.known) > MOST_ANSWERS:
            self.known.popitem(last=False)


@dataclass(slots=True, kw_only=True)
class Stages:
    """The stages of one session.

    Attributes:
        charged: The ledger, at the version of the data that the session began with.
        store: Where answers are kept; None where they are not.
        only_own: Whether only answers of this analyst are taken from it.
        fingerprints: Of the catalog, as stored answers name it.
        plans, repeats: What is kept of earlier queries.
    """

    catalog: Catalog
    backend: Backend
    ledger: Ledger
    charged: AtVersion
    analyst: str
    store: ReleaseStore | None
    only_own: bool
    fingerprints: Fingerprints
    profiles: KnownProfiles
    synopses: Synopses
    plans: PlanCache = field(default_factory=PlanCache)
    repeats: Repeats = field(default_factory=Repeats)

    def answers(self, requests: Requests) -> Batch:
        """Returns the answers. Those computed from stored releases alone are kept until something else is stored."""
        reuse, fresh = self.reuse(requests[0].fresh), requests[0].fresh
        keys = tuple(request.key for request in requests)
        if reuse is None or fresh or None in keys:
            return pipeline.answer_queries(requests, self, reuse)[0]
        key, state = (reuse.version, keys), reuse.store.state()
        if (known := self.repeats.get(key, state)) is not None:
            return known
        answers, lasts = pipeline.answer_queries(requests, self, reuse)
        if lasts:
            self.repeats.put(key, state, answers)
        return answers

    def prepared(self, requests: Requests, reuse: Reuse | None) -> tuple[PreparedQuery, ...]:
        """Returns the plans of requests that are answered together: made by `pipeline.plan`, or kept."""
        if self.synopses.reads(requests):
            return self.synopses.planned(requests)
        catalog = self.profiles.catalog_with_rows(reuse)
        return self.plans.get(requests, self.ledger, catalog, lambda: self.planned(requests, reuse))

    def planned(
        self, requests: Requests, reuse: Reuse | None, observe: Observer | None = None
    ) -> tuple[PreparedQuery, ...]:
        """Returns the plans of requests, made now."""
        return pipeline.plan(
            requests,
            catalog=self.profiles.catalog_with_rows(reuse),
            ledger=self.ledger,
            public=self.backend,
            gaps=self.backend.gaps,
            observe=observe,
            derives=self.store is not None,
        )

    def in_steps(self, requests: Requests, count: int, reuse: Reuse | None) -> Batch:
        """Returns the answer of a query of so many steps, each of which is a query; all are affordable, or none."""
        steps = in_steps(requests[0], count)
        require_enough([self.divided((one,), reuse) for one in steps], self.ledger, self.analyst)
        return answered_in_steps(steps, lambda request: self.answers((request,))[0])

    def remarks(
        self, requests: Requests, prepared: tuple[PreparedQuery, ...], parts: QuerySplit, reuse: Reuse | None
    ) -> list[Remarks]:
        """Returns for each query what is said with its answer; refuses errors that are out of reach."""
        if self.synopses.reads(requests):
            return self.synopses.told(requests)
        measured = parts.measurements(self.ledger.declarations)
        return remarks_of(requests, prepared, measured, reuse, self.profiles, self.catalog)

    @contextlib.contextmanager
    def executing(self, requests: Requests, reuse: Reuse | None) -> Iterator[Execution]:
        """Gives where requests are answered. Ctrl-C stops the engine meanwhile; a charge that does not fit is refused
        with one that would."""
        backend = self.synopses.engine() if self.synopses.reads(requests) else self.backend
        try:
            with interruptible_work():
                yield Execution(
                    catalog=self.catalog, backend=backend, ledger=self.charged, reuse=reuse, analyst=self.analyst
                )
        except InsufficientBudgetError as error:
            raise in_words_of(error, requests, lambda others: self.charge_of(others, reuse)) from None

    def charge_of(self, requests: Requests, reuse: Reuse | None) -> PrivacyLoss:
        """Returns what requests would be charged; reads no private row."""
        return self.divided(requests, reuse).charge(self.ledger.budget.kind, self.ledger.declarations)

    def divided(self, requests: Requests, reuse: Reuse | None) -> QuerySplit:
        """Returns what of requests is stored, and what would be measured."""
        return pipeline.divide(self.prepared(requests, reuse), ledger=self.ledger, reuse=reuse)

    def reuse(self, fresh: bool) -> Reuse | None:
        """Returns how the store is used; raises DataChangedError where the data are not those of this session."""
        self.charged.check()
        if self.store is None:
            return None
        return Reuse(
            store=self.store,
            version=self.charged.data_version,
            catalog=self.fingerprints,
            analyst=self.analyst,
            only_own=self.only_own,
            fresh=fresh,
        )
