"""Choices, sparse vectors and responses over distances: what they take, refuse and charge."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpquery import mechanisms
from dpquery.errors import InsufficientBudgetError, InvalidLossError, ParameterError
from dpquery.mechanisms.responses import _masses

CHOICES = [mechanisms.exponential, mechanisms.permute_and_flip, mechanisms.report_noisy_max]


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("scores", [[5], [0, 10**6, 1], [0.5, 1e300, -1e300], [Fraction(1, 3), 1000, np.int64(3)]])
def test_the_best_by_far_is_chosen(choose: Any, scores: list[Any]) -> None:
    assert choose(scores, sensitivity="0.1", epsilon=60) == scores.index(max(scores))


@pytest.mark.parametrize("choose", CHOICES[:2])
@pytest.mark.parametrize("scores", [[], [float("nan")], [1, float("inf")], ["a"], [True]])
def test_what_has_no_score_is_refused_before_the_charge(choose: Any, scores: list[Any]) -> None:
    accountant = mechanisms.Accountant(epsilon=1)
    with pytest.raises(ParameterError):
        choose(scores, sensitivity=1, epsilon=1, to=accountant)
    assert not accountant.charges


def test_a_sparse_vector_ends_and_was_paid_for_at_once() -> None:
    accountant = mechanisms.Accountant(epsilon=50)
    above = mechanisms.SparseVector(
        threshold=1000, sensitivity=1, epsilon=50, most_above=2, one_direction=True, whole=True, to=accountant
    )
    assert accountant.remaining.epsilon == 0
    assert [above(value) for value in (0, 0, 5000, 0, 5000)] == [False, False, True, False, True]
    assert above.is_over
    with pytest.raises(ParameterError, match="ended"):
        above(0)
    with pytest.raises(InsufficientBudgetError):
        mechanisms.SparseVector(threshold=0, sensitivity=1, epsilon=1, to=accountant)


GRID = [[abs(a // 3 - b // 3) + abs(a % 3 - b % 3) for b in range(9)] for a in range(9)]


def test_estimates_of_counts_are_near_and_say_how_near() -> None:
    values = [0] * 3000 + [4] * 6000 + [8] * 1000
    reports = mechanisms.randomised_response(values, epsilon=12, distances=GRID)
    found = mechanisms.debias(reports, epsilon=12, distances=GRID)
    true = np.bincount(values, minlength=9)
    assert (np.abs(found.counts - true) <= 7 * found.standard_errors).all()
    assert abs(found.counts.sum() - 10_000) < 1e-6


@pytest.mark.parametrize(
    "distances", [[[0, 1]], [[0, 1], [1, 1]], [[0, -1], [1, 0]], [[0, 0], [0, 0]], [[0, float("nan")], [1, 0]], "ab"]
)
def test_what_are_no_distances_is_refused(distances: Any) -> None:
    with pytest.raises(ParameterError):
        mechanisms.randomised_response([0], epsilon=1, distances=distances)


def test_other_arguments_are_refused() -> None:
    for values, asked in [([2], {"categories": 2}), ([0], {}), ([0], {"categories": 1}), ([-1], {"categories": 2})]:
        with pytest.raises(ParameterError):
            mechanisms.randomised_response(values, epsilon=1, **asked)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="too alike"):
        mechanisms.debias([0], epsilon="1e-13", categories=2)
    with pytest.raises(InvalidLossError):
        mechanisms.randomised_response([0], epsilon=65, categories=2)


def test_reports_over_the_grid_of_100_cells_fall_with_the_distance() -> None:
    grid = [[Fraction(abs(a // 10 - b // 10) + abs(a % 10 - b % 10)) for b in range(100)] for a in range(100)]
    epsilon = 4.0
    law = np.array([[mass / sum(row) for mass in row] for row in _masses(grid, Fraction(4))])  # (true, report)
    assert (law.max(axis=0) <= np.exp(epsilon) * law.min(axis=0) * (1 + 1e-9)).all()
    for true in (0, 55, 99):
        order = np.argsort(np.array(grid[true], dtype=np.float64), kind="stable")
        assert (np.diff(law[true][order]) <= 1e-15).all()
    reports = mechanisms.randomised_response(list(range(100)), epsilon=4, distances=grid)
    assert len(reports) == 100 and set(reports) <= set(range(100))
