"""Several noisy numbers of one thing put together: weighted by how exact each is, and rounded to the lattice.

Weighting by the inverses of the variances gives the least variance that any weights give. The weights follow from the
plans alone, so this is post-processing. docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.kernel.mechanisms import NoiseLaw

Floats = NDArray[np.float64]
LEAST_FAILURE = Fraction(1, 10**6)
"""Below it tails are bounded by their moments instead of being computed."""
REACH = 40
"""Standard deviations after which a law is taken to repeat itself where it is computed from its series."""
TERMS = 1 << 12
"""Terms of that series."""
MARGIN = 1e-4
"""Relative error of the computed tail that half-widths allow for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One noise in a combination: its law, how many independent ones of it are added, and its weight."""

    noise: NoiseLaw
    count: int
    weight: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedNoise:
    """The noise of a weighted sum of independent noisy numbers, rounded to the lattice.

    Attributes:
        components: What is in it; of a mean, weights sum to 1.
        rounded: How many roundings to whole steps are added up in it, besides those of numbers with finer noise: these
            were rounded to finer steps before it was added, and to whole ones after.
        rest: The variance of many small components together, which are taken for one normal noise.
    """

    components: tuple[Component, ...]
    rounded: int
    rest: float = 0.0

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps."""
        return _half_width(self, failure)


def weights_of(variances: Sequence[float]) -> tuple[Fraction, ...]:
    """Returns weights in inverse proportion to the variances, multiples of 2^-32 that sum to 1."""
    precisions = [1 / variance for variance in variances]
    total = math.fsum(precisions)
    found = [Fraction(int(precision / total * 2**32), 2**32) for precision in precisions]
    return (*found[:-1], 1 - sum(found[:-1], start=Fraction(0)))


def combined(numbers: Sequence[NDArray[Any]], weights: Sequence[Fraction]) -> NDArray[Any]:
    """Returns the weighted means of whole numbers, rounded to the nearest whole number, halves up; exact."""
    parts = [int(weight * 2**32) for weight in weights]
    total: NDArray[Any] = np.zeros(len(numbers[0]), dtype=object)
    for values, part in zip(numbers, parts, strict=True):
        total = total + values.astype(object) * part
    return _fitting((total + 2**31) // 2**32)


def _fitting(numbers: NDArray[Any]) -> NDArray[Any]:
    fits = len(numbers) == 0 or max(-int(numbers.min()), int(numbers.max())) < 2**62
    return numbers.astype(np.int64) if fits else numbers


@lru_cache(maxsize=1024)
def _half_width(noise: CombinedNoise, failure: Fraction) -> int:
    """Returns the half-width of the sum and of its roundings."""
    if failure >= LEAST_FAILURE:
        return _by_inversion(noise, float(failure))
    finer = (part for part in noise.components if part.noise.steps != 1)
    moved = (part.count * abs(part.weight) * (Fraction(1, 2) + 1 / Fraction(part.noise.steps)) for part in finer)
    return _chernoff(noise, float(failure)) + math.ceil(sum(moved, start=Fraction(noise.rounded, 2)))


def _by_inversion(noise: CombinedNoise, failure: float) -> int:
    """Inverts the characteristic function: that of a sum is the product of its parts', and roundings are even spreads.

    Source:
        The Fourier series of a law on an interval of `REACH` deviations to both sides, integrated from -w to w.
    """
    variance = math.fsum(map(_variance, noise.components)) + noise.rest + noise.rounded / 12
    length = 2 * REACH * math.sqrt(variance)
    t = np.arange(1, TERMS) * (2 * math.pi / length)
    series: NDArray[Any] = np.exp(-(t**2) * noise.rest / 2) * np.sinc(t / (2 * math.pi)) ** noise.rounded
    for part in noise.components:
        series *= _characteristic(part.noise, t * float(part.weight)) ** part.count
    series /= t
    low, high, allowed = 0.0, length / 2, failure * (1 - MARGIN)
    while high - low > 1 / 4:
        middle = (low + high) / 2
        within = 2 * middle / length + 4 / length * float((series * np.sin(t * middle)).sum())
        low, high = (low, middle) if 1 - within <= allowed else (middle, high)
    return math.ceil(high)


def _characteristic(noise: NoiseLaw, t: NDArray[Any]) -> Floats:
    """Returns the characteristic function of a noise and of its own rounding, where it is finer or coarser."""
    whole = 0.0 if noise.steps == 1 else max(1.0, 1 / float(noise.steps))
    spread: Floats = np.sinc(t * whole / (2 * math.pi))
    return spread * shape_of(noise.mechanism).characteristic(noise.sampled, t / float(noise.steps))


def _chernoff(noise: CombinedNoise, failure: float) -> int:
    """Bounds P(|sum| > x) by 2 E exp(t sum) exp(-t x), for the best of many t."""
    components = noise.components
    laws = [(shape_of(part.noise.mechanism), float(part.noise.parameter), float(part.weight)) for part in components]
    ends = [shape.largest_t(parameter) / weight for shape, parameter, weight in laws if weight]
    deviation = math.sqrt(math.fsum(map(_variance, components)) + noise.rest)
    most = min(ends, default=math.inf)
    t = np.minimum(np.geomspace(1e-3, 1e2, 400) / deviation, most * (1 - 1e-6))
    logs = t**2 * noise.rest / 2
    for part in components:
        logs += part.count * _log_moment(part.noise, t * float(part.weight))
    return math.ceil(float(((logs + math.log(2 / failure)) / t).min()) * (1 + 1e-9))


def _log_moment(noise: NoiseLaw, t: NDArray[np.float64]) -> NDArray[np.float64]:
    if noise.steps != 1:
        return _log_moment(in_finer_steps(noise), t / float(noise.steps))
    return shape_of(noise.mechanism).log_moment(float(noise.parameter), t)


def _variance(part: Component) -> float:
    return part.count * float(part.weight) ** 2 * variance_of(part.noise)


def in_finer_steps(noise: NoiseLaw) -> NoiseLaw:
    """Returns the noise before the sum is rounded, its steps taken for whole ones."""
    return replace(noise, parameter=noise.sampled, steps=1)
