"""The ledger: what has been spent, shared by all that open it, in SQLite or PostgreSQL.

docs/proofs/ledger.md.

Invariant at every instant: released <= recorded <= limit, for the dataset and for each analyst. A charge is durable
before `charge` returns, and nothing takes it back. Whatever is unexpected (a missing, foreign, damaged or restored
ledger, a full disk, a lock that stays, a lost connection) refuses the charge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dpquery.errors import InternalError, LedgerError
from dpquery.kernel.accountant import Budget, BudgetKind, Units, limit_of, to_units
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger import file, owner, places, schema
from dpquery.ledger.accounts import widened
from dpquery.ledger.book import Book, now
from dpquery.ledger.entries import Entry, State, act, check_analyst, entry_of
from dpquery.ledger.queue import Request
from dpquery.ledger.schema import DATASET, NOTHING, Kind, Mark
from dpquery.ledger.store import Connection
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations

__all__ = ["Entry", "Kind", "Ledger", "State"]

LONGEST_QUERY = 10_000
Place = str | os.PathLike[str]


class Ledger(Book):
    """A ledger, opened and verified. Safe to share between threads and across a fork; cannot be copied."""

    def __init__(self, place: Place, *, since: str | None = None, mark: Place | None = None) -> None:
        super().__init__(place, mark)
        with self._transaction() as connection:
            seq = (since or "").partition(":")[0]
            known = schema.hash_at(connection, int(seq)) if seq.isdecimal() and len(seq) < 19 else None
            if since is not None and since != f"{seq}:{known}":
                raise LedgerError("the ledger is older than the given mark, or another one; no query is answered")

    @staticmethod
    def create(
        path: Place,
        declarations: Declarations,
        budget: Budget,
        analysts: Mapping[str, Budget],
        *,
        mark: Place | None = None,
    ) -> Ledger:
        """Returns a new ledger, bound to the declarations; refuses a place where anything stands.

        `path` is a file's, or a URL `postgresql://...`. `analysts` holds each one's limit, of the dataset's kind; if
        empty, any analyst may spend the dataset's. `mark` is where the high-water mark is kept: best on another
        disk; by default beside the file; in PostgreSQL it has to be given.
        Raises LedgerError where it cannot be written, CatalogError or InvalidLossError for wrong budgets.
        """
        for analyst in analysts:
            check_analyst(analyst)
        kept = "" if mark is None else os.path.abspath(mark)
        marks = places.mark_at(path, kept)

        def fill(connection: Connection) -> None:
            founding = schema.found(connection, declarations, budget, analysts, created=now(), mark=kept)
            marks.make(founding.hash)  # before the ledger is there: a ledger without its mark is never answered from
            made.append(founding)

        made: list[Mark] = []
        try:
            places.make_at(path, fill)
        except BaseException:
            if made:
                marks.path.unlink()
            raise
        return Ledger(path)

    @staticmethod
    def open(path: Place, *, since: str | None = None, mark: Place | None = None) -> Ledger:
        """Returns an existing ledger after verifying all of it; never creates or repairs one, but raises LedgerError.

        A ledger that lost an entry which its mark remembers, as a restored backup has, is refused; `mark` names
        the mark's file where it was moved. With `since`, a `mark` written down, an older state is refused too.
        """
        return Ledger(path, since=since, mark=mark)

    @staticmethod
    def reconcile(path: Place, *, by: str, why: str, mark: Place | None = None, is_mark_lost: bool = False) -> Entry:
        """Returns the entry by which the owner accepts a restored ledger, or with `is_mark_lost` one without its mark.

        Every account pays what may have been lost: all that the mark saw and the ledger may not hold; without a mark,
        all that was left. Raises LedgerError where nothing was lost, or the ledger itself is damaged.
        """
        text, ledger = act(by, why), Ledger.__new__(Ledger)
        Book.__init__(ledger, path, mark)
        with ledger._transaction(is_accepted=True) as connection:
            units = owner.lost(connection, ledger._terms, ledger._marks, is_mark_lost=is_mark_lost)
            levels = owner.kept(connection, ledger._terms, ledger._marks)
            owner.lose(connection, units)
            head = ledger._append(connection, Kind.RESTORE, DATASET, units, text)
        ledger._marks.replace(ledger._terms.identity, [*levels, head])
        return ledger.entries()[-1]

    @property
    def declarations(self) -> Declarations:
        """The promise that the ledger was created for."""
        return self._terms.declarations

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together, in the owner's words."""
        return self._terms.budgets[DATASET]

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """The limit of each analyst who has one, in the owner's words; empty where any name may spend."""
        return {name: own for name, own in self._terms.budgets.items() if name != DATASET}

    @property
    def analysts(self) -> Mapping[str, PrivacyLoss]:
        """The limit of each analyst who has one, as the ledger counts it; empty where any name may spend."""
        return {name: limit_of(own) for name, own in self.budgets.items()}

    @property
    def data_version(self) -> str:
        """Names the state of the data, changed by `new_data_version` and `reconcile` alone."""
        with self._transaction():
            return self._terms.data_version

    @property
    def mark(self) -> str:
        """Number and hash of the last entry. Kept on another machine, it lets `open` refuse an older copy."""
        with self._transaction() as connection:
            return str(schema.last(connection))

    def hash_of(self, entry: int) -> str | None:
        """Returns the hash of an entry, of the founding document for 0, or None where there is none."""
        with self._transaction() as connection:
            return schema.hash_at(connection, entry)

    @property
    def place(self) -> Path | str:
        """The file, or the URL of the database, with its password if it has one."""
        return str(self._place) if places.is_url(self._place) else file.place(self._place)

    @property
    def mark_path(self) -> Path:
        """The file that holds the high-water mark."""
        return self._marks.path

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str, blocks: Touched | None = None) -> int:
        """Returns the number of a new entry, durably recorded. To be called before a private row is read.

        The loss, more than nothing and in the budget's currency, is rounded up to whole units. The query's text is
        for people, and cut after 10,000 characters. `blocks` are those that the query touches, None for all.
        Raises:
            InsufficientBudgetError: It exceeds what the analyst or the dataset has left; nothing was recorded.
            LedgerError: It was not recorded, or nobody knows; there must be no answer.
        """
        units = self._units(loss)
        text = query[:LONGEST_QUERY].encode(errors="backslashreplace").decode().replace("\0", "\\x00")
        request = Request(self._terms.identity, analyst, units, text, blocks)
        return self._record(request, [])[0] if self._queue is None else self._queue.charge(request, self._record)

    def set_limit(self, analyst: str | None, budget: Budget, *, by: str, why: str) -> int:
        """Returns the number of the entry by which the owner changes a limit, or gives a new analyst one.

        `analyst` is None for the dataset. The limit may be raised, or lowered to what was spent; the catalog has to say
        the same from then on. Raises InvalidLossError for other budgets, words that are missing, or unknown analysts.
        """
        account, text = DATASET if analyst is None else check_analyst(analyst), act(by, why, budget)
        with self._transaction() as connection:
            units = owner.set_limit(connection, self._terms, account, budget)
            level = self._append(connection, Kind.LIMIT, account, units, text)
        return self._remember(level, is_act=True)

    def extend_blocks(self, *, first: str | None = None, last: str | None = None, by: str, why: str) -> int:
        """Returns the number of the entry by which the owner gives more blocks of rows a budget, for new data.

        `first` and `last` are names of blocks, as 2025-12; the catalog's bounds have to say the same from then on.
        """
        with self._transaction() as connection:
            grown = widened(self._terms.axis, first, last)
            text = act(by, why, blocks=(grown.first, grown.last))
            owner.extend(connection, grown)
            level = self._append(connection, Kind.BLOCKS, DATASET, NOTHING, text)
        self._remember(level, is_act=True)
        with self._transaction():  # the declarations are read again
            return level.mark.seq

    def new_data_version(self, *, by: str, why: str) -> str:
        """Returns the name of a new version of the data, recorded by the owner. Nothing is given back for new data."""
        text = act(by, why)
        with self._transaction() as connection:
            level = self._append(connection, Kind.DATA, DATASET, NOTHING, text)
        self._remember(level, is_act=True)
        return self.data_version

    def complete(self, entry: int) -> None:
        """Marks an entry as answered, for the owner's eyes: it was spent before and stays so.

        Written together with the next charge, or by `close`; a mark that is lost does no harm.
        """
        if type(entry) is not int or entry < 1:
            raise InternalError("an answer without an entry in the ledger")
        self._answered.add(entry)

    def entries(self, *, after: int = 0) -> list[Entry]:
        """Returns the charges and the owner's acts that follow an entry's number, by default all; oldest first."""
        with self._transaction() as connection:
            return [entry_of(row, self._answered) for row in schema.entries(connection, after)]

    def verify(self) -> int:
        """Returns the number of entries after checking everything again; raises LedgerError on damage."""
        self._store.is_suspect = True
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
            self._store.close()

    def _units(self, loss: PrivacyLoss) -> Units:
        if type(loss) is not PrivacyLoss or loss == ZERO:
            raise InternalError("a charge is a loss of more than nothing")
        if loss.rho if self.budget.kind is BudgetKind.PURE else loss.epsilon:
            raise InternalError("a charge in another currency than the budget's")
        return to_units(loss)
