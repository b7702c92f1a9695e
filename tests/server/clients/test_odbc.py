"""psqlODBC over the study, as Excel and Tableau use it, with and without UseDeclareFetch."""

from __future__ import annotations

import datetime
import importlib
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.server.clients.study import DATABASE, LONG, STUDY_COLUMNS, USER, Study, fresh
from tests.server.serving import PASSWORD

pytestmark = pytest.mark.clients

VALUES = [
    ("int8", 5),
    ("float8", 1.5),
    ("numeric", Decimal("-1.2345")),
    ("text", "it's ü"),
    ("date", datetime.date(2020, 2, 29)),
    ("timestamp", datetime.datetime(2020, 2, 29, 4, 5, 6)),
    ("time", datetime.time(1, 2, 3)),
    ("text", None),
]
CONDITIONS = [("age > ?", 71), ("sex = ?", "F"), ("bmi > ?", 27.5), ("bmi < ?", Decimal("27.75")), ("died = ?", True)]


@pytest.fixture(scope="module", params=["", ";UseDeclareFetch=1;Fetch=100"], ids=["plain", "UseDeclareFetch"])
def connect(request: pytest.FixtureRequest, study: Study) -> Any:
    pyodbc = importlib.import_module("pyodbc")
    words = f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={study.port};Database={DATABASE};UID={USER};"
    words += f"PWD={PASSWORD};SSLmode=disable{request.param}"
    return lambda **options: pyodbc.connect(words, **options)


@pytest.fixture
def cursor(connect: Any) -> Iterator[Any]:
    connection = connect(autocommit=True)
    yield connection.cursor()
    connection.close()


def state_of(caught: pytest.ExceptionInfo[Any]) -> str:
    return str(caught.value.args[0])


def test_tables_columns_and_keys(study: Study, cursor: Any) -> None:
    with study.charges(0):
        assert [row.table_name for row in cursor.tables(tableType="TABLE")] == sorted(STUDY_COLUMNS)
        columns = list(cursor.columns(table="patients"))
        assert [row.column_name for row in columns] == STUDY_COLUMNS["patients"]
        assert {row.type_name for row in columns} == {"int8", "text", "float8", "bool"}
        for listed in (cursor.primaryKeys, cursor.foreignKeys, cursor.statistics, cursor.rowIdColumns):
            assert listed(table="patients").fetchall() == []
        assert len(cursor.procedures().fetchall()) > 100
        assert len(cursor.getTypeInfo().fetchall()) > 10
        assert [row.table_cat for row in cursor.tables(catalog="%", schema="", table="")] == [DATABASE]


def test_a_query_is_charged_once(study: Study, cursor: Any) -> None:
    query = fresh()
    with study.charges(1):
        rows = cursor.execute(query).fetchall()
        assert [row.sex for row in rows] == ["F", "M"] and all(isinstance(row.n, int) for row in rows)
        assert [column[0] for column in cursor.description] == ["sex", "n"]
        assert [tuple(row) for row in cursor.execute(query).fetchall()] == [tuple(row) for row in rows]


@pytest.mark.parametrize(("type", "value"), VALUES)
def test_a_value_comes_back_as_it_was_sent(study: Study, cursor: Any, type: str, value: object) -> None:
    with study.charges(0):
        assert cursor.execute(f"SELECT CAST(? AS {type}) AS v", value).fetchone()[0] == value


@pytest.mark.parametrize(("condition", "value"), CONDITIONS)
def test_conditions_take_parameters(study: Study, cursor: Any, condition: str, value: object) -> None:
    query = fresh("COUNT(*) AS n", f"AND {condition}")
    with study.charges(1):
        assert isinstance(cursor.execute(query, value).fetchone()[0], int)


def test_names_of_three_parts_and_many_rows(study: Study, cursor: Any) -> None:
    query = "SELECT p.sex, COUNT(*) FROM nafld.public.patients p WHERE p.weight > {} GROUP BY p.sex"
    with study.charges(1):
        assert len(cursor.execute(query.format(fresh().split("> ")[1].split()[0])).fetchall()) == 2
    assert len(cursor.execute("SELECT i FROM generate_series(1, 1000) g(i)").fetchall()) == 1000


def test_refusals_and_transactions(study: Study, connect: Any) -> None:
    pyodbc = importlib.import_module("pyodbc")
    connection = connect()
    cursor = connection.cursor()
    with study.charges(1):
        assert len(cursor.execute(fresh()).fetchall()) == 2
        connection.rollback()
        for query, state in (("SELECT * FROM patients", "42501"), ("SELECT nope FROM patients", "42703")):
            with pytest.raises(pyodbc.Error) as caught:
                cursor.execute(query).fetchall()
            assert state_of(caught) == state
            connection.rollback()
        assert cursor.execute("SELECT 2").fetchone()[0] == 2
        connection.commit()
    connection.close()


def test_a_statement_is_cancelled(study: Study, cursor: Any) -> None:
    pyodbc = importlib.import_module("pyodbc")
    timer = threading.Timer(0.5, cursor.cancel)
    timer.start()
    with study.charges(0), pytest.raises(pyodbc.Error) as caught:
        cursor.execute(LONG).fetchall()
    timer.join()
    assert state_of(caught) == "57014"
    assert cursor.execute("SELECT 1").fetchone()[0] == 1


def test_twenty_connections(connect: Any) -> None:
    connections = [connect(autocommit=True) for _ in range(20)]
    assert sum(one.execute("SELECT 1").fetchone()[0] for one in connections) == 20
    for one in connections:
        one.close()
