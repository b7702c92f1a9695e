"""Children that are joined with their parents: whatever the kernel accepts is unit-local, on every small database."""

from __future__ import annotations

from random import Random

import pytest

from dpquery.kernel.locality import NotUnitLocal, locality
from dpquery.kernel.unit_local import Locality
from dpquery.plan.logical import Computed, Project, Relation, column, output
from dpquery.planner.joined_owners import without_second_joins
from tests.properties.keyed import DECLARED, UNITS, Plans, Tables, counted, database, lacking, only, owner, rows

DATABASES = 6
FAST, SLOW = 4_000, 100_000


def check(relation: Relation, known: Locality, tables: Tables) -> bool:
    """Checks every claim of the rules on one database; returns whether there was a row of somebody."""
    found, somebody = rows(relation, tables), False
    for row in found:
        assert len({row[id] for id in known.units}) <= 1, "unit columns agree"
        unit = unit_of(row, known, tables)
        assert {row[id] for id in known.partial} <= {unit, None}
        for stored in known.rows if unit is not None else ():
            held = {(name, row[id]) for name, _, id in stored.columns}
            assert any(
                held <= set(one.items()) and owner(tables, stored.table, one) == unit for one in tables[stored.table]
            ), "a stored row of the unit holds these values"
    for unit in UNITS:
        mine = [row for row in found if unit_of(row, known, tables) == unit]
        alone = only(tables, unit)
        assert counted(mine) == counted([row for row in rows(relation, alone) if unit_of(row, known, alone) == unit]), (
            "rows of a unit follow from its own rows"
        )
        somebody = somebody or bool(mine)
    return somebody


def check_planned(relation: Relation, unit: str, random: Random) -> bool:
    """Checks that the planner leaves out owners and nothing else; returns whether it did."""
    planned = without_second_joins(relation, DECLARED)
    assert unit in locality(planned, DECLARED).units
    for _ in range(DATABASES if planned is not relation else 0):
        tables = database(random)
        before, after = ([row for row in rows(one, tables) if row[unit] is not None] for one in (relation, planned))
        assert counted(before) == counted(after)
    return lacking(planned) > lacking(relation)


def unit_of(row: dict[str, object], known: Locality, tables: Tables) -> object:
    """Returns the unit that a row belongs to by what is known."""
    if known.owner is None:
        return row[min(known.units)] if known.units else None
    key = {(name, row[id]) for name, _, id in known.owner.columns}
    if any(value is None for _, value in key):
        return None
    named = [one for one in tables[known.owner.table] if key <= set(one.items())]
    return owner(tables, known.owner.table, named[0]) if named else None


def run(seeds: range) -> tuple[int, int, int]:
    """Returns how many random plans with a child whose owner a join tells were accepted, alive, and refused."""
    accepted = alive = refused = 0
    for seed in seeds:
        random = Random(seed)
        relation = Plans(random=random).relation(random.choice([1, 1, 2, 2, 3]))
        try:
            known = locality(relation, DECLARED)
        except NotUnitLocal:
            refused += 1
            continue
        if not known.private:
            continue
        lived = [check(relation, known, database(random)) for _ in range(DATABASES)]
        if lacking(relation) and known.units:
            accepted += 1
            alive += any(lived)
    return accepted, alive, refused


def test_whatever_is_accepted_is_unit_local() -> None:
    accepted, alive, refused = run(range(FAST))
    assert accepted > 100
    assert alive > 60
    assert refused > 1_000


def test_the_planner_leaves_out_owners_and_nothing_else() -> None:
    """Of rows that somebody owns; rows of nobody are counted nowhere."""
    changed = 0
    for seed in range(FAST):
        random = Random(seed)
        relation = Plans(random=random, lacking=0.1).relation(random.choice([1, 1, 2, 2, 3]))
        try:
            known = locality(relation, DECLARED)
        except NotUnitLocal:
            continue
        if not known.units:
            continue
        unit, given = min(known.units), [c.id for c in output(relation) if random.random() < 0.7]
        kept = tuple(Computed(id=id, name="", expression=column(relation, id)) for id in dict.fromkeys([unit, *given]))
        changed += check_planned(Project(source=relation, columns=kept), unit, random)
    assert changed > 100


@pytest.mark.slow
def test_whatever_is_accepted_of_very_many_plans_is_unit_local() -> None:
    accepted, alive, _ = run(range(10**6, 10**6 + SLOW))
    assert accepted > alive > 1_000
