"""Random plans over random tables: every backend against the reference, and every backend against what is proved."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from dpquery.backends.base import Backend
from dpquery.backends.reference import ReferenceBackend
from dpquery.kernel.declarations import Neighbours
from dpquery.kernel.plan import Count, PrivateAggregate
from dpquery.kernel.sensitivity import groups_per_unit, sensitivity
from tests.backends.engines import KEY, Engine, Groups, run
from tests.backends.generator import Database, Generator, database
from tests.backends.plans import MANY

FAST, SLOW = range(150), range(1_000, 3_000)
BATCH = 25


def batches(seeds: range) -> list[range]:
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def made(seed: int, groups: int, rows: int) -> tuple[Database, PrivateAggregate]:
    """Returns the database and the plan of a seed; the same plan under other bounds."""
    random = Random(seed)
    data = database(random)
    return data, Generator(random=random, catalog=data.catalog).aggregate(groups=groups, rows=rows)


def check_without_choice(tested: Backend, seed: int) -> None:
    """Where no hash decides, backends agree on every integer: bounds that do not bind, and sums that are scaled."""
    for rows in (MANY, 2):
        data, plan = made(seed, MANY, rows)
        expected, found = run(ReferenceBackend(data.catalog, data.frames), plan), run(tested, plan)
        if rows == MANY:
            assert found == expected
        else:
            chosen = [i for i, m in enumerate(plan.measures) if m.count is Count.DISTINCT and plan.unit is not None]
            assert without(found, chosen, plan) == without(expected, chosen, plan)


def without(groups: Groups, dropped: list[int], plan: PrivateAggregate) -> Groups:
    """Returns the groups without some of the measures, which the choice of values decides."""
    left = {group: tuple(n for i, n in enumerate(numbers) if i not in dropped) for group, numbers in groups.items()}
    public = bool(plan.keys) and not plan.is_selected
    return {group: numbers for group, numbers in left.items() if any(numbers)} if public else left


def check_choice(tested: Backend, seed: int) -> None:
    """Where a hash decides, a unit keeps as many groups as the reference says, and no others than it has."""
    data, plan = made(seed, 2, 2)
    reference = ReferenceBackend(data.catalog, data.frames)
    expected, found = run(reference, plan), run(tested, plan)
    whole = run(reference, made(seed, MANY, 2)[1])
    assert found.keys() <= whole.keys()
    assert total_units(found) == total_units(expected)
    unbounded = run(reference, made(seed, MANY, MANY)[1])
    for group, numbers in found.items():
        for measure, number in zip(plan.measures, numbers, strict=True):
            index = plan.measures.index(measure)
            if measure.count is Count.DISTINCT:
                assert number <= min(unbounded[group][index], 2 * numbers[0])
            elif measure.count is not Count.SUM:
                assert number <= whole[group][index]
    assert run(tested, plan) == found, "the same key gives the same answer"


def total_units(groups: Groups) -> int:
    return sum(numbers[0] for numbers in groups.values())


def check_neighbours(tested: Backend, engine: Engine, seed: int) -> None:
    """Without one person, the exact aggregates move by at most the sensitivity that the kernel derives."""
    data, plan = made(seed, 2, 3)
    if plan.unit is None:
        return
    people = [p for p in data.frames["visits"]["person"].tolist() if isinstance(p, str)]
    if not people:
        return
    before = run(tested, plan)
    rest = data.without(Random(seed).choice(people))
    after = run(engine(rest.catalog, rest.frames), plan)
    moved: set[object] = set()
    for index, measure in enumerate(plan.measures):
        nothing = (0,) * len(plan.measures)
        changes = {
            group: before.get(group, nothing)[index] - after.get(group, nothing)[index] for group in before.keys() | after.keys()
        }
        bound = sensitivity(plan, measure, Neighbours.ADD_REMOVE)
        assert sum(map(abs, changes.values())) <= bound.l1
        assert sum(change**2 for change in changes.values()) <= Fraction(bound.l2_squared)
        moved |= {group for group, change in changes.items() if change}
    assert len(moved) <= groups_per_unit(plan), "one unit weighs in the same groups in every measure"


def check(engine: Engine, seeds: range) -> None:
    for seed in seeds:
        data, _ = made(seed, MANY, MANY)
        tested = engine(data.catalog, data.frames)
        check_without_choice(tested, seed)
        check_choice(tested, seed)
        check_neighbours(tested, engine, seed)


@pytest.mark.parametrize("seeds", batches(FAST), ids=str)
def test_random_plans(engine: Engine, seeds: range) -> None:
    check(engine, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(SLOW), ids=str)
def test_many_random_plans(engine: Engine, seeds: range) -> None:
    check(engine, seeds)


def test_random_plans_are_not_empty() -> None:
    """The generator makes what the comparison is about: rows, groups, bounds that bind, every count and relation."""
    counts: set[Count] = set()
    bound = selected = filled = 0
    for seed in FAST:
        data, plan = made(seed, MANY, MANY)
        reference = ReferenceBackend(data.catalog, data.frames)
        found = run(reference, plan, KEY)
        counts |= {measure.count for measure in plan.measures}
        selected += plan.is_selected
        filled += total_units(found) > 1
        bound += total_units(run(reference, made(seed, 2, 2)[1])) < total_units(found)
    assert counts == set(Count)
    assert min(selected, filled) > 40
    assert bound > 15
