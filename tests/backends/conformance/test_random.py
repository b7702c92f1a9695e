"""Random plans over random tables: every backend against the reference, and every backend against what is proved."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from dpquery.kernel.plan import CHOICES, Count, PrivateAggregate, Weighing, Weights
from dpquery.kernel.sensitivity import sensitivity
from dpquery.units.declarations import Neighbours
from tests.backends.engines import Engine, Groups, NotOwed, both, owed, run
from tests.backends.generator import Database, Generator, database
from tests.backends.plans import MANY
from tests.reference.backend import ReferenceBackend

FAST, SLOW, LOOKED_AT = range(16), range(1_000, 3_000), range(60)
BATCH = 8


def batches(seeds: range) -> list[range]:
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def made(seed: int) -> tuple[Database, PrivateAggregate]:
    """Returns the database and the plan of a seed, under bounds that do not bind."""
    random = Random(seed)
    data = database(random)
    return data, Generator(random=random, catalog=data.catalog).aggregate()


def bounded(plan: PrivateAggregate, groups: int, rows: int) -> PrivateAggregate:
    """Returns the plan with weights that are counted over its source; where the unit is the row, all rows weigh 1."""
    weights = Weights(weighing=Weighing.COUNTED, max_rows=rows, max_groups=groups, most_rows=MANY)
    return plan if plan.unit is None else replace(plan, weights=weights)


def check(engine: Engine, seeds: range) -> None:
    """Checks one backend on the plans of these seeds."""
    for seed in seeds:
        with contextlib.suppress(NotOwed):
            check_one(engine, seed)


def check_one(engine: Engine, seed: int) -> None:
    data, plan = made(seed)
    tested, reference = engine(data.catalog, data.frames), ReferenceBackend(data.catalog, data.frames)
    plan = owed(tested, plan)
    assert both(tested, plan) == both(reference, plan)
    for groups in (MANY, 2):
        weighed = bounded(plan, groups, 2)
        (found, values), (expected, right) = both(tested, weighed), both(reference, weighed)
        if groups == MANY or not plan.is_selected:
            assert values == right
        assert run(tested, weighed) == found, "the same key gives the same answer"
        check_weighed(weighed, found, expected)
        if groups != MANY:
            check_neighbours(engine, data, weighed, found, Random(seed))


def check_weighed(plan: PrivateAggregate, found: Groups, expected: Groups) -> None:
    """Backends agree on every integer, but for what a hash decides: which values a unit keeps, and in which of its
    groups it counts where groups are selected."""
    chosen = [i for i, m in enumerate(plan.measures) if m.count is Count.DISTINCT and plan.unit is not None]
    if plan.is_selected and plan.weights.max_groups == 2 and plan.unit is not None:
        assert total_units(found) == total_units(expected)
        units = [i for i, m in enumerate(plan.measures) if m.count is Count.UNITS]
        shown = found.keys() & expected.keys()
        found, expected = ({group: given[group] for group in shown} for given in (found, expected))
        chosen += units
    assert without(found, chosen, plan) == without(expected, chosen, plan)


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
    # a selected group in which nobody else counts is shown with the probability that the threshold's delta pays for
    both = before.keys() & after.keys() if plan.is_selected else before.keys() | after.keys()
    for index, measure in enumerate(plan.measures):
        nothing = (0,) * len(plan.measures)
        changes = {
            group: before.get(group, nothing)[index] - after.get(group, nothing)[index]
            for group in (both if measure.count is not Count.UNITS else before.keys() | after.keys())
        }
        if measure.count in CHOICES:
            assert sum(map(abs, changes.values())) <= plan.weight * plan.weights.max_rows
            continue
        bound, steps = sensitivity(plan, measure, Neighbours.ADD_REMOVE), plan.steps(measure)
        assert sum(map(abs, changes.values())) <= bound.l1 * steps
        assert sum(change**2 for change in changes.values()) <= Fraction(bound.l2_squared) * steps**2


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
    for seed in LOOKED_AT:
        data, plan = made(seed)
        reference = ReferenceBackend(data.catalog, data.frames)
        found = run(reference, plan)
        counts |= {measure.count for measure in plan.measures}
        selected += plan.is_selected
        filled += total_units(found) > 1
        bound += total_units(run(reference, bounded(plan, 2, 2))) < total_units(found)
    assert counts == set(Count) - {Count.DECIDING}
    assert min(selected, filled) > 15
    assert bound > 5
