"""Public tables in embedded DuckDB: what planning may know of them, and what runs above the privacy boundary.

It holds no private table. A backend that computes private plans elsewhere has this for a base class and adds `prepare`,
`run` and `gaps`: docs/how-to-contribute/add-a-backend.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from dpquery.backends.duckdb.engine import DuckDBEngine, Rows
from dpquery.backends.duckdb.private_statements import FEW_ROWS
from dpquery.backends.duckdb.sql.reading import is_zoned, most_equal, read, without_zone
from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.statements import fetch, fetch_rows
from dpquery.backends.duckdb.table_reading import TableReader
from dpquery.backends.resources import PUBLIC_PART, Resources
from dpquery.cancelling import interruptible
from dpquery.catalog import Catalog, Table
from dpquery.data.change_detection import Files, held, relied_on, with_weighed_held
from dpquery.data.owners import unique_sets
from dpquery.data.public_twins import twice
from dpquery.data.remote_sources import RemoteReading
from dpquery.data.sources import Source, open_source
from dpquery.errors import BackendError, CatalogError
from dpquery.plan.logical import Relation, output
from dpquery.plan.types import Kind, Type

CLOSED = "the session is closed; nothing was charged. Open a new one"


class PublicTables:
    """Holds the public tables of a catalog.

    Args:
        catalog: The declarations.
        sources: For each declared table its data. Of private ones only files and objects are compared with those of
            public ones, so that no source is both.
        resources: How much memory it takes, a part of what a session may use, and where it spills.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, object], *, resources: Resources | None = None) -> None:
        public = [name for name, table in catalog.tables.items() if table.public]
        self._hold(catalog, sources, public, resources=resources or Resources())
        self._read_schemas(self._public.cursor())
        self._check_data(self._public.cursor())

    def check(self) -> None:
        """Raises BackendError if what the promise takes from the data was changed; see `Backend`."""
        if self._is_closed:
            raise BackendError(CLOSED)
        self._files.check()

    def close(self) -> None:
        """Ends the engine and removes its temporary files."""
        with self._starting:
            self._is_closed = True
            if self._started is not None:
                self._started.close()

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

    def arrow(self, table: str) -> pa.Table:
        """Returns a public table as it is stored, in memory."""
        data = self._opened[table].data
        return (
            data if isinstance(data, pa.Table) else fetch(self._public.cursor(), f"FROM {self._tables.places[table]}")
        )

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
        """Returns sets of columns of which no two rows agree, of tables that were checked here; see `Sizes`."""
        return unique_sets(self._catalog, table) if table in self._opened else ()

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

    def _hold(
        self,
        catalog: Catalog,
        sources: Mapping[str, object],
        tables: Iterable[str],
        *,
        resources: Resources,
        reads: RemoteReading | None = None,
    ) -> None:
        """Opens the sources of tables, those that the promise rests on with memory of their own.

        Args:
            resources: What the engine of public tables may use, a part of what a session may.
            reads: What reads data elsewhere, if copies are not to be in memory.
        """
        with reads or RemoteReading() as reading:
            opened = _open_all(catalog, sources, tables, reading)
        prepared = {name for name, source in opened.items() if source.prepared is not None}
        checked = relied_on(catalog) & opened.keys() | prepared
        self._catalog, self._resources, self._is_closed = catalog, resources, False
        self._started: DuckDBEngine | None = None
        self._starting: threading.Lock = threading.Lock()
        self._public_rows: dict[tuple[str, tuple[str, ...]], Rows] = {}
        self._most_equal: dict[tuple[str, frozenset[str]], int] = {}
        self._opened = with_weighed_held(catalog, held(opened, checked))
        self._files = Files(self._opened, checked)
        self._tables = TableReader(catalog=catalog, opened=self._opened)

    @property
    def _public(self) -> DuckDBEngine:
        """The engine that knows public tables only. Most sessions never need it, so it starts when it is asked first.

        Raises:
            BackendError: The session was closed before.
        """
        with self._starting:
            if self._started is None:
                if self._is_closed:
                    raise BackendError(CLOSED)
                tables = self._catalog.tables
                known = {table: source for table, source in self._opened.items() if tables[table].public}
                memory = self._resources.settings(1, PUBLIC_PART)
                self._started = DuckDBEngine(known, keep_order=True, memory=memory, spill=self._resources.folder())
            return self._started

    def _read_schemas(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Finds the stored types; reports every needed column that is missing or cannot be read."""
        problems = []
        for table, source in self._opened.items():
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
        if self._opened[table].prepared is not None:  # was read as declared when it was written
            columns, types = self._catalog.tables[table].columns.values(), self._tables.stored[table]
            wrong = [c.name for c in columns if types.get(c.name) != type_name(c.type)]
            return [f"column {column} of the prepared table {table} is not as declared" for column in wrong]
        zones = _zones(self._catalog, table)
        for column, type in needed(self._catalog, table).items():
            stored, zone = self._tables.stored[table].get(column), zones.get(column, "")
            if stored is None:
                problems.append(f"table {table} has no column {column}")
            elif is_zoned(stored) and type.kind in (Kind.DATE, Kind.TIMESTAMP) and not zone:
                problems.append(without_zone(table, column, type))
            elif read(stored, type, "stored", zone) is None:
                problems.append(
                    f"column {column} of table {table} is stored as {stored}, which cannot be read as {type}"
                )
        return problems

    def _needed_types(self, table: str) -> dict[str, str]:
        """Returns the engine's types of the stored columns that are read of a table."""
        stored = self._tables.stored[table]
        if self._opened[table].prepared is not None:
            return stored
        return {column: stored[column] for column in needed(self._catalog, table)}

    def _check_data(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Checks what the promise takes from the data: unique public keys, and one owner for each row. Prepared data
        were checked when they were written."""
        problems = []
        for table in (self._catalog.tables[name] for name, source in self._opened.items() if source.prepared is None):
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
        columns = (self._tables.column(table, name, type) for name, type in needed(self._catalog, table.name).items())
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
                    f"table {table.name} is owned through {step.parent}({names}), which is not unique there"
                )
        return problems

    def __reduce__(self) -> Any:
        raise TypeError("a backend cannot be copied or pickled, because it holds data")


def _open_all(
    catalog: Catalog, sources: Mapping[str, object], tables: Iterable[str], reading: RemoteReading
) -> dict[str, Source]:
    opened: dict[str, Source] = {}
    problems: list[str] = []
    for i, table in enumerate(tables):
        if table not in sources:
            problems.append(f"table {table} has no source")
            continue
        try:
            source = open_source(table, sources[table], needed(catalog, table), _zones(catalog, table), reading)
            opened[table] = replace(source, name=f"table{i}")
        except CatalogError as error:
            problems += error.problems
    if not problems:
        problems += twice(catalog, sources, opened)
    if problems:
        raise CatalogError(problems)
    return opened


def needed(catalog: Catalog, table: str) -> dict[str, Type]:
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
