"""Groups are selected in rounds: units that helped to show a group decide with their whole weight about those left.

In each round a unit counts in at most g of its groups that are not shown yet, in t of them with 1 / sqrt(t). Exact
integers and fresh noise are in steps of 1 / WEIGHT. docs/proofs/selection.md, "In rounds".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import samplers, tails
from dpquery.kernel.plan import WEIGHT

PARTS = (1, 2, 4, 8)
"""Of the rho of a selection, how many parts go to each round. The first are cheap: they show what nearly all have."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Which units have which groups, each pair once; secret.

    Attributes:
        group: The index of the group, int64, in any order.
        unit: A number that is equal for pairs of one unit, int64.
        place: The pair's place in the order of its unit, int64.
    """

    group: Integers = field(repr=False)
    unit: Integers = field(repr=False)
    place: Integers = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: the variance of its noise, and the least noisy number with which a group is shown, in steps."""

    variance: Fraction
    tau: int


@lru_cache(maxsize=1024)
def rounds_of(variance: Fraction, groups: int, delta: Fraction) -> tuple[Round, ...]:
    """Returns the rounds of a selection.

    Args:
        variance: Of noise for the whole rho, in squared units.
        groups: g, the groups in which one unit counts in a round.
        delta: Probability with which a group in which one unit alone counts may be shown, over all such groups and
            rounds.
    Privacy:
        Of the t <= g groups in which a unit counts in a round, each holds `weight_of(t)` of it. Where no other unit
        counts there, each is shown with probability at most delta / (rounds t): a union bound.
        Neighbours: those for which the variance was asked.
    Source:
        docs/proofs/selection.md, "In rounds"; Swanberg, Desfontaines, Haney 2023, "DP-SIPS".
    Raises:
        InvalidLossError: The loss asks for noise that cannot be sampled.
    """
    each = delta / len(PARTS)
    if not 0 < each < 1:
        raise InternalError("selecting groups needs a delta between 0 and 1")
    made = []
    for part in PARTS:
        noise = variance * WEIGHT**2 * sum(PARTS) / part
        if not samplers.MIN_GAUSSIAN_VARIANCE <= noise <= samplers.MAX_GAUSSIAN_VARIANCE:
            raise InvalidLossError(
                "the loss asked for makes the noise of a selection too large or too small to be sampled exactly"
            )
        made.append(Round(variance=noise, tau=_least_tau(noise, groups, each)))
    return tuple(made)


def weight_of(count: int) -> int:
    """Returns what a unit weighs in each of so many groups, in steps: count times its square is at most WEIGHT^2."""
    return math.isqrt(WEIGHT**2 // count)


def in_rounds(pairs: Pairs, size: int, rounds: tuple[Round, ...], groups: int) -> tuple[NDArray[np.bool_], Integers]:
    """Returns which groups are shown, and the noisy number with which each was, in steps; 0 for others.

    Args:
        size: How many groups the pairs are of.
        groups: g.
    """
    if any(len(column) != len(pairs.group) or column.dtype != np.int64 for column in (pairs.unit, pairs.place)):
        raise InternalError("the pairs of units and groups have an unexpected shape")
    order = np.lexsort((pairs.place, pairs.unit))
    group, unit = pairs.group[order], pairs.unit[order]
    weights = np.array([0, *(weight_of(count) for count in range(1, groups + 1))], dtype=np.int64)
    shown, numbers = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.int64)
    for each in rounds:
        left = ~shown[group]
        group, unit = group[left], unit[left]
        starts = np.flatnonzero(np.diff(unit, prepend=unit[:1] - 1))
        held = np.diff(np.append(starts, len(unit)))
        counts = np.arange(len(unit)) - np.repeat(starts, held) < groups
        exact = np.zeros(size, dtype=np.int64)
        np.add.at(exact, group[counts], np.repeat(weights[np.minimum(held, groups)], held)[counts])
        noisy = exact + samplers.discrete_gaussian(each.variance, size)
        passed = (exact > 0) & (noisy >= each.tau)
        numbers[passed] = noisy[passed]
        shown |= passed
    return shown, numbers


def _least_tau(variance: Fraction, groups: int, delta: Fraction) -> int:
    """Returns the least number found at which a group of one unit is shown with probability at most delta / t, for
    every t up to `groups`: of those from `least` to `most` the largest weight is that of `least`, and the least
    probability that of `most`."""
    found, least, most = 0, 1, 1
    while least <= groups:
        most = min(most, groups)
        above = tails.gaussian_quantile(variance, 2 * delta / most) + 1
        found, least, most = max(found, weight_of(least) + above), most + 1, 2 * most
    return found
