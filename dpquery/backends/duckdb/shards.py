"""Prepared tables read shard by shard: one statement for each, in turn, and what they return added up.

What is kept between shards is a row for each group, so memory is that of one shard and of the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa

from dpquery.backends.duckdb.private_statements import in_digits
from dpquery.backends.duckdb.statements import TIME_LIMIT
from dpquery.backends.duckdb.time_limits import time_limit
from dpquery.data.cells import Cut
from dpquery.data.sources import Source, prepared_scan
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.expr import Expression
from dpquery.plan.logical import Filter, Relation, Scan, sources
from dpquery.plan.types import Type
from dpquery.units.blocks import ALL, NONE, Touched, may_hold

PARTS = "parts_of_shards"
"""The temporary table of what the statements of shards return, in one connection."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Where each shard of the private tables is.

    Attributes:
        scans: For each private table that is prepared, by its name in the engine, SQL that reads each shard.
    """

    scans: Mapping[str, tuple[str, ...]]

    @property
    def count(self) -> int:
        """How many there are; 1 where nothing is prepared."""
        return max(map(len, self.scans.values()), default=1)

    def statements(self, text: str) -> tuple[str, ...]:
        """Returns a SELECT over tables by their names as one of each shard, with its number."""
        used = [(name, scans) for name, scans in self.scans.items() if name in text]
        return tuple(
            f"WITH {', '.join(f'{name} AS NOT MATERIALIZED (SELECT * FROM {scans[i]})' for name, scans in used)} "
            f"SELECT *, {i} AS shard FROM ({text})"
            for i in range(self.count)
        )


def shards_of(opened: Mapping[str, Source], read: Mapping[str, Touched]) -> Shards:
    """Returns the shards of prepared tables.

    Args:
        read: The tables, and of which periods rows are read of each.
    """
    prepared = [(opened[table].name, opened[table].prepared, touched) for table, touched in read.items()]
    return Shards(
        {
            name: tuple(prepared_scan(p, files) for files in p.read(touched))
            for name, p, touched in prepared
            if p is not None
        }
    )


def periods(relation: Relation, table: str, cut: Cut, type: Type, limit: int) -> Touched:
    """Returns the periods of whose rows the relation may read some of a table: those that its filters leave, or all
    where fewer than `limit` rows of a unit are read, which then are counted first.

    Args:
        type: Of the column by which the table is cut.
    """
    conditions: list[Expression] = []
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.source
    found = NONE
    if not isinstance(relation, Scan):
        for source in sources(relation):
            found |= periods(source, table, cut, type, limit)
        return found
    if relation.table != table:
        return NONE
    found, ids = ALL, frozenset(column.id for column in relation.columns if column.name == cut.column)
    for condition in conditions if relation.row_limit >= limit else ():
        found &= may_hold(condition, ids, type, cut.by)
    return found


def run_each(cursor: duckdb.DuckDBPyConnection, statements: Sequence[str], numbers: Sequence[int]) -> None:
    """Fills `PARTS` with what the statements of shards return, one after another.

    Args:
        numbers: The run's numbers to which they refer.
    """
    for i, statement in enumerate(statements):
        into = f"INSERT INTO {PARTS}" if i else f"CREATE OR REPLACE TEMP TABLE {PARTS} AS"
        with time_limit(cursor.interrupt, TIME_LIMIT):
            cursor.execute(f"{into} {statement}", list(numbers) or None)


def hold_parts(cursor: duckdb.DuckDBPyConnection, aggregate: PrivateAggregate, parts: Sequence[pa.Table]) -> None:
    """Fills `PARTS` with what `DuckDBBackend.part` returned for each part of the rows."""
    numbered = [part.append_column("shard", pa.array([i] * len(part), pa.int32())) for i, part in enumerate(parts)]
    cursor.register("given_parts", pa.concat_tables(numbered))
    try:
        with time_limit(cursor.interrupt, TIME_LIMIT):
            cursor.execute(
                f"CREATE OR REPLACE TEMP TABLE {PARTS} AS {in_digits(aggregate, 'FROM given_parts', 'HUGEINT')}"
            )
    finally:
        cursor.unregister("given_parts")


def with_values_once(exact: ExactAggregates) -> ExactAggregates:
    """Returns aggregates in whose histograms each value of a group is there once, with the weight of all shards."""
    return replace(exact, histograms=tuple(map(_added, exact.histograms)))


def _added(parts: Histogram) -> Histogram:
    if not len(parts.group):
        return parts
    order = np.lexsort((parts.value, parts.group))
    group, value, weight = parts.group[order], parts.value[order], parts.weight[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(group) != 0) | (np.diff(value) != 0)])
    return Histogram(group=group[starts], value=value[starts], weight=np.add.reduceat(weight, starts))
