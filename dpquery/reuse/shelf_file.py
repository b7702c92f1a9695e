"""Stored releases in an SQLite file beside the ledger's, shared by all processes of a machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger.store import PATIENCE
from dpquery.reuse.shelf import COLUMNS, NOTHING, Fields, Shelf, State

APPLICATION_ID = 0x64705131 ^ 0x5354  # "dpQ1" and "ST"
VERSION = 1
SUFFIX = ".releases"
SETTINGS = {"journal_mode": "delete", "synchronous": 3, "trusted_schema": 0, "cell_size_check": 1, "fullfsync": 1}
TURNS = ".turns"
LONGEST_TURN, PAUSE = 600.0, 0.01
"""Seconds that a question waits for the same one of another process, and from one look to the next."""
MOST_OF_JOURNAL = 1 << 22
"""Bytes of a journal that are kept."""
SCHEMA = (
    "CREATE TABLE origin (ledger TEXT NOT NULL) STRICT",
    """CREATE TABLE release (
    number INTEGER PRIMARY KEY, version TEXT NOT NULL, base TEXT NOT NULL, entry INTEGER NOT NULL,
    analyst TEXT NOT NULL, time TEXT NOT NULL, content TEXT NOT NULL, hash TEXT NOT NULL
) STRICT""",
    "CREATE INDEX found ON release (version, base)",
)


class ShelfFile(Shelf):
    """The file at a path; commits are as durable as the ledger's."""

    failures = (sqlite3.Error, UnicodeError, OSError)
    table, mark, place_of = "release", "?", "instr(content, ?)"

    def __init__(self, ledger: Path, origin: str) -> None:
        self.path = ledger.with_name(ledger.name + SUFFIX)
        super().__init__(str(self.path), origin, "Remove the file")

    def state(self) -> State:
        """Returns what changes when something was added."""
        with self._using() as connection:
            if connection is None:
                return NOTHING
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return self._opened, int(others), connection.total_changes

    def add(self, rows: Sequence[Fields]) -> None:
        """Keeps rows durably, all or none."""
        with self._using(create=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            marks = ", ".join("?" for _ in Fields._fields)
            connection.executemany(f"INSERT INTO release ({COLUMNS}) VALUES ({marks})", rows)
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def turn(self, question: int) -> Iterator[None]:
        """Holds a lock on one byte of a file of its own, whose place is the question; it ends with the process.

        Without such locks, or after very long, the question is asked all the same: it may then be paid for twice.
        """
        with contextlib.ExitStack() as ending:
            if sys.platform == "linux":
                with contextlib.suppress(OSError):
                    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                    descriptor = os.open(f"{self.path}{TURNS}", flags, 0o600)
                    ending.callback(os.close, descriptor)
                    _lock(descriptor, question)
            yield

    def _open(self, *, create: bool) -> sqlite3.Connection | None:
        if not os.path.lexists(self.path):
            if not create:
                return None
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        status = os.lstat(self.path)
        if not os.path.isfile(self.path) or os.path.islink(self.path) or (os.name == "posix" and status.st_mode & 0o22):
            raise self.refused("it is not a regular file, or other users may write to it")
        connection = _connect(self.path)
        try:
            _configure(connection)
            _keep_journal(connection)
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Makes the tables of an empty file, and refuses what is not a shelf of this ledger."""
        connection.execute("BEGIN IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if not tables and not application:
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO origin VALUES (?)", (self._origin,))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID or version != VERSION:
            raise self.refused(f"it is not a store of format {VERSION}")
        written = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        if written != [(statement,) for statement in SCHEMA]:
            raise self.refused("its tables were altered")
        if connection.execute("SELECT ledger FROM origin").fetchall() != [(self._origin,)]:
            raise self.refused("it belongs to another ledger")


def _lock(descriptor: int, place: int) -> None:
    """Locks a byte as soon as no other process holds it, or gives up; raises OSError where that cannot be."""
    import fcntl

    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    until = time.monotonic() + LONGEST_TURN
    while time.monotonic() < until:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
            return
        except BlockingIOError:
            time.sleep(PAUSE)


def _connect(path: Path) -> sqlite3.Connection:
    """Returns a connection to an existing file, without implicit transactions; never creates the file."""
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _configure(connection: sqlite3.Connection) -> None:
    """Makes each commit durable: rollback journal, file and directory synced. Reads every setting back."""
    for setting, value in SETTINGS.items():
        connection.execute(f"PRAGMA {setting} = {value}")
        if connection.execute(f"PRAGMA {setting}").fetchone() != (value,):
            raise LedgerError(f"this SQLite does not accept the setting {setting} = {value}")


def _keep_journal(connection: sqlite3.Connection) -> None:
    """Lets the journal's file stay when a transaction ends, its beginning overwritten and synced: as durable as to
    delete it and sync the folder, and two steps less for the disk."""
    if connection.execute("PRAGMA journal_mode = persist").fetchone() != ("persist",):
        raise LedgerError("this SQLite does not support persistent journals")
    connection.execute(f"PRAGMA journal_size_limit = {MOST_OF_JOURNAL}")
