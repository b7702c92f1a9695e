"""Plain SQL in DuckDB as the oracle: the answer without noise must be its answer, but for what privacy demands."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp

import dpquery as dp
from tests.cases.catalogs import plain_engine

Row = tuple[Any, ...]


def differences(
    answer: dp.Result, query: str, *, catalog: str, dialect: str, tolerance: float, ordered: bool
) -> list[str]:
    """Returns how the answer, made without noise, differs from the query's plain answer over the same rows.

    Four differences are meant, and accepted: groups of public keys that have no rows are there, with counts and
    sums of 0; groups under no public key (NULL, where the public keys do not hold it) are not there; a SUM over no
    rows is 0; and quantiles and modes of groups without rows are some value.
    """
    tree = sqlglot.parse_one(query, read=dialect)
    rows = plain_engine(catalog).execute(tree.sql("duckdb")).fetchall()
    # NULL in a key may then mean that the key is rolled up; no row is left out of the plain answer.
    has_sets = tree.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None
    return differences_from(answer, rows, tolerance=tolerance, ordered=ordered, has_sets=has_sets)


def translated(query: str, dialect: str) -> str:
    """Returns a query of a dialect as DuckDB's SQL."""
    return sqlglot.transpile(query, read=dialect, write="duckdb")[0]


def differences_from(
    answer: dp.Result, rows: Sequence[Row], *, tolerance: float, ordered: bool, has_sets: bool = False
) -> list[str]:
    """Returns how the answer, made without noise, differs from the rows of a plain answer; as `differences`.

    With `has_sets` the query has several groupings, so that NULL also stands for a key that is rolled up.
    """
    plain = [tuple(map(_plain, row)) for row in rows]
    columns = [column.to_pylist() for column in answer.to_arrow().columns]
    given = [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]
    bounds = answer.accuracy.columns
    noisy = set(bounds.get_level_values(0)) if len(bounds) else set()
    exact = [i for i, name in enumerate(answer.columns) if name not in noisy]
    if not has_sets and all(measured.tau is None for measured in answer.measurements):
        without_null = [i for i in exact if all(row[i] is not None for row in given)]
        plain = [row for row in plain if all(row[i] is not None for i in without_null)]
    sums = any(measured.aggregate == "sum" for measured in answer.measurements)
    chosen = any(measured.unit for measured in answer.measurements)
    found, places = [], []
    for row in given:
        left = (i for i in range(len(plain)) if i not in places)
        place = next((i for i in left if _alike(row, plain[i], tolerance, sums)), None)
        if place is not None:
            places.append(place)
        elif not exact or (not chosen and any(row[i] not in (None, 0) for i in range(len(row)) if i not in exact)):
            found.append(f"the plain answer has no row like {row}")
    found += [f"the answer has no row like {row}" for i, row in enumerate(plain) if i not in places]
    if ordered and places != sorted(places):
        found.append(f"the order differs: rows {places} of the plain answer")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    return value


def _alike(row: Sequence[Any], other: Sequence[Any], tolerance: float, sums: bool) -> bool:
    return len(row) == len(other) and all(
        _equal(a, b, tolerance) or (sums and b is None and a == 0) for a, b in zip(row, other, strict=True)
    )


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    numbers = all(isinstance(x, int | float | Decimal) and not isinstance(x, bool) for x in (a, b))
    if numbers and (isinstance(a, float) or isinstance(b, float)):
        return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance)
    return bool(a == b) and isinstance(a, bool) is isinstance(b, bool)
