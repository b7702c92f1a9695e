"""Ctrl-C in a Python program: a statement ends at once, a charge stands, and signals are handled as before."""

from __future__ import annotations

import os
import signal
import threading
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.cancelling import Cancellation, cancellable
from dpquery.cancelling.interrupting import interruptible_work
from tests.pressing import long_statement


@pytest.fixture
def catalog() -> dp.Catalog:
    columns = {"id": {"type": "int64"}}
    return dp.Catalog(
        dataset="clinic",
        privacy_unit="patient",
        budget={"epsilon": 4},
        tables={"visits": {"unit": "id", "max_rows": 8, "columns": columns}},
    )


def opened(catalog: dp.Catalog, folder: Path) -> dp.Session:
    data = {"visits": pd.DataFrame({"id": range(10)})}
    return dp.connect(catalog, data, ledger=folder / "clinic.ledger", create=True)


def test_ctrl_c_ends_a_query_at_once_and_its_charge_stands(
    catalog: dp.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(catalog, tmp_path) as session:
        with monkeypatch.context() as patched:
            patched.setattr(DuckDBBackend, "run", long_statement)
            with pytest.raises(KeyboardInterrupt):
                session.sql("SELECT COUNT(*) FROM visits", epsilon=1)
        assert session.remaining == dp.PrivacyLoss(epsilon=Fraction(3))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and signal.set_wakeup_fd(-1) == -1
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1)


def test_ctrl_c_ends_the_opening_of_data(catalog: dp.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDBBackend, "_can_be_read", long_statement)
    with pytest.raises(KeyboardInterrupt):
        opened(catalog, tmp_path)


def test_a_program_that_handles_ctrl_c_itself_keeps_its_handler() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with interruptible_work():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_an_event_loop_keeps_the_file_that_wakes_it() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    try:
        with interruptible_work():
            inside = signal.set_wakeup_fd(write)
    finally:
        after = signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)
    assert (inside, after) == (write, write)


def test_other_threads_and_work_that_somebody_else_cancels_are_left_alone() -> None:
    handlers: list[object] = []

    def look() -> None:
        with interruptible_work():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    with cancellable(Cancellation()):
        look()
    assert handlers == [signal.default_int_handler] * 2


def test_one_thread_waits_for_all_queries_and_no_signal_stops_the_next_one(
    catalog: dp.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(catalog, tmp_path) as session:
        for number in range(3):
            with monkeypatch.context() as patched:
                patched.setattr(DuckDBBackend, "run", long_statement)
                with pytest.raises(KeyboardInterrupt):
                    session.sql(f"SELECT COUNT(*) FROM visits -- {number}", epsilon="0.1", fresh=True)
            session.sql("SELECT COUNT(*) FROM visits", epsilon="0.1", fresh=True)
    assert [thread.name for thread in threading.enumerate()].count("dpquery Ctrl-C") == 1
