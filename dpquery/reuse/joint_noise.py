"""The noise of numbers that are estimated together, as sums of the same independent noises.

Estimates of several measures of one group read the same released numbers, so ratios and sums of them are followed
through what they share. Of a table one law is used for all groups: that of one group, made larger until the variance
of no combination of its measures is smaller than in any other group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.combinations import law_of
from dpquery.accuracy.intervals import NORMAL
from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.accuracy.simulated import Shared, SimulatedLaw
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.cells import CellTable
from dpquery.reuse.least_squares import System

MOST_FACTORS = 20_000_000
"""Groups of different kinds, times measures, times released numbers, for which a law is computed."""
MOST_APART = 24
"""Noises that are followed by themselves; the rest is taken for normal noise of the same covariance."""
MOST_ALIKE = 6
"""Noises of equal factors that are followed by themselves: the sum of more is taken for normal."""
LARGEST = 4.0
"""How many times larger than in the group it is taken from a variance may be."""
RIDGE = 1e-9
"""Relative variance that is added to each measure's, so that those which follow from each other can be compared."""


def joint(
    estimates: Sequence[tuple[System, Sequence[NoiseLaw], CellTable, Sequence[Fraction], int]], units: Sequence[float]
) -> Shared | None:
    """Returns the noise of the estimates of some measures of one table; None where it takes too much work, or where
    one law does not fit all groups.

    Args:
        estimates: For each measure the system that it is estimated in, the noises of what was released in that, the
            groups as they lie in it, the factors of its coordinates, and how many roundings are in a number.
        units: Of each measure's numbers.
    """
    labels = [system.kinds_of(table) for system, _, table, _, _ in estimates]
    firsts = [
        np.unique(np.stack(on_axis), axis=1, return_index=True)[1].tolist() for on_axis in zip(*labels, strict=True)
    ]
    count, systems = math.prod(map(len, firsts)), list({id(s): s for s, *_ in estimates}.values())
    if count * len(estimates) * sum(system.numbers_released for system in systems) > MOST_FACTORS:
        return None
    groups = np.array([*itertools.product(*firsts)], dtype=np.int64).reshape(count, len(firsts))
    known = [system.factors_of(table, factors, groups) for system, _, table, factors, _ in estimates]
    parts = list[tuple[NoiseLaw, Floats]]()  # of each release its noise, and factors (measures, groups, numbers)
    for system in systems:
        own = [f if of is system else None for f, (of, *_) in zip(known, estimates, strict=True)]
        noises = next(noises for of, noises, *_ in estimates if of is system)
        for number, noise in enumerate(noises):
            each = [None if f is None else f[number] for f in own]
            nothing = np.zeros_like(next(f for f in each if f is not None))
            parts.append((noise, np.stack([nothing if f is None else f for f in each])))
    covariances = sum(variance_of(noise) * np.einsum("agn,bgn->gab", f, f) for noise, f in parts)
    found = _largest(np.asarray(covariances))
    if found is None:
        return None
    group, larger = found
    apart, rest = _apart([(noise, f[:, group]) for noise, f in parts], covariances[group])
    rest += np.diag([roundings / 12 for *_, roundings in estimates])
    values, directions = np.linalg.eigh(rest)
    normal = [(NORMAL, direction * math.sqrt(max(0.0, v))) for v, direction in zip(values, directions.T, strict=True)]
    columns = np.stack([column for _, column in (*apart, *normal)], axis=1) * math.sqrt(larger)
    scaled = columns * np.array(units)[:, None]
    return Shared(sources=tuple(law for law, _ in (*apart, *normal)), factors=tuple(map(tuple, scaled.tolist())))


def _largest(covariances: Floats) -> tuple[int, float] | None:
    """Returns the group whose covariance has to grow least to be at least that of any other, and by how much."""
    best: tuple[float, int] | None = None
    sizes = np.sqrt(np.einsum("gaa->ga", covariances).max(axis=0))
    sizes[sizes == 0] = 1.0
    scaled = covariances / np.multiply.outer(sizes, sizes) + RIDGE * np.eye(len(sizes))
    for group in {*scaled.diagonal(axis1=1, axis2=2).argmax(axis=0).tolist()}:
        root = np.linalg.inv(np.linalg.cholesky(scaled[group]))
        grown = float(np.linalg.eigvalsh(root @ scaled @ root.T).max())
        best = min(best or (math.inf, 0), (grown, group))
    if best is None or best[0] > LARGEST:
        return None
    return best[1], max(1.0, best[0])


def _apart(
    parts: Sequence[tuple[NoiseLaw, Floats]], covariance: Floats
) -> tuple[list[tuple[SimulatedLaw, Floats]], NDArray[np.float64]]:
    """Returns the noises that matter most with their factors, and the covariance of the others.

    Args:
        parts: Of each release its noise, and the factors of its numbers, shape (measures, numbers).
    """
    sizes = np.maximum(covariance.diagonal(), np.finfo(float).tiny)
    made = [one for part in parts for one in _alike(*part)]
    made.sort(key=lambda one: -one[2] * variance_of(one[0]) * float((one[1] ** 2 / sizes).max()))
    apart, rest = list[tuple[SimulatedLaw, Floats]](), np.zeros_like(covariance)
    for noise, column, count in made:
        if shape_of(noise.mechanism).is_stable:
            column, count = column * math.sqrt(count), 1
        if count <= min(MOST_ALIKE, MOST_APART - len(apart)):
            apart += [(law_of(noise), column)] * count
        else:
            rest += count * variance_of(noise) * np.outer(column, column)
    return apart, rest


def _alike(noise: NoiseLaw, factors: Floats) -> Iterator[tuple[NoiseLaw, Floats, int]]:
    """Yields a release's noise with factors (measures,) and how many of its numbers have them, up to the sign."""
    largest = float(np.abs(factors).max(initial=0.0))
    if not largest:
        return
    first = np.argmax(np.abs(factors) > RIDGE * largest, axis=0)
    signs = np.sign(factors[first, np.arange(factors.shape[1])])
    columns, counts = np.unique(np.round(factors * signs / largest, 9), axis=1, return_counts=True)
    for column, count in zip(columns.T, counts.tolist(), strict=True):
        if column.any():
            yield noise, column * largest, count
