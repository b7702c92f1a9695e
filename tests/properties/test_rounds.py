"""What the proof of selections in rounds says, on random pairs: docs/proofs/selection.md, "In rounds"."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import rounds as tested
from dpquery.kernel import samplers, tails
from dpquery.kernel.plan import WEIGHT
from dpquery.kernel.rounds import PARTS, Pairs, Round, in_rounds, rounds_of, weight_of

GROUPS, UNITS = 7, 5
Owned = list[list[int]]
"""For each unit its groups, in its order."""


def pairs_of(owned: Owned) -> Pairs:
    found = [(group, unit, place) for unit, groups in enumerate(owned) for place, group in enumerate(groups)]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Pairs(group=columns[:, 0], unit=columns[:, 1], place=columns[:, 2])


def owned() -> st.SearchStrategy[Owned]:
    some = st.lists(st.integers(0, GROUPS - 1), unique=True, max_size=GROUPS)
    return st.lists(some, min_size=1, max_size=UNITS)


def weights_of(owned: Owned, shown: set[int], most: int) -> NDArray[np.int64]:
    """Returns what each unit weighs in each group, by the words of the proof."""
    found = np.zeros((len(owned), GROUPS), dtype=np.int64)
    for unit, groups in enumerate(owned):
        counted = [group for group in groups if group not in shown][:most]
        for group in counted:
            found[unit, group] = weight_of(len(counted))
    return found


@given(owned(), st.integers(1, GROUPS), st.lists(st.lists(st.integers(-3, 5), min_size=GROUPS, max_size=GROUPS)))
@settings(max_examples=300, deadline=None)
def test_rounds_are_what_the_proof_says(groups_of: Owned, most: int, noises: list[list[int]]) -> None:
    """Plain loops give the same groups and numbers, under any noise."""
    given = [Round(variance=Fraction(i + 1), tau=2 * WEIGHT) for i in range(len(noises))]
    drawn = [np.array(noise, dtype=np.int64) * (WEIGHT // 2) for noise in noises]
    taken = iter(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "discrete_gaussian", lambda variance, size: next(taken))
        shown, numbers = in_rounds(pairs_of(groups_of), GROUPS, tuple(given), most)
    expected: dict[int, int] = {}
    for each, noise in zip(given, drawn, strict=True):
        exact = weights_of(groups_of, set(expected), most).sum(axis=0)
        noisy = exact + noise
        passed = [g for g in range(GROUPS) if g not in expected and exact[g] > 0 and noisy[g] >= each.tau]
        expected |= {g: int(noisy[g]) for g in passed}
    assert {g: int(numbers[g]) for g in np.flatnonzero(shown)} == expected


@given(owned(), st.sets(st.integers(0, GROUPS - 1)), st.integers(1, GROUPS), st.data())
@settings(max_examples=300, deadline=None)
def test_one_unit_moves_a_round_by_at_most_one(
    groups_of: Owned, shown: set[int], most: int, data: st.DataObject
) -> None:
    """Squared, by 1 where it comes or goes, by 2 where it is replaced; and by no other unit's weights."""
    other = data.draw(st.lists(st.integers(0, GROUPS - 1), unique=True))
    here = weights_of(groups_of, shown, most)
    gone = weights_of([[], *groups_of[1:]], shown, most)
    there = weights_of([other, *groups_of[1:]], shown, most)
    assert ((here - gone) ** 2).sum() <= WEIGHT**2
    assert ((here - there) ** 2).sum() <= 2 * WEIGHT**2
    assert (here[1:] == there[1:]).all()
    lone = (here.sum(axis=0) > 0) & (gone.sum(axis=0) == 0)
    assert lone.sum() <= most
    assert set(here.sum(axis=0)[lone].tolist()) <= {weight_of(int((here[0] > 0).sum()))} if lone.any() else True


@pytest.mark.parametrize("groups", [1, 2, 3, 7, 16, 40])
@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(20), Fraction(10**6)])
def test_what_one_unit_alone_has_is_shown_with_at_most_delta(groups: int, variance: Fraction) -> None:
    """For every number of groups, and nearly as often as that for the one that counts most."""
    delta = Fraction(1, 10**6)
    total = Fraction(0)
    for each in rounds_of(variance, groups, delta):
        chances = [t * tails.gaussian_tail(each.variance, each.tau - weight_of(t)) for t in range(1, groups + 1)]
        assert max(chances) <= delta / len(PARTS)
        assert max(chances) >= delta / len(PARTS) / 2 - Fraction(1, 10**9)
        total += max(chances)
    assert total <= delta


def test_rounds_share_rho() -> None:
    """The sum of 1 / (2 variance) over rounds is that of the whole, in squared units."""
    variance = Fraction(7, 3)
    made = rounds_of(variance, 3, Fraction(1, 1000))
    assert sum(1 / (2 * each.variance / WEIGHT**2) for each in made) == 1 / (2 * variance)


def test_noise_that_cannot_be_sampled_is_refused() -> None:
    for variance in (Fraction(2**60), Fraction(1, 2**80)):
        with pytest.raises(InvalidLossError):
            rounds_of(variance, 1, Fraction(1, 1000))
    with pytest.raises(InternalError):
        rounds_of(Fraction(1), 1, Fraction(0))


def test_a_weight_is_at_most_its_part() -> None:
    for count in range(1, 5000):
        assert count * weight_of(count) ** 2 <= WEIGHT**2 < count * (weight_of(count) + 1) ** 2


def test_pairs_of_another_shape_are_refused() -> None:
    wrong = Pairs(group=np.zeros(2, np.int64), unit=np.zeros(1, np.int64), place=np.zeros(2, np.int64))
    floats = Pairs(group=np.zeros(2, np.int64), unit=np.zeros(2), place=np.zeros(2, np.int64))  # type: ignore[arg-type]
    for pairs in (wrong, floats):
        with pytest.raises(InternalError):
            in_rounds(pairs, 1, tested.rounds_of(Fraction(1), 1, Fraction(1, 2)), 1)
