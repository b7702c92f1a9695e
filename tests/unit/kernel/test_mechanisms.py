"""Noise in finer steps than those that are released: its scale, its rounding, and its interval."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel import samplers
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, calibrate, calibrated, least_tau, recomputed, tau_of
from dpquery.kernel.plan import WEIGHT, BudgetedAggregate, Mechanism, Noise, Weighing
from dpquery.kernel.release import _rounding, _whole
from dpquery.kernel.sensitivity import Sensitivity, coarseness, coarsest, sensitivity
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, UNITS, aggregate, total, weights

LAPLACE = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1, 2)))
GAUSSIAN = Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(rho=Fraction(1, 8)))
MOVED = Sensitivity(linf=3, l1=6, l2_squared=18)
ADD = Neighbours.ADD_REMOVE


def _noise(mechanism: Mechanism, amount: Fraction) -> Noise:
    gaussian = mechanism is Mechanism.GAUSSIAN
    return Noise(mechanism=mechanism, loss=PrivacyLoss(rho=amount) if gaussian else PrivacyLoss(epsilon=amount))


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


@pytest.mark.parametrize("mechanism", [Mechanism.LAPLACE, Mechanism.GAUSSIAN])
def test_a_small_loss_is_noised_in_the_finest_steps_that_can_be_sampled(mechanism: Mechanism) -> None:
    """R follows from the loss: up to `COARSEST_STEPS` lattice steps of a sum, and one counted thing."""
    power = 2 if mechanism is Mechanism.GAUSSIAN else 1
    most = samplers.MAX_GAUSSIAN_VARIANCE if power == 2 else samplers.MAX_LAPLACE_SCALE
    large = total(0, 2**41)
    plan = aggregate(ROWS, large, weights=weights(Weighing.COUNTED, 2, most=8), keys=4)
    for loss in (Fraction(1), Fraction(1, 2**9), Fraction(1, 2**12), Fraction(1, 2**17)):
        noise = _noise(mechanism, loss**power)
        rows, sums = calibrated(BudgetedAggregate(aggregate=plan, noise=(noise, noise)), ADD)
        assert rows.steps == WEIGHT  # 2^26 steps at most: all these losses are large for it
        assert sums.sampled <= most
        coarse = int(WEIGHT / Fraction(sums.steps))
        assert coarse == coarseness(plan, large) or most < sums.sampled * 2**power, "no coarser than it has to be"
        moved = sensitivity(plan, large, ADD, coarse)
        assert sums == calibrate(moved, noise, sums.steps)
        assert moved.linf == 2**42 + Fraction(coarse, WEIGHT)
    assert sums.steps < 1
    tiny = _noise(mechanism, Fraction(1, 2**35) ** power)
    rows, _ = calibrated(BudgetedAggregate(aggregate=plan, noise=(tiny, noise)), ADD)
    assert 1 <= rows.steps < WEIGHT
    with pytest.raises(InvalidLossError, match="too large"):
        calibrated(BudgetedAggregate(aggregate=plan, noise=(noise, tiny)), ADD)


def test_whole_steps_are_as_they_were() -> None:
    made = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(12))
    assert made.half_width(Fraction(1, 20)) == 36
    assert made.tail(1) < Fraction(1, 2)


@pytest.mark.parametrize("kept", ["filter", "groups"])
def test_what_is_not_made_coarser_is_refused(kept: str) -> None:
    """What shares its bound with disjoint filters, and what may change any number of groups."""
    measure = total(0, 2**17, filter="v_ok" if kept == "filter" else None)
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, 1), keys=4 if kept == "filter" else None)
    noise = _noise(Mechanism.GAUSSIAN, Fraction(1, 2**30))
    assert coarsest(plan, measure, ADD) == coarseness(plan, measure) == 1
    with pytest.raises(InvalidLossError, match="too large"):
        calibrated(BudgetedAggregate(aggregate=plan, noise=(noise,)), ADD)
    free = replace(measure, filter=None)
    plan = replace(plan, measures=(free,), weights=weights(Weighing.COUNTED, 1, most=5))
    (made,) = calibrated(BudgetedAggregate(aggregate=plan, noise=(noise,)), ADD)
    assert 1 < made.steps < WEIGHT


def test_sums_in_coarser_steps_are_given_in_lattice_steps() -> None:
    """Also beyond 64 bits."""
    plan = aggregate(total(0, 2**41), weights=weights(Weighing.COUNTED, 2, most=8), keys=4)
    for steps in (Fraction(1, 1024), Fraction(1, 2), 1, 4, WEIGHT):
        law = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(2**60), steps=steps)
        assert _rounding(plan, plan.measures[0], law) * Fraction(steps) == WEIGHT
    given = np.array([-(2**60), -1, 0, 3, 2**60], dtype=np.int64)
    assert _whole(given, Fraction(1, 1024)).tolist() == [1024 * int(number) for number in given]
    made = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(2**60), steps=Fraction(1, 1024))
    same = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(2**50)).half_width(Fraction(1, 20))
    assert 1024 * same < made.half_width(Fraction(1, 20)) <= 1024 * (same + 1) + 1


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
    assert tau == least_tau(noises[0], 5, Fraction(1, 10**6)) == tau_of(budgeted, noises)
    assert noises[0].tail(tau - 1) <= Fraction(1, 5 * 10**6) < noises[0].tail(tau - 2)
