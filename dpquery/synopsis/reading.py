"""Synopses as public tables of a catalog, and an engine that holds them and nothing private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

import pyarrow as pa

from dpquery.backends.base import Backend
from dpquery.backends.duckdb.public_tables import PublicTables
from dpquery.backends.features import NO_GAPS
from dpquery.catalog import Catalog, ColumnDeclaration, Table
from dpquery.catalog.names import SYNOPSES
from dpquery.data.arrow import arrow_type
from dpquery.errors import InternalError
from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.logical import Scan, ScanColumn
from dpquery.plan.types import FLOAT64
from dpquery.synopsis.synopsis import Synopsis


class SynopsisEngine(PublicTables):
    """An engine that holds synopses and public tables; there is nothing private to measure in it."""

    gaps = NO_GAPS

    def prepare(self, aggregate: PrivateAggregate) -> NoReturn:
        """Refuses: it holds no private table."""
        raise InternalError("synopses are public, and nothing of them is measured")

    def run(self, statement: object, key: int) -> NoReturn:
        """Refuses: it holds no private table."""
        raise InternalError("synopses are public, and nothing of them is measured")


def with_synopses(catalog: Catalog, synopses: Mapping[str, Synopsis]) -> Catalog:
    """Returns the catalog with each synopsis as a public table of the schema `synopsis`."""
    made = {f"{SYNOPSES}.{name}": _declared(catalog.tables[one.table], one) for name, one in synopses.items()}
    return catalog.with_tables({**made, **catalog.tables})  # no synopsis stands before a table that is declared


def _declared(table: Table, synopsis: Synopsis) -> Table:
    """Returns the declaration of a synopsis: the table's columns and types, and the weight of rows."""
    columns = {
        name: replace(column, nullable=column.nullable or name not in synopsis.columns, randomized=None, max_total=None)
        for name, column in table.columns.items()
    }
    weight: str = synopsis.rows.column_names[-1]
    columns[weight] = ColumnDeclaration(name=weight, type=FLOAT64, description="The rows of the table it stands for")
    return Table(
        name=f"{SYNOPSES}.{synopsis.name}",
        public=True,
        ownership=None,
        unique=(),
        max_rows=None,
        max_groups=None,
        columns=MappingProxyType(columns),
        description=f"Synthetic rows of {table.name}",
    )


def engine_over(
    catalog: Catalog, declared: Catalog, synopses: Mapping[str, Synopsis], backend: Backend
) -> SynopsisEngine:
    """Returns an engine that holds synopses and the public tables.

    Args:
        catalog: The declarations without synopses.
        declared: Those with them.
        backend: It gives the public tables.
    """
    sources: dict[str, object] = {}
    for name, table in catalog.tables.items():
        if table.public:
            sources[name] = backend.evaluate(_scan(table), ())
    for name, one in synopses.items():
        table = declared.tables[f"{SYNOPSES}.{name}"]
        there = set(one.rows.column_names)
        empty = {c.name: pa.nulls(len(one.rows), arrow_type(c.type)) for c in table.columns.values()}
        held = {c: one.rows[c] if c in there else empty[c] for c in empty}
        sources[f"{SYNOPSES}.{name}"] = pa.table(held)
    return SynopsisEngine(declared.with_tables({name: declared.tables[name] for name in sources}), sources)


def _scan(table: Table) -> Scan:
    columns = tuple(
        ScanColumn(id=c.name, name=c.name, type=c.type, max_length=c.max_length) for c in table.columns.values()
    )
    return Scan(table=table.name, columns=columns, public=True, ownership=None, unit=None)
