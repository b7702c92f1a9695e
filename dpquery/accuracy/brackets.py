"""Intervals of chosen values: how far a choice is off is known in ranks, so its neighbours among the choices bound it.

Of the values of a group, each of a known weight, let n be the weight of all, B(v) that of the values below v and E(v)
that of the values equal to it. A choice v for the target t is off by e ranks at most: B(v) <= t n + e, and
B(v) + E(v) >= t n - e. So the value at another target s is at least v once s n - 2 >= t n + e, and at most v once
s n + 2 <= t n - e, for any values; the 2 are for the rows between which a quantile is interpolated. All these
hold for any n above one for which they hold, so a lower bound on n is enough. docs/concepts/accuracy.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpquery.accuracy.rules import Floats, Interval

BETWEEN = 2.0
"""Ranks between which a quantile may be interpolated, and one more for weights that are no whole rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedChoice:
    """One released choice among the values of each group.

    Attributes:
        target: From 0, the least value, to 1.
        ranks: How many ranks it is off at most.
        beyond: Of an extreme the ranks that it was asked to stay within its end, part of `ranks`; else 0.
        values: What was chosen, shape (rows,).
    """

    target: Fraction
    ranks: float
    beyond: float
    values: Floats

    def below(self, weight: Floats) -> Floats:
        """Returns how much weighs less than the choice, at most, where at least `weight` weighs anything."""
        if self.target < 1:
            return float(self.target) * weight + self.ranks
        return weight - np.minimum(self.beyond, weight / 2) + (self.ranks - self.beyond)

    def reached(self, weight: Floats) -> Floats:
        """Returns how much weighs as much as the choice or less, at least."""
        if self.target > 0:
            return float(self.target) * weight - self.ranks
        return np.minimum(self.beyond, weight / 2) - (self.ranks - self.beyond)


def brackets(choices: Sequence[ReleasedChoice], weight: Floats, lower: float, upper: float) -> list[Interval]:
    """Returns for each choice an interval of the value that it stands for; NaN where no other choice bounds it.

    Args:
        choices: In the order of their targets, with values in ascending order, as they are shown. To put them in this
            order keeps what is known: the i-th least of them is at most the largest of the first i.
        weight: A lower bound on what the values of each group weigh, in rows, shape (rows,).
        lower, upper: The range of all values: the end on a side where no choice bounds.
    """
    below = np.maximum.accumulate([choice.below(weight) for choice in choices], axis=0)
    reached = np.minimum.accumulate([choice.reached(weight) for choice in choices][::-1], axis=0)[::-1]
    values = np.array([choice.values for choice in choices])
    least, most = np.where(np.isnan(values), -np.inf, values), np.where(np.isnan(values), np.inf, values)
    found = []
    for own, choice in enumerate(choices):
        first = weight - 1 if choice.target == 1 else float(choice.target) * weight - BETWEEN
        last = np.ones_like(weight) if choice.target == 0 else float(choice.target) * weight + BETWEEN
        low = np.where(below[: own + 1] <= first, least[: own + 1], -np.inf).max(axis=0)
        high = np.where(reached[own:] >= last, most[own:], np.inf).min(axis=0)
        known = (np.isfinite(low) | np.isfinite(high)) & np.isfinite(choice.values) & (weight > 0)
        low, high = np.maximum(low, lower), np.minimum(high, upper)
        found.append(Interval(np.where(known, low, np.nan), np.where(known, high, np.nan)))
    return found
