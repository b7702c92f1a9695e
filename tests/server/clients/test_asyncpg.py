"""asyncpg over the study: everything in binary, types from the server alone. It stands in for Npgsql, too."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import io
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.server.clients.study import DATABASE, LONG, USER, Study, fresh
from tests.server.serving import PASSWORD

VALUES = [
    ("bool", True),
    ("int2", 3),
    ("int4", -7),
    ("int8", 2**60),
    ("float4", 1.5),
    ("float8", 0.1),
    ("numeric", Decimal("-12345.678901")),
    ("text", "it's ü"),
    ("varchar", "x"),
    ("date", datetime.date(2020, 2, 29)),
    ("time", datetime.time(1, 2, 3)),
    ("timestamp", datetime.datetime(2001, 2, 3, 4, 5, 6, 7)),
    ("timestamptz", datetime.datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)),
]
CONDITIONS = [
    ("age > $2", 41),
    ("sex = $2", "F"),
    ("bmi > $2", 25.5),
    ("died = $2", True),
    ("age = ANY($2)", [40, 41]),
    ("sex = ANY($2)", ["F"]),
]
Doing = Callable[[Any], Awaitable[None]]


@pytest.fixture(scope="module")
def asyncpg() -> Any:
    return importlib.import_module("asyncpg")


@pytest.fixture
def given(study: Study) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": study.port, "user": USER, "password": PASSWORD, "database": DATABASE}


@pytest.fixture
def connected(asyncpg: Any, given: dict[str, Any]) -> Callable[[Doing], None]:
    async def run(doing: Doing) -> None:
        connection = await asyncpg.connect(**given)
        try:
            await doing(connection)
        finally:
            await connection.close()

    return lambda doing: asyncio.run(run(doing))


def test_values_come_back_as_they_were_sent(study: Study, connected: Any) -> None:
    async def doing(connection: Any) -> None:
        for type, value in VALUES:
            assert await connection.fetchval(f"SELECT CAST($1 AS {type}) AS v", value) == value
        found = await connection.fetchval("SELECT CAST($1 AS uuid) AS v", uuid.UUID(int=7))
        assert str(found) == str(uuid.UUID(int=7))

    with study.charges(0):
        connected(doing)


def test_conditions_take_parameters(study: Study, connected: Any) -> None:
    async def doing(connection: Any) -> None:
        for i, (condition, value) in enumerate(CONDITIONS):
            query = f"SELECT COUNT(*) AS n FROM patients WHERE height > $1 AND {condition}"
            assert isinstance(await connection.fetchval(query, 130.5 + i / 8, value), int)

    with study.charges(len(CONDITIONS)):
        connected(doing)


def test_a_prepared_statement_knows_its_types_and_is_charged_when_it_runs(study: Study, connected: Any) -> None:
    async def doing(connection: Any) -> None:
        with study.charges(0):
            statement = await connection.prepare(
                "SELECT sex, COUNT(*) AS n, AVG(bmi) AS b FROM patients WHERE age > $1 GROUP BY sex ORDER BY 1 LIMIT $2"
            )
            assert [type.name for type in statement.get_parameters()] == ["int8", "int8"]
            assert [part.type.name for part in statement.get_attributes()] == ["text", "int8", "float8"]
        with study.charges(1):
            rows = await statement.fetch(43, 10)
            assert [row["sex"] for row in rows] == ["F", "M"]
            assert await statement.fetch(43, 10) == rows

    connected(doing)


def test_cursors_and_copy(study: Study, connected: Any) -> None:
    async def doing(connection: Any) -> None:
        async with connection.transaction():
            cursor = await connection.cursor(fresh())
            assert len(await cursor.fetch(1)) == 1
            assert len(await cursor.fetch(5)) == 1
            numbers = connection.cursor("SELECT i FROM generate_series(1, 20) g(i)", prefetch=7)
            assert [row["i"] async for row in numbers] == list(range(1, 21))
        text, binary = io.BytesIO(), io.BytesIO()
        await connection.copy_from_query(fresh(), output=text, format="csv", header=True)
        assert text.getvalue().startswith(b"sex,n\nF,")
        query = "SELECT sex, COUNT(*) AS n FROM patients WHERE height > $1 GROUP BY sex"
        await connection.copy_from_query(query, 131.5625, output=binary, format="binary")
        assert binary.getvalue().startswith(b"PGCOPY\n")

    with study.charges(3):
        connected(doing)


def test_refusals_transactions_and_time(study: Study, connected: Any, asyncpg: Any) -> None:
    async def doing(connection: Any) -> None:
        outer = connection.transaction(isolation="repeatable_read", readonly=True)
        await outer.start()
        assert await connection.fetchval("SHOW transaction_isolation") == "repeatable read"
        inner = connection.transaction()
        await inner.start()
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM patients")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await connection.fetchval("SELECT 1")
        await inner.rollback()
        assert await connection.fetchval("SELECT 1") == 1
        await outer.rollback()
        with pytest.raises(TimeoutError):
            await connection.fetch(LONG, timeout=0.5)
        running = asyncio.ensure_future(connection.fetch(LONG))
        await asyncio.sleep(0.5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await connection.fetchval("SELECT 2") == 2

    with study.charges(0):
        connected(doing)


def test_a_pool_that_asks_the_same_is_charged_once(study: Study, asyncpg: Any, given: dict[str, Any]) -> None:
    query = fresh("COUNT(*) AS n", "")

    async def ask() -> None:
        async with asyncpg.create_pool(**given, min_size=5, max_size=20) as pool:
            assert len(set(await asyncio.gather(*[pool.fetchval(query) for _ in range(20)]))) == 1

    with study.charges(1):
        asyncio.run(ask())
