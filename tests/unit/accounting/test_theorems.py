"""Theorems of the introductory course, each against all cases of a small one, or against another of the theorems."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpquery import accounting, mechanisms
from dpquery.errors import InsufficientBudgetError, InvalidLossError

SIZE = 6
SUBSETS = np.array(list(itertools.product((0, 1), repeat=SIZE)), dtype=np.int64)
EXACT = SUBSETS @ SUBSETS.T  # counts of each subset (column) for each candidate (row)


@pytest.mark.parametrize("error", [0, 0.5, 1, 1.25])
def test_no_bits_that_agree_with_all_answers_have_more_than_4e_wrong(error: float) -> None:
    allowed = accounting.reconstruction_error(error, people=SIZE)
    reached = 0
    for truth, other in itertools.combinations(range(len(SUBSETS)), 2):
        # Answers between those of two candidates hide the most that there is to hide.
        gap = np.abs(EXACT[truth] - EXACT[other]).max()
        if gap <= 2 * error:
            wrong = int(np.abs(SUBSETS[truth] - SUBSETS[other]).sum())
            assert wrong <= allowed
            reached = max(reached, wrong)
    assert reached == min(SIZE, 2 * math.floor(2 * error))


@pytest.mark.parametrize(("epsilon", "people"), [("0.5", 40), ("1", 60), ("3", 25)])
def test_an_estimate_from_responses_is_within_its_error_with_the_confidence(epsilon: str, people: int) -> None:
    error, odds = float(accounting.response_error(epsilon, people=people)), math.exp(float(epsilon))
    chance = odds / (1 + odds)
    for ones in (0, people // 3, people):
        law = np.array([1.0])
        for place in range(people):
            one = chance if place < ones else 1 - chance
            law = np.convolve(law, [1 - one, one])
        estimates = (np.arange(people + 1) - people * (1 - chance)) / (2 * chance - 1)
        assert law[np.abs(estimates - ones) > error].sum() <= 0.05
    shorter = float(accounting.response_error(epsilon, people=people, confidence="0.5"))
    assert shorter < error < float(accounting.response_error(epsilon, people=4 * people))


def test_laplace_noise_beats_randomised_response_and_the_plot_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pytest.importorskip("matplotlib")
    functions: dict[str, Any] = {
        "Laplace": lambda e: accounting.laplace_error(1 / e),
        "responses": lambda e: accounting.response_error(e, people=1000),
    }
    first, second = accounting.plot_errors(functions, ["0.1", 1, 3]).get_lines()
    assert (np.asarray(first.get_ydata(), float) < np.asarray(second.get_ydata(), float)).all()
    assert first.get_label() == "Laplace"


def test_densities_of_neighbours_are_apart_by_epsilon_and_have_a_sum_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pytest.importorskip("matplotlib")
    x = np.linspace(-60, 60, 24_001)
    for make in (accounting.laplace_density, accounting.gaussian_density):
        assert sum(map(make("2", 1.0), x)) * (x[1] - x[0]) == pytest.approx(1, abs=1e-6)
    apart = [abs(math.log(accounting.laplace_density(2)(a) / accounting.laplace_density(2, 1)(a))) for a in x]
    assert max(apart) == pytest.approx(0.5)
    axes = accounting.plot_densities({"one": accounting.laplace_density(1)}, lower=-2, upper=2, points=5)
    assert np.asarray(axes.get_lines()[0].get_xdata(), float).tolist() == [-2, -1, 0, 1, 2]
    with pytest.raises(InvalidLossError):
        accounting.plot_densities({}, lower=1, upper=1)


def test_composed_responses_are_those_of_the_optimal_theorem() -> None:
    pytest.importorskip("dp_accounting")
    both = accounting.compose([accounting.randomised_response("0.5")] * 4)
    for alarm in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)):
        exact = max(
            accounting.approximate(e, accounting.optimal_delta("0.5", 4, total_epsilon=e))(alarm)
            for e in (Fraction(i, 20) for i in range(41))
        )
        assert exact - Fraction(1, 1000) <= both(alarm) <= exact


def test_composed_gaussians_are_one_gaussian_from_below() -> None:
    pytest.importorskip("dp_accounting")
    both = accounting.compose([accounting.gaussian(5), accounting.gaussian(5, sensitivity=2)])
    one = accounting.gaussian(1, sensitivity=Fraction(math.isqrt(5 * 10**12), 5 * 10**6))  # mu is sqrt(1 + 4) / 5
    for alarm in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)):
        assert one(alarm) - Fraction(1, 200) <= both(alarm) <= one(alarm) + Fraction(1, 10**6)


def test_leaks_compose_and_what_is_not_known_is_refused() -> None:
    pytest.importorskip("dp_accounting")
    twice = accounting.compose([accounting.leak("0.1"), accounting.leaky_response("1", "0.1"), accounting.laplace(2)])
    assert Fraction(81, 100) - Fraction(1, 1000) <= twice(0) <= Fraction(81, 100)
    for nothing in ([], [accounting.TradeOff("mine", lambda x: 1 - x)]):
        with pytest.raises(InvalidLossError):
            accounting.compose(nothing)


def test_responses_are_paid_for_once() -> None:
    paying = mechanisms.Accountant(epsilon=2)
    mechanisms.randomised_response([0, 1, 1], epsilon="1.5", categories=2, to=paying)
    assert paying.spent == accounting.loss(epsilon="1.5")
    with pytest.raises(InsufficientBudgetError):
        mechanisms.randomised_response([0], epsilon="0.6", distances=[[0, 1], [1, 0]], to=paying)


@pytest.mark.parametrize("cells", [1, 4, 100])
def test_laplace_noise_of_d_cells_is_within_its_error_with_the_confidence(cells: int) -> None:
    scale, error = 3.0, float(accounting.laplace_error(3, cells=cells, confidence="0.9"))
    within = (1 - math.exp(-error / scale)) ** cells  # of independent noise: a little more than the union bound says
    assert 0.9 - 1e-12 <= within <= (0.9 + 1e-9 if cells == 1 else 0.91)
    epsilon = accounting.laplace_epsilon(Fraction(error), cells=cells, confidence="0.9")
    assert float(epsilon) == pytest.approx(1 / scale)


@pytest.mark.parametrize("counts", [[9000, 8700, 120, *[3] * 197], [40] * 3 + [20] * 197, [17] + [0] * 199])
def test_the_chosen_nationality_is_within_the_utility_theorem(counts: list[int]) -> None:
    error = float(accounting.exponential_error(1, candidates=200))
    assert error == pytest.approx(2 * math.log(200 / 0.05))
    masses = np.exp((np.array(counts, float) - max(counts)) / 2)  # e^(epsilon score / (2 sensitivity))
    assert masses[np.array(counts) < max(counts) - error].sum() / masses.sum() <= 0.05


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_post_processing_tells_an_attacker_no_more(epsilon: str) -> None:
    wrong = math.exp(-float(epsilon) / 2) / 2  # of a bit that is read from Laplace noise around 0 or 1, half-way
    read = accounting.randomised_response(math.log((1 - wrong) / wrong))
    noisy = accounting.laplace(1 / Fraction(epsilon))
    for place in range(21):
        assert read(Fraction(place, 20)) >= noisy(Fraction(place, 20)) - Fraction(1, 10**9)
    half = Fraction(wrong)
    assert float(read(half)) == pytest.approx(float(noisy(half)), abs=1e-9)  # there the bit is all that is told


@pytest.mark.parametrize(("scale", "other", "order"), [("2", "3", 2.0), ("2", "2", 8.0), ("3", "2", 1.5)])
def test_gaussians_of_two_variances_are_as_far_apart_as_their_integral(scale: str, other: str, order: float) -> None:
    x = np.linspace(-200, 200, 400_001)
    here = -(((x - 1) / float(scale)) ** 2) / 2 - math.log(float(scale))
    there = -((x / float(other)) ** 2) / 2 - math.log(float(other))
    mass = np.exp(order * here + (1 - order) * there).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    found = accounting.gaussians_rdp(1, scale=scale, other_scale=other, orders=[order])[Fraction(order)]
    assert float(found) == pytest.approx(math.log(mass) / (order - 1), rel=1e-6)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_sample_of_response_attains_the_amplified_loss(replaced: bool) -> None:
    people, drawn, epsilon = 5, 2, 1.5
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    if replaced:  # samples of 2 out of 5; the bit of the first person is 1 or 0, and all others are 0
        samples = list(itertools.combinations(range(people), drawn))
        share = Fraction(drawn, people)
        here = sum(true if 0 in sample else 1 - true for sample in samples) / len(samples)
    else:  # the first person is in a Poisson sample with this chance, or is not there
        share = Fraction(3, 10)
        here = float(share) * true + (1 - float(share)) * (1 - true)
    seen = math.log(here / (1 - true))
    assert seen == pytest.approx(float(accounting.subsampled(accounting.loss(epsilon=epsilon), share).epsilon))


@pytest.mark.parametrize("questions", [1, 7, 200])
def test_the_least_error_is_the_least_of_all_ways(questions: int) -> None:
    ways = accounting.least_error(questions, epsilon=1, delta="1e-6")
    assert ways[0].error == min(way.error for way in ways) and len(ways) == 4
    for way in ways:
        error = accounting.laplace_error if way.name.startswith("Laplace") else accounting.gaussian_error
        assert float(way.error) == pytest.approx(float(error(way.scale, cells=questions)))
    sums = next(way for way in ways if way.name == "Laplace, sums of epsilon")
    assert sums.scale == questions
    assert [way.name for way in accounting.least_error(questions, epsilon=1)] == [sums.name]
