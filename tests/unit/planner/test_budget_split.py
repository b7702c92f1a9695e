"""The split of a loss: closed forms, the one condition of the minimum, and a search that knows neither."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpquery.planner.budget.budget_split import LEAST, best_shares

ONE = Fraction(1)


def objective(shares: list[float], errors: list[dict[int, float]], weights: list[float], power: int) -> float:
    """Returns the weighted sum of the logarithms of the numbers' variances."""
    variances = (sum(error**2 / shares[i] ** power for i, error in parts.items()) for parts in errors)
    return sum(weight * math.log(variance) for weight, variance in zip(weights, variances, strict=True))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 0.577), (3.0, 40.0), (1.0, 2.0, 30.0)])
def test_one_number_splits_by_its_closed_form(sizes: tuple[float, ...], power: int) -> None:
    """Of epsilon in proportion to (a s)^(2/3), of rho to a s: Lagrange on the variance itself."""
    shares = best_shares([dict(enumerate(sizes))], [ONE], len(sizes), power=power)
    expected = np.array([size ** (2 / (power + 1)) for size in sizes])
    assert np.allclose([float(share) for share in shares], expected / expected.sum(), atol=2e-4)


@pytest.mark.parametrize("power", [1, 2])
def test_numbers_that_share_nothing_split_by_weight(power: int) -> None:
    shares = best_shares([{0: 5.0}, {1: 7e9}, {2: 1e-3}], [ONE, Fraction(2), Fraction(1, 3)], 3, power=power)
    assert shares == (Fraction(3, 10), Fraction(6, 10), Fraction(1, 10))
    two = best_shares([{0: 1.0, 1: 2.0}, {2: 9.0}], [ONE, Fraction(3)], 3, power=power)
    assert abs(two[2] - Fraction(3, 4)) < Fraction(1, 1000)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_no_other_split_errs_less(seed: int, power: int) -> None:
    """The problem is convex, so no small exchange between two shares may help; and the shares of variance are right."""
    random = np.random.default_rng(seed)
    measures = int(random.integers(2, 7))
    errors = [
        {
            int(i): float(10 ** random.uniform(-1, 1))
            for i in random.choice(measures, random.integers(1, measures + 1), False)
        }
        for _ in range(4)
    ] + [{i: 1.0} for i in range(measures)]
    weights = [Fraction(int(random.integers(1, 5))) for _ in errors]
    shares = best_shares(errors, weights, measures, power=power)
    assert sum(shares) == 1
    assert min(shares) > 0
    floats, plain = [float(share) for share in shares], [float(weight) for weight in weights]
    best = objective(floats, errors, plain, power)
    for i, j in itertools.permutations(range(measures), 2):
        moved = list(floats)
        step = 0.02 * min(floats[i], floats[j])
        moved[i], moved[j] = moved[i] + step, moved[j] - step
        assert objective(moved, errors, plain, power) > best - 1e-9
    for i in range(measures):
        parts = 0.0
        for weight, error in zip(plain, errors, strict=True):
            total = sum(e**2 / floats[j] ** power for j, e in error.items())
            parts += weight * error.get(i, 0.0) ** 2 / floats[i] ** power / total
        assert abs(parts / sum(plain) - floats[i]) < 1e-3


@pytest.mark.parametrize("measures", [1, 2, 3, 7, 200])
def test_shares_are_exact_positive_and_sum_to_one(measures: int) -> None:
    random = np.random.default_rng(measures)
    for spread in (0.1, 3.0, 100.0):
        errors = [{i: float(10 ** random.uniform(-spread, spread)) for i in range(measures)}]
        for power in (1, 2):
            shares = best_shares(errors, [ONE], measures, power=power)
            assert sum(shares) == 1
            assert all(type(share) is Fraction and share > 0 for share in shares)


def test_nothing_is_starved() -> None:
    shares = best_shares([{0: 1.0}, {1: 1.0}], [Fraction(10**6), ONE], 2, power=2)
    assert sum(shares) == 1
    assert shares[1] == LEAST / 2
