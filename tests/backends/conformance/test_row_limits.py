"""A unit with more rows than are read: so many of them, the same for all scans of a table, and nobody else's fewer."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

from dpquery.catalog import Catalog
from dpquery.kernel.plan import Count, Key, Lattice, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.functions import call
from dpquery.plan.logical import Filter, Join, Relation, Scan, column
from dpquery.plan.types import INT64
from tests.backends.engines import KEY, Engine, catalog_of, groups_of, run
from tests.backends.plans import MANY, literal, scan

LIMIT = 5
TABLES: dict[str, Any] = {
    "people": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}}},
    "visits": {
        "unit": "person",
        "max_rows": 8,
        "row_limit": LIMIT,
        "columns": {
            "person": {"type": "int64"},
            "number": {"type": "int64", "lower": 0, "upper": 1000},
            "kind": {"type": "text", "keys": ["a", "b"]},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
        },
    },
    "items": {
        "unit": {"via": "visits", "on": {"visit": "number"}},
        "max_rows": 8,
        "row_limit": 3,
        "columns": {"visit": {"type": "int64"}, "label": {"type": "text"}},
    },
}
ROWS = {1: 40, 2: LIMIT, 3: 1, 4: LIMIT + 1, None: 50}
"""Rows of each person; of nobody there may be any number."""


def frames() -> dict[str, pd.DataFrame]:
    people = [person for person, count in ROWS.items() for _ in range(count)]
    start = datetime.date(2024, 1, 1)
    visits = pd.DataFrame(
        {
            "person": pd.Series(people, dtype="Int64"),
            "number": range(len(people)),
            "kind": [("a", "b")[i % 2] for i in range(len(people))],
            "day": [start + datetime.timedelta(days=i % 60) for i in range(len(people))],
        }
    )
    items = pd.DataFrame({"visit": [i % 46 for i in range(200)], "label": [str(i) for i in range(200)]})
    return {"people": pd.DataFrame({"id": [1, 2, 3, 4]}), "visits": visits, "items": items}


def counted(source: Relation, unit: str, by: str | None = None) -> PrivateAggregate:
    """Returns rows and the sum of the numbers of visits, by person."""
    keys = () if by is None else (Key.of(by, INT64, (1, 2, 3, 4)),)
    return PrivateAggregate(
        source=source,
        unit=unit,
        keys=keys,
        weights=Weights(weighing=Weighing.WHOLE, max_rows=MANY),
        measures=(Measure(id="n", label="", count=Count.ROWS),),
    )


def made(**tables: Any) -> Catalog:
    return catalog_of({**TABLES, **tables})


def limited(catalog: Catalog, table: str, alias: str = "") -> Scan:
    return replace(scan(catalog, table, alias), row_limit=catalog.tables[table].row_limit or 10**7)


def by_person(engine: Engine, catalog: Catalog, source: Relation, unit: str, key: int = KEY) -> dict[int, int]:
    found = run(engine(catalog, frames()), counted(source, unit, unit), key)
    return {person: numbers[0] for (person,), numbers in found.items()}  # type: ignore[misc]


def test_a_unit_is_read_with_at_most_so_many_rows(engine: Engine) -> None:
    found = by_person(engine, made(), limited(made(), "visits"), "visits_person")
    assert found == {1: LIMIT, 2: LIMIT, 3: 1, 4: LIMIT}


def test_a_limit_that_nobody_reaches_leaves_all_rows(engine: Engine) -> None:
    catalog = made(visits=TABLES["visits"] | {"row_limit": 40})
    found = by_person(engine, catalog, limited(catalog, "visits"), "visits_person")
    assert found == {1: 40, 2: LIMIT, 3: 1, 4: LIMIT + 1}


def test_rows_that_are_owned_by_foreign_key_are_counted_by_their_owner(engine: Engine) -> None:
    catalog = made()
    assert set(by_person(engine, catalog, limited(catalog, "items"), "items_unit").values()) == {3}


def test_a_limit_holds_where_a_join_tells_the_owner(engine: Engine) -> None:
    catalog = made(visits={**TABLES["visits"], "row_limit": 1000})
    items, visits = replace(limited(catalog, "items"), unit=None), limited(catalog, "visits")
    same = (column(items, "items_visit"), column(visits, "visits_number"))
    joined = Join(left=items, right=visits, kind="inner", equalities=(same,))
    assert set(by_person(engine, catalog, joined, "visits_person").values()) == {3}


@pytest.mark.parametrize("key", [1, 2, KEY])
def test_all_scans_of_a_table_read_the_same_rows(engine: Engine, key: int) -> None:
    """A row joined with itself is there in both scans or in neither, also where the scans read other columns."""
    catalog = made()
    one = limited(catalog, "visits", "a")
    two: Relation = limited(catalog, "visits", "b")
    for name in ("b_kind", "b_day"):  # what nobody reads is not scanned
        two = Filter(source=two, condition=call("is_not_null", (column(two, name),)))
    same = tuple((column(one, f"a_{name}"), column(two, f"b_{name}")) for name in ("person", "number"))
    joined = Join(left=one, right=two, kind="inner", equalities=same)
    assert by_person(engine, catalog, joined, "a_person", key) == {1: LIMIT, 2: LIMIT, 3: 1, 4: LIMIT}


def test_the_key_decides_which_rows_are_read(engine: Engine) -> None:
    catalog = made()
    backend = engine(catalog, frames())
    source = limited(catalog, "visits")
    lattice = Lattice(grid=Fraction(1), lower=0, upper=1000)
    total = Measure(id="n", label="", count=Count.SUM, value="visits_number", lattice=lattice)
    aggregate = replace(counted(source, "visits_person"), measures=(total,))
    found = Counter(run(backend, aggregate, key)[()][0] for key in (7, 7, 8, 9, 10, 11))
    assert len(found) > 2
    assert max(found.values()) == 2


def test_what_one_unit_has_decides_about_its_own_rows_alone(engine: Engine) -> None:
    """Without the unit with many rows all others have the very same rows."""
    catalog = made()
    source = limited(catalog, "visits")
    lattice = Lattice(grid=Fraction(1), lower=0, upper=1000)
    total = Measure(id="n", label="", count=Count.SUM, value="visits_number", lattice=lattice)
    aggregate = replace(counted(source, "visits_person", "visits_person"), measures=(total,))
    whole = frames()
    without = {**whole, "visits": whole["visits"][whole["visits"].person.fillna(0) != 1]}
    sums = []
    for tables in (whole, without):
        backend = engine(catalog, tables)
        exact = backend.run(backend.prepare(aggregate), KEY)
        sums.append({group: numbers for group, numbers in groups_of(aggregate, exact).items() if group != (1,)})
    assert sums[0] == sums[1]
    assert set(sums[0]) == {(2,), (3,), (4,)}


def test_rows_are_limited_before_they_are_filtered(engine: Engine) -> None:
    """Which rows are read follows from the table, not from the question: two halves add up to the limit."""
    catalog = made()
    source = limited(catalog, "visits")
    halves = []
    for kind in ("a", "b"):
        condition = call("eq", (column(source, "visits_kind"), literal(kind)))
        halves.append(by_person(engine, catalog, Filter(source=source, condition=condition), "visits_person"))
    assert {person: sum(half.get(person, 0) for half in halves) for person in (1, 2, 4)} == {1: 5, 2: 5, 4: 5}


def test_rows_in_blocks_are_limited_in_each_block(engine: Engine) -> None:
    visits = TABLES["visits"] | {"blocks": {"column": "day", "by": "month"}}
    catalog = catalog_of({"people": TABLES["people"], "visits": visits}, neighbours="replace_one")
    days = frames()["visits"]
    expected = {}
    for person in (1, 2, 3, 4):
        months = Counter(day.month for day in days[days.person == person].day)
        expected[person] = sum(min(LIMIT, count) for count in months.values())
    assert expected[1] > LIMIT
    assert by_person(engine, catalog, limited(catalog, "visits"), "visits_person") == expected


def test_rows_that_are_equal_in_all_columns_are_limited_too(engine: Engine) -> None:
    catalog = catalog_of({"visits": TABLES["visits"]})
    tables = {"visits": pd.concat([frames()["visits"].iloc[:1]] * 30)}
    aggregate = counted(limited(catalog, "visits"), "visits_person", "visits_person")
    assert run(engine(catalog, tables), aggregate) == {(1,): (LIMIT,)}


@pytest.mark.parametrize("selected", [False, True])
@pytest.mark.parametrize("key", range(4))
def test_a_unit_with_one_row_in_each_block_is_one_unit(engine: Engine, selected: bool, key: int) -> None:
    """The plan's limit is of a block: over all of them a unit has more rows, and more groups and values."""
    visits = TABLES["visits"] | {"blocks": {"column": "day", "by": "month"}}
    catalog = catalog_of({"visits": visits}, neighbours="replace_one")
    days = [datetime.date(2024, month, 1) for month in range(1, 10)]
    rows = [(person, i // 3, "a", day) for person in (1, 2) for i, day in enumerate(days)]
    tables = {"visits": pd.DataFrame(rows, columns=["person", "number", "kind", "day"])}
    aggregate = PrivateAggregate(
        source=limited(catalog, "visits"),
        unit="visits_person",
        keys=(Key.of("visits_number", INT64, None if selected else (0, 1, 2)),),
        weights=Weights(weighing=Weighing.WHOLE, max_rows=1, max_groups=1 if selected else None),
        measures=(
            Measure(id="units", label="", count=Count.UNITS),
            Measure(id="days", label="", count=Count.DISTINCT, value="visits_day"),
            Measure(id="rows", label="", count=Count.ROWS),
        ),
        selection="units" if selected else None,
    )
    found = run(engine(catalog, tables), aggregate, key)
    if selected:
        assert sum(units for units, _, _ in found.values()) == 2
    else:
        assert {group: (units, rows) for group, (units, _, rows) in found.items()} == {(n,): (2, 6) for n in range(3)}
    assert sum(values for _, values, _ in found.values()) <= 2


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("table", ["people", "visits", "items"])
def test_a_plan_may_read_fewer_rows_than_the_catalog_lets(engine: Engine, table: str, most: int) -> None:
    """As below a join of private tables, where the product of both limits bounds the rows of a unit."""
    large = {name: TABLES[name] | {"row_limit": 1000} for name in ("people", "visits", "items")}
    catalog = made(**large)  # that no unit reaches
    read = limited(catalog, table)
    unit = read.unit
    assert unit is not None
    whole = by_person(engine, catalog, read, unit)
    found = by_person(engine, catalog, replace(read, row_limit=min(most, read.row_limit)), unit)
    assert found == {person: min(most, count) for person, count in whole.items()}
