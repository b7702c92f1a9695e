"""A ledger in an SQLite file: where it may lie, and durable transactions on it, one at a time in each process.

Every failure of SQLite or of the file system becomes a LedgerError. docs/proofs/ledger.md says why the settings are
what they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger import schema
from dpquery.ledger.store import BUSY, PATIENCE, Connection, Store

SETTINGS = {"journal_mode": "delete", "synchronous": 3, "trusted_schema": 0, "cell_size_check": 1, "fullfsync": 1}
NETWORK = {"afs", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
APPLICATION_ID = 0x64705131  # "dpQ1"
TABLES = schema.tables("INTEGER", keyed=" STRICT, WITHOUT ROWID", strict=" STRICT")


class LedgerFile(Store):
    """An existing file, and this process's connection to it."""

    failures = (sqlite3.Error, UnicodeError)  # damage may garble even SQLite's own messages
    _connection: sqlite3.Connection | None

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._identity = check_file(path)

    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connected()
        try:
            connection.execute("PRAGMA shrink_memory")  # so that every page is read from the file as it is now
            connection.execute("BEGIN IMMEDIATE")
            if _identity(self._path) != self._identity:
                raise LedgerError("the file was moved, deleted or replaced while it was open")
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def _connected(self) -> sqlite3.Connection:
        """Returns this process's own connection, opened if need be."""
        if self._process != os.getpid() or (self._connection and self._connection.in_transaction):
            self.close()
        if self._connection is None:
            connection = connect(self._path)
            try:
                check_kind(connection)
                configure(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._process = connection, os.getpid()
        return self._connection

    def _explain(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", None) or 0
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BUSY
        self.close()
        self.is_suspect = True
        # After a failed write or sync the system's cache may show what the disk does not hold.
        self._stopped = code & 0xFF == sqlite3.SQLITE_IOERR
        return f"the ledger cannot be used: {error}"

    def check(self, connection: Connection) -> None:
        """Raises LedgerError unless SQLite finds its pages sound, with the tables that were created and no more."""
        check_kind(connection)
        schema.demand(
            connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "its pages are inconsistent"
        )
        found = connection.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
        schema.demand(found == [(statement,) for statement in TABLES], "its tables are not as they were created")


def make(path: Path, fill: Callable[[Connection], None]) -> None:
    """Makes a ledger's file, filled within one transaction; refuses a path where anything stands, and cleans up."""
    if any(os.path.lexists(f"{path}{suffix}") for suffix in ("", "-journal", "-wal", "-shm")):
        raise LedgerError(f"{path} exists, or a journal of it; open it, or choose another path")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LedgerError(f"{path} cannot be created: {error.strerror}") from error
    try:
        with contextlib.closing(connect(path)) as connection:
            configure(connection)
            connection.execute("BEGIN IMMEDIATE")
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {schema.VERSION}")
            fill(connection)
            connection.execute("COMMIT")
    except BaseException as error:
        path.unlink()
        if isinstance(error, sqlite3.Error):
            raise LedgerError(f"{path} cannot be written: {error}") from error
        raise


def check_kind(connection: Connection) -> None:
    """Raises LedgerError unless the file says that it is a ledger of this version; only reads."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerError("the file is no ledger of dpquery")
    if version != schema.VERSION:
        raise LedgerError(f"the ledger has format {version}; this release of dpquery reads format {schema.VERSION}")


def connect(path: Path) -> sqlite3.Connection:
    """Returns a connection to an existing file, without implicit transactions; never creates the file."""
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def configure(connection: sqlite3.Connection) -> None:
    """Makes each commit durable: rollback journal, file and directory synced. Reads every setting back."""
    for setting, value in SETTINGS.items():
        connection.execute(f"PRAGMA {setting} = {value}")
        if connection.execute(f"PRAGMA {setting}").fetchone() != (value,):
            raise LedgerError(f"this SQLite does not accept the setting {setting} = {value}")


def place(path: str | os.PathLike[str]) -> Path:
    """Returns the absolute path of a ledger in an existing, writable directory of a local file system."""
    given = Path(path)
    folder = Path(os.path.realpath(given.parent))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise LedgerError(f"{folder} is no directory, or not writable; the ledger and its journal need one")
    if (system := file_system(folder)) in NETWORK:
        raise LedgerError(f"{folder} is on a network file system ({system}), whose locks fail; use a local disk")
    return folder / given.name


def check_file(path: Path) -> tuple[int, int]:
    """Returns the identity of a file that may be a ledger: regular, with one name, not empty, only its owner's."""
    try:
        status = os.lstat(path)
    except OSError as error:
        raise LedgerError(f"{path}: there is no ledger here ({error.strerror}); the owner creates it") from error
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise LedgerError(f"{path}: a ledger is a regular file, no link and no directory, with one name only")
    if status.st_size == 0:
        raise LedgerError(f"{path}: the file is empty; if no query was ever answered from it, delete and create it")
    if os.name == "posix" and status.st_mode & 0o022:
        raise LedgerError(f"{path}: other users may write to the ledger; run chmod 600 on it")
    if not os.access(path, os.R_OK | os.W_OK):
        raise LedgerError(f"{path}: the ledger is not writable, so nothing can be charged")
    return status.st_dev, status.st_ino


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Returns the type of the file system that holds a folder, or "" where the system does not tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    best, found = 0, ""
    for line in lines:
        _, raw, kind, *_ = line.split(" ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), raw)
        if folder.is_relative_to(point) and len(point) >= best:
            best, found = len(point), kind
    return found
