"""What profiles bought before say: of the number of rows where it is `auto`, and of what answers leave out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.accuracy.counting import families, share
from dpquery.accuracy.error_propagation import rounded_factors_of
from dpquery.backends.base import PublicFacts
from dpquery.catalog import Catalog
from dpquery.catalog.names import plain
from dpquery.catalog.rows import AUTO
from dpquery.catalog.strata import in_words
from dpquery.data.owners import unique_sets
from dpquery.errors import InternalError, UnsupportedQueryError
from dpquery.kernel.plan import Count, PrivateAggregate, Weighing
from dpquery.ledger.ledger import Ledger
from dpquery.plan.cached import cached
from dpquery.plan.expr import columns_of
from dpquery.plan.logical import Aggregate, Filter, Project, Relation, Scan, SetOperation, sources
from dpquery.plan.types import Value
from dpquery.planner.budget.aims import aims_of
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.planner.protect.weighing import private_scans
from dpquery.result.choices import ABOVE
from dpquery.result.measurements import Measurement
from dpquery.reuse.query_split import Reuse
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import Fingerprints
from dpquery.session.explain import scaled_sums
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery
from dpquery.session.profile import Profile, TableProfile, is_beyond, values_sentence
from dpquery.session.profile_buying import UnitHistogram, profile_of, values_of
from dpquery.session.profile_finding import Finder
from dpquery.session.profile_ladder import IntervalEstimate
from dpquery.session.profile_questions import bound_of, has_many_rows, questions, rows_of, values_of_column, why_not
from dpquery.session.rows_added import least_of_each, of_each_row
from dpquery.units.join_multiplicity import LARGEST_CUT
from dpquery.units.weights import distinct_groups

MOST_NOTES = 12
"""Lines that one answer has of what is left out."""
MOST_CATALOGS = 16
"""Catalogs with numbers that were measured, of which there is one for each profile that was bought."""
UNKNOWN = "what it leaves out is unknown"
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
    made: dict[str, tuple[UnitHistogram, TableProfile]] = field(default_factory=dict)
    planned: dict[tuple[tuple[str, int], ...], Catalog] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.finder = Finder(self.catalog, self.ledger, self.public)

    def bought(self, profile: Profile) -> None:
        """Keeps what a session without a store has bought, for as long as it lives."""
        self.own |= profile

    def get(self, name: str, reuse: Reuse | None) -> TableProfile | None:
        """Returns what is known of the rows of a table's units, in this version of the data; None without a profile."""
        table = self.catalog.tables[name]
        if table.public or table.strata or not has_many_rows(table) or why_not(table, self.catalog):
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

    def values(self, name: str, column: str, reuse: Reuse | None) -> Mapping[str, IntervalEstimate] | None:
        """Returns how many units have values of a column beyond its bounds, or unreadable; None without a profile."""
        if reuse is None:
            found = self.own.get(name)
            return None if found is None else found.outside.get(column)
        question = values_of_column(self.catalog.tables[name], column, self.catalog)
        histogram = None if question is None else self.finder.get(question, reuse)
        return None if histogram is None else values_of(histogram)

    def notes(
        self, prepared: PreparedQuery, told: Sequence[Measurement], bounds: ContributionBounds, reuse: Reuse | None
    ) -> tuple[str, ...]:
        """Returns what is known of what a query's bounds leave out: a line for each table of people that it reads and
        of which one unit can have several rows, and one for each clamped column of which values are seen beyond its
        bounds; of the table as a whole, never of a cell.

        Args:
            told: How each of its measures is measured, in order: where the rows that are left out are more than the
                noise of a count, the line says so.
        """
        rows: dict[str, str] = {}
        values: dict[tuple[str, str], str] = {}
        groups: list[str | None] = []
        remaining = iter(told)
        for budgeted, grouping in zip(prepared.read, prepared.private.groupings, strict=True):
            aggregate = budgeted.aggregate
            groups += [*self._scaled(aggregate), self._groups(aggregate) if grouping.shows_units else None]
            described = [next(remaining) for _ in aggregate.measures]
            weighed = (
                [] if self.catalog.declarations.unit_is_row else weighed_tables(aggregate, limited=grouping.limited)
            )
            for name in dict.fromkeys(weighed):
                if has_many_rows(self.catalog.tables[name]):
                    rows.setdefault(name, self._note(name, bounds, reuse))
                    is_unknown = not is_known(rows[name]) or ABOVE in rows[name]
                    lost = 0.0 if is_unknown else self._lost(name, bounds, reuse)
                    noises = noises_of_counts(aggregate, described, grouping.whole) if lost else []
                    rows[name] += _above(aggregate.public_groups, noises, lost)
            for name, column in clamped_columns(aggregate):
                units = self.values(name, column, reuse)
                if units is not None and is_beyond(units):
                    values[name, column] = values_sentence(name, column, units)
        own = dict.fromkeys(note for note in groups if note is not None)
        lines = (*rows.values(), *own, *values.values())
        more = len(lines) - MOST_NOTES
        return lines if more <= 0 else (*lines[:MOST_NOTES], f"{more} more such lines: see session.profile()")

    def too_small(
        self, prepared: PreparedQuery, told: Sequence[Measurement], bounds: ContributionBounds, reuse: Reuse | None
    ) -> Iterator[str]:
        """Yields which quantiles and extremes can say nothing, as their rank error is at least half of the rows that a
        group has on average, by the profile of its table: filters and joins with public tables leave no more.

        Args:
            told: How each of its measures is measured, in order.
        """
        remaining = iter(told)
        for budgeted in prepared.read:
            aggregate = budgeted.aggregate
            described = [next(remaining) for _ in aggregate.measures]
            name, groups = single_table(aggregate), aggregate.public_groups
            found = None if name is None or bounds.max_rows is not None else self.get(name, reuse)
            bound = None if found is None else found.bound
            if name is None or found is None or bound is None or not groups or not found.ladder.steps:
                continue
            rows = found.ladder.counted(bound) / groups
            for made in described:
                if made.unit == "ranks" and made.error95 >= rows / 2:
                    share = f" in each of {groups:,} groups on average" if groups > 1 else ""
                    yield (
                        f"{made.label} says nothing: it is within {math.ceil(made.error95):,} ranks, and by its "
                        f"profile {plain(name)} has {rows:,.0f} rows{share}. Group coarser, offer more, or ask for AVG"
                    )

    def _scaled(self, aggregate: PrivateAggregate) -> Iterator[str]:
        for name, total in scaled_sums(aggregate) if self.catalog.has_totals else ():
            yield f"sums of {name}: scaled to max_total {total} of one {self.catalog.privacy_unit}; {UNKNOWN}"

    def _groups(self, aggregate: PrivateAggregate) -> str | None:
        """Returns that units may be in more groups than they count in, where they may."""
        most = aggregate.weights.max_groups
        if most is None or self.catalog.declarations.unit_is_row:
            return None
        ids = frozenset(id for key in aggregate.keys for id in key.columns)
        possible = distinct_groups(aggregate.source, ids, self.catalog.declarations, self.public)
        known = (possible, aggregate.public_groups)
        if most >= min((number for number in known if number is not None), default=most + 1):
            return None
        unit = self.catalog.privacy_unit
        return f"each {unit} counts in at most {most:,} groups (max_groups): what that leaves out is unknown"

    def _note(self, name: str, bounds: ContributionBounds, reuse: Reuse | None) -> str:
        if bounds.max_rows is not None:
            return f"{plain(name)}: what the query's own max_rows {bounds.max_rows:,} leaves out is unknown"
        found = self.get(name, reuse)
        if found is not None:
            return found.sentence
        bound, strata = bound_of(self.catalog.tables[name], self.catalog), self.catalog.tables[name].strata
        if strata is not None:  # of which no profile tells
            return f"{plain(name)}, max_rows {bound:,}, {strata.max_rows:,} in each {in_words(strata)}: {UNKNOWN}"
        told = UNKNOWN if reuse is None else UNBOUGHT  # where nothing is stored, no profile is either
        return f"{plain(name)}, max_rows {'auto' if bound is None else f'{bound:,}'}: {told}"

    def _lost(self, name: str, bounds: ContributionBounds, reuse: Reuse | None) -> float:
        """Returns how many rows of a table count for nothing, at the least; 0 where that is not known."""
        found = self.get(name, reuse) if bounds.max_rows is None else None
        bound = None if found is None else found.bound
        return 0.0 if found is None or bound is None else found.ladder.loss(bound).lost

    def require_reachable(self, prepared: PreparedQuery, request: Request, reuse: Reuse | None) -> None:
        """Raises UnsupportedQueryError where what weights are known to leave out of a table is more than an error that
        is asked for of a number that adds something up over all of its rows: no noise is small enough.

        What a row adds lies between ends that follow from bounds: 1 to a count. To an average nothing is known.
        """
        if request.accuracy is None:
            return
        errors = request.accuracy.errors
        reached = [
            (name, aggregate.public_groups, of_each_row(aggregate, grouping.halved, grouping.whole))
            for budgeted, grouping in zip(prepared.read, prepared.private.groupings, strict=True)
            for aggregate in (budgeted.aggregate,)
            if (name := whole_table(aggregate)) is not None and name in weighed_tables(aggregate)
        ]
        for aim in aims_of(prepared.private, {}):
            error = errors if isinstance(errors, Fraction) else errors.get(aim.name)
            found = None if error is None else rounded_factors_of(aim.expression, lambda _: True)
            read = {id: by for id, by in found[0].items() if id not in found[1]} if found else {}
            for name, groups, rows in reached:
                least = least_of_each(read, rows) if read else 0.0
                lost = self._lost(name, request.bounds, reuse) if least else 0.0
                if error is None or groups is None or least * lost <= error * groups:
                    continue
                each = f", {lost / groups:,.0f} of each of {groups:,} groups on average" if groups > 1 else ""
                of = "" if least == 1 else f"; each adds {least:,g} at least"
                raise UnsupportedQueryError(
                    f"{aim.name} cannot come within {float(error):,g}: by its profile {plain(name)} has {lost:,.0f} "
                    f"rows or more that max_rows leaves out{each}{of}",
                    advice="Raise max_rows of the table, which noise grows with, or ask for a larger error.",
                )


def _above(groups: int | None, noises: Sequence[float], lost: float) -> str:
    """Returns that the rows that are left out of a table, spread over the groups, are more than the noise of a count;
    "" where they are not."""
    if groups is None or not noises or lost <= groups * min(noises):
        return ""
    over = f" over {groups:,} groups" if groups > 1 else ""
    return f"; {ABOVE}: {math.floor(lost):,} rows at least{over}, where noise is ± {math.ceil(min(noises)):,}"


def noises_of_counts(
    aggregate: PrivateAggregate, described: Sequence[Measurement], whole: frozenset[str]
) -> list[float]:
    """Returns how far numbers of rows are off, but for one in twenty: of counts, and of what vectors add up to.

    The noises of a vector's terms are of one law, so those of k terms together are of k^(1/2) times the size.

    Args:
        whole: Ids of the sums over values that are never NULL.
    """
    errors = {measure.id: made.error95 for measure, made in zip(aggregate.measures, described, strict=True)}
    found = [errors[measure.id] for measure in aggregate.measures if measure.count is Count.ROWS]
    counting = [terms for terms in families(aggregate.measures) if all(term.id in whole for term in terms)]
    return found + [math.sqrt(len(terms)) * max(errors[t.id] * float(share(t)) for t in terms) for terms in counting]


def is_known(note: str) -> bool:
    """Whether a note says something of the data, and not that nothing is known."""
    return "leaves out is unknown" not in note


@cached
def _bound(found: TableProfile) -> int | None:
    return found.bound


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
    store = ReleaseStore(ledger)
    try:
        known = KnownProfiles(catalog=catalog, ledger=ledger, public=_NoData(catalog))
        reuse = Reuse(store=store, version=ledger.data_version, catalog=Fingerprints(catalog), analyst="")
        return tuple(found for name in catalog.tables if (found := known.everything(name, reuse)) is not None)
    finally:
        store.close()


def weighed_tables(aggregate: PrivateAggregate, *, limited: bool = False) -> Iterator[str]:
    """Yields the tables whose rows may weigh less than 1 in an aggregate, or are left out of a join.

    Args:
        limited: Whether totals of one unit are clamped to what `max_rows` rows can make.
    """
    weighing = aggregate.weights.weighing
    by_units = (Count.UNITS, Count.DECIDING)
    counts_units = all(measure.count in by_units for measure in aggregate.measures)  # rows of any weight
    for scan in private_scans(aggregate.source):
        is_cut = scan.row_limit <= LARGEST_CUT
        is_stored = weighing is Weighing.STORED and scan.weight is not None
        if is_cut or limited or ((weighing is Weighing.COUNTED or is_stored) and not counts_units):
            yield scan.table


def clamped_columns(aggregate: PrivateAggregate) -> Iterator[tuple[str, str]]:
    """Yields, as (table, column), the stored columns whose values are added up or averaged, and so clamped."""
    values = (measure.value for measure in aggregate.measures if measure.lattice is not None)
    yield from _stored(aggregate.source, frozenset(value for value in values if value is not None))


def whole_table(aggregate: PrivateAggregate) -> str | None:
    """Returns the table of which an aggregate reads all rows, each once; None where it reads others, or filters."""
    relation = aggregate.source
    while isinstance(relation, Project):
        relation = relation.source
    return relation.table if isinstance(relation, Scan) and not relation.public else None


def single_table(aggregate: PrivateAggregate) -> str | None:
    """Returns the only private table that an aggregate reads, once and with no row of it repeated; else None."""
    relation = aggregate.source
    while isinstance(relation, Project | Filter):
        relation = relation.source
    return relation.table if isinstance(relation, Scan) and not relation.public else None


def _stored(relation: Relation, ids: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yields the columns of private tables that columns of a relation are computed from."""
    match relation:
        case Scan():
            if not relation.public:
                yield from ((relation.table, column.name) for column in relation.columns if column.id in ids)
            return
        case Project():
            made = [column.expression for column in relation.columns if column.id in ids]
            ids = frozenset(column.id for expression in made for column in columns_of(expression))
        case Aggregate():
            made = [a.argument for a in relation.aggregates if a.id in ids and a.argument is not None]
            ids |= frozenset(column.id for expression in made for column in columns_of(expression))
        case SetOperation():
            ids |= frozenset(
                side for column in relation.columns if column.id in ids for side in (column.left, column.right)
            )
        case _:
            pass
    for source in sources(relation):
        yield from _stored(source, ids)
