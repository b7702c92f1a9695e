"""An accountant of one's own: how it composes losses, audited, in a ledger of its own kind that names the audit.

No query of a session is charged by it: what it promises rests on its author's proof. docs/proofs/values.md, "Own
accountants".
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol

from dpquery.accounting.amounts import Amount, read, read_delta
from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import EPSILON_UNIT, LARGEST, Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import CALLER, COMPOSED, Accountant, Charge, Cost
from dpquery.mechanisms.own_laws import Audit
from dpquery.mechanisms.own_source import load_accountant
from dpquery.units.declarations import Declarations, Neighbours

Losses = Sequence[PrivacyLoss]
MOST_STATES = 100_000
"""Sums of losses that are told apart for the bound from below."""
_KIND = re.compile(re.escape(COMPOSED) + r"(\S+) ([0-9a-f]{64}) delta (\S+) over ")
_MARK = "own accountant {}, audited as {}: "


class OwnAccounting(Protocol):
    """How losses compose, with what its author has proved."""

    proof: str
    """Where it is proved."""

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction | float:
        """Returns an epsilon such that mechanisms of these losses are (epsilon, delta)-DP together. Each loss has an
        `epsilon` or a `rho`. Each mechanism, and also its loss, may be chosen after the answers before, as long as what
        is returned stays within a limit: the proof has to be of a privacy filter."""


def least_delta(losses: Losses, epsilon: float) -> float:
    """Returns a delta that no accountant can be below: that of randomised response for each epsilon, and of Gaussian
    noise for each rho, fixed beforehand; in floating point.

    Where too many losses differ, some of them are left out, which lowers it.
    Source:
        Murtagh, Vadhan 2016, Theorem 1.5; Balle, Wang 2018, Theorem 8, at each sum of losses of the responses.
    """
    mu = math.sqrt(2 * math.fsum(float(loss.rho) for loss in losses))
    states = [(0.0, 1.0)]  # sums of losses of the responses, with their chances under the first of two neighbours
    for pure, count in Counter(loss.epsilon for loss in losses if loss.epsilon).items():
        if len(states) * (count + 1) > MOST_STATES:
            continue
        own = list(_responses(float(pure), count))
        states = [(a + b, p * q) for (a, p), (b, q) in itertools.product(states, own)]
    return math.fsum(chance * _beyond(epsilon - lost, mu) for lost, chance in states)


def _responses(epsilon: float, count: int) -> Iterator[tuple[float, float]]:
    """Yields the sums of losses of so many randomised responses, with their chances."""
    log_true, log_false = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    for true in range(count + 1):
        ways = math.lgamma(count + 1) - math.lgamma(true + 1) - math.lgamma(count - true + 1)
        yield (2 * true - count) * epsilon, math.exp(ways + true * log_true + (count - true) * log_false)


def _beyond(epsilon: float, mu: float) -> float:
    """Returns the delta of Gaussian noise at any real epsilon; mu is sensitivity / deviation."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if far > 25:  # where e^epsilon may be too large; by Mills' ratio from above, so delta from below
        other = math.exp(-(near**2) / 2) / (far * math.sqrt(2 * math.pi))
    else:
        other = math.exp(epsilon) * math.erfc(far / math.sqrt(2)) / 2
    return max(0.0, math.erfc(near / math.sqrt(2)) / 2 - other)


def claimed(accountant: OwnAccounting, losses: Losses, delta: Fraction) -> Fraction:
    """Returns the epsilon that an accountant claims, after looking whether it is below what no accountant can be below.

    Raises:
        InvalidLossError: It is, or it is not an amount.
    """
    found = accountant.epsilon(tuple(losses), delta)
    if isinstance(found, bool) or not isinstance(found, int | float | Fraction) or not 0 <= found <= LARGEST:
        raise InvalidLossError(f"the accountant claims {found!r}, which is not an epsilon")
    least = least_delta(losses, float(found))
    if least > float(delta) * (1 + 1e-6) + 1e-13:
        raise InvalidLossError(
            f"the accountant claims epsilon {float(found):.6g} of {len(losses)} losses at delta {float(delta):g}, and "
            f"some mechanisms of these losses have delta {least:.6g}"
        )
    return Fraction(found)


class AuditedAccountant:
    """An accountant of one's own whose audit found nothing; `own_accountant` makes one."""

    def __init__(self, name: str, digest: str, accountant: OwnAccounting, audit: Audit) -> None:
        if (audit.law, audit.currency) != (name, "composition"):
            raise InvalidLossError(f"the audit is of {audit.law} in {audit.currency}, not of the accountant {name}")
        if audit.digest != digest:
            raise InvalidLossError(
                f"{name}, or what it imports, is not the one that was audited at {audit.time}",
                advice=f"Audit it again: dpquery audit --mechanism {name}",
            )
        self.name, self.digest, self._accountant = name, digest, accountant

    def epsilon(self, losses: Losses, delta: Fraction) -> Fraction:
        """Returns the epsilon that it claims of losses, which is looked at; raises InvalidLossError as `claimed`."""
        return claimed(self._accountant, losses, delta)


def own_accountant(name: str, audit: str | os.PathLike[str]) -> AuditedAccountant:
    """Returns the accountant MODULE:NAME, if the audit in a file is of it as it is now.

    Raises:
        InvalidLossError: Not audited, audited with other source or versions, or no accountant.
    """
    digest, accountant = load_accountant(name)
    return AuditedAccountant(name, digest, accountant, Audit.read(audit))


class ComposedAccountant(Accountant):
    """A ledger of its own kind, in which an own accountant composes what mechanisms on values lose.

    Privacy:
        All releases that were charged here are (epsilon, delta)-DP together, if the proof of the accountant's author is
        right: each is drawn only after the accountant allows it together with all entries before it, and it falls
        nowhere as losses are added. docs/proofs/values.md, "Own accountants".
    """

    def __init__(self, ledger: Ledger, accountant: AuditedAccountant) -> None:
        """Takes a ledger that `own_composed_ledger` made, for the accountant that it names.

        Raises:
            InvalidLossError: It is another kind of ledger, or for another accountant.
        """
        kind = _KIND.match(ledger.declarations.dataset)
        if kind is None or kind.group(1, 2) != (accountant.name, accountant.digest):
            raise InvalidLossError(f"this is not a ledger of {accountant.name} as it was audited")
        self.ledger, self._accountant, self._delta = ledger, accountant, Fraction(kind.group(3))
        super().__init__(epsilon=ledger.budget.epsilon)
        self._mark = _MARK.format(accountant.name, accountant.digest)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All entries of the ledger: what was released, and what each loses by itself."""
        return tuple(self._read(entry.query) for entry in self.ledger.entries() if entry.kind.value == "charge")

    @charges.setter
    def charges(self, given: tuple[Charge, ...]) -> None:
        """Nothing is kept beside the ledger."""

    @property
    def spent(self) -> PrivacyLoss:
        """What the accountant claims of all charges, with the delta of the ledger."""
        return PrivacyLoss(epsilon=self._claimed(self.charges), delta=self._delta)

    @property
    def remaining(self) -> PrivacyLoss:
        """What is left of epsilon; more may fit, as losses compose to less than their sum."""
        return PrivacyLoss(epsilon=max(Fraction(0), self.limit.epsilon - self._claimed(self.charges)))

    def charge(self, cost: Cost, what: str) -> None:
        """Records a cost with its mark before anything is drawn.

        Raises:
            InsufficientBudgetError: The accountant claims more than the limit with it; nothing was recorded.
            InvalidLossError: The accountant claims what no accountant can; nothing was recorded.
            LedgerError: It was not recorded, or others were at the same time; there must be no release.
        """
        with self._lock:
            before = self.charges
            now, then = self._claimed(before), self._claimed((*before, Charge(what=what, loss=cost.loss)))
            if then > self.limit.epsilon:
                requested = PrivacyLoss(epsilon=then - now) if then > now else cost.loss
                raise InsufficientBudgetError(
                    f"with {what} the accountant claims epsilon {float(then):.6g}, and the limit is "
                    f"{float(self.limit.epsilon):.6g}",
                    requested=requested,
                    remaining=PrivacyLoss(epsilon=max(Fraction(0), self.limit.epsilon - now)),
                )
            entry = self.ledger.charge(
                analyst=CALLER,
                loss=PrivacyLoss(epsilon=max(then - now, EPSILON_UNIT)),
                query=self._mark + _written(cost.loss, what),
            )
            upto = [
                self._read(one.query)
                for one in self.ledger.entries()
                if one.kind.value == "charge" and one.seq <= entry
            ]
            if self._claimed(upto) > self.limit.epsilon:
                raise LedgerError(
                    "others charged this ledger at the same time, and both do not fit; nothing is released"
                )
            self.ledger.complete(entry)

    def _claimed(self, charges: Sequence[Charge]) -> Fraction:
        return self._accountant.epsilon([one.loss for one in charges], self._delta) if charges else Fraction(0)

    def _read(self, text: str) -> Charge:
        if not text.startswith(self._mark):
            raise LedgerError("this ledger holds a charge that is not of its accountant")
        told = json.loads(text.removeprefix(self._mark))
        amounts = {name: Fraction(told[name]) for name in ("epsilon", "rho") if name in told}
        return Charge(what=told["what"], loss=PrivacyLoss(**amounts))


def _written(loss: PrivacyLoss, what: str) -> str:
    amounts = {name: str(getattr(loss, name)) for name in ("epsilon", "rho") if getattr(loss, name)}
    return json.dumps({"what": what[:1000], **amounts})


def own_composed_ledger(
    path: str | os.PathLike[str],
    *,
    accountant: AuditedAccountant,
    dataset: str,
    privacy_unit: str,
    epsilon: Amount,
    delta: Amount,
    neighbours: str = "add_remove",
) -> ComposedAccountant:
    """Returns a new ledger in which an own accountant composes losses, to be given to mechanisms as `to`.

    No catalog's session accepts it. What is lost there comes on top of what the dataset's own ledger counts.

    Args:
        epsilon, delta: The limit of what the accountant claims of all charges.
    Raises:
        LedgerError: It cannot be written, or there is one.
    """
    small, limit = read_delta(delta), read(epsilon, "epsilon")
    kind = f"{COMPOSED}{accountant.name} {accountant.digest} delta {small} over {dataset}"
    declarations = Declarations(dataset=kind, privacy_unit=privacy_unit, neighbours=Neighbours(neighbours), tables={})
    return ComposedAccountant(Ledger.create(path, declarations, Budget.of(limit), {}), accountant)
