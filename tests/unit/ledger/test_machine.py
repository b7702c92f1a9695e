"""Analysts, crashes, retries, limits, backups and restored copies in any order: the invariant, and a plain model.

released <= recorded <= limit, for the dataset and for each analyst, and only the model knows what was released.
"""

from __future__ import annotations

import os
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpquery.errors import DPQueryError, InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget, counted
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger import mark as ledger_mark
from dpquery.ledger.ledger import EntryKind, Ledger
from tests.unit.ledger.ledgers import MEMORY, OWNER, QUERY, declarations, file_site

EXAMPLES = int(os.environ.get("LEDGER_EXAMPLES", "40"))
ANALYSTS = st.sampled_from(["alice", "bob", "carol"])
AMOUNTS = st.fractions(min_value=0, max_value=Fraction(3, 10)).filter(bool)
LIMITS = st.fractions(min_value=Fraction(1, 10), max_value=2)


class Crash(BaseException):
    """The end of a process, at the worst moment."""


class OwnedLedger(RuleBasedStateMachine):
    """A ledger with its owner, its analysts and their misfortunes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.site = file_site(Path(self.folder.name))
        self.released: dict[str, Fraction] = {}
        self.recorded: dict[str, Fraction] = {}
        self.backup: Any = None
        self.ledger: Ledger
        self.is_widened = False  # since the backup: without the mark, nobody would know
        self.is_exact = True  # until something was lost, what is recorded is known to the unit

    @initialize(named=st.booleans())
    def create(self, named: bool) -> None:
        limits = {"alice": Budget.of(epsilon="0.6"), "bob": Budget.of(epsilon="3")} if named else {}
        self.ledger = Ledger.create(self.site.place, declarations(), Budget.of(epsilon=1), limits, mark=self.site.mark)

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
        self.folder.cleanup()

    def paid(self, analyst: str, amount: Fraction, *, is_answered: bool) -> None:
        for account in ("", analyst):
            self.recorded[account] = self.recorded.get(account, Fraction(0)) + amount
            if is_answered:
                self.released[account] = self.released.get(account, Fraction(0)) + amount

    @rule(analyst=ANALYSTS, amount=AMOUNTS)
    def charge(self, analyst: str, amount: Fraction) -> None:
        loss = PrivacyLoss(epsilon=amount)
        try:
            left = self.ledger.remaining(analyst)
        except InvalidLossError:
            with pytest.raises(InvalidLossError):
                self.ledger.charge(analyst=analyst, loss=loss, query=QUERY)
            return
        if counted(loss).epsilon > left.epsilon:
            with pytest.raises(InsufficientBudgetError):
                self.ledger.charge(analyst=analyst, loss=loss, query=QUERY)
        else:
            self.ledger.charge(analyst=analyst, loss=loss, query=QUERY)
            self.paid(analyst, counted(loss).epsilon, is_answered=True)

    @rule(analyst=ANALYSTS, amount=AMOUNTS, where=st.sampled_from(["append", "advance", "sync"]))
    def crash(self, analyst: str, amount: Fraction, where: str) -> None:
        """Within the transaction, between it and the mark, or before the mark is durable; then somebody retries."""

        def die(*_: object) -> None:
            raise Crash

        with pytest.MonkeyPatch.context() as patch:
            place = {
                "append": "file.FileLog.append",
                "advance": "mark.MarkFile.advance",
                "sync": "disk.sync",
            }
            patch.setattr(f"dpquery.ledger.{place[where]}", die)
            try:
                self.ledger.charge(analyst=analyst, loss=PrivacyLoss(epsilon=amount), query=QUERY)
            except Crash:
                if where != "append":
                    self.paid(analyst, counted(PrivacyLoss(epsilon=amount)).epsilon, is_answered=False)
            except DPQueryError:
                pass
        self.restart()

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self.site.open()

    @rule(analyst=st.sampled_from([None, "alice", "bob", "carol"]), limit=LIMITS)
    def set_limit(self, analyst: str | None, limit: Fraction) -> None:
        budget = Budget.of(epsilon=limit)
        try:
            self.ledger.set_limit(analyst, budget, **OWNER)
        except InvalidLossError as error:
            assert "below what was already spent" in str(error) or "no limits of their own" in str(error)
            return
        self.is_widened = True
        assert self.ledger.limit(analyst).epsilon <= limit
        assert (self.ledger.budget if analyst is None else self.ledger.budgets[analyst]) == budget

    @rule()
    def new_data(self) -> None:
        before = self.ledger.data_version
        assert self.ledger.new_data_version(**OWNER) == self.ledger.data_version != before

    @rule()
    def back_up(self) -> None:
        self.backup = self.site.copy()
        self.is_widened = False

    @precondition(lambda self: self.backup is not None)
    @rule(is_mark_lost=st.booleans())
    def restore(self, is_mark_lost: bool) -> None:
        """The copy is put back: where it lost an entry it is refused, until the owner accepts it."""
        held = self.ledger.mark
        self.ledger.close()
        self.site.put_back(self.backup)
        marked = ledger_mark.MarkFile(self.site.mark).read(self.ledger._terms.identity).newest
        is_mark_lost = is_mark_lost and not self.is_widened
        if is_mark_lost:
            self.site.mark.unlink()
        try:
            self.ledger = self.site.open()
            assert not is_mark_lost
            assert self.ledger.entries()[marked.seq - 1 :] or not marked.seq
            if self.ledger.mark != held:  # entries that were never answered, as their mark was never written
                self.is_exact = False
        except LedgerError:
            entry = Ledger.reconcile(self.site.place, is_mark_lost=is_mark_lost, **OWNER)
            assert entry.kind is EntryKind.RESTORE
            self.is_exact = False
            self.ledger = self.site.open()

    @invariant()
    def released_recorded_limit(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for account, released in self.released.items():
            try:
                spent, limit = self.ledger.spent(account or None), self.ledger.limit(account or None)
            except InvalidLossError:
                continue  # its opening was lost: it cannot spend, and will begin with what was lost
            assert released <= spent.epsilon <= limit.epsilon
            if self.is_exact:
                assert spent.epsilon == self.recorded[account]


OwnedLedger.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
TestOwnedLedger = OwnedLedger.TestCase
