"""What the gate demands of a ledger. `dpquery/ledger` gives it: docs/proofs/ledger.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations


class DurableLedger(Protocol):
    """A record of what was spent: released <= recorded <= limit, at every instant, and over all processes together.

    The gate believes these sentences, and nothing else about a ledger:

    1. A charge is recorded durably before `charge` returns: no crash, power cut or other process takes it back.
    2. What is recorded never exceeds the limit, of the analyst and of all together, in any block. What would is
       refused, and so is every charge of which it is not certain that it was recorded.
    3. Declarations and the kind of the budget are those that the limits were set for.
    """

    @property
    def declarations(self) -> Declarations:
        """The promise that the limits are for: whose rows there are, and what neighbours are."""
        ...

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together: its kind says in which currency charges are counted."""
        ...

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """The limit of each analyst who has one; of all others the dataset's counts."""
        ...

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str, blocks: Touched | None = None) -> int:
        """Returns the number of the charge's entry, which is durable by then, or raises; blocks None are all.

        Raises:
            InsufficientBudgetError: The limit leaves less; nothing was recorded.
            LedgerError: It was not recorded, or this is unknown; there must be no answer.
        """
        ...

    def complete(self, entry: int) -> None:
        """Notes that an entry was answered, for the owner's eyes alone: it was spent before and stays so."""
        ...

    def shown_blocks(self, touched: Touched) -> str:
        """Returns for people which blocks a charge with these counts in; "" where rows are in no blocks."""
        ...
