"""The accounts of a ledger: who may spend, what was spent, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.ledger.ledger import Ledger

PARTS = ("epsilon", "rho", "delta")

Account = tuple[str | None, "PrivacyLoss", "PrivacyLoss", "PrivacyLoss"]
"""a name, None for the dataset; limit, spent, left"""


def analysts_of(ledger: Ledger, named: Iterable[str] = ()) -> list[str]:
    """Returns the analysts who have a limit, are named by the catalog, or were charged, each once."""
    charged = [entry.analyst for entry in ledger.entries() if entry.analyst]
    return list(dict.fromkeys([*ledger.budgets, *named, *charged]))


def accounts_of(ledger: Ledger, analysts: Iterable[str]) -> Iterator[Account]:
    """Yields limit, spent and left of the dataset, under the name None, and of each analyst."""
    from dpquery.kernel.loss import PrivacyLoss

    limit, spent = ledger.limit(None), ledger.spent(None)
    left = PrivacyLoss(
        epsilon=limit.epsilon - spent.epsilon, delta=limit.delta - spent.delta, rho=limit.rho - spent.rho
    )
    yield None, limit, spent, left
    for analyst in analysts:
        yield analyst, ledger.limit(analyst), ledger.spent(analyst), ledger.remaining(analyst)
