"""Permute-and-flip: its law against its definition, what it loses, its error, and doubtful draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpquery.kernel import permute_and_flip, samplers
from dpquery.kernel.choice_utilities import rank_error
from dpquery.kernel.exponential import Segments
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import calibrate
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import Mechanism, Noise
from dpquery.kernel.sensitivity import Sensitivity
from tests.flipped import flipped
from tests.unit.kernel.test_exponential import quantile

Floats = NDArray[np.float64]
CHANCES = (1.0, 0.9, 0.5, 0.5, 0.01)


def by_permutations(chances: Sequence[float]) -> list[float]:
    """Returns the law by its definition: all orders, and all outcomes of the flips."""
    found = [0.0] * len(chances)
    orders = [*itertools.permutations(range(len(chances)))]
    for order in orders:
        left = 1.0
        for t in order:
            found[t] += left * chances[t] / len(orders)
            left *= 1 - chances[t]
    return found


def test_the_law_is_that_of_the_definition() -> None:
    assert flipped(CHANCES) == pytest.approx(by_permutations(CHANCES), rel=1e-12)
    assert sum(flipped(CHANCES)) == pytest.approx(1)


def test_no_pair_of_neighbours_loses_more_than_its_range() -> None:
    """All utilities of four candidates from 0 to 3, moved apart by 0 or 1 each: one unit with values of weight 1."""
    coefficient, worst = 0.7, 0.0
    laws = {}
    for gaps in itertools.product(range(5), repeat=4):
        least = min(gaps)
        laws[gaps] = flipped([math.exp(-coefficient * (gap - least)) for gap in gaps])
    for gaps in itertools.product(range(4), repeat=4):
        for moved in itertools.product((0, 1), repeat=4):
            other = laws[tuple(g + m for g, m in zip(gaps, moved, strict=True))]
            ratios = [abs(math.log(a / b)) for a, b in zip(laws[gaps], other, strict=True)]
            worst = max(worst, *ratios)
    assert 0.9 * coefficient < worst <= coefficient * (1 + 1e-12)


@pytest.mark.parametrize("gaps", [(0, 0, 1, 3), (0, 1, 1, 1, 1, 1), (0, 5, 5, 9), (0, 0.1, 0.2, 0.3)])
def test_it_errs_less_than_the_exponential_mechanism_at_every_distance(gaps: tuple[float, ...]) -> None:
    """McKenna, Sheldon 2020, theorem 2; and the half of the bound that `rank_error` allows."""
    chances = [math.exp(-gap) for gap in gaps]
    law, masses = flipped(chances), [p / sum(chances) for p in chances]
    for far in sorted({*gaps} - {0}):
        beyond = [i for i, gap in enumerate(gaps) if gap >= far]
        assert sum(law[i] for i in beyond) <= sum(masses[i] for i in beyond)
        most = float(LAWS[Mechanism.PERMUTE_AND_FLIP].worst) * sum(chances[i] for i in beyond)
        assert sum(law[i] for i in beyond) <= most


@pytest.mark.parametrize("law", [Mechanism.EXPONENTIAL, Mechanism.PERMUTE_AND_FLIP])
@pytest.mark.parametrize("candidates", [6, 101, 5_000])
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.3, 10.0])
def test_what_is_said_of_ranks_is_the_least_for_the_worst_data_or_one_step_more(
    law: Mechanism, candidates: int, scale: float
) -> None:
    """One heavy value, and all others d off it: lost with at most 5 % beyond what is said, with more below it."""
    measure = quantile(0, candidates - 1, Fraction(1, 2))
    said = rank_error(measure, 1, Fraction(1 / scale), Fraction(1, 20), LAWS[law].worst) * 2
    assert said == int(said) >= 0

    def lost(off: float) -> float:
        fall = math.exp(-off / scale)
        if law is Mechanism.EXPONENTIAL:
            return 1 - 1 / (1 + (candidates - 1) * fall)
        others = 1 + math.expm1(candidates * math.log1p(-fall)) / (candidates * fall)
        if candidates == 6 and fall > 1e-6:
            assert others == pytest.approx(1 - flipped([1.0, *[fall] * (candidates - 1)])[0])
        return others

    assert lost(said + 1) <= 0.05
    assert said < 2 or candidates == 6 or lost(said - 1) > 0.05  # few others are 1 / (N c) nearer


def segments(groups: int, gaps: Sequence[int], widths: Sequence[int]) -> Segments:
    group = np.repeat(np.arange(groups), len(gaps))
    return Segments(
        group,
        np.zeros(len(group), np.int64),
        np.tile(np.array(widths, np.int64), groups),
        np.tile(np.array(gaps, np.int64), groups),
    )


FALSE_ALARM = 1e-9
SAMPLES = 100_000
GAPS, WIDTHS = (0, 1, 2, 5), (1, 3, 20, 60)


def expected(coefficient: Fraction) -> Floats:
    """Returns the law of segments: each is so many candidates."""
    owner = np.repeat(np.arange(len(GAPS)), WIDTHS)
    law = flipped([math.exp(-float(coefficient) * GAPS[i]) for i in owner])
    found: Floats = np.bincount(owner, weights=law).astype(np.float64)
    return found


def drawn(coefficient: Fraction, groups: int) -> Floats:
    chosen = permute_and_flip.flip(segments(groups, GAPS, WIDTHS), coefficient, groups)
    assert (chosen // len(GAPS) == np.arange(groups)).all()
    found: Floats = np.bincount(chosen % len(GAPS), minlength=len(GAPS)) / groups
    return found


@pytest.mark.parametrize("coefficient", [Fraction(1, 3), Fraction(1, 100), Fraction(3)])
def test_segments_are_drawn_by_the_law_of_their_candidates(coefficient: Fraction) -> None:
    allowed = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * SAMPLES))
    found = np.cumsum(drawn(coefficient, SAMPLES))
    assert np.abs(found - np.cumsum(expected(coefficient))).max() <= allowed
    if coefficient == 3:  # where the exponential mechanism's law is far enough
        masses = np.exp(-float(coefficient) * np.array(GAPS)) * WIDTHS
        assert np.abs(found - np.cumsum(masses / masses.sum())).max() > allowed


def test_what_is_decided_with_integers_has_the_law_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permute_and_flip, "_MARGIN", 10.0)
    coefficient, groups = Fraction(1, 3), 1500
    allowed = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * groups))
    gap = np.abs(np.cumsum(drawn(coefficient, groups)) - np.cumsum(expected(coefficient)))
    assert gap.max() <= allowed


def test_floats_and_integers_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each proposal that is not the best is decided again with integers, and both ways as a closed form says."""
    begun: list[tuple[Any, ...]] = []
    to_the_end = permute_and_flip._to_the_end

    def recorded(*state: Any) -> int:
        begun.append(state)
        proposed: int = state[2]
        return proposed

    monkeypatch.setattr(permute_and_flip, "_to_the_end", recorded)
    monkeypatch.setattr(permute_and_flip, "_MARGIN", 10.0)
    permute_and_flip.flip(segments(1500, GAPS, (1, 1, 1, 1)), Fraction(1, 3), 1500)
    monkeypatch.setattr(permute_and_flip, "exactly", lambda *_: 0)  # the best: what is proposed after a refusal
    decided = {True: 0, False: 0}
    for found, coefficient, proposed, passed, draws, leading in begun:
        p = math.exp(-float(coefficient) * int(found.gap[proposed]))
        mass = sum(math.exp(-float(coefficient) * gap) for gap in GAPS)
        time = passed * 2.0**-40 / mass
        chance = 1 / (p + (1 - p) * math.exp(time))
        if abs(leading * 2.0**-32 - chance) > 1e-8:
            accepted = to_the_end(found, coefficient, proposed, passed, draws, leading) == proposed
            assert accepted is (leading * 2.0**-32 < chance)
            decided[accepted] += 1
    assert min(decided.values()) > 50


def test_digits_of_times_are_those_of_an_exponential_variable() -> None:
    """The thresholds are P(digit = 0) = 1 / (1 + exp(-2^-i)), and digits before and after a cut are one number's."""
    for i, threshold in zip(range(-7, 301), permute_and_flip._thresholds(-7, 300), strict=True):
        chance = 1 / (1 + math.exp(-(2.0**-i)))
        assert threshold / 2**320 == pytest.approx(chance, rel=1e-12)
    assert permute_and_flip._thresholds(-7, 300)[48:] == permute_and_flip._thresholds(41, 300)
    times = permute_and_flip._times(200_000) / 2.0**40
    assert times.min() >= 0
    for at in (0.01, 0.5, 1.0, 4.0):
        assert abs((times <= at).mean() - (1 - math.exp(-at))) < math.sqrt(math.log(2e9) / 400_000)


def test_without_noise_the_best_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "random_bytes", bytes)
    assert permute_and_flip.flip(segments(3, GAPS, WIDTHS), Fraction(1, 9), 3).tolist() == [0, 4, 8]


def test_it_is_paid_with_epsilon_alone_and_costs_half_its_square_in_rho() -> None:
    moved = Sensitivity(linf=3, l1=6, l2_squared=18)
    pure = calibrate(moved, Noise(mechanism=Mechanism.PERMUTE_AND_FLIP, loss=PrivacyLoss(epsilon=Fraction(1, 2))))
    assert pure.parameter == Fraction(1, 12)
    law = LAWS[Mechanism.PERMUTE_AND_FLIP]
    assert law.rho(PrivacyLoss(epsilon=Fraction(1, 2))) == Fraction(1, 8) and not law.in_rho
