"""Least squares over blocks of cells, against dense linear algebra over all cells."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.inverse_variance import CombinedNoise, Component
from dpquery.reuse.cells import AxisPartition, CellTable
from dpquery.reuse.least_squares import Observed, System


def blocks(chance: random.Random, size: int) -> AxisPartition:
    """Returns some blocks: single places in any order, or a few together, or some left out."""
    count = chance.randint(1, size)
    codes = np.array([chance.randint(-1, count - 1) for _ in range(size)])
    if chance.random() < 0.5:
        codes, count = np.array(chance.sample(range(size), size)), size
    return AxisPartition(codes, count)


def table(chance: random.Random, sizes: list[int], *, is_marginal: bool = False) -> CellTable:
    keys: list[tuple[int, AxisPartition]] = []
    limits: list[tuple[int, AxisPartition]] = []
    for axis, size in enumerate(sizes):
        if is_marginal:
            keys += [(axis, AxisPartition(np.array(chance.sample(range(size), size)), size))] * chance.choice((0, 1))
            continue
        match chance.choice(("key", "key", "none", "limit")):
            case "key":
                keys.append((axis, blocks(chance, size)))
            case "limit":
                rows = np.array([chance.choice((0, 0, -1)) for _ in range(size)])
                signs = np.array([chance.choice((1, -1)) for _ in range(size)]) if chance.random() < 0.4 else None
                limits.append((axis, AxisPartition(rows, 1, signs)))
    chance.shuffle(keys)
    if keys and chance.random() < 0.3:  # two keys of one axis
        keys.insert(chance.randint(0, len(keys)), (keys[0][0], blocks(chance, sizes[keys[0][0]])))
    made = CellTable.of(keys, limits)
    GIVEN[id(made)] = made, keys
    return made


GIVEN: dict[int, Any] = {}
"""Tables with the keys that they were made of."""


def matrix(table: CellTable, factors: tuple[Fraction, ...], sizes: list[int]) -> Any:
    """Returns for each group which cells it adds up, times the factor of each coordinate."""
    rows = []
    keys = GIVEN[id(table)][1]
    for group in itertools.product(*(range(b.count) for _, b in keys)):
        member = np.ones(sizes)
        for (axis, b), code in [*zip(keys, group, strict=True), *((limit, 0) for limit in table.limits)]:
            inside = (b.codes == code) * (1 if b.signs is None else b.signs)
            member = member * inside.reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        rows.append(np.concatenate([float(f) * member.reshape(-1) for f in factors]))
    return np.array(rows)


def world(seed: int) -> tuple[random.Random, list[int], list[Any]]:
    chance = random.Random(f"least squares {seed}")
    sizes = [chance.randint(1, 4) for _ in range(chance.randint(1, 3))]
    forms: list[tuple[Fraction, ...]] = (
        [(Fraction(1),)] if chance.random() < 0.5 else [(Fraction(1), Fraction(0)), (Fraction(20), Fraction(-1))]
    )
    if len(forms) > 1:
        forms.append((Fraction(0), Fraction(1)))
    is_marginal = chance.random() < 0.4
    made = [
        (table(chance, sizes, is_marginal=is_marginal), chance.choice(forms), chance.choice((1.0, 3.0, 40.0)))
        for _ in range(chance.randint(1, 6))
    ]
    return chance, sizes, made


def observed(made: list[Any], numbers: list[Any] | None = None) -> list[Observed]:
    given = numbers or [None] * len(made)
    return [Observed(t, f, v, n) for (t, f, v), n in zip(made, given, strict=True)]


@pytest.mark.parametrize("seed", range(80))
def test_estimates_are_those_of_dense_least_squares(seed: int) -> None:
    chance, sizes, made = world(seed)
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 1000, len(made[0][1]) * math.prod(sizes)).astype(float)
    rows = [matrix(t, f, sizes) for t, f, _ in made]
    numbers = [
        np.rint(a @ truth + draw.normal(0, math.sqrt(v), len(a))).astype(np.int64)
        for a, (_, _, v) in zip(rows, made, strict=True)
    ]
    a, y = np.concatenate(rows), np.concatenate(numbers).astype(float)
    w = np.concatenate([np.full(len(r), 1 / v) for r, (_, _, v) in zip(rows, made, strict=True)])
    normal = a.T @ (w[:, None] * a)
    inverse = np.linalg.pinv(normal, rcond=1e-11, hermitian=True)
    estimate = inverse @ (a.T @ (w * y))
    system = System(sizes, observed(made, numbers))
    for _ in range(6):
        asked, factors = (
            (made[0][0], made[0][1]) if chance.random() < 0.2 else (table(chance, sizes), chance.choice(made)[1])
        )
        wanted = matrix(asked, factors, sizes)
        variances = np.einsum("ij,jk,ik->i", wanted, inverse, wanted)
        is_known = np.abs(wanted - wanted @ inverse @ normal).max() < 1e-6
        found = system.exactness(asked, factors)
        assert (found is not None) is bool(is_known) or not wanted.any()  # what is 0 by itself needs no estimate
        if found is None:
            continue
        assert found.variance == pytest.approx(variances.max(), rel=1e-6, abs=1e-9)
        own = sum(
            float((sizes**2 * counts).sum()) * system.observed[n].variance
            for n, (sizes, counts) in found.weights.items()
        )
        assert own == pytest.approx(found.variance, rel=1e-6, abs=1e-9)
        off = np.abs(system.numbers(asked, factors) - wanted @ estimate).max()
        scale = sum(abs(float(f)) for f in factors)
        assert off <= scale * max(1, found.roundings) / 2 + 1e-3


@pytest.mark.parametrize("seed", range(40))
def test_variances_never_grow(seed: int) -> None:
    chance, sizes, made = world(seed)
    asked, factors = table(chance, sizes), made[0][1]
    last = math.inf
    for count in range(1, len(made) + 1):
        found = System(sizes, observed(made[:count])).exactness(asked, factors)
        now = math.inf if found is None else found.variance
        assert now <= last * (1 + 1e-9)
        last = now


@pytest.mark.parametrize("seed", range(40))
def test_parts_add_up_to_what_holds_them(seed: int) -> None:
    """Whatever the numbers are: shown groups of a table add up to the shown groups of a coarser one, exactly."""
    _, sizes, made = world(seed)
    draw = np.random.default_rng(seed)
    numbers = [draw.integers(-(10**6), 10**6, math.prod(t.shape)) for t, _, _ in made]
    system = System(sizes, observed(made, numbers))
    ones = [AxisPartition(np.arange(size), size) for size in sizes]
    for _, factors, _ in made:
        for kept in itertools.chain.from_iterable(
            itertools.combinations(range(len(sizes)), n) for n in range(len(sizes) + 1)
        ):
            fine = CellTable.of([(axis, ones[axis]) for axis in kept])
            if system.exactness(fine, factors) is None:
                continue
            cells = system.numbers(fine, factors).reshape([sizes[axis] for axis in kept])
            for place, axis in enumerate(kept):
                coarse = CellTable.of([(other, ones[other]) for other in kept if other != axis])
                assert np.array_equal(system.numbers(coarse, factors), cells.sum(axis=place).reshape(-1))


def test_numbers_that_were_released_once_are_shown_as_they_were() -> None:
    large = np.array([2**70 + 1, -(2**80), 3], dtype=object)
    rows = AxisPartition(np.array([2, 0, 1]), 3)
    system = System([3], [Observed(CellTable.of([(0, rows)]), (Fraction(1),), 5.0, large)])
    assert system.numbers(CellTable.of([(0, rows)]), (Fraction(1),)).tolist() == large.tolist()
    assert system.numbers(CellTable.of([]), (Fraction(1),)).tolist() == [large.sum()]


@pytest.mark.parametrize("laws", ["laplace", "gaussian", "both"])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_half_widths_hold_and_are_not_wide(laws: str, confidence: float) -> None:
    draw, size = np.random.default_rng(5), 200_000
    parts: list[Component] = []
    error: Any = draw.uniform(-1, 1, size) / 2
    for count, weight, scale in ((1, 0.6, 30), (4, 0.2, 50), (30, 0.03, 20)):
        law = {"laplace": Mechanism.LAPLACE, "gaussian": Mechanism.GAUSSIAN}.get(laws)
        law = law or (Mechanism.LAPLACE if count == 4 else Mechanism.GAUSSIAN)
        noise = NoiseLaw(mechanism=law, parameter=Fraction(scale if law is Mechanism.LAPLACE else scale**2))
        parts.append(Component(noise=noise, count=count, weight=Fraction(weight)))
        sample: Any = draw.laplace if law is Mechanism.LAPLACE else draw.normal
        error = error + weight * sum(sample(0, scale, size) for _ in range(count))
    width = CombinedNoise(components=tuple(parts), rounded=1).half_width(
        Fraction(1 - confidence).limit_denominator(1000)
    )
    exact = np.quantile(np.abs(error), confidence)
    assert exact * 0.98 <= width <= exact * 1.02 + 2
    part = parts[0]
    rest = sum(p.count * float(p.weight) ** 2 * variance_of(p.noise) for p in parts[1:])
    lumped = CombinedNoise(components=(part,), rounded=1, rest=rest).half_width(Fraction(1, 20))
    assert lumped == pytest.approx(
        CombinedNoise(components=tuple(parts), rounded=1).half_width(Fraction(1, 20)), rel=0.03
    )
