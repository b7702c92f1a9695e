"""Batches by privacy-loss distributions: never below the exact loss where that is known, and within 1 % of it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpquery import accounting as privacy
from dpquery.errors import InvalidLossError

CLOSE = Fraction(101, 100)


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("scale", [2, 10, 50])
def test_laplace_noise_of_counts_is_randomised_response(scale: int, count: int) -> None:
    exact = privacy.optimal(Fraction(1, scale), count, total_delta="1e-6")
    found = privacy.batch_epsilon([privacy.discrete_laplace(scale, times=count)], "1e-6")
    assert exact <= found <= exact * CLOSE
    total = exact / 2
    delta = privacy.optimal_delta(Fraction(1, scale), count, total_epsilon=total)
    assert delta <= privacy.batch_delta([privacy.discrete_laplace(scale, times=count)], total) <= delta * CLOSE


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("scale", [3, 10])
def test_one_gaussian_is_the_exact_one(scale: int, sensitivity: int) -> None:
    noise = [privacy.discrete_gaussian(scale, sensitivity=sensitivity)]
    for epsilon in ("0.1", "0.5", "1"):
        exact = privacy.discrete_gaussian_delta(epsilon, variance=scale**2, sensitivity=sensitivity)
        assert exact <= privacy.batch_delta(noise, epsilon) <= exact * CLOSE + Fraction(2, 10**12)


@pytest.mark.parametrize("count", [4, 64])
def test_many_gaussians_are_near_one_and_below_zcdp(count: int) -> None:
    found = privacy.batch_epsilon([privacy.discrete_gaussian(20)] * count, "1e-6")
    alone = privacy.gaussian_epsilon("1e-6", scale=Fraction(20, {4: 2, 64: 8}[count]))
    assert alone / CLOSE <= found <= alone * CLOSE
    assert found < privacy.zcdp_to_approximate(Fraction(count, 800), "1e-6")


def test_mixtures_lose_at_least_their_parts_and_order_does_not_matter() -> None:
    parts = [privacy.discrete_laplace(20, sensitivity=2), privacy.discrete_gaussian(30, times=3)]
    both = privacy.batch_epsilon(parts, "1e-6")
    assert both == pytest.approx(privacy.batch_epsilon(parts[::-1], "1e-6"), rel=1e-6)
    assert all(privacy.batch_epsilon([part], "1e-6") <= both for part in parts)
    assert both <= sum(privacy.batch_epsilon([part], "5e-7") for part in parts)
    assert privacy.batch_epsilon([], "1e-6") < Fraction(1, 10**6)


def test_refusals() -> None:
    one = privacy.discrete_laplace(1)
    for refused in (
        lambda: privacy.batch_epsilon([one], "1e-11"),
        lambda: privacy.batch_epsilon([one], 1),
        lambda: privacy.discrete_laplace(0),
        lambda: privacy.discrete_gaussian(1, sensitivity=0),
        lambda: privacy.discrete_gaussian(1, times=True),
        lambda: privacy.discrete_laplace(1, sensitivity=Fraction(1, 2)),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidLossError):
            refused()
