"""Random expressions in DuckDB give what the reference gives."""

from __future__ import annotations

import random

import duckdb
import pytest

from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.plan.evaluate import evaluate, normal
from tests.properties.expressions import Drawn, draw
from tests.unit.plan.engine import agree, shown, stored

ROWS = 40


def differences(drawn: Drawn, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Returns where the engine and the reference differ."""
    sql = lower(drawn.expression, names=str)
    columns = [f"CAST(? AS {type_name(c.type)}) AS {c.id}" for c in drawn.columns]
    rows = " UNION ALL ".join([f"SELECT ? AS n, {', '.join(columns)}"] * len(drawn.rows))
    values = [v for n, row in enumerate(drawn.rows) for v in (n, *(stored(normal(row[c.id])) for c in drawn.columns))]
    connection.execute(f"CREATE OR REPLACE TABLE rows AS {rows}", values)
    query = f"SELECT {sql} FROM rows ORDER BY n"
    found = connection.execute(query).fetchall()
    problems = []
    for row, (answer,) in zip(drawn.rows, found, strict=True):
        expected = evaluate(drawn.expression, row)
        if not agree(expected, answer, drawn.expression.type):
            problems.append(f"{shown(drawn.expression)} on {row}: {expected!r}, DuckDB {answer!r}: {sql}")
    return problems


def check(seed: int, count: int) -> None:
    chance, connection = random.Random(seed), duckdb.connect()
    for _ in range(count):
        assert differences(draw(chance, ROWS), connection)[:2] == []


def test_duckdb_gives_what_the_reference_gives() -> None:
    check(7, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 220))
def test_duckdb_gives_what_the_reference_gives_at_length(seed: int) -> None:
    check(seed, 500)
