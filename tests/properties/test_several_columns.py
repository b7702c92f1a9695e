"""Units of several columns: a neighbour moves no more than is declared, and no two people are one.

Guests share parts with others of the crowd, and parts that put together without a mark would be somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.catalog.write import write_catalog
from dpquery.errors import CatalogError, UnsupportedQueryError
from dpquery.plan.logical import LONGEST_OWNER, Ownership, Scan, ScanColumn
from dpquery.plan.types import INT64, TEXT
from dpquery.units.declarations import Declarations
from dpquery.units.locality import NotUnitLocal, locality
from tests.properties.neighbours import ENGINES, Hall, check_inputs
from tests.properties.queries import Query
from tests.scripted import zero_noise

Person = tuple[object, object]
COUNTRIES = ("a", "ab", "d")
CROWD: list[Person] = [("ab", "c"), ("a", "c"), ("a", "b"), ("d", "bc"), ("d", "1:c"), (None, "c"), ("a", None)]
CROWD += [("d", str(number)) for number in range(20)]
GUESTS: list[Person] = [("a", "bc"), ("ab", "bc"), ("d", "c"), ("d", "c2:ab"), ("1:a", "bc"), ("", "abc"), ("a", "")]
VISITS = 5
QUERIES = {
    "SELECT COUNT(*) FROM visits": True,
    "SELECT country, COUNT(*), SUM(x) FROM visits GROUP BY country": True,
    "SELECT COUNT(DISTINCT (country, id)), COUNT(DISTINCT (id, country)) FROM visits": True,
    "SELECT country, COUNT(DISTINCT (country, id)) FROM visits GROUP BY country": True,
    "SELECT id, COUNT(*) FROM visits GROUP BY id": True,
    "SELECT AVG(n) FROM (SELECT country, id, CLAMP(SUM(x), 0, 9) AS n FROM visits GROUP BY country, id) AS q": True,
    "SELECT COUNT(*) FROM (SELECT DISTINCT country, id FROM visits) AS q": True,
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.country = p.country AND v.id = p.id": True,
    "SELECT COUNT(*) FROM people p JOIN visits v USING (id, country)": True,
    "SELECT COUNT(*) FROM visits v LEFT JOIN people p ON v.country = p.country AND v.id = p.id WHERE age > 3": True,
    "SELECT COUNT(*) FROM people p WHERE EXISTS "
    "(SELECT 1 FROM visits v WHERE v.country = p.country AND v.id = p.id AND x > 3)": True,
    "SELECT SUM(y) FROM items": True,
    "SELECT COUNT(*) FROM items JOIN visits ON items.country = visits.country AND items.visit = visits.visit": True,
    "SELECT AVG(n) FROM (SELECT country, id, kind, CLAMP(COUNT(*), 0, 5) AS n FROM "
    "(SELECT id, country, x > 3 AS kind FROM visits) AS v GROUP BY country, id, kind) AS q": True,
    "SELECT AVG(CLAMP(x - before, 0, 5)) FROM "
    "(SELECT x, LAG(x) OVER (PARTITION BY country, id ORDER BY visit) AS before FROM visits) AS q": True,
    "SELECT country, id, COUNT(*) FROM visits GROUP BY country, id": False,
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.id = p.id": False,
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.id = p.country AND v.country = p.id": False,
}


def catalog(unit: object = ("country", "id"), **more: Any) -> dp.Catalog:
    own = {"country": {"type": "text", "keys": list(COUNTRIES)}, "id": {"type": "text"}}
    named = [*unit] if isinstance(unit, tuple) else unit
    visit = {"visit": {"type": "int64"}}
    tables: dict[str, object] = {
        "people": {
            "unit": named,
            "unique": [["country", "id"]],
            "columns": {**own, "age": {"type": "int64", "lower": 0, "upper": 99}},
        },
        "visits": {
            "unit": named,
            "max_rows": 3,
            "columns": {**own, **visit, "x": {"type": "int64", "lower": 0, "upper": 9}},
        },
        "items": {
            "unit": {"via": "visits", "on": {"country": "country", "visit": "visit"}},
            "max_rows": 3,
            "columns": {"country": {"type": "text"}, **visit, "y": {"type": "int64", "lower": 0, "upper": 9}},
        },
    }
    given = {"dataset": "d", "privacy_unit": "person", "budget": {"epsilon": 100_000, "delta": "1e-4"}}
    return dp.Catalog(**(given | {"tables": tables} | more))


def tables(people: list[Person]) -> dict[str, pa.Table]:
    text = pa.string()
    visits = [
        (c, i, place * 10 + n, (n + len(f"{c}{i}")) % 10)
        for place, (c, i) in enumerate(people)
        for n in range(VISITS - len(f"{c}{i}") % 4)
    ]
    known = [(c, i, 40) for c, i in people]
    country, id, visit, x = (list(column) for column in zip(*visits, strict=True))
    owners, ids, ages = (list(column) for column in zip(*known, strict=True))
    return {
        "people": pa.table({"country": pa.array(owners, text), "id": pa.array(ids, text), "age": ages}),
        "visits": pa.table({"country": pa.array(country, text), "id": pa.array(id, text), "visit": visit, "x": x}),
        "items": pa.table({"country": pa.array(country, text), "visit": visit, "y": [9] * len(visit)}),
    }


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("halls"))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_neighbours_move_no_more_than_is_declared(shelf: str, engine: str, neighbours: str) -> None:
    """BND-11: each guest is a person of its own, whoever is there beside it."""
    hall = Hall(catalog(neighbours=neighbours), shelf, engine)
    alone = [] if neighbours == "replace_one" else [hall.open(tables(CROWD))]
    opened = [*alone, *(hall.open(tables([*CROWD, guest])) for guest in GUESTS)]
    random, moved = Random(7), 0
    for text in [query for query, is_answered in QUERIES.items() if is_answered]:
        prepared, key = opened[0].prepare(Query(text=text)), random.getrandbits(128)
        inputs = [database.opened.inputs(prepared, key) for database in opened]
        moved += sum([check_inputs(prepared, inputs[0], other, f"{engine}: {text}") for other in inputs[1:]])
    assert moved >= sum(QUERIES.values()) * len(opened[1:]) / 6, moved


@pytest.mark.parametrize("text", [query for query, is_answered in QUERIES.items() if not is_answered])
def test_parts_of_a_unit_are_no_unit(shelf: str, text: str) -> None:
    """BND-11: a part is an ordinary column, all parts together in their order are the person."""
    with pytest.raises(UnsupportedQueryError):
        Hall(catalog(), shelf).open(tables(CROWD)).prepare(Query(text=text))


def test_engines_measure_the_same(shelf: str) -> None:
    made, rows = catalog(), tables([*CROWD, *GUESTS])
    first, other = (Hall(made, shelf, engine).open(rows).opened for engine in ENGINES)
    for text in [query for query, is_answered in QUERIES.items() if is_answered and "GROUP BY id" not in query]:
        prepared = Hall(made, shelf).open(rows).prepare(Query(text=text))
        assert first.inputs(prepared, 5) == other.inputs(prepared, 5), text


def test_people_are_told_apart_and_weighed_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BND-11: ("a", "bc") and ("ab", "c") are two people, each with the weight of one."""
    zero_noise(monkeypatch)
    made = catalog()
    session = dp.connect(made, tables([("a", "bc"), ("ab", "c")]), ledger=dp.create_ledger(made, tmp_path / "l"))
    asked = "SELECT COUNT(DISTINCT (country, id)) AS people, COUNT(*) AS n FROM visits"
    assert session.sql(asked, epsilon=10).to_arrow().to_pylist() == [{"people": 2, "n": 4}]
    each = "SELECT COUNT(*) AS n FROM (SELECT country, id FROM visits GROUP BY country, id) AS q"
    assert session.sql(each, epsilon=10).to_arrow().to_pylist() == [{"n": 2}]
    by_country = session.sql("SELECT country, COUNT(*) AS n FROM visits GROUP BY country", epsilon=10).to_arrow()
    assert by_country.to_pylist() == [{"country": c, "n": n} for c, n in zip(COUNTRIES, (2, 2, 0), strict=True)]


def test_the_unit_is_an_injective_text(shelf: str) -> None:
    """BND-11: parts that hold digits and colons make no other tuple's text; NULL and what is too long is no unit."""
    words = ["", "1", ":", "1:", "a", "1:a", "a1:b", "b", "ä", "2:"]
    people: list[Person] = [(a, b) for a in words for b in words] + [(None, "a"), ("a", None)]
    long: list[Person] = [("x" * (LONGEST_OWNER - 10), "y" * 20), ("x" * (LONGEST_OWNER + 1), "y")]
    made = catalog()
    asked = Query(text="SELECT COUNT(DISTINCT (country, id)) FROM visits")
    for engine in ENGINES:
        hall = Hall(made, shelf, engine)
        prepared = hall.open(tables(people)).prepare(asked)
        some, more = (hall.open(tables(who)).opened.inputs(prepared, 3) for who in (people, [*people, *long]))
        assert some == more and list(some[0].values()) == [(len(words) ** 2,)]


def test_prepared_data_answer_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    made, rows = catalog(), tables([*CROWD, *GUESTS])
    ledger = dp.create_ledger(made, tmp_path / "l")
    dp.prepare(made, rows, tmp_path / "prepared", ledger=ledger, shards=3)
    plain, prepared = (dp.connect(made, source, ledger=ledger, reuse=False) for source in (rows, tmp_path / "prepared"))
    for text in [query for query, is_answered in QUERIES.items() if is_answered]:
        here, there = (one.sql(text, epsilon=20, delta="1e-6").to_arrow() for one in (plain, prepared))
        assert here == there, text


def test_the_ledger_keeps_the_parts_and_the_gate_refuses_others() -> None:
    declared = catalog().declarations
    assert Declarations.from_json(declared.to_json()) == declared
    owner = declared.tables["visits"].ownership
    assert owner is not None and (owner.columns, owner.types) == (("country", "id"), (TEXT, TEXT))
    assert '"parts"' not in catalog("id", defaults={"max_rows": 3}).declarations.to_json(), (
        "ledgers of units of one column stay as they are"
    )
    column = ScanColumn(id="c", name=owner.column, type=TEXT)
    forged = Scan(table="visits", columns=(column,), public=False, ownership=owner, unit="c")
    with pytest.raises(NotUnitLocal, match="is not its privacy unit"):
        locality(forged, declared)
    single = Scan(
        table="visits", columns=(), public=False, ownership=Ownership(path=(), column="id", type=TEXT), unit="u"
    )
    with pytest.raises(NotUnitLocal, match="not what the ledger's declarations say"):
        locality(single, declared)
    with pytest.raises(ValueError, match="several"):
        Ownership(path=(), column="a, b", type=INT64, parts=(("a", TEXT), ("b", TEXT)))


MISTAKES: dict[str, tuple[object, str]] = {
    "a single one": (("id",), "list of two columns at least"),
    "twice": (("id", "id"), "named twice"),
    "unknown": (("id", "land"), "not a declared column"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_mistakes_are_told(said: str) -> None:
    unit, message = MISTAKES[said]
    with pytest.raises(CatalogError, match=message):
        catalog(unit)


def test_tables_name_their_units_alike() -> None:
    columns: Mapping[str, object] = {"a": {"type": "text"}, "b": {"type": "text"}, "n": {"type": "int64"}}

    def two(first: list[str], second: object) -> dp.Catalog:
        each = {"max_rows": 1, "columns": columns}
        named = {"x": {"unit": first, **each}, "y": {"unit": second, **each}}
        return dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 1}, tables=named)

    assert two(["a", "n"], ["b", "n"]).tables["y"].ownership is not None, "columns may have other names"
    for other, message in ((["b", "a"], "another order"), (["a", "n"], "would count as two"), ("a", "count as two")):
        with pytest.raises(CatalogError, match=message):
            two(["a", "b"], other)


def test_catalogs_are_written_and_read_again() -> None:
    made = catalog()
    assert dp.Catalog.from_yaml(write_catalog(made)).tables == made.tables
    assert "columns country (text), id (text) together" in made.to_text()


def test_frames_of_the_same_people_share_a_budget() -> None:
    """API-20: people of several columns are found again in any order of them, in other types, and without a unit."""
    frame = pd.DataFrame({"land": ["p", "pq", "p"] * 9, "nr": [*range(27)], "x": 1})
    said: dict[str, Any] = {"max_rows": 3, "budget": {"epsilon": 9}, "bounds": {"x": (0, 1), "nr": (0, 9)}}
    first = frame.dp.protect(privacy_unit=["land", "nr"], **said)
    assert "unit land, nr" in repr(first) and "nr" not in first.mean(epsilon=1).index
    other = pd.DataFrame({"nr": frame["nr"].astype(str), "land": frame["land"], "y": 2})
    again = other.dp.protect(privacy_unit=["nr", "land"], max_rows=3)
    assert again.handle == first.handle
    with pytest.raises(CatalogError, match="has the units of the dataset"):
        pd.DataFrame({"nr": frame["nr"], "land": frame["land"]}).dp.protect(privacy_unit="row", budget={"epsilon": 1})
    with pytest.raises(CatalogError, match="a list of names"):
        frame.dp.protect(privacy_unit=[], **said)
