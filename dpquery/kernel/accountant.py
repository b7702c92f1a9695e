"""How losses compose, and what a budget lets the ledger count. Pure functions; docs/proofs/composition.md.

A budget is promised in one of three currencies. The ledger counts whole units: charges round up, limits round down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel.loss import ZERO, PrivacyLoss, parse_amount, rho_within
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Noise
from dpquery.kernel.quantiles import levels_paid
from dpquery.units.declarations import Neighbours

EPSILON_UNIT = RHO_UNIT = Fraction(1, 10**12)
DELTA_UNIT = Fraction(1, 10**18)
LEAST_SHARE = Fraction(1, 10_000)
"""A fresh question costs at least this share of a limit, where the owner says nothing else."""
LARGEST = 10**6
"""No epsilon or rho, of a charge or a limit, exceeds this: in units, a sum of two stays below 2**63."""

LedgerAmount = tuple[int, int, int]
"""epsilon, delta and rho in whole units"""


class BudgetKind(Enum):
    """What a budget promises: epsilon-DP, rho-zCDP with delta, or (epsilon, delta)-DP."""

    PURE = "pure"
    ZCDP = "zcdp"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on cost, in the owner's words; absent parts are 0."""

    kind: BudgetKind
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def __str__(self) -> str:
        return str(parts_of(self))

    __repr__ = __str__

    def __post_init__(self) -> None:
        PrivacyLoss(epsilon=self.epsilon, delta=self.delta, rho=self.rho)  # refuses what is not an amount
        fits = {
            BudgetKind.PURE: self.epsilon and not self.delta and not self.rho,
            BudgetKind.ZCDP: self.rho and not self.epsilon,
            BudgetKind.APPROXIMATE: self.epsilon and self.delta and not self.rho,
        }
        if not fits[self.kind] or self.delta >= 1 or max(self.epsilon, self.rho) > LARGEST:
            advice = "Write {epsilon}, {epsilon, delta} or {rho, delta}, with delta below 1 and the others up to 1e6."
            raise InvalidLossError(f"these parts do not make a budget of the {self.kind.value} kind", advice=advice)

    @staticmethod
    def of(epsilon: object = None, delta: object = None, rho: object = None) -> Budget:
        """Returns the budget of these amounts, or raises InvalidLossError. With rho, delta may be 0 or absent."""
        if (epsilon is None) is (rho is None):
            raise InvalidLossError("a budget holds either epsilon or rho", advice="Write {epsilon: 1, delta: 1e-6}.")
        if rho is not None:
            small = Fraction(0) if delta is None else parse_amount(delta, name="delta", allow_zero=True)
            return Budget(kind=BudgetKind.ZCDP, rho=parse_amount(rho, name="rho"), delta=small)
        amount = parse_amount(epsilon, name="epsilon")
        if delta is None:
            return Budget(kind=BudgetKind.PURE, epsilon=amount)
        return Budget(kind=BudgetKind.APPROXIMATE, epsilon=amount, delta=parse_amount(delta, name="delta"))


def promise(budget: Budget) -> str:
    """Returns what a budget promises, for people."""
    sort = "zero-concentrated differential privacy" if budget.kind is BudgetKind.ZCDP else "differential privacy"
    return f"{sort} with {parts_of(budget)}"


def parts_of(budget: Budget) -> PrivacyLoss:
    """Returns the parts of a budget in the owner's currency, which need not be the one that the ledger counts in."""
    return PrivacyLoss(epsilon=budget.epsilon, delta=budget.delta, rho=budget.rho)


@lru_cache(maxsize=1024)
def limit_of(budget: Budget) -> PrivacyLoss:
    """Returns what the ledger counts against, in whole units, rounded down.

    An approximate budget is split: half its delta is left for selections, the other half pays for the conversion of
    the rho limit; all charges within the limit together then satisfy (epsilon, delta)-DP. Source: Bun, Steinke 2016,
    section 8: delta-approximate rho-zCDP implies (epsilon(rho, delta'), delta + delta')-DP.
    """
    epsilon, delta, rho = budget.epsilon, budget.delta, budget.rho
    if budget.kind is BudgetKind.APPROXIMATE:
        epsilon, delta, rho = Fraction(0), delta / 2, rho_within(epsilon, delta / 2)
    limit = from_units((math.floor(epsilon / EPSILON_UNIT), math.floor(delta / DELTA_UNIT), math.floor(rho / RHO_UNIT)))
    if (limit.epsilon or limit.rho) == 0 or (budget.delta and not limit.delta):
        raise InvalidLossError("the budget is too small to be counted", advice="Raise epsilon, rho or delta.")
    return limit


def to_units(loss: PrivacyLoss) -> LedgerAmount:
    """Returns a loss in whole units, each part rounded up; raises InvalidLossError where it does not fit."""
    if max(loss.epsilon, loss.rho) > LARGEST or loss.delta > 1:
        raise InvalidLossError(f"a loss of {loss} is too large to be counted")
    return math.ceil(loss.epsilon / EPSILON_UNIT), math.ceil(loss.delta / DELTA_UNIT), math.ceil(loss.rho / RHO_UNIT)


def from_units(units: LedgerAmount) -> PrivacyLoss:
    """Returns the loss that these whole units are."""
    epsilon, delta, rho = units
    return PrivacyLoss(epsilon=epsilon * EPSILON_UNIT, delta=delta * DELTA_UNIT, rho=rho * RHO_UNIT)


def counted(loss: PrivacyLoss) -> PrivacyLoss:
    """Returns the loss as the ledger counts it: each part rounded up to whole units."""
    return from_units(to_units(loss))


def compose(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of all together, in sequence, each chosen after the answers of those before: the sum.

    Source:
        Dwork et al. 2006 (epsilon), Bun, Steinke 2016 (rho). As a filter under full adaptivity: Rogers et al. 2016
        (epsilon), Feldman, Zrnic 2021 (rho), Whitehouse et al. 2023 (rho with delta).
    """
    return sum(losses, start=ZERO)


def in_parallel(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of all together where one unit is in at most one of them: the largest of each part.

    Source:
        McSherry 2009, theorem 4; docs/proofs/disjoint.md.
    """
    given = tuple(losses)
    return PrivacyLoss(
        epsilon=max([loss.epsilon for loss in given], default=Fraction(0)),
        delta=max([loss.delta for loss in given], default=Fraction(0)),
        rho=max([loss.rho for loss in given], default=Fraction(0)),
    )


def guarantee_of(plan: BudgetedPlan, neighbours: Neighbours) -> PrivacyLoss:
    """Returns what the answer satisfies by itself, in any currency of the ledger; exact.

    Where all noise is paid with epsilon: (epsilon, delta)-DP, the sums of epsilons and of the deltas of selections.
    Otherwise rho-zCDP except with probability delta; epsilon then weighs epsilon^2 / 2 for a Laplace measure, and
    epsilon^2 / 8 for a choice. Of disjoint filters the dearest counts (`chains`).

    Privacy:
        Neighbours: as given. The measures of a query compose, chosen together or one after another.
    Source:
        docs/proofs/composition.md, docs/proofs/disjoint.md.
    """
    pure = all(noise.loss.epsilon for part in plan.aggregates for noise in part.noise)
    return _loss_of(plan, neighbours, in_epsilon=pure)


def charge_of(plan: BudgetedPlan, kind: BudgetKind, neighbours: Neighbours) -> PrivacyLoss:
    """Returns what a plan is charged in the currency of a budget: a function of the plan alone, rounded up.

    Privacy:
        Neighbours: as given. It bounds what the plan loses, alone and beside all that was charged before.
    Source:
        docs/proofs/composition.md, docs/proofs/conversions.md.
    Raises:
        InternalError: Gaussian noise or a selection's delta under a pure budget.
    """
    loss = _loss_of(plan, neighbours, in_epsilon=kind is BudgetKind.PURE)
    if kind is BudgetKind.PURE and loss.delta:
        raise InternalError("a pure budget has no delta for the selection of groups")
    return counted(loss)


def charge_at_least(charge: PrivacyLoss, limit: Budget, share: Fraction) -> PrivacyLoss:
    """Returns a charge raised to a share of a limit, in the parts that the ledger counts; one of nothing stays so.

    Args:
        limit: Of the analyst, or of the dataset for one who has none.
        share: More than 0, at most 1.
    Privacy:
        A charge is raised, never lowered, by what the owner declared; so it stays a bound on the loss. That a question
        is answered at all may tell something that no loss covers (docs/proofs/gate.md, "After the charge"), and at
        this price there are at most 1 / share such questions.
    """
    if not 0 < share <= 1:
        raise InternalError("the least charge is a share of a limit, above 0 and at most 1")
    if charge == ZERO:
        return ZERO
    most = limit_of(limit)
    least = counted(PrivacyLoss(epsilon=most.epsilon * share, rho=most.rho * share))
    return replace(charge, epsilon=max(charge.epsilon, least.epsilon), rho=max(charge.rho, least.rho))


def _loss_of(plan: BudgetedPlan, neighbours: Neighbours, *, in_epsilon: bool) -> PrivacyLoss:
    """Returns the exact loss of all measures in epsilon or in rho, with the deltas of all selections.

    The sum over chains of measures, of each the dearest class: docs/proofs/disjoint.md.
    """
    for part in plan.aggregates:
        if not 0 <= part.selection_delta < 1:
            raise InternalError("the delta of a selection lies between 0 and 1")
    losses = [PrivacyLoss(delta=part.selection_delta) for part in plan.aggregates]
    losses += [
        in_parallel(_loss_of_class(plan, set(numbers), in_epsilon) for numbers in chain)
        for chain in chains([part.aggregate for part in plan.aggregates], neighbours)
    ]
    return compose(losses)


def _loss_of_class(plan: BudgetedPlan, numbers: set[int], in_epsilon: bool) -> PrivacyLoss:
    """Returns the exact sum over some measures, numbered through the plan.

    Of quantiles that are chosen together, the levels count: docs/proofs/exponential.md, Lemma 5.
    """
    losses, start = [], 0
    for part in plan.aggregates:
        given = list(zip(part.aggregate.measures, part.noise, strict=True))
        own = [pair for number, pair in enumerate(given, start) if number in numbers]
        aggregate = replace(part.aggregate, measures=tuple([measure for measure, _ in own]))
        paid = BudgetedAggregate(aggregate=aggregate, noise=tuple([noise for _, noise in own]))
        losses += [_loss_of_noise(noise, in_epsilon) for noise in levels_paid(paid)]
        start += len(given)
    return compose(losses)


def _loss_of_noise(noise: Noise, in_epsilon: bool) -> PrivacyLoss:
    """Returns the exact loss of one measure in epsilon or in rho."""
    law = LAWS[noise.mechanism]
    is_paid_in_epsilon = law.is_paid_in_epsilon(noise.loss)
    if not in_epsilon:
        return PrivacyLoss(rho=law.rho(noise.loss))
    if not is_paid_in_epsilon:
        raise InternalError("a pure budget cannot pay a loss of rho")
    return PrivacyLoss(epsilon=noise.loss.epsilon)
