"""The embedded engine: pandas, Arrow, Parquet, CSV and DuckDB files in place, locked down.

Two engines: one holds the private tables and runs private aggregates alone; the other holds released and public tables
and runs what is above the boundary. Neither ever runs a text that an analyst wrote.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from dpquery.backends.duckdb.binding import EmptyTables
from dpquery.backends.duckdb.engine import Domain, Engine, Rows
from dpquery.backends.duckdb.exact_results import of_columns, with_lists
from dpquery.backends.duckdb.private_statements import FEW_ROWS, Prepared, is_small, written
from dpquery.backends.duckdb.resources import PUBLIC_PART, Resources
from dpquery.backends.duckdb.row_limits import RowLimits
from dpquery.backends.duckdb.row_weights import Names, RowWeights, tables_that_stay, weights_of
from dpquery.backends.duckdb.sql.histogram_sql import signatures
from dpquery.backends.duckdb.sql.reading import is_zoned, most_equal, read, without_zone
from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.statements import TIME_LIMIT, fetch, fetch_few, fetch_integers, fetch_objects, fetch_rows
from dpquery.backends.duckdb.table_reading import Kept, TableReader, Weighed
from dpquery.backends.duckdb.time_limits import time_limit
from dpquery.backends.duckdb.used_columns import narrowed
from dpquery.cancelling import interruptible
from dpquery.catalog import Catalog, Table
from dpquery.catalog.identifiers import may_identify, repeats
from dpquery.catalog.names import quoted
from dpquery.data.owners import unique_sets
from dpquery.data.sources import Source, open_source
from dpquery.data.twice import twice
from dpquery.data.unchanged import Files, Stamp, held, relied_on, stamps_of, state_of, with_owners_held
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.plan import Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation, output
from dpquery.plan.types import Kind, Type


class DuckDBBackend:
    """Holds the tables of a catalog in embedded DuckDB.

    Args:
        catalog: The declarations.
        sources: For each declared table its data; see `open_source`.
        resources: How much memory it takes, and where it spills.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, object], *, resources: Resources | None = None) -> None:
        self._catalog = catalog
        self._public_rows: dict[tuple[str, tuple[str, ...]], Rows] = {}
        self._most_equal: dict[tuple[str, frozenset[str]], int] = {}
        checked = relied_on(catalog)
        self._opened = opened = with_owners_held(catalog, held(_open_all(catalog, sources), checked))
        self._files = Files(opened, checked)
        self._tables = TableReader(catalog=catalog, opened=opened)
        given, self._is_closed = resources or Resources(), False
        private, public = (given.settings(part, PUBLIC_PART) for part in (PUBLIC_PART - 1, 1))
        self._private = Engine(opened, keep_order=False, memory=private, spill=given.folder())
        known = {table: source for table, source in opened.items() if catalog.tables[table].public}
        self._public = Engine(known, keep_order=True, memory=public, spill=given.folder())
        self._read_schemas(opened)
        self._check_data()
        names = {table: source.name for table, source in opened.items()}
        self._named = replace(self._tables, places=names)
        self._limits = RowLimits(self._tables, opened, self._number)
        self._weights = RowWeights(self._tables, opened, self._private, self._rows_of)
        self._limited = self._found_limits()
        self._empty = EmptyTables({names[table]: self._needed_types(table) for table in opened})

    def check(self) -> None:
        """Raises BackendError if what the promise takes from the data was changed; see `Backend`."""
        if self._is_closed:
            raise BackendError("the session was closed; nothing was charged. Open another")
        self._files.check()

    def close(self) -> None:
        """Ends the engines and removes their temporary files."""
        self._is_closed = True
        for engine in (self._private, self._public, self._empty.engine):
            engine.close()

    def prepare(self, aggregate: PrivateAggregate) -> Prepared:
        """Returns the statement of a private aggregate, bound over tables without rows; see `Backend`."""
        aggregate = narrowed(aggregate)
        return self._written(aggregate, self._limited, self._weights.known(weights_of(aggregate.source)))

    def _written(self, aggregate: PrivateAggregate, limited: frozenset[str], weights: Names) -> Prepared:
        domains = [None if k.domain is None else self._private.domain(k.types, k.domain) for k in aggregate.keys]
        choices = [None if m.domain is None else self._choices(aggregate, m) for m in aggregate.measures]
        needed = tuple(domain for domain in (*domains, *choices) if domain is not None)
        tables = replace(self._tables, limited=limited, weights=weights)
        text, numbers, contested = written(tables, aggregate, domains, choices)
        empty = {each: None if kept is None else self._without_rows(each, kept) for each, kept in weights.items()}
        named = replace(self._named, limited=limited, weights=empty)
        self._empty.bind(written(named, aggregate, domains, choices)[0], needed)
        return Prepared(
            aggregate=aggregate,
            text=text,
            numbers=numbers,
            domains=needed,
            limited=limited,
            weights=weights,
            contested=contested,
        )

    def _without_rows(self, each: Weighed, kept: Kept) -> Kept:
        """Returns where the engine that binds statements keeps weights of no rows."""
        if kept.column is None:
            return Kept(self._empty.table(self._named.crowded(each)))
        place = self._named.places[each.table]
        return Kept(self._empty.table(f"SELECT *, 0 AS {quoted(kept.column)} FROM {place}"), kept.column)

    def run(self, statement: Prepared, key: int) -> ExactAggregates:
        """Returns the exact integers of a statement; see `Backend`."""
        aggregate = statement.aggregate
        before = self._state(aggregate)
        self.check()
        limited, weights = self._limits.above(), self._weights.made(weights_of(aggregate.source))
        if (limited, weights) != (statement.limited, statement.weights):  # not known before, or files have changed
            self._limited = limited
            statement = self._written(aggregate, limited, weights)
        exact = self._read(statement, key)
        if self._state(aggregate) != before:
            raise BackendError("a file was changed while it was read: rows may not be those that were counted")
        return exact

    def _read(self, statement: Prepared, key: int) -> ExactAggregates:
        aggregate, cursor = statement.aggregate, self._private.cursor()
        self._private.provide(statement.domains)
        numbers = [divmod(key % 2**128, 2**64)[place - 1] for place in statement.numbers]
        text = self._private.statements.prepared(statement.text, numbers, state_of(self._opened))
        if signatures(aggregate.measures) or statement.contested:
            return with_lists(aggregate, fetch(cursor, text), statement.contested)
        fetched = fetch_few if is_small(aggregate) else fetch_objects if aggregate.is_selected else fetch_integers
        return of_columns(aggregate, fetched(cursor, text))

    def _state(self, aggregate: PrivateAggregate) -> tuple[Stamp, ...]:
        """Returns what tells one state of the files of tables that must stay from another."""
        tables = sorted(tables_that_stay(aggregate.source))
        return tuple(stamp for table in tables for stamp in stamps_of(self._opened[table]))

    def _choices(self, aggregate: PrivateAggregate, measure: Measure) -> Domain:
        """Returns the domain of a mode."""
        type = next(column.type for column in output(aggregate.source) if column.id == measure.value)
        return self._private.domain((type,), tuple((value,) for value in measure.domain or ()))

    def public_rows(self, table: str, columns: tuple[str, ...]) -> Rows:
        """Returns the different rows of a public table in some of its columns, read once."""
        known = self._public_rows.get((table, columns))
        if known is None:
            declared = self._catalog.tables[table]
            values = [self._tables.column(declared, column, declared.columns[column].type) for column in columns]
            read = ", ".join(f"{value} AS value{i}" for i, value in enumerate(values))
            cursor = self._public.cursor()
            made: pa.Table | None = None
            with contextlib.suppress(duckdb.Error):
                made = fetch(cursor, f"SELECT DISTINCT {read} FROM {self._tables.places[table]}")
            if made is None:
                raise BackendError(f"the engine could not read the public table {table}")
            known = tuple(zip(*(made[f"value{i}"].to_pylist() for i in range(len(columns))), strict=True))
            self._public_rows[table, columns] = known
        return known

    def identifying(self) -> Iterator[tuple[str, str]]:
        """Yields columns of private tables whose values come again as identifiers do; for the eyes of the owner."""
        for table in self._catalog.tables.values():
            for column in () if table.public else filter(may_identify, table.columns.values()):
                value, place = self._tables.column(table, column.name, column.type), self._tables.places[table.name]
                counts = f"SELECT COUNT({value}), APPROX_COUNT_DISTINCT({value}) FROM {place}"
                ((rows, different),) = self._private.cursor().execute(counts).fetchall()
                if repeats(rows, different):
                    yield table.name, column.name

    def rows(self, table: str) -> int:
        """Returns how many rows a public table has; see `Sizes`."""
        return self.most_equal(table, frozenset())

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        """Returns the most rows of a public table that agree in these columns, counted once; see `Sizes`."""
        known = self._most_equal.get((table, columns))
        if known is None:
            declared = self._catalog.tables[table]
            read_columns = [self._tables.column(declared, c, declared.columns[c].type) for c in sorted(columns)]
            found: list[Any] = []
            with contextlib.suppress(duckdb.Error):
                found = self._public.cursor().execute(most_equal(self._tables.places[table], read_columns)).fetchall()
            if not found:
                raise BackendError(f"the engine could not read the public table {table}")
            known = self._most_equal[table, columns] = int(found[0][0])
        return known

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        """Returns sets of columns of which no two rows agree, checked when the tables were opened; see `Sizes`."""
        return unique_sets(self._catalog, table)

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of a relation over released and public tables; see `Backend`."""
        cursor = self._public.cursor()
        names = [self._public.register(table) for table in released]
        relations = RelationWriter(scan=self._tables.scan, released=lambda index: names[index])
        made: pa.Table | None = None
        with contextlib.suppress(duckdb.Error):
            text = relations.select(relation)
            if max((len(table) for table in released), default=FEW_ROWS) < FEW_ROWS:
                made = fetch_rows(cursor, text, output(relation))
            else:
                made = fetch(cursor, text)
        for registered in names:
            cursor.unregister(registered)
        if made is None:
            raise BackendError("the engine could not compute the result from the released tables")
        return made

    # Opening tables as declared.

    def _read_schemas(self, opened: Mapping[str, Source]) -> None:
        """Finds the stored types; reports every needed column that is missing or cannot be read."""
        problems = []
        cursor = self._private.cursor()
        for table, source in opened.items():
            self._tables.places[table] = source.name if source.data is not None else source.scan
            if source.database is not None:
                self._tables.places[table] = f"{source.name}.{source.scan}"
            described: list[Any] = []
            with contextlib.suppress(duckdb.Error):
                described = _rows(cursor, f"DESCRIBE SELECT * FROM {self._tables.places[table]}")
            if not described:
                problems.append(f"the source of table {table} cannot be opened")
                continue
            self._tables.stored[table] = {row[0]: row[1] for row in described}
            problems += self._unreadable(table)
        if problems:
            raise CatalogError(problems)

    def _unreadable(self, table: str) -> list[str]:
        problems: list[str] = []
        zones = _zones(self._catalog, table)
        for column, type in _needed(self._catalog, table).items():
            stored, zone = self._tables.stored[table].get(column), zones.get(column, "")
            if stored is None:
                problems.append(f"table {table} has no column {column}")
            elif is_zoned(stored) and type.kind in (Kind.DATE, Kind.TIMESTAMP) and not zone:
                problems.append(without_zone(table, column, type))
            elif read(stored, type, "stored", zone) is None:
                problems.append(f"column {column} of table {table} is stored as {stored}, which is not read as {type}")
        return problems

    def _needed_types(self, table: str) -> dict[str, str]:
        """Returns the engine's types of the stored columns that are read of a table."""
        return {column: self._tables.stored[table][column] for column in _needed(self._catalog, table)}

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

    def _check_data(self) -> None:
        """Checks what the promise takes from the data: unique public keys, and one owner for each row."""
        problems = []
        cursor = self._private.cursor()
        for table in self._catalog.tables.values():
            if not self._can_be_read(cursor, table):
                problems.append(f"the source of table {table.name} holds values that the engine cannot read")
                continue
            for unique in table.unique:
                columns = [self._tables.column(table, c, table.columns[c].type) for c in sorted(unique)]
                if _any(cursor, _repeated(self._tables.places[table.name], columns)):
                    word = "public table" if table.public else "table"
                    problems.append(f"{word} {table.name} is not unique by {', '.join(sorted(unique))}")
            if table.ownership is not None:
                problems += self._ambiguous(cursor, table)
        if problems:
            raise CatalogError(problems)

    def _can_be_read(self, cursor: duckdb.DuckDBPyConnection, table: Table) -> bool:
        """Whether every value of a file can be read: what fails must fail here, before the owner's eyes."""
        if self._opened[table.name].data is not None:
            return True
        columns = (self._tables.column(table, name, type) for name, type in _needed(self._catalog, table.name).items())
        reads = ", ".join(f"bit_xor(hash({column}))" for column in columns)
        with contextlib.suppress(duckdb.Error):
            _rows(cursor, f"SELECT {reads} FROM {self._tables.places[table.name]}")
            return True
        return False

    def _ambiguous(self, cursor: duckdb.DuckDBPyConnection, table: Table) -> list[str]:
        """Returns a problem for each step of ownership whose parent key leads to several rows."""
        assert table.ownership is not None
        problems = []
        for step in table.ownership.path:
            parent = self._catalog.tables[step.parent]
            columns = [self._tables.column(parent, b, type) for _, b, type in step.on]
            if _any(cursor, _repeated(self._tables.places[step.parent], columns)):
                names = ", ".join(b for _, b, _ in step.on)
                problems.append(
                    f"table {table.name} is owned through {step.parent}({names}), which names several rows at once"
                )
        return problems

    def __reduce__(self) -> Any:
        raise TypeError("a backend cannot be copied or pickled: it holds data")


def _open_all(catalog: Catalog, sources: Mapping[str, object]) -> dict[str, Source]:
    opened: dict[str, Source] = {}
    problems: list[str] = []
    for i, table in enumerate(catalog.tables):
        if table not in sources:
            problems.append(f"table {table} has no source")
            continue
        try:
            source = open_source(table, sources[table], _needed(catalog, table), _zones(catalog, table))
            opened[table] = replace(source, name=f"table{i}")
        except CatalogError as error:
            problems += error.problems
    if not problems:
        problems += twice(catalog, sources, opened)
    if problems:
        raise CatalogError(problems)
    return opened


def _needed(catalog: Catalog, table: str) -> dict[str, Type]:
    """Returns the stored columns that are read of a table: the declared ones, and those of ownership."""
    needed = {column.name: column.type for column in catalog.tables[table].columns.values()}
    for other in catalog.tables.values():
        if other.ownership is None:
            continue
        for step in other.ownership.path:
            if step.parent == table:
                needed |= {b: type for _, b, type in step.on if b not in needed}
    return needed


def _zones(catalog: Catalog, table: str) -> dict[str, str]:
    """Returns the declared zones of a table's columns that have one."""
    return {column.name: column.zone for column in catalog.tables[table].columns.values() if column.zone}


def _repeated(table: str, columns: list[str]) -> str:
    names = [f"k{i}" for i in range(len(columns))]
    read_columns = ", ".join(f"{sql} AS {k}" for sql, k in zip(columns, names, strict=True))
    present = " AND ".join(f"{k} IS NOT NULL" for k in names)
    grouped = f"SELECT 1 FROM (SELECT {read_columns} FROM {table}) WHERE {present} GROUP BY {', '.join(names)}"
    return f"{grouped} HAVING COUNT(*) > 1 LIMIT 1"


def _any(cursor: duckdb.DuckDBPyConnection, text: str) -> bool:
    return bool(_rows(cursor, text))


def _rows(cursor: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    with interruptible(cursor.interrupt):
        return cursor.execute(text).fetchall()
