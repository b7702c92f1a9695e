"""Closed forms of the laws that are sampled, and bounds on chance that hold at every sample size.

Written without the package: a mistake there is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def laplace_probability(k: Integers, scale: float) -> Floats:
    """Returns P(X = k) of the discrete Laplace law."""
    return math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)


def laplace_cdf(k: Integers, scale: float) -> Floats:
    """Returns P(X <= k) of the discrete Laplace law."""
    ratio = math.exp(-1 / scale)
    below = np.exp(np.minimum(k, 0) / scale) / (1 + ratio)
    above = 1 - np.exp(-(np.maximum(k, 0) + 1) / scale) / (1 + ratio)
    return np.where(k < 0, below, above)


def gaussian_probability(k: Integers, variance: float) -> Floats:
    """Returns P(X = k) of the discrete Gaussian law, summing its terms; for variances up to 1e9 or so."""
    return np.exp(-(k.astype(np.float64) ** 2) / (2 * variance)) / float(_gaussian_terms(variance).sum())


def gaussian_cdf(k: Integers, variance: float) -> Floats:
    """Returns P(X <= k) of the discrete Gaussian law, summing its terms; for variances up to 1e9 or so."""
    terms = _gaussian_terms(variance)
    reach = len(terms) // 2
    below: Floats = np.cumsum(terms) / terms.sum()
    return below[np.clip(k, -reach, reach) + reach]


def _gaussian_terms(variance: float) -> Floats:
    reach = math.ceil(12 * math.sqrt(variance)) + 2
    return np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * variance))


def largest_gap(samples: Integers, cdf: Callable[[Integers], Floats]) -> float:
    """Returns the largest distance between the distribution function of the samples and that of a law."""
    values, counts = np.unique(samples, return_counts=True)
    up_to = np.cumsum(counts) / samples.size
    before = up_to - counts / samples.size
    return float(max(np.abs(up_to - cdf(values)).max(), np.abs(before - cdf(values - 1)).max()))


def allowed_gap(size: int, false_alarm: float) -> float:
    """Returns what `largest_gap` exceeds with at most the given chance (DKW inequality, Massart 1990)."""
    return math.sqrt(math.log(2 / false_alarm) / (2 * size))


def plausible(hits: int, trials: int, probability: float, false_alarm: float) -> bool:
    """Returns whether `hits` of `trials` independent events of this probability are no great surprise.

    Chernoff's bound with relative entropy: each side of it has at most half the chance of a false alarm.
    """
    share = hits / trials
    surprise = _entropy_term(share, probability) + _entropy_term(1 - share, 1 - probability)
    return trials * surprise <= math.log(2 / false_alarm)


def _entropy_term(share: float, probability: float) -> float:
    return share * math.log(share / probability) if share > 0 else 0.0
