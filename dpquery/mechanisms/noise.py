"""Noise on numbers and vectors: Laplace, geometric and Gaussian, each with its loss and its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpquery.accounting.amounts import Amount, read, read_chance, read_delta
from dpquery.accounting.conversions import discrete_gaussian_variance
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel.directed_rounding import ln_up
from dpquery.kernel.gaussian_factor import LEAST_DELTA, MOST_EPSILON, square_within
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import Mechanism
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import Accountant, Cost, pay
from dpquery.mechanisms.grid import OnGrid, cells_moved, on_grid

_SUMMED_VARIANCE = 4000  # up to here the exact law of one number is summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A noisy number or vector, and what is known of its noise.

    Attributes:
        value: In the form of what was given: an int or float, or an array.
        loss: What it satisfies: epsilon, or rho for Gaussian noise.
        mechanism: `laplace` or `gaussian`, or the name of an own law.
        scale: b of Laplace noise, or the standard deviation of other noise, in the unit of the value.
        grid: All values that can come out are multiples of it.
    """

    value: Any
    loss: PrivacyLoss
    mechanism: str
    scale: float
    grid: Fraction
    _quantile: Callable[[Fraction], int]
    _cells: int

    def half_width(self, confidence: Amount = "0.95", *, simultaneous: bool = False) -> float:
        """Returns by how much a cell is off at most with this confidence, in the unit of the value.

        Args:
            confidence: Above 0, below 1.
            simultaneous: Whether it holds for all cells at once: each may then miss with 1 / cells of the chance.
        """
        failure = 1 - read_chance(confidence, "confidence")
        if not 0 < failure < 1:
            raise InvalidLossError("a confidence lies between 0 and 1")
        share = failure / (self._cells if simultaneous else 1)
        steps = self._quantile(share)
        return float((steps + (self.grid != 1)) * self.grid)

    def interval(self, confidence: Amount = "0.95", *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Returns the ends of the interval of each cell, in the form of the value."""
        width = self.half_width(confidence, simultaneous=simultaneous)
        return self.value - width, self.value + width

    def __repr__(self) -> str:
        shown = f"{self.value:.10g}" if np.ndim(self.value) == 0 else str(self.value)
        return f"{shown} ± {self.half_width():.4g} ({self.mechanism}, {self.loss})"


def laplace(
    value: Any,
    *,
    sensitivity: Amount,
    epsilon: Amount,
    cells_moved: int | None = None,
    to: Accountant | Ledger | None = None,
) -> Release:
    """Returns a number or vector with discrete Laplace noise of scale sensitivity / epsilon.

    Args:
        value: An int, a float, or a list or array of them.
        sensitivity: By how much neighbours differ at most, added up over all cells (L1), in the unit of the value.
        epsilon: The loss.
        cells_moved: In how many cells neighbours differ at most; all of them if nothing is said.
        to: Who pays, before anything is drawn.
    Raises:
        InsufficientBudgetError: It cannot be paid.
        ParameterError: The value is none, or not finite.
    Privacy:
        epsilon-DP for neighbours that the sensitivity is right for.
    Source:
        Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2009; docs/proofs/values.md.
    """
    pure, moves = read(epsilon, "epsilon"), read(sensitivity, "sensitivity")
    given, moved = _given(value, moves, cells_moved)
    scale = given.l1(moves, moved) / pure
    return _released(given, Mechanism.LAPLACE, scale, Cost.pure(pure), to)


def geometric(
    value: Any,
    *,
    sensitivity: int = 1,
    epsilon: Amount,
    to: Accountant | Ledger | None = None,
) -> Release:
    """Returns an integer, or integers, with two-sided geometric noise: `laplace` where all is whole.

    Source: Ghosh, Roughgarden, Sundararajan 2009, who show that no other noise on a count is better for anybody.
    """
    if np.asarray(value).dtype.kind not in "iu":
        raise ParameterError("geometric noise is for integers", advice="`laplace` takes other numbers.")
    return laplace(value, sensitivity=sensitivity, epsilon=epsilon, to=to)


def gaussian(
    value: Any,
    *,
    sensitivity: Amount,
    rho: Amount | None = None,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    cells_moved: int | None = None,
    to: Accountant | Ledger | None = None,
) -> Release:
    """Returns a number or vector with discrete Gaussian noise, for a rho, or for an epsilon and a delta.

    Args:
        value: As for `laplace`.
        sensitivity: The largest Euclidean distance of neighbours (L2), in the unit of the value.
        rho: The loss in zCDP; or `epsilon` and `delta`, both.
        cells_moved, to: As for `laplace`. What is charged is the rho of the noise.
    Privacy:
        rho-zCDP; or the least known noise with which this release by itself is (epsilon, delta)-DP.
    Source:
        Canonne, Kamath, Steinke 2020; Balle, Wang 2018; docs/proofs/values.md.
    """
    if (rho is None) is (epsilon is None) or (epsilon is None) is not (delta is None):
        raise InvalidLossError("say either rho, or epsilon and delta")
    given, moved = _given(value, read(sensitivity, "sensitivity"), cells_moved)
    distance = given.l2(read(sensitivity, "sensitivity"), moved)
    if rho is not None:
        variance = distance**2 / (2 * read(rho, "rho"))
    else:
        variance = _variance(distance, moved, read(epsilon or 0, "epsilon"), read_delta(delta or 0))
    return _released(given, Mechanism.GAUSSIAN, variance, Cost(None, distance**2 / (2 * variance)), to)


def _variance(distance: Fraction, moved: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns the variance with which integer vectors at this distance, which differ in `moved` cells, are
    (epsilon, delta)-DP: docs/proofs/gaussian.md, Theorem 1, with w solved for v; for one whole number the exact law."""
    if epsilon > MOST_EPSILON or delta < LEAST_DELTA:
        raise InvalidLossError(f"Gaussian noise is for an epsilon up to {MOST_EPSILON} and a delta from 1e-60")
    slack = min(Fraction(1), epsilon) / 2**42
    least = max(Fraction(1), ln_up(Fraction(61, 10) * moved / slack) / 19)  # 2 pi^2 is more than 19
    variance = distance**2 / square_within(epsilon - 2 * slack, delta * (1 - slack)) + least
    is_small = moved == 1 and distance.denominator == 1 and variance < _SUMMED_VARIANCE
    return discrete_gaussian_variance(epsilon, delta, sensitivity=int(distance)) if is_small else variance


def _given(value: Any, sensitivity: Fraction, asked: int | None) -> tuple[OnGrid, int]:
    moved = cells_moved(asked, max(1, np.size(value)))
    return on_grid(value, sensitivity, moved=moved), moved


def _released(
    given: OnGrid, mechanism: Mechanism, parameter: Fraction, cost: Cost, to: Accountant | Ledger | None
) -> Release:
    law, cells = LAWS[mechanism], len(given.steps)
    least, most = law.limits
    if not least <= parameter <= most:
        raise InvalidLossError("noise of this size is not sampled exactly", advice="Change the loss or the unit.")
    scale = float(parameter) ** (1 / law.power) * float(given.unit)
    pay(to, cost, f"{mechanism.value} noise of scale {scale:.6g} on {cells} {'cell' if cells == 1 else 'cells'}")
    noisy = given.steps + law.sample(parameter, cells)
    return Release(
        value=given.back(noisy),
        loss=cost.loss,
        mechanism=mechanism.value,
        scale=scale,
        grid=given.unit,
        _quantile=partial(law.quantile, parameter),
        _cells=cells,
    )
