"""Texts are read as long as the catalog says: a longer one is cut, or is NULL where it tells privacy units apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.catalog.write import write_catalog
from dpquery.errors import InternalError
from dpquery.kernel.plan import Count, Key, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import Relation, Scan
from dpquery.plan.types import FLOAT64, TEXT
from dpquery.sql.bind.bind import bind
from dpquery.sql.parse.parse import parse
from tests.reference.backend import ReferenceBackend

CATALOG = """
version: 2
dataset: d
privacy_unit: person
budget: {epsilon: 1}
tables:
  p:
    unit: id
    unique: [[id]]
    columns: {id: {type: text, max_length: 4}, t: {type: text, max_length: 3, nullable: true}}
  v:
    unit: {via: p, on: {id: id}}
    max_rows: 8
    columns: {id: {type: text, max_length: 6}, n: {type: int64, nullable: true}}
  c:
    public: true
    columns: {x: {type: int64}, t: {type: text, max_length: 3}}
"""
TABLES = {
    "p": pd.DataFrame({"id": ["anna", "anna2", "bé"], "t": ["ßßßß", "ab", "abcdef"]}),
    "v": pd.DataFrame({"id": ["anna", "anna2", "bé"], "n": ["1", "2" + " " * 2000, "03"]}),
    "c": pd.DataFrame({"x": [1, 1, 2, None], "t": ["abcd", "abce", "abc", "x"]}),
}


@pytest.fixture(params=["duckdb", "duckdb file", "reference"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    catalog = Catalog.from_yaml(CATALOG)
    if request.param == "reference":
        return ReferenceBackend(catalog, TABLES)
    if request.param == "duckdb":
        return DuckDBBackend(catalog, TABLES)
    paths = {}
    for name, frame in TABLES.items():
        paths[name] = str(tmp_path / f"{name}.parquet")
        duckdb.from_df(frame).write_parquet(paths[name])
    return DuckDBBackend(catalog, paths)


def source(text: str) -> Relation:
    """Returns what an aggregate over the query is taken of."""
    return bind(parse(text, "postgres", None), Catalog.from_yaml(CATALOG), text, "postgres").boundaries[0].source


def groups(backend: Backend, text: str, column: int = 1) -> dict[object, int]:
    """Returns how many rows each value of a column of a table has."""
    relation = source(f"SELECT COUNT(*) FROM {text}")
    assert isinstance(relation, Scan)
    columns = relation.columns
    aggregate = PrivateAggregate(
        source=relation,
        unit=relation.unit,
        keys=(Key.of(columns[column].id, columns[column].type, None),),
        weights=Weights(weighing=Weighing.WHOLE, max_rows=10, max_groups=10),
        measures=(Measure(id="u", label="", count=Count.UNITS, value=None, filter=None),),
        selection="u",
    )
    exact = backend.run(backend.prepare(aggregate), 7)
    return dict(zip(exact.keys[0].tolist(), exact.numbers[0].tolist(), strict=True))


def of_all(relation: Scan, counted: str = "n") -> PrivateAggregate:
    """Returns how many rows have a value of a column."""
    value = next(column.id for column in relation.columns if column.name == counted)
    return PrivateAggregate(
        source=relation,
        unit=relation.unit,
        keys=(),
        weights=Weights(weighing=Weighing.WHOLE, max_rows=10),
        measures=(Measure(id="n", label="", count=Count.VALUES, value=value),),
    )


def test_a_text_is_cut_after_so_many_characters(backend: Backend) -> None:
    assert groups(backend, "p") == {"ßßß": 1, "abc": 1}


def test_what_tells_persons_apart_is_never_cut(backend: Backend) -> None:
    """anna2 is nobody: the first four of its characters are another person's name."""
    assert groups(backend, "p", 0) == {"anna": 1, "bé": 1}
    assert groups(backend, "v", 0) == {"anna": 1, "bé": 1}


def test_columns_are_read_as_declared_or_not_at_all() -> None:
    """A plan that asks for another type, or for more of a text, would merge persons, or read what work was not counted
    for."""
    engine = DuckDBBackend(Catalog.from_yaml(CATALOG), TABLES)
    relation = source("SELECT COUNT(*) FROM v")
    assert isinstance(relation, Scan)
    engine.prepare(of_all(relation))
    for name, changed in (
        ("n", {"type": TEXT, "max_length": 1000}),
        ("n", {"type": FLOAT64}),
        ("id", {"max_length": 7}),
    ):
        columns = tuple(replace(c, **changed) if c.name == name else c for c in relation.columns)
        assert columns != relation.columns
        with pytest.raises(InternalError, match="than the catalog declares"):
            engine.prepare(of_all(replace(relation, columns=columns), counted=name))


def test_numbers_are_read_from_whole_texts(backend: Backend) -> None:
    assert groups(backend, "v") == {1: 1, 3: 1}


def test_sizes_of_public_tables_are_those_of_what_is_read(backend: Backend) -> None:
    assert backend.rows("c") == 4
    assert backend.most_equal("c", frozenset({"x"})) == 2
    assert backend.most_equal("c", frozenset({"t"})) == 3
    assert backend.most_equal("c", frozenset({"x", "t"})) == 2
    assert frozenset({"id"}) in backend.unique("p")
    assert backend.unique("v") == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_length: 3, nullable", "max_length: 0, nullable", "an integer of at least 1"),
        ("max_length: 3, nullable", "max_length: 10001, nullable", "at most 10,000 characters"),
        ("max_length: 3, nullable", "max_length: 3, keys: [abcd], nullable", "the key has 4 characters"),
        ("{type: text, max_length: 4}", "{type: text, max_length: 1001}", "identifies privacy units"),
        ("n: {type: int64, ", "n: {type: int64, max_length: 4, ", "does not hold text"),
    ],
)
def test_lengths_that_cannot_be_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(dp.CatalogError, match=message):
        Catalog.from_yaml(CATALOG.replace(old, new))


def test_lengths_and_work_are_written_and_described() -> None:
    catalog = Catalog.from_yaml(f"work: 77\n{CATALOG}")
    text = catalog.to_text()
    assert "cut after 3 characters" in text
    assert "at most 77 steps" in text
    assert "a person with 8 rows in each table changes the time of a query by at most 616 steps" in text
    assert Catalog.from_yaml(write_catalog(catalog)) == catalog


@pytest.mark.parametrize(("old", "new"), [("a", "b" * 200), ("aa", "bbb"), ("a", ""), ("", "b"), ("a", "b" * 7)])
def test_replacement_reads_as_much_as_fits(old: str, new: str) -> None:
    """No text has more than 10,000 characters, not even on the way, and all of what is read is replaced."""
    made = FUNCTIONS["replace"].meaning("a" * 10_000, old, new)
    assert len(made) <= 10_000
    assert "a" * max(2, len(old)) not in made or not old
