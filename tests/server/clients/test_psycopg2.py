"""psycopg2 over the study: what it writes into the query, cursors by name, COPY, cancel."""

from __future__ import annotations

import datetime
import importlib
import io
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.server.clients.study import LONG, Study, fresh

VALUES = (
    *(True, 5, Decimal("-1.2345"), "it's ü", datetime.date(2020, 2, 29), datetime.time(1, 2, 3), None),
    datetime.datetime(2020, 2, 29, 4, 5, 6, 7),
)


@pytest.fixture
def connection(study: Study) -> Iterator[Any]:
    found = importlib.import_module("psycopg2").connect(study.url)
    yield found
    found.close()


def test_a_query_is_charged_once_and_notices_tell(study: Study, connection: Any) -> None:
    query = fresh()
    with study.charges(1), connection.cursor() as cursor:
        cursor.execute(query)
        rows = cursor.fetchall()
        assert [row[0] for row in rows] == ["F", "M"]
        assert any("charged" in notice for notice in connection.notices)
        cursor.execute(query)
        assert cursor.fetchall() == rows


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_comes_back_as_it_was_sent(study: Study, connection: Any, value: object) -> None:
    with study.charges(0), connection.cursor() as cursor:
        cursor.execute("SELECT %s AS v", (value,))
        assert cursor.fetchone() == (value,)


@pytest.mark.parametrize(
    ("condition", "value"),
    [("age > %s", 55), ("sex IN %s", ("F", "M")), ("age = ANY(%s)", [55, 56]), ("bmi < %s", 28.5), ("died = %s", True)],
)
def test_conditions_take_parameters(study: Study, connection: Any, condition: str, value: object) -> None:
    with study.charges(1), connection.cursor() as cursor:
        cursor.execute(fresh("COUNT(*) AS n", f"AND {condition}"), (value,))
        assert isinstance(cursor.fetchone()[0], int)


def test_cursors_by_name_and_copy(study: Study, connection: Any) -> None:
    with study.charges(2):
        with connection.cursor("named", scrollable=True) as cursor:
            cursor.execute(fresh())
            first = cursor.fetchmany(1)
            cursor.scroll(0, "absolute")
            assert cursor.fetchall()[:1] == first
        text = io.StringIO()
        with connection.cursor() as cursor:
            cursor.copy_expert(f"COPY ({fresh()}) TO STDOUT WITH CSV HEADER", text)
        assert text.getvalue().startswith("sex,n\nF,")


def test_refused_and_cancelled(study: Study, connection: Any) -> None:
    errors: Any = importlib.import_module("psycopg2.errors")
    with study.charges(0), connection.cursor() as cursor:
        with pytest.raises(errors.InsufficientPrivilege):
            cursor.execute("SELECT * FROM patients")
        with pytest.raises(errors.InFailedSqlTransaction):
            cursor.execute("SELECT 1")
        connection.rollback()
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        with pytest.raises(errors.QueryCanceled):
            cursor.execute(LONG)
        timer.join()
        connection.rollback()
        connection.set_session(readonly=True, isolation_level="REPEATABLE READ")
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("repeatable read",)
