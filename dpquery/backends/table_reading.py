"""Tables as SQL that reads them as declared: types, owners, and no more rows of a unit than the plan lets through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpquery.backends.owners import leading_to_owners
from dpquery.backends.reading import SHORT, limited, read
from dpquery.backends.sources import Source
from dpquery.backends.sql_names import name
from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import quoted
from dpquery.errors import CatalogError, InternalError
from dpquery.plan.logical import LONGEST_OWNER, Ownership, Scan
from dpquery.plan.types import TEXT, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Writes scans.

    Attributes:
        catalog: The declarations.
        opened: The source of each table.
        stored: For each table the engine's types of its stored columns.
        places: For each table what stands in FROM.
        limited: Tables in which a unit may have more rows than are read.
    """

    catalog: Catalog
    opened: Mapping[str, Source]
    stored: dict[str, dict[str, str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    limited: frozenset[str] = frozenset()

    def column(self, table: Table, column: str, type: Type, alias: str = "") -> str:
        """Returns SQL for a stored column as a value of a type."""
        reference = f"{alias}.{quoted(column)}" if alias else quoted(column)
        if self.opened[table.name].database is not None and self.stored[table.name][column] == "VARCHAR":
            reference = f"decode(encode({reference}))"  # a stored column may have a collation; its bytes have none
        said = table.columns.get(column)
        sql = read(self.stored[table.name][column], type, reference, "" if said is None else said.zone)
        if sql is None:
            raise CatalogError(f"column {column} of table {table.name} cannot be read as {type}")
        if type != TEXT or self.stored[table.name][column] in SHORT:
            return sql
        is_whole = (table.name, column) in leading_to_owners(self.catalog)
        return limited(sql, LONGEST_OWNER if said is None else said.max_length, is_whole=is_whole)

    def scan(self, scan: Scan, number: Callable[[int], str]) -> str:
        """Returns a SELECT that reads a table as declared; what is not used the engine leaves out.

        Args:
            number: SQL for the halves of the run's key, by their places; see `RelationWriter`.
        """
        table = self.catalog.tables[scan.table]
        if any(c.type == TEXT and c.max_length != table.columns[c.name].max_length for c in scan.columns):
            raise InternalError("a text is to be read at another length than the catalog declares")
        if scan.ownership is not None and scan.table in self.limited:
            return self._limited_scan(scan, scan.ownership, table, number)
        columns = [f"{self.column(table, c.name, c.type, 'stored')} AS {name(c.id)}" for c in scan.columns]
        joins = ""
        if scan.ownership is not None and scan.unit is not None:
            joins, unit = self._owner(table, scan.ownership)
            if scan.unit not in {column.id for column in scan.columns}:
                columns.append(f"{unit} AS {name(scan.unit)}")
        return f"SELECT {', '.join(columns)} FROM {self.places[scan.table]} AS stored{joins}"

    def most_rows(self, table: Table) -> str:
        """Returns a SELECT of the most rows that a privacy unit has in a private table, or in a block of it."""
        if table.ownership is None:
            raise InternalError("only rows that have owners are counted")
        joins, unit = self._owner(table, table.ownership)
        read = f"SELECT {unit} AS unit, {self._block(table)} AS block FROM {self.places[table.name]} AS stored{joins}"
        counted = f"SELECT COUNT(*) AS counted FROM ({read}) WHERE unit IS NOT NULL GROUP BY unit, block"
        return f"SELECT COALESCE(MAX(counted), 0) FROM ({counted})"

    def _limited_scan(self, scan: Scan, ownership: Ownership, table: Table, number: Callable[[int], str]) -> str:
        """Returns the scan with at most `row_limit` rows of each unit and block: of those who have more, the ones with
        the least hash of all declared columns, and of equal hashes the least rows. Rows equal in all of them are one
        as good as the other."""
        joins, unit = self._owner(table, ownership)
        declared = list(table.columns.values())
        names = {column.name: f"stored{i}" for i, column in enumerate(declared)}
        read = [f"{self.column(table, c.name, c.type, 'stored')} AS {names[c.name]}" for c in declared]
        read += [f"{unit} AS unit", f"{self._block(table)} AS block"]
        given = ", ".join(names.values())
        shown = [f"{names[c.name]} AS {name(c.id)}" for c in scan.columns]
        if scan.unit is not None and scan.unit not in {column.id for column in scan.columns}:
            shown.append(f"unit AS {name(scan.unit)}")
        same = "whole.unit = heavy.unit AND whole.block IS NOT DISTINCT FROM heavy.block"
        order = f"hash({given}, {number(1)}, {number(2)}), {given}"
        place = f"row_number() OVER (PARTITION BY whole.unit, whole.block ORDER BY {order}) AS place"
        ctes = [
            f"whole AS NOT MATERIALIZED (SELECT {', '.join(read)} FROM {self.places[table.name]} AS stored{joins})",
            "heavy AS MATERIALIZED (SELECT unit, block FROM whole WHERE unit IS NOT NULL GROUP BY unit, block "
            f"HAVING COUNT(*) > {scan.row_limit})",
            f"ranked AS NOT MATERIALIZED (SELECT whole.*, {place} FROM whole SEMI JOIN heavy ON {same})",
        ]
        columns = ", ".join(shown) or "1 AS nothing"
        return (
            f"SELECT * FROM (WITH {', '.join(ctes)} SELECT {columns} FROM whole ANTI JOIN heavy ON {same} "
            f"UNION ALL SELECT {columns} FROM ranked WHERE place <= {scan.row_limit})"
        )

    def _block(self, table: Table) -> str:
        """Returns SQL for what tells the block of a row; NULL is the undated one, and without blocks the only one."""
        if table.blocks is None:
            return "NULL"
        column = table.columns[table.blocks.column]
        return f"date_trunc('{table.blocks.by.value}', {self.column(table, column.name, column.type, 'stored')})"

    def _owner(self, table: Table, ownership: Ownership) -> tuple[str, str]:
        """Returns the joins that lead from `stored` to the owner of a row, and SQL for the owner."""
        joins, holder, alias = "", table, "stored"
        for i, step in enumerate(ownership.path):
            parent = self.catalog.tables[step.parent]
            on = " AND ".join(
                f"{self.column(holder, a, type, alias)} = {self.column(parent, b, type, f'owner{i}')}"
                for a, b, type in step.on
            )
            joins += f" JOIN {self.places[step.parent]} AS owner{i} ON {on}"
            holder, alias = parent, f"owner{i}"
        return joins, self.column(holder, ownership.column, ownership.type, alias)
