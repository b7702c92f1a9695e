"""The split of a loss: shares of the measures that minimise the weighted geometric mean of the numbers' errors.

A number c is off by a variance V_c = sum of (a_ci s_i)^2 / x_i^p over the measures i that it reads, to first order:
a_ci is its derivative, s_i the deviation of the noise of one unit of loss, x_i the share of measure i, and p is 2 where
shares are of epsilon, 1 where they are of rho. The shares minimise the sum of w_c log V_c. In log x that is a sum of
convex functions (logarithms of sums of exponentials), so there is one minimum; where it is,

    x_i = the weighted mean over the numbers of the part of V_c that comes from measure i.

Measures of disjoint filters are paid for in parallel (docs/proofs/disjoint.md): of a chain of classes each class has
the whole share. Let q = p + 1 and t_i the weight of x_i^-p in a round of the search. A class is split in proportion
to t_i^(1 / q), which sum to A; the chain's share is in proportion to (sum over its classes of A^q)^(1 / q).

Numbers that share no measure get shares in proportion to their weights, and inside one number x_i is in proportion to
(a_i s_i)^(2 / (p + 1)): for Laplace noise the power 2/3, for Gaussian noise the first. docs/concepts/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

STEPS = 200
"""Rounds of the search for shares, at most."""
PRECISE = 1e-5
"""The search ends where no share changes by more than this part of itself."""
RESOLUTION = 10_000
"""Shares are multiples of one part in so many."""
LEAST = Fraction(1, 100)
"""No measure gets less than this part of an equal share."""

Chain = tuple[tuple[int, ...], ...]
"""Classes of measures, by number, that are in parallel."""
Floats = NDArray[np.float64]


def best_shares(
    errors: Sequence[dict[int, float]],
    weights: Sequence[Fraction],
    measures: int,
    *,
    power: int,
    chains: tuple[Chain, ...] = (),
) -> tuple[Fraction, ...]:
    """Returns the shares: exact, positive, summing to 1, where of each chain the largest sum of a class counts.

    Args:
        errors: For each number a_ci s_i by measure, in any unit; only positive ones, and each measure in some number.
        weights: Of each number, positive.
        measures: How many measures there are.
        power: 2 for epsilon, 1 for rho.
        chains: Which measures are in parallel; where there are none, all are one after another.
    """
    given = tuple([tuple(parts.items()) for parts in errors])
    parallel = chains if max(map(len, chains), default=0) > 1 else ((tuple(range(measures)),),)
    return _best_shares(given, tuple(weights), measures, power, parallel)


@lru_cache(maxsize=512)  # queries of one form split alike, with any filters
def _best_shares(
    given_errors: tuple[tuple[tuple[int, float], ...], ...],
    weights: tuple[Fraction, ...],
    measures: int,
    power: int,
    chains: tuple[Chain, ...],
) -> tuple[Fraction, ...]:
    errors = [dict(parts) for parts in given_errors]
    if set(map(len, errors)) == {1}:
        given = [Fraction(0)] * measures
        for parts, weight in zip(errors, weights, strict=True):
            given[next(iter(parts))] += weight
        totals = [sum([given[i] for places in chain for i in places], Fraction(0)) for chain in chains]
        return _side_by_side(given, totals, chains, _exact)
    if not all(math.isfinite(error) for parts in errors for error in parts.values()):
        alike = [Fraction(1)] * measures  # beyond all floats: nothing is known of what errs more
        return _side_by_side(alike, [Fraction(sum(map(len, chain))) for chain in chains], chains, _exact)
    matrix = np.zeros((len(errors), measures))
    for row, parts in enumerate(errors):
        largest = max(parts.values())
        for column, error in parts.items():
            matrix[row, column] = (error / largest) ** 2
    with np.errstate(all="ignore"):
        found = _search(matrix, np.array([float(w) for w in weights]), power, chains)
    sizes = [Fraction(size) for size in (found.tolist() if np.isfinite(found).all() else [1.0] * measures)]
    totals = [sum([sizes[i] for i in chain[0]], Fraction(0)) for chain in chains]
    return _side_by_side(sizes, totals, chains, lambda parts: _rounded(np.array([float(part) for part in parts])))


def _exact(sizes: Sequence[Fraction]) -> tuple[Fraction, ...]:
    whole = sum(sizes)
    return with_floor([size / whole for size in sizes])


def _side_by_side(
    sizes: Sequence[Fraction],
    totals: Sequence[Fraction],
    chains: tuple[Chain, ...],
    split: Callable[[Sequence[Fraction]], tuple[Fraction, ...]],
) -> tuple[Fraction, ...]:
    """Returns the shares: each chain's in proportion to its total, and each class all of that, split within it.

    Args:
        sizes, totals: Of the measures, and of the chains.
        split: Makes shares that sum to 1 out of sizes.
    """
    found: dict[int, Fraction] = {}
    for chain, whole in zip(chains, split(totals), strict=True):
        for places in chain:
            own = split([sizes[i] for i in places])
            found |= {i: whole * part for i, part in zip(places, own, strict=True)}
    return tuple([found[i] for i in range(len(sizes))])


def _search(matrix: Floats, weights: Floats, power: int, chains: tuple[Chain, ...]) -> Floats:
    """Returns the sizes of shares in floating point.

    Each round replaces log V_c by its tangent at the present V_c, which lies above it, and minimises the sum of
    those exactly; so no round makes the sum larger (majorise, then minimise).
    """
    measures = matrix.shape[1]
    shares = np.full(measures, 1.0 / measures)
    for _ in range(STEPS):
        totals = matrix @ (1 / shares**power)
        found = ((weights / totals) @ matrix) ** (1 / (power + 1))
        found = np.maximum(_together(found, power, chains), 1e-12)
        done = np.abs(found - shares).max() <= PRECISE * found.max()
        shares = found
        if done:
            break
    return shares


def _together(found: Floats, power: int, chains: tuple[Chain, ...]) -> Floats:
    """Returns shares of 1: of each chain every class has the whole share."""
    if len(chains) == 1 and len(chains[0]) == 1:
        return np.asarray(found / found.sum())
    shares, total = np.zeros(len(found)), 0.0
    for chain in chains:
        sums = [found[list(places)].sum() for places in chain]
        whole = sum(size ** (power + 1) for size in sums) ** (1 / (power + 1))
        for places, size in zip(chain, sums, strict=True):
            shares[list(places)] = found[list(places)] * (whole / size)
        total += whole
    return shares / total


def _rounded(shares: Floats) -> tuple[Fraction, ...]:
    """Returns multiples of 1 / RESOLUTION that sum to 1: rounded down, then the largest remainders up."""
    parts = max(RESOLUTION, 1000 * len(shares))
    least = parts // (100 * len(shares))
    scaled = np.maximum(shares / shares.sum() * parts, least)
    scaled *= parts / scaled.sum()
    whole = np.maximum(np.floor(scaled), 1).astype(np.int64)
    missing = parts - int(whole.sum())
    for place in np.argsort(whole - scaled)[: max(0, missing)]:
        whole[place] += 1
    whole[int(whole.argmax())] += parts - int(whole.sum())
    return tuple([Fraction(int(part), parts) for part in whole])


def with_floor(shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Returns shares of which none is below the least, those above it made smaller alike."""
    least = LEAST / len(shares)
    low = [share < least for share in shares]
    if not any(low):
        return tuple(shares)
    rest = sum((share for share, is_low in zip(shares, low, strict=True) if not is_low), Fraction(0))
    factor = (1 - least * sum(low)) / rest
    return tuple(least if is_low else share * factor for share, is_low in zip(shares, low, strict=True))
