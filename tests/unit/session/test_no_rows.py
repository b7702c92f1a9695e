"""A query whose text says that it has no row gives its columns; nothing is measured or charged for it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery import dbapi

CATALOG = dp.Catalog(
    dataset="visits",
    privacy_unit="person",
    budget={"epsilon": 1},
    tables={
        "visits": {
            "unit": "id",
            "max_rows": 3,
            "columns": {
                "id": {"type": "int64"},
                "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-31"},
                "n": {"type": "int64", "lower": 0, "upper": 2},
            },
        }
    },
)
FRAME = pd.DataFrame({"id": [1, 1, 2], "day": pd.to_datetime(["2024-01-02"] * 3), "n": [1, 2, 2]})


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    ledger = dp.create_ledger(CATALOG, tmp_path / "visits.ledger")
    return dp.connect(CATALOG, sources={"visits": FRAME}, ledger=ledger)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT COUNT(*) AS n FROM visits LIMIT 0", {"n": pa.int64()}),
        (
            "SELECT day, SUM(n) AS s FROM visits WHERE 1 = 0 GROUP BY day",
            {"day": pa.date32(), "s": pa.decimal128(32, 0)},
        ),
        ("SELECT AVG(n) AS m FROM visits WHERE FALSE AND n > 1 GROUP BY day", {"m": pa.float64()}),
        ("SELECT * FROM visits WHERE 1 = 0", {"id": pa.int64(), "day": pa.date32(), "n": pa.int64()}),
        ("SELECT n, n FROM visits ORDER BY day LIMIT 0", {"n": pa.int64(), "n_2": pa.int64()}),
        ("SELECT x.c FROM (SELECT COUNT(*) AS c FROM visits) AS x LIMIT 0", {"c": pa.int64()}),
    ],
)
def test_what_has_no_row_is_free(session: dp.Session, text: str, types: dict[str, pa.DataType]) -> None:
    before = session.remaining
    plan = session.explain(text, epsilon="0.5")
    answer = session.sql(text, epsilon="0.5")
    assert answer.to_arrow().schema == plan.schema == pa.schema(list(types.items()))
    assert len(answer) == 0 and plan.measurements == answer.measurements == ()
    assert str(answer.charge) == str(plan.charge) == "nothing" and session.remaining == before


def test_a_total_of_no_row_is_a_row(session: dp.Session) -> None:
    assert len(session.sql("SELECT COUNT(*) AS n FROM visits WHERE 1 = 0", epsilon="0.1")) == 1


def test_in_the_database_api_too(session: dp.Session, tmp_path: Path) -> None:
    session.close()
    connection = dbapi.connect(CATALOG, {"visits": FRAME}, ledger=tmp_path / "visits.ledger")
    cursor = connection.cursor()
    cursor.execute("SELECT day, COUNT(*) AS n FROM visits GROUP BY day LIMIT 0")
    assert [(name, code) for name, code, *_ in cursor.description] == [("day", "date"), ("n", "int64")]  # type: ignore[union-attr]
    assert cursor.fetchall() == []
    connection.close()


PROBES = (
    "SELECT COUNT(*) AS n FROM visits WHERE day IS NULL",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE n IS NULL) AS failures",
    "SELECT COUNT(*) FILTER (WHERE day IS NULL) AS n FROM visits",
    "SELECT COUNT(CASE WHEN day IS NULL THEN 1 END) AS n FROM visits",
    "SELECT SUM(CASE WHEN day IS NULL THEN 1 ELSE 0 END) AS n FROM visits",
    "SELECT COUNT(DISTINCT id) AS n FROM visits WHERE day IS NULL AND n > 1",
    "SELECT COUNT(*) AS n FROM visits WHERE 1 = 0",
)


@pytest.mark.parametrize("text", PROBES)
def test_missing_values_of_a_column_without_null_are_none(session: dp.Session, text: str) -> None:
    answer = session.sql(text, epsilon="0.5")
    assert answer.to_pandas()["n"].tolist() == [0] and str(answer.charge) == "nothing"


def test_what_is_certain_is_not_measured_beside_the_rest(session: dp.Session) -> None:
    text = (
        "SELECT day, COUNT(*) AS n, COUNT(*) - COUNT(CASE WHEN n IS NULL THEN 1 END) AS known FROM visits GROUP BY day"
    )
    answer = session.sql(text, epsilon="0.5")
    assert [measured.label for measured in answer.measurements] == ["COUNT(*)"]
    frame = answer.to_pandas()
    assert len(frame) == 31 and (frame["n"] == frame["known"]).all()


def test_columns_that_may_be_null_are_measured(tmp_path: Path) -> None:
    columns = {"id": {"type": "int64"}, "x": {"type": "int64", "lower": 0, "upper": 9, "nullable": True}}
    tables = {"t": {"unit": "id", "unique": [["id"]], "columns": columns}}
    catalog = dp.Catalog(dataset="t", privacy_unit="person", budget={"epsilon": 1}, tables=tables)
    frame = pd.DataFrame({"id": [1, 2], "x": [None, 3]})
    given = dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, tmp_path / "t.ledger"))
    assert len(given.explain("SELECT COUNT(*) AS n FROM t WHERE x IS NULL", epsilon="0.5").measurements) == 1
    outer = "SELECT COUNT(*) AS n FROM t AS a LEFT JOIN t AS b ON a.id = b.id AND b.x > 3 WHERE b.id IS NULL"
    assert len(given.explain(outer, epsilon="0.5").measurements) == 1
