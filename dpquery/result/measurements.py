"""What each noisy column is, how much noise it has and what it pays: for people, and for the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.accuracy.noise_shapes import noises_of, scale_of
from dpquery.kernel.choice_utilities import step_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, tau_of
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Count, Measure, Noise, PrivateAggregate
from dpquery.kernel.quantiles import asked, family_of, rank_errors
from dpquery.kernel.sensitivity import Sensitivity, sensitivity
from dpquery.plan.cached import cached
from dpquery.units.declarations import Neighbours

FAILURE = Fraction(1, 20)
"""How often an error may be larger than the one that is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One noisy column, as it is measured: what `explain` shows and what the answer reports.

    Attributes:
        id: The column of the released table.
        label: What is measured, for people.
        aggregate: `count`, `sum`, `count_distinct`, ...
        mechanism: `laplace`, `gaussian`, or of a choice `exponential` or `permute_and_flip`.
        linf, l1, l2: Sensitivity of the column over its groups; exact, in the unit of the released number (l2 is
            a float, rounded up, where it is irrational). Of a choice: how far the utilities of a group move apart, in
            ranks (values of full weight), in any unit of the value.
        scale: Laplace b or Gaussian sigma, in the same unit. Of a choice: the ranks by which a candidate must be worse
            to be less likely by a factor of e.
        loss: What the column pays: epsilon for Laplace, rho for Gaussian, one of them for a choice.
        tau: Least noisy number of units for a group to be shown; None where groups are public.
        error95: Half-width of the 95 % interval of one released number, in its unit. Of a choice: the ranks that it
            is off at most with a chance of 95 %; how far that is in values depends on the data.
        unit: What these figures are in where it is not the unit of the released number: `ranks` or `values`.
        together: How many quantiles, this one included, are chosen together from what all of them pay; 0 if none are.
            Sensitivities and scale are then those among the values on its side of the ones that are chosen before it.
        parallel: How many sets of columns, the one with this column included, pay side by side, as no row counts in two
            of them, or as they are the terms of one vector: the dearest is charged. 0 without others.
        stored: The ledger's entries that it was paid with, where it is read from stored releases, at no charge.
        follows: Whether it is not measured, because the others of the batch tell it as exactly.
    """

    id: str
    label: str
    aggregate: str
    mechanism: str
    linf: Fraction
    l1: Fraction
    l2: Fraction | float
    scale: float
    loss: PrivacyLoss
    tau: int | None
    error95: float
    unit: str = ""
    together: int = 0
    parallel: int = 0
    stored: tuple[int, ...] = ()
    follows: bool = False


_AGGREGATES = {
    Count.UNITS: "count_distinct",
    Count.DECIDING: "selection",
    Count.ROWS: "count",
    Count.VALUES: "count",
    Count.DISTINCT: "count_distinct",
    Count.SUM: "sum",
    Count.QUANTILE: "quantile",
    Count.MODE: "mode",
}


def measurements(plan: BudgetedPlan, neighbours: Neighbours) -> tuple[Measurement, ...]:
    """Returns a description of every measurement of a plan, in the order of its aggregates and measures."""
    described = [one for budgeted in plan.aggregates for one in _described(budgeted, neighbours)]
    for chain in chains([budgeted.aggregate for budgeted in plan.aggregates], neighbours):
        for number in (number for numbers in chain if len(chain) > 1 for number in numbers):
            described[number] = replace(described[number], parallel=len(chain))
    return tuple(described)


@cached
def _described(budgeted: BudgetedAggregate, neighbours: Neighbours) -> tuple[Measurement, ...]:
    noises, aggregate = noises_of(budgeted, neighbours), budgeted.aggregate
    tau, described = tau_of(budgeted, noises), []
    ranks = rank_errors(aggregate, [made.choosing for made in noises], FAILURE)
    for measure, noise, made, off in zip(aggregate.measures, budgeted.noise, noises, ranks, strict=True):
        moved = sensitivity(aggregate, measure, neighbours)
        described.append(_describe(aggregate, measure, noise, made, moved, tau, off))
    return tuple(described)


def _describe(
    aggregate: PrivateAggregate,
    measure: Measure,
    noise: Noise,
    made: NoiseLaw,
    moved: Sensitivity,
    tau: int | None,
    ranks: float,
) -> Measurement:
    step = measure.unit if made.is_added else step_of(*asked(aggregate, measure))
    return Measurement(
        id=measure.id,
        label=measure.label,
        aggregate=_name(measure),
        mechanism=made.mechanism.value,
        linf=moved.linf * step,
        l1=moved.l1 * step,
        l2=_root(moved.l2_squared, step),
        scale=float(scale_of(made) * step),
        loss=noise.loss,
        tau=tau,
        error95=float(made.half_width(FAILURE) * step) if made.is_added else ranks,
        together=len(family_of(aggregate, measure)),
        unit={Count.QUANTILE: "ranks", Count.MODE: "values"}.get(measure.count, ""),
    )


def _name(measure: Measure) -> str:
    if measure.target in (0, 1):
        return "min" if measure.target == 0 else "max"
    return _AGGREGATES[measure.count]


def _root(square: int | Fraction, step: Fraction) -> Fraction | float:
    """Returns step * sqrt(square): exact where it is rational, else a float rounded up."""
    exact = Fraction(square)
    root = Fraction(math.isqrt(exact.numerator), math.isqrt(exact.denominator))
    if root * root == exact:
        return root * step
    above = Fraction(math.isqrt((exact.numerator << 128) // exact.denominator) + 1, 1 << 64)
    return math.nextafter(float(step * above), math.inf)
