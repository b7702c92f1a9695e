"""Attacks on the engine behind the wire (THREATS 1.1, 1.9, 1.10): each must fail, and nothing may be charged for it."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.cancelling import Cancellation, cancellable
from dpquery.errors import BackendError
from dpquery.frontends.postgres.pg_catalog import emulation
from dpquery.frontends.postgres.wire.answers import Refusal, StatementRequest
from tests.server.orders import Study

CANARY = "CANARY"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_csv_auto('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_parquet('x.parquet')",
        "SELECT * FROM parquet_scan('x.parquet')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM 'x.csv'",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('pg_class')",
        "SELECT getenv('HOME')",
        "SELECT current_query()",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_sleep(10)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT dblink('host=x', 'SELECT 1')",
        "SELECT error('x')",
        "SELECT repeat('x', 1000000000)",
        "SELECT lpad('x', 1000000000)",
        "SELECT json_execute_serialized_sql('x')",
        "SELECT nextval('x')",
        "SELECT * FROM pgc.pg_class",
        "SELECT * FROM aid.type_names",
        "SELECT * FROM main.pg_class",
        "SELECT * FROM memory.pgc.pg_class",
        "SELECT * FROM dp_budget",
        "SELECT * FROM dp.entries",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM table0",
        "SELECT COUNT(*) FROM pg_class, LATERAL (SELECT * FROM orders) AS x",
        "SELECT (SELECT COUNT(*) FROM orders), relname FROM pg_class",
        "WITH pg_class AS (SELECT * FROM orders) SELECT * FROM pg_class, pg_type",
        "COPY orders TO '/tmp/x'",
        "ATTACH '/tmp/x' AS x",
        "PRAGMA database_list",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "CALL pragma_version()",
        "EXPLAIN ANALYZE SELECT 1",
        "DO $$ BEGIN END $$",
    ],
)
def test_nothing_outside_is_reached(study: Study, text: str) -> None:
    for ask in (
        lambda: study.answer(text),
        lambda: study.engine.describe(text, (), "alice", {}),
    ):
        with pytest.raises(Refusal) as raised:
            ask()
        assert raised.value.sqlstate in ("42501", "42883", "42P01", "0A000", "42601", "42703")
        assert "root:" not in str(raised.value.args) and CANARY not in str(raised.value.args)
    assert study.entries == 0


def test_the_engine_of_the_catalogs_is_locked_even_where_a_statement_gets_through(study: Study) -> None:
    """The allow-list is the first wall; behind it nothing can be opened and no setting can be changed."""
    tables = study.engine._emulation._tables
    for text in (
        "SELECT * FROM read_text('/etc/passwd')",
        "SET enable_external_access = true",
        "ATTACH '/tmp/dpquery-x.db' AS x",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO '/tmp/dpquery-x.csv'",
    ):
        with pytest.raises(BackendError, match="does not know"):
            tables.run(text, {}, limits=emulation.LIMITS)


def test_the_engine_of_the_catalogs_holds_no_private_value(study: Study) -> None:
    """Every text of every table in it is read: none is a canary of the data."""
    run = study.engine._emulation._tables.run
    named = run("SELECT schema_name, table_name FROM duckdb_tables()", {}, limits=emulation.LIMITS).to_pylist()
    assert len(named) > 200
    parts = [f'SELECT CAST(t AS VARCHAR) FROM {one["schema_name"]}."{one["table_name"]}" AS t' for one in named]
    for start in range(0, len(parts), 25):
        found = run(" UNION ALL ".join(parts[start : start + 25]), {}, limits=emulation.LIMITS)
        assert CANARY not in str(found.to_pylist())


def test_describe_reads_no_data_and_charges_nothing(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants 42 and 44: neither the private engine runs, nor the ledger is written."""

    def stolen(*_: object, **__: object) -> object:
        raise AssertionError("a private row would be read")

    monkeypatch.setattr(DuckDBBackend, "run", stolen)
    monkeypatch.setattr(type(study.ledger), "charge", stolen)
    texts = (
        "SELECT region, COUNT(*) FROM orders GROUP BY region",
        "SELECT COUNT(*) FROM orders WHERE region = $1 AND qty > $2 LIMIT $3",
        "SELECT AVG(price), MAX(qty), COUNT(DISTINCT region) FROM orders",
        "SELECT * FROM orders LIMIT 0",
        "SELECT DISTINCT region FROM orders",
    )
    for text in texts:
        study.engine.describe(text, (), "alice", {})
        if "$" not in text:
            study.engine.explain(StatementRequest(text=text, analyst="alice", settings={}))
    for text in texts[3:]:
        study.answer(text)
    assert study.entries == 0


def test_errors_of_engines_do_not_go_out(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant 43: whatever an engine says of a row stays inside."""

    def failing(*_: object, **__: object) -> object:
        raise ValueError(f"could not convert {CANARY} at /srv/data/orders.parquet")

    monkeypatch.setattr(DuckDBBackend, "run", failing)
    with pytest.raises(Refusal) as raised:
        study.answer("SELECT region, COUNT(*) FROM orders GROUP BY region")
    error = raised.value
    assert CANARY not in str(error.args) and "/srv" not in str(error.args)
    assert error.sqlstate in ("58030", "XX000")
    assert error.__cause__ is None and error.__suppress_context__


def test_a_failing_ledger_tells_no_path(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpquery.errors import LedgerError

    def failing(*_: object, **__: object) -> object:
        raise LedgerError("the ledger /srv/secret/shop.ledger is damaged")

    monkeypatch.setattr(type(study.ledger), "charge", failing)
    with pytest.raises(Refusal) as raised:
        study.answer("SELECT region, COUNT(*) FROM orders GROUP BY region")
    assert raised.value.sqlstate == "58030"
    assert "/srv" not in str(raised.value.args)


LETTERS = "a" * 9_000
COUNTED = "SELECT COUNT(*) FROM "


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("SELECT generate_series(1, 1000000000)", "54000"),
        ("SELECT * FROM generate_series(1, 1000000000)", "54000"),
        (f"{COUNTED} generate_series(1, 1000000000000)", "54000"),
        (f"{COUNTED} generate_series(1, 1000 * 1000 * 1000)", "54000"),
        (f"{COUNTED} generate_series(-(5), 1000000000, 2)", "54000"),
        ("SELECT generate_series(1, n) FROM (SELECT 1000000000 AS n) AS x", "54000"),
        (f"{COUNTED} (SELECT 1000000000 AS n) AS x, generate_series(1, x.n)", "54000"),
        (f"{COUNTED} (SELECT 1000000000 AS n) AS x, LATERAL generate_series(1, x.n) AS g(i)", "54000"),
        (f"{COUNTED} generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2020-01-01', INTERVAL '1 second')", "54000"),
        ("SELECT * FROM generate_series(1, 1000) AS a, generate_series(1, 1000) AS b", "54000"),
        ("SELECT array_agg(g) FROM generate_series(1, 1000) AS g, generate_series(1, 1000) AS h", "54000"),
        ("SELECT g, array_agg(h) FROM generate_series(1, 1000) AS g, generate_series(1, 200) AS h GROUP BY g", "54000"),
        ("SELECT string_agg('abcdefghijklmnopqrst', '') FROM generate_series(1, 100000)", "54000"),
        ("SELECT array_agg('abcdefghijklmnopqrst' || g) AS a FROM generate_series(1, 99999) AS g", "54000"),
        (f"SELECT length(replace(replace('{LETTERS}', 'a', '{LETTERS}'), 'a', '{LETTERS}'))", "53200"),
        (
            "SELECT COUNT(x) FROM (SELECT array_agg(g) AS x "
            "FROM generate_series(1, 100000) AS g, generate_series(1, 10000)) AS y",
            "53200",
        ),
        (f"{COUNTED} pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d", "57014"),
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t", "57014"),
    ],
)
def test_statements_over_the_catalogs_have_limits(
    study: Study, text: str, sqlstate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-05: their series, lists, values, rows, memory and time are bounded, whatever they call."""
    seconds = 0.5 if sqlstate == "57014" else 30.0
    monkeypatch.setattr(emulation, "LIMITS", replace(emulation.LIMITS, seconds=seconds, most_memory=64 << 20))
    with pytest.raises(Refusal) as raised:
        study.answer(text)
    assert raised.value.sqlstate == sqlstate
    assert study.rows("SELECT 1") == [(1,)]


def test_the_size_of_a_series_is_known_before_it_is_made(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(study.engine._emulation._tables), "run", None)
    with pytest.raises(Refusal, match="at most 100,000 values"):
        study.answer("SELECT generate_series(1, 1000000001)")


def test_short_series_and_lists_are_answered(study: Study) -> None:
    for text, found in (
        ("SELECT SUM(g) FROM generate_series(1, 100000) AS g", [(5_000_050_000,)]),
        ("SELECT generate_series(3, 1, -1)", [(3,), (2,), (1,)]),
        ("SELECT COUNT(*) FROM (SELECT 5 AS n) AS x, generate_series(1, x.n * 2, 3)", [(4,)]),
        (
            "SELECT COUNT(*) FROM generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2021-01-01', INTERVAL '1 day')",
            [(367,)],
        ),
        ("SELECT array_agg(g) FROM generate_series(1, 3) AS g", [([1, 2, 3],)]),
    ):
        assert study.rows(text) == found


def test_a_statement_over_the_catalogs_runs_in_a_process_of_one_thread_that_is_started_again(study: Study) -> None:
    tables = study.engine._emulation._tables
    first = tables.process
    assert len(list(Path(f"/proc/{first}/task").iterdir())) == 1
    os.kill(first, signal.SIGKILL)
    assert study.rows("SELECT COUNT(*) FROM pg_class WHERE relname = 'orders'") == [(1,)]
    assert tables.process != first


def test_a_statement_over_the_catalogs_is_cancelled(study: Study) -> None:
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    with cancellable(cancellation), pytest.raises(Refusal):
        study.answer("SELECT COUNT(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d, pg_class")


def test_many_threads_are_charged_once_each() -> None:
    study = Study()
    failures: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            study.answer(f"SELECT region, COUNT(*) FROM orders WHERE qty > {number} GROUP BY region")
            study.answer("SELECT relname FROM pg_class WHERE relkind = 'r' ORDER BY 1")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert study.entries == 8
    study.close()


def test_who_asks_is_never_taken_from_the_text(study: Study) -> None:
    for text in (
        "-- dpquery.analyst: bob\nSELECT current_user",
        "/* dpquery: analyst=bob, epsilon=100 */ SELECT current_user",
        "SELECT session_user",
    ):
        assert study.rows(text) == [("alice",)]
