"""`make bench`: measures, writes benchmarks/results.json and docs/benchmarks.md, prints the table.

Usage: python -m benchmarks [ROWS ...] [--only PART ...]     (default: 100000 1000000 10000000 rows; all parts)

With `--only` the rows of other parts stay as they were measured before. Each row keeps the load of the machine, the
average of a minute before its part began or when it ended: ratios of one run bear a loaded machine, times do not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from benchmarks.cases import CASES, MANY_GROUPS
from benchmarks.coverage import CELL, CHOICE, FEW, LEAST_DRAWS, TIMES, chosen, coverage, table_of_chosen
from benchmarks.coverage import table as coverage_table
from benchmarks.frames import COPIED, OVERHEAD, copied, overheads
from benchmarks.hospital import hospital_errors
from benchmarks.measure import alternate, compare, peak_memory, plain_engine, session
from benchmarks.movielens_like import movielens_like
from benchmarks.planning import AIM, milliseconds
from benchmarks.prepared import PREPARED, over_prepared
from benchmarks.prepared import table as prepared_table
from benchmarks.quantiles import rank_errors, together_errors
from benchmarks.server import server_times
from benchmarks.shop import shop_errors
from benchmarks.splits import split_errors
from benchmarks.stages import STAGE, stages
from benchmarks.stages import table as stages_table
from benchmarks.stored import stored_answers
from benchmarks.utility import table as utility_table
from benchmarks.utility import utility
from benchmarks.visits import visits
from benchmarks.weights import making_weights
from benchmarks.workloads import workload_errors
from dpquery import Session
from dpquery.kernel import samplers

ROOT = Path(__file__).parent.parent
RESULTS, REPORT = ROOT / "benchmarks" / "results.json", ROOT / "docs" / "benchmarks.md"
Results = dict[str, dict[str, float]]


def main(sizes: list[int], parts: list[str]) -> None:
    """Runs these parts, all others where there are none named, and writes the report."""
    known = json.loads(RESULTS.read_text()) if parts else {}
    for part in parts or list(PARTS):
        before, rows = os.getloadavg()[0], PARTS[part](sizes)
        load = round(max(before, os.getloadavg()[0]), 1)
        made = {name: row | {"load": load} for name, row in rows.items()}
        known |= made
        print(*(f"{name}: {row}" for name, row in made.items()), sep="\n", flush=True)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        REPORT.write_text(_markdown(known))
    print(REPORT.read_text())


def _cases(sizes: list[int]) -> Results:
    """Private and plain queries over tables of these sizes."""
    results: Results = {}
    for rows in sizes:
        table = visits(rows)
        for case in CASES:
            made = compare(case, table, runs=61 if rows <= 10**5 else 15 if rows <= 10**6 else 7)
            results[f"{case.name}, {rows:,} rows"] = made | ({"aim": case.limit} if case.limit else {})
            print(f"{case.name:34} {rows:>12,} rows  {made['private_ms']:9.1f} ms  x{made['ratio']:.2f}", flush=True)
    return results


def _prepared(sizes: list[int]) -> Results:
    """Questions over prepared data; smaller tables are all fixed cost."""
    return {name: row for rows in sizes if rows >= 10**6 for name, row in over_prepared(rows).items()}


def _small() -> Results:
    """How long a fresh query over a table of 100 rows takes, and beyond the plain one, its ledger in memory and on the
    disk: asked before, so that its plan is kept, in a new text, and as another question, which is a new statement for
    the engine too."""
    query = "SELECT region, COUNT(*) AS n, AVG(amount) AS mean FROM visits GROUP BY region"
    table, asked = visits(100), itertools.count()
    engine = plain_engine(table)
    found: Results = {}

    def other() -> str:
        return query.replace(" GROUP", f" WHERE amount >= {next(asked) / 1000} GROUP")

    def beyond(private: Session, name: str, aim: float, text: Callable[[], str], plain: Callable[[], str]) -> None:
        made = alternate(lambda: private.sql(text()).to_arrow(), lambda: engine.sql(plain()).to_arrow_table(), runs=101)
        more = made["private_ms"] - made["plain_ms"]
        if name == "asked again, ledger on the disk":
            found["small table, planning + noise + ledger"] = {"private_ms": made["private_ms"], "aim": 15.0}
        found[f"small table, {name} (ms beyond plain)"] = made | {"private_ms": more, "aim": aim}

    for place, where, aim in (("/dev/shm", "in memory", 3.0), (None, "on the disk", 5.0)):
        with tempfile.TemporaryDirectory(dir=place) as folder:
            private = session(table, folder, unit_is_row=False)
            beyond(private, f"asked again, ledger {where}", aim, lambda: query, lambda: query)
            beyond(private, f"in a new text, ledger {where}", aim, lambda: f"{query} -- {next(asked)}", lambda: query)
            beyond(private, f"another question, ledger {where}", aim, other, other)
    return found


def _frames(rows: int) -> Results:
    """`df.dp` beside `Session.sql`, and the memory that protecting a frame takes."""
    found = {
        f"df.dp beyond the answer and its intervals, {name} (ms of its thread)": {"private_ms": more, "aim": OVERHEAD}
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


PARTS: dict[str, Callable[[list[int]], Results]] = {
    "cases": _cases,
    "prepared": _prepared,
    "weights": lambda sizes: making_weights(max(sizes)),
    "frames": lambda sizes: _frames(max(sizes)),
    "small": lambda _: _small(),
    "planning": lambda _: _planning(),
    "stages": lambda _: stages(),
    "stored": lambda _: stored_answers(),
    "server": lambda _: server_times(),
    "groups": lambda _: _many_groups(),
    "noise": lambda _: _noise(),
    "memory": lambda sizes: _memory(max(sizes)),
    "ranks": lambda _: rank_errors() | together_errors(),
    "splits": lambda _: split_errors(),
    "shop": lambda _: shop_errors(),
    "ratings": lambda _: movielens_like(),
    "hospital": lambda _: hospital_errors(),
    "utility": lambda _: utility(),
    "coverage": lambda _: coverage() | chosen(),
    "workloads": lambda _: workload_errors(),
}


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
        "Over 100,000 rows the fixed cost shows: about 3 ms, most of it the durable charge, which syncs the disk",
        "twice; with 50,000 groups also the noise of every group, rows or none. Plain queries take 2 to 13 ms there.",
        "A grand total in floating point is little work beside clamping each value and adding integers, which a sum",
        "needs that no single row may move by more than its bound.",
        "The rows of errors compare root mean square errors of the planner's split of epsilon 1 with two other rules:",
        "a ratio of 0.5 is half their error.",
        "The rows of the server are `dpquery serve` over the demo's study, asked by psycopg, round trip included.",
        "The rows of the shop, the hospital and the ratings are errors against all rows, noise and weights together,",
        "at the bound that a profile suggests, whose price is part of the epsilon.",
        "The rows of ranks compare medians at epsilon 1 with the textbook's exponential mechanism in floating point.",
        "The load is how many processes wanted the two cores, over a minute before a part or at its end: beyond 2,",
        "times are too long, and ratios of one run still compare. Rows without it are older than its note.",
        "[Beside other libraries](peers.md) has errors and times of others over the same data.",
        "",
        "| what | private | plain | ratio | aim | load |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in results.items():
        if name.startswith((CELL, CHOICE, STAGE, PREPARED)) or "best" in row:
            continue
        cells = [f"{row[key]:.3g}" if key in row else "" for key in ("private_ms", "plain_ms", "ratio", "aim", "load")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return (
        "\n".join([*lines, *prepared_table(results), *stages_table(results), *_utility(results), *_coverage(results)])
        + "\n"
    )


def _utility(results: Results) -> list[str]:
    """Returns the section of ten queries beside the best known law of each."""
    rows = utility_table(results)
    if not rows:
        return []
    return [
        "",
        "## Utility",
        "",
        "Root mean square errors at epsilon 1 of ten queries on real data beside the best law that is known of each,",
        "at the exact sensitivity of the question (`python -m benchmarks --only utility`): of NAFLD's first patients,",
        "MovieLens and the flights of 2013. Of selections the numbers are airports shown of 104, at delta 1e-6, and",
        "the ratio is that of the best to ours. Each of the first seven is 16,000 draws, known within 1 % (one",
        "deviation). In bold: more than 1.05.",
        "",
        *rows,
    ]


def _coverage(results: Results) -> list[str]:
    """Returns the section of intervals: how often they hold, and how wide they are."""
    rows = coverage_table(results)
    if not rows:
        return []
    return [
        "",
        "## Intervals",
        "",
        f"How often intervals of 95 % hold, and how wide they are, of {LEAST_DRAWS:,} answers each or more: alone,",
        "over groups of 40, 200, 1,000 and 10,000 people of one row each, at epsilon 0.1, 1 and 10 and rho 0.5: 16",
        "cells for each aggregate (`python -m benchmarks --only coverage`). Of a cell that misses the second number",
        "is half the width over the distance from the exact number within which 95 % of the answers are: 1 is as",
        "narrow as can be. Where nothing that holds for all data can be as narrow, the least half width that does",
        "counts in place of that distance, and the column after says what the width is beside the answers. `range` is",
        "the part of intervals that reach an end of the range of all values, `none` the part of answers that have no",
        "interval. Of MEDIAN and MAX it is the error in ranks, whose bound holds for any values. A cell",
        "misses where, but for one in a thousand by chance, fewer than 94 % hold, or intervals are wider than 1.1",
        "and more than half of them reach no end of the range, or more than 2 % are",
        "not there. It holds for certain where the contrary is as sure; the other cells are between.",
        "",
        *rows,
        "",
        "The bound of ranks has to hold for all values, and those of most data are nearer: there are values, one of",
        "them heavy and all others so many ranks off, of which one in twenty answers is as far off as is said ([the",
        "argument](proofs/exponential.md#permute-and-flip), also for bounds that look at the answer, and what a",
        "measured one would cost). Which values there are is what a choice hides, so only other answers say more. A",
        "count with weights may be a fraction, and is shown rounded: where noise is of a third of a row, intervals",
        "that hold for each fraction have 1.24 rows to a side on average at least ([why](concepts/accuracy.md)).",
        "",
        f"Rows that were chosen for their noise, of {FEW * TIMES:,} answers each: how often intervals of counts hold",
        "each by itself and all of an answer at once (`simultaneous=True`), among groups of as many people",
        "that HAVING, LIMIT or tau show.",
        "",
        *table_of_chosen(results),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, metavar="ROWS")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=[], metavar="PART")
    given = parser.parse_args()
    main(given.sizes or [10**5, 10**6, 10**7], given.only)
