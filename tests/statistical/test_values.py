"""Laws of choices on values: chances of each outcome, also on neighbours, held by Chernoff bounds.

Each comparison fails for a correct law with a chance of at most FALSE_ALARM of `tails_of_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dpquery import mechanisms
from tests.statistical.test_black_box import lower_bound, upper_bound

SAMPLES = 1500
SCORES, NEIGHBOUR = [3, 2, 0], [2, 3, 0]  # sensitivity 1: the most that two scores move apart
EPSILON = math.log(9)


def bounds(hits: int) -> tuple[float, float]:
    return lower_bound(hits, SAMPLES), upper_bound(hits, SAMPLES)


def exponential_law(scores: list[int], factor: float = 1) -> list[float]:
    weights = [math.exp(factor * EPSILON * score / 2) for score in scores]
    return [weight / sum(weights) for weight in weights]


def flip_law(scores: list[int], factor: float = 1) -> list[float]:
    """By the recursion over the candidates that are left, each first with the same chance."""
    chance = [math.exp(factor * EPSILON * (score - max(scores)) / 2) for score in scores]

    def law(left: tuple[int, ...]) -> list[float]:
        found = [0.0] * len(scores)
        for place in left:
            found[place] += chance[place] / len(left)
            if chance[place] < 1:
                rest = law(tuple(other for other in left if other != place))
                found = [a + (1 - chance[place]) / len(left) * b for a, b in zip(found, rest, strict=True)]
        return found

    return law(tuple(range(len(scores))))


Law = Callable[[list[int], float], list[float]]


@pytest.mark.parametrize(
    ("choose", "law"), [(mechanisms.exponential, exponential_law), (mechanisms.permute_and_flip, flip_law)]
)
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.5, False), (2.0, False)])
def test_choices_have_their_law_and_no_other(
    choose: Callable[..., int], law: Law, factor: float, accepted: bool
) -> None:
    drawn = [choose(SCORES, sensitivity=1, epsilon=EPSILON) for _ in range(SAMPLES)]
    each = [bounds(drawn.count(place)) for place in range(3)]
    assert all(low <= chance <= high for (low, high), chance in zip(each, law(SCORES, factor), strict=True)) is accepted


@pytest.mark.parametrize("choose", [mechanisms.exponential, mechanisms.permute_and_flip, mechanisms.report_noisy_max])
def test_no_outcome_tells_neighbours_apart_by_more_than_epsilon(choose: Callable[..., int]) -> None:
    here, there = ([choose(s, sensitivity=1, epsilon=EPSILON) for _ in range(SAMPLES)] for s in (SCORES, NEIGHBOUR))
    for place in range(3):
        low, high = bounds(here.count(place))[0], bounds(there.count(place))[1]
        assert low <= 9 * high


def test_twice_the_epsilon_would_be_found() -> None:
    here, there = (
        [mechanisms.exponential(s, sensitivity=1, epsilon=3 * EPSILON) for _ in range(SAMPLES)]
        for s in (SCORES, NEIGHBOUR)
    )
    assert bounds(here.count(0))[0] > 9 * bounds(there.count(0))[1]


def answers(values: tuple[int, int]) -> tuple[bool, ...]:
    above = mechanisms.SparseVector(threshold=1, sensitivity=1, epsilon=EPSILON, most_above=1, whole=True)
    return tuple(above(value) for value in values if not above.is_over)


def test_answers_of_a_sparse_vector_tell_no_more_than_epsilon() -> None:
    here, there = ([answers(values) for _ in range(SAMPLES)] for values in ((0, 2), (1, 1)))
    for outcome in {*here, *there}:
        for one, other in ((here, there), (there, here)):
            assert bounds(one.count(outcome))[0] <= 9 * bounds(other.count(outcome))[1]
