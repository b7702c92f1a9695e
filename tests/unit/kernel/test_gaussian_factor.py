"""What Gaussian noise satisfies by itself: the continuous law against Mills' ratios, the claim against sums over the
discrete law itself."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.accounting import gaussian_calibration as oracle
from dpquery.kernel.gaussian_factor import LEAST_DELTA, factor_alone, gaussian_delta, square_within
from dpquery.kernel.loss import PrivacyLoss, rho_within
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import (
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Weighing,
)
from dpquery.plan.keys import Key
from dpquery.plan.logical import Scan
from dpquery.plan.types import INT64
from dpquery.units.declarations import Neighbours
from tests.weights import by_hand

AMOUNTS = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 10), Fraction(1, 10**9)),
    (Fraction(10), Fraction(1, 10**5)),
    (Fraction(50), Fraction(1, 10)),
    (Fraction(1, 1000), Fraction(1, 10**30)),
]


@pytest.mark.parametrize(("epsilon", "delta"), AMOUNTS)
def test_the_continuous_law_is_that_of_the_other_proof(epsilon: Fraction, delta: Fraction) -> None:
    """From above, and by less than 1e-12 of it; the greatest square is within, and not much more would be."""
    square = square_within(epsilon, delta)
    for factor in (Fraction(1, 2), 1, 2):
        known = oracle.gaussian_delta(Fraction(math.sqrt(square * factor)), epsilon)
        assert float(gaussian_delta(square * factor, epsilon)) == pytest.approx(float(known), rel=1e-9)
    assert gaussian_delta(square, epsilon) <= delta < gaussian_delta(square * (1 + Fraction(1, 10**6)), epsilon)


def test_deltas_near_certainty() -> None:
    assert gaussian_delta(Fraction(10**6), Fraction(1)) == 1 or gaussian_delta(Fraction(10**6), Fraction(1)) > 1 - 1e-9
    assert gaussian_delta(Fraction(1, 10**12), Fraction(1)) < LEAST_DELTA


def plan_of(groups: int, rho: Fraction, *, noise: Mechanism = Mechanism.GAUSSIAN, measures: int = 1) -> BudgetedPlan:
    """Returns a plan that counts people by group, where a person is in so many groups, with 1 in each."""
    loss = PrivacyLoss(rho=rho / measures) if noise is not Mechanism.LAPLACE else PrivacyLoss(epsilon=rho)
    aggregate = PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit="u",
        keys=(Key.of("k", INT64, range(1000)),),
        weights=by_hand("u", groups, groups, Weighing.WHOLE),
        measures=tuple(Measure(id=f"n{i}", label="n", count=Count.UNITS) for i in range(measures)),
    )
    made = (Noise(mechanism=noise, loss=loss),) * measures
    return BudgetedPlan(aggregates=(BudgetedAggregate(aggregate=aggregate, noise=made),))


def exact_delta(variance: float, groups: int, epsilon: float) -> float:
    """Returns the least delta of discrete Gaussian noise on so many numbers, each moved by 1, summed over the law.

    With T the sum of the noises, the loss is (groups - 2 T) / (2 variance) of the noise that makes up for it.
    """
    reach = math.ceil(14 * math.sqrt(variance))
    points = np.arange(-reach, reach + 1)
    one = np.exp(-(points**2) / (2 * variance))
    one /= one.sum()
    law = np.ones(1)
    for _ in range(groups):
        law = np.convolve(law, one)
    total = np.arange(len(law)) - groups * reach
    loss = (2 * total + groups) / (2 * variance)
    return float((law * np.maximum(0, -np.expm1(epsilon - loss))).sum())


@pytest.mark.parametrize("groups", [1, 2, 3, 10, 40])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 6), (3, 5), (10, 6), (0.25, 4)])
def test_discrete_noise_of_that_rho_is_within_epsilon_and_delta(epsilon: float, delta: int, groups: int) -> None:
    asked, small = Fraction(epsilon), Fraction(1, 10**delta)
    usual = rho_within(asked, small)
    rho = usual * factor_alone(plan_of(groups, usual), Neighbours.ADD_REMOVE, asked, small)
    again = plan_of(groups, rho)
    assert 1 <= factor_alone(again, Neighbours.ADD_REMOVE, asked, small) < 1 + Fraction(1, 10**10)
    assert factor_alone(plan_of(groups, rho * Fraction(1001, 1000)), Neighbours.ADD_REMOVE, asked, small) < 1
    (noise,) = calibrated(again.aggregates[0], Neighbours.ADD_REMOVE)
    assert noise.sampled == Fraction(groups) / (2 * rho)
    found = exact_delta(float(noise.sampled), groups, epsilon)
    assert found <= float(small) * (1 + 1e-9)
    if groups == 40 and epsilon <= 1:
        assert rho > rho_within(asked, small) * Fraction(9, 8)


def test_the_continuous_law_alone_would_not_do() -> None:
    square = square_within(Fraction(1), Fraction(1, 10**6))
    assert exact_delta(float(1 / square), 1, 1.0) > 1.01e-6


def test_other_noise_that_is_paid_in_rho_and_impossible_amounts_are_not_claimed() -> None:
    asked = Fraction(1), Fraction(1, 10**6)
    both = plan_of(10, Fraction(1, 40)).aggregates + plan_of(10, Fraction(1), noise=Mechanism.LAPLACE).aggregates
    alone = factor_alone(plan_of(10, Fraction(1, 40)), Neighbours.ADD_REMOVE, *asked)
    assert factor_alone(BudgetedPlan(aggregates=both), Neighbours.ADD_REMOVE, *asked) == alone > 0
    assert factor_alone(plan_of(10, Fraction(1), noise=Mechanism.LAPLACE), Neighbours.ADD_REMOVE, *asked) == 0
    choice = Measure(id="c", label="", count=Count.MODE, value="u", domain=(1, 2))
    (part,) = plan_of(10, Fraction(1, 40)).aggregates
    paid = Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(rho=Fraction(1, 40)))
    chosen = BudgetedAggregate(aggregate=replace(part.aggregate, measures=(choice,)), noise=(paid,))
    assert factor_alone(BudgetedPlan(aggregates=(part, chosen)), Neighbours.ADD_REMOVE, *asked) == 0
    for epsilon, delta in ((0, Fraction(1, 2)), (65, Fraction(1, 2)), (1, 0), (1, 1), (1, LEAST_DELTA / 2)):
        given = plan_of(10, Fraction(1, 40))
        assert factor_alone(given, Neighbours.ADD_REMOVE, Fraction(epsilon), Fraction(delta)) == 0


def test_several_measures_share_it() -> None:
    asked = Fraction(1), Fraction(1, 10**6)
    one, two = (factor_alone(plan_of(10, Fraction(1, 40), measures=k), Neighbours.ADD_REMOVE, *asked) for k in (1, 2))
    assert two == pytest.approx(float(one), rel=0.01)
