"""The data of the cases: sessions over them, and a plain DuckDB over the same rows as the oracle."""

from __future__ import annotations

import csv
import datetime
import tempfile
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import dpquery as dp
from dpquery.data.arrow import arrow_type
from dpquery.ledger.ledger import Ledger
from dpquery.plan.types import Kind, Type

HERE = Path(__file__).parent / "catalogs"
BUDGETS = {
    "pure": "budget: {epsilon: 1000000}",
    "approximate": "budget: {epsilon: 1000000, delta: 0.5}",
    "zcdp": "budget: {rho: 1000000, delta: 0.5}",
}
"""What `budget=` may say on the line `catalog`."""
SHARDS: int | None = None
"""Where cases run over prepared data, in how many shards: the option `--shards` of pytest."""
LEDGERS = tempfile.TemporaryDirectory(prefix="dpquery-cases-")


@cache
def session_of(words: str) -> dp.Session:
    """Returns the one session of a catalog: its name, then `neighbours=...` and `budget=...` if they differ."""
    catalog = catalog_of(words)
    path = Path(LEDGERS.name) / words.replace(" ", "-")
    Ledger.create(path, catalog.declarations, catalog.budget, catalog.analysts).close()
    tables = tables_of(words.split()[0])
    if SHARDS is None:
        return dp.connect(catalog, sources=tables, ledger=path, reuse=False)
    folder = dp.prepare(catalog, tables, f"{path}.prepared", ledger=path, shards=SHARDS)
    return dp.connect(catalog, folder, ledger=path, reuse=False)


@cache
def catalog_of(words: str) -> dp.Catalog:
    """Returns the catalog that the line `catalog` of a case means."""
    name, *changes = words.split()
    text = (HERE / f"{name}.yaml").read_text(encoding="utf-8")
    for change in changes:
        option, _, value = change.partition("=")
        old = next(line for line in text.split("\n") if line.startswith(f"{option}:"))
        text = text.replace(old, BUDGETS[value] if option == "budget" else f"{option}: {value}")
    return dp.Catalog.from_yaml(text)


@cache
def tables_of(name: str) -> dict[str, pa.Table]:
    """Returns the data of a catalog's tables, every column as it is declared."""
    tables = {}
    for table in catalog_of(name).tables.values():
        with (HERE / name / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        types = [table.columns[column].type for column in header]
        read = [[_value(cell, type) for cell, type in zip(row, types, strict=True)] for row in rows]
        columns = {
            column: pa.array([row[i] for row in read], type=arrow_type(types[i])) for i, column in enumerate(header)
        }
        tables[table.name] = pa.table(columns)
    return tables


@cache
def plain_engine(name: str) -> duckdb.DuckDBPyConnection:
    """Returns DuckDB with the catalog's tables as views; private ones hold only rows that have a privacy unit."""
    catalog, engine = catalog_of(name), duckdb.connect(":memory:")
    for table, data in tables_of(name).items():
        engine.register(f"stored_{table}", data)
        owner = catalog.tables[table].ownership
        joins, holder = "", "here"
        for i, step in enumerate(owner.path if owner else ()):
            on = " AND ".join(f"{holder}.{child} = parent{i}.{parent}" for child, parent, _ in step.on)
            joins, holder = f"{joins} JOIN stored_{step.parent} AS parent{i} ON {on}", f"parent{i}"
        owned = f" WHERE {holder}.{owner.column} IS NOT NULL" if owner else ""
        engine.execute(f"CREATE VIEW {table} AS SELECT here.* FROM stored_{table} AS here{joins}{owned}")
        engine.execute(f"CREATE SCHEMA IF NOT EXISTS public; CREATE VIEW public.{table} AS SELECT * FROM main.{table}")
    bounded = "CASE WHEN x IS NULL THEN NULL ELSE greatest(least(x, high), low) END"
    engine.execute(f"CREATE MACRO clamp(x, low, high) AS {bounded}")
    return engine


def _value(cell: str, type: Type) -> Any:
    if cell == "NULL":
        return None
    match type.kind:
        case Kind.BOOLEAN:
            return {"true": True, "false": False}[cell]
        case Kind.INT64:
            return int(cell)
        case Kind.FLOAT64:
            return float(cell)
        case Kind.DECIMAL:
            return Decimal(cell)
        case Kind.DATE:
            return datetime.date.fromisoformat(cell)
        case Kind.TIMESTAMP:
            return datetime.datetime.fromisoformat(cell)
        case Kind.TEXT:
            return cell
