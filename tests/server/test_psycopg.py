"""psycopg 3 over the whole server and the demo's study: each way it has to ask, with exact charges."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.server.clients.study import LONG, Study, fresh, studying


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    with studying(Path(tmp_path_factory.mktemp("study")) / "nafld") as found:
        yield found


@pytest.fixture
def connection(study: Study) -> Iterator[psycopg.Connection]:
    with psycopg.connect(study.url, autocommit=True) as found:
        yield found


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("bool", True),
        ("int8", -(2**60)),
        ("float8", 0.1),
        ("numeric", Decimal("-12345.678901")),
        ("text", "it's ü"),
        ("date", datetime.date(2020, 2, 29)),
        ("timestamp", datetime.datetime(2001, 2, 3, 4, 5, 6, 7)),
        ("time", datetime.time(1, 2, 3)),
        ("interval", datetime.timedelta(days=2, seconds=3, microseconds=4)),
        ("uuid", uuid.UUID(int=7)),
    ],
)
def test_values_come_back_as_they_were_sent(
    study: Study, connection: psycopg.Connection, type: str, value: object, binary: bool
) -> None:
    form = "%b" if binary else "%t"
    row = connection.cursor(binary=binary).execute(f"SELECT CAST({form} AS {type}) AS v", [value]).fetchone()
    assert row == (value,)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("age > %s", 45),
        ("sex = %s", "F"),
        ("bmi > %s", 26.5),
        ("died = %s", True),
        ("age = ANY(%s)", [45, 46]),
        ("sex IN (SELECT unnest(%s::text[]))", ["F"]),
    ],
)
def test_conditions_take_parameters(
    study: Study, connection: psycopg.Connection, condition: str, value: object
) -> None:
    query = fresh("COUNT(*) AS n", f"AND {condition}")
    with study.charges(1):
        answers = {connection.execute(query, [value], prepare=prepare).fetchone() for prepare in (False, True)}
        answers.add(connection.cursor(binary=True).execute(query, [value]).fetchone())
    assert len(answers) == 1


def test_one_query_is_one_charge_however_it_is_read(study: Study, connection: psycopg.Connection) -> None:
    with study.charges(5):
        with connection.pipeline():
            cursors = [connection.execute(fresh()) for _ in range(2)]
            assert all(len(cursor.fetchall()) == 2 for cursor in cursors)
        with connection.transaction(), connection.cursor("named", scrollable=True, row_factory=dict_row) as named:
            named.execute(fresh())
            first = named.fetchmany(1)
            named.scroll(0, mode="absolute")
            assert named.fetchall()[:1] == first
        with connection.cursor().copy(f"COPY ({fresh()}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            assert [row[0] for row in copy.rows()] == ["F", "M"]
        assert [row[0] for row in connection.cursor().stream(fresh())] == ["F", "M"]


def test_isolation_is_what_was_asked_for(study: Study) -> None:
    with psycopg.connect(study.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.read_only = True
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    with psycopg.connect(study.url, autocommit=True) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)


def test_a_cancelled_statement_and_a_refused_one_cost_nothing(study: Study, connection: psycopg.Connection) -> None:
    with study.charges(0):
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(LONG)
        timer.join()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM patients")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT nope")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_connections_that_ask_the_same_at_once_are_charged_once(study: Study) -> None:
    query, found, failures = fresh(), set(), list[BaseException]()

    def ask() -> None:
        try:
            with psycopg.connect(study.url) as connection:
                found.add(tuple(connection.execute(query).fetchall()))
        except BaseException as error:
            failures.append(error)

    with study.charges(1):
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not failures and len(found) == 1
