"""Queries over prepared data beside plain DuckDB, one level, over the same rows as Parquet and as Arrow.

Usage: python -m benchmarks.prepared [ROWS ...]     (default: 1000000 10000000)
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

import dpquery as dp
from benchmarks.cases import CASES
from benchmarks.measure import alternate, plain_engine
from benchmarks.visits import catalog, visits

SHOWN = [case for case in CASES if "median" not in case.name]


def over_prepared(rows: int, shards: int | None = None) -> dict[str, dict[str, float]]:
    """Returns seconds of preparing and of opening, megabytes, and for each case its times and ratios, to plain DuckDB
    over Parquet (`ratio`) and over an Arrow table (`to_arrow`).

    Args:
        rows: Of the visits table.
        shards: As for `dp.prepare`.
    """
    table, found = visits(rows), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(table, f"{folder}/visits.parquet")
        engine = duckdb.connect()
        engine.execute("SET enable_progress_bar = false")
        engine.execute(f"CREATE VIEW visits AS SELECT * FROM '{folder}/visits.parquet'")
        in_memory = plain_engine(table)
        for unit_is_row in (False, True):
            session, said = _prepared(table, Path(folder), unit_is_row, shards)
            found[f"{'row' if unit_is_row else 'user'}-level, {rows:,} rows"] = said
            for case in SHOWN:
                if case.unit_is_row is unit_is_row:
                    found[f"{case.name}, {rows:,} rows"] = _compared(
                        session, engine, in_memory, case.private, case.plain
                    )
    return found


def _prepared(
    table: pa.Table, folder: Path, unit_is_row: bool, shards: int | None
) -> tuple[dp.Session, dict[str, float]]:
    declared, place = catalog(unit_is_row=unit_is_row), folder / f"prepared-{unit_is_row}"
    ledger = dp.create_ledger(declared, folder / f"{unit_is_row}.ledger")
    start = time.perf_counter()
    dp.prepare(declared, {"visits": f"{folder}/visits.parquet"}, place, ledger=ledger, shards=shards)
    middle = time.perf_counter()
    session = dp.connect(declared, place, ledger=ledger, reuse=False)
    size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / 2**20
    return session, {"prepare_s": middle - start, "open_s": time.perf_counter() - middle, "megabytes": size}


def _compared(
    session: dp.Session,
    engine: duckdb.DuckDBPyConnection,
    in_memory: duckdb.DuckDBPyConnection,
    private: str,
    plain: str,
) -> dict[str, float]:
    """Returns times and ratios of one query, the median of runs in turn."""

    def asked() -> object:
        return session.sql(private).to_arrow()

    made = alternate(asked, lambda: engine.sql(plain).to_arrow_table(), 7)
    return made | {"to_arrow": alternate(asked, lambda: in_memory.sql(plain).to_arrow_table(), 7)["ratio"]}


def main(sizes: list[int]) -> None:
    """Prints what is found for each size."""
    for rows in sizes:
        for name, said in over_prepared(rows).items():
            print(f"{name:50} {', '.join(f'{what} {number:.2f}' for what, number in said.items())}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10**6, 10**7])
