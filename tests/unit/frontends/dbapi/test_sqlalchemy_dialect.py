"""The SQLAlchemy dialect: URLs, reflection, text and Core queries, pandas.read_sql, and what each is charged."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import func, select
from sqlalchemy.dialects import registry

import dpquery as dp
from dpquery import dbapi
from dpquery.frontends.dbapi.sqlalchemy_dialect import DPQueryDialect
from tests.scripted import zero_noise
from tests.unit.frontends.dbapi.dialect_shop import BY_TOWN, charges, write_shop

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def registered() -> None:
    """What the entry point does where the package is installed."""
    registry.register("dpquery", "dpquery.frontends.dbapi.sqlalchemy_dialect", "DPQueryDialect")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path)


@pytest.fixture
def engine(shop: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"dpquery:///{shop}")
    yield engine
    engine.dispose()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def visits(engine: sa.Engine) -> sa.Table:
    return sa.Table("visits", sa.MetaData(), autoload_with=engine)


def rows(engine: sa.Engine, query: Any, **options: object) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query, execution_options=options)]


def test_the_entry_point_names_the_dialect() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["sqlalchemy.dialects"]
    assert EntryPoint("dpquery", declared["dpquery"], "sqlalchemy.dialects").load() is DPQueryDialect


def test_reflection_is_free(shop: Path, engine: sa.Engine) -> None:
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["visits", "people", "items", "towns"]
    assert (seen.get_schema_names(), seen.default_schema_name, seen.get_view_names()) == (["shop"], "shop", [])
    assert seen.has_table("visits") and not seen.has_table("nothing") and not seen.has_table("visits", schema="other")
    assert seen.has_schema("shop") and not seen.has_schema("other")
    types = {column["name"]: column["type"].as_generic() for column in seen.get_columns("visits")}
    kinds = [sa.BigInteger, sa.Text, sa.Double, sa.Numeric, sa.Date, sa.DateTime, sa.Boolean]
    assert [type(made) for made in types.values()] == kinds
    price: Any = types["price"]
    assert (price.precision, price.scale) == (8, 2)
    assert [column["nullable"] for column in seen.get_columns("visits")] == [False, False, True, *[False] * 4]
    assert seen.get_pk_constraint("people")["constrained_columns"] == ["id"]
    assert seen.get_pk_constraint("towns")["constrained_columns"] == ["size", "town"]
    assert [one["column_names"] for one in seen.get_unique_constraints("towns")] == [["town"]]
    assert seen.get_pk_constraint("visits")["constrained_columns"] == []
    (foreign,) = seen.get_foreign_keys("items")
    assert (foreign["constrained_columns"], foreign["referred_table"], foreign["referred_columns"]) == (
        ["owner"],
        "people",
        ["id"],
    )
    assert seen.get_foreign_keys("visits") == seen.get_indexes("visits") == seen.get_check_constraints("visits") == []  # type: ignore[comparison-overlap]
    with pytest.raises(sa.exc.NoSuchTableError):
        seen.get_columns("nothing")
    everything = sa.MetaData()
    everything.reflect(engine)
    assert set(everything.tables) == {"visits", "people", "items", "towns"}
    assert charges(shop) == 0


def test_comments_say_what_is_declared(engine: sa.Engine) -> None:
    seen = sa.inspect(engine)
    comments = {column["name"]: column["comment"] for column in seen.get_columns("visits")}
    assert comments["spent"] == "clamped to 0.0 .. 100.0; may be NULL  # in euro"
    assert comments["town"] == "not NULL; public keys 'east', 'west', 'north'"
    said = seen.get_table_comment("visits")["text"] or ""
    assert said == (
        "private  # one row each (person is protected); unit: the person in column person (int64); "
        "rows of one person: at most 1 in all (default); one person counts in at most 1 groups (default)"
    )
    assert (seen.get_table_comment("towns")["text"] or "").startswith("public; no two rows have the same: size, town")


@pytest.mark.usefixtures("exact")
def test_core_queries(shop: Path, engine: sa.Engine) -> None:
    table = visits(engine)
    by_town = select(table.c.town, func.count().label("n"), func.avg(table.c.spent)).group_by(table.c.town)
    assert rows(engine, by_town.order_by(sa.desc("n")).limit(2), dpquery_epsilon="0.1") == [
        ("west", 800, 20.0),
        ("east", 400, 20.0),
    ]
    narrow = select(func.count()).where(
        table.c.town.in_(["east", "north"]), table.c.day >= datetime.date(2020, 2, 1), table.c.old.is_(False)
    )
    assert rows(engine, narrow, dpquery_epsilon="0.1") == [(200,)]
    ratio = select((func.sum(table.c.spent) / func.count()).label("r"), func.sum(table.c.price))
    assert rows(engine, ratio, dpquery_epsilon="0.1") == [(20.0, Decimal("1500.00"))]
    assert rows(engine, select(func.count()).where(table.c.town.like("%as%")), dpquery_epsilon="0.1") == [(400,)]
    assert rows(engine, select(func.count()).where(table.c.person % 2 == 1), dpquery_epsilon="0.1") == [(600,)]
    assert charges(shop) == 5


@pytest.mark.usefixtures("exact")
def test_core_queries_with_joins_and_subqueries(engine: sa.Engine) -> None:
    everything = sa.MetaData()
    everything.reflect(engine)
    table, people = everything.tables["visits"], everything.tables["people"]
    joined = table.join(people, table.c.person == people.c.id)
    assert rows(engine, select(func.count()).select_from(joined).where(people.c.age < 40)) == [(600,)]
    each = select(table.c.person, func.sum(table.c.spent).label("total")).group_by(table.c.person).subquery()
    assert rows(engine, select(func.avg(func.clamp(each.c.total, 0, 100)))) == [(20.0,)]
    median = func.percentile_cont(0.5).within_group(people.c.age)
    assert len(rows(engine, select(func.count().filter(people.c.age > 5), median))) == 1


@pytest.mark.usefixtures("exact")
def test_text_queries_and_their_budget(shop: Path) -> None:
    engine = sa.create_engine(f"dpquery:///{shop}?epsilon=0.25&max_rows=1", execution_options={"dpquery_max_groups": 1})
    with engine.connect() as connection:
        answer = connection.execute(sa.text("SELECT COUNT(*) FROM visits WHERE town = :town"), {"town": "east"})
        assert answer.cursor is not None
        cursor: Any = answer.cursor
        assert cursor.result.charge.epsilon == Decimal("0.25") and len(cursor.result.accuracy) == 1
        assert answer.scalar_one() == 400
        dearer = connection.execution_options(dpquery_epsilon="0.5")
        assert dearer.execute(sa.text(BY_TOWN)).mappings().all()[0] == {"town": "east", "n": 400, "mean": 20.0}
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM visits WHERE town = ?", ("west",)).scalar() == 800
        connection.rollback()
        with pytest.raises(sa.exc.InterfaceError, match="epsilo is not an option"):
            connection.execution_options(dpquery_epsilo=1).execute(sa.text(BY_TOWN))
    assert charges(shop) == 3


@pytest.mark.usefixtures("exact")
def test_pandas_reads_sql(shop: Path, engine: sa.Engine) -> None:
    frame = pd.read_sql(BY_TOWN, engine)
    assert frame.to_dict("list")["n"] == [400, 0, 800]
    text = sa.text("SELECT COUNT(*) AS n FROM visits WHERE spent < :most")
    assert pd.read_sql(text, engine, params={"most": 50}).to_dict("list") == {"n": [1200]}
    table = visits(engine)
    core = select(table.c.old, func.count().label("n")).group_by(table.c.old)
    assert pd.read_sql(core, engine, index_col="old").n.to_dict() == {False: 600, True: 600}
    url = f"dpquery:///{shop}?epsilon=1"
    assert len(pd.read_sql("SELECT COUNT(*) FROM people", url)) == 1
    assert charges(shop) == 4


def test_what_would_read_rows_or_write_is_refused(shop: Path, engine: sa.Engine) -> None:
    table = visits(engine)
    for query in (select(table), table.delete(), table.insert().values(town="x"), sa.text("DROP TABLE visits")):
        with pytest.raises(sa.exc.NotSupportedError):
            rows(engine, query)
    with pytest.raises((pd.errors.DatabaseError, sa.exc.NotSupportedError), match="rows of single"):
        pd.read_sql_table("visits", engine)
    with pytest.raises(sa.exc.NotSupportedError), engine.connect() as connection:
        connection.execute(table.insert(), [{"town": "x"}, {"town": "y"}])
    assert charges(shop) == 0


def test_errors_are_wrapped_once(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="nothing does not exist"):
        rows(engine, sa.text("SELECT COUNT(*) FROM nothing"))
    with pytest.raises(sa.exc.OperationalError) as caught:
        rows(engine, sa.text("SELECT COUNT(*) FROM visits"), dpquery_epsilon=10)
    assert isinstance(caught.value.orig, dbapi.OperationalError)
    assert isinstance(caught.value.orig.__cause__, dp.InsufficientBudgetError)


def test_values_never_become_sql(shop: Path, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    table = visits(engine)
    sneaky = "east' OR town = 'west"
    with pytest.warns(dp.AccuracyWarning, match="none of the declared keys of visits.town"):
        assert rows(engine, select(func.count()).where(table.c.town == sneaky)) == [(0,)]
    assert "OR town" not in str(select(func.count()).where(table.c.town == sneaky).compile(engine))


def test_urls(shop: Path) -> None:
    folder = shop.parent
    moved = folder / "elsewhere.csv"
    (folder / "towns.csv").rename(moved)
    url = sa.URL.create("dpquery", username="ann", database=str(shop), query={"source.towns": str(moved)})
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert connection.connection.dbapi_connection.session.analyst == "ann"  # type: ignore[union-attr]
    ledger = folder / "shop.ledger"
    assert sa.inspect(sa.create_engine(url.update_query_dict({"ledger": str(ledger)}))).has_table("visits")
    with pytest.raises(sa.exc.OperationalError, match="towns has no data"):
        sa.inspect(sa.create_engine(f"dpquery:///{shop}"))


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("localhost/shop.yaml", "neither host"),
        ("ann:secret@/shop.yaml", "neither host"),
        ("/shop.yaml?epsilo=1", "epsilo is unknown"),
        ("/shop.yaml?weights=1", "weights is unknown"),
        ("/shop.yaml?epsilon=1&epsilon=2", "more than once"),
        ("/shop.yaml?max_rows=many", "whole number"),
        ("ann@/shop.yaml?analyst=bob", "two analysts"),
    ],
)
def test_urls_without_a_meaning_are_refused(rest: str, says: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=says):
        sa.create_engine(f"dpquery://{rest}").connect()


def test_an_engine_over_an_open_session(shop: Path) -> None:
    with pytest.raises(sa.exc.InterfaceError, match="has no catalog"):
        sa.create_engine("dpquery://").connect()
    inner = dbapi.connect(shop)
    engine = sa.create_engine("dpquery://", creator=lambda: dbapi.connect(inner.session))
    assert len(rows(engine, sa.text(BY_TOWN))) == 3
    engine.dispose()
    assert not inner.closed and inner.execute("SELECT COUNT(*) FROM people").rowcount == 1


def test_a_disposed_engine_opens_the_data_anew(shop: Path, engine: sa.Engine) -> None:
    rows(engine, sa.text("SELECT COUNT(*) FROM people"))
    engine.dispose()
    assert len(rows(engine, sa.text(BY_TOWN))) == 3
    assert charges(shop) == 2
