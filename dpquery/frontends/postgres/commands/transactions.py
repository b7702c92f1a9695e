"""Transactions of a server without writes: a status, settings that a rollback undoes, cursors that end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpquery.frontends.postgres.commands.gucs import Settings
from dpquery.frontends.postgres.commands.portals import NamedStatements, Outcome
from dpquery.frontends.postgres.wire.answers import Refusal

NOT_IN_BLOCK = ("25P01", "there is no transaction in progress")
IN_BLOCK = ("25001", "there is already a transaction in progress")
MOST_SAVEPOINTS = 1_000


@dataclass(slots=True)
class Block:
    """The transaction of one connection. What was charged in it stays charged when it is rolled back.

    Attributes:
        report: Tells the client the new value of a setting.
        status: I outside of a transaction, T inside, E in a failed one.
        in_block: Whether several statements of one query form a transaction of their own.
    """

    settings: Settings
    report: Callable[[str, str], None]
    store: NamedStatements = field(default_factory=NamedStatements)
    status: str = "I"
    in_block: bool = False
    _savepoints: list[str] = field(default_factory=list)

    def run(self, act: str, name: str | None) -> Outcome:
        """Runs a statement about transactions; see `nodes.Transaction`."""
        if act == "BEGIN":
            return self._begin(name)
        if act in ("COMMIT", "ROLLBACK"):
            is_sound = act == "COMMIT" and self.status != "E"
            return self._end("COMMIT" if is_sound else "ROLLBACK", is_committed=is_sound)
        self.demand(act)
        assert name is not None
        if act == "SAVEPOINT":
            if len(self._savepoints) >= MOST_SAVEPOINTS:
                raise Refusal("54000", "too many savepoints")
            self._savepoints.append(name)
            self.settings.begin(name)
            return Outcome(tag="SAVEPOINT")
        is_kept = act == "ROLLBACK TO SAVEPOINT"
        if name not in self._savepoints:
            raise Refusal("3B001", f'savepoint "{name[:63]}" does not exist')
        last = len(self._savepoints) - 1 - self._savepoints[::-1].index(name)
        del self._savepoints[last + is_kept :]
        if not is_kept:
            self.settings.release(name)
            return Outcome(tag="RELEASE")
        self.tell_changes(lambda: self.settings.roll_back(name))
        self.status = "T" if self.status == "E" else self.status
        return Outcome(tag="ROLLBACK")

    def _begin(self, isolation: str | None) -> Outcome:
        if self.status == "T":
            return Outcome(tag="BEGIN", notices=(IN_BLOCK,))
        self.status = "T"
        self.settings.begin()
        if isolation is not None:
            self.settings.set("transaction_isolation", isolation, is_local=True)
        return Outcome(tag="BEGIN")

    def _end(self, tag: str, *, is_committed: bool) -> Outcome:
        notices = (NOT_IN_BLOCK,) if self.status == "I" and not self.in_block else ()
        if is_committed:
            self.tell_changes(self.settings.commit)
        elif self.status != "I":
            self.tell_changes(self.settings.roll_back)
        self.status = "I"
        self._savepoints.clear()
        self.store.end_transaction(is_committed=is_committed)
        return Outcome(tag=tag, notices=notices)

    def end_implicit(self, *, is_committed: bool) -> None:
        """Ends what a query or a Sync was by itself, outside of a transaction."""
        if self.status == "I":
            self.store.end_transaction(is_committed=is_committed)
            if is_committed:
                self.tell_changes(self.settings.commit)
            self._savepoints.clear()

    def demand(self, what: str) -> None:
        """Raises Refusal outside of a transaction."""
        if self.status == "I" and not self.in_block:
            raise Refusal("25P01", f"{what} can only be used in transaction blocks")

    def tell_changes(self, change: Callable[[], None]) -> None:
        """Makes a change to the settings and tells the client of those that it watches."""
        before = dict(self.settings.values)
        change()
        for name, value in self.settings.values.items():
            if before.get(name) != value:
                self.report(name, value)
