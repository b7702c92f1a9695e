"""What the owner sees, read from the ledger: accounts, the last entries, and whether all of it is unbroken."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import LedgerError
from dpquery.frontends.admin.audit import SHOWN, Account, accounts_of, analysts_of, told
from dpquery.frontends.meaning import Account as Promised
from dpquery.frontends.meaning import of_budgets, together
from dpquery.frontends.text import epsilon_of, percent
from dpquery.kernel.accountant import promise
from dpquery.kernel.loss import show_amount
from dpquery.ledger.ledger import Entry, Ledger

SHOWN_ENTRIES = 50
RELATIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One part of one account, as the page draws it; `filled` lies between 0 and 100.

    `spent_epsilon` and `limit_epsilon` say what rho means as an epsilon, at the account's delta; they are "" elsewhere.
    """

    part: str
    spent: str
    limit: str
    left: str
    used: str
    filled: float
    spent_epsilon: str = ""
    limit_epsilon: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How the last check of every entry of the ledger ended; `entries` is None where it failed."""

    time: str
    entries: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The ledger, for one view of the page."""

    dataset: str
    promise: str
    data_version: str
    accounts: list[tuple[str, list[Bar]]]
    entries: list[tuple[Entry, str]]

    @property
    def has_rho(self) -> bool:
        """Whether an account is counted in rho, with an epsilon beside."""
        return any(bar.limit_epsilon for _, bars in self.accounts for bar in bars)


class LedgerWatch:
    """Looks at a ledger again and again, and remembers the last full check."""

    def __init__(self, ledger: Ledger, analysts: Iterable[str] = ()) -> None:
        self._ledger, self._named = ledger, list(analysts)
        self._lock = threading.Lock()
        self._analysts: dict[str, None] = dict.fromkeys(analysts_of(ledger, self._named))
        self._seen = 0
        self.verified = self.verify()

    def verify(self) -> Verified:
        """Checks every entry, and remembers how it went."""
        time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        try:
            count = self._ledger.verify()
            made = Verified(time=time, entries=count, message="")
        except LedgerError as error:
            made = Verified(time=time, entries=None, message=str(error))
        self.verified = made
        return made

    def accounts(self) -> list[Account]:
        """Returns limit, spent and left, of the dataset and of each analyst who is known.

        Raises:
            LedgerError: The ledger cannot be read, or lost entries.
        """
        with self._lock:
            for entry in self._ledger.entries(after=self._seen):
                self._seen = entry.seq
                if entry.analyst:
                    self._analysts[entry.analyst] = None
            return list(accounts_of(self._ledger, list(self._analysts)))

    def promises(self) -> list[Promised]:
        """Returns what the dataset and each analyst with a limit may cause, when all of it is spent; and what that of
        the dataset is for a few relatives who are alike; of a rho with a delta that is not known."""
        dataset, *analysts = of_budgets(self._ledger.declarations.dataset, self._ledger.budget, self._ledger.budgets)
        is_known = not (dataset.loss.rho and dataset.loss.delta)
        return [dataset, *analysts, *([together(dataset, RELATIVES)] if is_known else [])]

    def overview(self) -> Overview:
        """Returns what the page shows.

        Raises:
            LedgerError: The ledger cannot be read, or lost entries.
        """
        accounts = [
            (name or "all together", list(_bars(account))) for account in self.accounts() for name in account[:1]
        ]
        last = self._ledger.entries(after=max(0, self._seen - SHOWN_ENTRIES))
        return Overview(
            dataset=self._ledger.declarations.dataset,
            promise=promise(self._ledger.budget),
            data_version=self._ledger.data_version,
            accounts=accounts,
            entries=[(entry, told(entry)) for entry in reversed(last)],
        )


def _bars(account: Account) -> Iterator[Bar]:
    _, limit, spent, left = account
    for part in SHOWN:
        most, used, rest = (getattr(loss, part) for loss in (limit, spent, left))
        if most:
            share = Fraction(used, most)
            as_epsilon = [epsilon_of(rho, limit.delta) for rho in (used, most)] if part == "rho" else ["", ""]
            yield Bar(
                part=part,
                spent=show_amount(used),
                limit=show_amount(most),
                left=show_amount(rest),
                used=percent(share),
                filled=min(100.0, float(share * 100)),
                spent_epsilon=as_epsilon[0],
                limit_epsilon=as_epsilon[1],
            )
