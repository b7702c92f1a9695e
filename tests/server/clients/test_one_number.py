"""One number, with one interval, in psql, through the driver of BI tools, in DB-API and in Python.

What `df.dp` shows is compared with Python's answer by tests/unit/frontends/pandas/test_accuracy.py, and what further
drivers read by tests/server/test_intervals.py.
"""

from __future__ import annotations

import importlib
from typing import Any

import psycopg
import pytest

from dpquery import dbapi
from dpquery.frontends.cli.demo_files import LEDGER
from tests.server.clients.study import DATABASE, USER, Study, fresh
from tests.server.clients.test_psql import psql
from tests.server.serving import PASSWORD

pytestmark = pytest.mark.clients


def test_a_number_and_its_interval_are_the_same_in_every_client(study: Study) -> None:
    query = fresh("sex, COUNT(*) AS n, AVG(age) AS mean")
    with study.charges(1):
        with psycopg.connect(study.url, autocommit=True, options="-c dpquery.intervals=on") as connection:
            wire = connection.execute(query).fetchall()
        assert all(low < n < high for _, n, low, high, *_ in wire)
        assert all(low < mean < high for *_, mean, low, high in wire)

        printed, _ = psql(study, f"SET dpquery.intervals = on;\n{query};", "-Atq")
        assert [_read(line.split("|")) for line in printed.splitlines()] == wire

        words = f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={study.port};Database={DATABASE};UID={USER};"
        options = "ConnSettings=SET dpquery.intervals=on;"
        odbc: Any = importlib.import_module("pyodbc").connect(f"{words}PWD={PASSWORD};SSLmode=disable;{options}")
        assert [tuple(row) for row in odbc.cursor().execute(query).fetchall()] == wire
        odbc.close()

        catalog, ledger = study.folder / "nafld.yaml", study.folder / LEDGER
        with dbapi.connect(catalog, ledger=ledger, analyst=USER, intervals=True) as own:
            cursor = own.execute(query)
            assert cursor.fetchall() == wire
            answer = cursor.result  # that of Session.sql
    assert answer is not None
    frame, accuracy = answer.to_pandas(), answer.accuracy
    for name, place in (("n", 1), ("mean", 4)):
        assert frame[name].tolist() == [row[place] for row in wire]
        assert accuracy[name].to_numpy().tolist() == [list(row[place + 1 : place + 3]) for row in wire]


def _read(cells: list[str]) -> tuple[object, ...]:
    sex, n, *rest = cells
    return (sex, int(n), *map(float, rest))
