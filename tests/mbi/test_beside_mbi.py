"""The distribution that a synopsis fits, beside that of the package `mbi`, which sums over all cells exactly.

`make test-mbi` installs the package, which needs half a gigabyte, and runs this file alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import jax
import numpy as np
import pytest

from dpquery.synopsis.model import Floats, Integers, Marginal, Model
from dpquery.synopsis.pseudorandom import Scattered
from tests.unit.synopsis.test_making import AXES, ROWS, data

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it says of settings of jax, which are made above
    import mbi

SIZES = tuple(axis.size for axis in AXES)
DEVIATION = 0.5
CHAIN, CIRCLE = ((0, 1), (1, 3), (2, 3)), ((0, 1), (1, 3), (0, 3), (1, 2), (2, 3))
UNSEEN = ((0, 2), (0, 2, 3), (0, 1, 3), (1, 2, 3), (0, 1, 2, 3))


def counts(rows: Integers, some: Sequence[int]) -> Floats:
    """Returns the shares of rows by some columns, flat."""
    sizes = [SIZES[i] for i in some]
    places = np.ravel_multi_index(tuple(rows[:, list(some)].T), sizes)
    return np.bincount(places, minlength=int(np.prod(sizes))) / len(rows)


def measured(rows: Integers, sets: Sequence[tuple[int, ...]], random: np.random.Generator) -> list[Marginal]:
    """Returns noisy tables of rows by each of the columns, and by some sets of them."""
    found = []
    for some in (*((i,) for i in range(len(AXES))), *sets):
        numbers = counts(rows, some) * ROWS
        numbers += random.normal(size=len(numbers)) * DEVIATION
        groups = tuple(np.arange(SIZES[i]) for i in some)
        variances = np.full(len(numbers), DEVIATION**2)
        found.append(Marginal(columns=some, groups=groups, numbers=numbers, variances=variances))
    return found


@pytest.mark.parametrize("sets", [CHAIN, CIRCLE])
def test_tables_that_were_not_measured_are_those_of_exact_inference(sets: tuple[tuple[int, ...], ...]) -> None:
    """Where noise is small both seek the distribution of most entropy that has the measured tables. A sample of 100,000
    rows is apart from it by about 0.02 in 96 cells; independent columns, which a fit begins with, by far more."""
    told = measured(data(0), sets, np.random.default_rng(1))
    alone = [np.maximum(one.numbers, 0) / np.maximum(one.numbers, 0).sum() for one in told[: len(AXES)]]
    made = Model(alone, float(ROWS), 100_000, told, 0.1, Scattered(1))
    before = made.rows.copy()
    made.fit()
    rows = made.sample(100_000)
    domain = mbi.Domain(tuple(axis.name for axis in AXES), SIZES)
    measurements = [
        mbi.LinearMeasurement(one.numbers, tuple(AXES[i].name for i in one.columns), stddev=DEVIATION) for one in told
    ]
    exact = mbi.estimation.MirrorDescent().estimate(domain, measurements, iters=3_000)
    apart, unfitted = [], []
    for some in UNSEEN:
        theirs = np.asarray(exact.project(tuple(AXES[i].name for i in some)).datavector())
        theirs = theirs / theirs.sum()
        apart.append(float(np.abs(counts(rows, some) - theirs).sum()))
        unfitted.append(float(np.abs(counts(before, some) - theirs).sum()))
    assert max(apart) < 0.04, apart
    assert max(unfitted) > 0.5, unfitted
