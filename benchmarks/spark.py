"""Queries over tables of Spark beside Spark SQL of the same question, on this machine with two cores.

Prepared data beside one level (`GROUP BY region`), frames beside two levels (by user and region, then by region): what
Spark's own query takes to bound what a user has.

Usage: python -m benchmarks.spark [ROWS ...]     (default: 1000000)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator

import pyarrow.parquet as parquet

import dpquery as dp
from benchmarks.measure import alternate
from benchmarks.visits import catalog, visits

MEASURES = "COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean"
TWO_LEVELS = (
    "SELECT {by}, SUM(LEAST(n, 12)) AS n, SUM(s * LEAST(n, 12) / n) AS total FROM (SELECT user_id, {by}, "
    "COUNT(*) AS n, SUM(LEAST(GREATEST(amount, 0), 500)) AS s FROM visits GROUP BY user_id, {by}) AS units "
    "GROUP BY {by}"
)


def over_spark(rows: int, runs: int = 5) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields for each case times and ratios, the median of runs in turn, and the load of the machine."""
    from pyspark.sql import SparkSession  # here, as other benchmarks need no Spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    spark = builder.config("spark.driver.memory", "3g").getOrCreate()
    declared = catalog(unit_is_row=False)
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(visits(rows), f"{folder}/visits.parquet", row_group_size=max(rows // 8, 1))
        frame = spark.read.parquet(f"{folder}/visits.parquet")
        frame.createOrReplaceTempView("visits")
        ledger = dp.create_ledger(declared, f"{folder}/ledger")
        place = dp.prepare(declared, {"visits": frame}, f"{folder}/prepared", ledger=ledger, shards=2)
        for name, sources in (("prepared", place), ("frames", {"visits": frame})):
            with dp.connect(declared, sources, ledger=ledger, reuse=False, backend="spark") as session:
                for by in ("region", "region, product"):
                    private = f"SELECT {by}, {MEASURES} FROM visits GROUP BY {by}"
                    plain = TWO_LEVELS.format(by=by) if name == "frames" else private
                    made = alternate(
                        lambda private=private: session.sql(private).to_arrow(),
                        lambda plain=plain: spark.sql(plain).toArrow(),
                        runs,
                    )
                    yield f"{name}, by {by}, {rows:,} rows", made | {"load": os.getloadavg()[0]}


def main(sizes: list[int]) -> None:
    """Prints what is found for each size."""
    for rows in sizes:
        for name, said in over_spark(rows):
            print(f"{name:50} {', '.join(f'{what} {number:.2f}' for what, number in said.items())}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10**6])
