"""`make bench`: measures, writes benchmarks/results.json and docs/benchmarks.md, prints the table.

Usage: python -m benchmarks [ROWS ...]     (default: 100000 1000000 10000000)
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from benchmarks.cases import CASES, MANY_GROUPS
from benchmarks.frames import COPIED, OVERHEAD, copied, overheads
from benchmarks.hospital import hospital_errors
from benchmarks.measure import alternate, compare, peak_memory, plain_engine, session
from benchmarks.movielens_like import movielens_like
from benchmarks.planning import AIM, milliseconds
from benchmarks.quantiles import rank_errors, together_errors
from benchmarks.server import server_times
from benchmarks.shop import shop_errors
from benchmarks.splits import split_errors
from benchmarks.stored import stored_answers
from benchmarks.visits import visits
from benchmarks.weights import making_weights
from dpquery.kernel import samplers

ROOT = Path(__file__).parent.parent
Results = dict[str, dict[str, float]]


def main(sizes: list[int]) -> None:
    """Runs every benchmark and writes the report."""
    results: Results = {}
    for rows in sizes:
        table = visits(rows)
        for case in CASES:
            made = compare(case, table, runs=61 if rows <= 10**5 else 15 if rows <= 10**6 else 7)
            results[f"{case.name}, {rows:,} rows"] = made | ({"aim": case.limit} if case.limit else {})
            print(f"{case.name:34} {rows:>12,} rows  {made['private_ms']:9.1f} ms  x{made['ratio']:.2f}", flush=True)
    results |= _frames(max(sizes))
    results |= (
        _small() | _planning() | stored_answers() | server_times() | _many_groups() | _noise() | _memory(max(sizes))
    )
    results |= rank_errors() | together_errors() | split_errors()
    results |= making_weights(max(sizes)) | shop_errors() | movielens_like() | hospital_errors()
    (ROOT / "benchmarks" / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(_markdown(results))
    print((ROOT / "docs" / "benchmarks.md").read_text())


def _small() -> Results:
    """Planning, noise and ledger over a table of 100 rows."""
    with tempfile.TemporaryDirectory() as folder:
        private = session(visits(100), folder, unit_is_row=False)
        query = "SELECT region, COUNT(*) AS n, AVG(amount) AS mean FROM visits GROUP BY region"
        times = _times(lambda: private.sql(query).to_arrow(), 101)
    return {"small table, planning + noise + ledger": {"private_ms": times, "aim": 15.0}}


def _frames(rows: int) -> Results:
    """`df.dp` beside `Session.sql`, and the memory that protecting a frame takes."""
    found = {
        f"df.dp beyond Session.sql, {name} (ms of its thread)": {"private_ms": more, "aim": OVERHEAD}
        for name, more in overheads().items()
    }
    size, more = copied(rows)
    found[f"memory of df.dp beside the frame, {rows:,} rows of 4 numbers (MB)"] = {
        "private_ms": more,
        "plain_ms": size,
        "ratio": more / size,
        "aim": COPIED,
    }
    return found


def _planning() -> Results:
    """`explain` of a long query; no data is read."""
    return {"planning of 100 lines with 10 CTEs": {"private_ms": milliseconds(), "aim": AIM}}


def _many_groups() -> Results:
    """Fifty thousand groups over 1e5 rows, end to end."""
    table = visits(100_000)
    engine = plain_engine(table)
    with tempfile.TemporaryDirectory() as folder:
        private = session(table, folder, unit_is_row=True)
        made = alternate(
            lambda: private.sql(MANY_GROUPS.private).to_arrow(),
            lambda: engine.sql(MANY_GROUPS.plain).to_arrow_table(),
            runs=31,
        )
    return {f"{MANY_GROUPS.name}, 100,000 rows": {**made, "aim": 100.0}}


def _noise() -> Results:
    """Microseconds a cell at a million cells; the work is the sampler's alone."""
    size, found = 1_000_000, {}
    laws = {
        "Laplace": (lambda: samplers.discrete_laplace(Fraction(1000), size), 0.1),
        "Gaussian": (lambda: samplers.discrete_gaussian(Fraction(10**6), size), 0.25),
    }
    for name, (draw, aim) in laws.items():
        found[f"{name} noise, microseconds a cell"] = {"private_ms": _times(draw, 15) * 1000 / size, "aim": aim}
    return found


def _memory(rows: int) -> Results:
    found = {}
    for case in (CASES[1], CASES[3], CASES[4]):
        private, plain = (peak_memory(which, case.name, rows) for which in ("private", "plain"))
        found[f"peak memory, {case.name}, {rows:,} rows (MB)"] = {
            "private_ms": private,
            "plain_ms": plain,
            "ratio": private / plain,
            "aim": 1.5,
        }
    return found


def _times(work: object, runs: int) -> float:
    assert callable(work)
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def _markdown(results: Results) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` on 2 shared cores. Private and plain queries run in turn, in one process, over the",
        "same Arrow table of plain text columns. Times are medians in milliseconds unless the row says otherwise,",
        "ratios are medians of the ratios of neighbouring runs. The plain query of a user-level case is the same as of",
        "a row-level one: it knows no users. The weights are made before, once for each version of the data; the row",
        "of their making is what the first answer takes longer than later ones.",
        "Private times include planning, the charge, noise and post-processing.",
        "Over 100,000 rows the fixed cost shows: about 3 ms, most of it the durable charge, which syncs the disk six",
        "times; with 50,000 groups also the noise of every group, rows or none. Plain queries take 4 to 13 ms there.",
        "A grand total in floating point is little work beside clamping each value and adding integers, which a sum",
        "needs that no single row may move by more than its bound.",
        "The rows of errors compare root mean square errors of the planner's split of epsilon 1 with two other rules:",
        "a ratio of 0.5 is half their error.",
        "The rows of the server are `dpquery serve` over the demo's study, asked by psycopg, round trip included.",
        "The rows of the shop, the hospital and the ratings are errors against all rows, noise and weights together,",
        "at the bound that a profile suggests, whose price is part of the epsilon.",
        "The rows of ranks compare medians at epsilon 1 with the textbook's exponential mechanism in floating point.",
        "",
        "| what | private | plain | ratio | aim |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, row in results.items():
        cells = [f"{row[key]:.3g}" if key in row else "" for key in ("private_ms", "plain_ms", "ratio", "aim")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10**5, 10**6, 10**7])
