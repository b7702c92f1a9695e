"""How fine the groups are that a synopsis asks by."""

from __future__ import annotations

import numpy as np

from dpquery.plan.types import INT64, TEXT
from dpquery.synopsis.axes import SynopsisAxis
from dpquery.synopsis.rounds import resolved


def values(count: int) -> SynopsisAxis:
    return SynopsisAxis(name=f"of{count}", type=TEXT, values=tuple(map(str, range(count))), nullable=False)


def numbers(count: int) -> SynopsisAxis:
    return SynopsisAxis(name=f"to{count}", type=INT64, edges=tuple(range(count + 1)), nullable=False)


def sizes(axes: list[SynopsisAxis], least: float) -> list[int]:
    shares = [np.full(axis.size, 1 / axis.size) for axis in axes]
    return [int(one.max()) + 1 for one in resolved(axes, shares, 0.99 * least)]


def test_columns_take_an_equal_part() -> None:
    assert sizes([values(100), values(100)], 1 / 400) == [20, 20]
    assert sizes([numbers(100), numbers(100)], 1 / 400) == [20, 20]


def test_what_a_column_has_no_cells_for_is_left_to_values_without_order() -> None:
    assert sizes([values(100), values(3)], 1 / 150) == [50, 3]
    assert sizes([values(100), values(3)], 1 / 300) == [100, 3]
    assert sizes([values(100), values(3), values(2)], 1 / 300) == [50, 3, 2]
    assert sizes([values(100), numbers(4)], 1 / 100) == [25, 4]


def test_numbers_beside_each_other_are_no_finer_for_it() -> None:
    assert sizes([numbers(100), values(2)], 1 / 400) == [20, 2]
