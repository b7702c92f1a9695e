"""Intervals of numbers that decided which groups are shown: how often they hold among these is computed, not drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.selection_intervals import shown_interval
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism

FAILURE = Fraction(1, 20)


def chances(noise: NoiseLaw, places: np.ndarray) -> np.ndarray:
    scale = float(noise.parameter)
    weights = np.exp(-np.abs(places) / scale if noise.mechanism is Mechanism.LAPLACE else -(places**2) / (2 * scale))
    found: np.ndarray = weights / weights.sum()
    return found


@pytest.mark.parametrize(("scale", "tau"), [(Fraction(1, 2), 9), (Fraction(3), 44), (Fraction(40), 540)])
@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
def test_they_hold_among_the_groups_that_are_shown(mechanism: Mechanism, scale: Fraction, tau: int) -> None:
    laplace = mechanism is Mechanism.LAPLACE
    noise = NoiseLaw(mechanism=mechanism, parameter=scale if laplace else scale**2)
    reach = math.ceil((60 if laplace else 14) * scale)
    places = np.arange(-reach, reach + 1)
    likely = chances(noise, places)
    for units in {1, 2, tau // 2, tau - 1, tau, tau + 1, tau + int(2 * scale), tau + int(5 * scale), 20 * tau}:
        released = units + places.astype(float)
        shown = released >= tau
        if likely[shown].sum() < 1e-12:
            continue
        found = shown_interval(noise, tau, released[shown], FAILURE)
        held = (found.lower <= units) & (units <= found.upper)
        assert likely[shown][held].sum() / likely[shown].sum() >= 0.95
        assert (found.lower >= 1).all() and (found.lower <= released[shown]).all()


@pytest.mark.parametrize("mechanism", list(Mechanism)[:2])
def test_far_above_the_threshold_they_are_as_of_other_counts(mechanism: Mechanism) -> None:
    noise = NoiseLaw(mechanism=mechanism, parameter=Fraction(25))
    width = noise.half_width(FAILURE)
    found = shown_interval(noise, 100, np.array([100.0, 400.0]), FAILURE)
    assert (found.lower[1], found.upper[1]) == pytest.approx((400 - width, 400 + width), abs=1)
    assert found.lower[0] == 1 and found.upper[0] == 100 + width
