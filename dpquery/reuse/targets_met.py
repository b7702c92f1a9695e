"""Whether what is known of sums, or will be, is as exact as was asked: by its variance and by its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.plan import BudgetedPlan
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.stored_choices import ROUNDING
from dpquery.reuse.strategy import amount_of, with_losses
from dpquery.reuse.vector_estimates import Vectors

Reached = Mapping[str, tuple[str, float]]
"""Of each measure, by its id, the base of its rows and how much more of a loss it needs; 1 where it is just enough."""
CLOSE, FAR = 0.8, 0.4
"""Intervals are looked at where the need is more than this part of the largest one over the same rows: the squared
half-widths of two laws of one variance differ by less; the second where intervals fail more often than one time in ten,
as those of Laplace noise are narrow then."""
DIGITS = 10**6
"""Losses are changed by factors of so many parts, rounded up."""


def reached(demanded: Sequence[Wanted], vectors: Mapping[str, Vectors], failure: Fraction) -> Reached:
    """Returns how much more is needed of each sum; infinite where it is not determined.

    Args:
        demanded: Each with the noise that its number may have at most.
        vectors: What is known of sums, by base; of other bases nothing is returned.
        failure: With which probability an interval may not hold.
    """
    needs, laws = dict[str, tuple[str, float]](), []
    for one in demanded:
        if one.asked is None or not vectors.get(one.asked.frame.base):
            continue
        base = one.asked.frame.base
        for measure, text, most in zip(one.budgeted.aggregate.measures, one.asked.measures, one.noises, strict=True):
            if is_of_vector(one.asked.frame, text):
                known = vectors[base].law(one.asked, one.facts, text)
                need = math.inf if known is None else known[1] / (variance_of(most) * ROUNDING)
                needs[measure.id] = base, need
                laws += [] if known is None else [(measure.id, base, known[0], most)]
    largest, close = largest_by_base(needs), CLOSE if failure <= Fraction(1, 10) else FAR
    for id, base, law, most in laws:
        if needs[id][1] > close * largest[base] and law != most:
            wide, allowed = law.half_width(failure), most.half_width(failure)
            needs[id] = base, max(needs[id][1], (wide / max(allowed, 1)) ** 2 if wide > allowed else 0.0)
    return needs


def largest_by_base(needs: Reached) -> dict[str, float]:
    """Returns by base the largest need."""
    found: dict[str, float] = {}
    for base, need in needs.values():
        found[base] = max(need, found.get(base, 0.0))
    return found


def bases_of(wanted: Iterable[Wanted]) -> dict[str, str]:
    """Returns the base of each sum by its id."""
    return {
        measure.id: one.asked.frame.base
        for one in wanted
        if one.asked is not None
        for measure, text in zip(one.budgeted.aggregate.measures, one.asked.measures, strict=True)
        if is_of_vector(one.asked.frame, text)
    }


def times(plan: BudgetedPlan, factors: Mapping[str, float]) -> BudgetedPlan:
    """Returns the plan in which the precisions of measures, by their ids, are so many times as large."""
    losses = {}
    for budgeted in plan.aggregates:
        for measure, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True):
            if measure.id in factors:
                factor = factors[measure.id] if noise.loss.rho else math.sqrt(factors[measure.id])
                losses[measure.id] = amount_of(noise) * Fraction(max(1, math.ceil(factor * DIGITS)), DIGITS)
    return with_losses(plan, losses)
