"""Queries that are cancelled: before the charge nothing is charged, after it the charge stands."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.cancelling import Cancellation, cancellable, interruptible
from dpquery.errors import QueryCancelledError
from dpquery.kernel.release import ExactAggregates
from tests.waiting import PATIENCE, wait_until

CATALOG = """\
version: 2
dataset: clinic
privacy_unit: patient
budget: {epsilon: 10}
analysts: {alice: {epsilon: 4}, bob: {epsilon: 2}}
tables:
  visits:
    unit: id
    max_rows: 8
    columns: {id: {type: int64}, age: {type: int64, lower: 0, upper: 100}}
"""


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    catalog = dp.Catalog.from_yaml(CATALOG)
    ledger = dp.create_ledger(catalog, tmp_path / "clinic.ledger")
    data = {"visits": pd.DataFrame({"id": range(10), "age": range(10)})}
    return dp.connect(catalog, data, ledger=ledger, analyst="alice")


def test_what_is_cancelled_before_it_is_charged_is_not_charged(session: dp.Session) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellable(cancellation), pytest.raises(QueryCancelledError):
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert session.remaining == dp.PrivacyLoss(epsilon=Fraction(4))
    session.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert session.remaining == dp.PrivacyLoss(epsilon=Fraction(3))


def test_what_is_cancelled_after_its_charge_stays_charged(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    cancellation = Cancellation()
    run = DuckDBBackend.run

    def cancelled(self: DuckDBBackend, statement: Any, key: int) -> ExactAggregates:
        cancellation.cancel()
        return run(self, statement, key)

    monkeypatch.setattr(DuckDBBackend, "run", cancelled)
    with cancellable(cancellation), pytest.raises(dp.DPQueryError):
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert session.remaining == dp.PrivacyLoss(epsilon=Fraction(3))


def test_a_running_statement_is_interrupted() -> None:
    cancellation = Cancellation()
    cursor = duckdb.connect(":memory:")
    threading.Timer(0.2, cancellation.cancel).start()
    with (
        pytest.raises(duckdb.InterruptException),
        cancellable(cancellation),
        interruptible(cursor.interrupt),
    ):
        cursor.execute("SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)").fetchall()
    assert cancellation.is_cancelled
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_what_the_engine_says_of_ctrl_c_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible(lambda: None):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), interruptible(lambda: None):
        raise RuntimeError("another")


def test_a_statement_whose_connection_is_closed_stops_no_other() -> None:
    cancellation, interrupted = Cancellation(), threading.Event()
    cursor = duckdb.connect(":memory:")
    cursor.close()
    with cancellation.running(cursor.interrupt), cancellation.running(interrupted.set):
        cancellation.cancel()
        assert interrupted.wait(PATIENCE)
        wait_until(lambda: len(cancellation._running) == 1)


def test_nothing_happens_to_others() -> None:
    called: list[int] = []
    with interruptible(lambda: called.append(1)):
        Cancellation().cancel()
    assert not called


def test_sessions_of_several_analysts_share_data_and_ledger(session: dp.Session) -> None:
    other = session.for_analyst("bob")
    assert other.analyst == "bob"
    other.sql("SELECT COUNT(*) FROM visits", epsilon=1)
    assert other.remaining == dp.PrivacyLoss(epsilon=Fraction(1))
    assert session.remaining == dp.PrivacyLoss(epsilon=Fraction(4))
    with pytest.raises(dp.QueryError):
        session.for_analyst("mallory")
