"""Embedded DuckDB, locked down: it reads the sources that it was given, and nothing else."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Mapping

import duckdb
import pyarrow as pa

from dpquery.arrow import arrow_type
from dpquery.backends.sources import Source, quote
from dpquery.backends.statements import Statements
from dpquery.errors import BackendError, CatalogError
from dpquery.plan.types import Type, Value

LOCK = {
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_extension_repositories": "'forbidden'",
    "allow_persistent_secrets": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}
"""Settings of both engines, in the order in which they are made, and read back afterwards."""
MOST_DOMAINS = 64
"""Public domains that a thread keeps registered before it forgets them."""


class Engine:
    """An engine that can read the given sources and nothing else, with its settings locked.

    What Python registers is visible to one connection alone, so each thread has a cursor with the data registered.
    """

    def __init__(self, opened: Mapping[str, Source], *, keep_order: bool) -> None:
        self._data = {source.name: source.data for source in opened.values() if source.data is not None}
        self._root = duckdb.connect(":memory:")
        self._threads = threading.local()
        self._guard = threading.Lock()
        self._counter = itertools.count(1)
        _attach(self._root, opened)
        files = ", ".join(quote(file) for source in opened.values() for file in source.files)
        self._root.execute(f"SET preserve_insertion_order = {str(keep_order).lower()}")
        self._root.execute("SET disabled_optimizers = 'top_n_window_elimination'")
        self._root.execute("SET temp_directory = ''")
        self._root.execute("SET enable_progress_bar = false")
        self._root.execute("SET allowed_directories = []")
        self._root.execute(f"SET allowed_paths = [{files}]")
        for setting, value in LOCK.items():
            self._root.execute(f"SET {setting} = {value}")
        found = dict(self._root.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        if any(str(found.get(setting)).lower() != value.strip("'") for setting, value in LOCK.items()):
            raise BackendError("the embedded engine did not take its locks")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns this thread's connection to the engine."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._threads, "cursor", None)
        if cursor is None:
            with self._guard:
                cursor = self._root.cursor()
            try:
                for registered, data in self._data.items():
                    cursor.register(registered, data)
            except duckdb.Error:
                raise CatalogError("a source has a column of a type that the engine does not read") from None
            self._threads.cursor, self._threads.domains = cursor, {}
            self._threads.statements = Statements(cursor)
        return cursor

    @property
    def statements(self) -> Statements:
        """The statements that this thread's connection keeps planned."""
        self.cursor()
        statements: Statements = self._threads.statements
        return statements

    def domain(self, type: Type, values: tuple[Value, ...]) -> str:
        """Returns the name, for this thread, of a table with the columns `value` and `code`, its place in `values`."""
        self.cursor()
        known: dict[tuple[Type, tuple[Value, ...]], str] = self._threads.domains
        if (type, values) not in known:
            codes = pa.array(range(len(values)), pa.int64())
            known[type, values] = self.register(pa.table({"value": pa.array(values, arrow_type(type)), "code": codes}))
        return known[type, values]

    def forget_domains(self) -> None:
        """Forgets this thread's domains where they are many; between statements, for each needs all of its own."""
        cursor = self.cursor()
        known: dict[tuple[Type, tuple[Value, ...]], str] = self._threads.domains
        if len(known) >= MOST_DOMAINS:
            for registered in known.values():
                cursor.unregister(registered)
            known.clear()

    def register(self, table: pa.Table) -> str:
        """Returns the name, for this thread, of a table that is new to the engine."""
        registered = f"made{next(self._counter)}"
        self.cursor().register(registered, table)
        return registered


def _attach(root: duckdb.DuckDBPyConnection, opened: Mapping[str, Source]) -> None:
    for table, source in opened.items():
        if source.database is None:
            continue
        attached = False
        with contextlib.suppress(duckdb.Error):
            root.execute(f"ATTACH {quote(source.database)} AS {source.name} (READ_ONLY)")
            attached = True
        if not attached:
            raise CatalogError(f"the source of table {table} is no DuckDB file, or is in use")
