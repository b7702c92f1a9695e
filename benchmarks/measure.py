"""Timing: private and plain in turn, in one process, and the median of their ratios."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

import dpquery as dp
from benchmarks.cases import CASES, Case
from benchmarks.visits import catalog, visits

Work = Callable[[], object]


def alternate(
    first: Work, second: Work, runs: int, *, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Returns the median milliseconds of both, and the median ratio first / second, over runs taken in turn.

    Args:
        clock: Seconds, of the wall or of this process on all processors.
    """
    first(), second()
    times = [(_milliseconds(first, clock), _milliseconds(second, clock)) for _ in range(runs)]
    return {
        "private_ms": statistics.median(a for a, _ in times),
        "plain_ms": statistics.median(b for _, b in times),
        "ratio": statistics.median(a / b for a, b in times),
    }


def _milliseconds(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return (clock() - start) * 1000


def bytes_read(work: Work) -> int:
    """Returns how many bytes this process reads of files, in memory or not, while it works (Linux)."""
    before = _read_so_far()
    work()
    return _read_so_far() - before


def _read_so_far() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


def session(data: object, folder: str, *, unit_is_row: bool, reuse: bool = False) -> dp.Session:
    """Returns a session over a visits table, with a new ledger in the folder."""
    declared = catalog(unit_is_row=unit_is_row)
    path = Path(folder) / f"{'row' if unit_is_row else 'user'}-{time.monotonic_ns()}.ledger"
    ledger = dp.Ledger.create(path, declared.declarations, declared.budget, declared.analysts)
    return dp.connect(declared, {"visits": data}, ledger=ledger, reuse=reuse)


def plain_engine(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Returns plain DuckDB over the same table."""
    engine = duckdb.connect()
    engine.execute("SET enable_progress_bar = false")
    engine.register("visits", table)
    return engine


def compare(case: Case, table: pa.Table, runs: int) -> dict[str, float]:
    """Returns the timing of one case over an Arrow table of plain text columns."""
    engine = plain_engine(table)
    with tempfile.TemporaryDirectory() as folder:
        private = session(table, folder, unit_is_row=case.unit_is_row)
        return alternate(
            lambda: private.sql(case.private).to_arrow(), lambda: engine.sql(case.plain).to_arrow_table(), runs
        )


def peak_memory(which: str, name: str, rows: int) -> float:
    """Returns the peak resident megabytes of a fresh process that holds the table and answers a case once."""
    text = f"from benchmarks.measure import report_memory; report_memory({which!r}, {name!r}, {rows})"
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return float(json.loads(made.stdout))


def report_memory(which: str, name: str, rows: int) -> None:
    """Prints the peak resident memory of this process while it answers a case, its table included."""
    case = next(case for case in CASES if case.name == name)
    table = visits(rows)
    pa.default_memory_pool().release_unused()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the table
    if which == "plain":
        plain_engine(table).sql(case.plain).to_arrow_table()
    else:
        with tempfile.TemporaryDirectory() as folder:
            session(table, folder, unit_is_row=case.unit_is_row).sql(case.private).to_arrow()
    print(json.dumps(_peak()))


def _peak() -> float:
    """Returns the peak resident megabytes since the peak was last forgotten (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
