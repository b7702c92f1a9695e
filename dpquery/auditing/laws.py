"""What noise of each law loses, how far it goes, and how likely it makes an answer: from the published formulas.

Computed here apart from the kernel's own functions, which are what is audited.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.measurements import Measurement

Floats = NDArray[np.float64]


def loss_of(law: NoiseLaw, l1: int | Fraction, l2_squared: int | Fraction, parameter: Fraction) -> PrivacyLoss:
    """Returns what added noise of this parameter loses on a vector of these norms, in the same steps: l1 / b of Laplace
    noise, l2^2 / 2 v of Gaussian noise of variance v."""
    if law.mechanism is Mechanism.GAUSSIAN:
        return PrivacyLoss(rho=Fraction(l2_squared) / (2 * parameter))
    return PrivacyLoss(epsilon=Fraction(l1) / parameter)


def told_loss(made: Measurement) -> float:
    """Returns what a measurement loses by the figures that a plan tells of it, in what it pays.

    Of a choice the scale is the ranks that make a candidate less likely by a factor of e: l1 / scale is its epsilon,
    and the square of l2 / scale over 8 its rho.
    """
    if made.mechanism == Mechanism.GAUSSIAN.value:
        return (float(made.l2) / made.scale) ** 2 / 2
    if made.loss.epsilon:
        return float(made.l1) / made.scale
    return (float(made.l2) / made.scale) ** 2 / 8


def in_rho(made: Measurement, epsilon: Fraction) -> Fraction:
    """Returns the rho of a measurement that loses this epsilon: a choice of bounded range a quarter of others."""
    return epsilon**2 / (8 if made.mechanism == Mechanism.EXPONENTIAL.value else 2)


def tail(law: NoiseLaw, least: int) -> float:
    """Returns P(noise >= least) of discrete Laplace or Gaussian noise in whole steps, least at least 1."""
    if law.mechanism is Mechanism.LAPLACE:
        ratio = math.exp(-1 / float(law.parameter))
        return ratio**least / (1 + ratio)
    variance = float(law.parameter)
    reach = least + math.ceil(12 * math.sqrt(variance)) + 2
    above = math.fsum(math.exp(-k * k / (2 * variance)) for k in range(least, reach))
    all_of_it = 1 + 2 * math.fsum(math.exp(-k * k / (2 * variance)) for k in range(1, reach))
    return above / all_of_it


def score(law: NoiseLaw, noisy: Floats, here: Floats, there: Floats) -> float:
    """Returns how much likelier noisy numbers are where `here` is exact than where `there` is: the logarithm of the
    quotient, which is the best attacker's score."""
    if law.mechanism is Mechanism.GAUSSIAN:
        return float(((noisy - there) ** 2 - (noisy - here) ** 2).sum() / (2 * float(law.parameter)))
    return float((np.abs(noisy - there) - np.abs(noisy - here)).sum() / float(law.parameter))
