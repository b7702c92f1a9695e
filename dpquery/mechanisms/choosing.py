"""One of several candidates by its score: exponential mechanism, permute-and-flip, report noisy max.

Scores are compared as rationals, and chances are integers: docs/proofs/values.md, "Choices".
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpquery.accounting.amounts import Amount, read
from dpquery.accounting.local_reports import by_mass
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel import samplers
from dpquery.kernel.exponential import uniform_below
from dpquery.kernel.loss import bounded_range_to_zcdp
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import Accountant, Cost, pay
from dpquery.mechanisms.grid import on_grid

MOST_CANDIDATES = 100_000
Scores = Sequence[int | float | Fraction | Decimal]
"""one score for each candidate, larger is better; integers, rationals, or finite floats"""


def exponential(
    scores: Scores,
    *,
    sensitivity: Amount,
    epsilon: Amount,
    one_direction: bool = False,
    to: Accountant | Ledger | None = None,
) -> int:
    """Returns the place of a candidate, drawn with a chance proportional to exp(epsilon score / (2 sensitivity)).

    Args:
        scores: 1 to 100,000.
        sensitivity: By how much each score moves at most between neighbours.
        epsilon: The loss.
        one_direction: Whether all scores rise, or all fall, when somebody is added, as counts do: half the loss then
            gives the same law, so the law is twice as sharp.
        to: Who pays, before anything is drawn: epsilon, or epsilon^2 / 8 where rho is counted.
    Privacy:
        epsilon-DP, and of bounded range epsilon.
    Source:
        McSherry, Talwar 2007; Cesar, Rogers 2021; docs/proofs/values.md.
    Example:
        >>> exponential([120, 3, 1], sensitivity=1, epsilon="2")  # the first, but for a chance of exp(-116)
        0
    """
    pure = read(epsilon, "epsilon")
    masses = _masses(scores, sensitivity, pure, one_direction)
    pay(to, Cost(pure, bounded_range_to_zcdp(pure)), f"the exponential mechanism on {len(masses)} candidates")
    return int(by_mass(masses, 1)[0])


def permute_and_flip(
    scores: Scores,
    *,
    sensitivity: Amount,
    epsilon: Amount,
    one_direction: bool = False,
    to: Accountant | Ledger | None = None,
) -> int:
    """Returns the place of a candidate: in random order, the first that is taken with chance exp(-c gap to the best).

    Arguments as for `exponential`, whose expected score is never better. What is charged is epsilon, or epsilon^2 / 2
    where rho is counted, as its range is not bounded: there `exponential` costs a quarter.

    Source: McKenna, Sheldon 2020; docs/proofs/values.md.
    """
    pure = read(epsilon, "epsilon")
    masses = _masses(scores, sensitivity, pure, one_direction)
    pay(to, Cost.pure(pure), f"permute-and-flip on {len(masses)} candidates")
    one, left = samplers.exponential(Fraction(0)), list(range(len(masses)))
    while True:
        place = left.pop(int(uniform_below(np.array([len(left)], np.int64))[0]))
        if by_mass([masses[place], one - masses[place]], 1)[0] == 0:
            return place


def report_noisy_max(
    scores: Scores,
    *,
    sensitivity: Amount,
    epsilon: Amount,
    one_direction: bool = False,
    to: Accountant | Ledger | None = None,
) -> int:
    """Returns the place of the largest score after discrete Laplace noise on each; the first of equal ones.

    Arguments as for `exponential`. Noise is of scale 2 sensitivity / epsilon, half of it with `one_direction`.

    Source: Dwork, Roth 2014, Claim 3.9; docs/proofs/values.md, where ties are considered.
    """
    pure, moves = read(epsilon, "epsilon"), read(sensitivity, "sensitivity")
    given = on_grid(np.array([float(s) if type(s) in (Fraction, Decimal) else s for s in scores]), moves)
    scale = given.l1(moves, 1) * (1 if one_direction else 2) / pure
    if not samplers.MIN_LAPLACE_SCALE <= scale <= samplers.MAX_LAPLACE_SCALE:
        raise InvalidLossError("noise of this size is not sampled exactly", advice="Change the loss or the unit.")
    pay(to, Cost.pure(pure), f"report noisy max on {len(given.steps)} candidates")
    return int(np.argmax(given.steps + samplers.discrete_laplace(scale, len(given.steps))))


def _masses(scores: Scores, sensitivity: Amount, epsilon: Fraction, one_direction: bool) -> list[int]:
    """Returns exp(-c gap) of each candidate in units of 2^-PRECISION; that of the best is 1."""
    exact = [_rational(score) for score in scores]
    if not 1 <= len(exact) <= MOST_CANDIDATES:
        raise ParameterError(f"there are from 1 to {MOST_CANDIDATES:,} candidates")
    coefficient = epsilon / ((1 if one_direction else 2) * read(sensitivity, "sensitivity"))
    best = max(exact)
    masses: dict[Fraction, int] = {}
    for score in set(exact):
        masses[score] = samplers.exponential(min(coefficient * (best - score), Fraction(10_000)))
    return [masses[score] for score in exact]


def _rational(score: object) -> Fraction:
    if isinstance(score, np.generic):
        score = score.item()
    if isinstance(score, bool) or not isinstance(score, int | float | Fraction | Decimal):
        raise ParameterError("scores are numbers")
    try:
        return Fraction(score)
    except (ValueError, OverflowError):
        raise ParameterError("a score is not finite", advice="Clamp scores to public bounds before.") from None
