"""Random plans over random tables: every backend against the reference, and every backend against what is proved."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from dpquery.backends.reference import ReferenceBackend
from dpquery.kernel.plan import CHOICES, BoundContributions, Count, PrivateAggregate
from dpquery.kernel.sensitivity import groups_per_unit, sensitivity
from dpquery.units.declarations import Neighbours
from tests.backends.engines import Engine, Groups, histograms, run
from tests.backends.generator import Database, Generator, database
from tests.backends.plans import MANY

FAST, SLOW = range(150), range(1_000, 3_000)
BATCH = 25


def batches(seeds: range) -> list[range]:
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def made(seed: int) -> tuple[Database, PrivateAggregate]:
    """Returns the database and the plan of a seed, under bounds that do not bind."""
    random = Random(seed)
    data = database(random)
    return data, Generator(random=random, catalog=data.catalog).aggregate()


def bounded(plan: PrivateAggregate, groups: int, rows: int) -> PrivateAggregate:
    """Returns the plan under other bounds; where the unit is the row, both are 1 already."""
    bound = BoundContributions(max_groups=groups, max_rows=rows)
    return plan if plan.unit is None else replace(plan, bound=bound)


def check(engine: Engine, seeds: range) -> None:
    """Checks one backend on the plans of these seeds."""
    for seed in seeds:
        data, plan = made(seed)
        tested, reference = engine(data.catalog, data.frames), ReferenceBackend(data.catalog, data.frames)
        scaled, chosen = bounded(plan, MANY, 2), bounded(plan, 2, 2)
        whole, whole_scaled, expected = run(reference, plan), run(reference, scaled), run(reference, chosen)
        assert run(tested, plan) == whole
        assert histograms(tested, plan) == histograms(reference, plan)
        assert histograms(tested, scaled) == histograms(reference, scaled), "weights are the same everywhere"
        check_scaled(scaled, run(tested, scaled), whole_scaled)
        together = replace(scaled, bound=replace(scaled.bound, together=scaled.unit is not None))
        check_scaled(together, run(tested, together), run(reference, together))
        found = run(tested, chosen)
        assert run(tested, chosen) == found, "the same key gives the same answer"
        check_choice(chosen, found, expected, whole, whole_scaled)
        check_neighbours(engine, data, chosen, found, Random(seed))


def check_scaled(plan: PrivateAggregate, found: Groups, expected: Groups) -> None:
    """Where units keep all groups, backends agree on every integer; but they may keep different values."""
    kept = [i for i, m in enumerate(plan.measures) if m.count is Count.DISTINCT and plan.unit is not None]
    assert without(found, kept, plan) == without(expected, kept, plan)


def check_choice(plan: PrivateAggregate, found: Groups, expected: Groups, whole: Groups, whole_scaled: Groups) -> None:
    """Where a hash decides, units keep as many groups as the reference says, and none that they do not have."""
    assert found.keys() <= whole.keys()
    assert total_units(found) == total_units(expected)
    for group, numbers in found.items():
        for index, measure in enumerate(plan.measures):
            if measure.count is Count.DISTINCT:
                most = whole[group][index] if plan.unit is None else min(whole[group][index], 2 * numbers[0])
                assert numbers[index] <= most
            elif measure.count is not Count.SUM:  # a choice weighs no more where fewer groups are kept
                assert numbers[index] <= whole_scaled[group][index]


def without(groups: Groups, dropped: list[int], plan: PrivateAggregate) -> Groups:
    """Returns the groups without some of the measures, which the choice of values decides."""
    left = {group: tuple(n for i, n in enumerate(numbers) if i not in dropped) for group, numbers in groups.items()}
    public = bool(plan.keys) and not plan.is_selected
    return {group: numbers for group, numbers in left.items() if any(numbers)} if public else left


def total_units(groups: Groups) -> int:
    return sum(numbers[0] for numbers in groups.values())


def check_neighbours(engine: Engine, data: Database, plan: PrivateAggregate, before: Groups, random: Random) -> None:
    """Without one person, the exact aggregates move by at most the sensitivity that the kernel derives."""
    people = [] if plan.unit is None else [p for p in data.frames["visits"]["person"].tolist() if isinstance(p, str)]
    if not people:
        return
    rest = data.without(random.choice(people))
    after = run(engine(rest.catalog, rest.frames), plan)
    moved: set[object] = set()
    for index, measure in enumerate(plan.measures):
        nothing = (0,) * len(plan.measures)
        changes = {
            group: before.get(group, nothing)[index] - after.get(group, nothing)[index]
            for group in before.keys() | after.keys()
        }
        if measure.count in CHOICES:
            most = plan.weight * plan.bound.max_rows
            assert all(abs(change) <= most for change in changes.values())
            moved |= {group for group, change in changes.items() if change}
            continue
        bound = sensitivity(plan, measure, Neighbours.ADD_REMOVE)
        assert sum(map(abs, changes.values())) <= bound.l1
        assert sum(change**2 for change in changes.values()) <= Fraction(bound.l2_squared)
        moved |= {group for group, change in changes.items() if change}
    assert len(moved) <= groups_per_unit(plan), "one unit weighs in the same groups in every measure"


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
        data, plan = made(seed)
        reference = ReferenceBackend(data.catalog, data.frames)
        found = run(reference, plan)
        counts |= {measure.count for measure in plan.measures}
        selected += plan.is_selected
        filled += total_units(found) > 1
        bound += total_units(run(reference, bounded(plan, 2, 2))) < total_units(found)
    assert counts == set(Count)
    assert min(selected, filled) > 40
    assert bound > 15
