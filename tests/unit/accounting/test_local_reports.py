"""Randomised response: the law of reports, decided by integers, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpquery.accounting import local_reports
from dpquery.accounting.directed_bounds import exp_up
from dpquery.accounting.local_reports import flip, shift
from dpquery.errors import InternalError
from dpquery.kernel import samplers
from tests.statistical.laws import Floats, Integers, allowed_gap, largest_gap

FALSE_ALARM = 1e-9
SAMPLES = 200_000


def flipped(true: int, categories: int, epsilon: float) -> Callable[[Integers], Floats]:
    """Returns the distribution function of k-ary reports of one value."""
    masses = np.where(np.arange(categories) == true, math.exp(epsilon), 1.0)
    return _function(masses)


def shifted(true: int, places: list[int], epsilon: float) -> Callable[[Integers], Floats]:
    """Returns the distribution function of reports of one number on a grid."""
    distances = np.abs(np.array(places) - places[true])
    return _function(np.exp(-epsilon * distances / (2 * (max(places) - min(places)))))


def _function(masses: Floats) -> Callable[[Integers], Floats]:
    sums = np.cumsum(masses) / masses.sum()
    return lambda k: np.where(k < 0, 0.0, sums[np.clip(k, 0, len(sums) - 1)])


@pytest.mark.parametrize(("factor", "accepted"), [(1, True), (0.95, False), (1.05, False)])
@pytest.mark.parametrize("categories", [2, 5])
def test_flipped_reports_have_their_law_and_no_other(categories: int, factor: float, accepted: bool) -> None:
    reports = flip(np.full(SAMPLES, 1, np.int64), categories, Fraction(3, 2))
    gap = largest_gap(reports, flipped(1, categories, 1.5 * factor))
    assert (gap <= allowed_gap(SAMPLES, FALSE_ALARM)) is accepted


@pytest.mark.parametrize(("factor", "accepted"), [(1, True), (0.85, False), (1.15, False)])
@pytest.mark.parametrize("true", [0, 3])
def test_shifted_reports_have_their_law_and_no_other(true: int, factor: float, accepted: bool) -> None:
    places = [0, 10, 20, 25, 100]
    reports = shift(np.full(SAMPLES, true, np.int64), [Fraction(place) for place in places], Fraction(6))
    gap = largest_gap(reports, shifted(true, places, 6 * factor))
    assert (gap <= allowed_gap(SAMPLES, FALSE_ALARM)) is accepted


def _scripted(monkeypatch: pytest.MonkeyPatch, uniform: int) -> None:
    """Makes the next uniform number of 320 bits this one."""
    parts = [(uniform >> 256).to_bytes(8, "little"), (uniform & (2**256 - 1)).to_bytes(32, "little")]
    monkeypatch.setattr(samplers, "random_bytes", lambda size: parts.pop(0) if parts else bytes(size))


@pytest.mark.parametrize(("beyond", "report"), [(-1, 0), (0, 1), (1, 1)])
def test_a_doubtful_draw_is_decided_by_all_its_bits(monkeypatch: pytest.MonkeyPatch, beyond: int, report: int) -> None:
    power, one = samplers.exponential(Fraction(1)), samplers.exponential(Fraction(0))
    _scripted(monkeypatch, (one << 320) // (one + power) + beyond)
    assert flip(np.zeros(1, np.int64), 2, Fraction(1)).tolist() == [report]


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(64)])
@pytest.mark.parametrize("categories", [2, 1000])
def test_no_report_tells_more_than_epsilon(monkeypatch: pytest.MonkeyPatch, categories: int, epsilon: Fraction) -> None:
    found: list[int] = []
    monkeypatch.setattr(local_reports, "_drawn", lambda t, n: found.extend(t) or np.zeros(n, np.int64))  # type: ignore[func-returns-value]
    flip(np.zeros(1, np.int64), categories, epsilon)
    kept = Fraction(found[0], 2**320)
    lie = (1 - kept) / (categories - 1)
    slack = Fraction(1, 2**200)
    assert kept / lie <= exp_up(epsilon) * (1 + slack)
    assert kept > lie


def test_no_shifted_report_tells_more_than_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    epsilon, places = Fraction(2), [Fraction(n) for n in (0, 1, 5, 6, 40)]
    laws: list[list[Fraction]] = []

    def drawn(thresholds: list[int], size: int) -> Integers:
        sums = [Fraction(0), *(Fraction(t, 2**320) for t in thresholds), Fraction(1)]
        laws.append([after - before for before, after in pairwise(sums)])
        return np.zeros(size, np.int64)

    monkeypatch.setattr(local_reports, "_drawn", drawn)
    shift(np.arange(5, dtype=np.int64), places, epsilon)
    worst = max(a / b for one in laws for other in laws for a, b in zip(one, other, strict=True))
    assert 1 < worst <= exp_up(epsilon) * (1 + Fraction(1, 2**200))


def test_a_bit_source_of_zeros_tells_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "random_bytes", bytes)
    assert flip(np.arange(4, dtype=np.int64), 4, Fraction(1)).tolist() == [0, 1, 2, 3]


def test_lies_are_spread_over_all_other_categories() -> None:
    reports = flip(np.full(SAMPLES, 2, np.int64), 4, Fraction(1, 100))
    assert set(np.unique(reports).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("values", "categories", "epsilon"),
    [
        ([0], 1, Fraction(1)),
        ([0], 1001, Fraction(1)),
        ([2], 2, Fraction(1)),
        ([-1], 2, Fraction(1)),
        ([0], 2, Fraction(0)),
        ([0], 2, Fraction(65)),
        ([0], 2, 1.0),
    ],
)
def test_what_has_no_proof_is_refused(values: list[int], categories: int, epsilon: Fraction) -> None:
    with pytest.raises(InternalError):
        flip(np.array(values, np.int64), categories, epsilon)


def test_grids_and_places_are_checked() -> None:
    with pytest.raises(InternalError):
        shift(np.zeros(1, np.int64), [Fraction(1), Fraction(1), Fraction(2)], Fraction(1))
    with pytest.raises(InternalError):
        flip(np.zeros(1, np.float64), 2, Fraction(1))
    assert flip(np.zeros(0, np.int64), 2, Fraction(1)).tolist() == []
