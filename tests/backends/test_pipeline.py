# mypy: ignore-errors
"""SQL through the whole pipeline, with every random byte scripted to zero: then answers are the exact ones."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpquery.ledger.ledger import Ledger
from dpquery.session.session import Session
from tests.backends.engines import Engine, Frames, catalog_of
from tests.reference.backend import ReferenceBackend
from tests.scripted import zero_noise

INF, NAN = math.inf, math.nan
TABLES: dict[str, object] = {
    "patients": {
        "unit": "id",
        "unique": [["id"]],
        "columns": {
            "id": {"type": "int64"},
            "age": {"type": "int64", "lower": 18, "upper": 100},
            "sex": {"type": "text", "keys": ["F", "M"]},
            "bmi": {"type": "float64", "lower": 10, "upper": 80, "nullable": True},
            "cost": {"type": "decimal(12,2)", "lower": 0, "upper": 1000},
            "town": {"type": "text"},
            "smokes": {"type": "boolean"},
        },
    },
    "labs": {
        "unit": "id",
        "max_rows": 20,
        "columns": {
            "id": {"type": "int64"},
            "lab_id": {"type": "int64"},
            "test": {"type": "text", "keys_from": "tests.code"},
            "value": {"type": "float64", "lower": 0, "upper": 512, "nullable": True},
            "taken": {"type": "date", "lower": "2019-01-01", "upper": "2020-12-31"},
        },
    },
    "flags": {
        "unit": {"via": "labs", "on": {"lab_id": "lab_id"}},
        "max_rows": 8,
        "columns": {"lab_id": {"type": "int64"}, "flag": {"type": "text", "keys": ["high", "low"]}},
    },
    "tests": {
        "public": True,
        "unique": [["code"]],
        "columns": {"code": {"type": "text"}, "panel": {"type": "text"}},
    },
}
FRAMES = {
    "patients": pd.DataFrame(
        {
            "id": pd.array([1, 2, 3, 4, 5, 6, None], dtype="Int64"),
            "age": [20, 40, 60, 80, 1000, -5, 50],
            "sex": ["F", "M", "F", "F ", "f", "M", "F"],
            "bmi": [20.0, 30.0, NAN, INF, -INF, 25.5, 20.0],
            "cost": [
                Decimal("10.01"),
                Decimal("20.02"),
                None,
                Decimal("99999.99"),
                Decimal("-5"),
                Decimal("0"),
                Decimal("1"),
            ],
            "town": ["Ulm", "Ulm", "Ulm", "Bonn", None, None, "Ulm"],
            "smokes": pd.array([True, False, None, True, True, False, True], dtype="boolean"),
        }
    ),
    "labs": pd.DataFrame(
        {
            "id": pd.array([1, 1, 1, 2, 2, 3, None, 4, 99], dtype="Int64"),
            "lab_id": pd.array([10, 11, 12, 20, 21, 30, 40, None, 50], dtype="Int64"),
            "test": ["glu", "glu", "hba", "glu", "GLU", "xxx", "glu", "hba", "glu"],
            "value": [100.5, 200.25, NAN, 1e9, 5.0, 7.0, 8.0, -0.0, 64.0],
            "taken": [
                "2019-01-01",
                "2019-06-30",
                "2020-02-29",
                "2019-01-31",
                "2020-12-31",
                "2019-02-29",
                "2019-01-01",
                None,
                "2018-12-31",
            ],
        }
    ),
    "flags": pd.DataFrame(
        {
            "lab_id": pd.array([10, 10, 11, 20, 30, 40, None, 77], dtype="Int64"),
            "flag": ["high", "low", "high", "high", "low", "high", "high", "low"],
        }
    ),
    "tests": pd.DataFrame({"code": ["glu", "hba", "tsh", None], "panel": ["sugar", "sugar", "thyroid", "none"]}),
}

QUERIES = [
    "SELECT COUNT(*) AS n FROM patients",
    "SELECT COUNT(*) AS n, COUNT(bmi) AS known, COUNT(DISTINCT id) AS who FROM patients",
    "SELECT SUM(age) AS years, AVG(age) AS mean, STDDEV_POP(age) AS spread FROM patients",
    "SELECT SUM(bmi) AS total, AVG(bmi) AS mean, VAR_SAMP(bmi) AS spread FROM patients",
    "SELECT SUM(cost) AS total, AVG(cost) AS mean FROM patients",
    "SELECT sex, COUNT(*) AS n, AVG(bmi) AS mean FROM patients GROUP BY sex ORDER BY sex DESC",
    "SELECT town, COUNT(*) AS n, COUNT(*) FILTER (WHERE smokes) AS smokers FROM patients GROUP BY town",
    "SELECT sex, town, SUM(age) AS years FROM patients GROUP BY sex, town",
    "SELECT smokes, COUNT(*) AS n FROM patients GROUP BY smokes",
    "SELECT age / 20 AS decade, COUNT(*) AS n FROM patients WHERE age BETWEEN 18 AND 100 GROUP BY age / 20",
    "SELECT CASE WHEN bmi >= 25 THEN 'high' ELSE 'other' END AS class, COUNT(*) AS n FROM patients GROUP BY 1",
    "SELECT test, COUNT(*) AS n, SUM(value) AS total, COUNT(DISTINCT id) AS who FROM labs GROUP BY test",
    "SELECT test, COUNT(*) AS n FROM labs GROUP BY test HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 1",
    "SELECT COUNT(DISTINCT test) AS tests, COUNT(DISTINCT value) AS different FROM labs",
    "SELECT EXTRACT(YEAR FROM taken) AS year, COUNT(*) AS n FROM labs GROUP BY 1",
    "SELECT t.panel, COUNT(*) AS n, AVG(l.value) AS mean FROM labs l JOIN tests t ON l.test = t.code GROUP BY t.panel",
    "SELECT t.panel, COUNT(*) AS n FROM labs l LEFT JOIN tests t ON l.test = t.code GROUP BY t.panel",
    "SELECT p.sex, COUNT(*) AS n, SUM(l.value) AS total FROM patients p JOIN labs l ON p.id = l.id GROUP BY p.sex",
    "SELECT flag, COUNT(*) AS n FROM flags GROUP BY flag",
    "SELECT l.test, f.flag, COUNT(*) AS n FROM labs l JOIN flags f ON l.lab_id = f.lab_id GROUP BY l.test, f.flag",
    "SELECT n, COUNT(*) AS people FROM (SELECT id, LEAST(COUNT(*), 3) AS n FROM labs GROUP BY id) AS t GROUP BY n",
    "SELECT AVG(total) AS mean FROM (SELECT id, CLAMP(SUM(value), 0, 1000) AS total FROM labs GROUP BY id) AS t",
    "WITH seen AS (SELECT DISTINCT id, test FROM labs) SELECT test, COUNT(*) AS n FROM seen GROUP BY test",
    "SELECT COUNT(*) AS n FROM patients WHERE town LIKE 'U%' AND NOT (sex = 'M')",
]


def asked(
    tmp_path: Path, engine: Engine, tables: dict[str, object], frames: Frames, text: str, **options: Any
) -> pd.DataFrame:
    """Returns the answer of one backend to one query."""
    catalog = catalog_of(tables, unit=options.pop("unit", "patient"))
    ledger = Ledger.create(
        tmp_path / f"{engine.__name__}.ledger", catalog.declarations, catalog.budget, catalog.analysts
    )  # type: ignore[attr-defined]
    session = Session(catalog, backend=engine(catalog, frames), ledger=ledger, analyst="ann", reuse=False)
    return session.sql(text, **{"epsilon": "9", "delta": "1/2000", **options}).to_pandas()


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize(
    "bounds",
    [{}, {"max_groups": 9, "max_rows": 50}, {"max_groups": 9, "max_rows": 1}],
    ids=["declared", "wide", "one row"],
)
def test_answers_are_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, text: str, bounds: dict[str, int]
) -> None:
    if "DISTINCT test" in text and bounds.get("max_rows") == 1:
        bounds = {}  # which value a person keeps of several is a backend's own choice
    zero_noise(monkeypatch)
    expected = asked(tmp_path, ReferenceBackend, TABLES, FRAMES, text, **bounds)
    found = expected if engine is ReferenceBackend else asked(tmp_path, engine, TABLES, FRAMES, text, **bounds)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
    assert len(expected.columns) > 0


EXACT: list[tuple[str, dict[str, list[Any]]]] = [
    ("SELECT COUNT(*) AS n, SUM(age) AS years FROM patients", {"n": [6], "years": [20 + 40 + 60 + 80 + 100 + 18]}),
    ("SELECT COUNT(bmi) AS n, SUM(bmi) AS total FROM patients", {"n": [5], "total": [20.0 + 30 + 80 + 10 + 25.5]}),
    ("SELECT SUM(cost) AS total FROM patients", {"total": [Decimal("1030.03")]}),
    ("SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex", {"sex": ["F", "M"], "n": [2, 2]}),
    ("SELECT smokes, COUNT(*) AS n FROM patients GROUP BY smokes", {"smokes": [False, True], "n": [2, 3]}),
    ("SELECT test, COUNT(*) AS n FROM labs GROUP BY test", {"test": ["glu", "hba", "tsh"], "n": [4, 2, 0]}),
    ("SELECT flag, COUNT(*) AS n FROM flags GROUP BY flag", {"flag": ["high", "low"], "n": [3, 2]}),
    ("SELECT COUNT(DISTINCT test) AS n FROM labs", {"n": [4]}),
]


@pytest.mark.parametrize(("text", "expected"), EXACT)
def test_answers_are_exact_without_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, text: str, expected: dict[str, list[Any]]
) -> None:
    zero_noise(monkeypatch)
    found = asked(tmp_path, engine, TABLES, FRAMES, text, max_groups=9, max_rows=50)
    assert {name: found[name].tolist() for name in found.columns} == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n, SUM(value) AS total, AVG(value) AS mean FROM labs",
        "SELECT test, COUNT(*) AS n, COUNT(DISTINCT value) AS d FROM labs GROUP BY test",
        "SELECT t.panel, COUNT(*) AS n FROM labs l JOIN tests t ON l.test = t.code GROUP BY t.panel",
        "SELECT taken, COUNT(*) AS n FROM labs WHERE test = 'glu' GROUP BY taken HAVING COUNT(*) > 0",
    ],
)
def test_rows_as_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, text: str) -> None:
    zero_noise(monkeypatch)
    labs: Any = TABLES["labs"]
    tables: dict[str, object] = {"labs": {"columns": labs["columns"]}, "tests": TABLES["tests"]}
    frames = {name: FRAMES[name] for name in tables}
    expected = asked(tmp_path, ReferenceBackend, tables, frames, text, unit="row")
    found = expected if engine is ReferenceBackend else asked(tmp_path, engine, tables, frames, text, unit="row")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)


def test_empty_tables_are_answered_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    zero_noise(monkeypatch)
    frames = {**FRAMES, "patients": FRAMES["patients"].iloc[:0]}
    found = asked(
        tmp_path, engine, TABLES, frames, "SELECT sex, COUNT(*) AS n, AVG(bmi) AS m FROM patients GROUP BY sex"
    )
    assert found["sex"].tolist() == ["F", "M"]
    assert found["n"].tolist() == [0, 0]
    assert found["m"].isna().all()
