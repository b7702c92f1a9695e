"""Attacks on the engine behind the wire (THREATS 1.1, 1.9, 1.10): each must fail, and nothing may be charged for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from dpquery.backends.duckdb import DuckDBBackend
from dpquery.frontends.server.answers import Asked, Refusal
from dpquery.frontends.server.pg_catalog import emulation
from tests.server.orders import Study

CANARY = "CANARY"


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    made = Study()
    yield made
    made.close()


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
    root = study.engine._emulation._tables._root
    import duckdb

    for text in (
        "SELECT * FROM read_text('/etc/passwd')",
        "SET enable_external_access = true",
        "ATTACH '/tmp/dpquery-x.db' AS x",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO '/tmp/dpquery-x.csv'",
    ):
        with pytest.raises(duckdb.Error):
            root.cursor().execute(text)


def test_the_engine_of_the_catalogs_holds_no_private_value(study: Study) -> None:
    """Every text of every table in it is read: none is a canary of the data."""
    root = study.engine._emulation._tables._root.cursor()
    tables = root.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    assert len(tables) > 200
    for schema, table in tables:
        for row in root.execute(f'SELECT * FROM {schema}."{table}"').fetchall():
            assert CANARY not in str(row)


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
            study.engine.explain(Asked(text=text, analyst="alice", settings={}))
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


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("SELECT COUNT(*) FROM generate_series(1, 1000000000000)", "57014"),
        ("SELECT COUNT(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d", "57014"),
        ("SELECT * FROM generate_series(1, 1000000000)", "54000"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t",
            "57014",
        ),
    ],
)
def test_statements_over_the_catalogs_have_limits(
    study: Study, text: str, sqlstate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulation, "TIME_LIMIT", 0.5)
    with pytest.raises(Refusal) as raised:
        study.answer(text)
    assert raised.value.sqlstate == sqlstate


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
