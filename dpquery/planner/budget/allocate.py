"""Private plan plus the loss offered to budgeted plan: which mechanism each measure gets, and its share of the loss.

It proposes; the kernel recomputes scales and charges from what is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpquery.accuracy.error_propagation import influence_of
from dpquery.accuracy.noise_shapes import noises_of
from dpquery.catalog.tables import DEFAULT_SHARE_OF_DELTA
from dpquery.errors import InvalidLossError, MissingDeltaError
from dpquery.kernel.accountant import RHO_UNIT, Budget, BudgetKind
from dpquery.kernel.gaussian_factor import factor_alone
from dpquery.kernel.loss import PrivacyLoss, parse_amount, rho_within
from dpquery.kernel.mechanisms import tau_of
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import (
    CHOICES,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.kernel.quantiles import rank_errors
from dpquery.kernel.sensitivity import sensitivity
from dpquery.plan.expr import Expression, columns_of
from dpquery.planner.budget.aims import Aim
from dpquery.planner.budget.budget_split import Chain, best_shares
from dpquery.units.declarations import Neighbours

NORMAL_95, LAPLACE_95 = 1.96, 3.0
"""The 95 % half-widths of both laws, in deviations of the one and in scales of the other."""
FAILURE = Fraction(1, 20)
CLEARLY, ROUNDED = 1.01, 2
"""By what factor, and by how many lattice steps more, a half-width is larger than another after any rounding."""
MOST_ALONE = Fraction(12, 5)
"""So many times the rho of the conversion Gaussian noise can have at most where it is alone, for deltas up to 1/2: 2.36
by the continuous law, for a small epsilon (1.15 at 1 and 1e-6). For a delta near 1 it is up to 3.14, and for a rho of a
few units of the ledger more: there a plan that errs less may not be looked for."""
LARGEST_ERROR = 1e300
"""Errors beyond this are not compared."""
ADDED = {True: Mechanism.LAPLACE, False: Mechanism.GAUSSIAN}
"""What is added to numbers where epsilon pays, or else rho."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBudget:
    """What a query offers to lose: epsilon or rho, and delta; None where it says nothing."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None

    @staticmethod
    def of(epsilon: object = None, delta: object = None, rho: object = None) -> QueryBudget:
        """Returns the offer of these amounts; raises InvalidLossError for what is none."""
        amounts = {"epsilon": epsilon, "delta": delta, "rho": rho}
        read = {name: None if x is None else parse_amount(x, name=name) for name, x in amounts.items()}
        if read["epsilon"] is not None and read["rho"] is not None:
            raise InvalidLossError("give epsilon or rho, not both")
        if read["delta"] is not None and read["delta"] >= 1:
            raise InvalidLossError("delta must be below 1")
        return QueryBudget(epsilon=read["epsilon"], delta=read["delta"], rho=read["rho"])

    def or_default(self, default: QueryBudget) -> QueryBudget:
        """Returns this offer with the catalog's defaults where it says nothing."""
        delta = default.delta if self.delta is None else self.delta
        if self.epsilon is None and self.rho is None:
            return QueryBudget(epsilon=default.epsilon, delta=delta, rho=default.rho)
        return QueryBudget(epsilon=self.epsilon, delta=delta, rho=self.rho)


def allocate(
    aggregates: tuple[PrivateAggregate, ...],
    aims: Sequence[Aim],
    offer: QueryBudget,
    *,
    budget: Budget,
    neighbours: Neighbours,
) -> BudgetedPlan:
    """Returns the plan with noise for each measure: the offer, split for the least error of what the answer shows, by
    the mechanism that errs least.

    Args:
        aims: The numbers that the answer shows; one that it shows twice counts once, with the larger weight, and
            measures that none of them reads count as numbers of their own.
        offer: What the query may lose, complete with the catalog's defaults.
        budget: The dataset's budget; its kind decides which currencies can be offered.
    Raises:
        InvalidLossError: An offer that does not fit the budget's kind.
        MissingDeltaError: Groups are selected, and there is no delta for it.
    """
    selections = sum(aggregate.is_selected for aggregate in aggregates)
    if not any(aggregate.measures for aggregate in aggregates):
        return plan_of(aggregates, [], Fraction(0))
    delta = selection_delta(offer, budget, selections)
    split = _Split(aggregates, aims, neighbours, pure=budget.kind is BudgetKind.PURE)
    if budget.kind is BudgetKind.PURE:
        return plan_of(aggregates, split.noises(_epsilon(offer, budget), in_epsilon=True), delta)
    if offer.rho is not None:
        return plan_of(aggregates, split.noises(offer.rho, in_epsilon=False), delta)
    if budget.kind is BudgetKind.ZCDP:
        raise InvalidLossError("this budget is in rho", advice="Ask with rho=..., for example rho='0.01'.")
    epsilon, total = _epsilon(offer, budget), _delta(offer, budget)
    conversion = total - delta * selections
    if selections == 0:
        plain = plan_of(aggregates, split.noises(epsilon, in_epsilon=True), delta)
        if split.gaussian_errs_more(plain, MOST_ALONE * rho_within(epsilon, conversion)):
            return plain
    candidates = [
        plan_of(aggregates, noises, delta if in_rho else total / max(1, selections))
        for noises, in_rho in _candidates(split, epsilon, conversion)
    ]
    if not candidates:
        raise InvalidLossError(
            "selecting groups needs a larger epsilon or delta than this", advice="Ask for more epsilon or delta."
        )
    return min(candidates, key=lambda plan: _error(plan, neighbours))


def _candidates(split: _Split, epsilon: Fraction, conversion: Fraction) -> list[tuple[list[Noise], bool]]:
    """Returns the ways to spend an epsilon, each with whether some of it is spent in rho, so that the delta of the
    conversion is needed: all numbers with Laplace noise, all with Gaussian, each with what errs less on it in these
    two. Units decide in rounds under Gaussian noise in all of them, and choices are all paid for alike."""
    deciding = frozenset(place for place, (_, measure) in enumerate(split.pairs) if measure.count is Count.DECIDING)
    found = [(split.mixed(epsilon, conversion, deciding), bool(deciding))]
    if gaussian := split.within(epsilon, conversion, lambda rho: split.noises(rho, in_epsilon=False)):
        found.append((gaussian, True))
        both = enumerate(zip(found[1][0], found[0][0], strict=True)) if found[0][0] else ()
        better = deciding.union(place for place, noises in both if split.errs_less(place, *noises))
        if len(deciding) < len(better) < len(split.pairs):
            found.append((split.mixed(epsilon, conversion, better), True))
    return [(noises, in_rho) for noises, in_rho in found if noises]


class _Split:
    """How a loss is split over the measures of some aggregates."""

    def __init__(
        self, aggregates: tuple[PrivateAggregate, ...], aims: Sequence[Aim], neighbours: Neighbours, *, pure: bool
    ) -> None:
        self.pairs = [(aggregate, measure) for aggregate in aggregates for measure in aggregate.measures]
        self._aggregates, self._neighbours, self._pure = aggregates, neighbours, pure
        self._split: dict[bool, tuple[Fraction, ...]] = {}
        self._chains, self._aims = _parallel(aggregates, neighbours), aims

    @cached_property
    def _influences(self) -> list[tuple[dict[int, float], bool, Fraction]]:
        """For each number how it follows from the measures, by place, whether that is known, and its weight."""
        place = {measure.id: number for number, (_, measure) in enumerate(self.pairs)}
        made: list[tuple[dict[int, float], bool, Fraction]] = []
        largest: dict[Expression, Fraction] = {}
        for aim in self._aims:
            largest[aim.expression] = max(aim.weight, largest.get(aim.expression, aim.weight))
        for expression, weight in largest.items():
            found = influence_of(expression, self._aggregates)
            read = found or {column.id: 1.0 for column in columns_of(expression)}
            influence = {place[id]: size for id, size in read.items() if id in place and size > 0}
            made.append((influence, found is not None, weight))
        seen = {number for influence, _, _ in made for number in influence}
        return made + [({number: 1.0}, True, Fraction(1)) for number in range(len(self.pairs)) if number not in seen]

    def noises(self, amount: Fraction, *, in_epsilon: bool) -> list[Noise]:
        """Returns the noise of each measure; together they lose `amount`, of epsilon or else of rho."""
        shares = zip(self.pairs, self._shares(in_epsilon), strict=True)
        return [
            noise_of(measure, amount * share, in_epsilon=in_epsilon, pure=self._pure) for (_, measure), share in shares
        ]

    def within(self, epsilon: Fraction, delta: Fraction, made: Callable[[Fraction], list[Noise]]) -> list[Noise]:
        """Returns noises of which those that are paid in rho are (epsilon, delta)-DP together: for the rho of the
        conversion, or the larger one that is proved of Gaussian noise; none where that is too small.

        Args:
            made: The noises for a rho.
        """
        rho = rho_within(epsilon, delta)
        usual = made(rho) if rho else []
        try:
            more = rho * self._alone(usual, epsilon, delta) // RHO_UNIT * RHO_UNIT if rho else rho
            found = made(more) if more > rho else usual
            return found if found is usual or self._alone(found, epsilon, delta) >= 1 else usual
        except InvalidLossError:  # noise that cannot be sampled
            return usual

    def _alone(self, noises: Sequence[Noise], epsilon: Fraction, delta: Fraction) -> Fraction:
        return factor_alone(plan_of(self._aggregates, noises, Fraction(0)), self._neighbours, epsilon, delta)

    def mixed(self, epsilon: Fraction, conversion: Fraction, in_rho: frozenset[int]) -> list[Noise]:
        """Returns the noise of each measure, Gaussian of these measures and Laplace of the others; none where the part
        of epsilon that is spent in rho is too small.

        What is paid in epsilon is epsilon_1-DP together, and what is paid in rho is (epsilon_2, conversion)-DP; both
        are (epsilon_1 + epsilon_2, conversion)-DP: docs/proofs/composition.md.
        """
        if not in_rho:
            return self.noises(epsilon, in_epsilon=True)
        shares, all = self._shares(True), frozenset(range(len(self.pairs)))
        plain, other = self._together(shares, all - in_rho), self._together(shares, in_rho)
        spent = epsilon / (plain + other)

        def made(rho: Fraction) -> list[Noise]:
            return [
                noise_of(measure, rho * share / other if p in in_rho else spent * share, in_epsilon=p not in in_rho)
                for p, ((_, measure), share) in enumerate(zip(self.pairs, shares, strict=True))
            ]

        return self.within(spent * other, conversion, made)

    def gaussian_errs_more(self, plain: BudgetedPlan, rho: Fraction) -> bool:
        """Whether Gaussian noise errs more on each measure than the Laplace noise of a plan, even where all together
        have this much rho: so no plan with it needs to be made. By the continuous law, less what rounding can make of
        it.
        """
        if any(measure.count in CHOICES for _, measure in self.pairs):
            return False
        try:
            laws = [law for budgeted in plain.aggregates for law in noises_of(budgeted, self._neighbours)]
        except InvalidLossError:
            return False
        widths = [law.half_width(FAILURE) for law in laws]
        everything = [Fraction(1)] * len(widths)
        return self._err_more(widths, rho, everything) or self._err_more(widths, rho, self._shares(False))

    def _err_more(self, widths: Sequence[int], rho: Fraction, shares: Sequence[Fraction]) -> bool:
        """Whether Gaussian noise of these shares of rho is clearly wider than this on each measure."""
        for (_, measure), width, deviation, share in zip(
            self.pairs, widths, self._deviations(False), shares, strict=True
        ):
            root = math.sqrt(2 * rho * share)
            least = NORMAL_95 * deviation / float(measure.unit) - ROUNDED * root
            if least < CLEARLY * width * root:
                return False
        return True

    def errs_less(self, place: int, gaussian: Noise, laplace: Noise) -> bool:
        """Whether the 95 % half-width of the first noise on a measure is the smaller one, by the continuous laws; of
        choices and of what decides about groups this is not asked."""
        if self.pairs[place][1].count in (*CHOICES, Count.DECIDING):
            return False
        first = NORMAL_95 * self._deviations(False)[place] / math.sqrt(2 * gaussian.loss.rho)
        return first < LAPLACE_95 * self._deviations(True)[place] / float(laplace.loss.epsilon)

    def _deviations(self, laplace: bool) -> list[float]:
        return [own[0 if laplace else 1] for own in self._known]

    @cached_property
    def _known(self) -> list[tuple[float, float]]:
        return [deviations_of(*pair, self._neighbours) for pair in self.pairs]

    def _together(self, shares: Sequence[Fraction], places: frozenset[int]) -> Fraction:
        """Returns what these measures lose together: of each chain what its dearest class does."""
        of = [[sum((shares[p] for p in places & {*own}), Fraction(0)) for own in chain] for chain in self._chains]
        return sum((max(sums, default=Fraction(0)) for sums in of), Fraction(0))

    def _shares(self, laplace: bool) -> tuple[Fraction, ...]:
        """Returns the share of each measure, of epsilon for Laplace noise and of rho for Gaussian."""
        if laplace in self._split:
            return self._split[laplace]
        if len(self._chains) == 1 and max(map(len, self._chains[0])) == 1:  # nothing is split
            return (Fraction(1),) * len(self.pairs)
        errors = []
        deviations = self._deviations(laplace)
        for influence, is_known, _ in self._influences:
            made = {i: size * (deviations[i] if is_known else 1.0) for i, size in influence.items()}
            fine = all(0 < error < LARGEST_ERROR for error in made.values())
            errors.append(made if fine else dict.fromkeys(made, 1.0))
        power = 2 if laplace else 1
        weights = [weight for _, _, weight in self._influences]
        self._split[laplace] = best_shares(errors, weights, len(self.pairs), power=power, chains=self._chains)
        return self._split[laplace]


def _parallel(aggregates: tuple[PrivateAggregate, ...], neighbours: Neighbours) -> tuple[Chain, ...]:
    """Returns the chains of several classes; all measures that are in none are one class."""
    found = chains(aggregates, neighbours)
    alone = sorted(number for chain in found if len(chain) == 1 for number in chain[0])
    return (*(chain for chain in found if len(chain) > 1), *([(tuple(alone),)] if alone else []))


def deviations_of(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours) -> tuple[float, float]:
    """Returns the deviation of the noise of one unit of epsilon, and of rho, in the measure's unit, but for a constant
    of the law."""
    if measure.count in CHOICES:
        return 1.0, 1.0
    moved, step = sensitivity(aggregate, measure, neighbours), float(measure.unit)
    return step * float(moved.l1), step * math.sqrt(moved.l2_squared)


def noise_of(measure: Measure, amount: Fraction, *, in_epsilon: bool, pure: bool = False) -> Noise:
    """Returns the noise of a measure that may lose this much epsilon, or else rho: what that currency pays for.

    Args:
        pure: Whether the budget counts epsilon: choices are then by permute-and-flip, which never errs more than the
            exponential mechanism. A ledger of rho counts four times as much for it, so it is not used there.
    """
    usual = ADDED[in_epsilon]
    chooses = Mechanism.PERMUTE_AND_FLIP if pure and in_epsilon else Mechanism.EXPONENTIAL
    loss = PrivacyLoss(epsilon=amount) if in_epsilon else PrivacyLoss(rho=amount)
    return Noise(mechanism=chooses if measure.count in CHOICES else usual, loss=loss)


def _epsilon(offer: QueryBudget, budget: Budget) -> Fraction:
    if offer.rho is not None:
        raise InvalidLossError("this budget is in epsilon", advice="Ask with epsilon=..., for example epsilon='0.1'.")
    if offer.epsilon is None:
        other = ", rho=... or the catalog's defaults" if budget.kind is BudgetKind.APPROXIMATE else ""
        raise InvalidLossError("no privacy loss is given for the query", advice=f"Ask with epsilon=...{other}.")
    return offer.epsilon


def _delta(offer: QueryBudget, budget: Budget) -> Fraction:
    if offer.delta is not None and offer.delta > budget.delta:
        raise InvalidLossError("the delta of the query is larger than that of the whole budget", advice="Ask for less.")
    return budget.delta * DEFAULT_SHARE_OF_DELTA if offer.delta is None else offer.delta


def selection_delta(offer: QueryBudget, budget: Budget, selections: int) -> Fraction:
    """Returns the delta of each selection: half of the query's is for the conversion where it asks for epsilon."""
    if budget.kind is BudgetKind.PURE and offer.delta is not None:
        raise InvalidLossError("this budget has no delta", advice="Ask only with epsilon.")
    if selections == 0:
        return Fraction(0)
    total = _delta(offer, budget)
    if total == 0:
        raise MissingDeltaError(
            "some groups have no public keys, and selecting them costs a delta that this budget does not have",
            advice="Declare keys for the grouping columns, or give the dataset a budget with delta.",
        )
    return total / selections if offer.rho is not None else total / 2 / selections


def _error(plan: BudgetedPlan, neighbours: Neighbours) -> float:
    """Returns the sum of the logarithms of the measures' 95 % half-widths and of the thresholds of selections; infinite
    where the noise cannot be sampled."""
    total = 0.0
    for budgeted in plan.aggregates:
        try:
            made = noises_of(budgeted, neighbours)
            total += math.log(tau_of(budgeted, made) or 1) if budgeted.aggregate.is_selected else 0.0
        except InvalidLossError:
            return math.inf
        ranks = rank_errors(budgeted.aggregate, [noise.choosing for noise in made], FAILURE)
        for measure, noise, off in zip(budgeted.aggregate.measures, made, ranks, strict=True):
            if measure.count is Count.DECIDING:  # it shows groups, and no number
                continue
            total += math.log1p(off if measure.count in CHOICES else noise.half_width(FAILURE))
    return total


def plan_of(aggregates: tuple[PrivateAggregate, ...], noises: Sequence[Noise], delta: Fraction) -> BudgetedPlan:
    """Returns the plan with these noises, in the order of the measures, and this delta for each selection."""
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
