"""`SET dpquery.intervals = on`: columns with the ends of intervals, described as they are answered, off by default."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

import dpquery as dp
from dpquery import dbapi
from dpquery.frontends.page.server_client import Asker, ServerAddress
from dpquery.frontends.postgres.wire.answers import Refusal
from tests.scripted import zero_noise
from tests.server.orders import Study
from tests.server.serving import PASSWORD, Serving, make_shop, serving

ON = {"dpquery.epsilon": "1", "dpquery.intervals": "on"}
OFF = {"dpquery.epsilon": "1"}
BY_REGION = "SELECT region, COUNT(*) AS n, AVG(amount) AS mean FROM orders GROUP BY region ORDER BY region"


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT region, COUNT(*) AS n FROM orders GROUP BY region", "region n n_low n_high"),
        ("SELECT COUNT(*), COUNT(*) FROM orders", "count count_low count_high count count_low_2 count_high_2"),
        ("SELECT COUNT(*) AS n, SUM(amount) AS n_low FROM orders", "n n_low_2 n_high_2 n_low n_low_low n_low_high"),
        ("SELECT 'a' AS k, COUNT(*) AS n FROM orders UNION ALL SELECT 'b', 3 ORDER BY 2 LIMIT 1", "k n n_low n_high"),
        ("SELECT region, COUNT(*) AS n FROM orders GROUP BY region LIMIT 0", "region n n_low n_high"),
        ("SELECT MODE(region) AS often FROM orders", "often"),
        ("SELECT MAX(ordered_on) AS last FROM orders WHERE region = 'north'", "last"),
        ("SELECT MEDIAN(amount) AS m FROM orders WHERE region = 'north'", "m m_low m_high"),
        ("SELECT MIN(amount) AS least FROM orders", "least least_low least_high"),
        ("SELECT DISTINCT region FROM orders", "region"),
        ("SELECT 1 AS one", "one"),
        ("SELECT n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS q WHERE n > 5", "n n_low n_high"),
    ],
)
def test_a_description_and_an_answer_have_the_same_columns(study: Study, query: str, columns: str) -> None:
    described, answered = (
        study.engine.describe(query, (), "alice", ON).fields,
        study.answer(query, settings=ON),
    )
    assert " ".join(field.name for field in described) == columns
    assert described == answered.fields and answered.table.num_columns == len(described)
    plain = study.answer(query, settings=OFF)
    assert study.engine.describe(query, (), "alice", OFF).fields == plain.fields
    assert len(plain.fields) == plain.table.num_columns <= len(described)


def test_ends_are_floats_around_the_number_and_null_where_none_is_known(study: Study) -> None:
    query = "SELECT COUNT(*) AS n, SUM(amount) AS s, MEDIAN(amount) AS m FROM orders WHERE region IN ('north', 'east')"
    (row,) = study.answer(query, settings=ON).table.to_pylist()
    assert row["n_low"] < row["n"] < row["n_high"]
    assert isinstance(row["s"], Decimal) and row["s_low"] < row["s"] < row["s_high"]
    assert row["m_low"] is row["m_high"] is None
    again = study.answer(query, settings={**ON, "dpquery.confidence": "0.99"}).table.to_pylist()[0]
    assert again["n"] == row["n"] and again["n_low"] < row["n_low"]


def test_a_notice_says_that_an_answer_says_nothing(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    answered = study.answer("SELECT AVG(amount) AS m FROM orders WHERE amount > 99999", settings=OFF)
    assert answered.notices[-1] == "intervals as wide as the range of possible values, which say nothing: m"
    counted = study.answer("SELECT COUNT(*) AS n FROM orders", settings=OFF).notices
    assert not any("say nothing" in notice for notice in counted)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = Path(tmp_path_factory.mktemp("shop"))
    make_shop(folder)
    with serving(folder) as found:
        yield found


@pytest.fixture
def connection(shop: Serving) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop.url(), autocommit=True) as found:
        yield found


def test_the_same_number_has_the_same_interval_wherever_it_is_shown(
    shop: Serving, connection: psycopg.Connection
) -> None:
    connection.execute("SET dpquery.intervals = on")
    cursor = connection.execute(BY_REGION)
    names = [column.name for column in cursor.description or ()]
    wire = cursor.fetchall()
    assert names == ["region", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    binary = connection.cursor(binary=True).execute(BY_REGION)
    assert binary.fetchall() == wire and [c.name for c in binary.description or ()] == names

    catalog, ledger = shop.folder / "shop.yaml", shop.folder / "shop.ledger"
    with dbapi.connect(catalog, ledger=ledger, analyst="alice", intervals=True) as own:
        by_dbapi = own.execute(BY_REGION)
        assert [column[0] for column in by_dbapi.description or ()] == names
        assert by_dbapi.fetchall() == wire
        answer = by_dbapi.result
    frame, accuracy = answer.to_pandas(), answer.accuracy
    assert frame["n"].tolist() == [row[1] for row in wire]
    for name, place in (("n", 2), ("mean", 5)):
        assert accuracy[name].to_numpy().tolist() == [list(row[place : place + 2]) for row in wire]

    sa.dialects.registry.register("dpquery", "dpquery.frontends.dbapi.sqlalchemy_dialect", "DPQueryDialect")
    url = f"dpquery:///{catalog}?analyst=alice&ledger={ledger}&intervals=on"
    engine = sa.create_engine(url)
    read = pd.read_sql(sa.text(BY_REGION), engine)
    assert list(read.columns) == names and [tuple(row) for row in read.itertuples(index=False)] == wire
    engine.dispose()
    over_the_wire = sa.create_engine(
        f"postgresql+psycopg://alice:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{shop.port}/shop",
        connect_args={"options": "-c dpquery.intervals=on"},
    )
    read = pd.read_sql(sa.text(BY_REGION), over_the_wire)
    assert list(read.columns) == names and [tuple(row) for row in read.itertuples(index=False)] == wire
    over_the_wire.dispose()


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT region, COUNT(*) AS n, AVG(qty) AS m FROM synopsis.orders GROUP BY region", "n n_low n_high m m_low"),
        ("SELECT COUNT(*) AS n FROM synopsis.orders WHERE region = $1", "n n_low n_high"),
        ("SELECT region, COUNT(*) AS n FROM synopsis.orders GROUP BY region LIMIT 0", "region n n_low n_high"),
        ("SELECT region, is_new FROM synopsis.orders", "region is_new"),
        ("SELECT DISTINCT region FROM synopsis.orders", "region"),
    ],
)
def test_a_description_over_a_synopsis_has_the_columns_of_its_answer(study: Study, query: str, columns: str) -> None:
    session = study.engine._session("alice")
    if "orders" not in session.synopses:
        session.synopsis("orders", ["region", "is_new"], epsilon="1000")
    described = study.engine.describe(query, (), "alice", ON).fields
    answered = study.answer(query, *(["north"] if "$1" in query else []), settings=ON)
    assert described == answered.fields and columns in " ".join(field.name for field in described)
    assert answered.table.num_columns == len(described)


@pytest.mark.filterwarnings("ignore:numbers outside their intervals")  # a synthetic number may be
def test_numbers_of_a_synopsis_have_the_same_intervals_wherever_they_are_shown(
    shop: Serving, connection: psycopg.Connection
) -> None:
    """Over the wire, on the analyst's page, by DB-API and in Python; NULL for what no measured cells add up to."""
    query = "SELECT region, COUNT(*) AS n, AVG(amount) AS m FROM synopsis.orders GROUP BY region ORDER BY region"
    catalog, ledger = shop.folder / "shop.yaml", shop.folder / "shop.ledger"
    with dbapi.connect(catalog, ledger=ledger, analyst="alice", intervals=True) as own:
        own.session.synopsis("orders", ["region", "amount"], epsilon="50")
        by_dbapi = own.execute(query).fetchall()
        nothing = own.execute(f"SELECT * FROM ({query}) AS q WHERE FALSE")
        assert nothing.fetchall() == [] and len(nothing.description or ()) == 7
        answer = own.session.sql(query)
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    connection.execute("SET dpquery.intervals = on")
    cursor = connection.execute(query)
    wire = cursor.fetchall()
    assert [column.name for column in cursor.description or ()] == [
        "region",
        "n",
        "n_low",
        "n_high",
        "m",
        "m_low",
        "m_high",
    ]
    assert wire == by_dbapi
    assert [[row[2], row[3]] for row in wire] == answer.accuracy["n"].to_numpy().tolist()
    assert all(row[2] <= 1000 <= row[3] and row[5] is row[6] is None for row in wire)
    assert said[0].startswith("no charge") and "all others are synthetic alone" in said[1]
    asker = Asker(ServerAddress(host="127.0.0.1", port=shop.port, database="shop"), "alice", PASSWORD)
    try:
        page = asker.ask(query, None)
    finally:
        asker.close()
    assert page.columns[1].lows == tuple(row[2] for row in wire)
    assert all(cell.endswith("[none]") for cell in page.columns[2].cells)
    assert any("synthetic" in notice for notice in page.notices)


def test_prepared_statements_and_cursors_keep_to_what_they_said(connection: psycopg.Connection) -> None:
    query = "SELECT COUNT(*) AS n FROM orders WHERE region = %s"
    for setting, width in (("off", 1), ("on", 3), ("off", 1)):
        connection.execute(f"SET dpquery.intervals = {setting}")
        for prepare in (True, False, True):
            cursor = connection.execute(query, ["north"], prepare=prepare)
            row = cursor.fetchone()
            assert row is not None and len(row) == len(cursor.description or ()) == width
    connection.execute("PREPARE one AS SELECT COUNT(*) AS n FROM orders")
    connection.execute("SET dpquery.intervals = on")
    assert len(connection.execute("EXECUTE one").fetchone() or ()) == 3
    with connection.transaction(), connection.cursor("named") as named:
        named.execute("SELECT COUNT(*) AS n FROM orders")
        assert [column.name for column in named.description or ()] == ["n", "n_low", "n_high"]
        assert len(named.fetchone() or ()) == 3
    assert connection.execute("SHOW dpquery.intervals").fetchone() == ("on",)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SET dpquery.intervals = perhaps")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SET dpquery.confidence = 2")


def test_a_client_that_was_told_columns_gets_no_others(connection: psycopg.Connection) -> None:
    """As PostgreSQL refuses where the plan of a prepared statement gives other columns; nothing is charged."""
    raw = connection.pgconn
    assert raw.prepare(b"told", b"SELECT COUNT(*) AS n FROM orders").status == psycopg.pq.ExecStatus.COMMAND_OK
    assert raw.describe_prepared(b"told").nfields == 1
    connection.execute("SET dpquery.intervals = on")
    refused = raw.exec_prepared(b"told", None)
    assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"0A000"
    assert raw.describe_prepared(b"told").nfields == 3
    assert raw.exec_prepared(b"told", None).nfields == 3


def test_notices_go_over_the_wire_once_for_each_statement(connection: psycopg.Connection) -> None:
    said: list[str] = []
    connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    for bound in range(9990, 10000):  # of no row; one in fifty says something by chance
        connection.execute(f"SELECT AVG(amount) AS m FROM orders WHERE amount > {bound}")
    found = [words for words in said if "say nothing" in words]
    assert 5 <= len(found) <= 10
    assert set(found) == {"intervals as wide as the range of possible values, which say nothing: m"}


def test_sqlalchemy_core_reads_its_own_columns_by_name(shop: Serving) -> None:
    sa.dialects.registry.register("dpquery", "dpquery.frontends.dbapi.sqlalchemy_dialect", "DPQueryDialect")
    engine = sa.create_engine(f"dpquery:///{shop.folder / 'shop.yaml'}?analyst=alice")
    orders = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    query = sa.select(orders.c.region, sa.func.count().label("n")).group_by(orders.c.region)
    with engine.connect() as connection:
        row = connection.execute(query, execution_options={"dpquery_intervals": True}).mappings().first()
        assert row is not None and list(row) == ["region", "n", "n_low", "n_high"]
        assert row["n_low"] < row["n"] < row["n_high"]
        assert list(connection.execute(query).mappings().first() or ()) == ["region", "n"]
    engine.dispose()


def test_an_option_that_is_no_switch_is_refused(shop: Serving) -> None:
    with pytest.raises(dbapi.InterfaceError, match="on or off"):
        dbapi.connect(shop.folder / "shop.yaml", analyst="alice", intervals="perhaps")  # type: ignore[arg-type]
    with pytest.raises(psycopg.OperationalError, match="intervals"):
        psycopg.connect(shop.url() + " options='-c dpquery.intervals=perhaps'")


def test_a_free_answer_is_refused_as_before(study: Study) -> None:
    with pytest.raises(Refusal):
        study.answer("SELECT * FROM orders", settings=ON)


def test_the_package_says_so_in_python() -> None:
    assert issubclass(dp.AccuracyWarning, UserWarning)
