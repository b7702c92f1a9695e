"""Cells of finer tables of groups in coarser ones, against sums by dictionaries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from dpquery.plan.axes import Row, cells, most_summed, summed, within


@dataclass(frozen=True)
class Made:
    columns: Row
    domain: tuple[Row, ...] | None


def groups(axes: list[Made]) -> list[dict[object, object]]:
    """Returns what each group holds, by column, in order."""
    products = itertools.product(*(axis.domain or () for axis in axes))
    return [
        {
            name: value
            for axis, row in zip(axes, rows, strict=True)
            for name, value in zip(axis.columns, row, strict=True)
        }
        for rows in products
    ]


@pytest.mark.parametrize("seed", range(40))
def test_sums_are_those_of_the_groups(seed: int) -> None:
    random = Random(seed)
    pairs = list(itertools.product("xyz", "pqr"))
    finer = [
        Made(("a", "b"), tuple(random.sample(pairs, random.randint(1, 9)))),
        Made(("c",), tuple((n,) for n in range(random.randint(1, 3)))),
        Made(("d", "e"), tuple(random.sample(pairs, random.randint(1, 9)))),
    ]
    coarser = [
        Made(own, tuple(dict.fromkeys(tuple(group[name] for name in own) for group in groups(finer))))
        for own in random.sample([("b",), ("c",), ("e", "d"), ("a",)], random.randint(0, 4))
    ]
    if coarser and random.random() < 0.3:
        coarser[0] = Made(coarser[0].columns, (coarser[0].domain or ())[1:])
    numbers = np.array([random.randint(-(2**62), 2**62) for _ in groups(finer)])
    kept = [random.random() < 0.7 for _ in finer[1].domain or ()]
    expected = {tuple(group.items()): 0 for group in groups(coarser)}
    for group, number in zip(groups(finer), numbers.tolist(), strict=True):
        place = tuple((name, group[name]) for axis in coarser for name in axis.columns)
        if place in expected and kept[int(str(group["c"]))]:
            expected[place] += number
    places = cells(finer, coarser)
    assert places is not None
    places = within(places, 1, finer, kept)
    assert summed(numbers, places, len(expected)).tolist() == list(expected.values())
    counted = np.bincount(places[places >= 0]).max() if (places >= 0).any() else 0
    assert most_summed(places) == counted


def test_a_key_over_two_others_has_no_cells() -> None:
    finer = [Made(("a",), ((1,),)), Made(("b",), ((1,),))]
    assert cells(finer, [Made(("a", "b"), ((1, 1),))]) is None
    assert cells(finer, [Made(("z",), ((1,),))]) is None
