"""The book behind a ledger: its records, followed one after the other and checked with its mark at every look.

docs/proofs/ledger.md.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from typing import NoReturn

from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import LedgerAmount, from_units
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger import accounts, schema, store_locations
from dpquery.ledger.entries import check_analyst
from dpquery.ledger.mark import REMEDY, Checkpoint, MarkFile, Remembered
from dpquery.ledger.replay import Replay, begun
from dpquery.ledger.schema import ANSWERED, CHECKPOINT, DATASET, EntryKind, Mark, Record
from dpquery.ledger.store import Log
from dpquery.ledger.store_locations import Place
from dpquery.ledger.terms import Terms, least, most
from dpquery.ledger.versions import check_version
from dpquery.units.blocks import Touched


class Book:
    """A store, its mark, and what this process has followed of them."""

    def __init__(self, place: Place, mark: Place | None) -> None:
        self._place = place if store_locations.is_url(place) else os.path.abspath(place)  # wherever the process goes
        self._store = store_locations.store_at(place)
        self._kept = "" if mark is None else os.fspath(mark)
        self._replay: Replay
        self._marks: MarkFile
        self._seen: Mark | None = None
        self._last, self._end = (0, ""), 0  # where the last record begins, its line, and where the next will begin
        self._answered: set[int] = set()

    @property
    def _terms(self) -> Terms:
        return self._replay.terms

    def limit(self, analyst: str | None) -> PrivacyLoss:
        """Returns the limit of an analyst, or of the dataset for None, as the ledger counts it, in each block."""
        with self._reading():
            limits = (self._replay.limit(name) for name in self._family(analyst).values())
            return from_units(most(limit for limit in limits if limit is not None))

    def spent(self, analyst: str | None) -> PrivacyLoss:
        """Returns what an analyst, or for None all together, were charged, answered or not; with blocks, the most."""
        with self._reading():
            return from_units(most(map(self._replay.spent, self._family(analyst).values())))

    def remaining(self, analyst: str, touched: Touched | None = None) -> PrivacyLoss:
        """Returns what an analyst may still spend: part by part the lesser of the own rest and the dataset's.

        With blocks, it is the least over those that a query touches, by default over all.

        Example:
            >>> ledger.remaining("ann"), ledger.entries()
            (epsilon 1000, [])
        """
        with self._reading():
            return self._remaining(check_analyst(analyst), accounts.field_of(analyst, touched, self._terms.axis))

    def shown_blocks(self, touched: Touched) -> str:
        """Returns for people which blocks a query is charged to that touches these; "" where rows are in no blocks."""
        return accounts.shown(accounts.field_of(DATASET, touched, self._terms.axis))

    def remaining_by_block(self, analyst: str) -> dict[str, PrivacyLoss]:
        """Returns what an analyst may still spend in each block; empty where rows are in no blocks."""
        with self._reading():
            named = self._family(check_analyst(analyst))
            return {name: self._left(account) for name, account in named.items() if name}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Log]:
        """Gives a ledger as it is now, without holding anybody off."""
        with self._store.transaction(writes=False) as log:
            self._follow(log)
            yield log

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Log]:
        """Holds the write lock on a ledger that holds the last entry seen and the mark's."""
        with self._store.transaction(writes=True) as log:
            self._follow(log)
            log.cut(self._end)  # what a write left that broke off: the mark knows of nothing behind the last record
            yield log

    def _follow(self, log: Log, *, is_accepted: bool = False, is_whole: bool = False) -> None:
        """Follows what was added, from the beginning if it is `is_whole`.

        Raises LedgerError where the ledger lost an entry that was seen, or that its mark remembers. With `is_accepted`,
        the owner accepts it regardless of the mark.
        """
        if is_whole or self._store.is_suspect:
            self._begin(log, is_whole=is_whole or is_accepted)
        elif next(log.lines(self._last[0]), (0, ""))[:2] != self._last:
            raise LedgerError(LOST)
        newest = None if is_accepted else self._marks.read(self._terms.identity)  # before the entries that follow
        self._store.is_suspect = True  # until all of it was followed
        is_whole = self._advance(log)
        is_held = self._seen is None or self._holds(log, self._seen)
        is_held &= newest is None or self._holds(log, newest.newest)
        behind = f"the record behind entry {self._replay.head.seq}"
        schema.demand(is_whole or is_held, f"{behind} was changed or is missing")
        if self._seen is not None and not self._holds(log, self._seen):
            raise LedgerError(LOST)
        if newest is not None:
            self._check_mark(log, newest)
        self._seen, self._store.is_suspect = self._replay.head, False

    def _advance(self, log: Log) -> bool:
        """Whether all lines follow, after following those that do."""
        for start, line, end in log.lines(self._end):
            if not self._replay.follow(line):
                log.unfinished()
                return False
            self._last, self._end = (start, line), end
        return True

    def _begin(self, log: Log, *, is_whole: bool) -> None:
        """Reads the founding document and, unless it `is_whole`, the last checkpoint before the mark's entry."""
        self._store.check()
        found = next(log.lines(0), None)
        if found is None:
            raise LedgerError("this is not a dpquery ledger: it has no founding document")
        start, line, self._end = found
        self._replay, self._last = begun(line), (start, line)
        self._marks = store_locations.mark_of(self._place, self._terms.place, self._kept)
        if is_whole:
            return
        marked = self._marks.read(self._terms.identity).newest
        position = log.checkpoint(marked.seq)
        if position is None:
            return
        start, line, end = next(log.lines(position))
        checkpoint = schema.read_checkpoint(line)
        schema.demand(checkpoint is not None, "a checkpoint was changed")
        if checkpoint is not None:
            self._replay.resume(checkpoint)
            self._last, self._end = (start, line), end

    def _check_mark(self, log: Log, found: Remembered) -> None:
        """Refuses a ledger that lost an entry which its mark remembers: read before the entries, it is never ahead."""
        if not self._holds(log, found.newest):
            raise LedgerError(
                f"it lost entries: its mark {self._marks.path} names entry {found.newest.seq}, which the ledger "
                "does not contain, as if an older copy was restored. No query is answered. Restore the newest "
                "copy, or accept this one with dpquery ledger reconcile, which charges what may have been lost"
            )
        if found.is_cut_short and found.newest.seq >= self._replay.head.seq:
            raise LedgerError(
                f"its mark {self._marks.path} is damaged, and the ledger ends at entry {found.newest.seq}, the "
                f"last entry that can still be read from the mark: later entries may be lost{REMEDY}"
            )

    def _holds(self, log: Log, mark: Mark) -> bool:
        """Whether the chain that was followed has a marked entry."""
        return mark.seq <= self._replay.head.seq and self._hash_at(log, mark.seq) == mark.hash

    def _hash_at(self, log: Log, seq: int) -> str | None:
        known, position = self._replay.hash_at(seq), None
        if known is None and seq <= self._replay.head.seq:
            position = log.find(seq)
        return known if position is None else schema.glance(next(log.lines(position))[1])[2]

    def _append(self, log: Log, kind: EntryKind, account: str, units: LedgerAmount, text: str) -> Checkpoint:
        """Adds an entry, and what goes with it: which entries were answered, and a checkpoint where one is due."""
        answered, replay = set(self._answered), self._replay
        chain, records = replay.chain, list[Record]()
        if answered:
            records.append(schema.write(chain, replay.head.seq, ANSWERED, sorted(answered)))
            chain = records[-1].hash
        is_due = replay.is_due
        records.append(schema.write(chain, replay.head.seq + 1, kind.value, now(), account, list(units), text))
        self._add(log, records)
        if is_due:
            self._add(log, [schema.write(replay.chain, replay.head.seq, CHECKPOINT, replay.checkpoint())])
        self._answered -= answered
        return Checkpoint(replay.head, replay.spent(self._terms.total))

    def _add(self, log: Log, records: list[Record]) -> None:
        """Adds records that follow, each of which is allowed."""
        self._store.is_suspect = True  # until they are followed
        for record, (start, end) in zip(records, log.append(self._end, records), strict=True):
            schema.demand(self._replay.follow(record.line), "a record does not follow its predecessor")
            self._last, self._end = (start, record.line), end
        self._store.is_suspect = False

    def _settle(self, level: Checkpoint) -> int:
        """Makes an added entry durable, with all that others added meanwhile, and then the mark; returns its number.

        What fails here is spent and not answered.
        """
        with self._marks.turn() as descriptor:
            with self._reading() as log:
                if not self._holds(log, level.mark):
                    raise LedgerError(LOST)
                durable = self._marks.read(self._terms.identity).durable
                head = Checkpoint(self._replay.head, self._replay.spent(self._terms.total))
            if durable is None or durable.mark.seq < level.mark.seq:
                self._store.sync()
                self._marks.advance(descriptor, self._terms.identity, head)
        return level.mark.seq

    def _charge(
        self, analyst: str, units: LedgerAmount, text: str, blocks: Touched | None, data_version: str | None
    ) -> int:
        if min(units) < 0 or max(units) == 0:
            raise InvalidLossError("a charge must be greater than zero")
        with self._writing() as log:
            check_version(data_version, self._terms.data_version)
            field = accounts.field_of(check_analyst(analyst), blocks, self._terms.axis)
            remaining = self._remaining(analyst, field)
            if not self._replay.allows(field, units):
                place = f" in {accounts.shown(field)}" if self._terms.axis else ""
                reason = f"The query costs {from_units(units)}; what is left for {analyst}{place} is {remaining}."
                raise InsufficientBudgetError(reason, requested=from_units(units), remaining=remaining)
            level = self._append(log, EntryKind.CHARGE, field, units, text)
        return self._settle(level)

    def _family(self, analyst: str | None) -> dict[str, str]:
        """Returns the accounts of an analyst by block, the whole under ""; raises InvalidLossError for none."""
        name = DATASET if analyst is None else check_analyst(analyst)
        if self._terms.limit(name) is None:
            advice = "The owner can set one: dpquery ledger limit LEDGER --analyst NAME."
            raise InvalidLossError(f"no budget is set apart for the analyst {name!r}", advice=advice)
        return {account.removeprefix(name)[1:]: account for account in accounts.family(name, self._terms.axis)}

    def _remaining(self, analyst: str, field: str) -> PrivacyLoss:
        """Returns what an analyst may still spend in each of the blocks that an entry's field names."""
        self._family(analyst)
        return self._left(field)

    def _left(self, field: str) -> PrivacyLoss:
        left = map(self._replay.left, self._terms.charged(field))
        return from_units(least(rest for rest in left if rest is not None))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger cannot be copied or pickled; open it again by its path")


LOST = "the ledger lost entries while it was open, as if an older copy was restored"


def now() -> str:
    """Returns the time for people; nothing depends on it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
