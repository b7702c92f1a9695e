"""How surprising a sum of noise is: bounds that hold at every sample size, for the discrete laws themselves.

Chernoff's bound P(S >= s) <= E[exp(t X)]^n exp(-t s) holds for every t, so that the best t found is a bound whatever
the search found. Written without the package: a mistake there is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tests.statistical.laws import Floats

FALSE_ALARM = 1e-10
"""Of one check, of which there are fewer than 500 where this is imported (counted: about 320), and fewer than 500 in
test_samplers.py (about 350): 1e-7 together. Near misses, which a check has to reject, are not counted.

At 1e-9 test_choices.py has 30 checks, test_permute_and_flip.py and test_local_reports.py four each, test_randomised.py
and test_withheld.py one. At 1e-8, the FALSE_ALARM of an audit, test_own_laws.py audits three right laws. So a correct
package fails any statistical test with a chance below 1.8e-7.
"""


def laplace_surprise(noise: Floats, scale: float, rounded: bool = False) -> tuple[float, float]:
    """Returns bounds on the chance that |noise| adds up to as little, and to as much; `scale` is in lattice steps.

    Args:
        rounded: The noise was drawn in an even number of finer steps and rounded half up. Of a discrete Laplace law
            with ratio r that is P(|X| >= k) = (r^a + r^(a+1)) / (1 + r) = r^a = exp(-(k - 1/2) / scale), where a fine
            steps are k - 1/2 whole ones: the number of finer steps does not matter.
    """
    ratio = math.exp(-1 / scale)
    at_all = math.exp(-0.5 / scale) if rounded else 2 * ratio / (1 + ratio)

    def log_moment(t: float) -> float:
        grown = ratio * math.exp(t)
        return math.log(1 - at_all + at_all * (1 - ratio) * math.exp(t) / (1 - grown))

    return _tails(float(np.abs(noise).sum()), noise.size, log_moment, 1 / scale)


def laplaces_surprise(noise: Floats, scales: Sequence[float], rounded: bool = False) -> tuple[float, float]:
    """Returns bounds for sums of independent Laplace noise, one for each of these scales, as `laplace_surprise` does.

    For different scales P(|X| >= x) is the sum of a_i exp(-x / b_i), a_i the product of b_i^2 / (b_i^2 - b_j^2) over
    the others. Equal scales are told apart by a thousandth, of which 2000 draws show nothing.

    Args:
        rounded: The sum is rounded to whole numbers; otherwise it is so fine that it counts as continuous.
    """
    apart = [scale * (1 + place / 1000) for place, scale in enumerate(sorted(scales)) if scale]
    parts = [math.prod(b * b / (b * b - c * c) for j, c in enumerate(apart) if j != i) for i, b in enumerate(apart)]

    def log_moment(t: float) -> float:
        pairs = zip(parts, apart, strict=True)
        if rounded:  # E[exp(tK)] = 1 + (e^t - 1) sum over k >= 1 of exp(t (k - 1)) P(K >= k)
            return math.log1p(math.expm1(t) * sum(a * math.exp(-0.5 / b) / (1 - math.exp(t - 1 / b)) for a, b in pairs))
        return math.log1p(t * sum(a / (1 / b - t) for a, b in pairs))

    return _tails(float(np.abs(noise).sum()), noise.size, log_moment, 1 / max(apart))


def gaussian_surprise(noise: Floats, variance: float, rounded: bool = False) -> tuple[float, float]:
    """Returns bounds on the chance that noise^2 adds up to as little, and to as much.

    Args:
        rounded: The noise was drawn in so many finer steps that its law is the continuous one, and rounded.
    """
    reach = math.ceil(40 * math.sqrt(variance)) + 2
    step = max(1, reach // 2**17)  # where the law is wide, its sums are those of the continuous law
    places = np.arange(0, reach, step, dtype=np.float64)
    squares = places**2
    weights = np.where(squares > 0, 2.0, 1.0)
    exponents = -squares / (2 * variance)
    if rounded and step == 1:
        exponents = np.array([_log_share(k, math.sqrt(2 * variance)) for k in places])
    whole = _log_sum(weights, exponents)

    def log_moment(t: float) -> float:
        return _log_sum(weights, exponents + squares * t) - whole

    return _tails(float((noise**2).sum()), noise.size, log_moment, 1 / (2 * variance))


def _log_share(k: float, width: float) -> float:
    """Returns log P(k - 1/2 < X < k + 1/2) of the normal law with 2 variance = width^2."""
    share = (math.erfc((k - 0.5) / width) - math.erfc((k + 0.5) / width)) / 2
    return math.log(share) if share > 0 else -math.inf


def _log_sum(weights: Floats, exponents: Floats) -> float:
    largest = float(exponents.max())
    return largest + math.log(float((weights * np.exp(exponents - largest)).sum()))


def _tails(total: float, size: int, log_moment: Callable[[float], float], limit: float) -> tuple[float, float]:
    """Returns bounds on P(S <= total) and P(S >= total); moments exist for t < limit."""

    def bound(t: float) -> float:
        return size * log_moment(t) - t * total

    low, high = _least(lambda step: bound(-limit * step), _STEPS), _least(lambda step: bound(limit * step), _NEAR)
    return math.exp(min(0.0, low)), math.exp(min(0.0, high))


_NEAR = tuple(map(float, np.linspace(0.005, 0.98, 196)))
_STEPS = (*_NEAR, *map(float, np.geomspace(1.0, 60.0, 60)))


def _least(bound: Callable[[float], float], steps: Sequence[float]) -> float:
    """Returns the least bound: log moments are convex, so that it falls along the steps, and then rises."""
    first, last = 0, len(steps) - 1
    while first < last:
        middle = (first + last) // 2
        if bound(steps[middle]) <= bound(steps[middle + 1]):
            last = middle
        else:
            first = middle + 1
    return bound(steps[first])
