"""What takes longer than its time limit is interrupted, once, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from dpquery.backends.duckdb.time_limits import TimeLimitWatch, time_limit
from tests.forking import FORK
from tests.waiting import PATIENCE, wait_until


def test_what_takes_too_long_is_interrupted_once() -> None:
    watch, interrupted = TimeLimitWatch(), list[str]()
    with watch.over(lambda: interrupted.append("long"), 60.0):
        with watch.over(lambda: interrupted.append("short"), 0.02):
            wait_until(lambda: interrupted)
        assert interrupted == ["short"]
    assert interrupted == ["short"]


def test_what_ends_in_time_is_left_alone() -> None:
    watch, interrupted = TimeLimitWatch(), list[int]()
    for _ in range(1000):
        with watch.over(lambda: interrupted.append(1), 3600.0):
            pass
    with watch._changed:
        watch._ring(time.monotonic() + 7200)  # as if the time had come
    assert interrupted == [] == list(watch._alarms)


def test_one_thread_watches_over_all_and_ends() -> None:
    watch, before = TimeLimitWatch(), threading.active_count()
    for _ in range(100):
        with watch.over(lambda: None, 0.05):
            pass
    assert threading.active_count() <= before + 1
    wait_until(lambda: watch._thread is None)
    interrupted = threading.Event()
    with watch.over(interrupted.set, 0.02):
        assert interrupted.wait(PATIENCE)


def test_an_interruption_that_fails_stops_no_other() -> None:
    watch, interrupted = TimeLimitWatch(), threading.Event()
    with watch.over(lambda: 1 / 0, 0.01), watch.over(interrupted.set, 0.05):
        assert interrupted.wait(PATIENCE)


@FORK
def test_a_forked_child_has_a_watch_of_its_own() -> None:
    with time_limit(lambda: None, 60.0):
        child = os.fork()
        if not child:
            interrupted = threading.Event()
            with time_limit(interrupted.set, 0.02):
                os._exit(0 if interrupted.wait(PATIENCE) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_script_that_ends_with_an_open_session_ends_in_silence(tmp_path: Path) -> None:
    """Nothing keeps the engine alive beyond the interpreter, which would be told on the standard error."""
    script = (
        "import pandas as pd, dpquery as dp, sys\n"
        "columns = {'id': {'type': 'int64'}, 'age': {'type': 'int64', 'lower': 0, 'upper': 9}}\n"
        "catalog = dp.Catalog(dataset='d', privacy_unit='person', budget={'epsilon': 2},\n"
        "                     tables={'t': {'unit': 'id', 'max_rows': 8, 'columns': columns}})\n"
        "ledger = dp.create_ledger(catalog, sys.argv[1])\n"
        "session = dp.connect(catalog, {'t': pd.DataFrame({'id': range(9), 'age': range(9)})}, ledger=ledger)\n"
        "print(session.sql('SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM t', epsilon=1))\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "d.ledger")], capture_output=True, text=True, check=True
    )
    assert "charged epsilon 1" in made.stdout and made.stderr == ""
