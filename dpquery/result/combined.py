"""Several noisy numbers of one thing put together: weighted by how exact each is, and rounded to the lattice.

Weighting by the inverses of the variances gives the least variance that any weights give. The weights follow from the
plans alone, so this is post-processing. docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.kernel.mechanisms import NoiseLaw

LEAST_FAILURE = Fraction(1, 10**9)
"""Below it tails are bounded by their moments instead of being computed."""
CELLS = 400
"""Cells in a standard deviation of the sum when its tail is computed."""
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
    """

    components: tuple[Component, ...]
    rounded: int

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps."""
        finer = (part for part in self.components if part.noise.steps != 1)
        moved = (part.count * abs(part.weight) * (Fraction(1, 2) + 1 / Fraction(part.noise.steps)) for part in finer)
        return _half_width(self.components, failure) + math.ceil(sum(moved, start=Fraction(self.rounded, 2)))


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


def shifted(numbers: NDArray[Any], rows: NDArray[Any], shift: int) -> NDArray[Any]:
    """Returns the numbers and `shift` times those of rows; exact."""
    return _fitting(numbers.astype(object) + rows.astype(object) * shift)


def added_up(numbers: Sequence[NDArray[Any]], factors: Sequence[Fraction]) -> NDArray[Any]:
    """Returns the sums of whole numbers, each times its factor, rounded to the nearest whole number; exact."""
    under = math.lcm(*(factor.denominator for factor in factors))
    total: NDArray[Any] = np.zeros(len(numbers[0]), dtype=object)
    for values, factor in zip(numbers, factors, strict=True):
        total = total + values.astype(object) * int(factor * under)
    return _fitting((2 * total + under) // (2 * under))


def _fitting(numbers: NDArray[Any]) -> NDArray[Any]:
    fits = len(numbers) == 0 or max(-int(numbers.min()), int(numbers.max())) < 2**62
    return numbers.astype(np.int64) if fits else numbers


@lru_cache(maxsize=1024)
def _half_width(components: tuple[Component, ...], failure: Fraction) -> int:
    """Returns the half-width of the sum before it is rounded."""
    if failure < LEAST_FAILURE or any(part.count > 1 for part in components):
        return _chernoff(components, float(failure))
    return _by_grid(components, float(failure))


def _by_grid(components: tuple[Component, ...], failure: float) -> int:
    """Each component is moved to the nearest point of a grid, their laws there are convolved, and the width allows for
    the half step by which each one moved."""
    step = math.sqrt(math.fsum(_variance(part) for part in components)) / CELLS
    law = np.ones(1)
    for part, times in Counter(components).items():
        law = _convolved(law, _power(_law(part, step), times))
    middle = len(law) // 2
    both = law[middle + 1 :] + law[:middle][::-1]
    outside = np.append(both[::-1].cumsum()[::-1], 0.0)
    cells = int(np.argmax(outside <= failure * (1 - MARGIN)))
    return math.ceil((cells + len(components) / 2) * step)


def _chernoff(components: tuple[Component, ...], failure: float) -> int:
    """Bounds P(|sum| > x) by 2 E exp(t sum) exp(-t x), for the best of many t."""
    laws = [(shape_of(part.noise.mechanism), float(part.noise.parameter), float(part.weight)) for part in components]
    ends = [shape.largest_t(parameter) / weight for shape, parameter, weight in laws if weight]
    deviation = math.sqrt(math.fsum(_variance(part) for part in components))
    most = min(ends, default=math.inf)
    t = np.minimum(np.geomspace(1e-3, 1e2, 400) / deviation, most * (1 - 1e-6))
    logs = np.zeros(len(t))
    for part in components:
        logs += part.count * _log_moment(part.noise, t * float(part.weight))
    return math.ceil(float(((logs + math.log(2 / failure)) / t).min()) * (1 + 1e-9))


def _log_moment(noise: NoiseLaw, t: NDArray[np.float64]) -> NDArray[np.float64]:
    if noise.steps != 1:
        return _log_moment(in_finer_steps(noise), t / float(noise.steps))
    return shape_of(noise.mechanism).log_moment(float(noise.parameter), t)


def _variance(part: Component) -> float:
    return part.count * float(part.weight) ** 2 * variance_of(part.noise)


def _law(part: Component, step: float) -> NDArray[np.float64]:
    """Returns the chances of the grid's points for one component, the middle one being 0."""
    weight, deviation = float(part.weight), math.sqrt(_variance(part))
    if not part.weight:
        return np.ones(1)
    reach = math.ceil(shape_of(part.noise.mechanism).reach * deviation / step)
    edges = (np.arange(-reach, reach + 1) - 0.5) * step / weight
    below = _below(part.noise, np.append(edges, (reach + 0.5) * step / weight))
    found: NDArray[np.float64] = np.diff(below)
    return found


def _below(noise: NoiseLaw, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns P(noise < x), halfway through a point that x hits."""
    if noise.steps != 1:
        return _below(in_finer_steps(noise), x * float(noise.steps))
    low, high = np.ceil(x) - 1, np.floor(x)
    shape, parameter = shape_of(noise.mechanism), float(noise.parameter)
    return (shape.up_to(parameter, low) + shape.up_to(parameter, high)) / 2


def in_finer_steps(noise: NoiseLaw) -> NoiseLaw:
    """Returns the noise before the sum is rounded, its steps taken for whole ones."""
    return replace(noise, parameter=noise.sampled, steps=1)


def _power(law: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Returns the law of the sum of so many independent ones of one law, around its middle."""
    if times == 1:
        return law
    size = (len(law) - 1) * times + 1
    length = 1 << (size - 1).bit_length()
    made = np.fft.irfft(np.fft.rfft(law, length) ** times, length)[:size]
    return np.maximum(made, 0.0)


def _convolved(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the law of the sum of two independent ones, both around their middles."""
    if min(len(a), len(b)) < 64:
        return np.convolve(a, b)
    size = len(a) + len(b) - 1
    length = 1 << (size - 1).bit_length()
    made = np.fft.irfft(np.fft.rfft(a, length) * np.fft.rfft(b, length), length)[:size]
    return np.maximum(made, 0.0)
