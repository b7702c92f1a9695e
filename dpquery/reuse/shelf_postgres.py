"""Stored releases in the PostgreSQL database of their ledger, in a schema of their own, shared by all machines.

They hold noisy numbers alone: no private row passes here, and no analyst's SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from dpquery.ledger.postgres import begin, commit, connect, shown
from dpquery.reuse.shelf import COLUMNS, NOTHING, Fields, Shelf, State

SCHEMA = "dpquery_releases"
TABLES = (
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.origin (ledger TEXT NOT NULL)",
    f"""CREATE TABLE {SCHEMA}.release (
    number BIGSERIAL PRIMARY KEY, version TEXT NOT NULL, base TEXT NOT NULL, entry BIGINT NOT NULL,
    analyst TEXT NOT NULL, time TEXT NOT NULL, content TEXT NOT NULL, hash TEXT NOT NULL
)""",
    f"CREATE INDEX found ON {SCHEMA}.release (version, base)",
)
ONE_WRITER = 0x64705131  # "dpQ1": rows are numbered in the order in which they are committed


class ShelfServer(Shelf):
    """The schema in a database; commits are as durable as the ledger's."""

    failures = (psycopg.Error, UnicodeError)
    table, mark, place_of = f"{SCHEMA}.release", "%s", "position(%s in content)"

    def __init__(self, url: str, origin: str) -> None:
        self._url = url
        super().__init__(f"{SCHEMA} in {shown(url)}", origin, f"Drop the schema {SCHEMA}")

    def state(self) -> State:
        """Returns what changes when something was added."""
        with self._using() as raw:
            if raw is None:
                return NOTHING
            (last,) = raw.execute(f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.release").fetchone()
            return self._opened, int(last)

    def add(self, rows: Sequence[Fields]) -> None:
        """Keeps rows durably, all or none."""
        with self._using(create=True) as raw:
            begin(raw)
            raw.execute("SELECT pg_advisory_xact_lock(%s)", (ONE_WRITER,))
            marks = ", ".join("%s" for _ in Fields._fields)
            for row in rows:
                raw.execute(f"INSERT INTO {SCHEMA}.release ({COLUMNS}) VALUES ({marks})", row)
            commit(raw)

    def _open(self, *, create: bool) -> Any:
        raw = connect(self._url)
        try:
            begin(raw)
            raw.execute("SELECT pg_advisory_xact_lock(%s)", (ONE_WRITER,))
            is_there = raw.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() != (None,)
            if not is_there and create:
                for statement in TABLES:
                    raw.execute(statement.encode())
                raw.execute(f"INSERT INTO {SCHEMA}.origin VALUES (%s)".encode(), (self._origin,))
            if is_there or create:
                self._check(raw)
            commit(raw)
        except BaseException:
            raw.close()
            raise
        if is_there or create:
            return raw
        raw.close()
        return None

    def _check(self, raw: Any) -> None:
        if raw.execute(f"SELECT ledger FROM {SCHEMA}.origin".encode()).fetchall() != [(self._origin,)]:
            raise self.refused("it belongs to another ledger")
