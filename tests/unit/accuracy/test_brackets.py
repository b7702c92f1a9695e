"""Intervals of chosen values: they hold what was asked for wherever the rank errors hold, whatever the data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.brackets import ReleasedChoice, brackets

TARGETS = tuple(Fraction(t) for t in ("0", "1/10", "1/4", "1/2", "3/4", "9/10", "1"))


def within(values: np.ndarray, target: Fraction, ranks: float, beyond: float) -> np.ndarray:
    """Returns the values of a range that a choice may be, if it is off by so many ranks at most."""
    weight, every = len(values), np.arange(-1, 102)
    below, reached = np.searchsorted(values, every, "left"), np.searchsorted(values, every, "right")
    if target == 0:
        fine = (below <= ranks) & (reached >= min(beyond, weight / 2) - (ranks - beyond))
    elif target == 1:
        fine = (weight - reached <= ranks) & (weight - below >= min(beyond, weight / 2) - (ranks - beyond))
    else:
        fine = (below <= float(target) * weight + ranks) & (reached >= float(target) * weight - ranks)
    return every[fine]


@pytest.mark.parametrize("seed", range(40))
def test_they_hold_where_the_rank_errors_hold(seed: int) -> None:
    """Any values, ties too, any choices within their errors, and any weight that is at most the true one."""
    random = np.random.default_rng(seed)
    for _ in range(25):
        count = int(random.integers(1, 200))
        values = np.sort(random.integers(0, int(random.integers(1, 101)), count))
        targets = sorted(random.choice(len(TARGETS), int(random.integers(1, 8)), replace=False))
        chosen = []
        for place in targets:
            ranks = float(random.uniform(0, 30))
            beyond = float(random.uniform(0, ranks)) if TARGETS[place] in (0, 1) else 0.0
            possible = within(values, TARGETS[place], ranks, beyond)
            chosen.append((TARGETS[place], ranks, beyond, float(random.choice(possible))))
        shown = np.sort([value for *_, value in chosen])
        choices = [
            ReleasedChoice(target=target, ranks=ranks, beyond=beyond, values=np.array([value]))
            for (target, ranks, beyond, _), value in zip(chosen, shown, strict=True)
        ]
        weight = np.array([count - float(random.integers(0, 20))])
        for choice, found in zip(choices, brackets(choices, weight, -1.0, 101.0), strict=True):
            if np.isnan(found.lower[0]):
                continue
            for method in ("linear", "inverted_cdf", "lower", "higher"):
                exact = np.quantile(values, float(choice.target), method=method)
                assert found.lower[0] <= exact <= found.upper[0]
            assert found.lower[0] <= choice.values[0] <= found.upper[0]


def quartiles(ranks: float) -> list[ReleasedChoice]:
    return [
        ReleasedChoice(target=target, ranks=ranks, beyond=0.0, values=np.array([value]))
        for target, value in ((Fraction(1, 4), 10.0), (Fraction(1, 2), 20.0), (Fraction(3, 4), 40.0))
    ]


def test_neighbours_bound_and_beyond_them_the_range_does() -> None:
    found = brackets(quartiles(5.0), np.array([100.0]), 0.0, 90.0)
    assert [(one.lower[0], one.upper[0]) for one in found] == [(0, 20), (10, 40), (20, 90)]


@pytest.mark.parametrize(
    ("weight", "known"), [(28.0, (1, 1, 1)), (27.9, (1, 0, 1)), (13.9, (0, 0, 0)), (0.0, (0, 0, 0)), (-5.0, (0, 0, 0))]
)
def test_too_few_values_bound_nothing(weight: float, known: tuple[int, ...]) -> None:
    """A quarter of 28 values is 7 ranks: 5 of error, and 2 between which a quantile may be interpolated."""
    found = brackets(quartiles(5.0), np.array([weight]), 0.0, 90.0)
    assert tuple(int(np.isfinite(one.lower[0])) for one in found) == known


def test_a_choice_alone_has_none() -> None:
    (found,) = brackets(quartiles(5.0)[1:2], np.array([1000.0]), 0.0, 90.0)
    assert np.isnan(found.lower[0]) and np.isnan(found.upper[0])


def test_an_extreme_whose_own_end_is_sure_bounds_itself() -> None:
    """Asked for the 50th of the least values and off by 30 of them: one at least is not above it."""
    least = ReleasedChoice(target=Fraction(0), ranks=80.0, beyond=50.0, values=np.array([3.0]))
    (found,) = brackets([least], np.array([200.0]), 0.0, 90.0)
    assert (found.lower[0], found.upper[0]) == (0, 3)
    (found,) = brackets([least], np.array([50.0]), 0.0, 90.0)
    assert np.isnan(found.lower[0])
