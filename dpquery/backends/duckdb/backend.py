"""The embedded engine: pandas, Arrow, Parquet, CSV and DuckDB files in place, locked down.

Two engines: one holds the private tables and runs private aggregates alone; the other holds released and public tables
and runs what is above the boundary. Neither ever runs a text that an analyst wrote.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa

from dpquery.backends.duckdb.binding import empty_tables
from dpquery.backends.duckdb.engine import (
    FILE_SETTINGS,
    HANDED_BACK,
    OF_STATISTICS,
    OF_VALUES,
    PREPARED_SETTINGS,
    PRIVATE_SETTINGS,
    Domain,
    DuckDBEngine,
)
from dpquery.backends.duckdb.exact_results import of_columns, with_lists
from dpquery.backends.duckdb.private_statements import (
    PreparedAggregate,
    added_up,
    adds_up,
    decides_in_rounds,
    in_digits,
    is_small,
    written,
)
from dpquery.backends.duckdb.public_tables import PublicTables
from dpquery.backends.duckdb.row_weights import Names, RowWeights, tables_that_stay, weights_of
from dpquery.backends.duckdb.shards import PARTS, hold_parts, periods, run_each, shards_of, with_values_once
from dpquery.backends.duckdb.sql.histogram_sql import signatures
from dpquery.backends.duckdb.statements import TIME_LIMIT, fetch, fetch_columns, fetch_few, fetch_integers
from dpquery.backends.duckdb.stored_forms import Formed, formed
from dpquery.backends.duckdb.table_reading import KeptWeights, StoredWeighing, TableReader
from dpquery.backends.duckdb.time_limits import time_limit
from dpquery.backends.duckdb.used_columns import narrowed
from dpquery.backends.features import NO_GAPS, Gaps
from dpquery.backends.resources import PUBLIC_PART, Resources
from dpquery.catalog import Catalog, Table
from dpquery.catalog.identifiers import may_identify, repeats
from dpquery.catalog.names import quoted
from dpquery.data.change_detection import Stamp, stamps_of
from dpquery.data.sources import Source, prepared_scan
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.plan import Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation, output
from dpquery.units.blocks import ALL, Touched


class DuckDBBackend(PublicTables):
    """Holds the tables of a catalog in embedded DuckDB.

    Args:
        catalog: The declarations.
        sources: For each declared table its data; see `open_source`.
        resources: How much memory it takes, and where it spills.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    gaps: Gaps = NO_GAPS

    def __init__(self, catalog: Catalog, sources: Mapping[str, object], *, resources: Resources | None = None) -> None:
        given = resources or Resources()
        self._hold(catalog, sources, catalog.tables, resources=given)
        opened = self._opened
        private = {**given.settings(PUBLIC_PART - 1, PUBLIC_PART), **PRIVATE_SETTINGS}
        if self._tables.has_statistics:
            private |= PREPARED_SETTINGS if any(source.prepared for source in opened.values()) else FILE_SETTINGS
        left_out = [OF_VALUES, *([OF_STATISTICS] if self._have_statistics() else [])]
        self._private = DuckDBEngine(
            opened, keep_order=False, made=[HANDED_BACK], memory=private, spill=given.folder(), left_out=left_out
        )
        self._read_schemas(self._private.cursor())
        self._check_data(self._private.cursor())
        names = {table: source.name for table, source in opened.items()}
        self._named = replace(self._tables, places=names)
        self._limits = RowLimits(self._tables, opened, self._number)
        self._weights = RowWeights(self._tables, opened, self._private, self._rows_of)
        self._limited = self._found_limits()
        prepared = ((table, source.prepared) for table, source in opened.items() if not catalog.tables[table].public)
        self._prepared = {table: found for table, found in prepared if found is not None}
        self._forms = {table: found.forms for table, found in self._prepared.items()}
        self._empty = empty_tables({names[table]: self._needed_types(table) for table in opened})

    def close(self) -> None:
        """Ends the engines and removes their temporary files."""
        super().close()
        self._private.close()

    def _have_statistics(self) -> bool:
        """Whether the engine may know the least and the greatest value of a column of private rows, or of units."""
        private = [table for table in self._catalog.tables.values() if not table.public]
        is_scaled = any(column.max_total is not None for table in private for column in table.columns.values())
        return is_scaled or self._tables.has_statistics

    def prepare(self, aggregate: PrivateAggregate) -> PreparedAggregate:
        """Returns the statement of a private aggregate, bound over tables without rows; see `Backend`."""
        aggregate = narrowed(aggregate, self._catalog.declarations)
        return self._written(aggregate, self._limited, self._weights.known(weights_of(aggregate.source)))

    def _written(self, aggregate: PrivateAggregate, limited: frozenset[str], weights: Names) -> PreparedAggregate:
        form, domains, choices = self._formed(aggregate)
        needed = tuple(domain for domain in (*domains, *choices) if domain is not None)
        read = self._read_of(aggregate, limited)
        shards = shards_of(self._opened, read)
        named = {table: self._opened[table].name for table in self._prepared}
        tables = self._tables_of(read, limited, weights)
        text, numbers, contested = written(tables, form, domains, choices)
        whole, parts = text, tuple[str, ...]()
        if shards.count > 1 and adds_up(aggregate):
            one = written(replace(tables, places=tables.places | named), form, domains, choices, is_part=True)[0]
            text, parts = added_up(aggregate, PARTS, shards.count), shards.statements(one)
        empty = {each: None if kept is None else self._without_rows(each, kept) for each, kept in weights.items()}
        bound = replace(self._named, limited=limited, weights=empty)
        is_same = (bound.places, empty) == (tables.places, weights)
        self._empty.bind(whole if is_same else written(bound, form, domains, choices)[0], len(numbers), needed)
        return PreparedAggregate(
            aggregate=aggregate,
            text=text,
            numbers=numbers,
            domains=needed,
            limited=limited,
            weights=weights,
            contested=contested,
            parts=parts,
        )

    def _read_of(self, aggregate: PrivateAggregate, limited: frozenset[str]) -> dict[str, Touched]:
        """Returns for each prepared table the periods whose rows are read of it."""
        return {table: self._periods(aggregate.source, table, limited) for table in self._prepared}

    def _tables_of(self, read: Mapping[str, Touched], limited: frozenset[str], weights: Names) -> TableReader:
        """Returns what reads the tables, of prepared ones the files that may hold rows of these periods."""
        prepared = self._prepared.items()
        whole = {name: prepared_scan(table, chain(*table.read(read[name]))) for name, table in prepared}
        return replace(self._tables, limited=limited, weights=weights, places=self._tables.places | whole)

    def _periods(self, relation: Relation, table: str, limited: frozenset[str]) -> Touched:
        """Returns the periods whose rows are read of a prepared table; all, where the rows of units are counted."""
        cut, declared = self._prepared[table].cut, self._catalog.tables[table]
        limit = declared.row_limit or self._catalog.defaults.row_limit
        if cut is None or table in limited:
            return ALL
        return periods(relation, table, cut, declared.columns[cut.column].type, limit)

    def _without_rows(self, each: StoredWeighing, kept: KeptWeights) -> KeptWeights:
        """Returns where the engine that binds statements keeps weights of no rows."""
        if kept.column is None:
            return KeptWeights(self._empty.table(self._named.crowded(each)))
        place = self._named.places[each.table]
        return KeptWeights(self._empty.table(f"SELECT *, 0 AS {quoted(kept.column)} FROM {place}"), kept.column)

    def run(self, statement: PreparedAggregate, key: int) -> ExactAggregates:
        """Returns the exact integers of a statement; see `Backend`."""
        aggregate = statement.aggregate
        before = self._state(aggregate)
        self.check()
        limited, weights = self._limits.above(), self._weights.made(weights_of(aggregate.source))
        if (limited, weights) != (statement.limited, statement.weights):  # not known before, or files have changed
            self._limited = limited
            statement = self._written(aggregate, limited, weights)
        try:
            exact = self._read(statement, key)
        finally:
            if self._tables.has_statistics:
                self._private.hand_back()
        if self._state(aggregate) != before:
            raise BackendError("a file was changed while it was read, so its rows may not be those that were counted")
        return exact

    def _read(self, statement: PreparedAggregate, key: int) -> ExactAggregates:
        cursor = self._private.cursor()
        self._private.provide(statement.domains)
        numbers = _halves(key, statement.numbers)
        if statement.parts:
            try:
                run_each(cursor, statement.parts, numbers)
                return with_values_once(self._fetched(statement, statement.text))
            finally:
                cursor.execute(f"DROP TABLE IF EXISTS {PARTS}")
        return self._fetched(statement, statement.text, numbers)

    def part(self, aggregate: PrivateAggregate, key: int) -> pa.Table:
        """Returns what the rows held here are of an aggregate over more of them, for `added`.

        Args:
            aggregate: One that `prepare` of a backend over all rows took.
        """
        self.check()
        limited, weights = self._limits.above(), self._weights.made(weights_of(aggregate.source))
        tables = self._tables_of(self._read_of(aggregate, limited), limited, weights)
        form, domains, choices = self._formed(aggregate)
        text, numbers, _ = written(tables, form, domains, choices, is_part=True)
        self._private.provide(domain for domain in (*domains, *choices) if domain is not None)
        return fetch(self._private.cursor(), in_digits(aggregate, text), _halves(key, numbers))

    def added(self, statement: PreparedAggregate, parts: Sequence[pa.Table]) -> ExactAggregates:
        """Returns the exact integers of all rows of what `part` returned for each part of them.

        Args:
            parts: Of disjoint sets of whole units; of rows, where the unit is the row. A single one for what does not
                add up.
        """
        cursor = self._private.cursor()
        self._private.provide(statement.domains)
        text = added_up(statement.aggregate, PARTS, len(parts), statement.contested)
        try:
            hold_parts(cursor, statement.aggregate, parts)
            return with_values_once(self._fetched(statement, text))
        finally:
            cursor.execute(f"DROP TABLE IF EXISTS {PARTS}")

    def _fetched(self, statement: PreparedAggregate, text: str, numbers: Sequence[int] = ()) -> ExactAggregates:
        """Returns what a text with a run's numbers gives for a statement's aggregate."""
        aggregate, cursor = statement.aggregate, self._private.cursor()
        if signatures(aggregate.measures) or statement.contested or decides_in_rounds(aggregate):
            return with_lists(aggregate, fetch(cursor, text, numbers), statement.contested)
        fetched = fetch_few if is_small(aggregate) else fetch_columns if aggregate.is_selected else fetch_integers
        return of_columns(aggregate, fetched(cursor, text, numbers))

    def _state(self, aggregate: PrivateAggregate) -> tuple[Stamp, ...]:
        """Returns what tells one state of the files of tables that must stay from another: prepared ones do, as a row
        is in one shard of a preparation."""
        prepared = {table for table, source in self._opened.items() if source.prepared is not None}
        tables = sorted(tables_that_stay(aggregate.source) | prepared)
        return tuple(stamp for table in tables for stamp in stamps_of(self._opened[table]))

    def _formed(self, aggregate: PrivateAggregate) -> tuple[Formed, list[Domain | None], list[Domain | None]]:
        """Returns an aggregate over what prepared tables hold, the domains of its public keys, and those of its
        modes."""
        form = formed(aggregate, self._forms) if self._forms else Formed(aggregate)
        keys = form.aggregate.keys
        domains = [None if k.domain is None else self._private.domain(k.types, k.domain) for k in keys]
        return form, domains, [None if m.domain is None else self._choices(aggregate, m) for m in aggregate.measures]

    def _choices(self, aggregate: PrivateAggregate, measure: Measure) -> Domain:
        """Returns the domain of a mode."""
        type = next(column.type for column in output(aggregate.source) if column.id == measure.value)
        return self._private.domain((type,), tuple((value,) for value in measure.domain or ()))

    def identifying(self) -> Iterator[tuple[str, str]]:
        """Yields columns of private tables whose values come again as identifiers do; for the eyes of the owner."""
        for table in self._catalog.tables.values():
            for column in () if table.public else filter(may_identify, table.columns.values()):
                counts = "COUNT({0}), APPROX_COUNT_DISTINCT({0})"
                ((rows, different),) = self.looked_at(table.name, counts, column.name)
                if repeats(rows, different):
                    yield table.name, column.name

    def looked_at(self, table: str, what: str, *columns: str) -> list[Any]:
        """Returns what SELECT gives over the rows of one table; for the eyes of the owner.

        Args:
            what: SQL, in which `{0}`, `{1}`, ... are the columns, read as declared.
        """
        declared = self._catalog.tables[table]
        read = [self._tables.column(declared, name, declared.columns[name].type) for name in columns]
        return self._rows_of(f"SELECT {what.format(*read)} FROM {self._tables.places[table]}")

    def _number(self, text: str) -> int:
        """Returns the one number that a SELECT over private tables gives."""
        ((number,),) = self._rows_of(text)
        return int(number)

    def _rows_of(self, text: str) -> list[Any]:
        """Returns what a statement over private tables gives."""
        cursor = self._private.cursor()
        with time_limit(cursor.interrupt, TIME_LIMIT):
            return cursor.execute(text).fetchall()

    def _found_limits(self) -> frozenset[str]:
        with contextlib.suppress(duckdb.Error):
            return self._limits.above()
        raise CatalogError("the rows of units could not be counted")


def _halves(key: int, places: Iterable[int]) -> list[int]:
    """Returns the halves of a run's key to which a statement refers, by their places from 1."""
    return [divmod(key % 2**128, 2**64)[place - 1] for place in places]


class RowLimits:
    """Counts the rows of units where a table is large enough for a unit to exceed its limit, and again where its files
    have changed since: when data open, so that tables in which no unit does pay nothing for it.

    Args:
        tables: How the tables are read.
        opened: Their sources.
        ask: Runs a SELECT of one number.
    """

    def __init__(self, tables: TableReader, opened: Mapping[str, Source], ask: Callable[[str], int]) -> None:
        self._tables, self._opened, self._ask = tables, opened, ask
        self._guard = threading.Lock()
        self._known: dict[str, tuple[tuple[Stamp, ...], bool]] = {}

    def above(self) -> frozenset[str]:
        """Returns the tables in which some unit has more rows than are read, in a block where rows are in blocks.

        Reads private rows where files have changed: to be called when data open, and after a charge.
        """
        owned = [table for table in self._tables.catalog.tables.values() if table.ownership is not None]
        return frozenset(table.name for table in owned if self._is_above(table))

    def _is_above(self, table: Table) -> bool:
        state = stamps_of(self._opened[table.name])
        with self._guard:
            known = self._known.get(table.name)
        if known is None or known[0] != state:
            known = state, self._exceeds(table)
            with self._guard:
                self._known[table.name] = known
        return known[1]

    def _exceeds(self, table: Table) -> bool:
        limit = table.row_limit or self._tables.catalog.defaults.row_limit
        if (prepared := self._opened[table.name].prepared) is not None:
            return prepared.most_rows > limit
        if self._ask(f"SELECT COUNT(*) FROM {self._tables.places[table.name]}") <= limit:
            return False
        return self._ask(self._tables.most_rows(table)) > limit
