"""An embedded DuckDB for tables that are public by construction: small, locked, and with limits on every statement."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa

from dpquery.backends.engine import LOCK
from dpquery.cancelling import interruptible
from dpquery.errors import BackendError

MEMORY = "256MB"


class StatementTimeout(BackendError):
    """A statement took longer than it may."""


class StatementTooLarge(BackendError):
    """A statement gives more rows or bytes than it may."""


class SystemTables:
    """An engine with the tables that its statements make, and nothing else within reach; locked once it is filled."""

    def __init__(
        self, statements: Sequence[str], rows: Mapping[str, pa.Table], *, afterwards: Sequence[str] = ()
    ) -> None:
        """Makes the tables.

        Args:
            statements: What makes them.
            rows: What goes into them, by the table's name; columns by name, cast to the table's types.
            afterwards: What is done once they are filled.
        """
        self._guard = threading.Lock()
        self._root = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": MEMORY})
        for statement in statements:
            self._root.execute(statement)
        for place, table in rows.items():
            self._root.register("given", table)
            self._root.execute(f"INSERT INTO {place} BY NAME SELECT * FROM given")
            self._root.unregister("given")
        for statement in afterwards:
            self._root.execute(statement)
        self._root.execute("SET temp_directory = ''")
        for setting, value in LOCK.items():
            self._root.execute(f"SET {setting} = {value}")

    def run(
        self,
        text: str,
        tables: Mapping[str, pa.Table],
        *,
        seconds: float,
        most_rows: int,
        most_bytes: int,
        first: int | None = None,
    ) -> pa.Table:
        """Returns what a statement gives.

        Args:
            text: The statement.
            tables: Further tables that this statement alone may read.
            seconds, most_rows, most_bytes: Limits.
            first: How many rows are wanted, or None for all.
        Raises:
            StatementTimeout, StatementTooLarge: A limit is passed.
            BackendError: The engine refuses the statement.
        """
        with self._guard:
            cursor = self._root.cursor()
        try:
            for name, table in tables.items():
                cursor.register(name, table)
            with _time_limit(cursor, seconds):
                return _fetched(cursor, text, first, most_rows, most_bytes)
        except duckdb.InterruptException:
            raise StatementTimeout("the statement took too long") from None
        except (duckdb.Error, pa.ArrowException):
            raise BackendError("the engine does not know the statement") from None
        finally:
            cursor.close()


def _fetched(
    cursor: duckdb.DuckDBPyConnection, text: str, first: int | None, most_rows: int, most_bytes: int
) -> pa.Table:
    """Returns a statement's rows, read in batches, so that what gives too much stops early."""
    relation = cursor.sql(text)
    if relation is None:
        raise BackendError("the statement gives no rows")
    reader = relation.to_arrow_reader(10_000)
    made: list[pa.RecordBatch] = []
    count = size = 0
    for batch in reader if first != 0 else ():
        made.append(batch if first is None else batch.slice(0, first - count))
        count, size = count + len(made[-1]), size + made[-1].nbytes
        if first is not None and count >= first:
            break
        if count > most_rows or size > most_bytes:
            raise StatementTooLarge("the statement gives too many rows")
    return pa.Table.from_batches(made, reader.schema)


@contextlib.contextmanager
def _time_limit(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    alarm = threading.Timer(seconds, cursor.interrupt)
    alarm.daemon = True
    alarm.start()
    try:
        with interruptible(cursor.interrupt):
            yield
    finally:
        alarm.cancel()
