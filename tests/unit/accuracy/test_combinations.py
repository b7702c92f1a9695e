"""How far sums of noises are off: as closed forms and convolutions have it, and never more than their half-widths."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.combinations import half_width, together
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism

FAILURE = Fraction(1, 20)


def laplace(scale: Fraction | int) -> NoiseLaw:
    return NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(scale))


def gaussian(variance: int) -> NoiseLaw:
    return NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(variance))


@pytest.mark.parametrize("factor", [1, Fraction(-3, 7)])
def test_of_one_noise_it_is_its_own(factor: Fraction) -> None:
    for noise in (laplace(3), gaussian(100)):
        assert half_width([(Fraction(factor), noise)], FAILURE) == abs(factor) * noise.half_width(FAILURE)


def test_two_laplace_noises_are_as_their_closed_form() -> None:
    """P(|X + Y| > x) = exp(-x) (1 + x / 2) for scales of 1."""
    found = float(half_width([(Fraction(1), laplace(1000)), (Fraction(-1), laplace(1000))], FAILURE)) / 1000
    assert 0.85 * FAILURE < math.exp(-found) * (1 + found / 2) < 1.01 * FAILURE
    assert float(together([(Fraction(1), laplace(1000))] * 2, FAILURE / 2)) / 1000 == pytest.approx(
        2 * math.log(40), rel=0.01
    )


@pytest.mark.parametrize("count", [2, 4, 9])
def test_normal_noises_add_up_in_squares(count: int) -> None:
    parts = [(Fraction(i + 1), gaussian(10**6)) for i in range(count)]
    size = 1000 * math.sqrt(sum((i + 1) ** 2 for i in range(count)))
    assert float(half_width(parts, FAILURE)) == pytest.approx(1.96 * size, rel=0.03)


@pytest.mark.parametrize("scales", [("1/2", "7/10"), ("2", "1/3"), ("5", "5", "5")])
def test_noise_of_few_steps_has_its_own_law(scales: tuple[str, ...]) -> None:
    law = np.ones(1)
    for scale in scales:
        law = np.convolve(law, np.exp(-np.abs(np.arange(-200, 201)) / float(Fraction(scale))))
    law /= law.sum()
    steps = np.abs(np.arange(len(law)) - len(law) // 2)
    found = half_width([(Fraction(1), laplace(Fraction(scale))) for scale in scales], FAILURE)
    assert law[steps > found].sum() <= 1.1 * FAILURE and law[steps > found - 1].sum() > 0.9 * FAILURE


def test_a_confidence_too_high_to_be_simulated_adds_up_half_widths() -> None:
    parts = [(Fraction(1), laplace(1000)), (Fraction(2), laplace(1000))]
    rare = Fraction(1, 10**6)
    assert half_width(parts, rare) == together(parts, rare / 2) == 3 * laplace(1000).half_width(rare / 2)
