"""Gaussian noise for one release: the exact delta of a width, and the smallest width for (epsilon, delta).

Pure functions, not used by the ledger, which counts Gaussian noise in rho. `mu` is the L2 sensitivity divided by the
standard deviation. Proofs: docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpquery.accounting.directed_bounds import above, below, exp_down
from dpquery.accounting.normal_law import Bounds, mills_ratio, normal_density
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import ln_up, sqrt_up
from dpquery.kernel.tails import gaussian_tail

LARGEST_SUMMED_VARIANCE = 2**12
LARGEST_EPSILON = 1000
_HALVINGS = 64
_TAIL_ERROR = Fraction(1, 2**480)


@lru_cache(maxsize=4096)
def gaussian_delta(mu: Fraction, epsilon: Fraction) -> Fraction:
    """Returns the smallest delta for which continuous Gaussian noise is (epsilon, delta)-DP, rounded up.

    Claim:
        delta = P(N >= b) - e^epsilon P(N >= a), b = epsilon / mu - mu / 2, a = epsilon / mu + mu / 2. Because
        e^epsilon times the normal density at a is that at b, both terms are Mills' ratios times one density.
    Source:
        Balle, Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8.
    """
    if mu < 0 or not 0 <= epsilon <= LARGEST_EPSILON:
        raise InvalidLossError(f"mu must be at least 0, and epsilon between 0 and {LARGEST_EPSILON}")
    if mu == 0:
        return Fraction(0)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density, outside, taken = normal_density(near), mills_ratio(abs(near)), mills_ratio(far)
    if near >= 0:
        return min(Fraction(1), above(density[1] * (outside[1] - taken[0])))
    return min(Fraction(1), above(1 - density[0] * (outside[0] + taken[0])))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: Fraction, delta: Fraction) -> Fraction:
    """Returns about the smallest epsilon for which continuous Gaussian noise is (epsilon, delta)-DP, never too small.

    Claim:
        gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta (Balle, Wang 2018): checked before it is returned.
    """
    _check_delta(delta)
    if mu < 0 or gaussian_delta(mu, Fraction(0)) <= delta:
        return Fraction(0)
    most = mu * mu / 2 + mu * sqrt_up(2 * ln_up(1 / delta))  # Bun, Steinke 2016, Proposition 1.3
    if most > LARGEST_EPSILON:
        raise InvalidLossError(f"an epsilon above {LARGEST_EPSILON} is not computed with")
    return _last(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, bad=Fraction(0), good=above(most))


@lru_cache(maxsize=4096)
def mu_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns about the greatest mu for which continuous Gaussian noise is (epsilon, delta)-DP, never too great.

    Claim:
        gaussian_delta(mu_within(epsilon, delta), epsilon) <= delta (Balle, Wang 2018): checked before it is returned.
    """
    _check_delta(delta)
    good = bad = Fraction(1)
    while gaussian_delta(good, epsilon) > delta:
        good /= 2
    while gaussian_delta(bad, epsilon) <= delta:
        bad *= 2
    return _last(lambda mu: gaussian_delta(mu, epsilon) <= delta, bad=bad, good=good)


def gaussian_scale(sensitivity: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns about the smallest standard deviation for which continuous Gaussian noise is (epsilon, delta)-DP.

    Rounded up; at most 1 + 1e-12 times the smallest.

    Source:
        Balle, Wang 2018, Algorithm 1, without its floating point.
    """
    if sensitivity <= 0:
        raise InvalidLossError("a sensitivity must be positive")
    return above(sensitivity / mu_within(epsilon, delta))


def discrete_gaussian_delta(variance: Fraction, steps: int, epsilon: Fraction) -> Fraction:
    """Returns the smallest delta for which one integer with discrete Gaussian noise is (epsilon, delta)-DP, rounded up.

    Args:
        variance: sigma^2 of the law exp(-k^2 / (2 sigma^2)), in steps of the lattice, at most 2^12.
        steps: The sensitivity, an integer number of steps.
        epsilon: From 0 to 100.
    Source:
        Canonne, Kamath, Steinke 2020, Theorem 7; docs/proofs/gaussian.md.
    """
    if not 0 < variance <= LARGEST_SUMMED_VARIANCE or steps < 0 or not 0 <= epsilon <= 100:
        raise InvalidLossError("computed for variances up to 4096 and epsilons up to 100")
    if steps == 0:
        return Fraction(0)
    middle = epsilon * variance / steps
    near, far = math.floor(middle - Fraction(steps, 2)) + 1, math.floor(middle + Fraction(steps, 2)) + 1
    lost = _tail(variance, near)[1] - exp_down(epsilon) * _tail(variance, far)[0]
    return min(Fraction(1), above(lost))


def discrete_gaussian_variance(steps: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns a variance for which one integer with discrete Gaussian noise is (epsilon, delta)-DP.

    Claim:
        discrete_gaussian_delta of it is at most delta: checked before it is returned (Canonne, Kamath, Steinke 2020).
        About the smallest from that of the continuous law upwards, which itself does not always suffice.
    """
    if steps < 1:
        raise InvalidLossError("a sensitivity must be positive")
    good = bad = gaussian_scale(Fraction(steps), epsilon, delta) ** 2
    step = Fraction(1, 2**20)
    while discrete_gaussian_delta(good, steps, epsilon) > delta:
        bad, good, step = good, above(good * (1 + step)), 2 * step
    return _last(lambda variance: discrete_gaussian_delta(variance, steps, epsilon) <= delta, bad=bad, good=good)


def _tail(variance: Fraction, k: int) -> Bounds:
    """Returns bounds on P(X >= k) for the discrete Gaussian law and any integer k."""
    if k <= 0:
        low, high = _tail(variance, 1 - k)
        return 1 - high, 1 - low
    high = gaussian_tail(variance, k)
    return max(Fraction(0), high - _TAIL_ERROR), high


def _last(holds: Callable[[Fraction], bool], *, bad: Fraction, good: Fraction) -> Fraction:
    """Returns a number for which `holds` was seen to hold, by bisection from `good` towards `bad`."""
    for _ in range(_HALVINGS):
        middle = below((bad + good) / 2)
        bad, good = (bad, middle) if holds(middle) else (middle, good)
        if abs(bad - good) * 10**13 <= good:
            break
    return good


def _check_delta(delta: Fraction) -> None:
    if not Fraction(1, 10**30) <= delta < 1:
        raise InvalidLossError("delta must lie between 1e-30 and 1")
