"""Statements of the embedded engine: parsed once where they are asked again, and run within the time limit.

The engine plans a statement that reads a table anew for each run, as what it reads may have changed; so nothing that a
run knew of files is left, but for what prepared ones, which never change, say of themselves. Keeping it as a prepared
one would save no more than its parsing, and cost another planning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
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


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """Returns a connection that holds nothing and parses."""
    return duckdb.connect(":memory:", config={"threads": 1})


@lru_cache(maxsize=64)
def parsed(text: str) -> duckdb.Statement:
    """Returns a text of one statement, parsed, for any connection."""
    (statement,) = _parser().cursor().extract_statements(text)
    return statement


def fetch(cursor: duckdb.DuckDBPyConnection, text: str, numbers: Sequence[int] = ()) -> pa.Table:
    """Returns what a statement gives, as an Arrow table."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        return cursor.sql(parsed(text), params=list(numbers) or None).to_arrow_table()


def fetch_integers(
    cursor: duckdb.DuckDBPyConnection, text: str, numbers: Sequence[int] = ()
) -> Mapping[str, NDArray[Any]]:
    """Returns columns of integers and of their digits, with NULLs masked; quicker than Arrow, which is bound twice."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        made: Mapping[str, Any] = cursor.execute(parsed(text), list(numbers)).fetchnumpy()
    return made


def fetch_few(cursor: duckdb.DuckDBPyConnection, text: str, numbers: Sequence[int] = ()) -> Mapping[str, NDArray[Any]]:
    """Returns columns of Python values, for few rows: integers of 128 bits come whole."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        rows = cursor.execute(parsed(text), list(numbers)).fetchall()
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


def fetch_columns(
    cursor: duckdb.DuckDBPyConnection, text: str, numbers: Sequence[int] = ()
) -> Mapping[str, NDArray[Any]]:
    """Returns columns of any type: integers, or Python values with NULL as None."""
    made = fetch(cursor, text, numbers)
    return {column: values_of(made[column]) for column in made.column_names}


def values_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Returns a column as integers, or with NULL or other values as Python values, NULL as None."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    values = np.empty(len(column), dtype=object)
    if column.null_count < len(column):
        values[:] = column.to_pylist()
    return values


def fetch_rows(cursor: duckdb.DuckDBPyConnection, text: str, columns: Sequence[OutputColumn]) -> pa.Table:
    """Returns the few rows that a statement gives, as an Arrow table of the plan's types; quicker than `fetch`."""
    with time_limit(cursor.interrupt, TIME_LIMIT):
        rows = cursor.execute(text).fetchall()
    return pa.table(
        {column.id: pa.array([row[i] for row in rows], arrow_type(column.type)) for i, column in enumerate(columns)}
    )
