"""Noise on values: the grid, sensitivities in steps, scales, and who pays."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery as dp
from dpquery import accounting, mechanisms
from dpquery.errors import InsufficientBudgetError, InvalidLossError, ParameterError
from dpquery.kernel.directed_rounding import sqrt_up
from dpquery.mechanisms.grid import LARGEST, on_grid
from tests.scripted import zero_noise

FINITE = st.floats(-1e15, 1e15)


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=6), st.fractions("1e-3", "1e6"))
def test_neighbours_within_a_sensitivity_are_within_its_steps(pairs: list[tuple[float, float]], unit: Fraction) -> None:
    moved = len(pairs)
    left, right = (on_grid([pair[side] for pair in pairs], unit, moved=moved) for side in (0, 1))
    apart = [abs(Fraction(a) - Fraction(b)) for a, b in pairs]
    steps = [abs(int(a) - int(b)) for a, b in zip(left.steps, right.steps, strict=True)]
    assert left.exponent == right.exponent
    assert sum(steps) <= left.l1(sum(apart, Fraction(0)), moved)
    assert sum(step * step for step in steps) <= left.l2(sqrt_up(sum((x * x for x in apart), Fraction(0))), moved) ** 2


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_any_floats_are_cut_and_keep_their_order(a: float, b: float) -> None:
    low, high = sorted([a, b])
    steps = on_grid([low, high], Fraction(1)).steps
    assert -LARGEST <= steps[0] <= steps[1] <= LARGEST


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")], True, "1", [[1]], []])
def test_what_is_no_finite_number_is_refused_and_costs_nothing(value: Any) -> None:
    accountant = mechanisms.Accountant(epsilon=1)
    with pytest.raises(ParameterError):
        mechanisms.laplace(value, sensitivity=1, epsilon=1, to=accountant)
    assert not accountant.charges


def test_values_come_back_in_their_form(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    whole = mechanisms.laplace(41, sensitivity=1, epsilon=1)
    assert type(whole.value) is int and whole.value == 41 and whole.grid == 1 and whole.scale == 1
    number = mechanisms.laplace(1.5, sensitivity="0.25", epsilon="0.5")
    assert type(number.value) is float and abs(number.value - 1.5) <= number.grid < Fraction(1, 2000)
    assert 0.5 <= number.scale <= 0.5 * 1.002
    vector = mechanisms.gaussian(np.array([1, 2]), sensitivity=2, rho=2)
    assert vector.value.tolist() == [1, 2] and vector.scale == 1
    assert mechanisms.geometric([3, 4], epsilon=1).value.tolist() == [3, 4]


def test_the_noise_of_a_vector_is_for_the_cells_that_move() -> None:
    cells = [0.5] * 100
    all_moved = mechanisms.laplace(cells, sensitivity=1, epsilon=1)
    few_moved = mechanisms.laplace(cells, sensitivity=1, epsilon=1, cells_moved=2)
    assert 1 <= few_moved.scale <= all_moved.scale <= 1.001
    assert few_moved.grid > all_moved.grid


def test_gaussian_noise_for_epsilon_and_delta_is_near_the_least() -> None:
    least = float(accounting.gaussian_scale("1", "1e-6"))
    assert least <= mechanisms.gaussian(3, sensitivity=1, epsilon=1, delta="1e-6").scale <= least * 1.01
    assert least <= mechanisms.gaussian(3.5, sensitivity=1, epsilon=1, delta="1e-6").scale <= least * 1.002
    assert least <= mechanisms.gaussian([1.5] * 9, sensitivity=1, epsilon=1, delta="1e-6").scale <= least * 1.002


def test_a_half_width_is_the_quantile_of_the_law_and_wider_for_all_cells_at_once() -> None:
    release = mechanisms.laplace([0] * 100, sensitivity=1, epsilon="0.5")
    assert release.half_width() == 6
    assert release.half_width(simultaneous=True) == pytest.approx(float(accounting.laplace_error(2, cells=100)), abs=1)
    low, high = release.interval()
    assert (high - low == 12).all()
    with pytest.raises(InvalidLossError):
        release.half_width(1)


@pytest.mark.parametrize(
    "asked", [{}, {"rho": 1, "epsilon": 1}, {"epsilon": 1}, {"delta": "1e-6"}, {"epsilon": 100, "delta": "1e-6"}]
)
def test_gaussian_noise_asks_for_one_loss(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidLossError):
        mechanisms.gaussian(1, sensitivity=1, **asked)


def test_noise_that_is_not_sampled_exactly_is_refused_before_the_charge() -> None:
    accountant = mechanisms.Accountant(epsilon="1e6")
    with pytest.raises(InvalidLossError):
        mechanisms.laplace(1, sensitivity=1, epsilon=5000, to=accountant)
    assert not accountant.charges


def test_an_accountant_pays_to_the_last_unit_and_no_further() -> None:
    accountant = mechanisms.Accountant(epsilon=1)
    for _ in range(10):
        mechanisms.laplace(1, sensitivity=1, epsilon="0.1", to=accountant)
    with pytest.raises(InsufficientBudgetError) as refused:
        mechanisms.laplace(1, sensitivity=1, epsilon="1e-12", to=accountant)
    assert refused.value.remaining == accountant.remaining and accountant.remaining.epsilon == 0
    assert len(accountant.charges) == 10
    with pytest.raises(InvalidLossError):
        mechanisms.gaussian(1, sensitivity=1, rho="0.1", to=mechanisms.Accountant(epsilon=1))


def test_losses_are_counted_in_the_currency_of_the_budget() -> None:
    accountant = mechanisms.Accountant(epsilon=4, delta="1e-6")
    mechanisms.laplace(1, sensitivity=1, epsilon="0.1", to=accountant)
    mechanisms.exponential([1, 2], sensitivity=1, epsilon="0.1", to=accountant)
    mechanisms.permute_and_flip([1, 2], sensitivity=1, epsilon="0.1", to=accountant)
    mechanisms.gaussian(1, sensitivity=1, rho="0.01", to=accountant)
    assert [charge.loss.rho for charge in accountant.charges] == [Fraction(n, 100_000) for n in (500, 125, 500, 1000)]


def test_a_ledger_pays_durably(tmp_path: Path) -> None:
    columns = {"id": {"type": "int64"}}
    people = {"unit": "id", "unique": [["id"]], "columns": columns}
    catalog = dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 1}, tables={"people": people})
    ledger = dp.create_ledger(catalog, tmp_path / "l.ledger")
    mechanisms.laplace(5, sensitivity=1, epsilon="0.75", to=ledger)
    with pytest.raises(InsufficientBudgetError):
        mechanisms.laplace(5, sensitivity=1, epsilon="0.75", to=ledger)
    (entry,) = dp.Ledger.open(tmp_path / "l.ledger").entries()
    assert entry.analyst == "mechanisms" and "laplace noise" in entry.query
    with pytest.raises(InvalidLossError):
        mechanisms.laplace(5, sensitivity=1, epsilon="0.1", to="l.ledger")  # type: ignore[arg-type]
