"""From a loss to a scale: what noise each measure gets, how large it is, and above which tau groups are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import exponential, samplers, tails
from dpquery.kernel.declarations import Neighbours
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, BudgetedPlan, Count, Measure, Mechanism, Noise
from dpquery.kernel.sensitivity import Sensitivity, groups_per_unit, sensitivity
from dpquery.kernel.utilities import rank_error, step_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The noise of one measure, on the integers.

    Attributes:
        mechanism: The law.
        parameter: Laplace: the scale b. Gaussian: the variance. In lattice steps (squared for the variance).
            Exponential: the coefficient c of the utility. Exact.
    """

    mechanism: Mechanism
    parameter: Fraction

    def sample(self, size: int) -> NDArray[np.int64]:
        """Returns fresh independent noise, shape (size,), in lattice steps; a choice has none."""
        match self.mechanism:
            case Mechanism.LAPLACE:
                return samplers.discrete_laplace(self.parameter, size)
            case Mechanism.GAUSSIAN:
                return samplers.discrete_gaussian(self.parameter, size)
            case Mechanism.EXPONENTIAL:
                raise InternalError("the exponential mechanism adds no noise")
            case _:
                assert_never(self.mechanism)

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps; of a choice see `utilities.rank_error`."""
        if self.mechanism is Mechanism.EXPONENTIAL:
            raise InternalError("a choice has no half-width that is known without the data")
        return _half_width(self.mechanism, self.parameter, failure)

    def tail(self, k: int) -> Fraction:
        """Returns an upper bound on P(noise >= k)."""
        laplace = self.mechanism is Mechanism.LAPLACE
        return (tails.laplace_tail if laplace else tails.gaussian_tail)(self.parameter, k)


def calibrate(moved: Sensitivity, noise: Noise) -> Calibrated:
    """Returns the noise that causes at most the given loss for a vector of this sensitivity.

    Privacy:
        Laplace of scale l1 / epsilon is epsilon-DP; Gaussian of variance l2^2 / (2 rho) is rho-zCDP; both on the
        integers, for integer vectors. A choice in one group whose utilities move apart by w has a bounded range of
        c w, so it is (c w)-DP and (c w)^2 / 8-zCDP; over the groups of a unit these add up to c l1 and c^2 l2^2 / 8.
    Source:
        Ghosh, Roughgarden, Sundararajan 2009 (geometric mechanism); Canonne, Kamath, Steinke 2020, theorem 4;
        Cesar, Rogers 2021 (bounded range to zCDP); docs/proofs/mechanisms.md, docs/proofs/exponential.md.
    Raises:
        InvalidLossError: The loss asks for a scale outside what the samplers make.
    """
    match noise.mechanism:
        case Mechanism.LAPLACE:
            if noise.loss.epsilon <= 0 or noise.loss.rho or noise.loss.delta:
                raise InternalError("Laplace noise is paid for with epsilon alone")
            parameter = moved.l1 / noise.loss.epsilon
            least, greatest = samplers.MIN_LAPLACE_SCALE, samplers.MAX_LAPLACE_SCALE
        case Mechanism.GAUSSIAN:
            if noise.loss.rho <= 0 or noise.loss.epsilon or noise.loss.delta:
                raise InternalError("Gaussian noise is paid for with rho alone")
            parameter = moved.l2_squared / (2 * noise.loss.rho)
            least, greatest = samplers.MIN_GAUSSIAN_VARIANCE, samplers.MAX_GAUSSIAN_VARIANCE
        case Mechanism.EXPONENTIAL:
            if noise.loss.delta or (noise.loss.epsilon > 0) is (noise.loss.rho > 0):
                raise InternalError("the exponential mechanism is paid for with epsilon or with rho")
            paid = noise.loss.epsilon / moved.l1
            parameter = paid or _root_down(8 * noise.loss.rho / moved.l2_squared)
            least, greatest = exponential.MIN_COEFFICIENT, exponential.MAX_COEFFICIENT
        case _:
            assert_never(noise.mechanism)
    if not least <= parameter <= greatest:
        size = "small" if (parameter < least) is (noise.mechanism is not Mechanism.EXPONENTIAL) else "large"
        raise InvalidLossError(
            f"the loss asked for makes the noise too {size} to be sampled exactly",
            advice="Ask for " + ("less" if size == "small" else "more") + " epsilon or rho, or narrower bounds.",
        )
    return Calibrated(mechanism=noise.mechanism, parameter=parameter)


def _root_down(square: Fraction) -> Fraction:
    """Returns the square root, rounded down to a multiple of 2^-256."""
    return Fraction(math.isqrt((square.numerator << 512) // square.denominator), 1 << 256)


@lru_cache(maxsize=1024)
def _half_width(mechanism: Mechanism, parameter: Fraction, failure: Fraction) -> int:
    laplace = mechanism is Mechanism.LAPLACE
    return (tails.laplace_quantile if laplace else tails.gaussian_quantile)(parameter, failure)


@lru_cache(maxsize=1024)
def threshold(noise: Calibrated, groups: int, delta: Fraction) -> int:
    """Returns tau: a group is shown if its noisy number of units is at least tau.

    Args:
        noise: The noise on the number of units.
        groups: Groups in which one unit weighs.
        delta: Probability with which a group that exists through one unit alone may be shown, over all such groups.
    Privacy:
        Each of at most `groups` such groups holds 1 and is shown with probability at most delta / groups (union bound).
    Source:
        Korolova et al. 2009; Wilson et al. 2020; docs/proofs/selection.md.
    """
    allowed = delta / groups
    if not 0 < allowed < 1:
        raise InternalError("selecting groups needs a delta between 0 and 1")
    high = 1
    while noise.tail(high) > allowed:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if noise.tail(middle) <= allowed else (middle, high)
    return 1 + high


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One noisy column, as it is measured: what `explain` shows and what the answer reports.

    Attributes:
        id: The column of the released table.
        label: What is measured, for people.
        aggregate: `count`, `sum`, `count_distinct`, ...
        mechanism: `laplace`, `gaussian` or `exponential`.
        l0, linf, l1, l2: Sensitivity over its groups; exact, in the unit of the released number (an irrational l2 is a
            float, rounded up). Of a choice: how far the utilities of a group move apart, in ranks (of full weight).
        scale: Laplace b or Gaussian sigma, in the same unit. Of a choice: by how many ranks worse is e times rarer.
        loss: What the column alone costs: epsilon for Laplace, rho for Gaussian, one of them for a choice.
        tau: Least noisy number of units for a group to be shown; None where groups are public.
        error95: Half-width of the 95 % interval of one released number, in its unit. Of a choice: the ranks that it
            is off at most with a chance of 95 %; how far that is in values depends on the data.
        unit: What these figures are in where it is not the unit of the released number: `ranks` or `values`.
        stored: The ledger's entries that it was paid with, where it is read from stored releases, at no charge.
    """

    id: str
    label: str
    aggregate: str
    mechanism: str
    l0: int
    linf: Fraction
    l1: Fraction
    l2: Fraction | float
    scale: float
    loss: PrivacyLoss
    tau: int | None
    error95: float
    unit: str = ""
    stored: tuple[int, ...] = ()


_AGGREGATES = {
    Count.UNITS: "count_distinct",
    Count.ROWS: "count",
    Count.VALUES: "count",
    Count.DISTINCT: "count_distinct",
    Count.SUM: "sum",
    Count.QUANTILE: "quantile",
    Count.MODE: "mode",
}


def calibrated(budgeted: BudgetedAggregate, neighbours: Neighbours) -> tuple[Calibrated, ...]:
    """Returns the noise of each measure, in order, recomputed from the plan."""
    aggregate = budgeted.aggregate
    made = []
    for measure, noise in zip(aggregate.measures, budgeted.noise, strict=True):
        if (measure.count in CHOICES) is not (noise.mechanism is Mechanism.EXPONENTIAL):
            raise InternalError("choices are made by the exponential mechanism, and nothing else is")
        made.append(calibrate(sensitivity(aggregate, measure, neighbours), noise))
    return tuple(made)


def tau_of(budgeted: BudgetedAggregate, noises: tuple[Calibrated, ...]) -> int | None:
    """Returns the threshold of a selection, or None where all groups are public."""
    aggregate = budgeted.aggregate
    if not aggregate.is_selected:
        return None
    index = [measure.id for measure in aggregate.measures].index(aggregate.selection or "")
    return threshold(noises[index], groups_per_unit(aggregate), budgeted.selection_delta)


def measurements(plan: BudgetedPlan, neighbours: Neighbours) -> tuple[Measurement, ...]:
    """Returns a description of every measurement of a plan, in the order of its aggregates and measures."""
    described = []
    for budgeted in plan.aggregates:
        noises = calibrated(budgeted, neighbours)
        tau = tau_of(budgeted, noises)
        for measure, noise, made in zip(budgeted.aggregate.measures, budgeted.noise, noises, strict=True):
            moved = sensitivity(budgeted.aggregate, measure, neighbours)
            described.append(_describe(measure, budgeted.aggregate.weight, noise, made, moved, tau))
    return tuple(described)


def _describe(
    measure: Measure, weight: int, noise: Noise, made: Calibrated, moved: Sensitivity, tau: int | None
) -> Measurement:
    choice = made.mechanism is Mechanism.EXPONENTIAL
    step = step_of(measure, weight) if choice else measure.lattice.unit if measure.lattice else Fraction(1)
    match made.mechanism:
        case Mechanism.LAPLACE:
            scale = float(made.parameter * step)
        case Mechanism.GAUSSIAN:
            scale = math.sqrt(made.parameter) * float(step)
        case Mechanism.EXPONENTIAL:
            scale = float(step / made.parameter)
    failure = Fraction(1, 20)
    return Measurement(
        id=measure.id,
        label=measure.label,
        aggregate=_name(measure),
        mechanism=made.mechanism.value,
        l0=moved.l0,
        linf=moved.linf * step,
        l1=moved.l1 * step,
        l2=_root(moved.l2_squared, step),
        scale=scale,
        loss=noise.loss,
        tau=tau,
        error95=rank_error(measure, weight, made.parameter, failure)
        if choice
        else float(made.half_width(failure) * step),
        unit={Count.QUANTILE: "ranks", Count.MODE: "values"}.get(measure.count, ""),
    )


def _name(measure: Measure) -> str:
    if measure.target in (0, 1):
        return "min" if measure.target == 0 else "max"
    return _AGGREGATES[measure.count]


def _root(square: int, step: Fraction) -> Fraction | float:
    """Returns step * sqrt(square): exact where it is rational, else a float rounded up."""
    root = math.isqrt(square)
    if root * root == square:
        return root * step
    return math.nextafter(float(step * Fraction(math.isqrt(square << 128) + 1, 1 << 64)), math.inf)
