"""The narrowest intervals that hold for all data, of choices and of numbers that are rounded after noise was added.

Their proofs are in docs/proofs/exponential.md (of permute-and-flip) and docs/concepts/accuracy.md (of rounded numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpquery.result.measurements import Measurement

FAILURE = 0.05
PARTS = 512
"""Parts of a step at which a rounded number is looked at."""
Floats = NDArray[np.float64]


def least_ranks(made: Measurement, target: float, candidates: int) -> float:
    """Returns the smallest bound that holds for all data on the ranks by which a choice is off.

    The worst data have one heavy value, and all other candidates as many ranks off it: the bound is the most ranks
    with which the heavy one is lost too often.
    """
    is_extreme = target in (0.0, 1.0)
    step = 1.0 if is_extreme else 0.5  # a rank of rows that weigh 1, or half of one where the target is the middle
    asked = math.floor(math.log(20 * candidates) * made.scale) if is_extreme else 0
    lost, off = _LOST[made.mechanism], 0
    while lost(math.exp(-(off + 1) * step / made.scale), candidates) > FAILURE:
        off += 1
    return asked + off * step


def _lost_by_exponential(fall: float, candidates: int) -> float:
    others = (candidates - 1) * fall
    return others / (1 + others)


def _lost_by_flips(fall: float, candidates: int) -> float:
    return 1 + math.expm1(candidates * math.log1p(-fall)) / (candidates * fall)


_LOST: Mapping[str, Callable[[float, int], float]] = {
    "exponential": _lost_by_exponential,
    "permute_and_flip": _lost_by_flips,
}
"""How often a value is lost to the others, each of which is less likely by this factor."""


def least_rounded(made: Measurement) -> float:
    """Returns the least half-width, on average over released numbers, of intervals that hold for all exact numbers
    where noise is added to a fraction and the sum is rounded to a whole number."""
    fractions = (np.arange(PARTS) + 0.5) / PARTS
    reach = math.ceil(20 * made.scale) + 2
    places = np.arange(-reach, reach + 1)[None, :] - 0.5 - fractions[:, None]
    chances = np.diff(_up_to[made.mechanism](places / made.scale), axis=1)
    fewest = 1 + (np.cumsum(-np.sort(-chances, axis=1), axis=1) < 1 - FAILURE).sum(axis=1)
    return float(fewest.mean()) / 2


def _laplace_up_to(x: Floats) -> Floats:
    found: Floats = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
    return found


def _gaussian_up_to(x: Floats) -> Floats:
    return np.reshape([math.erfc(-place / math.sqrt(2)) / 2 for place in x.ravel().tolist()], x.shape)


_up_to: Mapping[str, Callable[[Floats], Floats]] = {"laplace": _laplace_up_to, "gaussian": _gaussian_up_to}
