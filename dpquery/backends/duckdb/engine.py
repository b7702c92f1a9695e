"""Embedded DuckDB, locked down: it reads the sources that it was given, and nothing else."""

from __future__ import annotations

import contextlib
import copy
import datetime
import itertools
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from fsspec import AbstractFileSystem

from dpquery.backends.duckdb.statements import parsed
from dpquery.backends.resources import Spill
from dpquery.data.arrow import arrow_type
from dpquery.data.encrypted_files import EncryptedFileReader, EncryptionKey, Writer
from dpquery.data.sources import SEALED, Source, address, quote
from dpquery.errors import BackendError, CatalogError
from dpquery.plan.types import Type, Value

LOCK = {
    "python_enable_replacements": "false",  # no name in a statement is a variable of Python
    "python_scan_all_frames": "false",  # nor one of a caller
    "autoinstall_known_extensions": "false",  # nothing is downloaded
    "autoload_known_extensions": "false",  # no code is loaded that could read something else
    "allow_community_extensions": "false",  # nor code that DuckDB's makers did not write
    "allow_extension_repositories": "'forbidden'",  # nor from a place that somebody names
    "allow_persistent_secrets": "false",  # no passwords of the user's other databases are read
    "temp_file_encryption": "true",  # private rows may spill to the disk
    "enable_external_access": "false",  # no file and no address but those of `allowed_paths`
    "lock_configuration": "true",  # last, as it also forbids to change the others
}
"""Settings of both engines, in the order in which they are made, and read back afterwards."""
PRIVATE_SETTINGS = {
    # Memory is handed back at once, so that what one person's rows take does not stay and grow over queries
    # (docs/proofs/work.md). By default 512 MB are kept: https://github.com/duckdb/duckdb/pull/13796. Until DuckDB hands
    # memory back when a query ends.
    "allocator_bulk_deallocation_flush_threshold": "'100KB'",
    "perfect_ht_threshold": "17",  # up to 2^16 combinations of public keys, and NULL, are grouped with no hashes
}
"""Settings of the engine of private tables."""
FILE_SETTINGS = {"allocator_bulk_deallocation_flush_threshold": "'300KB'"}
"""Settings of one that reads files: to hand back each block of 256 KB takes twice as long as to read a page. Freed
pieces that are larger are handed back, so that threads do not each keep what the steps of a statement used; `hand_back`
does the rest once for a statement."""
PREPARED_SETTINGS = {
    "allocator_bulk_deallocation_flush_threshold": "'1200KB'",  # their pages are freed in pieces of up to 1 MB
    "parquet_metadata_cache": "true",  # a table may have hundreds of files, and what they say of themselves is long
}
"""Settings of one that reads prepared data."""
HANDED_BACK = "CREATE TABLE large AS SELECT NULL::INTEGER[400] AS value"
HAND_BACK = "WITH kept AS MATERIALIZED (FROM large) SELECT COUNT(value) FROM kept"
"""The engine asks for 3 MB at once to read the table that the first makes, more than the threshold, and uses none."""
LEFT_OUT = (
    # In DuckDB 1.5 it lost rows (https://github.com/duckdb/duckdb/issues/24363) and failed with internal errors, some
    # by what the rows hold (https://github.com/duckdb/duckdb/issues/20928, /24710). The examples pass in 2.0.0. Until
    # reports of it that are open, such as https://github.com/duckdb/duckdb/issues/21387, are closed, and tests/cases
    # and tests/backends pass without this line.
    "top_n_window_elimination",
)
"""Optimisations that no engine makes."""
OF_VALUES = "join_filter_pushdown"
"""Optimisation by which values of one side of a join decide which rows of the other are read."""
OF_STATISTICS = "statistics_propagation"
"""Optimisation by which the least and the greatest value of a column decide how a plan runs, and whether it does. Only
tables of the engine and files have statistics: tables in memory have none."""
MOST_DOMAINS = 64
"""Public domains whose names an engine remembers, and that a thread keeps registered, before it forgets them."""


STORED_FROM, STORED_TO = 32, 2**16
"""How many rows domains have that are stored in the engine and not read in place."""

Rows = tuple[tuple[Value, ...], ...]
_DOMAINS = itertools.count(1)
"""Numbers of domains. Sessions share where statements are bound, so that two of them have none with one name."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Public values of columns, and the name of the table that holds them.

    Its columns are `value0`, `value1`, ... of the types, and `code`, the place of a row's values in `rows`.
    """

    name: str
    types: tuple[Type, ...]
    rows: Rows

    @property
    def is_stored(self) -> bool:
        """Whether it becomes a table of the engine, which then knows how far its codes reach."""
        return STORED_FROM <= len(self.rows) <= STORED_TO

    @property
    def table(self) -> pa.Table:
        """The table itself."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.types)
        values = [pa.array(column, arrow_type(type)) for column, type in zip(columns, self.types, strict=True)]
        made = {f"value{i}": column for i, column in enumerate(values)}
        return pa.table({**made, "code": pa.array(range(len(self.rows)), pa.int64())})


class DuckDBEngine:
    """An engine that can read the given sources and nothing else, with its settings locked.

    What Python registers is visible to one connection alone, so each thread has a cursor with the data registered.

    Args:
        opened: What it reads.
        keep_order: Whether rows keep their order.
        made: Statements of ours that create further tables.
        memory: Its setting of memory.
        spill: Its folder for temporary files; without one none are written.
        left_out: Optimisations that it does not make, beside those of `LEFT_OUT`.
        writes: The folder that it may write to, if any.
        key: With which it seals what it writes there, if that is given.
    """

    def __init__(
        self,
        opened: Mapping[str, Source],
        *,
        keep_order: bool,
        made: Sequence[str] = (),
        memory: Mapping[str, str] | None = None,
        spill: Spill | None = None,
        left_out: Sequence[str] = (),
        writes: str = "",
        key: EncryptionKey | None = None,
    ) -> None:
        self._spill = spill
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._data = {source.name: source.data for source in opened.values() if source.data is not None}
        self._root = duckdb.connect(":memory:")
        self._schema = ""
        self._threads = threading.local()
        self._guard = threading.Lock()
        self._counter = itertools.count(1)
        self._domains: dict[tuple[tuple[Type, ...], Rows], Domain] = {}
        _attach(self._root, opened)
        for statement in made:
            self._root.execute(statement)
        files = ", ".join(quote(address(f, source.key)) for source in opened.values() for f in source.files)
        # A file system of ours, whose addresses are allowed as others are.
        keys = {source.key for source in opened.values()} | {key}
        for held in (held for held in keys if held is not None):
            self._root.register_filesystem(SealedFiles(held))
        # Only where the order of rows is part of an answer: to keep it costs memory.
        self._root.execute(f"SET preserve_insertion_order = {str(keep_order).lower()}")
        # Each has its reason where it is named.
        self._root.execute(f"SET disabled_optimizers = '{','.join([*LEFT_OUT, *left_out])}'")
        # The engine encrypts its temporary files by a module whose keys it draws from a generator that it calls unsafe
        # itself (docs/known-weaknesses.md); the other module would have to be downloaded. Without the setting no
        # temporary file is encrypted (https://github.com/duckdb/duckdb/pull/20148, /20420). Until DuckDB's wheels bring
        # OpenSSL, and a query spills without this line (tests/backends/test_resources.py).
        self._root.execute("SET force_mbedtls_unsafe = 'true'")
        # By default files would be written to the working directory.
        self._root.execute(f"SET temp_directory = {quote('' if spill is None else spill.path)}")
        for setting, value in (memory or {}).items():
            self._root.execute(f"SET GLOBAL {setting} = {value}")  # for the threads' connections too
        _hide_progress(self._root)
        folders = ", ".join(quote(address(writes, one)) for one in (None, key)) if writes else "''"
        # What may be read and written although `LOCK` forbids the rest.
        self._root.execute(f"SET allowed_directories = [{folders}]")
        # The files of the sources, each by name.
        self._root.execute(f"SET allowed_paths = [{files}]")
        for setting, value in LOCK.items():
            self._root.execute(f"SET {setting} = {value}")  # each has its reason in `LOCK`
        names = (*LOCK, "temp_directory")
        read = ", ".join(f"current_setting({quote(name)})" for name in names)
        (values,) = self._root.execute(f"SELECT {read}").fetchall()
        found = dict(zip(names, values, strict=True))
        if any(str(found.get(setting)).lower() != value.strip("'") for setting, value in LOCK.items()):
            raise BackendError("the embedded engine did not accept its restrictions")
        if found["temp_directory"] != ("" if spill is None else spill.path):
            raise BackendError("the embedded engine did not accept its folder for temporary files")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns this thread's connection to the engine."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._threads, "cursor", None)
        if cursor is None:
            with self._guard:
                cursor = self._root.cursor()
                self._cursors.append(cursor)
            if self._schema:
                cursor.execute(f"USE {self._schema}")
            self._threads.cursor, self._threads.domains = cursor, dict[str, Domain]()
            self._threads.held = set[str]()
        held: set[str] = self._threads.held
        if len(held) < len(self._data):
            try:
                for registered in self._data.keys() - held:
                    cursor.register(registered, self._data[registered])
                    held.add(registered)
            except duckdb.Error:
                raise CatalogError("a source has a column of a type that the engine cannot read") from None
        return cursor

    def within(self, schema: str, made: Sequence[str]) -> DuckDBEngine:
        """Returns the engine as it is to someone whose statements name the tables of a schema, which is new.

        Args:
            schema: Its name.
            made: Statements of ours that create its tables.
        """
        part = copy.copy(self)
        part._schema, part._cursors, part._threads, part._domains = schema, [], threading.local(), {}
        with self._guard:
            self._root.execute(f"CREATE SCHEMA {schema}")
        for statement in made:
            part.cursor().execute(statement)
        return part

    def hold(self, registered: str, data: pa.Table) -> None:
        """Makes a table of a new name readable in every thread, as long as the engine is there."""
        with self._guard:
            self._data = {**self._data, registered: data}

    def hand_back(self) -> None:
        """Hands the memory that statements have freed back to the system; where it is short, that was done."""
        with contextlib.suppress(duckdb.Error):
            self.cursor().execute(parsed(HAND_BACK)).fetchall()

    def close(self) -> None:
        """Ends the engine and removes its temporary files; what runs fails."""
        with self._guard:
            for cursor in (*self._cursors, self._root):
                with contextlib.suppress(duckdb.Error):
                    cursor.interrupt()
                    cursor.close()
            self._cursors.clear()
        if self._spill is not None:
            self._spill.remove()

    def domain(self, types: tuple[Type, ...], rows: Rows) -> Domain:
        """Returns the domain of these rows, under one name for as long as it is remembered."""
        with self._guard:
            if (types, rows) not in self._domains:
                if len(self._domains) >= MOST_DOMAINS:
                    self._domains.clear()
                made = Domain(f"domain{next(_DOMAINS)}", types, rows)
                self._domains[types, rows] = made
            return self._domains[types, rows]

    def provide(self, domains: Iterable[Domain]) -> None:
        """Makes domains readable in this thread's next statement."""
        cursor, needed = self.cursor(), {domain.name: domain for domain in domains}
        known: dict[str, Domain] = self._threads.domains
        if len(known) >= MOST_DOMAINS:
            for forgotten in known.keys() - needed.keys():
                if known.pop(forgotten).is_stored:
                    cursor.execute(f"DROP TABLE {forgotten}")
                else:
                    cursor.unregister(forgotten)
        for name in needed.keys() - known.keys():
            given = f"{name}_given" if needed[name].is_stored else name
            cursor.register(given, needed[name].table)
            if needed[name].is_stored:
                cursor.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {given}")
                cursor.unregister(given)
            known[name] = needed[name]

    def register(self, table: pa.Table) -> str:
        """Returns the name, for this thread, of a table that is new to the engine."""
        registered = f"made{next(self._counter)}"
        self.cursor().register(registered, table)
        return registered


def _hide_progress(root: duckdb.DuckDBPyConnection) -> None:
    """Turns the progress bar off if the engine turned it on, which it does only if it can draw one.

    In a Jupyter kernel without ipywidgets the setting cannot be changed at all, not even to what it is:
    https://github.com/duckdb/duckdb/issues/7590, closed, and still so in 2.0. Until it can be set to false there.
    """
    if root.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
        root.execute("SET enable_progress_bar = false")  # it would be drawn into an analyst's notebook


def _attach(root: duckdb.DuckDBPyConnection, opened: Mapping[str, Source]) -> None:
    for table, source in opened.items():
        if source.database is None:
            continue
        attached = False
        with contextlib.suppress(duckdb.Error):
            root.execute(f"ATTACH {quote(source.database)} AS {source.name} (READ_ONLY)")
            attached = True
        if not attached:
            raise CatalogError(f"the source of table {table} is not a DuckDB file, or is in use")


class SealedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system of one key: `SEALED` and a path is the address of a sealed file.

    The engine's own encryption of Parquet draws its nonces from a generator that it calls unsafe itself, and decrypts
    ten times more slowly than it reads. Which addresses are opened the engine's settings say.
    """

    protocol = SEALED.removesuffix("://")
    cachable = False  # two engines have two keys

    def __init__(self, key: EncryptionKey) -> None:
        super().__init__()
        self._key = key

    def open(self, path: str, mode: str = "rb", **_: Any) -> EncryptedFileReader | Writer:
        """Returns a file as it was before encryption."""
        return Writer(_path(path), self._key) if "w" in mode else EncryptedFileReader(_path(path), self._key)

    def size(self, path: str) -> int:
        """Returns how long a file was before encryption."""
        with EncryptedFileReader(_path(path), self._key) as file:
            return file.size

    def modified(self, path: str) -> datetime.datetime:
        """Returns when a file was changed last."""
        return datetime.datetime.fromtimestamp(os.stat(_path(path)).st_mtime, datetime.UTC)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is a file or a folder."""
        return os.path.exists(_path(path))

    def isfile(self, path: str) -> bool:
        """Whether there is a file."""
        return os.path.isfile(_path(path))

    def isdir(self, path: str) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(_path(path))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a folder that only its owner may open."""
        os.mkdir(_path(path), 0o700)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns what a folder holds."""
        found = list(os.scandir(_path(path)))
        if not detail:
            return [f"{SEALED}{entry.path}" for entry in found]
        kinds = [("directory" if entry.is_dir() else "file", entry) for entry in found]
        return [{"name": f"{SEALED}{e.path}", "type": kind, "size": e.stat().st_size} for kind, e in kinds]

    def glob(self, path: str, **_: Any) -> list[str]:
        """Returns the address itself, where there is something: names hold no patterns."""
        return [path] if self.exists(path) else []


def _path(address: str) -> str:
    return address.removeprefix(SEALED)
