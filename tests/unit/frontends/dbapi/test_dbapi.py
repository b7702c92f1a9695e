# mypy: disable-error-code="comparison-overlap, func-returns-value, misc, no-untyped-call"
"""DB-API 2.0: what PEP 249 demands, and that only executing a query is charged, once."""

from __future__ import annotations

import datetime
import inspect
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery import dbapi, errors
from dpquery.frontends.dbapi.errors import class_of
from dpquery.plan.types import ROOM
from tests.scripted import zero_noise
from tests.unit.frontends.dbapi.dialect_shop import BY_TOWN, CATALOG, charges, write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path)


@pytest.fixture
def connection(shop: Path) -> dbapi.Connection:
    return dbapi.connect(shop)


def test_the_globals_of_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "named")
    assert all(hasattr(dbapi, name) for name in dbapi.__all__)
    assert dp.dbapi is dbapi


def test_the_exceptions_are_those_of_pep_249() -> None:
    parents = {
        dbapi.Error: Exception,
        dbapi.InterfaceError: dbapi.Error,
        dbapi.DatabaseError: dbapi.Error,
        **dict.fromkeys((dbapi.DataError, dbapi.OperationalError, dbapi.IntegrityError), dbapi.DatabaseError),
        **dict.fromkeys((dbapi.InternalError, dbapi.ProgrammingError, dbapi.NotSupportedError), dbapi.DatabaseError),
    }
    assert all(issubclass(child, parent) for child, parent in parents.items())
    assert not issubclass(dbapi.Warning, dbapi.Error)
    for one in (*parents, dbapi.Warning):
        assert getattr(dbapi.Connection, one.__name__) is one


def test_every_error_has_a_class() -> None:
    known = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, errors.DPQueryError)]
    given = {e.__name__: class_of(e.__new__(e)).__name__ for e in known}
    assert given == {
        "DPQueryError": "DatabaseError",
        **dict.fromkeys(("BackendError", "CatalogError", "LedgerError", "InsufficientBudgetError"), "OperationalError"),
        **dict.fromkeys(("QueryCancelledError", "DataChangedError"), "OperationalError"),
        **dict.fromkeys(
            ("QueryError", "QuerySyntaxError", "UnknownNameError", "MissingBoundsError"), "ProgrammingError"
        ),
        **dict.fromkeys(("MissingDeltaError", "ParameterError", "InvalidLossError"), "ProgrammingError"),
        "UnsupportedQueryError": "NotSupportedError",
        "InternalError": "InternalError",
    }


def test_executing_charges_once_and_fetching_never(
    shop: Path, connection: dbapi.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.rownumber, charges(shop)) == (None, -1, None, 0)
    cursor.execute(BY_TOWN)
    assert charges(shop) == 1
    assert [column[0] for column in cursor.description or ()] == ["town", "n", "mean"]
    assert cursor.fetchone() == ("east", 400, 20.0)
    assert cursor.fetchmany() == [("north", 0, None)]
    assert (cursor.rowcount, cursor.rownumber) == (3, 2)
    assert cursor.fetchall() == [("west", 800, 20.0)]
    assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (None, [], [])
    cursor.scroll(-2)
    assert [row[0] for row in cursor] == ["north", "west"]
    cursor.scroll(0, "absolute")
    cursor.arraysize = 2
    assert len(cursor.fetchmany()) == 2
    assert charges(shop) == 1
    assert connection.remaining.epsilon == Decimal("3.5")
    assert cursor.result.charge.epsilon == Decimal("0.5")


def test_types_are_described(connection: dbapi.Connection) -> None:
    text = "SELECT town, COUNT(*), AVG(spent), SUM(price), MIN(day), old FROM visits GROUP BY town, old"
    description = connection.execute(text).description or ()
    kinds = [dbapi.STRING, dbapi.NUMBER, dbapi.NUMBER, dbapi.NUMBER, dbapi.DATETIME, dbapi.NUMBER]
    assert all(len(column) == 7 for column in description)
    assert all(column[1] == kind for column, kind in zip(description, kinds, strict=True))
    assert description[0][1] != dbapi.NUMBER and description[0][1] != dbapi.BINARY and dbapi.ROWID != "int64"
    assert description[3][4:6] == (8 + ROOM, 2)
    assert len({dbapi.STRING, dbapi.NUMBER, dbapi.STRING}) == 2


def test_values_are_those_of_python(connection: dbapi.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    text = "SELECT COUNT(*), AVG(spent), SUM(price), old FROM visits GROUP BY old"
    assert connection.execute(text).fetchone() == (600, 20.0, Decimal("750.00"), False)
    assert isinstance((connection.execute("SELECT MIN(day) FROM visits").fetchone() or (0,))[0], datetime.date)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("SELECT COUNT(*) FROM visits WHERE town = :t AND day >= :d", {"t": "east", "d": datetime.date(2020, 2, 1)}),
        ("SELECT COUNT(*) FROM visits WHERE town = ? AND day >= ?", ("east", datetime.date(2020, 2, 1))),
        ("SELECT COUNT(*) FROM visits WHERE town = %(t)s AND day >= %(d)s", {"t": "east", "d": dbapi.Date(2020, 2, 1)}),
        ("SELECT COUNT(*) FROM visits WHERE town = $1 AND day >= $2", ["east", "2020-02-01"]),
    ],
)
def test_parameters(connection: dbapi.Connection, monkeypatch: pytest.MonkeyPatch, text: str, parameters: Any) -> None:
    zero_noise(monkeypatch)
    assert connection.execute(text, parameters).fetchall() == [(200,)]


def test_the_budget_is_the_connections_or_the_querys(shop: Path) -> None:
    with dbapi.connect(shop, epsilon="0.25", max_rows=1) as connection:
        assert connection.execute("SELECT COUNT(*) FROM visits").result.charge.epsilon == Decimal("0.25")
        assert connection.execute("SELECT COUNT(*) FROM people", epsilon="0.5").result.charge.epsilon == Decimal("0.5")
        cheap = connection.execute("SELECT COUNT(*) FROM people", error=100, fresh=True)
        assert 0 < cheap.result.charge.epsilon < Decimal("0.1")
        with pytest.raises(dbapi.InterfaceError, match="epsilo is not an option"):
            connection.execute("SELECT COUNT(*) FROM people", epsilo=1)  # type: ignore[call-arg]
    with pytest.raises(dbapi.InterfaceError, match="epsilo is not an option"):
        dbapi.connect(shop, epsilo=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "parameters", "error", "says"),
    [
        ("SELEC 1", None, dbapi.ProgrammingError, "at line 1"),
        ("SELECT COUNT(*) FROM nothing", None, dbapi.ProgrammingError, "nothing does not exist"),
        ("SELECT * FROM visits", None, dbapi.NotSupportedError, "rows of single"),
        ("DELETE FROM visits", None, dbapi.NotSupportedError, "Only SELECT"),
        ("SELECT SUM(person) FROM visits", None, dbapi.ProgrammingError, "bounds"),
        ("SELECT COUNT(*) FROM visits WHERE town = :t", None, dbapi.ProgrammingError, "no value"),
        ("SELECT COUNT(*) FROM visits", ["x"], dbapi.ProgrammingError, "no parameter"),
        ("SELECT COUNT(*) FROM visits WHERE town = ?", "x", dbapi.ProgrammingError, "a sequence"),
        ("SELECT COUNT(*) FROM visits WHERE town = ?", [object()], dbapi.ProgrammingError, "cannot be a parameter"),
        (b"SELECT 1", None, dbapi.ProgrammingError, "not bytes"),
        ("", None, dbapi.ProgrammingError, "empty"),
    ],
)
def test_what_is_refused_costs_nothing(
    shop: Path, connection: dbapi.Connection, text: Any, parameters: Any, error: type[Exception], says: str
) -> None:
    cursor = connection.cursor()
    with pytest.raises(error, match=says):
        cursor.execute(text, parameters)
    assert (charges(shop), cursor.description) == (0, None)
    with pytest.raises(dbapi.ProgrammingError, match="execute a query first"):
        cursor.fetchone()


def test_an_exhausted_budget_keeps_what_it_knows(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.OperationalError) as caught:
        connection.execute("SELECT COUNT(*) FROM visits", epsilon=5)
    assert isinstance(caught.value.__cause__, dp.InsufficientBudgetError)
    assert caught.value.__cause__.remaining.epsilon == 4
    assert isinstance(caught.value, dp.DPQueryError)


def test_nothing_runs_many_times_or_calls_procedures(shop: Path, connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    with pytest.raises(dbapi.NotSupportedError, match="by itself"):
        cursor.executemany("SELECT COUNT(*) FROM visits WHERE town = ?", [["east"], ["west"]])
    with pytest.raises(dbapi.NotSupportedError):
        cursor.callproc("anything")
    assert charges(shop) == 0


def test_transactions_change_nothing(shop: Path, connection: dbapi.Connection) -> None:
    cursor = connection.execute("SELECT COUNT(*) FROM visits")
    connection.rollback()
    connection.commit()
    assert charges(shop) == 1 and connection.autocommit
    cursor.setinputsizes([1])
    cursor.setoutputsize(10, 1)
    assert cursor.nextset() is None and cursor.fetchall() == []
    assert (cursor.lastrowid, cursor.messages, connection.messages) == (None, [], [])


def test_what_is_closed_refuses(shop: Path) -> None:
    connection = dbapi.connect(shop)
    cursor, other = connection.cursor(), connection.execute("SELECT COUNT(*) FROM visits")
    with cursor:
        pass
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT COUNT(*) FROM visits")
    cursor.close()
    connection.close()
    connection.close()
    assert connection.closed
    uses = [other.fetchone, connection.cursor, connection.commit, connection.rollback, lambda: connection.remaining]
    for use in uses:
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()
    assert charges(shop) == 1


def test_scrolling_beyond_the_rows_leaves_the_cursor_where_it_is(connection: dbapi.Connection) -> None:
    cursor = connection.execute(BY_TOWN)
    for value, mode in ((4, "relative"), (-1, "absolute")):
        with pytest.raises(IndexError):
            cursor.scroll(value, mode)
    with pytest.raises(dbapi.ProgrammingError):
        cursor.scroll(0, "sideways")
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetchmany(-1)
    assert cursor.rownumber == 0


def test_a_session_and_a_catalog_in_python(shop: Path) -> None:
    catalog = dp.Catalog.from_yaml(CATALOG)
    names = {"visits": "csv", "people": "parquet", "items": "parquet", "towns": "csv"}
    sources = {name: str(shop.parent / f"{name}.{suffix}") for name, suffix in names.items()}
    with dp.connect(catalog, sources, ledger=shop.with_suffix(".ledger")) as session:
        with dbapi.connect(session, epsilon=1) as connection:
            connection.execute("SELECT COUNT(*) FROM visits")
        assert session.remaining.epsilon == 3
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1, fresh=True)
        with pytest.raises(dbapi.InterfaceError, match="leave them out"):
            dbapi.connect(session, ledger="x")
    with dbapi.connect(catalog, sources, ledger=shop.with_suffix(".ledger")) as connection:
        assert connection.remaining.epsilon == 2
    with pytest.raises(dbapi.InterfaceError, match="name its ledger"):
        dbapi.connect(catalog, sources)
    with pytest.raises(dbapi.OperationalError, match="no source"):
        dbapi.connect(catalog, ledger=shop.with_suffix(".ledger"))


def test_sources_are_given_or_lie_beside_the_catalog(shop: Path) -> None:
    (shop.parent / "towns.csv").unlink()
    with pytest.raises(dbapi.OperationalError, match=r"table towns has no data.*sources=\{'towns': PATH\}"):
        dbapi.connect(shop)
    towns = pd.DataFrame({"town": ["east"], "size": [1]})
    dbapi.connect(shop, {"towns": towns}).close()
    with pytest.raises(dbapi.OperationalError, match="not a declared table"):
        dbapi.connect(shop, {"towns": towns, "other": towns})


def test_what_cannot_be_opened_is_told(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(dbapi.OperationalError, match=r"none\.yaml"):
        dbapi.connect(tmp_path / "none.yaml")
    with pytest.raises(dbapi.OperationalError, match=r"none\.ledger"):
        dbapi.connect(shop, ledger=tmp_path / "none.ledger")
    shop.write_text(CATALOG.replace("tables:", "analysts: {ann: {epsilon: 1}, bob: {epsilon: 1}}\ntables:"))
    with pytest.raises(dbapi.ProgrammingError, match="Say who asks with analyst="):
        dbapi.connect(shop)


def test_threads_share_a_connection(shop: Path, connection: dbapi.Connection) -> None:
    found: list[object] = []

    def ask() -> None:
        found.append(connection.execute("SELECT COUNT(*) FROM visits", epsilon="0.5", fresh=True).fetchall()[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), charges(shop), connection.remaining.epsilon) == (8, 8, 0)


def test_the_same_query_again_is_the_stored_answer(shop: Path, connection: dbapi.Connection) -> None:
    first = connection.execute(BY_TOWN).fetchall()
    assert connection.execute(BY_TOWN).fetchall() == first
    assert charges(shop) == 1
    connection.execute(BY_TOWN, fresh=True)
    assert charges(shop) == 2


def test_constructors_of_values() -> None:
    assert dbapi.Timestamp(2020, 1, 2, 3) == datetime.datetime(2020, 1, 2, 3)
    assert dbapi.Time(1, 2) == datetime.time(1, 2) and dbapi.Binary(b"x") == b"x"
    now = 1_600_000_000.0
    made = dbapi.TimestampFromTicks(now)
    assert (dbapi.DateFromTicks(now), dbapi.TimeFromTicks(now)) == (made.date(), made.time())


# pandas 3 tests SQLAlchemy only. Until it takes any connection of DB-API without a warning.
@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_pandas_reads_from_a_connection(
    shop: Path, connection: dbapi.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    frame = pd.read_sql(f"{BY_TOWN} HAVING COUNT(*) > :least", connection, params={"least": 500})  # type: ignore[call-overload]
    assert frame.to_dict("list") == {"town": ["west"], "n": [800], "mean": [20.0]}
    assert charges(shop) == 1
