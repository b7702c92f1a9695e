"""The laws of noise in floating point, one class each: what intervals, errors and estimates need to know of them.

Parameters are those of `kernel.noise_laws`, in steps of any size that are taken for whole ones. Nothing here decides
what is drawn or what it costs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, assert_never

import numpy as np

from dpquery.accuracy.rules import Floats
from dpquery.errors import InternalError
from dpquery.kernel.mechanisms import NoiseLaw, calibrated
from dpquery.kernel.plan import BudgetedAggregate, Mechanism
from dpquery.plan.cached import cached
from dpquery.units.declarations import Neighbours

LEAST_VARIANCE = 1e-260
"""Smaller variances count as this one, so that it has an inverse."""
LARGEST_EXACT = 60.0
"""Up to this deviation discrete Gaussians are summed point by point; above it the normal law differs by less than
`combined.MARGIN`."""
MARGIN = 1e-9
"""Relative error of floating point that half-widths allow for."""


class NoiseShape(ABC):
    """What is known of one law of noise that is added.

    Attributes:
        reach: Deviations beyond which its mass is not followed.
        scale_of_deviation: The scale of a standard deviation of 1.
        is_stable: Whether sums of several have the same law.
    """

    reach: ClassVar[int]
    scale_of_deviation: ClassVar[float]
    is_stable: ClassVar[bool] = False

    @abstractmethod
    def scale(self, parameter: Fraction) -> Fraction | float:
        """Returns Laplace b, Gaussian sigma, or the inverse of a coefficient, in the unit of the number."""

    @abstractmethod
    def parameter(self, scale: float) -> Fraction:
        """Returns the parameter of a scale."""

    @abstractmethod
    def parameter_within(self, width: float, doubt: float) -> float:
        """Returns about the parameter of noise that exceeds a width, up or down, with probability exp(-doubt)."""

    @abstractmethod
    def variance(self, parameter: Fraction) -> float:
        """Returns the variance on the integers, or an upper bound on it."""

    @abstractmethod
    def largest_t(self, parameter: float) -> float:
        """Returns the least t from which E exp(t noise) is infinite."""

    @abstractmethod
    def log_moment(self, parameter: float, t: Floats) -> Floats:
        """Returns an upper bound on ln E exp(t noise)."""

    @abstractmethod
    def characteristic(self, parameter: Fraction, t: Floats) -> Floats:
        """Returns the characteristic function of the continuous law of the same variance."""

    @abstractmethod
    def up_to(self, parameter: float, k: Floats) -> Floats:
        """Returns P(noise <= k) for whole k."""

    @abstractmethod
    def density(self, places: Floats) -> Floats:
        """Returns in what proportion to each other noises are likely, in scales; of the discrete laws the same."""

    @abstractmethod
    def inverse(self, points: Floats) -> Floats:
        """Returns the continuous law's quantiles, in scales, at points in (0, 1)."""

    @abstractmethod
    def half_width_of_sum(self, parameter: Fraction, count: int, failure: Fraction) -> int:
        """Returns a w that a sum of so many independent noises exceeds, up or down, with at most this probability."""


class _Laplace(NoiseShape):
    reach = 40
    scale_of_deviation = math.sqrt(0.5)

    def scale(self, parameter: Fraction) -> Fraction:
        return parameter

    def parameter(self, scale: float) -> Fraction:
        return Fraction(scale)

    def parameter_within(self, width: float, doubt: float) -> float:
        return width / doubt

    def variance(self, parameter: Fraction) -> float:
        half = 0.5 / float(parameter)  # the variance is 2 q / (1 - q)^2, with q = exp(-1 / b)
        return 0.5 / math.sinh(half) ** 2 if half < 300 else LEAST_VARIANCE

    def largest_t(self, parameter: float) -> float:
        return 1 / parameter

    def log_moment(self, parameter: float, t: Floats) -> Floats:
        """It is (1 - q)^2 / ((1 - q e^t) (1 - q e^-t)), q = exp(-1 / b), for t < 1 / b."""
        decay = -1 / parameter
        top = 2 * math.log(-math.expm1(decay))
        return top - np.log(-np.expm1(decay + t)) - np.log(-np.expm1(decay - t))

    def characteristic(self, parameter: Fraction, t: Floats) -> Floats:
        return 1 / (1 + t**2 * self.variance(parameter) / 2)

    def up_to(self, parameter: float, k: Floats) -> Floats:
        decay = -1 / parameter
        share = 1 / (1 + math.exp(decay))
        above = np.exp(decay * np.maximum(k + 1, 0)) * share
        return np.where(k >= 0, 1 - above, np.exp(decay * np.maximum(-k, 0)) * share)

    def density(self, places: Floats) -> Floats:
        return np.exp(-np.abs(places))

    def inverse(self, points: Floats) -> Floats:
        centred = points - 0.5
        found: Floats = -np.sign(centred) * np.log1p(-2 * np.abs(centred))
        return found

    def half_width_of_sum(self, parameter: Fraction, count: int, failure: Fraction) -> int:
        """Rounded up. The discrete sum is less spread than one of continuous noises, whose tail has a closed form.

        Source:
            Birnbaum 1948, "On Random Variables with Comparable Peakedness"; docs/concepts/accuracy.md.
        """
        scale, allowed = 1 / (2 * math.tanh(1 / (2 * float(parameter)))), float(failure) * (1 - MARGIN)
        low, high = -1, 1
        while _tail_of_laplaces((high + 0.5) / scale, count) > allowed:
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _tail_of_laplaces((middle + 0.5) / scale, count) <= allowed else (middle, high)
        return high


def _tail_of_laplaces(x: float, count: int) -> float:
    """Returns P(|X| > x) for the sum X of `count` continuous Laplace noises of scale 1.

    X is the difference of two gamma variables: when the later one is reached, j of the other's steps were made, and
    the rest is gamma of order count - j, for exponential steps have no memory.
    """
    factorials = _log_factorials(2 * count)
    j = np.arange(count)
    log_weights = factorials[count - 1 + j] - factorials[count - 1] - factorials[j] - (count + j) * math.log(2)
    rests = np.exp(j * math.log(x) - x - factorials[j]).cumsum()[::-1]
    return float(2 * (np.exp(log_weights) * rests).sum())


@lru_cache(maxsize=16)
def _log_factorials(most: int) -> Floats:
    return np.concatenate([[0.0], np.log(np.arange(1, most)).cumsum()])


class _Gaussian(NoiseShape):
    reach = 12
    scale_of_deviation = 1.0
    is_stable = True

    def scale(self, parameter: Fraction) -> float:
        return math.sqrt(parameter)

    def parameter(self, scale: float) -> Fraction:
        return Fraction(scale) ** 2

    def parameter_within(self, width: float, doubt: float) -> float:
        return width**2 / (2 * doubt)

    def variance(self, parameter: Fraction) -> float:
        """At most the parameter. Source: Canonne, Kamath, Steinke 2020, corollary 9."""
        return float(parameter)

    def largest_t(self, parameter: float) -> float:
        return math.inf

    def log_moment(self, parameter: float, t: Floats) -> Floats:
        """At most t^2 variance / 2. Source: Canonne, Kamath, Steinke 2020."""
        return t**2 * parameter / 2

    def characteristic(self, parameter: Fraction, t: Floats) -> Floats:
        return np.exp(-(t**2) * float(parameter) / 2)

    def up_to(self, parameter: float, k: Floats) -> Floats:
        deviation = math.sqrt(parameter)
        if deviation > LARGEST_EXACT:
            places = -(k + 0.5) / (deviation * math.sqrt(2))
            return np.array([math.erfc(place) for place in places.tolist()]) / 2
        reach = math.ceil(40 * deviation) + 1
        points = np.arange(-reach, reach + 1)
        density = np.exp(-(points**2) / (2 * parameter))
        total = density.cumsum() / density.sum()
        return np.where(k < -reach, 0.0, total[np.clip(k, -reach, reach).astype(np.int64) + reach])

    def density(self, places: Floats) -> Floats:
        return np.exp(-(places**2) / 2)

    def inverse(self, points: Floats) -> Floats:
        return np.array([NormalDist().inv_cdf(point) for point in points.tolist()])

    def half_width_of_sum(self, parameter: Fraction, count: int, failure: Fraction) -> int:
        """That of one discrete Gaussian of the sum's variance, as the laws of sums are those but for a factor that is
        computed; Chernoff's bound where it matters, E exp(t X) <= exp(t^2 variance / 2).

        Source:
            Kairouz, Liu, Steinke 2021; Canonne, Kamath, Steinke 2020; docs/concepts/accuracy.md.
        """
        apart = 10 * (count - 1) * math.exp(-(math.pi**2) * float(parameter))
        if apart < MARGIN / 2:
            one = NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=count * parameter)
            return one.half_width(failure * (1 - Fraction(MARGIN)))
        doubt = math.log(2) - math.log(failure.numerator) + math.log(failure.denominator)
        return math.ceil(math.sqrt(2 * count * float(parameter) * doubt) * (1 + MARGIN))


LAPLACE, GAUSSIAN = _Laplace(), _Gaussian()


def shape_of(mechanism: Mechanism) -> NoiseShape:
    """Returns what is known of the noise of a mechanism; raises InternalError for a choice, which adds none."""
    match mechanism:
        case Mechanism.LAPLACE:
            return LAPLACE
        case Mechanism.GAUSSIAN:
            return GAUSSIAN
        case Mechanism.EXPONENTIAL | Mechanism.PERMUTE_AND_FLIP:
            raise InternalError("a choice has no noise that is added to a number")
        case _:
            assert_never(mechanism)


def scale_of(noise: NoiseLaw) -> Fraction | float:
    """Returns Laplace b, Gaussian sigma, or of a choice the inverse of its coefficient; in lattice steps."""
    return shape_of(noise.mechanism).scale(noise.parameter) if noise.is_added else 1 / noise.parameter


@lru_cache(maxsize=1024)
def variance_of(noise: NoiseLaw) -> float:
    """Returns the variance of a noise, in squared lattice steps; of Gaussian noise an upper bound.

    Where noise is finer or coarser than a lattice step, that of rounding is added: a twelfth of the coarser step's
    square, as of an even spread.
    """
    drawn, steps = shape_of(noise.mechanism).variance(noise.sampled), float(noise.steps)
    return drawn / steps**2 + (0.0 if noise.steps == 1 else max(1.0, 1 / steps) ** 2 / 12)


def spread_of(noise: NoiseLaw) -> float:
    """Returns what orders noises of one measure: the variance, or of choices the inverse of the coefficient."""
    return variance_of(noise) if noise.is_added else float(1 / noise.parameter)


@cached
def noises_of(budgeted: BudgetedAggregate, neighbours: Neighbours) -> tuple[NoiseLaw, ...]:
    """Returns the noise of each measure, as the gate will calibrate it: once for each plan that is considered. The gate
    does not use this."""
    return calibrated(budgeted, neighbours)
