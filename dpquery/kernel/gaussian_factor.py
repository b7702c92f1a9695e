"""What a release with Gaussian noise satisfies by itself: more rho fits into an (epsilon, delta) than by conversion.

The ledger counts rho, which adds up. Of one question that asks for (epsilon, delta) the answer alone is promised, and
for Gaussian noise the exact trade-off of epsilon and delta is known. Proofs: docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpquery.kernel import samplers
from dpquery.kernel.accountant import guarantee_of
from dpquery.kernel.directed_rounding import ln_up
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Mechanism
from dpquery.kernel.rounds import PARTS
from dpquery.kernel.tails import NORMAL_FOLLOWED, NORMAL_TAIL_ERROR, normal_tail
from dpquery.units.declarations import Neighbours

MOST_EPSILON, LEAST_DELTA = 64, Fraction(1, 10**60)
"""Only up to and from here is more claimed than the conversion of `loss` says."""

_SLACK = Fraction(1, 2**42)
_TWICE_PI_SQUARED = Fraction(19739, 1000)  # less than 2 pi^2 = 19.7392...
_STEP = Fraction(1, 10**12)


def gaussian_delta(square: Fraction, epsilon: Fraction) -> Fraction:
    """Returns an upper bound on the least delta with which continuous Gaussian noise is (epsilon, delta)-DP.

    Args:
        square: The squared L2 sensitivity divided by the variance, above 0.
        epsilon: From 0 to MOST_EPSILON.
    Source:
        Balle, Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8.
    """
    near, far = epsilon**2 / square + square / 4 - epsilon, epsilon**2 / square + square / 4 + epsilon
    lost = normal_tail(near) if 2 * epsilon >= square else 1 - _tail_down(near)
    fall = Fraction(samplers.exponential(epsilon) + samplers.EXPONENTIAL_ERROR, 1 << samplers.PRECISION)
    return min(Fraction(1), lost - _tail_down(far) / fall)


def _tail_down(square: Fraction) -> Fraction:
    return max(Fraction(0), normal_tail(square) - NORMAL_TAIL_ERROR) if square < NORMAL_FOLLOWED else Fraction(0)


@lru_cache(maxsize=1024)
def square_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns about the greatest square for which `gaussian_delta` is at most delta: checked before it is returned.

    Args:
        epsilon: Above 0, at most MOST_EPSILON.
        delta: From LEAST_DELTA to below 1.
    """
    low, high = 1e-12, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _about(middle, float(epsilon)) > float(delta) else (middle, high)
    found = Fraction(low)
    step = Fraction(1, 10**9)
    while gaussian_delta(found, epsilon) > delta:
        found, step = found * (1 - step), min(2 * step, Fraction(1, 2))
    return found


def _about(square: float, epsilon: float) -> float:
    root = math.sqrt(square)
    near, far = epsilon / root - root / 2, epsilon / root + root / 2
    return (math.erfc(near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(far / math.sqrt(2))) / 2


def factor_alone(plan: BudgetedPlan, neighbours: Neighbours, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns the factor by which each rho of a plan may grow while what is paid in rho stays (epsilon, delta)-DP: at
    least 1 where the plan as it is satisfies that, 0 where nothing could be shown.

    Claim:
        Of Gaussian noise, beside the deltas of selections; of other noise that is paid in rho nothing is known. A
        factor other than 1 holds as long as noise is then drawn in the same steps.
        Neighbours: as given.
    Source:
        docs/proofs/gaussian.md, Theorem 1.
    """
    parts = [_paid_in_rho(part) for part in plan.aggregates]
    each = [noise for part in parts for noise in part.noise]
    if any(noise.mechanism is not Mechanism.GAUSSIAN for noise in each):
        return Fraction(0)
    if not each or not 0 < epsilon <= MOST_EPSILON or not LEAST_DELTA <= delta < 1:
        return Fraction(0)
    drawn = [noise.sampled for part in parts for noise in calibrated(part, neighbours)]
    own, slack = guarantee_of(BudgetedPlan(aggregates=tuple(parts)), neighbours).rho, _SLACK * min(Fraction(1), epsilon)
    changed = sum((2 * n.loss.rho * variance for n, variance in zip(each, drawn, strict=True)), Fraction(0)) * len(
        PARTS
    )
    lost = max(Fraction(1), ln_up(Fraction(61, 10) * changed / slack) / _TWICE_PI_SQUARED)
    square = square_within(epsilon - 2 * slack, delta * (1 - slack))
    return math.floor(square / (2 * own + square * lost / min(drawn)) / _STEP) * _STEP


def _paid_in_rho(part: BudgetedAggregate) -> BudgetedAggregate:
    paid = [pair for pair in zip(part.aggregate.measures, part.noise, strict=True) if pair[1].loss.rho]
    aggregate = replace(part.aggregate, measures=tuple(measure for measure, _ in paid))
    return BudgetedAggregate(aggregate=aggregate, noise=tuple(noise for _, noise in paid))
