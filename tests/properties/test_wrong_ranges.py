"""A wrong range costs accuracy and never privacy: with ranges that rows break nothing raises, and no unit weighs more.

The gate and the engine are given plans whose clamps, lattices and keys follow from ranges that are too narrow, that
claim there is no NULL, or that are invented where nothing is known. The rows of guests are the worst there can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

import dpquery as dp
from dpquery.plan.expr import Expression
from dpquery.plan.intervals import Intervals
from dpquery.plan.ranges import Range
from tests.properties import queries
from tests.properties.neighbours import Hall, check_inputs, folder
from tests.properties.test_neighbours import databases
from tests.properties.worlds import world

Wrong = Callable[[Range], Range]


def narrow(known: Range) -> Range:
    """The lowest third of what is right, and no NULL."""
    if known.lower is None or known.upper is None:
        return replace(known, nullable=False)
    return Range(lower=known.lower, upper=known.lower + Fraction(math.floor((known.upper - known.lower) / 3)))


def invented(known: Range) -> Range:
    """Bounds where there are none."""
    return Range(lower=Fraction(1), upper=Fraction(2)) if known.lower is None or known.upper is None else known


def shifted(known: Range) -> Range:
    """Beside what is right: no value lies in it."""
    if known.lower is None or known.upper is None:
        return known
    return Range(lower=known.upper + 1, upper=known.upper + 1 + (known.upper - known.lower))


@pytest.mark.parametrize("worlds", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wrong", [narrow, invented, shifted])
def test_wrong_ranges_move_nothing_beyond_its_bound_and_raise_nothing(
    wrong: Wrong, worlds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive = Intervals._derive

    def derived(self: Intervals, expression: Expression) -> Range:
        return wrong(derive(self, expression))

    monkeypatch.setattr(Intervals, "_derive", derived)
    checked = moved = 0
    with folder() as shelf:
        for seed in range(500, 500 + worlds):
            random = Random(seed)
            made = world(random)
            opened, pairs = databases(Hall(made.catalog, shelf), made)
            for _ in range(5 * worlds):
                query = queries.query(random, row_unit=made.catalog.declarations.unit_is_row)
                try:
                    prepared = opened[0][1].prepare(query)
                except dp.QueryError:
                    continue
                key = random.getrandbits(128)
                inputs = [database.inputs(prepared, key) for _, database in opened]
                for a, b in pairs:
                    moved += check_inputs(prepared, inputs[a], inputs[b], f"{query} ({opened[a][0]}, {opened[b][0]})")
                    checked += 1
    assert checked >= 20 * worlds
    assert moved >= checked / 10
