"""Tables as SQL that reads them as declared: types, owners, what rows weigh, and no more rows of a unit than the plan
lets through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dpquery.backends.duckdb.sql.reading import SHORT, limited, read, together
from dpquery.backends.duckdb.sql.values_sql import lattice_value, name
from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import quoted
from dpquery.data.owners import leading_to_owners
from dpquery.data.prepared import OWNER, ROWS
from dpquery.data.sources import Source
from dpquery.errors import CatalogError, InternalError
from dpquery.kernel.plan import WEIGHT, Lattice
from dpquery.plan.logical import LONGEST_OWNER, Ownership, Scan, ScanColumn
from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.strata import Strata
from dpquery.plan.types import DATE, FLOAT64, TEXT, TIMESTAMP, Type

WEIGHED_UNITS = "weighed"
"""What a table of `TableReader.crowded` is called in a scan."""
BLOCK = " block"
"""What `TableReader.declared` calls the block of a row."""


@dataclass(frozen=True, slots=True)
class KeptWeights:
    """Where weights are found of which some are below 1.

    Attributes:
        name: A table of `TableReader.crowded`; or where weights are kept by row, a copy of the stored table with them.
        column: The column of the copy that holds them, or None.
    """

    name: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class StoredWeighing:
    """What the weights of a stored table's rows follow from, besides its rows.

    Attributes:
        table: Its name.
        max_rows: What the rows of one unit weigh together at most, in rows.
        row_limit: The most rows that are read of one unit.
        scaled: The column and the total that they are scaled to, without an id; None for the plain weights.
        strata: The strata in each of which they are bounded too, or None.
    """

    table: str
    max_rows: int
    row_limit: int
    scaled: Scaled | None = None
    strata: Strata | None = None

    @property
    def may_be_less(self) -> bool:
        """Whether a row may weigh less than 1 at all."""
        return self.max_rows < self.row_limit or self.scaled is not None or self.strata is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """Writes scans.

    Attributes:
        catalog: The declarations.
        opened: The source of each table.
        stored: For each table the engine's types of its stored columns.
        places: For each table what stands in FROM.
        limited: Tables in which a unit may have more rows than are read.
        weights: For weights that are read where they are, or None where all rows weigh 1.
    """

    catalog: Catalog
    opened: Mapping[str, Source]
    stored: dict[str, dict[str, str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    limited: frozenset[str] = frozenset()
    weights: Mapping[StoredWeighing, KeptWeights | None] = field(default_factory=dict)

    @property
    def has_statistics(self) -> bool:
        """Whether the engine knows the least and the greatest value of columns of private rows: those of files and
        databases, where tables in memory have none."""
        private = [table.name for table in self.catalog.tables.values() if not table.public]
        return not all(isinstance(self.opened[table].data, pa.Table) for table in private)

    def column(self, table: Table, column: str, type: Type, alias: str = "") -> str:
        """Returns SQL for a stored column as a value of a type."""
        reference = f"{alias}.{quoted(column)}" if alias else quoted(column)
        if self.opened[table.name].prepared is not None:
            return reference
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
        declared, forms = self._split(scan, table)
        if any(c.type == TEXT and c.max_length != table.columns[c.name].max_length for c in declared):
            raise InternalError("a text is to be read at another length than the catalog declares")
        if any(c.type != table.columns[c.name].type for c in declared):
            raise InternalError("a column is to be read as another type than the catalog declares")
        if scan.ownership is not None and (scan.table in self.limited or scan.row_limit < self._declared_limit(table)):
            return self._limited_scan(scan, scan.ownership, table, number)
        columns = [f"{self.column(table, c.name, c.type, 'stored')} AS {name(c.id)}" for c in declared]
        columns += [f"stored.{quoted(c.name)} AS {name(c.id)}" for c in forms]
        joins = ""
        if scan.ownership is not None and (scan.unit is not None or scan.weight is not None or scan.scaled):
            joins, unit = self._owner(table, scan.ownership, left=scan.unit is None)
            if scan.unit is not None and scan.unit not in {column.id for column in scan.columns}:
                columns.append(f"{unit} AS {name(scan.unit)}")
            joins, weights = self._weights(scan, table, joins, unit)
            columns += [f"{weight} AS {name(id)}" for id, weight in weights.items()]
        return f"SELECT {', '.join(columns)} FROM {self._place(scan)} AS stored{joins}"

    def _split(self, scan: Scan, table: Table) -> tuple[list[ScanColumn], list[ScanColumn]]:
        """Returns the declared columns of a scan, and the further ones of a prepared table."""
        prepared = self.opened[table.name].prepared
        further = frozenset[str]() if prepared is None else prepared.forms.columns
        return [c for c in scan.columns if c.name not in further], [c for c in scan.columns if c.name in further]

    def crowded(self, weighed: StoredWeighing) -> str:
        """Returns a SELECT of the units whose rows weigh less than 1: `unit`, `block` where rows are in blocks, how
        many rows are `counted` of it there, for scaled weights the `total` of its magnitudes, and the `weight` of each
        row in steps. With strata, each `stratum` of such a unit and what is `held` of all its rows there."""
        table = self.catalog.tables[weighed.table]
        if table.ownership is None or not weighed.may_be_less:
            raise InternalError("only rows that have owners are counted, and only where they may weigh less than 1")
        joins, unit = self._owner(table, table.ownership)
        by = ["unit"] if table.blocks is None else ["unit", "block"]
        read = [f"{unit} AS unit"] if table.blocks is None else [f"{unit} AS unit", f"{self._block(table)} AS block"]
        if weighed.strata is not None:
            return self._crowded_strata(table, weighed, weighed.strata, joins, read, ", ".join(by))
        shown, weight = "COUNT(*) AS counted", f"{weighed.max_rows * WEIGHT} // LEAST(COUNT(*), {weighed.row_limit})"
        heavy = f"COUNT(*) > {weighed.max_rows}"
        if (scaled := weighed.scaled) is not None:
            read.append(f"{self._size(table, scaled)} AS size")
            total, most = "CAST(COALESCE(SUM(size), 0) AS HUGEINT)", f"CAST('{scaled.most * WEIGHT}' AS HUGEINT)"
            shown = f"{shown}, {total} AS total"
            weight = f"LEAST({WEIGHT}, {weight}, {most} // GREATEST({total}, 1))"
            heavy = f"{heavy} OR {total} > {scaled.most}"
        return (
            f"SELECT {', '.join(by)}, {shown}, CAST({weight} AS BIGINT) AS weight "
            f"FROM (SELECT {', '.join(read)} FROM {self.places[table.name]} AS stored{joins}) "
            f"WHERE unit IS NOT NULL GROUP BY {', '.join(by)} HAVING {heavy}"
        )

    def _crowded_strata(
        self, table: Table, weighed: StoredWeighing, strata: Strata, joins: str, read: list[str], by: str
    ) -> str:
        """Returns the same of a table in strata, a row for each stratum in which a unit's rows weigh less than 1: the
        floor of what the two bounds leave of 1, so that it is rounded once."""
        if weighed.scaled is not None:
            raise InternalError("scaled weights are not bounded in strata")
        place, limit, most = self.places[table.name], strata.max_rows, weighed.max_rows
        given = ", ".join([*read, f"{self._stratum(table, strata)} AS stratum"])
        rows = f"SELECT {given} FROM {place} AS stored{joins}"
        counts = (
            f"SELECT {by}, stratum, COUNT(*) AS counted FROM ({rows}) WHERE unit IS NOT NULL GROUP BY {by}, stratum"
        )
        held = f"CAST(SUM(LEAST(counted, {limit})) OVER (PARTITION BY {by}) AS BIGINT) AS held"
        left = f"CAST('{limit * most * WEIGHT}' AS HUGEINT)"
        weight = f"{left} // (CAST(GREATEST(counted, {limit}) AS HUGEINT) * GREATEST(held, {most}))"
        return (
            f"SELECT {by}, stratum, counted, held, CAST({weight} AS BIGINT) AS weight "
            f"FROM (SELECT {by}, stratum, counted, {held} FROM ({counts})) WHERE counted > {limit} OR held > {most}"
        )

    def _size(self, table: Table, scaled: Scaled) -> str:
        """Returns SQL for the magnitude of a column's lattice value, which the measure computes in the same words."""
        lattice = Lattice(grid=scaled.grid, lower=scaled.lower, upper=scaled.upper)
        type = table.columns[scaled.column].type
        return f"ABS({lattice_value(self.column(table, scaled.column, type, 'stored'), type, lattice)})"

    def weights_below_one(self, weighed: StoredWeighing, kept: str, row: str) -> str:
        """Returns a SELECT of the rows that do not weigh 1, each with its `weight`: NULL where it has no owner.

        Args:
            kept: The table of `crowded`.
            row: The column that tells rows apart.
        """
        table = self.catalog.tables[weighed.table]
        if table.ownership is None:
            raise InternalError("rows without owners have no weights")
        place, row = self.places[table.name], f"stored.{quoted(row)}"
        joins, unit = self._owner(table, table.ownership)
        heavy = f"SELECT {row} AS row, {WEIGHED_UNITS}.weight FROM {place} AS stored{joins}"
        heavy += f" JOIN {kept} AS {WEIGHED_UNITS} ON {self._has_unit(table, unit, weighed.strata)}"
        joins, unit = self._owner(table, table.ownership, left=True)
        return f"{heavy} UNION ALL SELECT {row}, NULL FROM {place} AS stored{joins} WHERE {unit} IS NULL"

    def _place(self, scan: Scan) -> str:
        """Returns what a scan reads from: the table, or its copy with weights."""
        kept = None if scan.weight is None else self.weights.get(weighed_of(scan))
        return self.places[scan.table] if kept is None or kept.column is None else kept.name

    def _weights(self, scan: Scan, table: Table, joins: str, unit: str) -> tuple[str, dict[str, str]]:
        """Returns the joins of a scan with what leads to the weights of a row, and SQL for each of them by its id."""
        found = dict[str, str]()
        if scan.ownership != table.ownership and table.ownership is not None:  # weights are kept by units themselves
            unit = self._owner(table, table.ownership)[1]
        if scan.weight is not None and self.is_stored(weighed := weighed_of(scan)):
            found[scan.weight] = self._stored_weight(weighed)
        elif scan.weight is not None:
            weighed = weighed_of(scan)
            kept = self.weights[weighed] if weighed.may_be_less else None
            if kept is not None and kept.column is not None:
                joins = "" if scan.unit is None and not scan.scaled else joins
                found[scan.weight] = f"stored.{quoted(kept.column)}"
            else:
                joins, found[scan.weight] = self._joined_weight(table, kept, joins, unit, scan.strata)
        for number, scaled in enumerate(scan.scaled):
            kept = self.weights[scaled_of(scan, scaled)]
            joins, found[scaled.id] = self._joined_weight(table, kept, joins, unit, None, f"scaled{number}")
        return joins, found

    def is_stored(self, weighed: StoredWeighing) -> bool:
        """Whether weights follow from the numbers of rows that a prepared table holds; others are counted."""
        is_prepared = self.opened[weighed.table].prepared is not None
        return is_prepared and weighed.scaled is None and weighed.strata is None

    def _stored_weight(self, weighed: StoredWeighing) -> str:
        """Returns SQL for the weight that `crowded` would find: rows of a prepared table have owners, and the number of
        their unit's rows."""
        prepared, rows = self.opened[weighed.table].prepared, f"CAST(stored.{quoted(ROWS)} AS BIGINT)"
        if not weighed.may_be_less or prepared is None or prepared.most_rows <= weighed.max_rows:
            return f"{WEIGHT}::INTEGER"
        counted = f"GREATEST({rows}, {weighed.max_rows})"
        if prepared.most_rows > weighed.row_limit:
            counted = f"LEAST({counted}, {weighed.row_limit})"
        # Quicker than //, and the same: both are below 2^52, so a quotient below a whole number is not rounded to it.
        if weighed.max_rows * WEIGHT >= 2**52:
            return f"CAST({weighed.max_rows * WEIGHT} // {counted} AS INTEGER)"
        return f"CAST(floor({weighed.max_rows * WEIGHT}::DOUBLE / {counted}) AS INTEGER)"

    def declared(self, table: Table) -> str:
        """Returns a SELECT of all declared columns of a table, by their names; where rows have owners of those that
        have one, with it as OWNER and BLOCK."""
        columns = [f"{self.column(table, c, d.type, 'stored')} AS {quoted(c)}" for c, d in table.columns.items()]
        place, joins, where = self.places[table.name], "", ""
        if table.ownership is not None:
            joins, unit = self._owner(table, table.ownership)
            columns += [f"{unit} AS {quoted(OWNER)}", f"{self._block(table)} AS {quoted(BLOCK)}"]
            where = f" WHERE {unit} IS NOT NULL"
        return f"SELECT {', '.join(columns)} FROM {place} AS stored{joins}{where}"

    def _joined_weight(
        self,
        table: Table,
        kept: KeptWeights | None,
        joins: str,
        unit: str,
        strata: Strata | None,
        alias: str = WEIGHED_UNITS,
    ) -> tuple[str, str]:
        """Returns the joins with the units whose rows weigh less than 1, if there are any, and SQL for the weight."""
        if kept is None:
            return joins, f"CASE WHEN {unit} IS NOT NULL THEN {WEIGHT}::BIGINT END"
        weight = f"CASE WHEN {unit} IS NOT NULL THEN COALESCE({alias}.weight, {WEIGHT}) END"
        return f"{joins} LEFT JOIN {kept.name} AS {alias} ON {self._has_unit(table, unit, strata, alias)}", weight

    def _has_unit(self, table: Table, unit: str, strata: Strata | None, alias: str = WEIGHED_UNITS) -> str:
        """Returns where a stored row is of a unit, and in a block and stratum, of a table of `crowded`."""
        on = f"{alias}.unit = {unit}"
        if table.blocks is not None:
            on += f" AND {alias}.block IS NOT DISTINCT FROM {self._block(table)}"
        if strata is not None:
            on += f" AND {alias}.stratum IS NOT DISTINCT FROM {self._stratum(table, strata)}"
        return on

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
        leading, weights = self._weights(scan, table, joins, unit)
        joins = leading or joins
        read += [f"{weight} AS weight{i}" for i, weight in enumerate(weights.values())]
        columns, forms = self._split(scan, table)
        read += [f"stored.{quoted(c.name)} AS form{i}" for i, c in enumerate(forms)]
        given = ", ".join(names.values())
        shown = [f"{names[c.name]} AS {name(c.id)}" for c in columns]
        shown += [f"form{i} AS {name(c.id)}" for i, c in enumerate(forms)]
        if scan.unit is not None and scan.unit not in {column.id for column in scan.columns}:
            shown.append(f"unit AS {name(scan.unit)}")
        shown += [f"weight{i} AS {name(id)}" for i, id in enumerate(weights)]
        same = "whole.unit = heavy.unit AND whole.block IS NOT DISTINCT FROM heavy.block"
        order = f"hash({given}, {number(1)}, {number(2)}), {given}"
        place = f"row_number() OVER (PARTITION BY whole.unit, whole.block ORDER BY {order}) AS place"
        ctes = [
            f"whole AS NOT MATERIALIZED (SELECT {', '.join(read)} FROM {self._place(scan)} AS stored{joins})",
            "heavy AS MATERIALIZED (SELECT unit, block FROM whole WHERE unit IS NOT NULL GROUP BY unit, block "
            f"HAVING COUNT(*) > {scan.row_limit})",
            f"ranked AS NOT MATERIALIZED (SELECT whole.*, {place} FROM whole SEMI JOIN heavy ON {same})",
        ]
        kept = ", ".join(shown) or "1 AS nothing"
        return (
            f"SELECT * FROM (WITH {', '.join(ctes)} SELECT {kept} FROM whole ANTI JOIN heavy ON {same} "
            f"UNION ALL SELECT {kept} FROM ranked WHERE place <= {scan.row_limit})"
        )

    def _declared_limit(self, table: Table) -> int:
        """Returns how many rows of a unit are read where a plan asks for no fewer; `limited` is about these alone."""
        return table.row_limit or self.catalog.defaults.row_limit

    def _block(self, table: Table) -> str:
        """Returns SQL for what tells the block of a row; NULL is the undated one, and without blocks the only one."""
        if table.blocks is None:
            return "NULL"
        column = table.columns[table.blocks.column]
        return f"date_trunc('{table.blocks.by.value}', {self.column(table, column.name, column.type, 'stored')})"

    def _stratum(self, table: Table, strata: Strata) -> str:
        """Returns SQL for what tells the stratum of a row, of the column as it is read; NULL is one too."""
        column = table.columns[strata.column]
        if (strata.by is not None and column.type not in (DATE, TIMESTAMP)) or column.type == FLOAT64:
            raise InternalError("a column that does not tell strata was asked for them")
        value = self.column(table, column.name, column.type, "stored")
        return value if strata.by is None else f"date_trunc('{strata.by.value}', {value})"

    def _owner(self, table: Table, ownership: Ownership, *, left: bool = False) -> tuple[str, str]:
        """Returns the joins that lead from `stored` to the owner of a row, and SQL for the owner.

        Args:
            left: Whether rows are kept that lead to no owner; others are of no use where the owner is read.
        """
        if self.opened[table.name].prepared is not None:
            return "", f"stored.{quoted(owner_column(ownership))}"
        joins, holder, alias = "", table, "stored"
        for i, step in enumerate(ownership.path):
            parent = self.catalog.tables[step.parent]
            on = " AND ".join(
                f"{self.column(holder, a, type, alias)} = {self.column(parent, b, type, f'owner{i}')}"
                for a, b, type in step.on
            )
            joins += f" {'LEFT JOIN' if left else 'JOIN'} {self.places[step.parent]} AS owner{i} ON {on}"
            holder, alias = parent, f"owner{i}"
        if not ownership.parts:
            return joins, self.column(holder, ownership.column, ownership.type, alias)
        written = [self.column(holder, part, type, alias) for part, type in ownership.parts]
        return joins, limited(together(written), LONGEST_OWNER, is_whole=True)


def owner_column(ownership: Ownership) -> str:
    """Returns the stored column of a prepared table that holds the owner of a row."""
    return ownership.column if ownership.is_stored else OWNER


def weighed_of(scan: Scan) -> StoredWeighing:
    """Returns what the weights of a scan that has some follow from."""
    if scan.weight is None or scan.max_rows is None:
        raise InternalError("a scan without weights was asked for them")
    return StoredWeighing(scan.table, scan.max_rows, scan.row_limit, strata=scan.strata)


def scaled_of(scan: Scan, scaled: Scaled) -> StoredWeighing:
    """Returns what scaled weights of a scan follow from."""
    return StoredWeighing(scan.table, scaled.max_rows, scan.row_limit, replace(scaled, id=""))
