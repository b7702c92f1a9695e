"""Noise by laws of one's own, on plain values: audited ones, at a charge of their own kind that names the audit.

No query of a session runs through these, and no ledger of a catalog is charged: what they promise rests on proofs of
their authors. docs/proofs/values.md, "Own laws".
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpquery.accounting.amounts import Amount, read
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel.accountant import Budget
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import Accountant, Cost, pay
from dpquery.mechanisms.grid import LARGEST, on_grid
from dpquery.mechanisms.noise import Release
from dpquery.mechanisms.own_claims import Claimed, claimed, problems_of
from dpquery.mechanisms.own_source import Loaded, load
from dpquery.units.declarations import Declarations, Neighbours

PREFIX = "own laws over "
"""How the dataset of a ledger of this kind begins; it declares no tables, so no catalog's session opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is recorded of an audit that found nothing: JSON, as `dpquery audit --mechanism` writes it.

    Attributes:
        law, digest: Of what.
        currency: In what it pays.
        losses: The least and the greatest loss that was audited.
        steps: The most steps.
        samples: How many were drawn for each.
        time: When, in UTC.
    """

    law: str
    digest: str
    currency: str
    losses: tuple[Fraction, Fraction]
    steps: int
    samples: int
    time: str

    def write(self, path: str | Path) -> None:
        """Writes it as JSON."""
        told = {name: getattr(self, name) for name in ("law", "digest", "currency", "steps", "samples", "time")}
        told["losses"] = [str(loss) for loss in self.losses]
        Path(path).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Audit:
        """Returns what stands in a file; raises InvalidLossError where it is not an audit."""
        try:
            told = json.loads(Path(path).read_text(encoding="utf-8"))
            least, greatest = (Fraction(loss) for loss in told.pop("losses"))
            return Audit(losses=(least, greatest), **told)
        except OSError:
            raise InvalidLossError(f"no audit at {path}", advice="Make one: dpquery audit --mechanism.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidLossError(f"{path} is not an audit of a law") from None


class AuditedLaw:
    """A law of one's own whose audit found nothing; `own_law` makes one."""

    def __init__(self, loaded: Loaded, audit: Audit) -> None:
        if (audit.law, audit.currency) != (loaded.name, loaded.law.currency):
            raise InvalidLossError(f"the audit is of {audit.law} in {audit.currency}, not of {loaded.name}")
        if audit.digest != loaded.digest:
            raise InvalidLossError(
                f"{loaded.name}, or what it imports, is not the one that was audited at {audit.time}",
                advice=f"Audit it again: dpquery audit --mechanism {loaded.name}",
            )
        self.audit, self._law = audit, loaded.law
        self._claimed = lru_cache(maxsize=64)(self._checked)

    @property
    def name(self) -> str:
        """MODULE:NAME."""
        return self.audit.law

    def claims(self, steps: int, loss: Fraction) -> Claimed:
        """Returns what the law claims for these steps and this loss, after looking whether it agrees.

        Raises:
            InvalidLossError: Outside what was audited, or the claims contradict each other there.
        """
        least, greatest = self.audit.losses
        if not (1 <= steps <= self.audit.steps and least <= loss <= greatest):
            raise InvalidLossError(
                f"{self.name} was audited for losses from {float(least):g} to {float(greatest):g} and up to "
                f"{self.audit.steps} steps, not for {float(loss):g} and {steps}"
            )
        return self._claimed(steps, loss)

    def _checked(self, steps: int, loss: Fraction) -> Claimed:
        found = claimed(self._law, steps, loss)
        for problem in problems_of(self._law, steps, loss, found):
            raise InvalidLossError(f"{self.name} does not hold what it claims: {problem}")
        return found

    def drawn(self, steps: int, loss: Fraction) -> int:
        """Returns one noise; raises InvalidLossError where the law returns something else."""
        noise = self._law.sample(steps, loss, 1)
        if not isinstance(noise, np.ndarray) or noise.dtype != np.int64 or noise.shape != (1,):
            raise InvalidLossError(f"{self.name} returned something else than one whole number")
        return int(noise[0])


def own_law(name: str, audit: str | os.PathLike[str]) -> AuditedLaw:
    """Returns the law MODULE:NAME, if the audit in a file is of it as it is now.

    Raises:
        InvalidLossError: Not audited, audited with other source or versions, or no law.
    """
    return AuditedLaw(load(name), Audit.read(audit))


class OwnAccountant(Accountant):
    """An accountant that own laws may charge. What it adds up rests on proofs of their authors."""


def own_ledger(
    path: str | os.PathLike[str],
    *,
    dataset: str,
    privacy_unit: str,
    neighbours: str = "add_remove",
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
) -> Ledger:
    """Returns a new ledger that own laws may charge, and that no catalog's session accepts.

    What is lost there comes on top of what the dataset's own ledger counts.

    Raises:
        LedgerError: It cannot be written, or there is one.
    """
    declarations = Declarations(
        dataset=PREFIX + dataset, privacy_unit=privacy_unit, neighbours=Neighbours(neighbours), tables={}
    )
    return Ledger.create(path, declarations, Budget.of(epsilon, delta, rho), {})


def takes_own(to: object) -> bool:
    """Whether own laws may charge it."""
    if isinstance(to, Ledger):
        return to.declarations.dataset.startswith(PREFIX) and not to.declarations.tables
    return isinstance(to, OwnAccountant)


def own_noise(
    value: Any,
    *,
    law: AuditedLaw,
    sensitivity: Amount,
    epsilon: Amount | None = None,
    rho: Amount | None = None,
    to: OwnAccountant | Ledger,
) -> Release:
    """Returns one number with noise of an audited law; the charge names the law and the digest that was audited.

    Args:
        value: An int or a float.
        law: As `own_law` returns it.
        sensitivity: By how much neighbours differ at most, in the unit of the value.
        epsilon, rho: The loss, in the currency of the law.
        to: Who pays before anything is drawn: an `OwnAccountant`, or a ledger that `own_ledger` made.
    Raises:
        InsufficientBudgetError: It cannot be paid.
        InvalidLossError: What the law was not audited for, or a ledger of another kind.
    Privacy:
        What the law's author has proved, for neighbours that the sensitivity is right for.
    """
    asked = epsilon if law.audit.currency == "epsilon" else rho
    if asked is None or (epsilon is not None and rho is not None):
        raise InvalidLossError(f"{law.name} is paid for in {law.audit.currency}")
    if not takes_own(to):
        raise InvalidLossError(
            "an own law charges an OwnAccountant, or a ledger that own_ledger made", advice="No others take it."
        )
    if np.ndim(value) != 0:
        raise ParameterError("an own law is for one number", advice="Release each by itself.")
    loss, moves = read(asked, law.audit.currency), read(sensitivity, "sensitivity")
    given = on_grid(value, moves)
    steps = given.l1(moves, 1)
    found = law.claims(steps, loss)
    cost = Cost.pure(loss) if epsilon is not None else Cost(None, loss)
    scale = found.deviation * float(given.unit)
    pay(to, cost, f"own law {law.name}, audited as {law.audit.digest}: noise of deviation {scale:.6g} on one number")
    noisy = max(-2 * LARGEST, min(2 * LARGEST, int(given.steps[0]) + law.drawn(steps, loss)))
    return Release(
        value=given.back(np.array([noisy], dtype=np.int64)),
        loss=cost.loss,
        mechanism=law.name,
        scale=scale,
        grid=given.unit,
        _quantile=found.quantile,
        _cells=1,
    )
