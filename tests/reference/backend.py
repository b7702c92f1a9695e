"""The reference backend: slow and obvious, the oracle that every other backend is compared with.

It holds pandas DataFrames, reads each column as declared when it is first asked for, and goes through all rows for each
query. It keeps rows, groups and values of a unit by BLAKE2b; other backends hash differently, so where `row_limit`
binds, or `max_groups` of selected groups, or `max_rows` of different values, they may keep other ones, though not more
of them.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NoReturn

import pandas as pd
import pyarrow as pa

from dpquery.backends.features import NO_GAPS, Gaps
from dpquery.catalog import Catalog, Table
from dpquery.catalog.blocks import Blocks
from dpquery.data.arrow import arrow_type
from dpquery.data.owners import unique_sets
from dpquery.data.values import declared_values
from dpquery.errors import CatalogError, InternalError
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.calendar import number_of as number_of_block
from dpquery.plan.evaluate import normal
from dpquery.plan.logical import LONGEST_OWNER, Ownership, OwnerStep, Relation, Released, Scan, output
from dpquery.plan.types import Type, Value
from tests.reference.relations import Interpreter, Row
from tests.reference.sums import Values, added_up, keyed_hash, scaled_weight, stratum_weights, weight_of_one


class ReferenceBackend:
    """An engine of plain loops, which lacks nothing.

    Args:
        catalog: The declared tables.
        sources: For each declared table its rows.
    Raises:
        CatalogError: A table or column is missing, two rows of a public table agree in columns declared unique, or a
            foreign key names several rows.
    """

    gaps: Gaps = NO_GAPS

    def __init__(self, catalog: Catalog, sources: Mapping[str, pd.DataFrame]) -> None:
        self._catalog, self._sources = catalog, dict(sources)
        self._values: dict[tuple[str, str, Type], list[Value]] = {}
        self._check()

    def prepare(self, aggregate: PrivateAggregate) -> PrivateAggregate:
        """Returns the aggregate: all that the language has can be interpreted."""
        return aggregate

    def run(self, aggregate: PrivateAggregate, key: int) -> ExactAggregates:
        """Returns the exact integers of a private aggregate: the three steps of `kernel/plan.py`, word by word."""

        def scanned(scan: Scan) -> list[Row]:
            return self._scan_owned(scan, key)

        rows = Interpreter(scan=scanned, released=_no_released).rows(aggregate.source)
        return added_up(aggregate, rows, key)

    def check(self) -> None:
        """Does nothing: rows are read from the frames that were given, which are the caller's to leave alone."""

    def close(self) -> None:
        """Does nothing: there is no engine."""

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[Values, ...]:
        """Returns the different rows of a public table in some of its columns, in any order."""
        declared = self._catalog.tables[table]
        if not declared.public:
            raise InternalError(f"table {table} is not public")
        return tuple(dict.fromkeys(self._tuples(table, [(name, declared.columns[name].type) for name in columns])))

    def rows(self, table: str) -> int:
        """Returns how many rows a public table has; see `Sizes`."""
        return self.most_equal(table, frozenset())

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        """Returns the most rows of a public table that agree in these columns; see `Sizes`."""
        declared = self._catalog.tables[table]
        if not declared.public:
            raise InternalError(f"table {table} is not public")
        if not columns:
            return len(self._sources[table])
        keys = self._tuples(table, [(column, declared.columns[column].type) for column in sorted(columns)])
        return max(Counter(key for key in keys if None not in key).values(), default=0)

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        """Returns sets of columns of which no two rows agree; see `Sizes`."""
        return unique_sets(self._catalog, table)

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of a relation over released and public tables, columns named by id."""

        def read_released(node: Released) -> list[Row]:
            rows = released[node.index].to_pylist()
            return [{column.id: normal(row[column.id]) for column in node.columns} for row in rows]

        rows = Interpreter(scan=self._scan_public, released=read_released).rows(relation)
        columns = {c.id: pa.array([row[c.id] for row in rows], type=arrow_type(c.type)) for c in output(relation)}
        return pa.table(columns)

    def _read(self, table: str, column: str, type: Type) -> list[Value]:
        """Returns a column as declared, read once."""
        place = table, column, type
        if place not in self._values:
            self._values[place] = declared_values(self._catalog, table, column, self._sources[table], type)
        return self._values[place]

    def _scan(self, scan: Scan) -> list[Row]:
        columns = {column.id: self._read(scan.table, column.name, column.type) for column in scan.columns}
        if scan.ownership is not None and scan.unit is not None and scan.unit not in columns:
            columns[scan.unit] = self._owners(scan.table, scan.ownership)
        count = len(self._sources[scan.table])
        return [{id: values[index] for id, values in columns.items()} for index in range(count)]

    def _scan_owned(self, scan: Scan, key: int) -> list[Row]:
        """Returns the rows of a scan, with their weight where it is asked for: of a unit with more than `row_limit` in
        the table, or in a block of it, those with the least keyed hash of all declared columns, and of equal hashes the
        least."""
        rows = self._scan(scan)
        if scan.ownership is None:
            return rows
        table = self._catalog.tables[scan.table]
        stored = {column.name: self._read(scan.table, column.name, column.type) for column in table.columns.values()}
        owners = self._owners(scan.table, scan.ownership)
        blocks = [None] * len(rows) if table.blocks is None else self._blocks(table, table.blocks)
        found: dict[tuple[Value, object], list[int]] = {}
        for index, place in enumerate(zip(owners, blocks, strict=True)):
            found.setdefault(place, []).append(index)
        kept = set()
        for (owner, _), indices in found.items():
            content = {index: repr([values[index] for values in stored.values()]) for index in indices}
            limit = len(indices) if owner is None else scan.row_limit
            order = sorted(indices, key=lambda index: (keyed_hash(content[index], key), content[index]))
            kept.update(order[:limit])
            if scan.weight is not None and scan.max_rows is not None:
                given = None if owner is None else weight_of_one(scan.max_rows, min(len(indices), scan.row_limit))
                weights = dict.fromkeys(indices, given)
                if scan.strata is not None and owner is not None:
                    column = stored[scan.strata.column]
                    weights = stratum_weights(scan.strata, scan.max_rows, {index: column[index] for index in indices})
                for index in indices:
                    rows[index][scan.weight] = weights[index]
            for scaled in scan.scaled:
                own = [stored[scaled.column][index] for index in indices]
                given = None if owner is None else scaled_weight(scaled, own, min(len(indices), scan.row_limit))
                for index in indices:
                    rows[index][scaled.id] = given
        return [row for index, row in enumerate(rows) if index in kept]

    def _blocks(self, table: Table, blocks: Blocks) -> list[int | None]:
        """Returns the number of the block of each row; None for rows without a date."""
        dates = self._read(table.name, blocks.column, table.columns[blocks.column].type)
        return [number_of_block(date, blocks.by) if isinstance(date, datetime.date) else None for date in dates]

    def _scan_public(self, scan: Scan) -> list[Row]:
        if not scan.public or not self._catalog.tables[scan.table].public:
            raise InternalError("a private table is read above the privacy boundary")
        return self._scan(scan)

    def _owners(self, table: str, ownership: Ownership) -> list[Value]:
        """Returns the privacy unit of each row of a table; None for rows that belong to nobody."""
        tables = [table, *(step.parent for step in ownership.path)]
        owners = self._units(tables[-1], ownership)
        for child, step in reversed(list(zip(tables, ownership.path, strict=False))):
            owner_of = self._owner_of_key(child, step, owners)
            own_keys = self._tuples(child, [(column, type) for column, _, type in step.on])
            owners = [owner_of.get(own_key) for own_key in own_keys]
        return owners

    def _units(self, table: str, ownership: Ownership) -> list[Value]:
        """Returns the unit of each row of the table that names it; of several columns as `Ownership` says."""
        if not ownership.parts:
            return self._read(table, ownership.column, ownership.type)
        found: list[Value] = []
        for values in self._tuples(table, list(ownership.parts)):
            texts = [format(value, "f") if isinstance(value, Decimal) else str(value) for value in values]
            whole = "".join(f"{len(text.encode())}:{text}" for text in texts)
            found.append(None if None in values or len(whole) > LONGEST_OWNER else whole)
        return found

    def _owner_of_key(self, child: str, step: OwnerStep, owners: list[Value]) -> dict[Values, Value]:
        """Returns the privacy unit that each key of a parent table leads to; NULL equals nothing and leads nowhere."""
        keys = self._tuples(step.parent, [(column, type) for _, column, type in step.on])
        found: dict[Values, Value] = {}
        for parent_key, owner in zip(keys, owners, strict=True):
            if parent_key in found:
                raise CatalogError(f"a foreign key of {child} names several rows of {step.parent} at once")
            if None not in parent_key:
                found[parent_key] = owner
        return found

    def _tuples(self, table: str, columns: list[tuple[str, Type]]) -> list[Values]:
        return list(zip(*(self._read(table, column, type) for column, type in columns), strict=True))

    def _check(self) -> None:
        needed = {name: set(table.columns) for name, table in self._catalog.tables.items()}
        for table in self._catalog.tables.values():
            for step in table.ownership.path if table.ownership else ():
                needed[step.parent] |= {column for _, column, _ in step.on}
        problems = [f"table {name} has no source" for name in needed if name not in self._sources]
        for name in needed.keys() & self._sources.keys():
            stored = list(self._sources[name].columns)
            problems += [f"table {name} has not one column {c}" for c in sorted(needed[name]) if stored.count(c) != 1]
        if problems:
            raise CatalogError(problems)
        for name, table in self._catalog.tables.items():
            if table.ownership is not None:
                self._owners(name, table.ownership)
            for columns in table.unique:
                keys = self._tuples(name, [(column, table.columns[column].type) for column in sorted(columns)])
                whole = [one for one in keys if None not in one]
                if len(set(whole)) != len(whole):
                    raise CatalogError(f"two rows of {name} agree in {', '.join(sorted(columns))}, declared unique")


def _no_released(node: Released) -> NoReturn:
    raise InternalError(f"released table {node.index} is read under the privacy boundary")
