"""Ladders: how far a noisy histogram is believed, what it says of bounds, and which bound suits it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import dpquery as dp
from dpquery.session.profile_ladder import Cell, CellNoise, Ladder, cells_up_to

MOST = 10_000_000


def ladder(units: Sequence[int], *, scale: float = 10.0, mechanism: str = "laplace", replaced: bool = False) -> Ladder:
    cells = cells_up_to(MOST)
    counts = [*units, *([0] * (len(cells) - len(units)))]
    return Ladder(
        cells=tuple(Cell(low=low, high=high, units=n) for (low, high), n in zip(cells, counts, strict=True)),
        noise=CellNoise(mechanism=mechanism, scale=scale),
        replaced=replaced,
    )


def of_rows(rows: Sequence[int], scale: float = 10.0) -> Ladder:
    """The histogram of units with so many rows, without noise, and with the scale that the noise would have."""
    counts = [0] * len(cells_up_to(MOST))
    for number in rows:
        counts[(number - 1).bit_length()] += 1
    return ladder(counts, scale=scale)


def tail(units: int) -> list[int]:
    """Rows of units with a heavy tail: quantiles of a Pareto law of exponent 1.3."""
    return [math.ceil(4 * ((1 - (i + 0.5) / units) ** (-1 / 1.3) - 1)) + 1 for i in range(units)]


def test_cells_double_without_a_gap() -> None:
    for most in (1, 2, 3, 64, 65, MOST):
        cells = cells_up_to(most)
        assert cells[0] == (1, 1) and cells[-1][0] <= most <= cells[-1][1]
        assert all(low == high + 1 for (_, high), (low, _) in itertools.pairwise(cells))


def test_it_is_read_upwards_from_the_mode_and_stopped_before_noise() -> None:
    found = ladder([40, 0, 900, 300, 31, 29, 500, 200])
    assert [cell.high for cell in found.steps] == [1, 2, 4, 8, 16] and found.top == 16
    assert found.beyond > 729, "they are still units above, of any number of rows"


def test_a_false_top_cell_weighs_nothing() -> None:
    """Noise of 2.9 scales in the cell of five million rows would be 145 million rows."""
    units = [500, 900, 300, 60, 4] + [0] * 19
    units[23] = 29
    found = ladder(units)
    assert found.top == 8 and found.loss(4).share < 0.2 and found.suggest_max_rows(epsilon=Fraction(1, 2)) <= 8


def test_three_units_with_a_million_rows_stay_invisible_and_are_said() -> None:
    quiet, loud = of_rows(tail(5000)), of_rows([*tail(5000), *[1_000_000] * 3])
    assert loud.steps == quiet.steps and loud.loss(50).share == quiet.loss(50).share
    assert loud.suggest_max_rows(epsilon=Fraction(1)) == quiet.suggest_max_rows(epsilon=Fraction(1))
    above = sum(number > loud.top for number in tail(5000)) + 3
    assert loud.beyond > above and loud.loss(50).beyond > 3
    assert f"fewer than {loud.loss(50).beyond:,} units above {2 * loud.top:,} rows" in loud.sentence(50)


def test_what_a_bound_at_the_top_leaves_out_is_said() -> None:
    """The suggested bound is often the ladder's end; units above it are too few to be believed, and lose rows."""
    found = ladder([0, 0, 900, 800, 600, 400, 20])
    assert found.suggest_max_rows(epsilon=Fraction(10)) == found.top == 32
    loss, true = found.loss(32), 20 * 13 / 20_000
    assert 0 == loss.at_least < loss.share < 3 * true and true < loss.at_most < 0.2 and loss.rows == 64
    assert "none of their rows" not in found.sentence(32) and "above 64 rows may hold any number" in found.sentence(32)
    assert "none of their rows" in found.sentence(64)


def test_where_a_ladder_has_no_more_cells_nobody_is_above() -> None:
    cells = tuple(Cell(low=low, high=high, units=500) for low, high in cells_up_to(10))
    found = Ladder(cells=cells, noise=CellNoise(mechanism="laplace", scale=10.0))
    assert (found.top, found.beyond, found.loss(5).beyond) == (10, 0, 0)
    assert "any number" not in found.sentence(5) and "any number" not in str(found.loss(5))


@pytest.mark.parametrize("units", [[], [20] * 10, [0] * 20 + [45]])
def test_where_all_may_be_noise_nothing_is_known(units: list[int]) -> None:
    found = ladder(units)
    assert found.steps == () and (found.top, found.loss(5).at_least, found.loss(5).at_most) == (0, 0, 1)
    assert "unknown" in found.sentence(5)
    with pytest.raises(dp.ParameterError, match="too few units"):
        found.suggest_max_rows(epsilon=Fraction(1))


@pytest.mark.parametrize("bound", [1, 3, 8, 20, 50, 100])
def test_what_is_left_out_of_a_heavy_tail(bound: int) -> None:
    rows = tail(20_000)
    found = of_rows(rows)
    loss = found.loss(bound)
    read = [number for number in rows if number <= loss.rows]
    true = sum(max(0, number - bound) for number in read) / sum(read)
    assert loss.rows == 2 * found.top and loss.lost <= sum(max(0, number - bound) for number in rows)
    assert loss.at_least <= true <= loss.at_most and loss.share == pytest.approx(true, rel=0.25, abs=0.003)
    above = found.units_above(bound)
    assert above.lower <= sum(number > bound for number in rows) <= above.upper
    assert above.value == pytest.approx(sum(number > bound for number in rows), rel=0.1, abs=60)
    within = found.units_within(bound)
    assert within.lower <= sum(number <= bound for number in rows) <= within.upper
    assert found.estimated_units.value == 20_000


@pytest.mark.parametrize(
    ("epsilon", "groups"), [(Fraction(1, 2), 24), (Fraction(1), 24), (Fraction(1, 10), 24), (Fraction(1), 60)]
)
def test_the_suggested_bound_leaves_as_many_units_above_as_the_rule_says(epsilon: Fraction, groups: int) -> None:
    rows = tail(20_000)
    bound = of_rows(rows).suggest_max_rows(groups=groups, epsilon=epsilon)
    wanted = groups * math.sqrt(2) / float(epsilon)
    left = sum(number > bound for number in rows)
    assert 0.5 * wanted - 70 <= left <= 1.5 * wanted + 30

    numbers = np.array(rows)

    def error(most: int) -> float:
        noise = groups * math.sqrt(2) * most / float(epsilon)
        return noise + float(np.maximum(0, numbers - most).sum())

    best = min(error(most) for most in range(1, 2000, 3))
    assert error(bound) <= 1.1 * best, "noise of the groups and rows left out, together"


def test_the_rule_in_other_currencies_and_for_replaced_units() -> None:
    rows = tail(20_000)
    found = of_rows(rows)
    same = found.suggest_max_rows(epsilon=Fraction(1))
    assert found.suggest_max_rows(rho=Fraction(1, 4)) == same, "K sqrt(2) is K / sqrt(2 rho) at rho = 1/4"
    replaced = Ladder(cells=found.cells, noise=found.noise, replaced=True)
    assert replaced.suggest_max_rows(epsilon=Fraction(2)) == same
    assert replaced.suggest_max_rows(rho=Fraction(1, 2)) == same
    assert found.suggest_max_rows(epsilon=Fraction(1, 1000)) == 1


def test_bad_questions_are_refused() -> None:
    found = of_rows(tail(1000))
    for groups in (0, 1.5, True):
        with pytest.raises(dp.ParameterError, match="groups"):
            found.suggest_max_rows(groups=groups, epsilon=Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(dp.ParameterError, match="epsilon or rho"):
        found.suggest_max_rows()
    for rows in (0, -1, 2.5):
        with pytest.raises(dp.ParameterError, match="whole number"):
            found.loss(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_half_widths_of_sums_hold(mechanism: str) -> None:
    """The exact law, summed up: 25 cells miss in at most 5 of 100 cases, and not much less often."""
    noise = CellNoise(mechanism=mechanism, scale=10.0)
    points = np.arange(-600, 601)
    law = np.exp(-np.abs(points) / 10) if mechanism == "laplace" else np.exp(-(points**2) / 200)
    law /= law.sum()
    total = np.ones(1)
    for _ in range(25):
        total = np.convolve(total, law)
    middle = len(total) // 2
    half = noise.half_width(25)
    missed = 1 - total[middle - half : middle + half + 1].sum()
    assert 0.04 < missed <= 0.05
    assert noise.half_width(0) == 0 and noise.half_width(1) < half
