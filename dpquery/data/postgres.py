"""Tables of PostgreSQL databases as Arrow, all those of one database from one snapshot, through ADBC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from urllib.parse import unquote

import pyarrow as pa

from dpquery.catalog.names import quoted
from dpquery.errors import CatalogError, extra

_REASONS = {
    "": "the database cannot be reached, or refuses the login",
    "25P02": "another table of the database could not be read",
    "3F000": "there is no such schema",
    "42P01": "there is no such table",
    "42501": "the role may not read it",
}
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_HAS_SNAPSHOT = "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"


class DatabaseSnapshot:
    """One connection in one transaction, which sees the database as it is at its first statement, and writes nothing.

    Its methods raise errors of the driver, whose words may hold passwords and values; see `reason`.

    Args:
        address: `postgresql://...`, as libpq reads it; what it leaves out comes from libpq's environment and files.
    """

    def __init__(self, address: str) -> None:
        adbc = extra("adbc_driver_postgresql.dbapi", "postgres", "a table of PostgreSQL")
        self._connection = adbc.connect(address, autocommit=False)
        self._cursor = self._connection.cursor()
        self._cursor.execute(_SNAPSHOT)
        self._cursor.execute(_HAS_SNAPSHOT)
        if self._cursor.fetchall() != [("repeatable read", "on")]:
            self.close()
            raise CatalogError("the database gives no snapshot")

    def read(self, name: str, columns: Iterable[str]) -> pa.RecordBatchReader:
        """Returns those of the columns that a table has.

        Values of types that Arrow does not have, decimals among them, come as PostgreSQL writes them in texts.

        Args:
            name: What the table is called, its schema before a dot where that is not on the role's search path; the
                parts are as in an address, so that %2E is a dot within one.
        """
        place = ".".join(quoted(unquote(part)) for part in name.split("."))
        schema = self._cursor.adbc_execute_schema(f"SELECT * FROM {place}")
        read = ", ".join(_read(schema.field(column)) for column in columns if column in schema.names)
        self._cursor.execute(f"SELECT {read} FROM {place}")
        return self._cursor.fetch_record_batch()

    def close(self) -> None:
        """Ends the transaction and the connection."""
        for part in (self._cursor, self._connection):
            with contextlib.suppress(Exception):  # nothing was written, so nothing is lost
                part.close()


def reason(error: Exception) -> str:
    """Returns what may be said of an error while a database was read."""
    if not hasattr(error, "sqlstate"):  # of Arrow, which asks for further rows
        return "the reading failed"
    return _REASONS.get(error.sqlstate or "", f"it reports the error {error.sqlstate}")


def _read(field: pa.Field) -> str:
    """Returns SQL for a column: as it is where Arrow has its type."""
    name, type = quoted(field.name), field.type
    is_number = pa.types.is_boolean(type) or pa.types.is_integer(type) or pa.types.is_floating(type)
    if is_number or pa.types.is_date(type) or pa.types.is_timestamp(type):
        return name
    return f"CAST({name} AS text) AS {name}"
