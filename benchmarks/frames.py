"""What `df.dp` adds to an answer with intervals: milliseconds a call, and the memory of protecting a large frame."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpquery.session.session import Session

OVERHEAD = 2.0
"""Milliseconds a call; the aim."""
COPIED = 0.2
"""By which share of a frame's numbers protecting and querying its rows may raise memory; the aim. A copy of one of the
four columns would be 0.25."""


def frame(rows: int) -> pd.DataFrame:
    """Returns a frame of four columns of numbers."""
    numbers = np.arange(rows)
    return pd.DataFrame({"who": numbers // 10, "k": numbers % 20, "x": numbers % 97 / 4, "y": (numbers * 7) % 1000})


def protected(given: pd.DataFrame) -> Any:
    """Returns the accessor of a frame, protected."""
    given.dp.protect(
        privacy_unit="row",
        bounds={"k": (0, 19), "x": (0, 25), "y": (0, 1000)},
        budget={"epsilon": 10**5},
        defaults={"epsilon": 1, "least_charge": "1e-12"},
    )
    return given.dp


CALLS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda dp: dp.mean("x"),
    "groupby and agg": lambda dp: dp.groupby("k").agg(total=("x", "sum"), n=("x", "count")),
    "query and crosstab": lambda dp: dp.query("x > 3").crosstab("k", "k2"),
    "describe": lambda dp: dp.describe("x"),
}


def overheads(runs: int = 51) -> dict[str, float]:
    """Returns for each call the median milliseconds that it spends beyond the answer, its intervals and its warnings.

    In time of the calling thread, which hardly depends on what else the machine does.
    """
    given = frame(1000).assign(k2=lambda made: made["k"] % 3)
    given.dp.protect(
        privacy_unit="who",
        max_rows=8,
        bounds={"k": (0, 19), "k2": (0, 2), "x": (0, 25)},
        budget={"epsilon": 10**5},
        defaults={"epsilon": 1, "least_charge": "1e-12"},
        dataset="overheads",
    )
    inside: list[float] = []
    answer = Session.sql

    def timed(session: Session, query: str, **asked: Any) -> Any:
        start = time.thread_time()
        try:
            made = answer(session, query, **asked)
            _ = made.accuracy, made.warnings
            return made
        finally:
            inside.append(time.thread_time() - start)

    found = {}
    Session.sql = timed  # type: ignore[assignment, method-assign]
    try:
        for name, call in CALLS.items():
            beyond = []
            for _ in range(runs):
                start = time.thread_time()
                call(given.dp)
                beyond.append((time.thread_time() - start - inside[-1]) * 1000)
            found[name] = statistics.median(beyond)
    finally:
        Session.sql = answer  # type: ignore[method-assign]
    return found


def copied(rows: int) -> tuple[float, float]:
    """Returns the megabytes of a frame's numbers, and by how many protecting it and one query raise the peak."""
    text = f"from benchmarks.frames import report; report({rows})"
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    size, more = json.loads(made.stdout)
    return float(size), float(more)


def report(rows: int) -> None:
    """Prints the megabytes of a frame, and of the peak beyond it after protecting it and a mean of all rows."""
    given = frame(rows)
    small = frame(1000)
    protected(small).mean("x")  # loads the engine
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS:")
    given.attrs.clear()
    dp = protected(given)
    dp.mean(["x", "y"])
    size = given.memory_usage(index=False).sum() / 2**20
    print(json.dumps([float(size), (_kilobytes("VmHWM:") - before) / 1024]))


def _kilobytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    print(overheads())
    print(copied(int(sys.argv[1]) if len(sys.argv) > 1 else 10**7))
