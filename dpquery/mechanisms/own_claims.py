"""What a law of one's own claims, looked at for one number of steps and one loss: whether the claims agree.

Chances are floats, which the author vouches for to 1e-9; nothing is drawn here. docs/proofs/values.md, "Own laws".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InvalidLossError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
SURE = 2.0**-40
"""Beyond the first power of two that noise reaches with at most this chance, its law is looked at in few places."""
MOST_REACH = 2**21
FARTHEST = 2**50
TOLERANCE = 1e-9
ORDERS = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
"""Orders of the Rényi divergences that are compared with rho times the order."""
CURRENCIES = ("epsilon", "rho")


class OwnLaw(Protocol):
    """Noise on one whole number, with what its author has proved of it.

    `steps` is by how many whole steps neighbours differ at most, and `loss` what may be lost of the `currency`. What
    the law is not made for it refuses by a ValueError.
    """

    currency: str
    """"epsilon": the noise is epsilon-DP. "rho": it is rho-zCDP."""
    proof: str
    """Where it is proved."""

    def sample(self, steps: int, loss: Fraction, size: int) -> Integers:
        """Returns fresh independent noise: int64, shape (size,)."""

    def log_chance(self, steps: int, loss: Fraction, noise: Integers) -> Floats:
        """Returns the natural logarithm of the chance of each noise, -inf of one that never comes."""

    def tail(self, steps: int, loss: Fraction, least: int) -> float | Fraction:
        """Returns a number that the chance of a magnitude of `least` or more does not exceed, for least >= 1."""


class NotOffered(InvalidLossError):
    """A law refuses a number of steps or a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The chances of a law for one number of steps and one loss.

    Attributes:
        first: The noise that the first chance is of; all up to -first follow.
        logs: Logarithms of the chances.
        tail: What the law claims to be beyond.
    """

    first: int
    logs: Floats
    tail: Callable[[int], float]

    @property
    def chances(self) -> Floats:
        """The chance of each noise from `first` to `-first`."""
        return np.exp(self.logs)

    @property
    def deviation(self) -> float:
        """The root of the expected square of the noise."""
        noise = np.arange(self.first, -self.first + 1, dtype=np.float64)
        return math.sqrt(float((self.chances * noise**2).sum()))

    def quantile(self, failure: Fraction) -> int:
        """Returns a k with P(|noise| > k) <= failure, by the claimed tail."""
        high = 1
        while self.tail(high + 1) > failure:
            if high > FARTHEST:
                raise InvalidLossError("the claimed tail does not fall to this confidence")
            high *= 2
        low = -1  # P(|noise| > -1) = 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.tail(middle + 1) <= failure else (middle, high)
        return high


def claimed(law: OwnLaw, steps: int, loss: Fraction) -> Claimed:
    """Returns the chances that a law claims, as far as its tail says that they reach, and by `steps` further.

    Raises:
        NotOffered: The law is not made for it.
        InvalidLossError: It is too wide to be looked at, or a claim is not a chance.
    """
    try:
        law.tail(steps, loss, 1)
    except ValueError as error:
        raise NotOffered(f"the law is not made for it: {error}") from None

    def tail(least: int) -> float:
        found = float(law.tail(steps, loss, least))
        if not found >= 0:
            raise InvalidLossError(f"the claimed tail beyond {least} is {found}, not a chance")
        return min(found, 1.0)

    reach = 8
    while tail(reach) > SURE:
        reach *= 2
        if reach > MOST_REACH:
            raise InvalidLossError("this noise is too wide to be checked", advice="Ask for more loss.")
    first = -(reach + steps)
    return Claimed(first=first, logs=_logs(law, steps, loss, np.arange(first, -first + 1, dtype=np.int64)), tail=tail)


def problems_of(law: OwnLaw, steps: int, loss: Fraction, found: Claimed) -> Iterator[str]:
    """Yields where the claims contradict each other, or lose more than they say."""
    chances = found.chances
    total = float(chances.sum())
    if not abs(total - 1) <= TOLERANCE + SURE:
        yield f"the chances add up to {total:.12g}"
    yield from _of_tail(found, chances)
    tried = _shifts(steps)
    if law.currency == "epsilon":
        lost = max(_most_apart(found.logs, shift) for shift in tried)
        lost = max(lost, _far_apart(law, steps, loss, tried))
        if not lost <= float(loss) * (1 + TOLERANCE) + TOLERANCE:
            yield f"chances are apart by a factor of e^{lost:.6g}, and an epsilon of {float(loss):.6g} is claimed"
        return
    for order in ORDERS:
        lost = max(_divergence(found.logs, shift, order) for near in tried for shift in (near, -near)) / order
        if not lost <= float(loss) * (1 + TOLERANCE) + TOLERANCE:
            yield f"the divergence of order {order:g} is {lost:.6g} times it, and a rho of {float(loss):.6g} is claimed"
            return


def _logs(law: OwnLaw, steps: int, loss: Fraction, noise: Integers) -> Floats:
    logs = np.asarray(law.log_chance(steps, loss, noise), dtype=np.float64)
    if logs.shape != noise.shape or np.isnan(logs).any() or (logs > TOLERANCE).any():
        raise InvalidLossError("a claimed logarithm is not that of a chance")
    return logs


def _of_tail(found: Claimed, chances: Floats) -> Iterator[str]:
    """Yields where less is claimed to be beyond than is there, or the claim rises."""
    reach = -found.first
    folded = chances[reach:] + np.concatenate([[0.0], chances[:reach][::-1]])  # of magnitudes 0, 1, 2, ...
    beyond = np.cumsum(folded[::-1])[::-1]
    before = 1.0
    powers = (2**j for j in range(reach.bit_length()))
    for least in sorted({*range(1, min(reach, 32) + 1), *powers, *range(1, reach, max(1, reach // 64))}):
        told = found.tail(least)
        if told > before + TOLERANCE:
            yield f"the claimed tail rises at {least}"
            return
        if told < beyond[least] * (1 - TOLERANCE) - 1e-15:
            yield f"noise of {least} or more has a chance of {beyond[least]:.6g}, and {told:.6g} is claimed"
            return
        before = told


def _shifts(steps: int) -> list[int]:
    """Returns by how much neighbours may differ: all that are possible of few, and some of many."""
    some = {3, *(2**j for j in range(steps.bit_length())), steps - 1, steps // 2, steps // 3}
    return list(range(1, steps + 1)) if steps <= 16 else sorted({*some, steps})


def _apart(here: Floats, there: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # of two chances of 0, which are alike
        return np.where(here == there, 0.0, np.abs(here - there))


def _most_apart(logs: Floats, shift: int) -> float:
    return float(_apart(logs[shift:], logs[:-shift]).max())


def _far_apart(law: OwnLaw, steps: int, loss: Fraction, tried: list[int]) -> float:
    """Returns the same at powers of two beyond what is looked at everywhere, less what floats may be off there."""
    places = np.array([sign * 2**j for j in range(41) for sign in (1, -1)], dtype=np.int64)
    here = _logs(law, steps, loss, places)
    apart = [_apart(here, _logs(law, steps, loss, places + shift)) for shift in tried]
    slack = np.where(np.isfinite(here), np.abs(here), 0.0) * 2.0**-50
    return float(max((each - slack).max() for each in apart))


def _divergence(logs: Floats, shift: int, order: float) -> float:
    """Returns a lower bound of the Rényi divergence of the noise from itself on a neighbour, up to rounding."""
    here, there = (logs[shift:], logs[:-shift]) if shift > 0 else (logs[:shift], logs[-shift:])
    is_there = here > -np.inf
    if (there[is_there] == -np.inf).any():
        return math.inf
    terms = order * here[is_there] + (1 - order) * there[is_there]
    most = float(terms.max())
    return (most + math.log(float(np.exp(terms - most).sum()))) / (order - 1)
