"""The owner's acts that change what a ledger promises from then on, each an entry. docs/proofs/ledger.md."""

from __future__ import annotations

from dpquery.kernel.accountant import Budget
from dpquery.ledger import owner
from dpquery.ledger.accounts import widened
from dpquery.ledger.amendments import amended
from dpquery.ledger.book import Book
from dpquery.ledger.entries import act, check_analyst
from dpquery.ledger.schema import DATASET, NOTHING, EntryKind
from dpquery.units.declarations import Declarations


class Acts(Book):
    """A book whose owner decides: limits, blocks, tables, new data. Each says who, and why."""

    @property
    def data_version(self) -> str:
        """Names the state of the data, changed by `new_data_version` and `reconcile` alone."""
        with self._reading():
            return self._terms.data_version

    def set_limit(self, analyst: str | None, budget: Budget, *, by: str, why: str) -> int:
        """Returns the number of the entry by which the owner changes a limit, or gives a new analyst one.

        `analyst` is None for the dataset. The limit may be raised, or lowered to what was spent; the catalog has to say
        the same from then on. Raises InvalidLossError for other budgets, words that are missing, or unknown analysts.
        """
        account, text = DATASET if analyst is None else check_analyst(analyst), act(by, why, budget)
        with self._writing() as log:
            units = owner.new_limit(self._replay, account, budget)
            level = self._append(log, EntryKind.LIMIT, account, units, text)
        return self._settle(level)

    def extend_blocks(self, *, first: str | None = None, last: str | None = None, by: str, why: str) -> int:
        """Returns the number of the entry by which the owner gives more blocks of rows a budget, for new data.

        `first` and `last` are names of blocks, as 2025-12; the catalog's bounds have to say the same from then on.
        """
        with self._writing() as log:
            grown = widened(self._terms.axis, first, last)
            text = act(by, why, blocks=(grown.first, grown.last))
            level = self._append(log, EntryKind.BLOCKS, DATASET, NOTHING, text)
        return self._settle(level)

    def amend(self, declarations: Declarations, *, by: str, why: str) -> int | None:
        """Returns the number of the entry by which the owner declares more tables, under the same budget; None where
        nothing is new. Raises InvalidLossError, with the reason, where it would be another promise."""
        with self._writing() as log:
            made = amended(self._terms.declarations, declarations)
            if made.fingerprint() == self._terms.declarations.fingerprint():
                return None
            level = self._append(log, EntryKind.AMEND, DATASET, NOTHING, act(by, why, declarations=made))
        return self._settle(level)

    def new_data_version(self, *, by: str, why: str) -> str:
        """Returns the name of a new version of the data, recorded by the owner. Nothing is given back for new data."""
        text = act(by, why)
        with self._writing() as log:
            level = self._append(log, EntryKind.DATA, DATASET, NOTHING, text)
        self._settle(level)
        return self.data_version
