"""How fast `dpquery serve` answers over the demo's study: `python -m benchmarks.server`, and part of `make bench`.

The study is the demo's, its budget is not: a fresh chart is charged for each time.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

import dpquery as dp
from dpquery.frontends.cli import demo_files
from dpquery.frontends.postgres.login.users import Users

PASSWORD = "correct horse"
CHART = "SELECT sex, COUNT(*) AS n, AVG(bmi) AS bmi FROM patients WHERE age >= {age} AND futime > {days} GROUP BY sex"
MANY = """SELECT age, month, n + more AS n
FROM (SELECT age, futime / 10 AS month, COUNT(*) AS n FROM patients GROUP BY age, futime / 10) AS counted
    CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8)) AS numbers(more)
LIMIT 500000"""
CLIENTS = 50
Figures = dict[str, dict[str, float]]


def make_study(folder: Path) -> None:
    """Writes the demo's tables with budgets that last, the ledger and a user."""
    demo_files.prepare(folder)
    path = folder / demo_files.CATALOG
    for made in folder.glob(f"{demo_files.LEDGER}*"):
        made.unlink()
    path.write_text(re.sub(r"epsilon: [34], delta: \S+?}", "epsilon: 40000, delta: 1e-4}", path.read_text()))
    dp.create_ledger(path, folder / demo_files.LEDGER).close()
    Users.create(folder / "users.db").add("reader", PASSWORD)


@contextlib.contextmanager
def served(
    folder: Path, root: Path | None = None, catalog: str = demo_files.CATALOG, *options: str
) -> Iterator[tuple[str, int]]:
    """Serves a folder that `make_study` made; gives what a client connects with, and the server's process.

    Args:
        root: Where the package is that serves, by default here.
        catalog: The catalog's file in the folder.
        options: Further ones of the command.
    """
    command = [sys.executable, "-m", "dpquery", "serve", str(folder / catalog)]
    command += ["--users", str(folder / "users.db"), "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=root or Path(__file__).parent.parent)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"answers for (\w+) on 127\.0\.0\.1:(\d+)", line):
            break
    else:
        raise RuntimeError("".join(said))
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    rest.start()
    try:
        url = f"host=127.0.0.1 port={found[2]} user=reader dbname={found[1]} password='{PASSWORD}'"
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        rest.join(10)
        process.stderr.close()


def works(url: str, client: psycopg.Connection) -> dict[str, Callable[[], object]]:
    """Returns what is measured, by name; each is done once by each call."""
    fresh = ((age, days) for days in itertools.count(30) for age in range(19, 60))
    made = CHART.format(age=18, days=0)
    for _ in range(2):
        client.execute(made).fetchall()
    return {
        "connect": lambda: psycopg.connect(url, autocommit=True).close(),
        "SELECT 1": lambda: client.execute("SELECT 1").fetchall(),
        "SELECT 1, described and in binary": lambda: client.execute("SELECT 1", prepare=False, binary=True).fetchall(),
        "a stored chart": lambda: client.execute(made).fetchall(),
        "a stored chart, described and in binary": lambda: client.execute(made, prepare=False, binary=True).fetchall(),
        "a fresh chart": lambda: client.execute(_next(fresh)).fetchall(),
    }


def _next(fresh: Iterator[tuple[int, int]]) -> str:
    age, days = next(fresh)
    return CHART.format(age=age, days=days)


AIMS = {"connect": 15.0, "SELECT 1": 3.0, "a stored chart": 10.0, "a fresh chart": 60.0}
"""Milliseconds."""


def server_times(runs: int = 101) -> Figures:
    """Returns the milliseconds of each kind of statement, as `benchmarks.__main__` reports them."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        make_study(Path(name))
        with served(Path(name)) as (url, _), psycopg.connect(url, autocommit=True) as client:
            for what, work in works(url, client).items():
                times = milliseconds(work, runs)
                found[f"server: {what}"] = {
                    "private_ms": statistics.median(times),
                    "aim": AIMS[what.partition(",")[0]],
                }
                print(f"{what:40} {shown(times)}", flush=True)
            client.execute(MANY).fetchall()
            times = milliseconds(lambda: client.execute(MANY).fetchall(), 5)
            found["server: 500,000 rows of 3 columns"] = {"private_ms": statistics.median(times), "aim": 1000.0}
            print(f"{'500,000 rows of 3 columns':40} {shown(times)}", flush=True)
            took = together(url)
            found[f"server: {CLIENTS} clients connect and ask at once"] = {"private_ms": took}
            print(f"{f'{CLIENTS} clients at once':40} {took:.1f} ms in all")
    return found


def together(url: str) -> float:
    """Returns the milliseconds in which many clients connect, ask one statement each, and are answered."""
    barrier = threading.Barrier(CLIENTS)

    def ask(_: int) -> object:
        barrier.wait()
        with psycopg.connect(url, autocommit=True) as client:
            return client.execute(CHART.format(age=18, days=0)).fetchall()

    with ThreadPoolExecutor(CLIENTS) as pool:
        start = time.perf_counter()
        answers = list(pool.map(ask, range(CLIENTS)))
    took = (time.perf_counter() - start) * 1000
    if any(answer != answers[0] for answer in answers):
        raise RuntimeError("a stored answer changed")
    return took


def milliseconds(work: Callable[[], object], runs: int) -> list[float]:
    """Returns how long each run took, after two that do not count."""
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return times[2:]


def shown(times: list[float]) -> str:
    """Returns the least, the median and the 95th percentile."""
    late = sorted(times)[int(len(times) * 0.95)]
    return f"min {min(times):7.2f}  median {statistics.median(times):7.2f}  p95 {late:7.2f} ms"


if __name__ == "__main__":
    server_times()
