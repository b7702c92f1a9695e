"""A ledger as one session charges it: for one version of the data. docs/proofs/ledger.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpquery.errors import DataChangedError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.units.blocks import Touched
from dpquery.units.declarations import Declarations

if TYPE_CHECKING:
    from dpquery.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class AtVersion:
    """A ledger that is charged as long as it has one version of the data, and then no more; see `DurableLedger`.

    Claim:
        Every charge is recorded while the ledger has that version: it is compared in the charge's own transaction
        (docs/proofs/ledger.md).

    Attributes:
        ledger: What is charged.
        data_version: The version that the ledger had before the data were opened.
    """

    ledger: Ledger
    data_version: str

    def check(self) -> None:
        """Raises DataChangedError where the ledger has another version by now."""
        check_version(self.data_version, self.ledger.data_version)

    @property
    def declarations(self) -> Declarations:
        """The promise that the limits are for."""
        return self.ledger.declarations

    @property
    def budget(self) -> Budget:
        """The limit for all analysts together."""
        return self.ledger.budget

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """The limit of each analyst who has one."""
        return self.ledger.budgets

    def charge(self, *, analyst: str, loss: PrivacyLoss, query: str, blocks: Touched | None = None) -> int:
        """Returns the number of the charge's entry, or raises; DataChangedError where the data are newer."""
        return self.ledger.charge(
            analyst=analyst, loss=loss, query=query, blocks=blocks, data_version=self.data_version
        )

    def complete(self, entry: int) -> None:
        """Notes that an entry was answered."""
        self.ledger.complete(entry)

    def shown_blocks(self, touched: Touched) -> str:
        """Returns for people which blocks a charge counts in."""
        return self.ledger.shown_blocks(touched)


def check_version(opened: str | None, now: str) -> None:
    """Raises DataChangedError unless the version with which data were opened, None for any, is the ledger's now."""
    if opened not in (None, now):
        raise DataChangedError(
            "the owner recorded a new version of the data after this session was opened, so the session holds "
            "outdated rows; nothing was charged. Open a new session, or protect the frame again"
        )
