"""What profiles bought before say: of the number of rows where it is `auto`, and of what answers leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dpquery import pipeline
from dpquery.backends.base import PublicFacts
from dpquery.backends.owners import unique_sets
from dpquery.catalog import Catalog
from dpquery.catalog.names import plain
from dpquery.catalog.rows import AUTO
from dpquery.errors import InternalError
from dpquery.explain import scaled_sums
from dpquery.kernel.plan import Count, PrivateAggregate, Weighing
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import Relation, Scan, sources
from dpquery.plan.remembered import remembered
from dpquery.plan.types import Value
from dpquery.planner.protect import Bounds
from dpquery.profiles.finding import Finder
from dpquery.profiles.made import Histogram, profile_of
from dpquery.profiles.profile import Profile, TableProfile
from dpquery.profiles.questions import bound_of, has_many_rows, questions, rows_of, why_not
from dpquery.stored.answers import Reuse
from dpquery.stored.store import Store
from dpquery.stored.text import Fingerprints
from dpquery.units.meeting import LARGEST_CUT
from dpquery.units.weights import distinct_groups

MOST_CATALOGS = 16
"""Catalogs with numbers that were measured, of which there is one for each profile that was bought."""
UNKNOWN = "what it leaves out is not known"
UNBOUGHT = f"{UNKNOWN}, as no profile was bought (dpquery profile)"


@dataclass(slots=True)
class KnownProfiles:
    """What was bought of one catalog's tables: stored with the ledger, or in a session that stores nothing.

    Attributes:
        own: What a session without a store has bought itself, by table.
    """

    catalog: Catalog
    ledger: Ledger
    public: PublicFacts
    own: dict[str, TableProfile] = field(default_factory=dict)
    finder: Finder = field(init=False)
    made: dict[str, tuple[Histogram, TableProfile]] = field(default_factory=dict)
    planned: dict[tuple[tuple[str, int], ...], Catalog] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.finder = Finder(self.catalog, self.ledger, self.public)

    def bought(self, profile: Profile) -> None:
        """Keeps what a session without a store has bought, for as long as it lives."""
        self.own |= profile

    def get(self, name: str, reuse: Reuse | None) -> TableProfile | None:
        """Returns what is known of the rows of a table's units, in this version of the data; None without a profile."""
        table = self.catalog.tables[name]
        if table.public or not has_many_rows(table) or why_not(table, self.catalog):
            return None
        if reuse is None:
            found = self.own.get(name)
            return found if found is not None and found.rows is not None else None
        question = rows_of(table, self.catalog)
        histogram, made = self.finder.get(question, reuse), self.made.get(name)
        if histogram is None:
            return None
        if made is None or made[0] is not histogram:
            made = self.made[name] = histogram, profile_of(self.catalog, name, [(question, histogram)])
        return made[1]

    def everything(self, name: str, reuse: Reuse) -> TableProfile | None:
        """Returns all that is stored of a table; None where that is nothing."""
        pairs = [(one, self.finder.get(one, reuse)) for one in questions(self.catalog.tables[name], self.catalog)]
        found = [(one, histogram) for one, histogram in pairs if histogram is not None]
        return profile_of(self.catalog, name, found) if found else None

    def catalog_with_rows(self, reuse: Reuse | None) -> Catalog:
        """Returns the catalog with the suggested number of each table that says `max_rows: auto` and has a profile.

        The number follows from stored noisy numbers and the catalog alone, so to plan with it is post-processing; the
        gate proves of the number, as of any other, what one unit may weigh.
        """
        found = []
        for name, table in self.catalog.tables.items():
            known = self.get(name, reuse) if table.max_rows is AUTO else None
            bound = None if known is None else _bound(known)
            if bound is not None:
                found.append((name, bound))
        if not found:
            return self.catalog
        key = tuple(found)
        if key not in self.planned:
            if len(self.planned) >= MOST_CATALOGS:
                self.planned.clear()
            self.planned[key] = self.catalog.with_max_rows(dict(found))
        return self.planned[key]

    def notes(self, prepared: pipeline.Prepared, bounds: Bounds, reuse: Reuse | None) -> tuple[str, ...]:
        """Returns what is known of the rows that a query's weights leave out, a line for each table of people that it
        reads and of which one unit can have several rows; of the table as a whole, never of a cell."""
        if self.catalog.declarations.unit_is_row:
            return ()
        names: dict[str, None] = {}
        for budgeted, grouping in zip(prepared.budgeted.aggregates, prepared.private.groupings, strict=True):
            names |= dict.fromkeys(_weighed(budgeted.aggregate, limited=grouping.limited))
        notes = [self._note(name, bounds, reuse) for name in names if has_many_rows(self.catalog.tables[name])]
        pairs = zip(prepared.budgeted.aggregates, prepared.private.groupings, strict=True)
        groups = [self._groups(budgeted.aggregate) for budgeted, grouping in pairs if grouping.shows_units]
        scaled = [note for budgeted in prepared.budgeted.aggregates for note in self._scaled(budgeted.aggregate)]
        return tuple(dict.fromkeys(note for note in (*notes, *scaled, *groups) if note is not None))

    def _scaled(self, aggregate: PrivateAggregate) -> Iterator[str]:
        for name, total in scaled_sums(aggregate):
            yield f"sums of {name}: scaled to max_total {total} of one {self.catalog.privacy_unit}; {UNKNOWN}"

    def _groups(self, aggregate: PrivateAggregate) -> str | None:
        """Returns that units may be in more groups than they count in, where they may."""
        most = aggregate.weights.max_groups
        if most is None:
            return None
        ids = frozenset(id for key in aggregate.keys for id in key.columns)
        possible = distinct_groups(aggregate.source, ids, self.catalog.declarations, self.public)
        known = (possible, aggregate.public_groups)
        if most >= min((number for number in known if number is not None), default=most + 1):
            return None
        unit = self.catalog.privacy_unit
        return f"each {unit} counts in at most {most:,} groups (max_groups): what that leaves out is not known"

    def _note(self, name: str, bounds: Bounds, reuse: Reuse | None) -> str:
        if bounds.max_rows is not None:
            return f"{plain(name)}: what the query's own max_rows {bounds.max_rows:,} leaves out is not known"
        found = self.get(name, reuse)
        if found is not None:
            return found.sentence
        told = UNKNOWN if reuse is None else UNBOUGHT  # where nothing is stored, no profile is either
        bound = bound_of(self.catalog.tables[name], self.catalog)
        return f"{plain(name)}, max_rows {'auto' if bound is None else f'{bound:,}'}: {told}"


@remembered
def _bound(found: TableProfile) -> int | None:
    return found.bound


def _weighed(aggregate: PrivateAggregate, *, limited: bool) -> Iterator[str]:
    """Yields the tables whose rows may weigh less than 1 in an aggregate, or are left out of a join.

    Args:
        limited: Whether totals of one unit are clamped to what `max_rows` rows can make.
    """
    weighing = aggregate.weights.weighing
    counts_units = all(measure.count is Count.UNITS for measure in aggregate.measures)  # whatever their rows weigh
    for scan in _scans(aggregate.source):
        is_cut = scan.row_limit <= LARGEST_CUT
        is_stored = weighing is Weighing.STORED and scan.weight is not None
        if is_cut or limited or ((weighing is Weighing.COUNTED or is_stored) and not counts_units):
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
    """Returns what a ledger's store holds of the rows and values of a catalog's tables; opens no data."""
    store = Store(ledger)
    try:
        known = KnownProfiles(catalog=catalog, ledger=ledger, public=_NoData(catalog))
        reuse = Reuse(store=store, version=ledger.data_version, catalog=Fingerprints(catalog), analyst="")
        return tuple(found for name in catalog.tables if (found := known.everything(name, reuse)) is not None)
    finally:
        store.close()
