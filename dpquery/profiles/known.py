"""Profiles that were bought before, found among the stored releases; nothing is charged and no row is read.

A profile is stored as what it is, the answers of its queries. So it belongs to one data version, is shared by all who
share the ledger, and is as hard to forge as any stored answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery import pipeline
from dpquery.backends.base import PublicFacts
from dpquery.backends.owners import unique_sets
from dpquery.catalog import Catalog
from dpquery.catalog.names import plain
from dpquery.errors import InternalError, QueryError
from dpquery.explain import scaled_sums
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.plan import PrivateAggregate, Weighing
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import Relation, Scan, sources
from dpquery.plan.types import Value
from dpquery.planner.allocate import Offer
from dpquery.planner.protect import Bounds
from dpquery.profiles.buying import ladder_of
from dpquery.profiles.ladder import Noise
from dpquery.profiles.profile import TableProfile, profile_of
from dpquery.profiles.questions import Question, bound_of, has_many_rows, rows_of, why_not
from dpquery.stored.answers import Reuse
from dpquery.stored.shelf import State
from dpquery.stored.store import Store
from dpquery.stored.text import Fingerprints
from dpquery.units.meeting import LARGEST_CUT

LITTLE = Fraction(1, 2**16)
"""So little is offered that whatever is stored is accurate enough."""
UNKNOWN = "what it leaves out is not known"
UNBOUGHT = f"{UNKNOWN}, as no profile was bought (dpquery profile)"


@dataclass(slots=True)
class KnownProfiles:
    """The profiles of one catalog's tables that are stored with a ledger."""

    catalog: Catalog
    ledger: Ledger
    public: PublicFacts
    found: dict[tuple[str, str], TableProfile] = field(default_factory=dict)
    missed: dict[tuple[str, str], State] = field(default_factory=dict)
    prepared: dict[str, pipeline.Prepared] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str, reuse: Reuse | None) -> TableProfile | None:
        """Returns what is stored of the rows of a table's units, in this version of the data; None without it."""
        table = self.catalog.tables[name]
        if reuse is None or table.public or not has_many_rows(table) or why_not(table, self.catalog):
            return None
        with self.lock:
            key, state = (reuse.version, name), reuse.store.state()
            if key in self.found or self.missed.get(key) == state:
                return self.found.get(key)
            made = self._look(name, reuse)
            if made is None:
                self.missed[key] = state
            else:
                self.found[key] = made
            return made

    def _look(self, name: str, reuse: Reuse) -> TableProfile | None:
        question = rows_of(self.catalog.tables[name], self.catalog)
        try:
            if name not in self.prepared:
                self.prepared[name] = self._prepare(question)
        except QueryError:
            return None  # what is refused was never answered, so it is not stored
        parts = pipeline.divide((self.prepared[name],), ledger=self.ledger, reuse=reuse)
        if parts.rest.aggregates:
            return None
        ((found,), (wanted,)) = parts.found, parts.wanted
        (estimate,), (key,) = found.estimates, wanted.budgeted.aggregate.keys
        if estimate is None or key.domain is None:
            raise InternalError("a profile without public cells")
        (measurement,) = parts.measurements(self.ledger.declarations)
        units: dict[object, int] = {
            cell: int(n) for (cell,), n in zip(key.domain, estimate.numbers.tolist(), strict=True)
        }
        rows = ladder_of(question, units, Noise.of(measurement), self.catalog.neighbours)
        return profile_of(self.catalog, name, rows=rows)

    def _prepare(self, question: Question) -> pipeline.Prepared:
        in_rho = self.ledger.budget.kind is BudgetKind.ZCDP
        offer = Offer(rho=LITTLE) if in_rho else Offer(epsilon=LITTLE)
        request = pipeline.Request(text=question.query, offer=offer, bounds=Bounds())
        return pipeline.prepare(request, catalog=self.catalog, ledger=self.ledger, public=self.public)

    def notes(self, prepared: pipeline.Prepared, bounds: Bounds, reuse: Reuse | None) -> tuple[str, ...]:
        """Returns what is known of the rows that a query's weights leave out, a line for each table of people that it
        reads and of which one unit can have several rows; of the table as a whole, never of a cell."""
        if self.catalog.declarations.unit_is_row:
            return ()
        names: dict[str, None] = {}
        for budgeted in prepared.budgeted.aggregates:
            names |= dict.fromkeys(_weighed(budgeted.aggregate))
        rows = (self._note(name, bounds, reuse) for name in names if has_many_rows(self.catalog.tables[name]))
        scaled = (note for budgeted in prepared.budgeted.aggregates for note in self._scaled(budgeted.aggregate))
        return tuple(dict.fromkeys((*rows, *scaled)))

    def _scaled(self, aggregate: PrivateAggregate) -> Iterator[str]:
        for name, total in scaled_sums(aggregate):
            yield f"sums of {name}: scaled to max_total {total} of one {self.catalog.privacy_unit}; {UNKNOWN}"

    def _note(self, name: str, bounds: Bounds, reuse: Reuse | None) -> str:
        if bounds.max_rows is not None:
            return f"{plain(name)}: what the query's own max_rows {bounds.max_rows:,} leaves out is not known"
        found = self.get(name, reuse)
        if found is not None:
            return found.sentence
        told = UNKNOWN if reuse is None else UNBOUGHT  # where nothing is stored, no profile is either
        bound = bound_of(self.catalog.tables[name], self.catalog)
        return f"{plain(name)}, max_rows {'auto' if bound is None else f'{bound:,}'}: {told}"


def _weighed(aggregate: PrivateAggregate) -> Iterator[str]:
    """Yields the tables whose rows may weigh less than 1 in an aggregate, or are left out of a join."""
    weighing = aggregate.weights.weighing
    for scan in _scans(aggregate.source):
        is_cut = scan.row_limit <= LARGEST_CUT
        if is_cut or weighing is Weighing.COUNTED or (weighing is Weighing.STORED and scan.weight is not None):
            yield scan.table


def _scans(relation: Relation) -> Iterator[Scan]:
    if isinstance(relation, Scan) and not relation.public:
        yield relation
    for source in sources(relation):
        yield from _scans(source)


@dataclass(frozen=True, slots=True)
class _NoData:
    """What planning may know where no data are opened: a profile reads no public table."""

    catalog: Catalog

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[tuple[Value, ...], ...]:
        raise InternalError("a profile reads no public table")

    def rows(self, table: str) -> int:
        raise InternalError("a profile reads no public table")

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        raise InternalError("a profile reads no public table")

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        return unique_sets(self.catalog, table)


def stored_profiles(catalog: Catalog, ledger: Ledger) -> tuple[TableProfile, ...]:
    """Returns what a ledger's store holds of the rows of a catalog's tables; opens no data."""
    store = Store(ledger)
    try:
        known = KnownProfiles(catalog=catalog, ledger=ledger, public=_NoData(catalog))
        reuse = Reuse(store=store, version=ledger.data_version, catalog=Fingerprints(catalog), analyst="")
        return tuple(found for name in catalog.tables if (found := known.get(name, reuse)) is not None)
    finally:
        store.close()
