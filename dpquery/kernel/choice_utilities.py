"""How good each candidate of a choice is, in exact integers, and how far one unit moves that.

A candidate is a lattice value, or a place in a domain. Its utility is 0 where it is as good as can be, for a quantile,
and the weight of the values that equal it, for a mode. Proofs: docs/proofs/exponential.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel.plan import LARGEST_STEP, Count, Measure

LARGEST_UTILITY = 2**61
"""No utility is below the negative of this: one that would be counts as it, and is never chosen."""
ROUNDING = 1e-12
"""Relative error of floating point that a bound on ranks allows for."""
FINEST_TARGET = 10**4
"""The largest denominator of a target."""
MOST_CHOICES = 100_000
"""Values that a mode may choose from."""

Integers = NDArray[np.int64]


def candidates(measure: Measure) -> tuple[int, int]:
    """Returns the first and the last candidate; refuses what the sampler could not handle exactly."""
    if measure.count is Count.MODE and measure.domain:
        if len(measure.domain) > MOST_CHOICES or None in measure.domain or len({*measure.domain}) < len(measure.domain):
            raise InternalError(f"the domain of {measure.id} is too long, or holds NULL or a value twice")
        return 0, len(measure.domain) - 1
    lattice, target = measure.lattice, measure.target
    if measure.count is not Count.QUANTILE or lattice is None or target is None:
        raise InternalError(f"{measure.id} has nothing to choose from")
    if lattice.squared or lattice.offset or max(-lattice.lower, lattice.upper) > LARGEST_STEP:
        raise InternalError(f"the lattice of {measure.id} is not one to choose from")
    if not 0 <= target <= 1 or target.denominator > FINEST_TARGET:
        raise InternalError(f"the target of {measure.id} is not a fraction from 0 to 1 of a few digits")
    return lattice.lower, lattice.upper


def step_of(measure: Measure, weight: int) -> Fraction:
    """Returns what one step of utility is in ranks, or for a mode in values, each of this weight."""
    return Fraction(1, weight if measure.target is None else weight * measure.target.denominator)


def spread(measure: Measure, weight: int) -> tuple[int, int]:
    """Returns by how much a unit whose values weigh at most `weight` moves the utilities of a group apart.

    Returns:
        The largest change of a utility less the smallest, over all candidates: where the unit comes or goes, and where
        another takes its place, with other values.
    Privacy:
        A weight of 1 more moves the utility of each candidate by at most max(r, q - r), for the target r/q; by at most
        1, for the targets 0 and 1; by 0 or 1, for a mode. Moved to another value it does so by at most q, 1 and 1.
        Neighbours: the first number where a unit is added or removed, the second where it is replaced.
    Source:
        docs/proofs/exponential.md, Lemmas 2 to 4.
    """
    candidates(measure)
    if measure.count is Count.MODE:
        return weight, 2 * weight
    target = measure.target
    if target is None or target in (0, 1):
        return 2 * weight, 2 * weight
    r, q = target.numerator, target.denominator
    return 2 * weight * max(r, q - r), 2 * weight * q


def rank_of_extreme(measure: Measure, coefficient: Fraction) -> int:
    """Returns K, the rank that the targets 0 and 1 ask for, counted from their end: a function of the plan alone.

    With K = 1 + ln(20 * candidates) / coefficient, rounded down, all candidates beyond the extreme value together are
    chosen with a chance of about one in 20 at most. Where the coefficient is large, K is 1: the extreme itself.
    """
    first, last = candidates(measure)
    return 1 + min(math.floor(math.log(20 * (last - first + 1)) / coefficient), LARGEST_UTILITY // 8)


def rank_error(measure: Measure, weight: int, coefficient: Fraction, failure: Fraction, worst: Fraction) -> float:
    """Returns how many ranks a choice is off at most but with the probability `failure`; of a mode, how many values.

    All candidates that are worse by w or more are chosen with probability at most worst * candidates * exp(-coefficient
    * w), with `worst` of the law, and utilities are whole: docs/proofs/exponential.md.
    """
    first, last = candidates(measure)
    unlikely = max(0.0, math.log(last - first + 1) + math.log(worst) - math.log(failure)) / float(coefficient)
    within = max(0, math.ceil(unlikely * (1 + ROUNDING)) - 1)
    extreme = rank_of_extreme(measure, coefficient) - 1 if measure.target in (0, 1) else 0
    return float((within + extreme) * step_of(measure, weight))


def utilities(measure: Measure, extreme: int, *, below: Integers, equal: Integers, total: Integers) -> Integers:
    """Returns the utility of candidates, each given by the weight of its group below it, equal to it, and in all.

    Args:
        extreme: K of `rank_of_extreme`, for the targets 0 and 1.
    Privacy:
        Total: no error may show how much a group weighs. What does not fit into 64 bits is computed in Python integers.
    Source:
        docs/proofs/exponential.md.
    """
    if measure.count is Count.MODE:
        return equal
    target = measure.target if measure.target is not None else Fraction(0)
    r, q = target.numerator, target.denominator
    if len(total) and int(total.max()) >= LARGEST_UTILITY // (2 * q):
        below, equal, total = (numbers.astype(object) for numbers in (below, equal, total))
    if target in (0, 1):
        wanted: Integers = np.minimum(total // 2 + 1, extreme)
        before = below if target == 0 else total - below - equal
        too_far, too_near = before - (wanted - 1), wanted - before - equal
    else:
        too_far = q * below - r * total
        too_near = -(too_far + q * equal)
    distance = np.minimum(np.maximum(np.maximum(too_far, too_near), 0), LARGEST_UTILITY)
    score: Integers = -distance.astype(np.int64)
    return score
