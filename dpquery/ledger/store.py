"""Where a ledger lies: one small interface, behind it a file or PostgreSQL. docs/proofs/ledger.md.

A store holds lines, each at a position; they are only added. One writer at a time: among processes by a lock on the
file or in the database, among the threads of this process by a lock of its own, which also holds off a fork. Readers
take no lock of the store: they see the lines that were there when they began. Every failure becomes a LedgerError.
"""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from dpquery.errors import DPQueryError, LedgerError

if TYPE_CHECKING:
    from dpquery.ledger.schema import Record

PATIENCE = 10.0  # seconds to wait for another thread's or process's transaction
BUSY = "the ledger is busy, or locked by a process that hangs; nothing was recorded, so the query can be repeated"

LOCK = threading.RLock()  # no two transactions at once in this process, and no fork during one
TURN = threading.RLock()  # nor two of its threads that make charges durable; taken before LOCK where both are


def _hold() -> None:
    TURN.acquire()
    LOCK.acquire()


def _release() -> None:
    LOCK.release()
    TURN.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)


class Log(Protocol):
    """The lines of a ledger as they were when a transaction began, and those that it adds."""

    def lines(self, start: int) -> Iterator[tuple[int, str, int]]:
        """Yields the whole lines from a position on: where each begins, its text, and where the next will begin."""

    def find(self, seq: int) -> int | None:
        """Returns where the entry of a number begins, the founding document for 0, or None where there is none."""

    def checkpoint(self, before: int) -> int | None:
        """Returns where the last checkpoint begins that follows an entry with a smaller number; None for none."""

    def append(self, position: int, records: Sequence[Record]) -> list[tuple[int, int]]:
        """Adds records at the end, which is a position; returns where each begins and ends. For writers alone."""

    def unfinished(self) -> None:
        """Raises LedgerError where no write can break off, so that a line that does not follow is damage."""

    def cut(self, position: int) -> None:
        """Removes what follows a position, which is what a write left that broke off. For writers alone."""


class Store(ABC):
    """One ledger's place, and this process's way to it.

    Attributes:
        place: Its path or address, without a password, for messages.
        is_suspect: Whether it must be read again before it is believed: at first, and after any failure.
    """

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, place: str) -> None:
        self.place = place
        self.is_suspect = True
        self._inside = False
        self._stopped = False

    @contextlib.contextmanager
    def transaction(self, *, writes: bool) -> Iterator[Log]:
        """Gives the lines; to writers alone at a time, what they add staying unless it raises."""
        if not LOCK.acquire(timeout=PATIENCE):
            raise LedgerError(f"{self.place}: {BUSY}")
        try:
            if self._inside or self._stopped:
                raise LedgerError("a write failed earlier; check the disk, then open the ledger again")
            self._inside = True
            try:
                with self.told():
                    yield from self._transaction(writes=writes)
            finally:
                self._inside = False
        finally:
            LOCK.release()

    def sync(self) -> None:
        """Makes everything durable that any process added; raises LedgerError if the outcome is unknown."""
        try:
            with self.told():
                self._sync()
        except LedgerError:
            self._stopped = True  # after a failed sync the system's cache may show what the disk does not hold
            raise

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Turns failures into LedgerError, and distrusts what was read."""
        try:
            yield
        except self.failures as error:
            self.is_suspect = True
            raise LedgerError(f"{self.place}: {self._explain(error)}") from error
        except LedgerError as error:
            self.is_suspect = True
            raise type(error)(f"{self.place}: {error}") from error
        except DPQueryError:  # a refusal, before anything was changed
            raise
        except BaseException:
            self.is_suspect = True
            raise

    @abstractmethod
    def _transaction(self, *, writes: bool) -> Iterator[Log]:
        """Yields once, within a transaction."""

    @abstractmethod
    def _sync(self) -> None:
        """Makes all that was added durable."""

    @abstractmethod
    def _explain(self, error: Exception) -> str:
        """Returns what to tell the owner."""

    @abstractmethod
    def check(self) -> None:
        """Raises LedgerError unless the store is made as it was created; within a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Ends this process's connection, where there is one; the next transaction opens another."""
