"""Histograms of a profile that were bought before, found among the stored releases; no row is read.

A profile is stored as what it is, the answers of its queries. So it belongs to one data version, is shared by all who
share the ledger, and is as hard to forge as any stored answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.backends.base import PublicFacts
from dpquery.catalog import Catalog
from dpquery.errors import InternalError, QueryError
from dpquery.kernel.accountant import BudgetKind
from dpquery.ledger.ledger import Ledger
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.reuse.frames import AskedAggregate
from dpquery.reuse.query_split import Reuse
from dpquery.session import pipeline
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery
from dpquery.session.profile_buying import UnitHistogram
from dpquery.session.profile_ladder import CellNoise
from dpquery.session.profile_questions import HistogramQuestion

LITTLE = Fraction(1, 2**16)
"""So little is offered that everything stored is accurate enough."""
Known = tuple[str, tuple[int, ...]]
"""A data version, and the entries of the releases over the rows that a question is about."""


@dataclass(slots=True)
class Finder:
    """What is stored of a catalog's tables. It is looked for again when something more over the same rows is stored, so
    that all who share a ledger find the same."""

    catalog: Catalog
    ledger: Ledger
    public: PublicFacts
    prepared: dict[str, PreparedQuery | None] = field(default_factory=dict)
    asked: dict[str, AskedAggregate] = field(default_factory=dict)
    found: dict[str, tuple[Known, UnitHistogram | None]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def get(self, question: HistogramQuestion, reuse: Reuse) -> UnitHistogram | None:
        """Returns what is stored of a question, in the version of the data that is looked at; None without it."""
        reuse, text = replace(reuse, fresh=False), question.query
        with self.lock:
            if text not in self.prepared and not reuse.store.mentions(reuse.version, question.word):
                return None  # not bought, so it need not be planned
            asked = self.asked.get(text)
            known = None if asked is None else _known(asked, reuse)
            if known is not None and text in self.found and self.found[text][0] == known:
                return self.found[text][1]
            if text not in self.prepared:
                self.prepared[text] = self._prepare(text)
            prepared = self.prepared[text]
            if prepared is None:
                return None
            state = reuse.store.state()
            made = self._look(text, prepared, reuse)
            if known is None and text in self.asked and reuse.store.state() == state:  # so nothing came in between
                known = _known(self.asked[text], reuse)
            if known is not None:
                self.found[text] = known, made
            return made

    def _look(self, text: str, prepared: PreparedQuery, reuse: Reuse) -> UnitHistogram | None:
        parts = pipeline.divide((prepared,), ledger=self.ledger, reuse=reuse)
        ((found,), (wanted,)) = parts.found, parts.wanted
        if wanted.asked is not None:
            self.asked[text] = wanted.asked
        if parts.rest.aggregates:
            return None
        (estimate,), (key,) = found.estimates, wanted.budgeted.aggregate.keys
        if estimate is None or key.domain is None:
            raise InternalError("a profile without public cells")
        (measurement,) = parts.measurements(self.ledger.declarations)
        units: dict[object, int] = {
            cell: int(n) for (cell,), n in zip(key.domain, estimate.numbers.tolist(), strict=True)
        }
        return UnitHistogram(units=units, noise=CellNoise.of(measurement))

    def _prepare(self, text: str) -> PreparedQuery | None:
        """Returns the plan of a question; None where it is refused, so that it was never answered and is not stored."""
        in_rho = self.ledger.budget.kind is BudgetKind.ZCDP
        offer = QueryBudget(rho=LITTLE) if in_rho else QueryBudget(epsilon=LITTLE)
        request = Request(text=text, offer=offer, bounds=ContributionBounds())
        try:
            return pipeline.plan((request,), catalog=self.catalog, ledger=self.ledger, public=self.public)[0]
        except QueryError:
            return None


def _known(asked: AskedAggregate, reuse: Reuse) -> Known:
    return reuse.version, tuple(release.entry for release in reuse.releases(asked))
