"""Clients that `make test-clients` installs, against the whole server: each looks around, asks, and is charged."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import PASSWORD, Serving, entries, make_shop, serving

REGIONS = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"
NAMES = ["east", "north", "south", "west"]


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"needs {module}: make test-clients")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = Path(tmp_path_factory.mktemp("clients"))
    make_shop(folder)
    with serving(folder) as found:
        yield found


@needs("asyncpg")
def test_asyncpg(shop: Serving) -> None:
    import asyncpg

    async def ask() -> int:
        asked = 0
        given = {"host": "127.0.0.1", "port": shop.port, "user": "alice", "password": PASSWORD, "database": "shop"}
        connection = await asyncpg.connect(**given)
        assert [row["region"] for row in await connection.fetch(REGIONS)] == NAMES
        asked += 1
        prepared = await connection.prepare("SELECT COUNT(*) AS n FROM orders WHERE amount > $1 AND bought < $2")
        assert [type.name for type in prepared.get_parameters()] == ["float8", "date"]
        assert [a.type.name for a in prepared.get_attributes()] == ["int8"]
        assert isinstance(await prepared.fetchval(100.0, datetime.date(2023, 6, 1)), int)
        asked += 1
        async with connection.transaction():
            cursor = connection.cursor(REGIONS.replace("GROUP", "WHERE amount > 20 GROUP"), prefetch=3)
            assert [row["region"] async for row in cursor] == NAMES
        asked += 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM orders")
        await connection.close()
        async with asyncpg.create_pool(**given, min_size=2, max_size=4) as pool:
            for _ in range(3):
                assert await pool.fetchval("SELECT 1") == 1
        return asked

    before = entries(shop.folder)
    asked = asyncio.run(ask())
    assert entries(shop.folder) == before + asked


@needs("pg8000")
@pytest.mark.filterwarnings("ignore")
def test_pg8000(shop: Serving) -> None:
    import pg8000.dbapi

    before = entries(shop.folder)
    connection = pg8000.dbapi.connect("alice", host="127.0.0.1", port=shop.port, password=PASSWORD, database="shop")
    cursor = connection.cursor()
    cursor.execute(REGIONS.replace("GROUP", "WHERE amount > 30 GROUP"))
    assert [row[0] for row in cursor.fetchall()] == NAMES
    cursor.execute("SELECT AVG(amount) AS a FROM orders WHERE amount > %s", (Decimal("10"),))
    assert 0 <= cursor.fetchone()[0] <= 500
    connection.rollback()
    connection.close()
    assert entries(shop.folder) == before + 2


@needs("sqlalchemy")
@pytest.mark.filterwarnings("ignore")
def test_sqlalchemy_reflects(shop: Serving) -> None:
    import sqlalchemy as sa

    before = entries(shop.folder)
    url = sa.URL.create("postgresql+psycopg", "alice", PASSWORD, "127.0.0.1", shop.port, "shop")
    engine = sa.create_engine(url)
    inspector: Any = sa.inspect(engine)
    assert "orders" in inspector.get_table_names()
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("orders")}
    assert columns["amount"] == "DOUBLE PRECISION"
    assert set(columns) == {"customer", "region", "amount", "bought"}
    assert inspector.get_pk_constraint("orders")["constrained_columns"] == []
    table = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    query = sa.select(table.c.region, sa.func.count().label("n")).where(table.c.amount > 10).group_by(table.c.region)
    with engine.connect() as connection:
        assert [row.region for row in connection.execute(query)] == NAMES
    engine.dispose()
    assert entries(shop.folder) == before + 1
