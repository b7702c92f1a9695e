"""Where a ledger lies: one small interface, behind it SQLite or PostgreSQL. docs/proofs/ledger.md.

A store holds one writer at a time: among processes by the database's lock, among the threads of this process by a lock
of its own, which also holds off a fork during a transaction. Every failure of a store becomes a LedgerError.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from dpquery.errors import LedgerError

PATIENCE = 10.0  # seconds to wait for another thread's or process's transaction
BUSY = "the ledger is busy, or locked by a process that hangs; nothing was recorded, and the query may be tried again"

LOCK = threading.RLock()  # no two transactions at once in this process, and no fork during one
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
_INHERITED: list[object] = []  # connections made before a fork; a child neither uses nor closes them


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """Returns the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Returns the rows that are left."""


class Connection(Protocol):
    """Runs statements in the dialect that both stores share; parameters are written `?` or `:name`."""

    def execute(self, statement: str, parameters: Any = (), /) -> Rows:
        """Runs one statement."""


class Store(ABC):
    """One ledger's place, and this process's connection to it.

    Attributes:
        place: Its path or address, without a password, for messages.
        is_suspect: Whether all of it must be verified before it is believed: at first, and after any failure.
    """

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, place: str) -> None:
        self.place = place
        self.is_suspect = True
        self._inside = False
        self._stopped = False
        self._connection: Any = None
        self._process = 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Holds the write lock. Committed durably when the block ends, rolled back when it raises."""
        if not LOCK.acquire(timeout=PATIENCE):
            raise LedgerError(f"{self.place}: {BUSY}")
        try:
            if self._inside or self._stopped:
                raise LedgerError("a write failed earlier; check the disk, then open the ledger again")
            self._inside = True
            try:
                yield from self._transaction()
            finally:
                self._inside = False
        except self.failures as error:
            raise LedgerError(f"{self.place}: {self._explain(error)}") from error
        except LedgerError as error:
            raise LedgerError(f"{self.place}: {error}") from error
        finally:
            LOCK.release()

    @abstractmethod
    def _transaction(self) -> Iterator[Connection]:
        """Yields once, within a transaction that holds the write lock."""

    @abstractmethod
    def _explain(self, error: Exception) -> str:
        """Returns what to tell the owner, and distrusts the connection unless the lock was merely taken."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Raises LedgerError unless the store is sound, and its tables are those that were created."""

    def close(self) -> None:
        """Closes this process's connection; the next transaction opens another."""
        with LOCK:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()
            elif connection is not None:
                _INHERITED.append(connection)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_connection", None) is not None and not is_finalizing():
            self.close()
