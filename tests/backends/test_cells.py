"""Shards that are cut by a date: queries about some days read the files of these days, and give the same integers."""

from __future__ import annotations

import datetime
import json
import random
import re
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.shard_files import cell_of
from dpquery.data.cells import Cut
from dpquery.data.sources import prepared_scan
from dpquery.plan.calendar import By, number_of
from tests.backends.engines import both, catalog_of
from tests.backends.prepared import prepared

TABLES = {
    "visits": {
        "unit": "who",
        "max_rows": 3,
        "row_limit": 50,
        "columns": {
            "who": {"type": "int64"},
            "number": {"type": "int64"},
            "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "nullable": True},
            "cost": {"type": "float64", "lower": 0, "upper": 9},
        },
    },
    "items": {
        "unit": {"via": "visits", "on": {"number": "number"}},
        "max_rows": 4,
        "columns": {
            "number": {"type": "int64"},
            "at": {"type": "timestamp", "lower": "2020-03-01 00:00:00", "upper": "2020-05-31 00:00:00"},
        },
    },
}
CATALOG = catalog_of(TABLES)
MONTHS = 13
"""Files of a shard of visits: twelve months, and rows without a date."""
QUERIES: dict[str, int] = {
    "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits": MONTHS,
    "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE day = DATE '2020-05-31'": 1,
    "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2020-05-31' AND day < DATE '2020-07-01'": 2,
    "SELECT COUNT(*) AS n FROM visits WHERE day > DATE '2020-05-31' AND cost > 3": 7,
    "SELECT COUNT(*) AS n FROM visits WHERE day < DATE '2019-01-01' OR day IS NULL": 2,
    "SELECT COUNT(*) AS n FROM visits WHERE day > DATE '2030-01-01'": 1,
    "SELECT COUNT(*) AS n FROM visits WHERE day IN (DATE '2020-02-29', DATE '2020-09-01')": 2,
    "SELECT COUNT(*) AS n FROM visits WHERE NOT (day = DATE '2020-02-29')": MONTHS,
    "SELECT COUNT(*) FILTER (WHERE day = DATE '2020-02-29') AS n, COUNT(*) AS a FROM visits": MONTHS,
    "SELECT COUNT(*) AS n FROM (SELECT who FROM visits WHERE day = DATE '2020-02-29' UNION ALL "
    "SELECT who FROM visits WHERE day = DATE '2020-03-01') AS both_days": 2,
    "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE day = DATE '2020-02-29' AND who IN "
    "(SELECT who FROM visits WHERE day = DATE '2020-01-01')": 2,
    "SELECT COUNT(DISTINCT cost) AS n FROM visits WHERE day = DATE '2020-02-29'": 1,
}


def frames(busy: int = 20) -> dict[str, pd.DataFrame]:
    """Returns visits of people of whom one has many, some without a date or beyond the bounds."""
    draw = random.Random(5)
    days = [None, "2001-01-01", "2019-12-31", "2031-07-07", "2020-02-29", "2020-05-31", "2020-09-01"]
    visits = [
        {
            "who": draw.choice([None, *range(30)]) if i >= busy else 99,
            "number": i,
            "day": draw.choice([*days, *(f"2020-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}" for _ in days)]),
            "cost": draw.choice([1.5, 3.25, 100.0, None]),
        }
        for i in range(600)
    ]
    items = [{"number": draw.randrange(610), "at": f"2020-{draw.randrange(2, 8):02}-01 10:00"} for _ in range(300)]
    return {"visits": pd.DataFrame(visits).astype({"who": "Int64"}), "items": pd.DataFrame(items)}


@pytest.mark.parametrize("shards", [1, 2])
def test_some_days_are_read_by_their_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    monkeypatch.setattr("dpquery.data.cells.ROWS_OF_CELL", 15)
    tested: Any = prepared(shards)(CATALOG, frames())
    whole, run = DuckDBBackend(CATALOG, frames()), DuckDBBackend.run
    assert [kept.cut.by for kept in tested._prepared.values()] == [By.MONTH, By.WEEK if shards == 1 else By.MONTH]
    found: list[Any] = []

    def noting(self: DuckDBBackend, statement: Any, key: int) -> Any:
        found.append(statement.aggregate)
        return run(self, statement, key)

    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")
    with dp.connect(CATALOG, frames(), ledger=ledger, reuse=False) as session:
        for sql, files in QUERIES.items():
            with monkeypatch.context() as patched:
                patched.setattr(DuckDBBackend, "run", noting)
                session.sql(sql, epsilon="1")
            for plan in (found.pop(), *found):
                statement = tested.prepare(plan)
                read = set(re.findall(r"0-\d+-\d+.parquet", " ".join([statement.text, *statement.parts])))
                assert len(read) == files * shards, sql
                assert both(tested, plan) == both(whole, plan), sql
            found.clear()


def test_rows_that_are_limited_are_counted_over_all_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpquery.data.cells.ROWS_OF_CELL", 15)
    tested: Any = prepared(1)(CATALOG, frames(200))
    assert tested._limited == {"visits"}
    read: Any = tested._periods(tested._catalog.tables, "visits", tested._limited)
    assert read.undated and len(tested._prepared["visits"].read(read)[0]) == MONTHS


def test_few_rows_are_not_cut() -> None:
    tested: Any = prepared(1)(CATALOG, frames())
    assert [kept.cut for kept in tested._prepared.values()] == [None, None]


@pytest.mark.parametrize("by", By)
def test_the_engine_finds_the_cell_of_each_day(by: By) -> None:
    draw = random.Random(3)
    first, last = datetime.date(2019, 12, 30), datetime.date(2021, 1, 3)
    cut = Cut(column="day", by=by, first=number_of(first, by), last=number_of(last, by))
    days = [datetime.date.fromordinal(draw.randrange(1, 3652059)) for _ in range(200)]
    days += [first + datetime.timedelta(days=i) for i in range(-40, 420)]
    wanted = [min(max(number_of(day, by), cut.first), cut.last) - cut.first + 1 for day in days]
    for type in ("DATE", "TIMESTAMP"):
        values = ", ".join(f"('{day.isoformat()}'::{type}, {i})" for i, day in enumerate(days))
        rows = duckdb.execute(
            f"SELECT {cell_of(cut, 'day')} FROM (VALUES {values}) AS given(day, i) ORDER BY i"
        ).fetchall()
        assert [cell for (cell,) in rows] == wanted
    assert duckdb.execute(f"SELECT {cell_of(cut, 'NULL::DATE')}").fetchall() == [(0,)]


def test_the_engine_supposes_the_rows_of_the_files_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first file, of the few rows without a date, it took tables for the smaller side of every join; and few
    rows more or less make no difference to it."""
    monkeypatch.setattr("dpquery.data.cells.ROWS_OF_CELL", 15)
    supposed = []
    for given in (frames(), {name: frame.iloc[3:] for name, frame in frames().items()}):
        tested: Any = prepared(1)(CATALOG, given)
        text = prepared_scan(tested._prepared["visits"], tested._prepared["visits"].files)
        explained = f"EXPLAIN (FORMAT JSON) SELECT day FROM {text}"
        ((_, plan),) = tested._private.cursor().execute(explained).fetchall()
        supposed.append(int(json.loads(plan)[0]["extra_info"]["Estimated Cardinality"]))
    assert supposed == [1024, 1024]
