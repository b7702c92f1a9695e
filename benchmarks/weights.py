"""User-level queries over large tables beside the plain one-level query, and the time of making the weights.

Usage: python -m benchmarks.weights [ROWS ...]     (default: 1000000 10000000)
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import pyarrow as pa

from benchmarks.cases import CASES
from benchmarks.measure import compare, session
from benchmarks.visits import visits

MAKING = 2000.0
"""Milliseconds of making the weights of 1e7 rows; the aim."""
WEIGHED = [case for case in CASES if not case.unit_is_row]
RUNS = 5


def making(table: pa.Table) -> float:
    """Returns the median milliseconds of making the weights: what the first answer of a session takes more than later
    ones to the same query."""
    sql, more = "SELECT COUNT(*) AS n FROM visits", []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            with session(table, folder, unit_is_row=False) as opened:
                opened.explain(sql)
                times = []
                for _ in range(4):
                    start = time.perf_counter()
                    opened.sql(sql).to_arrow()
                    times.append((time.perf_counter() - start) * 1000)
            more.append(times[0] - statistics.median(times[1:]))
    return statistics.median(more)


def making_weights(rows: int) -> dict[str, dict[str, float]]:
    """Returns how long the weights of so many rows take; the aim is that of 1e7 rows, in proportion."""
    return {f"making the weights of {rows:,} rows": {"private_ms": making(visits(rows)), "aim": MAKING * rows / 1e7}}


def main(sizes: list[int]) -> None:
    """Prints both for each size."""
    for rows in sizes:
        table = visits(rows)
        for case in WEIGHED:
            made = compare(case, table, runs=15 if rows <= 10**6 else 7)
            told = f"{made['private_ms']:9.1f} ms, plain {made['plain_ms']:9.1f} ms, x{made['ratio']:.2f}"
            print(f"{case.name:34} {rows:>12,} rows {told} (aim {case.limit})", flush=True)
        for name, row in making_weights(rows).items():
            print(f"{name}: {row['private_ms']:.0f} ms (aim {row['aim']:.0f})", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10**6, 10**7])
