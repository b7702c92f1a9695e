"""Public keys hold every group that rows may be in, and of keys that follow from each other no other combinations.

The declarations are true of the rows, so that without noise the groups with rows are those of plain SQL.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: visits
privacy_unit: person
budget: {epsilon: 1000000}
defaults: {max_groups: 1000, max_rows: 1000}
tables:
  visits:
    unit: person
    columns:
      person: {type: int64}
      doctor: {type: int64, nullable: true}
      item: {type: int64, lower: 0, upper: 30, nullable: true}
      kind: {type: text, keys: [a, b], nullable: true}
      at: {type: timestamp, lower: 2024-01-30 00:00:00, upper: 2024-03-05 12:00:00, nullable: true}
      day: {type: date, lower: 2023-12-20, upper: 2024-02-10}
      n: {type: int64, lower: -7, upper: 40}
  doctors:
    public: true
    columns:
      id: {type: int64, nullable: true}
      name: {type: text, nullable: true}
      house: {type: int64, lower: 0, upper: 1000, nullable: true}
      kind: {type: text, nullable: true}
  houses:
    public: true
    columns: {house: {type: int64}, town: {type: text, nullable: true}}
  items:
    public: true
    columns: {id: {type: int64}, label: {type: text}}
"""
QUERIES = {
    "columns of a table": ("d.name, d.house", "visits v JOIN doctors d ON v.doctor = d.id"),
    "foreign key": ("v.doctor, d.name", "visits v JOIN doctors d ON v.doctor = d.id"),
    "bounded foreign key": ("v.item, i.label", "visits v JOIN items i ON v.item = i.id"),
    "left join": ("v.item, i.label", "visits v LEFT JOIN items i ON v.item = i.id"),
    "left join of a part": ("v.item, i.label", "visits v LEFT JOIN items i ON v.item = i.id AND i.label <> 'l3'"),
    "left join by two columns": (
        "v.kind, d.name",
        "visits v LEFT JOIN doctors d ON v.doctor = d.id AND v.kind = d.kind",
    ),
    "left join of nothing else": ("d.name, d.house", "visits v LEFT JOIN doctors d ON v.doctor = d.id"),
    "snowflake": (
        "d.name, h.town",
        "visits v JOIN doctors d ON v.doctor = d.id JOIN houses h ON d.house = h.house",
    ),
    "snowflake, left": (
        "d.name, h.town",
        "visits v LEFT JOIN doctors d ON v.doctor = d.id LEFT JOIN houses h ON d.house = h.house",
    ),
    "snowflake, left after inner": (
        "d.name, h.town",
        "visits v JOIN doctors d ON v.doctor = d.id LEFT JOIN houses h ON d.house = h.house",
    ),
    "through a table between": (
        "v.doctor, h.town",
        "visits v JOIN doctors d ON v.doctor = d.id JOIN houses h ON d.house = h.house",
    ),
    "equal in WHERE": ("d.name, i.label", "visits v JOIN doctors d ON v.doctor = d.id JOIN items i ON d.house = i.id"),
    "a table twice": (
        "d.name, e.name",
        "visits v JOIN doctors d ON v.doctor = d.id JOIN doctors e ON d.house = e.house",
    ),
    "subquery": (
        "t.label, t.house",
        "visits v JOIN (SELECT id, UPPER(name) AS label, house FROM doctors WHERE house > 1) t ON v.doctor = t.id",
    ),
    "union": (
        "t.x, t.y",
        "(SELECT n % 5 AS x, n % 3 AS y FROM visits WHERE n > 20 UNION ALL SELECT n % 7, n % 2 FROM visits) t",
    ),
    "condition between": ("d.name, v.kind", "visits v JOIN doctors d ON v.doctor = d.id WHERE d.kind = v.kind"),
    "condition beside": ("d.name", "visits v JOIN doctors d ON v.doctor = d.id WHERE d.house >= 2"),
    "one integer": ("v.n % 3, v.n % 6, v.n > 4", "visits v"),
    "one date": ("EXTRACT(MONTH FROM v.day), EXTRACT(DAY FROM v.day), EXTRACT(YEAR FROM v.day)", "visits v"),
    "one timestamp": (
        "CAST(v.at AS DATE), EXTRACT(MONTH FROM v.at), CAST(DATE_TRUNC('week', v.at) AS DATE)",
        "visits v",
    ),
    "hours": ("EXTRACT(HOUR FROM v.at), EXTRACT(HOUR FROM v.at) < 12", "visits v"),
    "hours and days": (
        "DATE_TRUNC('hour', v.at), CAST(v.at AS DATE)",
        "visits v WHERE v.at < TIMESTAMP '2024-02-02 10:30:00'",
    ),
    "part of a week": (
        "CASE WHEN EXTRACT(DAY FROM v.at) < 10 THEN 'early' ELSE 'late' END, DATE_TRUNC('month', v.at)",
        "visits v WHERE EXTRACT(HOUR FROM v.at) > 3",
    ),
    "two sources": ("v.kind, UPPER(v.kind), v.n > 0", "visits v"),
}
DOCTORS, HOUSES, ITEMS = range(6), range(4), range(0, 40, 3)


def sources(random: Random) -> dict[str, pd.DataFrame]:
    """Returns tables that fit the declarations; some rows refer to nothing, and some public rows are alike."""
    start, first = datetime.datetime(2024, 1, 30), datetime.date(2023, 12, 20)
    visits: list[dict[str, Any]] = [
        {
            "person": random.randint(1, 40),
            "doctor": random.choice([*DOCTORS, 99, None]),
            "item": random.choice([*range(31), None]),
            "kind": random.choice(["a", "b", None]),
            "at": random.choice([start + datetime.timedelta(minutes=random.randint(0, 51_000)), None]),
            "day": first + datetime.timedelta(days=random.randint(0, 52)),
            "n": random.randint(-7, 40),
        }
        for _ in range(120)
    ]
    doctors = [
        {
            "id": random.choice([*DOCTORS, None]),
            "name": random.choice(["Ada", "Bo", "Cy", None]),
            "house": random.choice([*HOUSES, 7, None]),
            "kind": random.choice(["a", "b", None]),
        }
        for _ in range(9)
    ]
    houses = [{"house": random.choice(HOUSES), "town": random.choice(["x", "y", None])} for _ in range(5)]
    items = [{"id": i, "label": f"l{i % 7}"} for i in ITEMS]
    whole = {"doctor": "Int64", "item": "Int64", "id": "Int64", "house": "Int64"}
    tables = {"visits": visits, "doctors": doctors, "houses": houses, "items": items}
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    return {n: f.astype({c: t for c, t in whole.items() if c in f.columns}) for n, f in frames.items()}


@pytest.fixture(params=range(3), scope="module")
def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, pd.DataFrame], dp.Session]]:
    frames = sources(Random(request.param))
    catalog = dp.Catalog.from_yaml(CATALOG)
    ledger = dp.create_ledger(catalog, tmp_path_factory.mktemp("keys") / "ledger")
    with dp.connect(catalog, frames, ledger=ledger, reuse=False) as session:
        yield frames, session


def plain(frames: dict[str, pd.DataFrame], text: str) -> set[tuple[object, ...]]:
    """Returns what the engine answers without privacy."""
    with duckdb.connect() as connection:
        for name, frame in frames.items():
            connection.register(name, frame)
        return set(connection.execute(text).fetchall())


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", QUERIES)
def test_groups_with_rows_are_those_of_plain_sql(
    name: str, tables: tuple[dict[str, pd.DataFrame], dp.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, session = tables
    keys, text = QUERIES[name]
    query = f"SELECT {keys}, COUNT(*) AS n FROM {text} GROUP BY ALL"
    zero_noise(monkeypatch)
    answer = session.sql(query, epsilon=1).to_arrow()
    rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    assert len({row[:-1] for row in rows}) == len(rows)
    assert {row for row in rows if row[-1]} == plain(frames, query)


def test_there_are_no_other_groups(tables: tuple[dict[str, pd.DataFrame], dp.Session]) -> None:
    frames, session = tables
    query = "SELECT name, house, COUNT(*) FROM visits v JOIN doctors d ON v.doctor = d.id WHERE house < 3 GROUP BY 1, 2"
    answer = session.sql(query, epsilon=1).to_arrow()
    found = set(zip(*(column.to_pylist() for column in answer.columns[:2]), strict=True))
    assert found == plain(frames, "SELECT name, house FROM doctors WHERE house < 3")
