"""`min_units`: what is withheld follows from released counts alone, in every form of a query and every way to ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery import dbapi
from dpquery.catalog.write import write_catalog
from dpquery.errors import AccuracyWarning, CatalogError, ParameterError, UnsupportedQueryError
from tests.scripted import zero_noise

LEAST = 20
GROUPS = 40
FEW, MANY = "b", "a"
QUERIES = {
    "SELECT AVG(x) FROM t WHERE k = '%s'": [(None,)],
    "SELECT k, COUNT(*) FROM t WHERE k = '%s' GROUP BY k": [],
    "SELECT other, COUNT(*), MEDIAN(x) FROM t WHERE k = '%s' GROUP BY other": [],
    "SELECT DISTINCT other FROM t WHERE k = '%s'": [],
    "SELECT COUNT(*) + 1 FROM t WHERE k = '%s' HAVING COUNT(*) > -1000": [],
    "SELECT SUM(n) FROM (SELECT k, COUNT(*) AS n FROM t WHERE k = '%s' GROUP BY k)": [(None,)],
    "SELECT AVG(n) FROM (SELECT id, CLAMP(COUNT(*), 0, 9) AS n FROM t WHERE k = '%s' GROUP BY id)": [(None,)],
    "SELECT k, COUNT(*) FROM t WHERE k = '%s' GROUP BY ROLLUP(k)": [(None, None)],
    "SELECT COUNT(*) FROM t JOIN u ON t.id = u.id WHERE k = '%s'": [(None,)],
    "WITH q AS (SELECT COUNT(*) AS n FROM t WHERE k = '%s') SELECT a.n + b.n FROM q a, q b": [(None,)],
    "SELECT COUNT(DISTINCT id) FROM t WHERE k = '%s'": [(None,)],
}


def catalog(least: int | None = LEAST, **more: Any) -> dp.Catalog:
    columns = {
        "id": {"type": "int64"},
        "k": {"type": "text", "keys": [MANY, FEW, "c"]},
        "g": {"type": "int64", "keys": list(range(GROUPS))},
        "other": {"type": "text"},
        "x": {"type": "int64", "lower": 0, "upper": 9},
    }
    said = {} if least is None else {"min_units": least}
    tables = {
        "t": {"unit": "id", "max_rows": 3, "columns": columns, **said},
        "u": {"unit": "id", "unique": [["id"]], "columns": {"id": {"type": "int64"}}},
    }
    given = {"dataset": "d", "privacy_unit": "person", "budget": {"epsilon": 1_000_000, "delta": "1e-4"}}
    return dp.Catalog(tables=tables, **(given | more))


def frames() -> dict[str, pd.DataFrame]:
    """Returns 20 people in each of 40 groups; of `k`, 30 have the value of few in two rows, all others another."""
    rows = [(i, FEW if i < 15 else MANY, i // LEAST, i % 10) for i in range(GROUPS * LEAST) for _ in range(2)]
    table = pd.DataFrame(rows, columns=["id", "k", "g", "x"]).assign(other="z")
    return {"t": table, "u": pd.DataFrame({"id": range(GROUPS * LEAST)})}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    dp.create_ledger(catalog(), tmp_path / "d.ledger")
    return tmp_path / "d.ledger"


def session(path: Path, least: int | None = LEAST) -> dp.Session:
    return dp.connect(catalog(least), frames(), ledger=path)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dp.Session, dp.Session]]:
    """Sessions that withhold and that do not, neither of which stores what it released."""
    place = tmp_path_factory.mktemp("both") / "d.ledger"
    ledger = dp.create_ledger(catalog(), place)
    asking, plain = (dp.connect(catalog(least), frames(), ledger=ledger, reuse=False) for least in (LEAST, None))
    with asking, plain:
        yield asking, plain


@pytest.mark.parametrize("query", QUERIES)
def test_numbers_of_few_people_are_withheld_and_others_shown(
    query: str, both: tuple[dp.Session, dp.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    asking, plain = both
    few, many = (asking.sql(query % k, epsilon=50, delta="1e-6") for k in (FEW, MANY))
    assert [tuple(row.values()) for row in few.to_arrow().to_pylist()] == QUERIES[query]
    assert [line for line in few.warnings if f"fewer than min_units {LEAST} people (noisy)" in line]
    assert many.to_arrow() == plain.sql(query % MANY, epsilon=50, delta="1e-6").to_arrow()
    assert len(many.to_arrow()) and not [line for line in many.warnings if "withheld" in line]
    without = plain.sql(query % FEW, epsilon=50, delta="1e-6").to_arrow()
    assert [tuple(row.values()) for row in without.to_pylist()] != QUERIES[query]


def test_the_noisy_count_decides_and_not_the_exact_one(path: Path) -> None:
    """Each of 40 groups has as many people as are asked for, so that noise alone decides; a store tells it twice."""
    query = "SELECT g, SUM(x) AS s FROM t GROUP BY g"
    first = session(path).sql(query, epsilon=1)
    shown = set(first.to_pandas()["g"])
    assert 0 < len(shown) < GROUPS  # by fair noise both happen, but with a probability of less than 1e-9
    assert f"withheld: {GROUPS - len(shown)} group" in " ".join(first.warnings)
    counts = session(path, least=None).sql("SELECT g, COUNT(DISTINCT id) AS n FROM t GROUP BY g", epsilon="0.25")
    assert counts.charge == dp.PrivacyLoss(), "the count that decided is a stored release like others"
    noisy = counts.to_pandas().set_index("g")["n"]
    assert shown == set(noisy[noisy >= LEAST].index)
    again = session(path).sql(query, epsilon=1)
    assert again.charge == dp.PrivacyLoss() and again.to_arrow() == first.to_arrow()
    assert again.warnings == first.warnings


@pytest.mark.parametrize("grouped", [True, False])
def test_what_is_measured_is_what_a_condition_on_the_number_of_people_measures(path: Path, *, grouped: bool) -> None:
    """The gate sees the plan of a query that counts people; nothing below the boundary knows of the minimum."""
    query = "SELECT COUNT(*) AS n, AVG(x) AS m FROM t" + " GROUP BY k" * grouped
    asking, plain = session(path), session(path, least=None)
    texts = (query, f"{query} HAVING COUNT(DISTINCT id) >= {LEAST}")
    here, there = (one.explain(text, epsilon=1).measurements for one, text in zip((asking, plain), texts, strict=True))
    assert len(here) == len(there) == 3
    assert {(m.label, m.l1, m.l2, m.scale, str(m.loss)) for m in here} == {
        (m.label, m.l1, m.l2, m.scale, str(m.loss)) for m in there
    }


def test_a_count_of_people_is_measured_once(path: Path) -> None:
    asking, plain = session(path), session(path, least=None)
    for query in ("SELECT COUNT(DISTINCT id) FROM t", "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k"):
        here, there = (one.explain(query, epsilon=1).measurements for one in (asking, plain))
        assert here == there and len(here) == 1


def test_errors_can_be_asked_for(path: Path) -> None:
    answer = session(path).sql("SELECT k, COUNT(*) AS n FROM t GROUP BY k", error=8)
    assert answer.measurements[0].error95 <= 8


def test_queries_that_are_bought_together_are_judged_each(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    queries = [f"SELECT COUNT(*) AS n FROM t WHERE k = '{k}'" for k in (FEW, MANY)]
    few, many = session(path).batch(queries, epsilon=1)
    assert few.to_arrow()["n"].to_pylist() == [None] and many.to_arrow()["n"].to_pylist() != [None]


def test_frames_and_cursors_withhold_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    cursor = dbapi.connect(session(path)).cursor()
    with pytest.warns(AccuracyWarning, match="withheld: the total"):
        cursor.execute(f"SELECT COUNT(*) FROM t WHERE k = '{FEW}'", epsilon=1)
    assert cursor.fetchall() == [(None,)]
    private = frames()["t"].dp.protect(
        privacy_unit="id",
        bounds={"x": (0, 9)},
        keys={"k": [MANY, FEW]},
        max_rows=3,
        budget={"epsilon": 10},
        defaults={"epsilon": 1, "min_units": LEAST},
        dataset="withheld",
    )
    with pytest.warns(AccuracyWarning, match="withheld"):
        assert pd.isna(private[private["k"] == FEW]["x"].mean())
    with pytest.warns(AccuracyWarning, match="withheld: 1 group"):
        assert list(private.groupby("k")["x"].sum().index) == [MANY]


def test_ways_that_show_numbers_of_few_people_are_refused(path: Path) -> None:
    asking = session(path)
    with pytest.raises(UnsupportedQueryError, match="cells of few people, which min_units"):
        asking.synopsis("t", epsilon=1)
    with pytest.raises(ParameterError, match="min_units withholds"):
        asking.suggest_bounds(epsilon=1)
    with pytest.raises(UnsupportedQueryError, match="cells of few people"):
        asking.profile("t", epsilon=1)


def test_a_synopsis_is_not_read_any_more_once_a_minimum_is_declared(path: Path) -> None:
    session(path, least=None).synopsis("t", ["k"], epsilon=1, name="old")
    assert list(session(path, least=None).synopses) == ["old"] and not list(session(path).synopses)


def test_the_default_holds_for_private_tables_that_say_nothing(path: Path) -> None:
    made = catalog(defaults={"min_units": 7, "epsilon": 1})
    assert f"fewer than {LEAST} people" in made.to_text() and "fewer than 7 people" in made.to_text()
    written = dp.Catalog.from_yaml(write_catalog(made))
    assert written.defaults == made.defaults and written.tables == made.tables
    assert made.declarations.to_json() == catalog(None).declarations.to_json(), "the ledger need not hear of it"


MISTAKES = {
    "public: true, min_units: 5": ("person", "a public table has none"),
    "min_units: 5": ("row", "nothing tells whose a row is"),
    "unit: id, max_rows: auto, min_units: 5": ("person", "max_rows: auto shows how many people"),
    "unit: id, max_rows: 1, min_units: 0": ("person", "at least 1"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_mistakes_are_told(said: str) -> None:
    unit, message = MISTAKES[said]
    text = f"version: 2\ndataset: d\nprivacy_unit: {unit}\nbudget: {{epsilon: 1}}\ntables:\n"
    with pytest.raises(CatalogError, match=message):
        dp.Catalog.from_yaml(f"{text}  t: {{{said}, columns: {{id: {{type: int64}}}}}}")


def test_reports_are_refused_beside_it() -> None:
    made = catalog(None)
    columns = {"id": {"type": "int64"}, "r": {"type": "text", "randomized": {"epsilon": 1, "categories": ["a", "b"]}}}
    with pytest.raises(CatalogError, match="numbers of people behind its reports"):
        dp.Catalog(
            dataset="d",
            privacy_unit="person",
            budget={"epsilon": 1},
            defaults={"min_units": 3, "max_rows": 1},
            tables={"t": {"unit": "id", "columns": columns}},
        )
    assert replace(made.defaults, min_units=3) != made.defaults
