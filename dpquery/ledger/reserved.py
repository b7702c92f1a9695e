"""A charge that is recorded at once and used in parts, for what is measured in rounds. docs/proofs/ledger.md."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from dpquery.errors import InsufficientBudgetError, InternalError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.versions import AtVersion
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations


class Reserved:
    """One recorded charge, of which parts are charged until nothing is left; see `DurableLedger`.

    Claim:
        The parts add up to the recorded charge at most, in each currency, for any analysts and in any order; and the
        charge is recorded, in all blocks, before there is a first part (docs/proofs/ledger.md). What is never used
        stays charged. Parts are taken in the process that reserved them alone: a fork would take them twice.

    Attributes:
        entry: The number of the charge.
        left: What of it is not used.
    """

    def __init__(self, ledger: AtVersion, *, analyst: str, loss: PrivacyLoss, query: str) -> None:
        self._ledger, self._analyst, self.left = ledger, analyst, loss
        self._guard, self._process = threading.Lock(), os.getpid()
        self.entry = ledger.charge(analyst=analyst, loss=loss, query=query)

    @property
    def declarations(self) -> Declarations:
        """The promise that the limits are for."""
        return self._ledger.declarations

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together."""
        return self._ledger.budget

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """The limit of each analyst who has one."""
        return self._ledger.budgets

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str, blocks: Touched | None = None) -> int:
        """Returns the number of the recorded charge, of which so much is used from here on.

        Raises:
            InsufficientBudgetError: Less is left; nothing was used.
            InternalError: Another analyst or process asks.
        """
        if analyst != self._analyst or os.getpid() != self._process:
            raise InternalError("a reserved charge is used by who reserved it, in the same process")
        with self._guard:
            left = self.left
            if loss.epsilon > left.epsilon or loss.delta > left.delta or loss.rho > left.rho:
                raise InsufficientBudgetError("what was reserved does not suffice", requested=loss, remaining=left)
            self.left = PrivacyLoss(
                epsilon=left.epsilon - loss.epsilon, delta=left.delta - loss.delta, rho=left.rho - loss.rho
            )
        return self.entry

    def complete(self, entry: int) -> None:
        """Notes that an entry was answered."""
        self._ledger.complete(entry)

    def shown_blocks(self, touched: Touched) -> str:
        """Returns for people which blocks a charge counts in."""
        return self._ledger.shown_blocks(touched)
