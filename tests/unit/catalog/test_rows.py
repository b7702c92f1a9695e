"""How many rows of one unit a table has: said, following from `unique`, or to be measured; never left open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpquery.catalog import Catalog
from dpquery.catalog.rows import AUTO, rows_of
from dpquery.catalog.write import write_catalog
from dpquery.errors import CatalogError

HEAD = "version: 2\ndataset: d\nprivacy_unit: patient\nbudget: {epsilon: 1}\n"
COLUMNS = "columns: {id: {type: int64}, visit: {type: int64}}"
WAYS = ("max_rows: N", "unique: [[id]]", "max_rows: auto", "dpquery profile")


def catalog(body: str, head: str = HEAD) -> Catalog:
    return Catalog.from_yaml(f"{head}tables:\n  t: {{{body}, {COLUMNS}}}\n")


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(CatalogError) as caught:
        Catalog.from_yaml(text)
    return caught.value.problems


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("unit: id, max_rows: 40", 40),
        ("unit: id, unique: [[id]]", 1),
        ("unit: id, unique: [[visit], [id]]", 1),
        ("unit: id, unique: [[id]], max_rows: 40", 1),
        ("unit: id, max_rows: auto", AUTO),
    ],
)
def test_the_three_ways_are_accepted(body: str, rows: object) -> None:
    made = catalog(body)
    assert rows_of(made.table("t"), made) == rows


@pytest.mark.parametrize("body", ["unit: id", "unit: id, unique: [[visit]]", "unit: id, unique: [[id, visit]]"])
def test_a_table_of_people_says_how_many_rows_one_has(body: str) -> None:
    (problem,) = problems(f"{HEAD}tables:\n  t: {{{body}, {COLUMNS}}}\n")
    assert problem.startswith("line 6: tables.t: say how many rows one patient has in all")
    assert all(way in problem for way in WAYS)


def test_the_default_holds_where_the_catalog_says_it() -> None:
    made = catalog("unit: id", HEAD + "defaults: {max_rows: 7}\n")
    assert (rows_of(made.table("t"), made), made.table("t").max_rows) == (7, None)
    assert "rows of one patient: at most 7 in all (default)" in made.to_text()
    assert problems(f"{HEAD}defaults: {{max_groups: 7}}\ntables:\n  t: {{unit: id, {COLUMNS}}}\n")


def test_tables_owned_by_a_foreign_key_say_it_too() -> None:
    text = f"""{HEAD}tables:
  t: {{unit: id, max_rows: 3, {COLUMNS}}}
  s: {{unit: {{via: t, on: {{visit: visit}}}}, unique: [[id]], {COLUMNS}}}
"""
    (problem,) = problems(text)
    assert problem.startswith("line 7: tables.s: say how many rows one patient has in all")
    assert "in a table that holds the unit's own column" in problem
    assert Catalog.from_yaml(text.replace("unique: [[id]]", "max_rows: 5")).table("s").max_rows == 5


def test_the_ways_are_named_once() -> None:
    first, second = problems(f"{HEAD}tables:\n  t: {{unit: id, {COLUMNS}}}\n  s: {{unit: id, {COLUMNS}}}\n")
    assert "three" not in second and all(way in first for way in WAYS)
    assert second == "line 7: tables.s: say how many rows one patient has here as well"


def test_nothing_is_asked_of_rows_and_of_public_tables() -> None:
    by_row = Catalog.from_yaml(f"{HEAD.replace('patient', 'row')}tables:\n  t: {{{COLUMNS}}}\n")
    assert rows_of(by_row.table("t"), by_row) == 1
    assert catalog("public: true").table("t").max_rows is None
    (problem,) = problems(f"{HEAD}tables:\n  t: {{public: true, max_rows: auto, {COLUMNS}}}\n")
    assert "max_rows bounds the contribution of a privacy unit" in problem


@pytest.mark.parametrize("rows", ["Auto", "'auto '", "0", "1.5", "all", "true", "[1]"])
def test_what_is_no_number_of_rows_is_refused(rows: str) -> None:
    (problem,) = problems(f"{HEAD}tables:\n  t: {{unit: id, max_rows: {rows}, {COLUMNS}}}\n")
    assert "tables.t.max_rows: expected auto, or an integer of at least 1" in problem


def test_a_mistake_about_the_unit_is_one_mistake() -> None:
    (problem,) = problems(f"{HEAD}tables:\n  t: {{unit: who, {COLUMNS}}}\n")
    assert "'who' is not a declared column" in problem


def test_python_says_it_in_the_same_words() -> None:
    table: dict[str, Any] = {"unit": "id", "columns": {"id": {"type": "int64"}}}
    said: dict[str, Any] = {"dataset": "d", "privacy_unit": "patient", "budget": {"epsilon": 1}}
    with pytest.raises(CatalogError, match=r"tables\.t: say how many rows one patient has in all"):
        Catalog(**said, tables={"t": table})
    assert Catalog(**said, tables={"t": table | {"max_rows": "auto"}}).table("t").max_rows is AUTO
    said["version"] = 2
    with pytest.raises(TypeError, match="version"):
        Catalog(**said, tables={"t": table | {"max_rows": 2}})


def test_in_blocks_it_is_asked_of_one_block() -> None:
    head = HEAD + "neighbours: replace_one\n"
    columns = "columns: {id: {type: int64}, day: {type: date, lower: 2024-01-01, upper: 2024-12-31}}"
    table = f"tables:\n  t: {{unit: id, blocks: {{column: day, by: month}}, {columns}}}\n"
    assert "say how many rows one patient has in one month. It" in problems(head + table)[0]
    made = Catalog.from_yaml(head + table.replace("unit: id", "unit: id, max_rows: 9"))
    assert "rows of one patient: at most 9 in one month\n" in made.to_text()


@pytest.mark.parametrize("body", ["unit: id, max_rows: auto", "unit: id, max_rows: 12", "unit: id, unique: [[id]]"])
def test_what_is_written_says_it_and_its_version(body: str) -> None:
    made = catalog(body)
    text = write_catalog(made)
    assert text.startswith("version: 2\n")
    assert Catalog.from_yaml(text) == made


BOTH_READINGS = (
    "one unit that count in each group of a query",
    "one unit has in the whole table",
    "version: 2 at the top",
)


@pytest.mark.parametrize("said", ["", "version: 1\n"])
def test_files_of_version_1_are_refused_with_both_readings(said: str, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(f"{HEAD}tables:\n  t: {{unit: id, max_rows: 4, {COLUMNS}}}\n".replace("version: 2\n", said))
    with pytest.raises(CatalogError) as caught:
        Catalog.load(file)
    (problem,) = caught.value.problems
    assert problem.startswith("d.yaml:1: ")
    assert all(reading in problem for reading in BOTH_READINGS)


@pytest.mark.parametrize("said", ["3", "2.0", "'2'", "two", "02", "[2]", "true"])
def test_other_versions_are_refused(said: str) -> None:
    text = f"{HEAD}tables:\n  t: {{unit: id, max_rows: 4, {COLUMNS}}}\n".replace("version: 2\n", f"version: {said}\n")
    assert problems(text) == ("line 1: version: write version: 2, the supported version",)
