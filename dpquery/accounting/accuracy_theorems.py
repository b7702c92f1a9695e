"""From a loss to an error and back: how far noise goes, for one number and for many at once. Rounded up.

For continuous laws, as in textbooks; the discrete ones that queries use are within a step of them, and an answer's own
intervals are exact. Proofs and sources: docs/concepts/textbook.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from dpquery.accounting.amounts import Amount, read, read_chance, read_delta, whole
from dpquery.accounting.composition import advanced
from dpquery.accounting.conversions import gaussian_scale, zcdp_within
from dpquery.accounting.directed_bounds import above, exp_up
from dpquery.errors import InvalidLossError, extra
from dpquery.kernel.directed_rounding import ln_up, sqrt_up
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.tails import normal_tail

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def response_error(epsilon: Amount, *, people: int, confidence: Amount = "0.95") -> Fraction:
    """Returns by how much a count of ones is off at most that is estimated from so many randomised responses:
    sqrt(people ln(2 / (1 - confidence)) / 2) / tanh(epsilon / 2). A count with Laplace noise is off by no more than
    `laplace_error(1 / epsilon)`, however many people there are.

    Source: Hoeffding's inequality; each of the responses moves the estimate by 1 / tanh(epsilon / 2).
    Example:
        >>> round(float(response_error(1, people=10_000))), round(float(laplace_error(1)))
        (294, 3)
    """
    pure, failure = read(epsilon, "epsilon"), _failure(confidence)
    small = exp_up(-pure)
    if small >= 1:
        raise InvalidLossError("an epsilon this small tells nothing")
    length = sqrt_up(whole(people, "people") * ln_up(2 / failure) / 2)
    return above(length * (1 + small) / (1 - small))


def reconstruction_error(error: Amount, *, people: int) -> int:
    """Returns how many of the secret bits of so many people an attacker has wrong at most, who sees the count of ones
    in every subset of them, each off by `error` at most: 4 error.

    The attacker takes any bits whose counts are within the error of all answers. Noise that protects them grows in
    proportion to the people.

    Source: Dinur, Nissim 2003, Theorem 2; Dwork, Roth 2014, Theorem 8.1. Proof: the people whose bit is 1 wrongly are
        a subset, whose counts under the truth and under the guess are both within the error of its answer, so that
        they are at most 2 error; and so are those whose bit is 0 wrongly.
    Example:
        >>> reconstruction_error("2.5", people=64)
        10
    """
    return min(whole(people, "people"), math.floor(4 * read(error, "error", zero=True)))


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


def plot_errors(
    functions: Mapping[str, Callable[[Fraction], Fraction]], epsilons: Iterable[Amount], *, axes: Axes | None = None
) -> Axes:
    """Returns matplotlib axes with the error of each mechanism against epsilon, on logarithmic scales.

    Args:
        functions: For each name the error at an epsilon: `{"Laplace": lambda e: laplace_error(1 / e)}`.
        epsilons: Where they are compared.
    Raises:
        DPQueryError: matplotlib is not there; it comes with `pip install 'dpquery[plot]'`.
    """
    if axes is None:
        axes = extra("matplotlib.pyplot", of="plot", purpose="a plot").subplots()[1]
    given = [read(epsilon, "epsilon") for epsilon in epsilons]
    for name, function in functions.items():
        axes.plot([float(e) for e in given], [float(function(e)) for e in given], label=name)
    axes.set(xlabel="epsilon", ylabel="error", xscale="log", yscale="log")
    axes.legend()
    return axes


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
