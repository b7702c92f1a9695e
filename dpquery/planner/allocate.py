"""Private plan plus the loss offered to budgeted plan: which mechanism each measure gets, and its share of the loss.

It proposes; the kernel recomputes scales and charges from what is written here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import InvalidLossError, MissingDeltaError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.kernel.declarations import Neighbours
from dpquery.kernel.loss import PrivacyLoss, parse_amount, rho_within
from dpquery.kernel.mechanisms import calibrate
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, BudgetedPlan, Mechanism, Noise, PrivateAggregate
from dpquery.kernel.sensitivity import sensitivity
from dpquery.kernel.utilities import rank_error

DEFAULT_SHARE_OF_DELTA = Fraction(1, 1000)
"""The part of the budget's delta that a query gets if it names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a query offers to lose: epsilon or rho, and delta; None where it says nothing."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None

    @staticmethod
    def of(epsilon: object = None, delta: object = None, rho: object = None) -> Offer:
        """Returns the offer of these amounts; raises InvalidLossError for what is none."""
        amounts = {"epsilon": epsilon, "delta": delta, "rho": rho}
        read = {name: None if x is None else parse_amount(x, name=name) for name, x in amounts.items()}
        if read["epsilon"] is not None and read["rho"] is not None:
            raise InvalidLossError("a query offers epsilon or rho, not both")
        if read["delta"] is not None and read["delta"] >= 1:
            raise InvalidLossError("delta must be below 1")
        return Offer(epsilon=read["epsilon"], delta=read["delta"], rho=read["rho"])

    def or_default(self, default: Offer) -> Offer:
        """Returns this offer with the catalog's defaults where it says nothing."""
        delta = default.delta if self.delta is None else self.delta
        if self.epsilon is None and self.rho is None:
            return Offer(epsilon=default.epsilon, delta=delta, rho=default.rho)
        return Offer(epsilon=self.epsilon, delta=delta, rho=self.rho)


def allocate(
    aggregates: tuple[PrivateAggregate, ...], offer: Offer, *, budget: Budget, neighbours: Neighbours
) -> BudgetedPlan:
    """Returns the plan with noise for each measure: equal shares of the offer, by the mechanism that errs least.

    Args:
        offer: What the query may lose, complete with the catalog's defaults.
        budget: The dataset's budget; its kind decides which currencies can be offered.
    Raises:
        InvalidLossError: An offer that does not fit the budget's kind.
        MissingDeltaError: Groups are selected, and there is no delta for it.
    """
    choices = [measure.count in CHOICES for aggregate in aggregates for measure in aggregate.measures]
    count = len(choices)
    selections = sum(aggregate.is_selected for aggregate in aggregates)
    if count == 0:
        return _plan(aggregates, [], Fraction(0))
    delta = _selection_delta(offer, budget, selections)
    if budget.kind is BudgetKind.PURE:
        return _plan(aggregates, _equal(Mechanism.LAPLACE, _epsilon(offer, budget), choices), delta)
    if offer.rho is not None:
        return _plan(aggregates, _equal(Mechanism.GAUSSIAN, offer.rho, choices), delta)
    if budget.kind is BudgetKind.ZCDP:
        raise InvalidLossError("this budget counts rho", advice="Ask with rho=..., for example rho='0.01'.")
    epsilon = _epsilon(offer, budget)
    laplace = _equal(Mechanism.LAPLACE, epsilon, choices)
    conversion = _delta(offer, budget) - delta * selections
    rho = rho_within(epsilon, conversion)
    candidates = [laplace, _equal(Mechanism.GAUSSIAN, rho, choices)] if rho else [laplace]
    best = min(candidates, key=lambda noises: _error(aggregates, noises, neighbours))
    return _plan(aggregates, best, delta)


def _epsilon(offer: Offer, budget: Budget) -> Fraction:
    if offer.rho is not None:
        raise InvalidLossError("this budget counts epsilon", advice="Ask with epsilon=..., for example epsilon='0.1'.")
    if offer.epsilon is None:
        other = ", rho=... or the catalog's defaults" if budget.kind is BudgetKind.APPROXIMATE else ""
        raise InvalidLossError("the query says not how much it may lose", advice=f"Ask with epsilon=...{other}.")
    return offer.epsilon


def _delta(offer: Offer, budget: Budget) -> Fraction:
    if offer.delta is not None and offer.delta > budget.delta:
        raise InvalidLossError("the query offers a larger delta than the whole budget has", advice="Ask for less.")
    return budget.delta * DEFAULT_SHARE_OF_DELTA if offer.delta is None else offer.delta


def _selection_delta(offer: Offer, budget: Budget, selections: int) -> Fraction:
    """Returns the delta of each selection: half of the query's is for the conversion where it asks for epsilon."""
    if budget.kind is BudgetKind.PURE and offer.delta is not None:
        raise InvalidLossError("this budget has no delta", advice="Ask with epsilon alone.")
    if selections == 0:
        return Fraction(0)
    total = _delta(offer, budget)
    if total == 0:
        raise MissingDeltaError(
            "some groups have no public keys, and selecting them costs a delta that this budget does not have",
            advice="Declare keys for the grouping columns, or give the dataset a budget with delta.",
        )
    return total / selections if offer.rho is not None else total / 2 / selections


def _equal(mechanism: Mechanism, amount: Fraction, choices: list[bool]) -> list[Noise]:
    """Returns equal shares of epsilon for Laplace noise, or of rho for Gaussian noise; choices get the same share."""
    share = amount / len(choices)
    loss = PrivacyLoss(epsilon=share) if mechanism is Mechanism.LAPLACE else PrivacyLoss(rho=share)
    return [Noise(mechanism=Mechanism.EXPONENTIAL if choice else mechanism, loss=loss) for choice in choices]


def _error(aggregates: Iterable[PrivateAggregate], noises: list[Noise], neighbours: Neighbours) -> float:
    """Returns the sum of the logarithms of the measures' 95 % half-widths; infinite where they cannot be sampled."""
    total, remaining = 0.0, iter(noises)
    for aggregate in aggregates:
        for measure in aggregate.measures:
            moved, noise = sensitivity(aggregate, measure, neighbours), next(remaining)
            try:
                made, failure = calibrate(moved, noise), Fraction(1, 20)
                choice = measure.count in CHOICES
                total += math.log1p(
                    rank_error(measure, aggregate.weight, made.parameter, failure)
                    if choice
                    else made.half_width(failure)
                )
            except InvalidLossError:
                return math.inf
    return total


def _plan(aggregates: tuple[PrivateAggregate, ...], noises: list[Noise], delta: Fraction) -> BudgetedPlan:
    remaining = iter(noises)
    return BudgetedPlan(
        aggregates=tuple(
            BudgetedAggregate(
                aggregate=aggregate,
                noise=tuple(next(remaining) for _ in aggregate.measures),
                selection_delta=delta if aggregate.is_selected else Fraction(0),
            )
            for aggregate in aggregates
        )
    )
