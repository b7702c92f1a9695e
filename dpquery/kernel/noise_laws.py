"""The laws of noise, one entry each: how large it is for a loss, what it costs, how it is drawn, how far it goes.

Parameters are in the steps that noise is drawn in: b of exp(-|k| / b) for Laplace, v of exp(-k^2 / (2 v)) for Gaussian
noise, and the coefficient c of the utility for choices. What floating point says of the laws is in
`accuracy/noise_shapes.py`. Proofs: docs/proofs/mechanisms.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from dpquery.errors import InternalError
from dpquery.kernel import exponential, permute_and_flip, samplers, tails
from dpquery.kernel.exponential import Integers
from dpquery.kernel.loss import PrivacyLoss, bounded_range_to_zcdp, pure_to_zcdp
from dpquery.kernel.plan import Mechanism
from dpquery.kernel.sensitivity import Sensitivity


def _adds_nothing(*_: object) -> NoReturn:
    raise InternalError("a choice adds no noise, and how far it is off depends on the data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What is known of one mechanism.

    Attributes:
        power: With which power of the steps its parameter grows where they become finer.
        limits: The least and the greatest parameter that is sampled exactly.
        in_epsilon, in_rho: Whether epsilon, and whether rho, can pay for it.
        is_added: Whether it is noise on a number; otherwise it chooses one.
        draws: How a choice is drawn; None for noise that is added.
        worst: Of a choice: candidates whose utilities are c x below the best have at most this, times exp(-x) for each
            of them, as their chance together.
        parameter: Gives the parameter with which a vector of this sensitivity loses at most this.
        rho: Gives the rho of zCDP that noise of this loss satisfies; exact.
        sample: Gives fresh independent noise of a parameter, shape (size,).
        tail: Gives an upper bound on P(noise >= k).
        quantile: Gives a k with P(|noise| > k) at most this.
    """

    power: int
    limits: tuple[Fraction, Fraction]
    in_epsilon: bool = False
    in_rho: bool = False
    is_added: bool = True
    draws: exponential.Draw | None = None
    worst: Fraction = Fraction(1)
    parameter: Callable[[Sensitivity, PrivacyLoss], Fraction]
    rho: Callable[[PrivacyLoss], Fraction]
    sample: Callable[[Fraction, int], Integers] = _adds_nothing
    tail: Callable[[Fraction, int], Fraction] = _adds_nothing
    quantile: Callable[[Fraction, Fraction], int] = _adds_nothing

    def is_paid_in_epsilon(self, loss: PrivacyLoss) -> bool:
        """Whether a loss is of epsilon, else of rho; raises InternalError where it is none that pays for this law."""
        paid = loss.epsilon > 0
        if loss.delta or paid is (loss.rho > 0) or not (self.in_epsilon if paid else self.in_rho):
            raise InternalError(f"noise cannot be paid for with {loss}")
        return paid


def _scale(moved: Sensitivity, loss: PrivacyLoss) -> Fraction:
    """Laplace noise of scale l1 / epsilon is epsilon-DP on the integers, for integer vectors.

    Source: Ghosh, Roughgarden, Sundararajan 2009 (geometric mechanism).
    """
    return Fraction(moved.l1) / loss.epsilon


def _variance(moved: Sensitivity, loss: PrivacyLoss) -> Fraction:
    """Gaussian noise of variance l2^2 / (2 rho) is rho-zCDP on the integers, for integer vectors.

    Source: Canonne, Kamath, Steinke 2020, theorem 4.
    """
    return Fraction(moved.l2_squared) / (2 * loss.rho)


def _coefficient(moved: Sensitivity, loss: PrivacyLoss) -> Fraction:
    """A choice in one group whose utilities move apart by w has a bounded range of c w, so it is (c w)-DP and
    (c w)^2 / 8-zCDP; over the groups of a unit these add up to c l1 and c^2 l2^2 / 8. A root is rounded down.
    Permute-and-flip is (c w)-DP too, but not of bounded range.

    Source: Cesar, Rogers 2021 (bounded range to zCDP); docs/proofs/exponential.md.
    """
    if loss.epsilon:
        return loss.epsilon / moved.l1
    square = 8 * loss.rho / moved.l2_squared
    return Fraction(math.isqrt((square.numerator << 512) // square.denominator), 1 << 256)


LAWS = {
    Mechanism.LAPLACE: Law(
        power=1,
        limits=(samplers.MIN_LAPLACE_SCALE, samplers.MAX_LAPLACE_SCALE),
        in_epsilon=True,
        parameter=_scale,
        rho=lambda loss: pure_to_zcdp(loss.epsilon),
        sample=lambda scale, size: samplers.discrete_laplace(scale, size),
        tail=tails.laplace_tail,
        quantile=tails.laplace_quantile,
    ),
    Mechanism.GAUSSIAN: Law(
        power=2,
        limits=(samplers.MIN_GAUSSIAN_VARIANCE, samplers.MAX_GAUSSIAN_VARIANCE),
        in_rho=True,
        parameter=_variance,
        rho=lambda loss: loss.rho,
        sample=lambda variance, size: samplers.discrete_gaussian(variance, size),
        tail=tails.gaussian_tail,
        quantile=tails.gaussian_quantile,
    ),
    Mechanism.EXPONENTIAL: Law(
        power=0,
        limits=(exponential.MIN_COEFFICIENT, exponential.MAX_COEFFICIENT),
        in_epsilon=True,
        in_rho=True,
        is_added=False,
        draws=exponential.draw,
        parameter=_coefficient,
        rho=lambda loss: bounded_range_to_zcdp(loss.epsilon) if loss.epsilon else loss.rho,
    ),
    Mechanism.PERMUTE_AND_FLIP: Law(
        power=0,
        limits=(exponential.MIN_COEFFICIENT, exponential.MAX_COEFFICIENT),
        in_epsilon=True,
        is_added=False,
        draws=permute_and_flip.flip,
        worst=Fraction(1, 2),
        parameter=_coefficient,
        rho=lambda loss: pure_to_zcdp(loss.epsilon),
    ),
}
"""Each mechanism's law; a test demands all of them."""
