"""Children that are joined with their parents: whatever the rules accept is unit-local, on every small database."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from dpquery.plan.expr import Column
from dpquery.plan.logical import (
    Computed,
    Join,
    OwnerStep,
    Project,
    Relation,
    Scan,
    ScanColumn,
    column,
    output,
)
from dpquery.plan.types import INT64, TEXT, Type
from dpquery.planner.protect.joined_owners import without_second_joins
from dpquery.units.declarations import Declarations
from dpquery.units.locality import NotUnitLocal, locality
from dpquery.units.unit_local import Locality
from tests.properties.keyed import (
    COLUMNS,
    DECLARED,
    UNITS,
    Plans,
    Tables,
    counted,
    database,
    lacking,
    only,
    owner,
    rows,
)

DATABASES = 6
FAST, SLOW = 1_200, 100_000


def check(relation: Relation, known: Locality, tables: Tables) -> bool:
    """Checks every claim of the rules on one database; returns whether there was a row of somebody."""
    found, somebody = rows(relation, tables), False
    for row in found:
        assert len({row[id] for id in known.units}) <= 1, "unit columns agree"
        unit = unit_of(row, known, tables)  # type: ignore[arg-type]
        assert {row[id] for id in known.partial} <= {unit, None}
        for stored in known.rows if unit is not None else ():
            held = {(name, row[id]) for name, _, id in stored.columns}
            assert any(
                held <= set(one.items()) and owner(tables, stored.table, one) == unit for one in tables[stored.table]
            ), "a stored row of the unit holds these values"
    for unit in UNITS:
        mine = [row for row in found if unit_of(row, known, tables) == unit]  # type: ignore[arg-type]
        alone = only(tables, unit)
        assert counted(mine) == counted([row for row in rows(relation, alone) if unit_of(row, known, alone) == unit]), (  # type: ignore[arg-type]
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
    assert accepted > 20
    assert alive > 12
    assert refused > 200


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
    assert changed > 20


# A key of two columns, by hand.


def scan(table: str, alias: str, *, type: Type = INT64) -> Scan:
    """Returns a scan of all columns, of a child without its owner."""
    columns = tuple(ScanColumn(id=f"{alias}_{name}", name=name, type=type) for name in COLUMNS[table])
    ownership = DECLARED.tables[table].ownership
    unit = f"{alias}_person" if table == "shops" else None
    return Scan(table=table, columns=columns, public=ownership is None, ownership=ownership, unit=unit)


def joined(left: Relation, right: Relation, *pairs: tuple[str, str]) -> Join:
    """Returns an inner join on equal columns."""
    equalities = tuple((column(left, a), column(right, b)) for a, b in pairs)
    return Join(left=left, right=right, kind="inner", equalities=equalities)


VISITS, SHOPS, OTHERS = scan("visits", "v"), scan("shops", "s"), scan("shops", "t")
TWO_SHOPS = joined(SHOPS, OTHERS, ("s_person", "t_person"))
RENAMED = Project(
    source=SHOPS,
    columns=tuple(
        Computed(id=id, name="", expression=column(SHOPS, read))
        for id, read in (("s_person", "s_person"), ("s_a", "s_b"), ("s_b", "s_a"))
    ),
)


@pytest.mark.parametrize(
    ("relation", "is_accepted"),
    [
        (joined(VISITS, SHOPS, ("v_a", "s_a"), ("v_b", "s_b")), True),
        (joined(VISITS, SHOPS, ("v_b", "s_b"), ("v_score", "s_shop"), ("v_a", "s_a")), True),
        (joined(VISITS, RENAMED, ("v_a", "s_b"), ("v_b", "s_a")), True),
        (joined(VISITS, TWO_SHOPS, ("v_a", "t_a"), ("v_b", "t_b")), True),
        (joined(VISITS, SHOPS, ("v_a", "s_a")), False),
        (joined(VISITS, SHOPS, ("v_b", "s_b"), ("v_visit", "s_a")), False),
        (joined(VISITS, SHOPS, ("v_a", "s_b"), ("v_b", "s_a")), False),
        (joined(VISITS, RENAMED, ("v_a", "s_a"), ("v_b", "s_b")), False),
        (joined(VISITS, TWO_SHOPS, ("v_a", "s_a"), ("v_b", "t_b")), False),
    ],
)
def test_the_whole_key_of_one_row_is_met(relation: Relation, is_accepted: bool) -> None:
    assert accepts(relation, DECLARED) is is_accepted


def test_a_key_that_is_read_as_another_type_names_nothing() -> None:
    """What does not fit into a type is read as NULL, and two values may be read as one."""
    numbers, texts = scan("notes", "n"), [scan(table, table[0], type=TEXT) for table in ("notes", "shops")]
    texts[1] = replace(texts[1], columns=(replace(texts[1].columns[0], type=INT64), *texts[1].columns[1:]))
    assert accepts(joined(numbers, SHOPS, ("n_shop", "s_shop")), DECLARED)
    assert not accepts(joined(texts[0], texts[1], ("n_shop", "s_shop")), DECLARED)


def test_the_parent_has_the_owner_that_the_child_says() -> None:
    """Declarations made by hand may say otherwise; then the parent's owner is not the child's."""
    relation = joined(VISITS, SHOPS, ("v_a", "s_a"), ("v_b", "s_b"))
    shops = DECLARED.tables["shops"]
    assert shops.ownership is not None
    other = replace(shops, ownership=replace(shops.ownership, column="shop"))
    declared = replace(DECLARED, tables={**DECLARED.tables, "shops": other})
    other_shops = replace(SHOPS, ownership=other.ownership, unit="s_shop")
    assert not accepts(replace(relation, right=other_shops), declared)


def test_one_column_of_the_parent_that_stands_for_two_of_the_child_names_nothing() -> None:
    visits = DECLARED.tables["visits"]
    assert visits.ownership is not None
    twice = replace(visits.ownership, path=(OwnerStep(parent="shops", on=(("a", "a", INT64), ("b", "a", INT64))),))
    declared = replace(DECLARED, tables={**DECLARED.tables, "visits": replace(visits, ownership=twice)})
    assert not accepts(joined(replace(VISITS, ownership=twice), SHOPS, ("v_a", "s_a")), declared)


def test_a_key_of_no_columns_names_nothing() -> None:
    visits = DECLARED.tables["visits"]
    assert visits.ownership is not None
    empty = replace(visits.ownership, path=(OwnerStep(parent="shops", on=()),))
    declared = replace(DECLARED, tables={**DECLARED.tables, "visits": replace(visits, ownership=empty)})
    assert not accepts(joined(replace(VISITS, ownership=empty), SHOPS), declared)


def accepts(relation: Relation, declared: Declarations) -> bool:
    """Whether the rules accept a relation, and know whose its rows are."""
    try:
        return bool(locality(relation, declared).units)
    except NotUnitLocal:
        return False


@pytest.mark.slow
def test_whatever_is_accepted_of_very_many_plans_is_unit_local() -> None:
    accepted, alive, _ = run(range(10**6, 10**6 + SLOW))
    assert accepted > alive > 1_000


def test_the_planner_keeps_an_equality_of_the_owner_that_no_key_implies() -> None:
    """Only the owner's own column may stand for it: a column that is equal to it on some rows is a filter."""

    def scan(table: str, names: tuple[str, ...], unit: str) -> Scan:
        columns = tuple(ScanColumn(id=f"{table}_{name}", name=name, type=INT64) for name in names)
        return Scan(table=table, columns=columns, unit=unit, ownership=DECLARED.tables[table].ownership, public=False)

    def pair(left: str, right: str) -> tuple[Column, Column]:
        return Column(id=left, type=INT64), Column(id=right, type=INT64)

    along = (pair("visits_a", "shops_a"), pair("visits_b", "shops_b"), pair("visitor", "keeper"))
    for more, is_changed in (((), True), ((pair("visitor", "shops_shop"),), False)):
        visits, shops = scan("visits", ("a", "b"), "visitor"), scan("shops", ("a", "b", "shop"), "keeper")
        join = Join(left=visits, right=shops, kind="inner", equalities=along + more)
        kept = Computed(id="kept", name="person", expression=Column(id="keeper", type=INT64))
        relation = Project(source=join, columns=(kept,))
        assert (without_second_joins(relation, DECLARED) is not relation) is is_changed
