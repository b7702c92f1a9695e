"""Tables added up from the groups of released ones: exact sums of noisy integers, hence consistent with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel.mechanisms import Calibrated
from dpquery.kernel.plan import Mechanism, PrivateAggregate
from dpquery.kernel.release import NoisyTable
from dpquery.kernel.selection import all_codes

STEPS = 60
"""Exponents that are tried for the tail of a sum of Laplace noises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOfSum:
    """The noise of a sum of `count` independent noises of one law."""

    noise: Calibrated
    count: int

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps."""
        if self.count == 1:
            return self.noise.half_width(failure)
        return _half_width(self.noise.mechanism, self.noise.parameter, self.count, failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTable:
    """A table added up from a released one; attributes as of a `NoisyTable`."""

    aggregate: PrivateAggregate
    keys: tuple[NDArray[Any], ...]
    numbers: tuple[NDArray[Any], ...]
    noises: tuple[NoiseOfSum, ...]


def with_added(
    tables: Sequence[NoisyTable], added: Sequence[tuple[int, PrivateAggregate]]
) -> tuple[NoisyTable | AddedTable, ...]:
    """Returns the released tables, then those added up: each is (number of the released table, what it gives)."""
    return (*tables, *(add_up(tables[leaf], aggregate) for leaf, aggregate in added))


def add_up(leaf: NoisyTable, aggregate: PrivateAggregate) -> AddedTable:
    """Returns the sums of a released table's noisy groups over the keys that `aggregate` leaves out.

    Its keys are public, and all groups are there, in the order of their domains.
    """
    kept = {key.column for key in aggregate.keys}
    groups, rest = leaf.aggregate.public_groups, aggregate.public_groups
    if groups is None or rest is None or any(len(numbers) != groups for numbers in leaf.numbers):
        raise InternalError("only public groups can be added up")
    shape = tuple(len(key.domain or ()) for key in leaf.aggregate.keys)
    axes = tuple(place for place, key in enumerate(leaf.aggregate.keys) if key.column not in kept)
    summed = tuple(np.asarray(_wide(n, groups).reshape(shape).sum(axis=axes)).reshape(rest) for n in leaf.numbers)
    count = math.prod(shape[axis] for axis in axes)
    return AddedTable(
        aggregate=aggregate,
        keys=all_codes(aggregate.keys, rest),
        numbers=summed,
        noises=tuple(NoiseOfSum(noise=noise, count=count) for noise in leaf.noises),
    )


def _wide(numbers: NDArray[Any], count: int) -> NDArray[Any]:
    """Returns the numbers as Python integers where a sum of so many might not fit into 64 bits."""
    if numbers.dtype == object or not len(numbers):
        return numbers
    largest = max(abs(int(numbers.min())), abs(int(numbers.max())))
    return numbers if largest * count < 2**63 else numbers.astype(object)


@lru_cache(maxsize=1024)
def _half_width(mechanism: Mechanism, parameter: Fraction, count: int, failure: Fraction) -> int:
    """Chernoff's bound with the moment generating function of the law, rounded up.

    Source:
        Canonne, Kamath, Steinke 2020, lemma 8: E exp(t X) <= exp(t^2 variance / 2) for discrete Gaussian X. For
        discrete Laplace X with q = exp(-1 / scale), E exp(t X) = (1 - q)^2 / ((1 - q e^t)(1 - q e^-t)), t < 1 / scale;
        both are exact or upper bounds, so that every t gives a valid width.
    """
    doubt = math.log(2) - math.log(failure.numerator) + math.log(failure.denominator)
    if mechanism is Mechanism.GAUSSIAN:
        width = math.sqrt(2 * count * float(parameter) * doubt)
    else:
        width = min(_laplace_width(float(parameter), count, doubt, step / STEPS) for step in range(1, STEPS))
    return math.ceil(width * (1 + 1e-9))


def _laplace_width(scale: float, count: int, doubt: float, part: float) -> float:
    """Returns (count * ln E exp(t X) + doubt) / t for t = part / scale."""
    t = part / scale
    near, far, once = (-math.expm1(-(1 - part) / scale), -math.expm1(-(1 + part) / scale), -math.expm1(-1 / scale))
    return (count * (2 * math.log(once) - math.log(near) - math.log(far)) + doubt) / t
