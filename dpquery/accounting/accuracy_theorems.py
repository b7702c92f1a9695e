"""From a loss to an error and back: how far noise goes, for one number and for many at once. Rounded up.

For continuous laws, as in textbooks; the discrete ones that queries use are within a step of them, and an answer's own
intervals are exact. Proofs and sources: docs/concepts/textbook.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from dpquery.accounting.amounts import Amount, read, read_chance, read_delta, whole
from dpquery.accounting.composition import advanced
from dpquery.accounting.conversions import gaussian_scale, zcdp_within
from dpquery.accounting.directed_bounds import above
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed import ln_up, sqrt_up
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.tails import normal_tail

_STEP = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to answer questions with noise: its name, the scale of the noise, and the error of all at once."""

    name: str
    scale: Fraction
    error: Fraction


def laplace_error(scale: Amount, *, cells: int = 1, confidence: Amount = "0.95") -> Fraction:
    """Returns scale * ln(cells / (1 - confidence)): by how much the worst of cells with Laplace noise is off at most.

    Source: P(|X| > t b) = e^-t, and the union bound; Dwork, Roth 2014, Theorem 3.8.
    Example:
        >>> float(laplace_error(2)), float(laplace_error(2, cells=100))
        (5.991464547107982, 15.201804919084164)
    """
    return above(read(scale, "scale") * ln_up(whole(cells, "cells") / _failure(confidence)))


def laplace_epsilon(error: Amount, *, sensitivity: Amount = 1, cells: int = 1, confidence: Amount = "0.95") -> Fraction:
    """Returns the epsilon with which the worst of some cells is off by at most the error.

    Source: `laplace_error`, solved for epsilon.
    """
    unit = read(sensitivity, "sensitivity") / read(error, "error")
    return above(unit * ln_up(whole(cells, "cells") / _failure(confidence)))


def gaussian_error(scale: Amount, *, cells: int = 1, confidence: Amount = "0.95") -> Fraction:
    """Returns by how much the worst of some cells with Gaussian noise of this deviation is off at most.

    Source: the normal law's tail, and the union bound; docs/proofs/samplers.md.
    Example:
        >>> round(float(gaussian_error(1)), 3), round(float(gaussian_error(1, cells=100)), 2)
        (1.96, 3.48)
    """
    share = _failure(confidence) / whole(cells, "cells") / 2
    guess = Fraction(-NormalDist().inv_cdf(float(share)))
    while guess < 0 or normal_tail(guess**2) > share:
        guess += _STEP
    return above(read(scale, "scale") * guess)


def exponential_error(
    epsilon: Amount, *, candidates: int, sensitivity: Amount = 1, confidence: Amount = "0.95"
) -> Fraction:
    """Returns by how much the score of what the exponential mechanism chooses is below the best at most:
    2 sensitivity / epsilon * ln(candidates / (1 - confidence)).

    Source: McSherry, Talwar 2007; Dwork, Roth 2014, Corollary 3.12.
    Example:
        >>> round(float(exponential_error("1", candidates=200)), 2)
        16.59
    """
    unit = 2 * read(sensitivity, "sensitivity") / read(epsilon, "epsilon")
    return above(unit * ln_up(whole(candidates, "candidates") / _failure(confidence)))


def least_error(
    questions: int,
    *,
    epsilon: Amount,
    delta: Amount | None = None,
    sensitivity: Amount = 1,
    confidence: Amount = "0.95",
) -> list[Way]:
    """Returns the ways to answer a fixed number of questions on the same people within a budget, the best first.

    Args:
        questions: How many numbers; one person moves each of them by at most `sensitivity`.
        epsilon, delta: The budget of all together.
        confidence: With which all are within the error at once.
    Source: docs/proofs/composition-theorems.md, conversions.md and gaussian.md.
    Example:
        >>> [way.name for way in least_error(3, epsilon=1, delta="1e-6")][0]
        'Laplace, sums of epsilon'
        >>> [way.name for way in least_error(300, epsilon=1, delta="1e-6")][0]
        'Gaussian, exact'
    """
    count, total, moved = whole(questions, "questions"), read(epsilon, "epsilon"), read(sensitivity, "sensitivity")
    known = {"cells": count, "confidence": confidence}

    def of_laplace(name: str, each: Fraction) -> Way:
        return Way(name, above(moved / each), laplace_error(moved / each, **known))  # type: ignore[arg-type]

    ways = [of_laplace("Laplace, sums of epsilon", total / count)]
    if delta is not None:
        small, length = read_delta(delta), moved * sqrt_up(Fraction(count))
        ways.append(of_laplace("Laplace, advanced composition", _each(count, total, small)))
        rho = zcdp_within(total, small)
        scales = {"Gaussian, exact": gaussian_scale(total, small, sensitivity=length)}
        if rho:
            scales["Gaussian, by zCDP"] = length * sqrt_up(1 / (2 * rho))
        ways += [Way(name, above(scale), gaussian_error(scale, **known)) for name, scale in scales.items()]  # type: ignore[arg-type]
    return sorted(ways, key=lambda way: way.error)


def _each(count: int, total: Fraction, slack: Fraction) -> Fraction:
    """Returns about the greatest epsilon of each question with which advanced composition is within the total."""
    low, high = total / count, total
    for _ in range(40):
        middle = (low + high) / 2
        fits = advanced([PrivacyLoss(epsilon=middle)] * count, slack).epsilon <= total
        low, high = (middle, high) if fits else (low, middle)
    return low


def _failure(confidence: Amount) -> Fraction:
    failure = 1 - read_chance(confidence, "confidence")
    if not 0 < failure < 1:
        raise InvalidLossError("a confidence lies between 0 and 1")
    return failure
