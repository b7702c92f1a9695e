"""Bounds of chances from how often something happened, and lower bounds of epsilon from two of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FAILURE = 1e-6
"""How often a bound may be wrong."""


def clopper_pearson(hits: int, trials: int, failure: float = FAILURE) -> tuple[float, float]:
    """Returns a range that holds a chance but for a part of `failure` on each side, from how often it came true.

    Source:
        Clopper, Pearson 1934.
    Example:
        >>> low, high = clopper_pearson(50, 100, 0.025)
        >>> round(low, 4), round(high, 4)
        (0.3983, 0.6017)
    """
    low = 0.0 if hits == 0 else _solved(_at_least(hits, trials), failure)
    high = 1.0 if hits == trials else 1 - _solved(_at_least(trials - hits, trials), failure)
    return low, high


def _at_least(hits: int, trials: int) -> Callable[[float], float]:
    """Returns the chance of at least so many hits, as a function of the chance of one."""
    k = np.arange(hits, trials + 1)
    choose = math.lgamma(trials + 1) - _LGAMMA(k + 1.0) - _LGAMMA(trials - k + 1.0)
    return lambda chance: float(np.exp(choose + k * math.log(chance) + (trials - k) * math.log1p(-chance)).sum())


_LGAMMA = np.vectorize(math.lgamma, otypes=[float])


def _solved(rising: Callable[[float], float], failure: float) -> float:
    """Returns the largest chance at which a rising function is seen to be at most `failure`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if 0 < middle < 1 and rising(middle) <= failure else (low, middle)
    return low


def is_unlikely(hits: int, trials: int, chance: float, failure: float = FAILURE) -> bool:
    """Whether something of this chance happens so often, or so rarely, with a chance of at most `failure`.

    Source:
        Chernoff 1952: P(so many hits, or more) <= exp(-trials KL(hits / trials, chance)), and so below.
    Example:
        >>> is_unlikely(570, 1000, 0.5, 1e-3), is_unlikely(540, 1000, 0.5, 1e-3), is_unlikely(1, 9, 0.0)
        (True, False, True)
    """
    if not 0 < chance < 1:
        return hits != round(trials * chance)
    part, lost = hits / trials, 0.0
    for seen, told in ((part, chance), (1 - part, 1 - chance)):
        lost += seen * math.log(seen / told) if seen else 0.0
    return trials * lost > math.log(2 / failure)


def epsilon_of(
    here: NDArray[np.bool_], there: NDArray[np.bool_], delta: float = 0.0, failure: float = FAILURE
) -> float:
    """Returns a lower bound of epsilon from how often an event happened on either of two neighbours: it is above the
    truth with a chance of twice `failure` at most."""
    p = clopper_pearson(int(here.sum()), here.size, failure)[0]
    q = clopper_pearson(int(there.sum()), there.size, failure)[1]
    return max(0.0, math.log(max(p - delta, 1e-300) / q))


def empirical_epsilon(here: Floats, there: Floats, delta: float = 0.0, failure: float = FAILURE) -> float:
    """Returns a lower bound of epsilon from samples of a score on two neighbours. The first halves choose the event, of
    the form `score >= t` or `score <= t`, the second halves bound its chances: no choice makes the bound too large.

    Source:
        As in DP-Sniper (Bichsel, Steffen, Bogunovic, Vechev 2021) and Delta-Siege (Lokna, Paradis, Dimitrov, Vechev
        2023), with a threshold of a score in place of a trained classifier.
    """
    half = len(here) // 2, len(there) // 2
    ends = np.unique(np.quantile(np.concatenate([here[: half[0]], there[: half[1]]]), np.linspace(0.01, 0.99, 25)))
    events = [(sign, float(t), swap) for sign in (1.0, -1.0) for t in ends for swap in (False, True)]

    def of(event: tuple[float, float, bool], part: int) -> float:
        sign, t, swap = event
        sides = (here[: half[0]], there[: half[1]]) if part == 0 else (here[half[0] :], there[half[1] :])
        first, second = (sign * side >= sign * t for side in (sides[::-1] if swap else sides))
        return _guess(first, second, delta) if part == 0 else epsilon_of(first, second, delta, failure)

    return of(max(events, key=lambda event: of(event, 0)), 1)


def _guess(here: NDArray[np.bool_], there: NDArray[np.bool_], delta: float) -> float:
    """Returns about the bound that an event will have, by a normal approximation: it only chooses the event."""
    p, q = here.mean(), there.mean()
    low = p - 5 * math.sqrt(p * (1 - p) / here.size + 1 / here.size**2) - delta
    high = q + 5 * math.sqrt(q * (1 - q) / there.size + 1 / there.size**2) + 14 / there.size
    return float(math.log(max(low, 1e-300) / high))


def allowed_gap(samples: int, failure: float = FAILURE) -> float:
    """Returns how far the empirical distribution of samples is from their law at most, but for a chance of `failure`.

    Source:
        Dvoretzky, Kiefer, Wolfowitz 1956; with Massart's constant, 1990.
    """
    return math.sqrt(math.log(2 / failure) / (2 * samples))


def largest_gap(samples: Floats, below: Callable[[Floats], Floats]) -> float:
    """Returns how far the empirical distribution of whole numbers is from a law, `below(k)` its chance of at most k."""
    values, counts = np.unique(samples, return_counts=True)
    reached = np.cumsum(counts) / len(samples)
    law = below(values)
    before = below(values - 1)
    return float(max(np.abs(reached - law).max(), np.abs(reached - counts / len(samples) - before).max()))
