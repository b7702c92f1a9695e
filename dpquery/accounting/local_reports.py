"""Randomised response: a value is reported as it is, or as another of its categories, by chance alone.

The collector of reports never learns the values. With masses e^(-weight) for each pair of value and report, a report is
drawn with exact integers: no floating-point number decides. Proofs: docs/proofs/randomised-response.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpquery.catalog.tables import MOST_CATEGORIES, MOST_EPSILON
from dpquery.errors import InternalError
from dpquery.kernel import samplers
from dpquery.kernel.exponential import uniform_below

_BITS = 320  # binary places of a cumulated probability
_LEADING = 64  # of them, that sort the clear draws

Integers = NDArray[np.int64]


def flip(values: Integers, categories: int, epsilon: Fraction) -> Integers:
    """Returns reports: the value with probability e^epsilon / (e^epsilon + k - 1), else each other category alike.

    Args:
        values: Places of the true values among the categories, from 0 to categories - 1.
        categories: k, from 2 to MOST_CATEGORIES.
        epsilon: Above 0, at most MOST_EPSILON.
    Privacy:
        Each report alone is epsilon-locally private, up to a total variation of 2^-256.
    Source:
        Warner 1965 (two categories); Kairouz, Bonawitz, Ramage 2016 (k); docs/proofs/randomised-response.md.
    """
    _check(values, categories, epsilon)
    power = samplers.exponential(epsilon)  # e^-epsilon
    one = samplers.exponential(Fraction(0))
    lies = by_mass([one, (categories - 1) * power], len(values)) == 1
    others = uniform_below(np.full(int(lies.sum()), categories - 1, np.int64))
    reports = values.copy()
    reports[lies] = others + (others >= values[lies])
    return reports


def shift(values: Integers, places: Sequence[Fraction], epsilon: Fraction) -> Integers:
    """Returns reports of numbers: one at distance d with probability proportional to e^(-epsilon d / (2 D)).

    Args:
        values: Places of the true values in the grid, from 0 to len(places) - 1.
        places: The numbers of the grid, each once; D is the distance of the farthest two.
        epsilon: Above 0, at most MOST_EPSILON.
    Privacy:
        Each report alone is epsilon-locally private, up to a total variation of 2^-256: the exponential mechanism with
        the utility -d, which another value moves by at most D.
    Source:
        McSherry, Talwar 2007; docs/proofs/randomised-response.md.
    """
    _check(values, len(places), epsilon)
    width = max(places) - min(places)
    if len(set(places)) < len(places):
        raise InternalError("the numbers of a grid differ")
    coefficient = epsilon / (2 * width)
    return by_value(values, lambda true: [samplers.exponential(coefficient * abs(to - places[true])) for to in places])


def by_value(values: Integers, masses_of: Callable[[int], Sequence[int]]) -> Integers:
    """Returns a report for each value: a place with a chance proportional to its mass, given the value."""
    reports = np.empty_like(values)
    for true in np.unique(values).tolist():
        here = np.flatnonzero(values == true)
        reports[here] = by_mass(masses_of(true), len(here))
    return reports


def by_mass(masses: Sequence[int], size: int) -> Integers:
    """Returns independent places, each drawn with a chance proportional to its mass, with integers.

    Within len(masses) * 2^-320 in total variation, beside what the masses themselves are off by.
    """
    sums = list(accumulate(masses))
    return _drawn([(below << _BITS) // sums[-1] for below in sums[:-1]], size)


def _check(values: Integers, categories: int, epsilon: Fraction) -> None:
    if not 2 <= categories <= MOST_CATEGORIES:
        raise InternalError(f"randomised response has from 2 to {MOST_CATEGORIES} categories")
    if not isinstance(epsilon, Fraction) or not 0 < epsilon <= MOST_EPSILON:
        raise InternalError(f"the epsilon of randomised response is a Fraction above 0, at most {MOST_EPSILON}")
    if values.dtype != np.int64 or (len(values) and not 0 <= values.min() <= values.max() < categories):
        raise InternalError("a value is not a place among the categories")


def _drawn(thresholds: Sequence[int], size: int) -> Integers:
    """Returns for each of `size` uniform numbers of _BITS bits how many of the ascending thresholds it reaches.

    The first _LEADING bits are compared; a number that agrees in them with a threshold is completed and compared whole.
    """
    missing = _BITS - _LEADING
    leading = np.array([min(t >> missing, 2**_LEADING - 1) for t in thresholds], np.uint64)
    uniform = np.frombuffer(samplers.random_bytes(8 * size), np.uint64)
    reached = np.searchsorted(leading, uniform, side="left").astype(np.int64)  # thresholds whose leading bits are less
    beyond = np.searchsorted(leading, uniform, side="right")
    for index in np.flatnonzero(beyond > reached).tolist():
        whole = int(uniform[index]) << missing | int.from_bytes(samplers.random_bytes(missing // 8), "little")
        reached[index] = sum(threshold <= whole for threshold in thresholds)
    return reached
