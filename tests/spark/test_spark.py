"""Tables of Spark, answered by the embedded engine in its executors: the numbers of one machine, and its refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import dpquery as dp
from dpquery.backends.spark.frames import Frames
from dpquery.kernel.failures import FAILED
from tests.scripted import zero_noise
from tests.spark import engines, failing

pytestmark = pytest.mark.spark
CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 5000, delta: 1/1000}
tables:
  customers: {unit: id, unique: [[id]], columns: {id: {type: int64}, town: {type: text, keys: [a, b]}}}
  orders:
    unit: customer
    max_rows: {all: 6, per: {month(day): 2}}
    columns:
      customer: {type: int64}
      id: {type: int64}
      place: {type: text}
      cost: {type: int64, lower: 0, upper: 9}
      day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
  items:
    unit: {via: orders, on: {order: id}}
    max_rows: 3
    columns: {order: {type: int64}, kind: {type: text, keys_from: kinds.name}}
  notes:
    unit: {via: items, on: {item: number}}
    max_rows: 3
    columns: {item: {type: int64}, length: {type: float64, lower: 0, upper: 100}}
  kinds: {public: true, unique: [[name]], columns: {name: {type: text}, price: {type: int64, lower: 0, upper: 9}}}
""")
QUERIES = [
    "SELECT COUNT(*) AS n, SUM(cost) AS s, COUNT(DISTINCT customer) AS u FROM orders",
    "SELECT place, COUNT(*) AS n, COUNT(DISTINCT customer) AS u, AVG(cost) AS m FROM orders GROUP BY place",
    "SELECT town, COUNT(*) AS n, SUM(cost) AS s FROM customers c JOIN orders o ON c.id = o.customer GROUP BY 1",
    "SELECT kind, COUNT(*) AS n, SUM(price) AS s FROM items JOIN kinds ON kind = name GROUP BY kind",
    "SELECT COUNT(*) AS n, SUM(length) AS s FROM notes",
    "SELECT COUNT(DISTINCT cost) AS d, MEDIAN(cost) AS m, MODE(CASE WHEN cost > 5 THEN 1 ELSE 0 END) AS p FROM orders "
    "WHERE day < '2020-07-01'",
    "SELECT COUNT(*) AS n FROM (SELECT customer, MAX(cost) AS c FROM orders GROUP BY customer) AS t WHERE c > 5",
]


def tables() -> dict[str, pa.Table]:
    """Returns rows of 300 customers, some of whom have many; rows that belong to nobody; keys that lead nowhere."""
    draw, n = np.random.default_rng(7), 3_000
    customer = np.minimum(draw.geometric(0.01, n), 400)
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 366, n), "D")).dt.date
    orders = {"customer": pa.array(customer, mask=draw.random(n) < 0.01), "id": np.arange(n), "day": pa.array(days)}
    return {
        "customers": pa.table({"id": np.arange(300), "town": draw.choice(["a", "b", "c"], 300)}),
        "orders": pa.table({**orders, "place": draw.choice([*"xyz"], n), "cost": draw.integers(-1, 12, n)}),
        "items": pa.table(
            {"number": np.arange(2 * n), "order": draw.integers(-9, n + 9, 2 * n), "kind": draw.choice([*"kl"], 2 * n)}
        ),
        "notes": pa.table({"item": draw.integers(0, 2 * n, n), "length": draw.random(n) * 120}),
        "kinds": pa.table({"name": ["k", "m"], "price": [3, 4]}),
    }


HOLDERS = {"customers": "id", "orders": "customer"}


def without(table: pa.Table, column: str, value: int) -> pa.Table:
    return table.filter(pc.fill_null(pc.not_equal(table[column], value), True))


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return engines.session()


@pytest.fixture(autouse=True)
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def frames(spark: SparkSession) -> dict[str, Any]:
    """Returns the tables as frames of Spark; the public one is none."""
    given = tables()
    return {name: table if name == "kinds" else spark.createDataFrame(table) for name, table in given.items()}


def answers(folder: Path, sources: Any, backend: str | None = None) -> list[pd.DataFrame]:
    """Returns what a new session over sources answers."""
    ledger = folder / "ledger"
    with dp.connect(CATALOG, sources, ledger=ledger, create=not ledger.exists(), reuse=False, backend=backend) as asked:
        options: dict[str, Any] = {"epsilon": 9, "delta": "1/100000"}
        return [asked.sql(query, **options).to_pandas() for query in QUERIES]


def equal(some: list[pd.DataFrame], others: list[pd.DataFrame]) -> bool:
    for one, other in zip(some, others, strict=True):
        pd.testing.assert_frame_equal(one, other)
    return True


def test_frames_give_the_numbers_of_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    assert equal(answers(tmp_path, frames(spark)), answers(tmp_path, tables()))


def test_names_and_paths_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    sources: dict[str, Any] = {"kinds": tables()["kinds"]}
    for name, frame in frames(spark).items():
        if name == "orders":
            frame.createOrReplaceTempView("all_orders")
            sources[name] = "all_orders"
        elif name != "kinds":
            frame.write.parquet(str(tmp_path / name))
            sources[name] = tmp_path / name
    assert equal(answers(tmp_path, sources, backend="spark"), answers(tmp_path, tables()))


@pytest.mark.parametrize("shards", [1, 3])
def test_spark_prepares_what_both_read(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")
    folder = dp.prepare(CATALOG, frames(spark), tmp_path / "data", ledger=ledger, shards=shards)
    ledger.close()
    expected = answers(tmp_path, tables())
    assert equal(answers(tmp_path, folder), expected)
    assert equal(answers(tmp_path, folder, backend="spark"), expected)
    dp.erase(CATALOG, folder, 5, ledger=tmp_path / "ledger", by="owner")
    others = tables() | {name: without(tables()[name], column, 5) for name, column in HOLDERS.items()}
    assert equal(answers(tmp_path, folder), answers(tmp_path, others)), "one shard holds the unit, any of them"
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*.parquet")} == {0o600}
    assert not [path for made in folder.iterdir() if made.is_dir() for path in made.iterdir() if path.is_dir()]


def test_rows_as_units(spark: SparkSession, tmp_path: Path) -> None:
    catalog = dp.Catalog.from_yaml(
        "{version: 2, dataset: d, privacy_unit: row, budget: {epsilon: 100}, tables: {t: {columns: "
        "{g: {type: text, keys: [x, y]}, v: {type: int64, lower: 0, upper: 9}}}}}"
    )
    data = pa.table({"g": [*"xyzx"] * 50, "v": [*range(100), *range(100)]})
    query, found = "SELECT g, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY g", []
    frame = spark.createDataFrame(data).repartition(3)
    ledger = dp.create_ledger(catalog, tmp_path / "ledger")
    folder = dp.prepare(catalog, {"t": frame}, tmp_path / "data", ledger=ledger, shards=3)
    for source in ({"t": data}, {"t": frame}, folder):
        with dp.connect(catalog, source, ledger=ledger, reuse=False) as asked:
            found.append(asked.sql(query, epsilon=1).to_pandas())
    assert equal(found[:1] * 2, found[1:])


# Tasks that fail.


@pytest.fixture
def counted(spark: SparkSession, tmp_path: Path) -> Iterator[dp.Session]:
    with dp.connect(CATALOG, frames(spark), ledger=tmp_path / "ledger", create=True, reuse=False) as asked:
        yield asked


def total(asked: dp.Session) -> list[int]:
    (row,) = asked.sql("SELECT COUNT(*) AS n, SUM(cost) AS s FROM orders", epsilon=1).to_pandas().to_numpy()
    return list(row)


def test_a_worker_that_is_killed_counts_no_row_twice(
    counted: dp.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, marks = total(counted), tmp_path / "killed"
    marks.mkdir()
    monkeypatch.setattr("dpquery.backends.spark.backend.of_rows", partial(failing.killed_once, str(marks)))
    assert total(counted) == expected
    assert len(list(marks.iterdir())) >= 2, "each part's first task was killed"


@pytest.mark.parametrize("task", [failing.failing, failing.repeating])
def test_what_fails_after_the_charge_is_one_error(
    task: Any, counted: dp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counted.remaining
    monkeypatch.setattr("dpquery.backends.spark.backend.of_rows", task)
    with pytest.raises(dp.BackendError) as caught:
        total(counted)
    assert (str(caught.value), caught.value.__cause__, caught.value.__context__) == (FAILED, None, None)
    assert counted.remaining != before


# What is refused before anything is charged.


def refused(spark: SparkSession, tmp_path: Path, says: str, **changed: Any) -> None:
    sources: Mapping[str, Any] = frames(spark) | changed
    with pytest.raises(dp.CatalogError, match=says):
        dp.connect(CATALOG, sources, ledger=tmp_path / "ledger", create=True)


def changed(frame: DataFrame, **columns: Any) -> DataFrame:
    return frame.withColumns(columns)


def test_frames_that_cannot_be_counted(spark: SparkSession, tmp_path: Path) -> None:
    given = frames(spark)
    customers, orders = given["customers"], given["orders"]
    refused(spark, tmp_path, "not the same each time", orders=changed(orders, cost=F.rand()))
    refused(
        spark, tmp_path, "stored as double; cast it", orders=changed(orders, customer=F.col("customer").cast("double"))
    )
    refused(spark, tmp_path, "stored as string; cast it", items=changed(given["items"], order=F.lit("1")))
    refused(spark, tmp_path, "not unique there", orders=orders.union(orders.limit(1)))
    refused(spark, tmp_path, "is not unique by id", customers=customers.union(customers.limit(1)))
    refused(spark, tmp_path, "a DataFrame; the backend spark reads", orders=tables()["orders"].to_pandas())
    refused(spark, tmp_path, "no column", orders=orders.drop("cost"))
    public = changed(customers, name=F.lit("k"), price=F.lit(1))
    refused(spark, tmp_path, "is public and has the same data", kinds=public, customers=public)


def test_files_that_change_are_refused_before_the_charge(spark: SparkSession, tmp_path: Path) -> None:
    orders = frames(spark)["orders"]
    orders.write.parquet(str(tmp_path / "orders"))
    sources = frames(spark) | {"orders": spark.read.parquet(str(tmp_path / "orders"))}
    with dp.connect(CATALOG, sources, ledger=tmp_path / "ledger", create=True, reuse=False) as asked:
        total(asked)
        before = asked.remaining
        file = min((tmp_path / "orders").glob("*.parquet"))
        os.utime(file, (1, 1))
        with pytest.raises(dp.BackendError, match="files that Spark reads were changed"):
            total(asked)
        assert asked.remaining == before


def test_executors_that_see_another_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")
    folder = dp.prepare(CATALOG, tables(), tmp_path / "data", ledger=ledger, shards=2)
    monkeypatch.setattr("dpquery.backends.spark.backend.stamp_of", lambda file: (1, 1))
    with pytest.raises(dp.CatalogError, match="the executors of Spark could not check the tables"):
        dp.connect(CATALOG, folder, ledger=ledger, backend="spark")


def test_a_plan_that_is_no_sum_is_read_at_once(counted: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Different values are counted in one task."""
    seen, rows = [], Frames.rows

    def noted(*given: Any, **named: Any) -> DataFrame:
        seen.append(named["parts"])
        return rows(*given, **named)

    monkeypatch.setattr(Frames, "rows", noted)
    counted.sql("SELECT COUNT(DISTINCT cost) AS n FROM orders", epsilon=1)
    total(counted)
    assert seen[0] == 1 < seen[1]
