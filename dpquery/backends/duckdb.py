"""The embedded engine: pandas, Arrow, Parquet, CSV and DuckDB files in place, locked down.

Two engines: one holds the private tables and runs private aggregates alone; the other holds released and public tables
and runs what is above the boundary. Neither ever runs a text that an analyst wrote.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpquery.backends.engine import Engine
from dpquery.backends.histogram_sql import signature, signatures
from dpquery.backends.private_sql import PrivateWriter
from dpquery.backends.reading import read
from dpquery.backends.relations import RelationWriter
from dpquery.backends.sources import Source, open_source
from dpquery.backends.sql_names import name
from dpquery.backends.statements import fetch, fetch_few, fetch_integers, fetch_objects, fetch_rows, unmasked
from dpquery.backends.unchanged import Files, held, relied_on, state_of
from dpquery.backends.used_columns import narrowed
from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import quoted
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.plan import CHOICES, Count, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation, Scan, output
from dpquery.plan.types import Type, Value

FEW_ROWS = 1000
"""Fewer rows are fetched row by row, which is quicker: of released tables, and of private ones with fewer groups."""


class DuckDBBackend:
    """Holds the tables of a catalog in embedded DuckDB.

    Args:
        catalog: The declarations.
        sources: For each declared table its data; see `open_source`.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, object]) -> None:
        self._catalog = catalog
        self._stored: dict[str, dict[str, str]] = {}
        self._from: dict[str, str] = {}
        self._public_values: dict[tuple[str, str], tuple[Value, ...]] = {}
        checked = relied_on(catalog)
        self._opened = opened = held(_open_all(catalog, sources), checked)
        self._files = Files(opened, checked)
        self._private = Engine(opened, keep_order=False)
        public = {table: source for table, source in opened.items() if catalog.tables[table].public}
        self._public = Engine(public, keep_order=True)
        self._read_schemas(opened)
        self._check_data()

    def check(self) -> None:
        """Raises BackendError if what the promise takes from the data was changed; see `Backend`."""
        self._files.check()

    def run(self, aggregate: PrivateAggregate, key: int) -> ExactAggregates:
        """Returns the exact integers of a private aggregate; see `Backend`."""
        self.check()
        aggregate = narrowed(aggregate)
        relations = RelationWriter(scan=self._scan, released=_no_released)
        cursor = self._private.cursor()
        self._private.forget_domains()
        domains = [None if k.domain is None else self._private.domain(k.type, k.domain) for k in aggregate.keys]
        choices = [None if m.domain is None else self._choices(aggregate, m) for m in aggregate.measures]
        writer = PrivateWriter(
            relations=relations, aggregate=aggregate, domains=tuple(domains), choices=tuple(choices), key=key
        )
        histograms = signatures(aggregate.measures)
        keys = [f"key{i}" for i in range(len(aggregate.keys))]
        plain = [(i, m.count) for i, m in enumerate(aggregate.measures) if m.count not in CHOICES]
        numbers = [part for i, count in plain for part in _in_64_bits(f"number{i}", count)]
        kept = [f"kept{i}" for i in range(len(histograms))]
        text = writer.select()
        few = not histograms and (aggregate.public_groups or FEW_ROWS) < FEW_ROWS
        if not few:
            text = f"SELECT {', '.join([*keys, *numbers, *kept])} FROM ({text})"
        if histograms:
            return _with_histograms(aggregate, fetch(cursor, text, relations.numbers))
        statement = self._private.statements.prepared(text, relations.numbers, state_of(self._opened))
        fetched = fetch_few if few else fetch_objects if aggregate.is_selected else fetch_integers
        made = fetched(cursor, statement)
        return ExactAggregates(
            keys=tuple(_key(made[f"key{i}"], k.domain is not None) for i, k in enumerate(aggregate.keys)),
            numbers=tuple(
                _wide(made[f"number{i}"], made.get(f"number{i}_digits")) for i in range(len(aggregate.measures))
            ),
        )

    def _choices(self, aggregate: PrivateAggregate, measure: Measure) -> str:
        """Returns the table of the domain of a mode."""
        type = next(column.type for column in output(aggregate.source) if column.id == measure.value)
        return self._private.domain(type, measure.domain or ())

    def public_values(self, table: str, column: str) -> tuple[Value, ...]:
        """Returns the different non-NULL values of a column of a public table, read once."""
        known = self._public_values.get((table, column))
        if known is None:
            declared = self._catalog.tables[table]
            value = self._read(declared, column, declared.columns[column].type)
            cursor = self._public.cursor()
            made: pa.Table | None = None
            with contextlib.suppress(duckdb.Error):
                made = fetch(cursor, f"SELECT DISTINCT {value} AS value FROM {self._from[table]}")
            if made is None:
                raise BackendError(f"the engine could not read the public table {table}")
            known = tuple(made["value"].drop_null().to_pylist())
            self._public_values[table, column] = known
        return known

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of a relation over released and public tables; see `Backend`."""
        cursor = self._public.cursor()
        names = [self._public.register(table) for table in released]
        relations = RelationWriter(scan=self._scan, released=lambda index: names[index])
        made: pa.Table | None = None
        with contextlib.suppress(duckdb.Error):
            text = relations.select(relation)
            if max((len(table) for table in released), default=FEW_ROWS) < FEW_ROWS:
                made = fetch_rows(cursor, text, output(relation))
            else:
                made = fetch(cursor, text)
        for registered in names:
            cursor.unregister(registered)
        if made is None:
            raise BackendError("the engine could not compute the result from the released tables; the charge stands")
        return made

    # Reading tables as declared.

    def _scan(self, scan: Scan) -> str:
        """Returns a SELECT that reads a table as declared; what is not used the engine leaves out."""
        table = self._catalog.tables[scan.table]
        columns = [f"{self._read(table, c.name, c.type, 'stored')} AS {name(c.id)}" for c in scan.columns]
        joins = ""
        if scan.ownership is not None and scan.unit is not None:
            holder, alias = table, "stored"
            for i, step in enumerate(scan.ownership.path):
                parent = self._catalog.tables[step.parent]
                on = " AND ".join(
                    f"{self._read(holder, a, type, alias)} = {self._read(parent, b, type, f'owner{i}')}"
                    for a, b, type in step.on
                )
                joins += f" JOIN {self._from[step.parent]} AS owner{i} ON {on}"
                holder, alias = parent, f"owner{i}"
            if scan.unit not in {column.id for column in scan.columns}:
                unit = self._read(holder, scan.ownership.column, scan.ownership.type, alias)
                columns.append(f"{unit} AS {name(scan.unit)}")
        return f"SELECT {', '.join(columns)} FROM {self._from[scan.table]} AS stored{joins}"

    def _read(self, table: Table, column: str, type: Type, alias: str = "") -> str:
        reference = f"{alias}.{quoted(column)}" if alias else quoted(column)
        if self._opened[table.name].database is not None and self._stored[table.name][column] == "VARCHAR":
            reference = f"decode(encode({reference}))"  # a stored column may have a collation; its bytes have none
        sql = read(self._stored[table.name][column], type, reference)
        if sql is None:
            raise CatalogError(f"column {column} of table {table.name} cannot be read as {type}")
        return sql

    def _read_schemas(self, opened: Mapping[str, Source]) -> None:
        """Finds the stored types; reports every needed column that is missing or cannot be read."""
        problems = []
        cursor = self._private.cursor()
        for table, source in opened.items():
            self._from[table] = source.name if source.data is not None else source.scan
            if source.database is not None:
                self._from[table] = f"{source.name}.{source.scan}"
            described: list[Any] = []
            with contextlib.suppress(duckdb.Error):
                described = cursor.execute(f"DESCRIBE SELECT * FROM {self._from[table]}").fetchall()
            if not described:
                problems.append(f"the source of table {table} cannot be opened")
                continue
            self._stored[table] = {row[0]: row[1] for row in described}
            problems += self._unreadable(table)
        if problems:
            raise CatalogError(problems)

    def _unreadable(self, table: str) -> list[str]:
        problems: list[str] = []
        for column, type in _needed(self._catalog, table).items():
            stored = self._stored[table].get(column)
            if stored is None:
                problems.append(f"table {table} has no column {column}")
            elif read(stored, type, "stored") is None:
                problems.append(f"column {column} of table {table} is stored as {stored}, which is not read as {type}")
        return problems

    def _check_data(self) -> None:
        """Checks what the promise takes from the data: unique public keys, and one owner for each row."""
        problems = []
        cursor = self._private.cursor()
        for table in self._catalog.tables.values():
            if not self._can_be_read(cursor, table):
                problems.append(f"the source of table {table.name} holds values that the engine cannot read")
            elif table.public:
                for unique in table.unique:
                    columns = [self._read(table, c, table.columns[c].type) for c in sorted(unique)]
                    if _any(cursor, _repeated(self._from[table.name], columns)):
                        problems.append(f"public table {table.name} is not unique by {', '.join(sorted(unique))}")
            elif table.ownership is not None:
                problems += self._ambiguous(cursor, table)
        if problems:
            raise CatalogError(problems)

    def _can_be_read(self, cursor: duckdb.DuckDBPyConnection, table: Table) -> bool:
        """Whether every value of a file can be read: what fails must fail here, before the owner's eyes."""
        if self._opened[table.name].data is not None:
            return True
        columns = (self._read(table, name, type) for name, type in _needed(self._catalog, table.name).items())
        reads = ", ".join(f"bit_xor(hash({column}))" for column in columns)
        with contextlib.suppress(duckdb.Error):
            cursor.execute(f"SELECT {reads} FROM {self._from[table.name]}").fetchall()
            return True
        return False

    def _ambiguous(self, cursor: duckdb.DuckDBPyConnection, table: Table) -> list[str]:
        """Returns a problem for each step of ownership whose parent key leads to several rows."""
        assert table.ownership is not None
        problems = []
        for step in table.ownership.path:
            parent = self._catalog.tables[step.parent]
            columns = [self._read(parent, b, type) for _, b, type in step.on]
            if _any(cursor, _repeated(self._from[step.parent], columns)):
                names = ", ".join(b for _, b, _ in step.on)
                problems.append(
                    f"table {table.name} is owned through {step.parent}({names}), which names several rows at once"
                )
        return problems

    def __reduce__(self) -> Any:
        raise TypeError("a backend cannot be copied or pickled: it holds data")


def _open_all(catalog: Catalog, sources: Mapping[str, object]) -> dict[str, Source]:
    opened: dict[str, Source] = {}
    problems: list[str] = []
    for i, table in enumerate(catalog.tables):
        if table not in sources:
            problems.append(f"table {table} has no source")
            continue
        try:
            source = open_source(table, sources[table], _needed(catalog, table))
            opened[table] = replace(source, name=f"table{i}")
        except CatalogError as error:
            problems += error.problems
    if problems:
        raise CatalogError(problems)
    return opened


def _needed(catalog: Catalog, table: str) -> dict[str, Type]:
    """Returns the stored columns that are read of a table: the declared ones, and those of ownership."""
    needed = {column.name: column.type for column in catalog.tables[table].columns.values()}
    for other in catalog.tables.values():
        if other.ownership is None:
            continue
        for step in other.ownership.path:
            if step.parent == table:
                needed |= {b: type for _, b, type in step.on if b not in needed}
    return needed


def _with_histograms(aggregate: PrivateAggregate, made: pa.Table) -> ExactAggregates:
    """Returns the aggregates of a statement that gives histograms too; choices of the same values share one."""
    places = signatures(aggregate.measures)
    histograms = [_histogram(made[f"kept{i}"]) for i in range(len(places))]
    numbers, kept = [], []
    for i, measure in enumerate(aggregate.measures):
        if measure.count not in CHOICES:
            numbers.append(_wide(_column(made[f"number{i}"]), _digits(made, i)))
            continue
        kept.append(histograms[places[signature(measure)]])
        counted = np.zeros(len(made), np.int64)
        np.add.at(counted, kept[-1].group, kept[-1].weight)
        numbers.append(counted)
    keys = tuple(_key(_column(made[f"key{i}"]), key.domain is not None) for i, key in enumerate(aggregate.keys))
    return ExactAggregates(keys=keys, numbers=tuple(numbers), histograms=tuple(kept))


def _digits(made: pa.Table, i: int) -> NDArray[Any] | None:
    """Returns the digits of a number's column, which counts do not have."""
    name = f"number{i}_digits"
    return _column(made[name]) if name in made.column_names else None


def _histogram(column: pa.ChunkedArray) -> Histogram:
    """Returns a column of lists of (value, weight) as flat arrays."""
    lists = column.combine_chunks()
    parts = lists.flatten()
    lengths = np.nan_to_num(pc.list_value_length(lists).to_numpy(zero_copy_only=False)).astype(np.int64)
    return Histogram(
        group=np.repeat(np.arange(len(lists)), lengths),
        value=parts.field("value").to_numpy(zero_copy_only=False).astype(np.int64),
        weight=parts.field("weight").to_numpy(zero_copy_only=False).astype(np.int64),
    )


def _column(column: pa.ChunkedArray) -> NDArray[Any]:
    """Returns a column as integers, or with NULL or other values as Python values, NULL as None."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values


def _in_64_bits(number: str, count: Count) -> tuple[str, ...]:
    """Returns two columns for a sum of 128 bits: its value where it fits into 64, else its digits; one for a count."""
    fits = f"TRY_CAST({number} AS BIGINT)"
    if count is not Count.SUM:  # no more than there are rows
        return (f"{fits} AS {number}",)
    return f"{fits} AS {number}", f"CASE WHEN {fits} IS NULL THEN CAST({number} AS VARCHAR) END AS {number}_digits"


def _wide(values: NDArray[Any], digits: NDArray[Any] | None) -> NDArray[Any]:
    """Returns numbers, if need be those that `_in_64_bits` split: int64, or Python integers where one does not fit."""
    values = unmasked(values)
    if values.dtype != object:
        return values.astype(np.int64, copy=False)
    missing = [None] * len(values) if digits is None else unmasked(digits).tolist()
    whole = [int(d) if v is None else int(v) for v, d in zip(values.tolist(), missing, strict=True)]
    narrow = all(-(2**63) <= n < 2**63 for n in whole)
    return np.array(whole, dtype=np.int64 if narrow else object)


def _key(column: NDArray[Any], is_code: bool) -> NDArray[Any]:
    return column.astype(np.int64) if is_code else column.astype(object)


def _repeated(table: str, columns: list[str]) -> str:
    names = [f"k{i}" for i in range(len(columns))]
    read_columns = ", ".join(f"{sql} AS {k}" for sql, k in zip(columns, names, strict=True))
    present = " AND ".join(f"{k} IS NOT NULL" for k in names)
    grouped = f"SELECT 1 FROM (SELECT {read_columns} FROM {table}) WHERE {present} GROUP BY {', '.join(names)}"
    return f"{grouped} HAVING COUNT(*) > 1 LIMIT 1"


def _any(cursor: duckdb.DuckDBPyConnection, text: str) -> bool:
    return bool(cursor.execute(text).fetchall())


def _no_released(index: int) -> str:
    raise BackendError(f"release {index} was read below the privacy boundary")
