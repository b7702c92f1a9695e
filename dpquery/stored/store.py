"""The store of releases: an SQLite file beside the ledger, shared by all processes of a machine.

It holds nothing but what was released already, so a lost store costs money and a read one tells nobody more than the
answers did. A row is believed only if its own hash is right and the ledger holds the entry that it was charged with.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.kernel.ledger import Ledger
from dpquery.stored.releases import Release, from_text, to_text
from dpquery.stored.text import digest

APPLICATION_ID = 0x64705131 ^ 0x5354  # "dpQ1" and "ST"
VERSION = 1
SUFFIX = ".releases"
PATIENCE = 5.0  # seconds to wait for another process's write

SCHEMA = (
    "CREATE TABLE origin (ledger TEXT NOT NULL) STRICT",
    """CREATE TABLE release (
    number INTEGER PRIMARY KEY, version TEXT NOT NULL, base TEXT NOT NULL, entry INTEGER NOT NULL,
    analyst TEXT NOT NULL, time TEXT NOT NULL, content TEXT NOT NULL, hash TEXT NOT NULL
) STRICT""",
    "CREATE INDEX found ON release (version, base)",
)
_FIND = """SELECT number, entry, analyst, time, content, hash FROM release
    WHERE version = ? AND base = ? AND number > ? ORDER BY number"""
_ADD = "INSERT INTO release (version, base, entry, analyst, time, content, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"


State = tuple[int, int, int]
"""Changes when something was added, by whichever process."""

_LOCK = threading.RLock()  # one use at a time in this process, and no fork during one
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
_INHERITED: list[sqlite3.Connection] = []  # made before a fork; a child neither uses nor closes them


@dataclass(slots=True)
class _Known:
    """The releases over one base that were read, and the last row and state of the file that were looked at."""

    last: int = 0
    state: State | None = None
    releases: list[Release] = field(default_factory=list)


class Store:
    """The releases of one ledger. Safe to share between threads and across a fork.

    Args:
        path: The ledger's; the store stands beside it, and is made when the first answer is kept.
        ledger: What the releases were charged in.
    Raises:
        LedgerError: What stands there is no store of this ledger.
    """

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._path, self._ledger = path.with_name(path.name + SUFFIX), ledger
        self._origin = ledger.hash_of(0) or ""
        self._connection: sqlite3.Connection | None = None
        self._process = self._opened = 0
        self._known: dict[tuple[str, str], _Known] = {}
        self._turns: dict[str, tuple[threading.Lock, int]] = {}
        self._turns_of = os.getpid()
        with self._using(create=False):
            pass

    @property
    def path(self) -> Path:
        """Where the store stands, or will."""
        return self._path

    def state(self) -> State:
        """Returns what changes when something was added, by whichever process."""
        with self._using(create=False) as connection:
            return (0, 0, 0) if connection is None else self._state(connection)

    def find(self, version: str, base: str) -> Sequence[Release]:
        """Returns the releases over these rows of this version of the data, oldest first."""
        with self._using(create=False) as connection:
            if connection is None:
                return ()
            known = self._known.setdefault((version, base), _Known())
            state = self._state(connection)
            if known.state != state:
                for row in connection.execute(_FIND, (version, digest(base), known.last)).fetchall():
                    known.releases.append(self._read(version, base, row))
                    known.last = row[0]
                known.state = state
            return tuple(known.releases)

    def add(self, version: str, releases: Sequence[Release]) -> None:
        """Keeps releases; they were charged for before, and are lost without harm."""
        if not releases:
            return
        with self._using(create=True) as connection:
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            for release in releases:
                fields = (version, digest(release.frame.base), release.entry, release.analyst, release.time)
                content = to_text(release)
                connection.execute(_ADD, (*fields, content, self._hash(*fields, content)))
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def turn(self, question: str) -> Iterator[None]:
        """Lets one thread at a time measure the same, so that the next finds what was measured."""
        with _LOCK:
            if self._turns_of != os.getpid():
                self._turns, self._turns_of = {}, os.getpid()
            lock, waiting = self._turns.get(question, (threading.Lock(), 0))
            self._turns[question] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with _LOCK:
                lock, waiting = self._turns.pop(question)
                if waiting > 1:
                    self._turns[question] = (lock, waiting - 1)

    def close(self) -> None:
        """Closes this process's connection; the next use opens another."""
        with _LOCK:
            connection, self._connection = self._connection, None
            self._known.clear()
            if connection is not None and self._process == os.getpid():
                connection.close()
            elif connection is not None:
                _INHERITED.append(connection)

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None and not sys.is_finalizing():
            self.close()

    def _read(self, version: str, base: str, row: tuple[int, int, str, str, str, str]) -> Release:
        number, entry, analyst, time, content, hash = row
        if hash != self._hash(version, digest(base), entry, analyst, time, content):
            raise self._refused(f"row {number} was changed, or was not charged in this ledger")
        try:
            release = from_text(content, entry=entry, analyst=analyst, time=time)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._refused(f"row {number} is of the wrong form") from error
        if release.frame.base != base:
            raise self._refused(f"row {number} is of other rows than it says")
        return release

    def _hash(self, version: str, base: str, entry: int, analyst: str, time: str, content: str) -> str:
        """Returns the hash of a row, chained to the ledger's entry; of an entry that is not there, none is right."""
        charged = self._ledger.hash_of(entry) if entry > 0 else None
        if charged is None:
            raise self._refused(f"it holds a release of entry {entry}, which the ledger does not have")
        return digest(self._origin, charged, version, base, str(entry), analyst, time, content)

    @contextlib.contextmanager
    def _using(self, *, create: bool) -> Iterator[sqlite3.Connection | None]:
        with _LOCK:
            try:
                yield self._connected(create)
            except (sqlite3.Error, UnicodeError, OSError) as error:
                self.close()
                raise self._refused(str(error)) from error

    def _connected(self, create: bool) -> sqlite3.Connection | None:
        """Returns this process's connection to a store that was looked at; None where there is none."""
        if self._connection is not None and self._process != os.getpid():
            self.close()
        if self._connection is not None:
            return self._connection
        if not os.path.lexists(self._path):
            if not create:
                return None
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        status = os.lstat(self._path)
        if not os.path.isfile(self._path) or os.path.islink(self._path) or (os.name == "posix" and status.st_mode & 18):
            raise self._refused("it is no regular file, or others may write to it")
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA trusted_schema = 0")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._found(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._process, self._opened = connection, os.getpid(), self._opened + 1
        return connection

    def _found(self, connection: sqlite3.Connection) -> None:
        """Makes the tables of an empty store, and refuses what is none of this ledger."""
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
            raise self._refused(f"it is no store of format {VERSION}")
        written = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
        if written != [(statement,) for statement in SCHEMA]:
            raise self._refused("its tables are not as they were created")
        if connection.execute("SELECT ledger FROM origin").fetchall() != [(self._origin,)]:
            raise self._refused("it belongs to another ledger")

    def _state(self, connection: sqlite3.Connection) -> State:
        (others,) = connection.execute("PRAGMA data_version").fetchone()
        return self._opened, int(others), connection.total_changes

    def _refused(self, reason: str) -> LedgerError:
        return LedgerError(
            f"the store of answers {self._path} is refused: {reason}. Nothing was charged. Remove the file to go on; "
            "answers that it held are then paid for again"
        )
