"""Noise in finer steps than those that are released: its scale, its rounding, and its interval."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import samplers
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, calibrate, calibrated, recomputed, tau_of, threshold
from dpquery.kernel.plan import WEIGHT, BudgetedAggregate, Mechanism, Noise, Weighing
from dpquery.kernel.release import _whole
from dpquery.kernel.sensitivity import Sensitivity
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, UNITS, aggregate, total, weights

LAPLACE = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1, 2)))
GAUSSIAN = Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(rho=Fraction(1, 8)))
MOVED = Sensitivity(linf=3, l1=6, l2_squared=18)
ADD = Neighbours.ADD_REMOVE


def test_a_scale_is_in_lattice_steps_whatever_the_finer_ones() -> None:
    for steps in (1, 4, WEIGHT):
        assert calibrate(MOVED, LAPLACE, steps).parameter == 12
        assert calibrate(MOVED, GAUSSIAN, steps).parameter == 72
        assert calibrate(MOVED, LAPLACE, steps).steps == steps


@pytest.mark.parametrize("steps", [1, 8, WEIGHT])
def test_noise_is_drawn_in_finer_steps(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def sample(parameter: Fraction, size: int) -> np.ndarray:
        asked.append(parameter)
        return np.zeros(size, np.int64)

    monkeypatch.setattr(samplers, "discrete_laplace", sample)
    monkeypatch.setattr(samplers, "discrete_gaussian", sample)
    calibrate(MOVED, LAPLACE, steps).sample(3)
    calibrate(MOVED, GAUSSIAN, steps).sample(3)
    assert asked == [12 * steps, 72 * steps**2]


def test_finer_noise_has_to_be_within_what_is_sampled() -> None:
    large = Sensitivity(linf=2**40, l1=2**40, l2_squared=2**80)
    for noise in (LAPLACE, GAUSSIAN):
        calibrate(large, noise)
        with pytest.raises(InvalidLossError):
            calibrate(large, noise, WEIGHT)


@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
@pytest.mark.parametrize("steps", [2, 7, 64, WEIGHT])
@pytest.mark.parametrize("parameter", [Fraction(1, 100), Fraction(1), Fraction(50)])
def test_the_interval_covers_noise_and_rounding(mechanism: Mechanism, steps: int, parameter: Fraction) -> None:
    """Where the noise is within its own interval, the whole number is within w of the exact one."""
    failure = Fraction(1, 20)
    made = NoiseLaw(mechanism=mechanism, parameter=parameter, steps=steps)
    power = 2 if mechanism is Mechanism.GAUSSIAN else 1
    fine = NoiseLaw(mechanism=mechanism, parameter=parameter * steps**power).half_width(failure)
    width = made.half_width(failure)
    exact = np.unique(np.linspace(-3 * steps, 3 * steps, 1001).astype(np.int64))
    for drawn in (-fine, fine, -fine // 2, 0):
        released = _whole(exact + drawn, steps)
        below = exact.astype(object) + Fraction(999, 1000)  # what was rounded down to the exact number of fine steps
        assert max(abs(released - exact / steps)) <= width
        assert all(abs(int(r) - b / steps) <= width for r, b in zip(released[::50], below[::50], strict=True))
    assert width <= Fraction(fine, steps) + 2, "no wider than it has to be"


def test_whole_steps_are_as_they_were() -> None:
    made = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(12))
    assert made.half_width(Fraction(1, 20)) == 36
    assert made.tail(1) < Fraction(1, 2)


def test_no_threshold_on_finer_steps() -> None:
    with pytest.raises(InternalError):
        NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(1), steps=2).tail(3)


def test_the_noise_of_a_plan_follows_from_its_weights() -> None:
    measures = (ROWS, UNITS, total(0, 2**20))
    plan = aggregate(*measures, weights=weights(Weighing.COUNTED, 2, groups=2, most=8), keys=4)
    budgeted = BudgetedAggregate(aggregate=plan, noise=(LAPLACE,) * 3)
    rows, units, sums = calibrated(budgeted, ADD)
    assert (rows.parameter, rows.steps) == (Fraction(4), WEIGHT)
    assert (units.parameter, units.steps) == (Fraction(4), WEIGHT)
    assert (sums.parameter, sums.steps) == (2 * (2**21 + Fraction(8, WEIGHT) * 4), WEIGHT // 8)
    whole = replace(budgeted, aggregate=replace(plan, weights=weights(Weighing.WHOLE, 2, groups=2)))
    assert [(made.parameter, made.steps) for made in calibrated(whole, ADD)] == [
        (Fraction(most), 1) for most in (4, 4, 2**22)
    ]


def test_a_threshold_shares_delta_over_the_groups_of_a_unit() -> None:
    plan = aggregate(UNITS, weights=weights(Weighing.COUNTED, 9, groups=5), keys=None, selection="u")
    budgeted = BudgetedAggregate(aggregate=plan, noise=(LAPLACE,), selection_delta=Fraction(1, 10**6))
    noises, tau = recomputed(budgeted, ADD)
    assert noises[0].parameter == 10 and noises[0].steps == 1
    assert tau == threshold(noises[0], 5, Fraction(1, 10**6)) == tau_of(budgeted, noises)
    assert noises[0].tail(tau - 1) <= Fraction(1, 5 * 10**6) < noises[0].tail(tau - 2)
