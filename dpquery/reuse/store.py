"""The store of releases: on a shelf beside the ledger, shared by all who share the ledger.

It holds nothing but what was released already, so a lost store costs money and a reader of it learns no more than the
answers did. A row is believed only if its own hash is right and the ledger holds the entry that it was charged with.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from dpquery.ledger.ledger import Ledger
from dpquery.reuse.releases import OtherContract, StoredRelease, from_text, to_text
from dpquery.reuse.shelf import LOCK, Fields, Shelf, State
from dpquery.reuse.shelf_file import ShelfFile
from dpquery.reuse.text import digest

Made = TypeVar("Made")
MOST_DERIVED = 64
"""Bases of which what is made of their releases is kept."""


@dataclass(slots=True)
class _Known:
    """The releases over one base that were read, and the last row and state of the shelf that were looked at."""

    last: int = 0
    state: State | None = None
    releases: dict[tuple[str, ...], list[tuple[int, StoredRelease]]] = field(default_factory=dict)
    """By what their rows fulfil, each with its number."""

    def within(self, conditions: tuple[str, ...]) -> Sequence[StoredRelease]:
        """Returns the releases of rows that fulfil some of these conditions and no others, oldest first."""
        few = 2 ** len(conditions) <= len(self.releases)
        subsets = (kept for size in range(len(conditions) + 1) for kept in combinations(conditions, size))
        fitting = subsets if few else [kept for kept in self.releases if set(kept) <= set(conditions)]
        found = [release for kept in fitting for release in self.releases.get(kept, ())]
        return [release for _, release in sorted(found, key=itemgetter(0))]


class ReleaseStore:
    """The releases of one ledger. Safe to share between threads and across a fork.

    The shelf is made when the first answer is kept: a file beside the ledger's, or a schema in its database.
    Raises:
        LedgerError: What stands there is no store of this ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._origin = ledger.hash_of(0) or ""
        self._shelf = _shelf(ledger.place, self._origin)
        self._version, self._known = "", dict[str, _Known]()
        self._charged: dict[int, str | None] = {}  # hashes of the ledger's entries, which stay what they are
        self._mentioned: dict[tuple[str, str], tuple[State | None, int, bool]] = {}
        self._derived: dict[Hashable, tuple[int, Any]] = {}
        self._turns: dict[Hashable, tuple[threading.Lock, int]] = {}
        self._turns_of = os.getpid()
        self._shelf.state()

    @property
    def place(self) -> str:
        """Where the store stands, or will, without a password."""
        return self._shelf.place

    def state(self) -> State:
        """Returns what changes when something was added, by whichever process."""
        return self._shelf.state()

    def find(self, version: str, base: str, conditions: tuple[str, ...]) -> Sequence[StoredRelease]:
        """Returns the releases over these rows of this version of the data that may tell of those of them that fulfil
        the conditions, given in order; oldest first."""
        with LOCK:
            return self._over(version, base).within(conditions)

    def over(self, version: str, base: str) -> Sequence[StoredRelease]:
        """Returns all releases over these rows of this version of the data, oldest first."""
        with LOCK:
            found = (one for some in self._over(version, base).releases.values() for one in some)
            return [release for _, release in sorted(found, key=itemgetter(0))]

    def derived(self, version: str, base: str, name: Hashable, make: Callable[[], Made]) -> Made:
        """Returns what is made of releases over these rows of this version of the data under a name, which is kept
        until the next one over them is added."""
        with LOCK:
            last, key = self._over(version, base).last, (version, base, name)
            if key not in self._derived and len(self._derived) >= MOST_DERIVED:
                self._derived.clear()
            if self._derived.get(key, (None,))[0] != last:
                self._derived[key] = last, make()
            made: Made = self._derived[key][1]
            return made

    def _over(self, version: str, base: str) -> _Known:
        with LOCK:
            state = self._shelf.state()
            if version != self._version:
                self._version, self._known, self._charged = version, {}, {}
            known = self._known.setdefault(base, _Known())
            if known.state != state:
                for number, row in self._learned(self._shelf.rows(version, digest(base), known.last)):
                    release = self._read(number, row, base)
                    if release is not None:
                        known.releases.setdefault(release.frame.conditions, []).append((number, release))
                    known.last = number
                known.state = state
            return known

    def all(self, version: str) -> Sequence[StoredRelease]:
        """Returns all releases of this version of the data, oldest first."""
        with LOCK:
            read = (self._read(number, row) for number, row in self._learned(self._shelf.rows(version)))
            return [release for release in read if release is not None]

    def mentions(self, version: str, word: str) -> bool:
        """Whether the text of some release of this version of the data holds a word; rows are looked at once."""
        with LOCK:
            state = self._shelf.state()
            seen, last, found = self._mentioned.get((version, word), (None, 0, False))
            if not found and seen != state:
                last, found = self._shelf.mentions(version, word, last)
                self._mentioned[version, word] = state, last, found
            return found

    def add(self, version: str, releases: Sequence[StoredRelease]) -> None:
        """Keeps releases durably; they were charged for before, and are lost without harm."""
        rows = [
            self._hashed(version, release.frame.base, release.entry, release.analyst, release.time, to_text(release))
            for release in releases
        ]
        if rows:
            self._shelf.add(rows)

    def keep(self, version: str, base: str, entry: int, analyst: str, time: str, content: str) -> None:
        """Keeps something else that was charged for, durably, under a version that no release has."""
        with LOCK:
            self._shelf.add([self._hashed(version, base, entry, analyst, time, content)])

    def kept(self, version: str, base: str) -> list[Fields]:
        """Returns what was kept under a version, oldest first."""
        with LOCK:
            return [row for _, row in self._believed(version, base)]

    def drop(self, version: str, base: str, chosen: Callable[[Fields], bool]) -> int:
        """Removes what was kept under a version and is chosen; returns how much that was."""
        with LOCK:
            numbers = [number for number, row in self._believed(version, base) if chosen(row)]
            self._shelf.remove(numbers)
            return len(numbers)

    def _believed(self, version: str, base: str) -> list[tuple[int, Fields]]:
        """Returns rows whose hashes are right, with their numbers."""
        rows = list(self._learned(self._shelf.rows(version, digest(base))))
        for number, row in rows:
            self._check(number, row)
        return rows

    def _hashed(self, version: str, base: str, entry: int, analyst: str, time: str, content: str) -> Fields:
        bare = Fields(
            version=version, base=digest(base), entry=entry, analyst=analyst, time=time, content=content, hash=""
        )
        return bare._replace(hash=self._hash(bare))

    @contextlib.contextmanager
    def turn(self, question: Hashable) -> Iterator[None]:
        """Lets one thread of one process at a time measure the same, so that the next finds what was measured."""
        with LOCK:
            if self._turns_of != os.getpid():
                self._turns, self._turns_of = {}, os.getpid()
            lock, waiting = self._turns.get(question, (threading.Lock(), 0))
            self._turns[question] = (lock, waiting + 1)
        try:
            with lock, self._shelf.turn(int(digest(repr(question))[:15], 16)):
                yield
        finally:
            with LOCK:
                lock, waiting = self._turns.pop(question)
                if waiting > 1:
                    self._turns[question] = (lock, waiting - 1)

    def close(self) -> None:
        """Closes this process's connection; the next use opens another."""
        with LOCK:
            self._known.clear()
            self._derived.clear()
            self._charged.clear()
            self._shelf.close()

    def _learned(self, rows: Sequence[tuple[int, Fields]]) -> Sequence[tuple[int, Fields]]:
        """Returns the rows, after reading the hashes of all their entries at once."""
        if unknown := {row.entry for _, row in rows if row.entry > 0} - self._charged.keys():
            self._charged |= self._ledger.hashes(unknown)
        return rows

    def _read(self, number: int, row: Fields, base: str | None = None) -> StoredRelease | None:
        """Returns the release of a row; None for one under another contract, which answers nothing any more."""
        self._check(number, row)
        try:
            release = from_text(row.content, entry=row.entry, analyst=row.analyst, time=row.time)
        except OtherContract:
            return None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise self._shelf.refused(f"row {number} is malformed") from error
        if digest(release.frame.base) != row.base or base not in (None, release.frame.base):
            raise self._shelf.refused(f"row {number} describes other rows than it claims")
        return release

    def _check(self, number: int, row: Fields) -> None:
        if row.hash != self._hash(row):
            raise self._shelf.refused(f"row {number} was changed, or was not charged in this ledger")

    def _hash(self, row: Fields) -> str:
        """Returns the hash of a row, chained to the ledger's entry; of an entry that is not there, none is right."""
        if row.entry not in self._charged:
            self._charged[row.entry] = self._ledger.hash_of(row.entry) if row.entry > 0 else None
        charged = self._charged[row.entry]
        if charged is None:
            del self._charged[row.entry]
            raise self._shelf.refused(f"it holds a release of entry {row.entry}, which the ledger does not have")
        fields = (row.version, row.base, str(row.entry), row.analyst, row.time, row.content)
        return digest(self._origin, charged, *fields)


def _shelf(ledger: Path | str, origin: str) -> Shelf:
    if isinstance(ledger, Path):
        return ShelfFile(ledger, origin)
    from dpquery.reuse.shelf_postgres import ShelfServer  # its driver is an extra

    return ShelfServer(ledger, origin)
