"""Intervals around sums of measured cells hold the table's numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpquery.kernel.plan import Mechanism
from dpquery.synopsis.making import measure
from dpquery.synopsis.sums import MeasuredTables
from tests.unit.synopsis.test_making import AXES, Asked, data

TRANSCRIPTS = 60


@pytest.mark.parametrize("rho", [0.005, 0.5])
def test_intervals_hold_as_often_as_they_say(rho: float) -> None:
    """The seeds are fixed. Numbers of one transcript share noise, so each by itself is counted over transcripts."""
    rows = data(6)
    weights = {size: list(itertools.combinations(range(4), size)) for size in (0, 1, 2)}
    held, known = dict[object, int](), dict[object, int]()
    for seed in range(TRANSCRIPTS):
        tables = MeasuredTables(measure(AXES, Asked(rows, rho, seed), False), Mechanism.GAUSSIAN)
        for columns in (one for some in weights.values() for one in some):
            counts = {i: np.arange(AXES[i].size) == 1 for i in columns}
            low, high = tables.ends({i: one.astype(float) for i, one in counts.items()}, Fraction(1, 20))
            exact = int(np.all([counts[i][rows[:, i]] for i in columns], axis=0).sum()) if columns else len(rows)
            if not np.isnan(low):
                known[columns] = known.get(columns, 0) + 1
                held[columns] = held.get(columns, 0) + (low <= exact <= high)
    assert all(known[columns] == TRANSCRIPTS for columns in [(), *weights[1]])
    assert sum(held.values()) >= 0.95 * sum(known.values())
    assert all(held[columns] >= 0.85 * known[columns] for columns in known)


def test_what_a_table_does_not_tell_apart_has_no_interval() -> None:
    tables = MeasuredTables(measure(AXES, Asked(data(7), 1e-4, 0), False), Mechanism.GAUSSIAN)
    low, high = tables.ends({i: np.array([1.0, *[0.0] * (AXES[i].size - 1)]) for i in (0, 1)}, Fraction(1, 20))
    assert np.isnan(low) and np.isnan(high)
    assert np.isfinite(tables.ends({0: np.array([1.0, 0.0, 0.0])}, Fraction(1, 20))).all()


@pytest.mark.parametrize("mechanism", [Mechanism.GAUSSIAN, Mechanism.LAPLACE])
def test_intervals_are_about_as_wide_as_the_noise(mechanism: Mechanism) -> None:
    told = measure(AXES, Asked(data(8), 0.5, 0), mechanism is Mechanism.LAPLACE)
    low, high = MeasuredTables(told, mechanism).ends({3: np.array([1.0, 0.0])}, Fraction(1, 20))
    deviation = min(float(np.sqrt(one.variances[0])) for one in (*told.first, *told.later) if 3 in one.columns)
    assert 1.96 * deviation < (high - low) / 2
