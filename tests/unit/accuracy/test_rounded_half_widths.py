"""Half-widths of rounded numbers hold for every exact number, and are narrower than half a step for any rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.rounded_half_widths import half_width
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism

FAILURE, STEPS = Fraction(1, 20), 2**24


def law(mechanism: Mechanism, scale: Fraction, steps: int | Fraction = STEPS) -> NoiseLaw:
    parameter = scale if mechanism is Mechanism.LAPLACE else scale**2
    return NoiseLaw(mechanism=mechanism, parameter=parameter, steps=steps)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(3), Fraction(6)])
@pytest.mark.parametrize("failure", [FAILURE, Fraction(1, 3)])
def test_they_hold_for_every_exact_number_and_are_the_least(
    mechanism: Mechanism, scale: Fraction, failure: Fraction
) -> None:
    """100,000 draws, rounded on each of 65 exact numbers: the law of the error is summed up, with its deviations."""
    noise = law(mechanism, scale)
    found = float(half_width(noise, failure))
    drawn = noise.sample(100_000) / STEPS
    exact = np.linspace(0, 1, 65)
    errors = np.abs(np.floor(drawn[:, None] + exact + 0.5) - exact)
    slack = 5 * (float(failure) / 100_000) ** 0.5
    worst = (errors > found + 1e-6).mean(axis=0).max()
    assert worst <= float(failure) + slack
    assert (errors > found - 0.13).mean(axis=0).max() >= float(failure) - slack  # two parts and the exact numbers' step
    assert found <= noise.half_width(failure)


def test_others_are_those_of_the_kernel() -> None:
    for noise in (
        law(Mechanism.LAPLACE, Fraction(3), 1),
        law(Mechanism.LAPLACE, Fraction(1000)),
        law(Mechanism.GAUSSIAN, Fraction(3), Fraction(1, 4)),
    ):
        assert half_width(noise, FAILURE) == noise.half_width(FAILURE)
