"""The ledger: what has been spent, shared by all that open it, in a file or in PostgreSQL.

docs/proofs/ledger.md.

Invariant at every instant: released <= recorded <= limit, for the dataset and for each analyst. A charge is durable
before `charge` returns, and nothing takes it back. Anything unexpected (a missing, foreign, damaged or restored
ledger, a full disk, a lock that stays, a lost connection) refuses the charge.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from dpquery.errors import InternalError, LedgerError
from dpquery.kernel.accountant import Budget, BudgetKind, LedgerAmount, limit_of, to_units
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger import disk, owner, schema, store_locations
from dpquery.ledger.acts import Acts
from dpquery.ledger.book import Book, now
from dpquery.ledger.entries import Entry, State, act, check_analyst, told
from dpquery.ledger.schema import ANSWERED, CHECKPOINT, DATASET, EntryKind
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations

__all__ = ["Entry", "EntryKind", "Ledger", "State"]

LONGEST_QUERY = 10_000
Place = str | os.PathLike[str]


class Ledger(Acts):
    """A ledger, opened and verified. Safe to share between threads and across a fork; cannot be copied."""

    def __init__(self, place: Place, *, since: str | None = None, mark: Place | None = None) -> None:
        super().__init__(place, mark)
        with self._reading() as log:
            seq = (since or "").partition(":")[0]
            known = self._hash_at(log, int(seq)) if seq.isdecimal() and len(seq) < 19 else None
            if since is not None and since != f"{seq}:{known}":
                raise LedgerError(
                    "the ledger is older than the given mark, or a different ledger; no query is answered"
                )

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

        Example:
            >>> terms = catalog.declarations, catalog.budget, catalog.analysts
            >>> Ledger.create(folder / "new", *terms).remaining("ann")
            epsilon 1000
        """
        for analyst in analysts:
            check_analyst(analyst)
        kept = "" if mark is None else os.path.abspath(mark)
        marks = store_locations.mark_at(path, kept)
        store_locations.check_free(path, marks)
        founding = schema.founding(declarations, budget, analysts, created=now(), mark=kept)
        marks.make(founding.hash)  # before the ledger is there: a ledger without its mark is never answered from
        try:
            store_locations.make_at(path, founding)
        except BaseException:
            marks.path.unlink()
            raise
        return Ledger(path)

    @staticmethod
    def open(path: Place, *, since: str | None = None, mark: Place | None = None) -> Ledger:
        """Returns an existing ledger after verifying it from its last checkpoint on; never creates one.

        Raises LedgerError if anything is missing, damaged or unexpected; `verify` looks at everything.

        A ledger that lost an entry which its mark remembers, as a restored backup has, is refused; `mark` names
        the mark's file where it was moved. With `since`, a `mark` written down, an older state is refused too.

        Example:
            >>> Ledger.open(ledger.place, since=ledger.mark).remaining("ann") == ledger.remaining("ann")
            True
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
        with ledger._store.transaction(writes=True) as log:
            ledger._follow(log, is_accepted=True)
            log.cut(ledger._end)
            holds = partial(ledger._holds, log)
            units = owner.lost(ledger._replay, ledger._marks, holds, is_mark_lost=is_mark_lost)
            levels = owner.kept(ledger._replay, ledger._marks, holds)
            head = ledger._append(log, EntryKind.RESTORE, DATASET, units, text)
        ledger._store.sync()
        ledger._marks.replace(ledger._terms.identity, [*levels, head])
        return ledger.entries()[-1]

    @property
    def declarations(self) -> Declarations:
        """The promise that the ledger was created for."""
        return self._terms.declarations

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together, in the owner's words.

        Example:
            >>> ledger.budget == catalog.budget
            True
        """
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
    def mark(self) -> str:
        """Number and hash of the last entry. Kept on another machine, it lets `open` refuse an older copy.

        Example:
            >>> number, hash = ledger.mark.split(":")
            >>> ledger.hash_of(int(number)) == hash
            True
        """
        with self._reading():
            return str(self._replay.head)

    def hash_of(self, entry: int) -> str | None:
        """Returns the hash of an entry, of the founding document for 0, or None where there is none."""
        with self._reading() as log:
            return self._hash_at(log, entry)

    def hashes(self, entries: Iterable[int]) -> dict[int, str]:
        """Returns the hashes of those of the entries that there are, in one reading."""
        with self._reading() as log:
            wanted = {seq for seq in entries if 0 <= seq <= self._replay.head.seq}
            start = log.find(min(wanted)) if wanted else None
            lines = () if start is None else (line for _, line, end in log.lines(start) if end <= self._end)
            told = map(schema.glance, lines)
            found = {seq: hash for seq, kind, hash in told if seq in wanted and kind not in (ANSWERED, CHECKPOINT)}
        return found

    @property
    def place(self) -> Path | str:
        """The file, or the URL of the database, with its password if it has one."""
        return str(self._place) if store_locations.is_url(self._place) else disk.place(self._place)

    @property
    def mark_path(self) -> Path:
        """The file that holds the high-water mark."""
        return self._marks.path

    def charge(
        self,
        *,
        analyst: str,
        loss: PrivacyLoss,
        query: str,
        blocks: Touched | None = None,
        data_version: str | None = None,
    ) -> int:
        """Returns the number of a new entry, durably recorded. To be called before a private row is read.

        The loss, more than nothing and in the budget's currency, is rounded up to whole units. The query's text is
        for people, and cut after 10,000 characters. `blocks` are those that the query touches, None for all.
        `data_version` is that of the data to be read, None for whichever holds.
        Raises:
            InsufficientBudgetError: It exceeds what the analyst or the dataset has left; nothing was recorded.
            DataChangedError: The ledger has a newer version of the data; nothing was recorded.
            LedgerError: It was not recorded, or this is unknown; there must be no answer.
        Example:
            >>> charged = Ledger.create(folder / "charged", catalog.declarations, catalog.budget, {})
            >>> loss = session.explain("SELECT COUNT(*) AS n FROM visits", epsilon=1).charge
            >>> charged.charge(analyst="ann", loss=loss, query="SELECT COUNT(*) AS n FROM visits")
            1
            >>> charged.remaining("ann")
            epsilon 999
        """
        units = self._units(loss)
        text = query[:LONGEST_QUERY].encode(errors="backslashreplace").decode().replace("\0", "\\x00")
        return self._charge(analyst, units, text, blocks, data_version)

    def complete(self, entry: int) -> None:
        """Marks an entry as answered, for the owner's eyes: it was spent before and stays so.

        Written together with the next charge, or by `close`; where that is lost, no harm is done.
        """
        if type(entry) is not int or entry < 1:
            raise InternalError("an answer without an entry in the ledger")
        self._answered.add(entry)

    def entries(self, *, after: int = 0) -> list[Entry]:
        """Returns the charges and the owner's acts that follow an entry's number, by default all; oldest first.

        Example:
            >>> [entry.loss for entry in ledger.entries(after=1_000)]
            []
        """
        with self._reading() as log:
            position = log.find(max(after, 0)) if after <= self._replay.head.seq else None
            lines = () if position is None else (line for _, line, end in log.lines(position) if end <= self._end)
            return told(list(lines), self._answered)

    def verify(self) -> int:
        """Returns the number of entries after following all of them; raises LedgerError on damage.

        Example:
            >>> ledger.verify() == len(ledger.entries())
            True
        """
        with self._store.transaction(writes=False) as log:
            self._follow(log, is_whole=True)
            return self._replay.head.seq

    def close(self) -> None:
        """Writes which entries were answered and closes this process's connection; the next use opens another."""
        try:
            if self._answered:
                with self._writing() as log:
                    answered = set(self._answered)
                    self._add(
                        log, [schema.write(self._replay.chain, self._replay.head.seq, ANSWERED, sorted(answered))]
                    )
                self._answered -= answered
        finally:
            self._store.close()

    def _units(self, loss: PrivacyLoss) -> LedgerAmount:
        if type(loss) is not PrivacyLoss or loss == ZERO:
            raise InternalError("a charge must be a loss greater than zero")
        if loss.rho if self.budget.kind is BudgetKind.PURE else loss.epsilon:
            raise InternalError("the charge is not in the currency of the budget")
        return to_units(loss)
