"""Statements of the embedded engine: run within the time limit, and planned once where they are asked again."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.backends.duckdb.time_limits import time_limit
from dpquery.data.arrow import arrow_type
from dpquery.plan.logical import OutputColumn

TIME_LIMIT = 600.0
"""Seconds that a statement may take. One that takes longer fails like any other; the charge is kept."""
MOST_PREPARED = 64
"""Statements that a connection keeps planned."""


class Statements:
    """The last statements of one connection, which keeps their plans: planning takes longer than running over few rows.

    A plan knows how its tables were when it was made. Those in memory and in attached files stay; files that are read
    in place may not, so what tells their states apart belongs to what a statement is known by.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._names: OrderedDict[tuple[str, object], str] = OrderedDict()
        self._counter = itertools.count(1)

    def prepared(self, text: str, numbers: Sequence[int], state: object) -> str:
        """Returns the statement that runs a text with these numbers, planned now if it was not before.

        Args:
            text: A SELECT that refers to the numbers as `RelationWriter` does.
            state: What tells one state of the files that it reads from another.
        """
        known = text, state
        if known not in self._names:
            made = f"planned{next(self._counter)}"
            with time_limit(self._cursor.interrupt, TIME_LIMIT):
                self._cursor.execute(f"PREPARE {made} AS {text}")
            self._names[known] = made
            if len(self._names) > MOST_PREPARED:
                self._cursor.execute(f"DEALLOCATE {self._names.popitem(last=False)[1]}")
        self._names.move_to_end(known)
        given = ", ".join(f"{number}::UBIGINT" for number in numbers)  # another type would be planned again
        return f"EXECUTE {self._names[known]}({given})" if given else f"EXECUTE {self._names[known]}"


def fetch(cursor: duckdb.DuckDBPyConnection, text: str, numbers: Sequence[int] = ()) -> pa.Table:
    """Returns what a statement gives, as an Arrow table."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        return cursor.sql(text, params=list(numbers) or None).to_arrow_table()


def fetch_integers(cursor: duckdb.DuckDBPyConnection, statement: str) -> Mapping[str, NDArray[Any]]:
    """Returns columns of integers and of their digits, with NULLs masked; quicker than Arrow, which is bound twice."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        made: Mapping[str, Any] = cursor.execute(statement).fetchnumpy()
    return made


def fetch_few(cursor: duckdb.DuckDBPyConnection, statement: str) -> Mapping[str, NDArray[Any]]:
    """Returns columns of Python values, for few rows: integers of 128 bits come whole."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        rows = cursor.execute(statement).fetchall()
    columns = {described[0]: np.empty(len(rows), dtype=object) for described in cursor.description}
    for i, column in enumerate(columns.values()):
        column[:] = [row[i] for row in rows]
    return columns


def unmasked(column: NDArray[Any]) -> NDArray[Any]:
    """Returns a column as it is, or where something is masked as Python values, with None for that."""
    if not np.ma.is_masked(column):
        return np.asarray(column)
    values = np.empty(len(column), dtype=object)
    values[:] = column.tolist()  # what is masked becomes None
    return values


def fetch_objects(cursor: duckdb.DuckDBPyConnection, statement: str) -> Mapping[str, NDArray[Any]]:
    """Returns columns of any type, as Python values, NULL as None."""
    made = fetch(cursor, statement)
    columns = {}
    for column in made.column_names:
        columns[column] = np.empty(len(made), dtype=object)
        columns[column][:] = made[column].to_pylist()
    return columns


def fetch_rows(cursor: duckdb.DuckDBPyConnection, text: str, columns: Sequence[OutputColumn]) -> pa.Table:
    """Returns the few rows that a statement gives, as an Arrow table of the plan's types; quicker than `fetch`."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        rows = cursor.execute(text).fetchall()
    return pa.table(
        {column.id: pa.array([row[i] for row in rows], arrow_type(column.type)) for i, column in enumerate(columns)}
    )
