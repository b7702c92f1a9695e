"""A ledger in a PostgreSQL database, for several machines: durable transactions, one at a time. docs/proofs/ledger.md.

The driver is used for the ledger alone: no private row passes here, and no analyst's SQL.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from dpquery.errors import LedgerError
from dpquery.ledger import schema
from dpquery.ledger.store import BUSY, PATIENCE, Connection, Rows, Store

try:
    import psycopg
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise LedgerError("a ledger in PostgreSQL needs its driver: pip install 'dpquery[postgres]'") from error

SCHEMA = "dpquery_ledger"
TABLES = schema.tables("BIGINT")
NUMBERS = [f"account.{of}_{part}" for of in ("limit", "spent") for part in schema.PARTS]
NUMBERS += [f"entry.{name}" for name in ("seq", *schema.PARTS, "answered")] + ["founding.seq"]
TEXTS = [f"entry.{name}" for name in ("time", "kind", "account", "text", "hash")]
TEXTS += ["account.name", "founding.document", "founding.hash"]
CHECKS = ("account_check", "account_check1", "account_check2", "founding_seq_check")
EXPECTED = frozenset(
    [f"column {name} bigint true" for name in NUMBERS]
    + [f"column {name} text true" for name in TEXTS]
    + [f"constraint {name} c true" for name in CHECKS]
    + [f"constraint {table}_pkey p true" for table in ("account", "entry", "founding")]
    + [f"i {table}_pkey p false false" for table in ("account", "entry", "founding")]
    + [f"r {table} p false false" for table in ("account", "entry", "founding")]
)
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
    _connection: psycopg.Connection[Any] | None

    def __init__(self, url: str) -> None:
        super().__init__(shown(url))
        self._url = url

    def _transaction(self) -> Iterator[Connection]:
        raw = self._connected()
        is_done = False
        try:
            begin(raw)
            if raw.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() == (None,):
                raise LedgerError("there is no ledger here; the owner creates it")
            raw.execute("SELECT seq FROM founding FOR UPDATE")  # the lock that holds off other writers
            yield _Translated(raw)
            commit(raw)
            is_done = True
        finally:
            if not is_done:
                self._undo(raw)

    def _undo(self, raw: psycopg.Connection[Any]) -> None:
        """Rolls back where the server listens; else gives the connection up, whatever became of a commit."""
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
        self.is_suspect = True
        return f"the ledger's server cannot be used: {_first_line(error)}"

    def check(self, connection: Connection) -> None:
        """Raises LedgerError unless tables, columns and constraints are those that were created, and no more."""
        found = connection.execute(FORM).fetchall()
        schema.demand(_summary(found) == EXPECTED, "its tables are not as they were created")


class _Translated:
    """Runs statements that are written as for SQLite."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    def execute(self, statement: str, parameters: Any = (), /) -> Rows:
        return self._raw.execute(_translated(statement), parameters or None)


@lru_cache
def _translated(statement: str) -> bytes:
    """Returns a statement with the driver's placeholders."""
    return re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement).replace("?", "%s").encode()


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
            raise LedgerError(f"the server does not keep what it confirms: {setting} is {value}")


def commit(raw: psycopg.Connection[Any]) -> None:
    """Commits, or raises: a lost connection leaves unknown whether it was, and there must be no answer."""
    if raw.execute("COMMIT").statusmessage != "COMMIT":
        raise LedgerError("the server rolled the transaction back")


def make(url: str, fill: Callable[[Connection], None]) -> None:
    """Makes a ledger's tables, filled within one transaction; refuses a database that has them."""
    try:
        with contextlib.closing(connect(url)) as raw:
            begin(raw)
            if raw.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() != (None,):
                raise LedgerError(f"{shown(url)}: the database has a schema {SCHEMA}; open it, or choose another")
            raw.execute(f"CREATE SCHEMA {SCHEMA}".encode())
            for statement in TABLES:
                raw.execute(statement.encode())
            fill(_Translated(raw))
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
