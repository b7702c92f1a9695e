"""A ledger in a PostgreSQL database, for several machines: durable transactions, one at a time. docs/proofs/ledger.md.

The driver is used for the ledger alone: no private row passes here, and no analyst's SQL.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpquery.errors import LedgerError
from dpquery.ledger import schema
from dpquery.ledger.schema import Record
from dpquery.ledger.store import BUSY, LOCK, PATIENCE, Log, Store

try:
    import psycopg
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise LedgerError("a ledger in PostgreSQL needs its driver: pip install 'dpquery[postgres]'") from error

SCHEMA = "dpquery_ledger"
TABLES = (
    """CREATE TABLE record (
    number BIGINT PRIMARY KEY, seq BIGINT NOT NULL, kind TEXT NOT NULL, line TEXT NOT NULL
)""",
    "CREATE INDEX record_seq ON record (seq)",
)
"""A record's number and line; number and kind of its entry stand beside it, to be found by."""
EXPECTED = frozenset(
    [f"column record.{name} bigint true" for name in ("number", "seq")]
    + [f"column record.{name} text true" for name in ("kind", "line")]
    + ["constraint record_pkey p true", "i record_pkey p false false", "i record_seq p false false"]
    + ["r record p false false"]
)
OTHERS = (schema.FOUNDING, schema.ANSWERED, schema.CHECKPOINT)
PAGE = 1000  # lines read at a time
CONNECT = {
    "autocommit": True,
    "prepare_threshold": None,  # a pool between us and the server may change the session under us
    "connect_timeout": int(PATIENCE),
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": int(PATIENCE * 1000),
    "application_name": "dpquery ledger",
}
BEGIN = f"""BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL search_path = {SCHEMA}, pg_temp; SET LOCAL lock_timeout = {int(PATIENCE * 1000)};
    SET LOCAL synchronous_commit = on"""
DURABLE = ("synchronous_commit", "fsync", "full_page_writes")
FORM = """SELECT 'column', c.relname || '.' || a.attname,
    format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull::text
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind <> 'i' AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT relkind::text, relname,
    relpersistence::text || ' ' || relrowsecurity::text || ' ' || relhasrules::text
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace
    UNION ALL SELECT 'constraint', conname, contype::text || ' ' || convalidated::text
    FROM pg_constraint WHERE connamespace = current_schema()::regnamespace AND contype <> 'n'
    UNION ALL SELECT 'trigger', tgname, '' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = current_schema()::regnamespace
    ORDER BY 1, 2, 3"""


class LedgerServer(Store):
    """A database, and this process's connection to it."""

    failures = (psycopg.Error, UnicodeError)
    _connection: psycopg.Connection[Any] | None  # this process's own

    def __init__(self, url: str) -> None:
        super().__init__(shown(url))
        self._url, self._process = url, 0
        self._connection = None

    def _transaction(self, *, writes: bool) -> Iterator[Log]:
        raw = self._connected()
        is_done = False
        try:
            begin(raw)
            if raw.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() == (None,):
                raise LedgerError("no ledger here; its owner makes it: create=True, or dpquery ledger create")
            if writes:
                raw.execute("SELECT number FROM record WHERE number = 0 FOR UPDATE")  # holds off other writers
            yield ServerLog(raw)
            commit(raw)
            is_done = True
        finally:
            if not is_done:
                self._undo(raw)

    def _sync(self) -> None:
        """Does nothing: a commit that the server confirmed is durable."""

    def _undo(self, raw: psycopg.Connection[Any]) -> None:
        """Rolls back where the server listens; else gives up the connection, even if a commit's outcome is unknown."""
        if raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with contextlib.suppress(psycopg.Error):
                raw.execute("ROLLBACK")
                return
        if raw.info.transaction_status is not TransactionStatus.IDLE:
            self.is_suspect = True
            self.close()

    def _connected(self) -> psycopg.Connection[Any]:
        """Returns this process's own connection, opened if need be."""
        if self._process != os.getpid() or (self._connection is not None and self._connection.closed):
            self.close()
        if self._connection is None:
            self._connection, self._process = connect(self._url), os.getpid()
        return self._connection

    def _explain(self, error: Exception) -> str:
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return BUSY
        self.close()
        return f"the ledger's server cannot be used: {_first_line(error)}"

    def check(self) -> None:
        """Raises LedgerError unless tables, columns and constraints are those that were created, and no more."""
        found = _summary(self._connected().execute(FORM.encode()).fetchall())
        if "r founding p false false" in found:
            raise LedgerError(schema.of_format(2))
        schema.demand(found == EXPECTED, "its tables were altered")

    def close(self) -> None:
        """Closes this process's connection; the next use opens another."""
        with LOCK:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()
            elif connection is not None:
                _INHERITED.append(connection)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_connection", None) is not None and not is_finalizing():
            self.close()


class ServerLog:
    """The lines of a table. Positions are their numbers."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    def lines(self, start: int) -> Iterator[tuple[int, str, int]]:
        """Yields the lines from a position on, a page at a time."""
        page = "SELECT number, line FROM record WHERE number >= %s ORDER BY number LIMIT %s"
        while found := self._raw.execute(page, (start, PAGE)).fetchall():
            for number, line in found:
                yield number, line, number + 1
            start = found[-1][0] + 1

    def find(self, seq: int) -> int | None:
        """Returns the position of the entry of a number."""
        others = OTHERS if seq else OTHERS[1:]
        statement = "SELECT number FROM record WHERE seq = %s AND NOT kind = ANY(%s) ORDER BY number LIMIT 1"
        row = self._raw.execute(statement, (seq, list(others))).fetchone()
        return None if row is None else int(row[0])

    def checkpoint(self, before: int) -> int | None:
        """Returns the position of the last checkpoint that follows an entry with a smaller number."""
        statement = "SELECT number FROM record WHERE kind = %s AND seq < %s ORDER BY number DESC LIMIT 1"
        row = self._raw.execute(statement, (schema.CHECKPOINT, before)).fetchone()
        return None if row is None else int(row[0])

    def append(self, position: int, records: Sequence[Record]) -> list[tuple[int, int]]:
        """Adds records; two at one position are refused by the primary key."""
        for number, record in enumerate(records, position):
            self._raw.execute(INSERT, (number, record.seq, record.kind, record.line))
        return [(number, number + 1) for number, _ in enumerate(records, position)]

    def unfinished(self) -> None:
        """Raises LedgerError: a commit is whole or nothing."""
        schema.demand(False, "a record was changed or is missing")

    def cut(self, position: int) -> None:
        """Does nothing, as nothing follows the last record."""


INSERT = "INSERT INTO record (number, seq, kind, line) VALUES (%s, %s, %s, %s)"
_INHERITED: list[object] = []  # connections made before a fork; a child neither uses nor closes them


def connect(url: str) -> psycopg.Connection[Any]:
    """Returns a connection without implicit transactions."""
    return psycopg.connect(url, **CONNECT)  # type: ignore[arg-type]


def begin(raw: psycopg.Connection[Any]) -> None:
    """Begins a transaction whose commit is durable; reads every setting back."""
    raw.execute(BEGIN.encode())
    columns = ", ".join(f"current_setting('{setting}')" for setting in DURABLE)
    found = raw.execute(f"SELECT {columns}".encode()).fetchone()
    for setting, value in zip(DURABLE, found or (), strict=True):
        if value != "on":
            raise LedgerError(f"the server does not guarantee durable commits: {setting} is {value}")


def commit(raw: psycopg.Connection[Any]) -> None:
    """Commits, or raises: a lost connection leaves unknown whether it was, and there must be no answer."""
    if raw.execute("COMMIT").statusmessage != "COMMIT":
        raise LedgerError("the server rolled the transaction back")


def make(url: str, founding: Record) -> None:
    """Makes a ledger's table with its founding document, in one transaction; refuses a database that has one."""
    try:
        with contextlib.closing(connect(url)) as raw:
            begin(raw)
            if raw.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() != (None,):
                raise LedgerError(
                    f"{shown(url)}: the database already has a schema {SCHEMA}; open it, or choose another database"
                )
            raw.execute(f"CREATE SCHEMA {SCHEMA}".encode())
            for statement in TABLES:
                raw.execute(statement.encode())
            raw.execute(INSERT, (0, 0, founding.kind, founding.line))
            commit(raw)
    except (psycopg.Error, UnicodeError) as error:
        raise LedgerError(f"{shown(url)}: the ledger cannot be written: {_first_line(error)}") from error


def shown(url: str) -> str:
    """Returns a URL without password and options, for messages."""
    return re.sub(r"(//[^/?@]*?):[^/?]*@", r"\1@", url.split("?")[0])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


def _summary(form: list[tuple[str, str, str]]) -> frozenset[str]:
    return frozenset(" ".join(row) for row in form)
