"""Where stored releases lie: one small interface, behind it a file beside the ledger, or the ledger's database.

A shelf keeps rows and believes nothing of them; `store` decides what they are worth.
"""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dpquery.errors import LedgerError

LOCK = threading.RLock()  # one use at a time in this process, and no fork during one
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
_INHERITED: list[object] = []  # connections made before a fork; a child neither uses nor closes them

State = tuple[int, ...]
"""Changes when something was added, by whichever process."""
NOTHING: State = ()
"""The state of a shelf that is not there yet."""


class Fields(NamedTuple):
    """A row's columns; `base` is the digest of the rows that were measured, `content` all that `to_text` writes."""

    version: str
    base: str
    entry: int
    analyst: str
    time: str
    content: str
    hash: str


COLUMNS = ", ".join(Fields._fields)


class Shelf(ABC):
    """The place of one ledger's releases, made when the first is kept, and this process's connection to it.

    Args:
        place: For messages.
        origin: The hash of the ledger's founding document; a shelf of another one is refused.
        remedy: What the owner does to go on without it.

    Attributes:
        failures: What its engine raises.
        table: Its table of releases.
        mark: A parameter, as its engine writes one.
        place_of: The place of a word in a row's content, 0 for none.
    """

    failures: tuple[type[Exception], ...]
    table: str
    mark: str
    place_of: str

    def __init__(self, place: str, origin: str, remedy: str) -> None:
        self.place, self._origin, self._remedy = place, origin, remedy
        self._connection: Any = None
        self._process = self._opened = 0

    @abstractmethod
    def state(self) -> State:
        """Returns what changes when something was added."""

    def rows(self, version: str, base: str | None = None, after: int = 0) -> Sequence[tuple[int, Fields]]:
        """Returns the rows of a version behind a number, of one base or of all, with their numbers in order."""
        with self._using() as connection:
            if connection is None:
                return ()
            kept = "" if base is None else f" AND base = {self.mark}"
            statement = f"SELECT number, {COLUMNS} FROM {self.table} {self._behind}{kept} ORDER BY number"
            given = (version, after) if base is None else (version, after, base)
            return [(row[0], Fields(*row[1:])) for row in connection.execute(statement, given).fetchall()]

    def mentions(self, version: str, word: str, after: int) -> tuple[int, bool]:
        """Returns the number of the last row of a version behind a number, and whether one of them holds a word."""
        with self._using() as connection:
            if connection is None:
                return after, False
            statement = f"SELECT max(number), max({self.place_of}) FROM {self.table} {self._behind}"
            last, place = connection.execute(statement, (word, version, after)).fetchone()
            return last or after, bool(place)

    @property
    def _behind(self) -> str:
        return f"WHERE version = {self.mark} AND number > {self.mark}"

    @abstractmethod
    def add(self, rows: Sequence[Fields]) -> None:
        """Keeps rows durably, all or none."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Removes rows by their numbers."""
        with self._using() as connection:
            for number in numbers:
                connection.execute(f"DELETE FROM {self.table} WHERE number = {self.mark}", (number,))

    @contextlib.contextmanager
    def turn(self, question: int) -> Iterator[None]:
        """Keeps other processes, where the system can, from taking the turn of the same question meanwhile."""
        yield

    @abstractmethod
    def _open(self, *, create: bool) -> Any:
        """Returns a new connection to a shelf that was looked at; None where there is none and none is to be made."""

    @contextlib.contextmanager
    def _using(self, *, create: bool = False) -> Iterator[Any]:
        with LOCK:
            try:
                if self._connection is not None and self._process != os.getpid():
                    self.close()
                if self._connection is None:
                    self._connection = self._open(create=create)
                    self._process, self._opened = os.getpid(), self._opened + 1
                yield self._connection
            except self.failures as error:
                self.close()
                raise self.refused((str(error).splitlines() or ["no reason given"])[0]) from error
            except BaseException:
                self.close()
                raise

    def refused(self, reason: str) -> LedgerError:
        """Returns the error of a shelf that cannot be believed."""
        return LedgerError(
            f"the store of answers {self.place} was rejected: {reason}. Nothing was charged. {self._remedy} to "
            "continue; answers that it held will be charged again"
        )

    def close(self) -> None:
        """Closes this process's connection; the next use opens another."""
        with LOCK:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()
            elif connection is not None:
                _INHERITED.append(connection)
