"""Drivers that are installed: psycopg, with every way it has to ask; charges are counted in each."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest

from tests.server.running import Running
from tests.waiting import PATIENCE

ORDERS = "SELECT region, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1"
REGIONS = [("east", 5000), ("north", 5000), ("south", 5000), ("west", 5000)]


@pytest.fixture
def connection(server: Running) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.url(), autocommit=True) as found:
        yield found


def charges(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT charges").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_every_type_come_as_they_are(connection: psycopg.Connection, binary: bool) -> None:
    text = (
        "SELECT true AS a, 1::SMALLINT AS b, 2::INTEGER AS c, 3::BIGINT AS d, 1.5::FLOAT AS e, 'é'::VARCHAR AS f, "
        "12.50::DECIMAL(9,2) AS g, DATE '2020-02-29' AS h, TIMESTAMP '2020-02-29 12:30:00.25' AS i, "
        "TIME '10:20:30.5' AS j, 'infinity'::DOUBLE AS k, NULL::INTEGER AS l, '\\xAB'::BLOB AS m, [1, NULL, 3] AS n"
    )
    row = connection.cursor(binary=binary).execute(text).fetchone()
    assert row == (
        *(True, 1, 2, 3, 1.5, "é", Decimal("12.50"), datetime.date(2020, 2, 29)),
        *(datetime.datetime(2020, 2, 29, 12, 30, 0, 250_000), datetime.time(10, 20, 30, 500_000)),
        *(float("inf"), None, b"\xab", [1, None, 3]),
    )


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_of_every_type_arrive_as_they_are(connection: psycopg.Connection, binary: bool) -> None:
    form = "%b" if binary else "%t"
    values: list[tuple[str, object]] = [
        ("bool", True),
        ("bigint", -(2**60)),
        ("float8", 0.1),
        ("numeric", Decimal("-12345.6789")),
        ("text", "it's ü"),
        ("date", datetime.date(1999, 12, 31)),
        ("timestamp", datetime.datetime(2001, 2, 3, 4, 5, 6, 7)),
        ("uuid", uuid.UUID(int=7)),
    ]
    for type, value in values:
        row = connection.execute(f"SELECT {form}::{type} AS v".replace("numeric", "DECIMAL(18, 4)"), [value]).fetchone()
        assert row is not None
        assert str(row[0]) == str(value) or row[0] == value


def test_one_query_is_one_charge_however_it_is_asked(connection: psycopg.Connection) -> None:
    before = charges(connection)
    asked = 0
    for prepare in (False, True):
        assert connection.execute(ORDERS, prepare=prepare).fetchall() == REGIONS
        asked += 1
    with connection.pipeline():
        cursors = [connection.execute(ORDERS) for _ in range(3)]
        assert all(cursor.fetchall() == REGIONS for cursor in cursors)
    asked += 3
    with connection.transaction(), connection.cursor("named", scrollable=True) as cursor:
        cursor.execute(ORDERS)
        assert cursor.fetchmany(3) == REGIONS[:3]
        cursor.scroll(0, mode="absolute")
        assert cursor.fetchall() == REGIONS
    asked += 1
    with connection.cursor().copy(f"COPY ({ORDERS}) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["text", "int8"])
        assert list(copy.rows()) == REGIONS
    asked += 1
    assert charges(connection) == before + asked


def test_results_that_come_row_by_row(connection: psycopg.Connection) -> None:
    with connection.cursor() as cursor:
        assert sum(n for (n,) in cursor.stream("SELECT i AS n FROM range(20000) r(i)")) == 19_999 * 10_000


def test_notices_say_what_was_charged(connection: psycopg.Connection) -> None:
    heard: list[str | None] = []
    connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
    connection.execute(ORDERS)
    assert heard == ["charged epsilon 0.1"]


def test_errors_have_a_state_a_hint_and_a_place(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        connection.execute("DELETE FROM orders")
    assert caught.value.diag.message_hint == "Write a SELECT."
    assert caught.value.diag.statement_position == "1"


def test_a_running_statement_is_cancelled(server: Running, connection: psycopg.Connection) -> None:
    begun = server.begun()
    threading.Thread(target=lambda: begun.wait(PATIENCE) and connection.cancel_safe()).start()  # type: ignore[func-returns-value]
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_has_no_more_time_than_it_is_given(connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = '300ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
        connection.execute("SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_transactions_have_the_status_that_drivers_follow(server: Running) -> None:
    with psycopg.connect(server.url()) as connection:
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        connection.execute("SELECT 1")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS  # type: ignore[comparison-overlap]
        with pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("nonsense")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.rollback()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_fifty_connections_ask_at_once(server: Running) -> None:
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            with psycopg.connect(server.url()) as connection:
                for _ in range(3):
                    assert connection.execute(ORDERS).fetchall() == REGIONS
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
