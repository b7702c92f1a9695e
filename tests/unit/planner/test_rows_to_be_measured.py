"""Tables whose rows of one unit are to be measured: what is answered before, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.catalog.rows import AUTO
from tests.scripted import zero_noise

CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: clinic
privacy_unit: patient
budget: {epsilon: 20}
tables:
  patients:
    unit: id
    unique: [[id]]
    columns: {id: {type: int64}, ward: {type: text, keys: [a, b]}}
  labs:
    unit: id
    max_rows: auto
    columns: {id: {type: int64}, lab: {type: int64, lower: 0, upper: 4000}, value: {type: int64, lower: 0, upper: 9}}
  flags:
    unit: {via: labs, on: {lab: lab}}
    max_rows: auto
    columns: {lab: {type: int64}, kind: {type: text, keys: [x, y]}}
""")
LABS = pd.DataFrame({"id": [i // 3 for i in range(3000)], "lab": range(3000), "value": 4})


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    sources = {
        "patients": pd.DataFrame({"id": range(1000), "ward": ["a", "b"] * 500}),
        "labs": LABS,
        "flags": pd.DataFrame({"lab": range(3000), "kind": ["x", "y"] * 1500}),
    }
    return dp.connect(CATALOG, sources, ledger=dp.create_ledger(CATALOG, tmp_path / "clinic.ledger"))


@pytest.mark.parametrize(
    ("query", "table"),
    [
        ("SELECT COUNT(*) AS n FROM labs", "labs"),
        ("SELECT SUM(value) AS s FROM labs WHERE value > 3", "labs"),
        ("SELECT kind, COUNT(*) AS n FROM flags GROUP BY kind", "flags"),
        ("SELECT ward, SUM(value) AS s FROM patients p JOIN labs l ON p.id = l.id GROUP BY ward", "labs"),
        ("SELECT COUNT(*) AS n FROM (SELECT id FROM labs UNION ALL SELECT id FROM patients) AS t", "labs"),
        ("SELECT COUNT(DISTINCT id) AS n, COUNT(*) AS rows FROM labs", "labs"),
        ("SELECT COUNT(DISTINCT value) AS n FROM labs", "labs"),
    ],
)
def test_queries_that_need_the_number_are_refused_unasked(query: str, table: str, session: dp.Session) -> None:
    left = session.remaining
    with pytest.raises(dp.MissingBoundsError) as caught:
        session.sql(query, epsilon=1)
    assert f"the rows of one patient in {table} were not measured (max_rows: auto)" in str(caught.value)
    assert "dpquery profile" in str(caught.value) and session.remaining == left
    with pytest.raises(dp.MissingBoundsError):
        session.explain(query, epsilon=1)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward", 1),
        ("SELECT AVG(CLAMP(n, 0, 9)) AS m FROM (SELECT id, COUNT(*) AS n FROM labs GROUP BY id) AS t", 1),
        ("SELECT COUNT(*) AS n FROM patients WHERE EXISTS (SELECT 1 FROM labs WHERE labs.id = patients.id)", 1),
        ("SELECT COUNT(DISTINCT id) AS n FROM labs", 1),
        ("SELECT COUNT(DISTINCT id) AS n, COUNT(DISTINCT id) FILTER (WHERE value > 3) AS m FROM labs", 1),
        ("SELECT p.ward, COUNT(DISTINCT l.id) AS n FROM labs l JOIN patients p ON p.id = l.id GROUP BY p.ward", 1),
    ],
)
def test_queries_with_a_row_of_each_unit_are_planned(query: str, rows: int, session: dp.Session) -> None:
    assert f"max_rows={rows}" in str(session.explain(query, epsilon=1))


def test_a_query_may_say_the_number_itself(session: dp.Session) -> None:
    assert "max_rows=7" in str(session.explain("SELECT COUNT(*) AS n FROM labs", epsilon=1, max_rows=7))


def test_a_number_is_suggested_though_all_bounds_are_declared(
    session: dp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    found = session.suggest_bounds(epsilon=10)
    assert (found.bounds, found.max_rows) == ({}, {"labs": 3})
    text = str(found)
    assert "    max_rows: 3  # suggested\n" in text and "# flags.max_rows: nothing was found" in text
    suggested = dp.Catalog.from_yaml(text)
    assert (suggested.table("labs").max_rows, suggested.table("flags").max_rows) == (3, AUTO)


def test_units_are_counted_before_a_number_is_known(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    query = "SELECT COUNT(DISTINCT id) AS n FROM labs WHERE lab < 30"
    (n,) = session.sql(query, epsilon=1).to_pandas().n
    assert n == 10 and session.explain(query, epsilon=1, fresh=True).measurements[0].l1 == 1
