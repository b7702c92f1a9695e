"""Tables of the schema dp: what an analyst has and has spent, and what is declared of each column; free to read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from dpquery.catalog import Catalog
from dpquery.frontends.postgres.wire.oids import BOOL, FLOAT8, INT8, TEXT
from dpquery.ledger.entries import State
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.schema import Kind

_COLUMNS = {
    "budget": "currency text, budget float, spent float, remaining float",
    "releases": "number int, time text, epsilon float, rho float, delta float, answered bool, query text",
    "columns": "table_name text, column_name text, type text, is_public bool, is_nullable bool, lower text, "
    "upper text, public_keys int, description text",
}
VIRTUAL: Mapping[str, tuple[tuple[str, str], ...]] = {
    table: tuple((column, word) for column, word in map(str.split, columns.split(", ")))
    for table, columns in _COLUMNS.items()
}
"""By name: columns and words for their types."""

_TYPES = {
    "text": (TEXT, pa.string()),
    "float": (FLOAT8, pa.float64()),
    "int": (INT8, pa.int64()),
    "bool": (BOOL, pa.bool_()),
}


def type_of_column(word: str) -> int:
    """Returns the OID of a word for a type."""
    return _TYPES[word][0]


def virtual_table(name: str, catalog: Catalog, ledger: Ledger, analyst: str) -> pa.Table:
    """Returns the rows of a virtual table, as far as they concern this analyst alone."""
    if name == "budget":
        return _table(name, _budget(ledger, analyst))
    if name == "releases":
        return _table(name, _releases(ledger, analyst))
    return _table(name, _columns(catalog))


def empty_virtual_table(name: str) -> pa.Table:
    """Returns a virtual table without rows, for descriptions."""
    return _table(name, [])


def _table(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.table(
        {column: pa.array([row[i] for row in rows], _TYPES[word][1]) for i, (column, word) in enumerate(VIRTUAL[name])}
    )


def _budget(ledger: Ledger, analyst: str) -> list[tuple[object, ...]]:
    limit, left = ledger.limit(analyst), ledger.remaining(analyst)
    has_own = bool(limit.epsilon or limit.rho or limit.delta)
    whole, spent = (limit, ledger.spent(analyst)) if has_own else (ledger.limit(None), ledger.spent(None))
    return [
        (part, float(getattr(whole, part)), float(getattr(spent, part)), float(getattr(left, part)))
        for part in ("epsilon", "rho", "delta")
        if getattr(whole, part)
    ]


def _releases(ledger: Ledger, analyst: str) -> list[tuple[object, ...]]:
    entries = [entry for entry in ledger.entries() if entry.analyst == analyst and entry.kind is Kind.CHARGE]
    return [
        (i, e.time, float(e.loss.epsilon), float(e.loss.rho), float(e.loss.delta), e.state is State.ANSWERED, e.query)
        for i, e in enumerate(entries, start=1)
    ]


def _columns(catalog: Catalog) -> list[tuple[object, ...]]:
    return [
        (
            table.name,
            column.name,
            str(column.type),
            table.public,
            column.nullable,
            None if column.lower is None else str(column.lower),
            None if column.upper is None else str(column.upper),
            None if column.keys is None else len(column.keys),
            column.description or None,
        )
        for table in catalog.tables.values()
        for column in table.columns.values()
    ]
