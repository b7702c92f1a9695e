"""The book behind a ledger: every look at it is a transaction on a store that was verified and checked with its mark.

docs/proofs/ledger.md.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterable, Iterator
from typing import NoReturn

from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Units, from_units
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger import accounts, places, schema
from dpquery.ledger.entries import check_analyst
from dpquery.ledger.mark import Level, MarkFile
from dpquery.ledger.places import Place
from dpquery.ledger.queue import Queue, Request
from dpquery.ledger.replay import Terms, verify, widest
from dpquery.ledger.schema import DATASET, NOTHING, Kind, Mark
from dpquery.ledger.store import Connection
from dpquery.units.blocks import Touched


class Book:
    """A store, its mark, and what this process has seen of them."""

    def __init__(self, place: Place, mark: Place | None) -> None:
        self._place = place if places.is_url(place) else os.path.abspath(place)  # wherever the process goes
        self._store = places.store_at(place)
        is_shared = mark is None and not places.is_url(place)  # who waits together has one mark
        self._queue = Queue(self._store.place) if is_shared else None
        self._kept = "" if mark is None else os.fspath(mark)
        self._seen: Mark | None = None
        self._terms: Terms
        self._marks: MarkFile
        self._answered: set[int] = set()

    def limit(self, analyst: str | None) -> PrivacyLoss:
        """Returns the limit of an analyst, or of the dataset for None, as the ledger counts it, in each block."""
        with self._transaction() as connection:
            return from_units(_most(limit for limit, _ in self._family(connection, analyst).values()))

    def spent(self, analyst: str | None) -> PrivacyLoss:
        """Returns what an analyst, or for None all together, were charged, answered or not; with blocks, the most."""
        with self._transaction() as connection:
            return from_units(_most(spent for _, spent in self._family(connection, analyst).values()))

    def remaining(self, analyst: str, touched: Touched | None = None) -> PrivacyLoss:
        """Returns what an analyst may still spend: part by part the lesser of the own rest and the dataset's.

        With blocks, it is the least over those that a query touches, by default over all.
        """
        with self._transaction() as connection:
            return self._remaining(connection, analyst, accounts.field_of(analyst, touched, self._terms.axis))

    def shown_blocks(self, touched: Touched) -> str:
        """Returns for people which blocks a query is charged to that touches these; "" where rows are in no blocks."""
        return accounts.shown(accounts.field_of(DATASET, touched, self._terms.axis))

    def remaining_by_block(self, analyst: str) -> dict[str, PrivacyLoss]:
        """Returns what an analyst may still spend in each block; empty where rows are in no blocks."""
        with self._transaction() as connection:
            return {name: from_units(rest) for name, rest in self._rests(connection, analyst).items() if name}

    @contextlib.contextmanager
    def _transaction(self, *, is_accepted: bool = False) -> Iterator[Connection]:
        """Holds the write lock on a ledger that was verified, and that holds the last entry seen and the mark's.

        With `is_accepted`, the owner accepts it whatever the mark says.
        """
        with self._store.transaction() as connection:
            seen = self._seen
            if seen is not None and not schema.holds(connection, seen):
                raise LedgerError("the ledger lost entries while it was open, as if an older copy were put back")
            if self._store.is_suspect or seen is None or schema.acts_since(connection, seen.seq):
                self._terms, _ = verify(self._store, connection)
                self._marks = places.mark_at(self._place, self._kept or self._terms.place)
                self._store.is_suspect = False
            if not is_accepted:
                self._check_mark(connection)
            self._seen = schema.last(connection)
            yield connection

    def _check_mark(self, connection: Connection) -> None:
        """Refuses a ledger that lost an entry which its mark remembers: read under the lock, it is never ahead."""
        newest = self._marks.read(self._terms.identity)[0].mark
        if not schema.holds(connection, newest):
            raise LedgerError(
                f"it lost entries: its mark {self._marks.path} remembers entry {newest.seq}, which the ledger does not "
                "hold, as if an older copy were put back. No query is answered. Put the newest copy back, or accept "
                "this one with dpquery ledger reconcile, which spends what may have been lost"
            )

    def _append(self, connection: Connection, kind: Kind, account: str, units: Units, text: str) -> Level:
        mark = schema.append(connection, kind, account, units, text, now())
        return Level(mark, connection.execute(schema.ACCOUNT, (self._terms.total,)).fetchone()[4:7])

    def _remember(self, level: Level, *, is_act: bool = False) -> int:
        """Advances the mark past a committed entry; returns its number. What fails here is spent and not answered."""
        self._seen = level.mark
        self._store.is_suspect |= is_act
        self._marks.advance(self._terms.identity, level)
        return level.mark.seq

    def _record(self, own: Request, others: list[Request]) -> list[int]:
        """Records charges in one durable transaction; returns the numbers of the entries, 0 for others not allowed."""
        with self._transaction() as connection:
            levels: list[Level | None] = [self._spend(connection, own)]
            for other in others:
                connection.execute("SAVEPOINT other")
                try:
                    levels.append(self._spend(connection, other))
                except (InsufficientBudgetError, InvalidLossError):  # as its own process will be told
                    connection.execute("ROLLBACK TO other")
                    levels.append(None)
                connection.execute("RELEASE other")
            answered = self._write_answered(connection)
        self._remember([level for level in levels if level is not None][-1])
        self._answered -= answered
        return [0 if level is None else level.mark.seq for level in levels]

    def _spend(self, connection: Connection, request: Request) -> Level:
        analyst, units = request.analyst, request.units
        if request.ledger != self._terms.identity or min(units) < 0 or max(units) == 0:
            raise InvalidLossError("a charge takes more than nothing, from this ledger")
        field = accounts.field_of(analyst, request.blocks, self._terms.axis)
        remaining = self._remaining(connection, analyst, field)
        if connection.execute(schema.ACCOUNT, (analyst,)).fetchone() is None:
            limit, spent = self._account(connection, analyst)
            for name in accounts.family(analyst, self._terms.axis):
                connection.execute(schema.OPEN_ACCOUNT, (name, *limit, *spent))
        charged = dict.fromkeys([*self._terms.charged(field), self._terms.total])
        if not accounts.spend(connection, list(charged), units):
            place = f" in {accounts.shown(field)}" if self._terms.axis else ""
            reason = f"The query costs {from_units(units)}; what is left for {analyst}{place} is {remaining}."
            raise InsufficientBudgetError(reason, requested=from_units(units), remaining=remaining)
        return self._append(connection, Kind.CHARGE, field, units, request.text)

    def _write_answered(self, connection: Connection) -> set[int]:
        answered = set(self._answered)
        for seq in answered:
            connection.execute("UPDATE entry SET answered = 1 WHERE seq = ?", (seq,))
        return answered

    def _account(self, connection: Connection, analyst: str | None) -> tuple[Units, Units]:
        """Returns limit and total of an account; an analyst's own only where the owner set limits for analysts."""
        name = DATASET if analyst is None else check_analyst(analyst)
        row = connection.execute(schema.ACCOUNT, (name,)).fetchone()
        if row is not None:
            return row[1:4], row[4:7]
        if not self._terms.is_open:
            advice = "The owner gives it one: dpquery ledger limit LEDGER --analyst NAME."
            raise InvalidLossError(f"no budget is set apart for the analyst {name!r}", advice=advice)
        lost = self._terms.lost
        return widest(self._terms.limit(name) or NOTHING, lost), lost

    def _family(self, connection: Connection, analyst: str | None) -> dict[str, tuple[Units, Units]]:
        """Returns limit and total of an analyst's accounts by block, the whole under ""; also of ones not yet open."""
        whole, name = self._account(connection, analyst), analyst or DATASET
        names = accounts.family(name, self._terms.axis)
        known = accounts.rows(connection, names) if len(names) > 1 else {}
        return {account.removeprefix(name)[1:]: known.get(account, whole) for account in names}

    def _rests(self, connection: Connection, analyst: str) -> dict[str, Units]:
        """Returns what an analyst may still spend in each block: the lesser of the own rest and the dataset's."""
        families = [self._family(connection, name) for name in (None, check_analyst(analyst))]
        return {block: _least(_rest(*own[block]) for own in families) for block in families[0]}

    def _remaining(self, connection: Connection, analyst: str, field: str) -> PrivacyLoss:
        """Returns what an analyst may still spend in each of the blocks that an entry's field names."""
        rests = self._rests(connection, analyst)
        return from_units(_least(rests[suffix[1:]] for suffix in accounts.meant(field, self._terms.axis)[1]))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger is shared by its path: open it again instead of copying or pickling it")


def _rest(limit: Units, spent: Units) -> Units:
    epsilon, delta, rho = (max(0, most - used) for most, used in zip(limit, spent, strict=True))
    return epsilon, delta, rho


def _most(amounts: Iterable[Units]) -> Units:
    epsilon, delta, rho = (max(parts) for parts in zip(*amounts, strict=True))
    return epsilon, delta, rho


def _least(amounts: Iterable[Units]) -> Units:
    epsilon, delta, rho = (min(parts) for parts in zip(*amounts, strict=True))
    return epsilon, delta, rho


def now() -> str:
    """Returns the time for people; nothing depends on it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
