"""From a loss to a scale: what noise each measure gets, and above which tau groups are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import exponential
from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.exponential import Histogram, Integers
from dpquery.kernel.noise_laws import LAWS, Law
from dpquery.kernel.plan import CHOICES, WEIGHT, BudgetedAggregate, Count, Measure, Mechanism, Noise, PrivateAggregate
from dpquery.kernel.quantiles import divider, drawn_with
from dpquery.kernel.rounds import Round, rounds_of
from dpquery.kernel.sensitivity import Sensitivity, coarseness, coarsest, finer_steps, sensitivity
from dpquery.kernel.tails import smallest
from dpquery.units.declarations import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLaw:
    """The noise of one measure, on the integers.

    Attributes:
        mechanism: The law.
        parameter: Laplace: the scale b. Gaussian: the variance. In lattice steps (squared for the variance).
            Of a choice: the coefficient c of the utility. Exact.
        steps: Into how many finer steps a lattice step is divided when noise is added; the sum is rounded after. Less
            than 1 where a step of the noise is several lattice steps.
        divider: The scale of the Laplace noise that divides the values at a choice; None where nothing is divided.
    """

    mechanism: Mechanism
    parameter: Fraction
    divider: Fraction | None = None
    steps: int | Fraction = 1

    @property
    def is_added(self) -> bool:
        """Whether it is noise on a number; otherwise it chooses one."""
        return LAWS[self.mechanism].is_added

    @property
    def sampled(self) -> Fraction:
        """The parameter in the steps that noise is drawn in; of a choice its coefficient."""
        return self.parameter * self.steps ** LAWS[self.mechanism].power

    def sample(self, size: int) -> NDArray[np.int64]:
        """Returns fresh independent noise, shape (size,), in the finer steps; a choice has none."""
        return LAWS[self.mechanism].sample(self.sampled, size)

    def choose(
        self, measure: Measure, histogram: Histogram, groups: int, *, within: tuple[Integers, Integers] | None = None
    ) -> Integers:
        """Returns a choice for each group, as `exponential.choose` says; what is added to numbers makes none."""
        draws = LAWS[self.mechanism].draws
        if draws is None:
            raise InternalError("noise that is added to numbers chooses nothing")
        return exponential.choose(measure, self.parameter, histogram, groups, by=draws, within=within)

    @property
    def choosing(self) -> tuple[Fraction, Fraction | None, Fraction]:
        """What `quantiles.rank_errors` needs of a choice: its coefficient, the divider, and `worst` of its law."""
        return self.parameter, self.divider, LAWS[self.mechanism].worst

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|error| > w) <= failure, in lattice steps, of noise and rounding together; of a choice see
        `utilities.rank_error`."""
        fine = LAWS[self.mechanism].quantile(self.sampled, failure)
        if self.steps == 1:
            return fine
        return math.ceil(Fraction(fine + 1) / self.steps + Fraction(1, 2))  # the exact number may have been rounded too

    def tail(self, k: int) -> Fraction:
        """Returns an upper bound on P(noise >= k); of noise in lattice steps alone."""
        if self.steps != 1:
            raise InternalError("a number that decides about groups is counted in whole steps")
        return LAWS[self.mechanism].tail(self.parameter, k)


def calibrate(moved: Sensitivity, noise: Noise, steps: int | Fraction = 1) -> NoiseLaw:
    """Returns the noise that causes at most the given loss for a vector of this sensitivity.

    Args:
        steps: Into how many finer steps a lattice step is divided: the vector is of whole finer steps.
    Privacy:
        What each law claims of its parameter, in `noise_laws`, which names where it is proved.
        Neighbours: those for which the sensitivity was asked.
    Source:
        docs/proofs/mechanisms.md, docs/proofs/exponential.md.
    Raises:
        InvalidLossError: The loss asks for a scale outside what the samplers make.
    """
    law = LAWS[noise.mechanism]
    law.is_paid_in_epsilon(noise.loss)
    made = NoiseLaw(mechanism=noise.mechanism, parameter=law.parameter(moved, noise.loss), steps=steps)
    _require_sampled(made.sampled, law)
    return made


def _require_sampled(parameter: Fraction, law: Law) -> None:
    least, greatest = law.limits
    if least <= parameter <= greatest:
        return
    is_small = (parameter < least) is law.is_added  # a large coefficient is little noise
    raise InvalidLossError(
        f"the loss asked for makes the noise too {'small' if is_small else 'large'} to be sampled exactly",
        advice=f"Ask for {'less' if is_small else 'more'} epsilon or rho, or narrower bounds.",
    )


@lru_cache(maxsize=1024)
def least_tau(noise: NoiseLaw, groups: int, delta: Fraction) -> int:
    """Returns the least tau that delta pays for: a group is shown if its noisy number of units is at least tau.

    Args:
        noise: The noise on the number of units.
        groups: Groups in which one unit weighs.
        delta: Probability with which a group that exists through one unit alone may be shown, over all such groups.
    Privacy:
        Each of at most `groups` such groups holds 1 and is shown with probability at most delta / groups (union bound).
        Neighbours: of either kind; where a unit is replaced, each table has such groups of its own.
    Source:
        Korolova et al. 2009; Wilson et al. 2020; docs/proofs/selection.md.
    """
    allowed = delta / groups
    if not 0 < allowed < 1:
        raise InternalError("selecting groups needs a delta between 0 and 1")
    return 1 + max(1, smallest(lambda k: noise.tail(k) <= allowed, 1))


def _law(aggregate: PrivateAggregate, measure: Measure, noise: Noise, neighbours: Neighbours) -> NoiseLaw:
    """Returns the noise of a measure, in the finest steps of `coarseness` to `coarsest` in which it can be sampled.

    Privacy:
        R follows from the plan and the loss alone, and the sensitivity is that of what is rounded down by it.
    Source:
        docs/proofs/weights.md, Theorem 6.
    """
    coarse = coarseness(aggregate, measure)
    while True:
        moved = sensitivity(aggregate, measure, neighbours, coarse)
        try:
            return calibrate(moved, noise, finer_steps(aggregate, measure, coarse))
        except InvalidLossError:  # too large; what is too small in these steps is so in coarser ones
            if coarse >= coarsest(aggregate, measure, neighbours):
                raise
        coarse *= 2


def calibrated(budgeted: BudgetedAggregate, neighbours: Neighbours) -> tuple[NoiseLaw, ...]:
    """Returns the noise of each measure, in order, recomputed from the plan."""
    aggregate = budgeted.aggregate
    made = []
    for measure, (noise, dividing) in zip(aggregate.measures, drawn_with(budgeted), strict=True):
        if (measure.count in CHOICES) is LAWS[noise.mechanism].is_added:
            raise InternalError("choices are made by the mechanisms of choices, and nothing else is")
        if measure.count is Count.DECIDING and noise.mechanism is not Mechanism.GAUSSIAN:
            raise InternalError("units decide in rounds under Gaussian noise alone")
        drawn = _law(aggregate, measure, noise, neighbours)
        if dividing is not None:
            moved = sensitivity(aggregate, measure, neighbours)
            drawn = replace(drawn, divider=divider(moved.l1, moved.l2_squared, dividing))
            _require_sampled(drawn.divider or Fraction(0), LAWS[Mechanism.LAPLACE])
        made.append(drawn)
    return tuple(made)


def deciding(aggregate: PrivateAggregate) -> int:
    """Returns the place of the measure that decides which groups are shown."""
    return [measure.id for measure in aggregate.measures].index(aggregate.selection or "")


def deciding_rounds(budgeted: BudgetedAggregate, noises: tuple[NoiseLaw, ...]) -> tuple[tuple[Round, ...], int] | None:
    """Returns the rounds of a selection, and the groups in which a unit counts in one; None where it has no rounds."""
    aggregate = budgeted.aggregate
    if not aggregate.is_selected or aggregate.measures[deciding(aggregate)].count is not Count.DECIDING:
        return None
    groups = groups_per_unit(aggregate)
    if groups is None:
        raise InternalError("a unit may count in any number of groups")
    return rounds_of(noises[deciding(aggregate)].parameter, groups, budgeted.selection_delta), groups


def tau_of(budgeted: BudgetedAggregate, noises: tuple[NoiseLaw, ...]) -> int | None:
    """Returns the tau of a selection, of one in rounds that of the last; None where all groups are public."""
    aggregate = budgeted.aggregate
    if not aggregate.is_selected:
        return None
    rounds, groups = deciding_rounds(budgeted, noises), groups_per_unit(aggregate)
    if rounds is not None:
        return -(-rounds[0][-1].tau // WEIGHT)
    if groups is None:
        raise InternalError("a unit may count in any number of groups")
    return least_tau(noises[deciding(aggregate)], groups, budgeted.selection_delta)


Recomputed = tuple[tuple[NoiseLaw, ...], int | None]
"""The noise of each measure, and tau where groups are selected."""


def recomputed(budgeted: BudgetedAggregate, neighbours: Neighbours) -> Recomputed:
    """Returns noise and tau as the plan's own bounds and losses make them.

    Raises:
        InternalError, InvalidLossError: Nothing that is sampled exactly causes at most these losses.
    """
    noises = calibrated(budgeted, neighbours)
    return noises, tau_of(budgeted, noises)
