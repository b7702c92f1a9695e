"""What the gate does to exact numbers: coarser steps, noise, whole steps, and which groups are shown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.kernel import samplers
from dpquery.kernel.drawing import drawing
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import recomputed
from dpquery.kernel.plan import WEIGHT, BudgetedAggregate, Measure, Mechanism, Noise, PrivateAggregate, Weighing
from dpquery.kernel.release import ExactAggregates, NoisyTable, _select, _whole
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, UNITS, aggregate, total, weights

COARSE = total(0, 2**20)
"""A sum of which two steps of weight, for M = 1, and four make one that noise is added to."""


@pytest.mark.parametrize(
    ("noisy", "steps", "whole"),
    [
        ([5, -5], 1, [5, -5]),
        ([0, 1, 2, 3, 4, 5, 6], 4, [0, 0, 1, 1, 1, 1, 2]),
        ([-1, -2, -3, -5, -6, -7], 4, [0, 0, -1, -1, -1, -2]),
        ([3, 4, -4, -3], 7, [0, 1, -1, 0]),
        ([WEIGHT // 2 - 1, WEIGHT // 2, -WEIGHT // 2, -WEIGHT // 2 - 1], WEIGHT, [0, 1, 0, -1]),
        ([2**62, -(2**62)], 4, [2**60, -(2**60)]),
    ],
)
def test_whole_steps_are_the_nearest_half_up(noisy: list[int], steps: int, whole: list[int]) -> None:
    for dtype in (np.int64, object):
        assert _whole(np.array(noisy, dtype=dtype), steps).tolist() == whole


def test_whole_steps_of_numbers_beyond_64_bits() -> None:
    assert _whole(np.array([10**30 * 8 + 4], dtype=object), 8).tolist() == [10**30 + 1]


def shown(
    monkeypatch: pytest.MonkeyPatch, noise: int, places: list[object], *numbers: tuple[Measure, list[int]]
) -> NoisyTable:
    """Returns the table of groups that are selected, where each number gets the same noise."""
    monkeypatch.setattr(samplers, "discrete_laplace", lambda _, size: np.full(size, noise, np.int64))
    plan = aggregate(
        *(measure for measure, _ in numbers),
        weights=weights(Weighing.COUNTED, 1, groups=2, most=100),
        keys=None,
        selection="u",
    )
    budgeted = BudgetedAggregate(
        aggregate=plan,
        noise=(Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1))),) * len(numbers),
        selection_delta=Fraction(1, 1000),
    )
    noises, tau = recomputed(budgeted, Neighbours.ADD_REMOVE)
    keys = np.empty(len(places), dtype=object)
    keys[:] = places
    exact = ExactAggregates(keys=(keys,), numbers=tuple(np.array(given) for _, given in numbers))
    with drawing(noises, None) as draw:
        return _select(budgeted, exact, noises, tau, draw)


def test_no_group_is_shown_in_which_nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit may have rows in any number of such groups, so that delta does not pay for them."""
    table = shown(monkeypatch, 10**6, [3, 1, 2], (ROWS, [9 * WEIGHT] * 3), (UNITS, [1, 0, 1]))
    assert [column.tolist() for column in table.keys] == [[2, 3]]
    assert table.numbers[1].tolist() == [10**6 + 1] * 2


def test_groups_below_the_threshold_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    table = shown(monkeypatch, 0, [3, 1, 2], (UNITS, [1, 1000, 0]))
    assert table.keys[0].tolist() == [1]


def test_exact_numbers_are_rounded_down_to_coarser_steps_and_noisy_ones_to_lattice_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fine = WEIGHT // 4  # of the coarse sum, in a lattice step
    exact = [5 * WEIGHT, 5 * WEIGHT + 3, WEIGHT // 2 - 1, WEIGHT // 2]
    table = shown(monkeypatch, fine, [1, 2, 3, 4], (COARSE, exact), (UNITS, [10**6] * 4), (ROWS, exact))
    assert table.noises[0].steps == fine and table.noises[2].steps == WEIGHT
    assert table.numbers[0].tolist() == [6, 6, 1, 2]
    assert table.numbers[2].tolist() == [5, 5, 1, 1]


def test_a_plan_says_how_many_steps_make_a_row() -> None:
    plan: PrivateAggregate = aggregate(ROWS, weights=weights(Weighing.COUNTED, 1))
    assert plan.weight == plan.steps(ROWS) == WEIGHT == 2**24
    assert aggregate(ROWS).weight == 1
