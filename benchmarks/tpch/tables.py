"""The eight tables of TPC-H as Parquet files, and sessions over them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb

import dpquery as dp

HERE = Path(__file__).parent
TABLES = ("customer", "orders", "lineitem", "part", "supplier", "partsupp", "nation", "region")


def generate(folder: Path, scale: float) -> dict[str, Path]:
    """Returns the path of each table's Parquet file, made by tpchgen-cli unless the folder has it already."""
    paths = {table: folder / f"{table}.parquet" for table in TABLES}
    if not all(path.exists() for path in paths.values()):
        program = Path(sys.executable).parent / "tpchgen-cli"
        command = [str(program), "parquet", "--scale-factor", str(scale), "--output-dir", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    return paths


def queries() -> dict[str, str]:
    """Returns the standard text of each query, by its name: q01 to q22."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE / "queries").glob("q??.sql"))}


def session(paths: dict[str, Path], folder: Path) -> dp.Session:
    """Returns a session over the tables, with a ledger of its own in the folder."""
    catalog = dp.Catalog.load(HERE / "catalog.yaml")
    dp.create_ledger(catalog, folder / "tpch.ledger").close()
    return dp.connect(catalog, sources=dict(paths), ledger=folder / "tpch.ledger", reuse=False)


def prepared_session(paths: dict[str, Path], folder: Path) -> dp.Session:
    """Returns a session over the tables, prepared in the folder beside a ledger."""
    catalog = dp.Catalog.load(HERE / "catalog.yaml")
    ledger = dp.create_ledger(catalog, folder / "prepared.ledger")
    dp.prepare(catalog, dict(paths), folder / "prepared", ledger=ledger)
    return dp.connect(catalog, folder / "prepared", ledger=ledger, reuse=False)


def plain_engine(paths: dict[str, Path]) -> duckdb.DuckDBPyConnection:
    """Returns DuckDB with a view of each table."""
    engine = duckdb.connect()
    for table, path in paths.items():
        engine.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
    return engine
