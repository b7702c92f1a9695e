"""The ledger: what has been spent, in one SQLite file shared by all processes of a machine. docs/proofs/ledger.md.

Invariant at every instant: released <= recorded <= limit, for the dataset and for each analyst. A charge is durable
before `charge` returns, and nothing takes it back. Whatever is unexpected (a missing, foreign, damaged or replaced
file, a full disk, a lock that stays) refuses the charge.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn

from dpquery.errors import InsufficientBudgetError, InternalError, InvalidLossError, LedgerError
from dpquery.kernel import ledger_file as file
from dpquery.kernel import ledger_schema as schema
from dpquery.kernel.accountant import Budget, BudgetKind, Units, from_units, to_units
from dpquery.kernel.declarations import Declarations
from dpquery.kernel.ledger_schema import DATASET, Founding, Mark
from dpquery.kernel.loss import ZERO, PrivacyLoss

LONGEST_QUERY = 10_000


class State(Enum):
    """Whether an answer followed a charge. Both count as spent, for ever."""

    PENDING = "pending"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded charge. The time is decoration: the order is that of `seq`."""

    seq: int
    time: str
    analyst: str
    loss: PrivacyLoss
    query: str
    state: State


class Ledger:
    """A ledger, opened and verified. Safe to share between threads and across a fork; cannot be copied."""

    def __init__(self, path: str | os.PathLike[str], *, since: str | None = None) -> None:
        self._file = file.LedgerFile(file.place(path))
        self._mark: Mark | None = None
        self._founding: Founding
        self._answered: set[int] = set()
        with self._transaction() as connection:
            seq = (since or "").partition(":")[0]
            known = schema.hash_at(connection, int(seq)) if seq.isdecimal() and len(seq) < 19 else None
            if since is not None and since != f"{seq}:{known}":
                raise LedgerError("the ledger is older than the given mark, or another one; no query is answered")

    @staticmethod
    def create(
        path: str | os.PathLike[str], declarations: Declarations, budget: Budget, analysts: Mapping[str, Budget]
    ) -> Ledger:
        """Returns a new ledger, bound to the declarations; refuses a path where anything stands.

        `analysts` holds each one's limit, of the dataset's kind; if empty, any analyst may spend the dataset's.
        Raises LedgerError where the file cannot be written, CatalogError or InvalidLossError for wrong budgets.
        """
        for analyst in analysts:
            _check_analyst(analyst)
        target = file.place(path)
        if any(os.path.lexists(f"{target}{suffix}") for suffix in ("", "-journal", "-wal", "-shm")):
            raise LedgerError(f"{target} exists, or a journal of it; open it, or choose another path")
        try:
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise LedgerError(f"{target} cannot be created: {error.strerror}") from error
        try:
            with contextlib.closing(file.connect(target)) as connection:
                file.configure(connection)
                connection.execute("BEGIN IMMEDIATE")
                schema.found(connection, declarations, budget, analysts, _now())
                connection.execute("COMMIT")
        except BaseException as error:
            target.unlink()
            if isinstance(error, sqlite3.Error):
                raise LedgerError(f"{target} cannot be written: {error}") from error
            raise
        return Ledger(target)

    @staticmethod
    def open(path: str | os.PathLike[str], *, since: str | None = None) -> Ledger:
        """Returns an existing ledger after verifying all of it; never creates or repairs one, but raises LedgerError.

        With `since`, a `mark` kept elsewhere, an older state of the ledger, as from a backup, is refused too.
        """
        return Ledger(path, since=since)

    @property
    def declarations(self) -> Declarations:
        """The promise that the ledger was created for."""
        return self._founding.declarations

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together, in the owner's words."""
        return self._founding.budget

    @property
    def analysts(self) -> Mapping[str, PrivacyLoss]:
        """The limit of each analyst who has one, as the ledger counts it; empty where any name may spend."""
        return {name: from_units(units) for name, units in self._founding.limits.items() if name != DATASET}

    @property
    def mark(self) -> str:
        """Number and hash of the last entry. Kept on another machine, it lets `open` refuse an older copy."""
        with self._transaction() as connection:
            return str(schema.last(connection))

    @property
    def path(self) -> Path:
        """Where the file stands."""
        return self._file.path

    def hash_of(self, entry: int) -> str | None:
        """Returns the hash of an entry, of the founding document for 0, or None where there is none."""
        with self._transaction() as connection:
            return schema.hash_at(connection, entry)

    def limit(self, analyst: str | None) -> PrivacyLoss:
        """Returns the limit of an analyst, or of the dataset for None, as the ledger counts it."""
        with self._transaction() as connection:
            return from_units(self._account(connection, analyst)[0])

    def spent(self, analyst: str | None) -> PrivacyLoss:
        """Returns what an analyst, or for None all together, were charged, answered or not."""
        with self._transaction() as connection:
            return from_units(self._account(connection, analyst)[1])

    def remaining(self, analyst: str) -> PrivacyLoss:
        """Returns what an analyst may still spend: part by part the lesser of the own rest and the dataset's."""
        with self._transaction() as connection:
            return self._remaining(connection, analyst)

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str) -> int:
        """Returns the number of a new entry, durably recorded. To be called before a private row is read.

        The loss, more than nothing and in the budget's currency, is rounded up to whole units. The query's text is
        for people, and cut after 10,000 characters.
        Raises:
            InsufficientBudgetError: It exceeds what the analyst or the dataset has left; nothing was recorded.
            LedgerError: It was not recorded, or nobody knows; there must be no answer.
        """
        units = self._units(loss)
        amounts = dict(zip(("epsilon", "delta", "rho"), units, strict=True))
        text = query[:LONGEST_QUERY].encode(errors="backslashreplace").decode()
        with self._transaction() as connection:
            remaining = self._remaining(connection, analyst)
            if len(self._founding.limits) == 1:
                connection.execute(schema.OPEN_ACCOUNT, (analyst, *self._founding.limits[DATASET]))
            for name in (DATASET, analyst):
                if connection.execute(schema.SPEND, {"name": name, **amounts}).rowcount != 1:
                    reason = f"The query costs {from_units(units)}; what is left for {analyst} is {remaining}."
                    raise InsufficientBudgetError(reason, requested=from_units(units), remaining=remaining)
            before = schema.last(connection)
            fields = (before.seq + 1, _now(), analyst, *units, text)
            mark = Mark(before.seq + 1, schema.hash_of(before.hash, *fields))
            connection.execute(schema.APPEND, (*fields, mark.hash))
            answered = self._write_answered(connection)
        self._mark = mark
        self._answered -= answered
        return mark.seq

    def complete(self, entry: int) -> None:
        """Marks an entry as answered, for the owner's eyes: it was spent before and stays so.

        Written together with the next charge, or by `close`; a mark that is lost does no harm.
        """
        if type(entry) is not int or entry < 1:
            raise InternalError("an answer without an entry in the ledger")
        self._answered.add(entry)

    def entries(self) -> list[Entry]:
        """Returns all charges, oldest first."""
        with self._transaction() as connection:
            rows = connection.execute("SELECT * FROM entry ORDER BY seq").fetchall()
        entries = []
        for seq, time, analyst, epsilon, delta, rho, query, _, answered in rows:
            state = State.ANSWERED if answered or seq in self._answered else State.PENDING
            loss = from_units((epsilon, delta, rho))
            entries.append(Entry(seq=seq, time=time, analyst=analyst, loss=loss, query=query, state=state))
        return entries

    def verify(self) -> int:
        """Returns the number of entries after checking everything again; raises LedgerError on damage."""
        self._file.is_suspect = True
        with self._transaction() as connection:
            return schema.last(connection).seq

    def close(self) -> None:
        """Writes which entries were answered and closes this process's connection; the next use opens another."""
        try:
            if self._answered:
                with self._transaction() as connection:
                    answered = self._write_answered(connection)
                self._answered -= answered
        finally:
            self._file.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Holds the write lock on a ledger that was verified, and that still holds the last entry seen."""
        with self._file.transaction() as connection:
            if self._file.is_suspect:
                self._founding, head = schema.verify(connection)
                self._file.is_suspect = False
                self._mark = self._mark or head
            if self._mark is not None and schema.hash_at(connection, self._mark.seq) != self._mark.hash:
                raise LedgerError("the ledger lost entries while it was open, as if an older copy were put back")
            yield connection

    def _write_answered(self, connection: sqlite3.Connection) -> set[int]:
        answered = set(self._answered)
        connection.executemany("UPDATE entry SET answered = 1 WHERE seq = ?", [(seq,) for seq in answered])
        return answered

    def _account(self, connection: sqlite3.Connection, analyst: str | None) -> tuple[Units, Units]:
        """Returns limit and total of an account; an analyst's own only where the owner set limits for analysts."""
        name = DATASET if analyst is None else _check_analyst(analyst)
        row = connection.execute(schema.ACCOUNT, (name,)).fetchone()
        if row is not None:
            return row[1:4], row[4:7]
        if len(self._founding.limits) > 1:
            advice = "The owner declares the budgets of analysts when the ledger is created."
            raise InvalidLossError(f"no budget is set apart for the analyst {name!r}", advice=advice)
        return self._founding.limits[DATASET], (0, 0, 0)

    def _remaining(self, connection: sqlite3.Connection, analyst: str) -> PrivacyLoss:
        accounts = (self._account(connection, None), self._account(connection, _check_analyst(analyst)))
        rests = [[most - used for most, used in zip(limit, spent, strict=True)] for limit, spent in accounts]
        epsilon, delta, rho = (max(0, min(pair)) for pair in zip(*rests, strict=True))
        return from_units((epsilon, delta, rho))

    def _units(self, loss: PrivacyLoss) -> Units:
        if type(loss) is not PrivacyLoss or loss == ZERO:
            raise InternalError("a charge is a loss of more than nothing")
        if loss.rho if self.budget.kind is BudgetKind.PURE else loss.epsilon:
            raise InternalError("a charge in another currency than the budget's")
        return to_units(loss)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger is shared by its path: open it again instead of copying or pickling it")


def _check_analyst(name: str) -> str:
    if type(name) is not str or not 0 < len(name) <= 100 or not name.isprintable():
        raise InvalidLossError("an analyst's name is a printable text of 1 to 100 characters")
    return name


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
