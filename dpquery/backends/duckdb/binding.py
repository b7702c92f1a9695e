"""Whether the engine can run a statement, found out before it is charged for: it is run over tables without rows.

The tables have the columns of the stored ones, and no private row is within reach: neither values nor the statistics
that an engine keeps of them can make a difference.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace

import duckdb

from dpquery.backends.duckdb.engine import Domain, DuckDBEngine
from dpquery.backends.duckdb.statements import parsed
from dpquery.catalog.names import quoted
from dpquery.errors import UnsupportedQueryError

MOST_BOUND = 512
"""Statements that are remembered to be bound, but for the numbers and dates that they compare with."""
MOST_HELD = 16
"""Sets of tables without rows that are held for the next session over tables of the same columns."""
MOST_TOGETHER = 64
"""Sets of tables that were made in an engine before there is another."""

_COMPARED = re.compile(r"(?<=[<>=] )CAST\('[-+.:0-9Ee ]+' AS (DOUBLE|BIGINT|DATE|TIMESTAMP)\)")
"""A constant on the right of a comparison, as the writers of statements write it: of such a type each can be read, so
that which it is makes no difference to whether a statement can be bound."""

Columns = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""For each table its name, and each column with its type."""


def empty_tables(columns: Mapping[str, Mapping[str, str]]) -> EmptyTables:
    """Returns the tables of these columns without rows, the same for all sessions of this process that have them.

    What was bound for one session is known for the next: it depends on columns, types and the text alone.

    Args:
        columns: For each table, by its name in statements, the engine's types of its stored columns.
    """
    key = tuple((table, tuple(types.items())) for table, types in columns.items())
    return _held[-1].tables(key)


class _Held:
    """What one process holds. One engine has many sets of tables: to start it takes longer than to bind a query."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._made = 0
        self._sets: OrderedDict[Columns, EmptyTables] = OrderedDict()

    def tables(self, key: Columns) -> EmptyTables:
        """Returns the tables of these columns."""
        with self._guard:
            if key not in self._sets:
                if self._made % MOST_TOGETHER == 0:
                    # Not optimised, as no row is read: an optimisation that fails would be found where the rows are.
                    made = ["SET GLOBAL enable_optimizer = false"]
                    self._engine = DuckDBEngine({}, keep_order=False, made=made)
                self._made += 1
                self._sets[key] = EmptyTables(self._engine, f"tables{self._made}", key)
                while len(self._sets) > MOST_HELD:
                    self._sets.popitem(last=False)
            self._sets.move_to_end(key)
            return self._sets[key]


_held = [_Held()]
"""Last that of this process. Those of its parents are kept: to end an engine after a fork would wait for threads that a
child does not have."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _held.append(_Held()))


class EmptyTables:
    """The declared tables without any row.

    Args:
        engine: Where they are made, beside others.
        schema: The name of a schema there, of these tables only.
        columns: The tables and their stored columns.
    """

    def __init__(self, engine: DuckDBEngine, schema: str, columns: Columns) -> None:
        made = [
            f"CREATE TABLE {table} ({', '.join(f'{quoted(column)} {type}' for column, type in types)})"
            for table, types in columns
        ]
        self.engine = engine.within(schema, made)
        self._bound: OrderedDict[str, None] = OrderedDict()
        self._tables: dict[str, str] = {}
        self._guard = threading.Lock()

    def table(self, text: str) -> str:
        """Returns the name of a table with the columns of a SELECT over such tables, without any row."""
        with self._guard:
            if text not in self._tables:
                made = f"empty{len(self._tables)}"
                self.engine.cursor().execute(f"CREATE TABLE {made} AS {text}")
                self._tables[text] = made
            return self._tables[text]

    def bind(self, text: str, numbers: int, domains: Iterable[Domain]) -> None:
        """Raises UnsupportedQueryError if the engine cannot run a statement over such tables.

        Args:
            text: A SELECT over the tables by their names.
            numbers: How many numbers a run gives it.
            domains: The public domains that it reads; their values make no difference.
        """
        shape = _COMPARED.sub(r"a \1", text)
        if shape in self._bound:
            return
        self.engine.provide(replace(domain, rows=()) for domain in domains)
        # An interruption that comes too late for a statement may end the next one while it is prepared, as seen in
        # https://github.com/duckdb/duckdb-rs/pull/862. Until DuckDB forgets it when a statement begins: then once does.
        if not (self._runs(text, numbers) or self._runs(text, numbers)):
            raise UnsupportedQueryError(
                "the engine that holds the data cannot run what this query measures; nothing was charged",
                advice="Write it with other functions, or ask for its parts one by one.",
            )
        self._bound[shape] = None
        while len(self._bound) > MOST_BOUND:
            self._bound.popitem(last=False)

    def _runs(self, text: str, numbers: int) -> bool:
        try:
            self.engine.cursor().execute(parsed(text), [0] * numbers).fetchall()
        except duckdb.Error:
            return False
        return True
