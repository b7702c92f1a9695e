"""What mechanisms on values have lost, against a limit: in memory, or in a ledger on disk."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import InsufficientBudgetError, InvalidLossError
from dpquery.kernel.accountant import Budget, BudgetKind, counted, limit_of
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger.ledger import Ledger

CALLER = "mechanisms"
"""The analyst whose account in a ledger is charged."""
COMPOSED = "own accountant "
"""How the dataset of a ledger begins in which an own accountant composes losses; only that accountant charges it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One entry of an accountant: what was released, and what it cost."""

    what: str
    loss: PrivacyLoss


class Accountant:
    """Adds up the losses of mechanisms that may be chosen one after the other, and refuses what exceeds the limit.

    In memory: for notebooks and studies. What must outlive the process is charged to a ledger.

    Privacy:
        All releases that were charged here satisfy the limit together, also where later ones depend on earlier ones.
    Source:
        As for the ledger: docs/proofs/composition.md.
    Example:
        >>> accountant = Accountant(epsilon="1")
        >>> accountant.charge(Cost.pure(Fraction(1, 4)), "a count")
        >>> accountant.spent, accountant.remaining
        (epsilon 0.25, epsilon 0.75)
    """

    def __init__(self, *, epsilon: object = None, delta: object = None, rho: object = None) -> None:
        """Sets the limit: epsilon; epsilon and delta, which is counted in rho; or rho, with a delta or without."""
        self.budget = Budget.of(epsilon, delta, rho)
        self.limit = limit_of(self.budget)
        self.charges: tuple[Charge, ...] = ()
        self._lock = threading.Lock()

    @property
    def spent(self) -> PrivacyLoss:
        """The sum of all charges, in the currency that is counted."""
        return sum((charge.loss for charge in self.charges), start=ZERO)

    @property
    def remaining(self) -> PrivacyLoss:
        """What may still be charged."""
        limit, spent = self.limit, self.spent
        return PrivacyLoss(
            epsilon=limit.epsilon - spent.epsilon, delta=limit.delta - spent.delta, rho=limit.rho - spent.rho
        )

    def charge(self, cost: Cost, what: str) -> None:
        """Records a cost, or raises InsufficientBudgetError and records nothing."""
        loss = cost.within(self.budget.kind)
        with self._lock:
            left = self.remaining
            if loss.epsilon > left.epsilon or loss.rho > left.rho:
                message = f"{what} costs {loss}, and {left} remains"
                raise InsufficientBudgetError(message, requested=loss, remaining=left)
            self.charges += (Charge(what=what, loss=loss),)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a mechanism loses: a pure `epsilon`, or None where it has none, and the `rho` of zCDP."""

    epsilon: Fraction | None
    rho: Fraction

    @staticmethod
    def pure(epsilon: Fraction) -> Cost:
        """Returns the cost of an epsilon-DP mechanism."""
        return Cost(epsilon, epsilon**2 / 2)

    @property
    def loss(self) -> PrivacyLoss:
        """The mechanism's own guarantee: epsilon where it has one, else rho."""
        return PrivacyLoss(rho=self.rho) if self.epsilon is None else PrivacyLoss(epsilon=self.epsilon)

    def within(self, kind: BudgetKind) -> PrivacyLoss:
        """Returns what is charged under a budget: epsilon under a pure one, else rho; rounded up to whole units."""
        if kind is not BudgetKind.PURE:
            return counted(PrivacyLoss(rho=self.rho))
        if self.epsilon is None:
            raise InvalidLossError("a budget of epsilon alone cannot pay for Gaussian noise", advice="Add a delta.")
        return counted(PrivacyLoss(epsilon=self.epsilon))


def pay(to: Accountant | Ledger | None, cost: Cost, what: str) -> None:
    """Charges a cost before anything is drawn. In a ledger the account of the analyst `mechanisms` pays.

    Raises:
        InsufficientBudgetError: It exceeds what is left; nothing was recorded.
        LedgerError: It was not recorded, or this is unknown.
    """
    if isinstance(to, Accountant):
        to.charge(cost, what)
    elif isinstance(to, Ledger) and to.declarations.dataset.startswith(COMPOSED):
        raise InvalidLossError(
            "this ledger is charged by its own accountant alone", advice="Give ComposedAccountant(ledger, accountant)."
        )
    elif isinstance(to, Ledger):
        entry = to.charge(analyst=CALLER, loss=cost.within(to.budget.kind), query=what)
        to.complete(entry)
    elif to is not None:
        raise InvalidLossError("`to` is an Accountant, a Ledger, or None where nothing is counted")
