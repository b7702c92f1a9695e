"""Sessions over declared tables without a row: enough to plan a query, which reads no private row anyway."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import dpquery as dp
from dpquery.catalog import Catalog, Table
from dpquery.data.arrow import arrow_type
from dpquery.plan.types import INT64, TEXT, Type
from dpquery.session.session import Session

PUBLIC_TEXTS = ("alpha", "beta", "gamma")


def session_over(catalog: Catalog, folder: Path) -> Session:
    """Returns a session for the catalog's first analyst; public tables have three rows, private ones none."""
    ledger = dp.Ledger.create(folder / "none.ledger", catalog.declarations, catalog.budget, catalog.analysts)
    sources = {table.name: _table(table, catalog) for table in catalog.tables.values()}
    return dp.connect(catalog, sources, ledger=ledger, analyst=next(iter(catalog.analysts), "analyst"), reuse=False)


def _table(table: Table, catalog: Catalog) -> pa.Table:
    columns = {column.name: column.type for column in table.columns.values()} | _keys_of(table.name, catalog)
    arrays = {name: _values(type, table.public) for name, type in columns.items()}
    return pa.table(arrays)


def _values(type: Type, public: bool) -> pa.Array:
    values: list[object] = []
    if public:
        values = list(PUBLIC_TEXTS) if type == TEXT else [1, 2, 3] if type == INT64 else [None] * 3
    return pa.array(values, type=arrow_type(type))


def _keys_of(name: str, catalog: Catalog) -> dict[str, Type]:
    """Returns the columns by which other tables find their owner in this one."""
    steps = [step for t in catalog.tables.values() if t.ownership is not None for step in t.ownership.path]
    return {parent: type for step in steps if step.parent == name for _, parent, type in step.on}
