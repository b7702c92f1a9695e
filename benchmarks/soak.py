"""Fifty clients of five users over the demo's study, one of them hostile: `python -m benchmarks.soak --minutes 30`.

Reports how long the others wait for `SELECT 1`, for a fresh question to the catalogs, for a chart that was paid for,
and for their logins, how much memory the server's processes take, what the hostile user was told, and the load of the
machine. The others have a process of their own, as has the hostile user: neither waits for the other's Python. All of
it stays on the loopback; the hostile user's sockets and statements are bounded in count and size.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg

from benchmarks.server import CHART, PASSWORD, make_study, served
from dpquery.frontends.postgres.login.users import Users

PEOPLE = ("ann", "ben", "cem", "dora")
HOSTILE = "mallory"
CLIENTS = 10
"""Of each user."""
LONGEST = 250.0
"""Milliseconds of the others' `SELECT 1` at the 99th percentile."""
MOST_MEMORY = 2_500
"""Megabytes of all processes of the server: 2 GB that docs/how-to/run-the-server.md allows, and what the data need."""
SOCKETS = 400
"""Sockets that the hostile user keeps open without a login."""
LETTERS = "a" * 9_000
ATTACKS = (
    "SELECT generate_series(1, 1000000000)",
    "SELECT generate_series(1, 1000 * 1000 * 1000)",
    "SELECT array_agg(g) FROM generate_series(1, 100000) AS g",
    "SELECT array_agg(g) FROM generate_series(1, 2000) AS g, generate_series(1, 1000) AS h",
    "SELECT string_agg('abcdefghijklmnopqrst', '') FROM generate_series(1, 100000)",
    f"SELECT length(replace(replace('{LETTERS}', 'a', '{LETTERS}'), 'a', '{LETTERS}'))",
    "SELECT COUNT(x) FROM (SELECT array_agg(g) AS x FROM generate_series(1, 100000) AS g, "
    "generate_series(1, 10000)) AS y",
    "SELECT COUNT(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d",
    "SELECT a.attname, b.attname AS other FROM pg_attribute a, pg_attribute b LIMIT 100000",
    "SELECT " + ", ".join(f"{i} + {i}" for i in range(1_600)),
    "SELECT 1 IN (" + ", ".join("now()" for _ in range(2_400)) + ")",
)
KEPT = "SELECT a.*, b.attname AS other FROM pg_attribute a, pg_attribute b LIMIT 50000"


@dataclass
class Figures:
    """What the others saw."""

    asked: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    charts: list[float] = field(default_factory=list)
    logins: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    memory: int = 0
    loads: list[float] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)

    def report(self) -> str:
        """Returns lines to read."""
        lines = [
            f"SELECT 1      {shown(self.asked)}",
            f"catalogs      {shown(self.fresh)}",
            f"stored chart  {shown(self.charts)}",
            f"log in        {shown(self.logins)}",
            f"failures      {dict(self.failures) or 'none'}",
            f"memory        {self.memory} MB at most, of all processes of the server",
            f"load          {sum(self.loads) / max(1, len(self.loads)):.1f} on average, "
            f"{max(self.loads, default=0.0):.1f} at most, on {os.cpu_count()} processors",
            f"hostile       {self.told}",
        ]
        return "\n".join(lines)

    @property
    def is_good(self) -> bool:
        """Whether the others were answered in time, all of them, and the memory stayed below its limit."""
        return not self.failures and at(self.asked, 0.99) < LONGEST and self.memory < MOST_MEMORY


def at(times: list[float], share: float) -> float:
    """Returns a quantile, in milliseconds; 0 of nothing."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] if times else 0.0


def shown(times: list[float]) -> str:
    """Returns a line about milliseconds."""
    parts = ", ".join(f"p{share * 100:g} {at(times, share):.1f}" for share in (0.5, 0.9, 0.99, 0.999))
    return f"{len(times)} times: {parts}, longest {max(times, default=0.0):.1f} ms"


async def person(url: str, figures: Figures, goes_on: Callable[[int], bool], pause: float) -> None:
    """One client of one of the others: logs in, asks, waits a little, and logs in anew now and then."""
    chance, rounds = random.Random(url + str(id(figures))), 0

    async def timed(times: list[float], statement: str) -> None:
        begun = time.perf_counter()
        await client.execute(statement.encode())
        times.append((time.perf_counter() - begun) * 1000)

    while goes_on(rounds):
        try:
            begun = time.perf_counter()
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as client:
                figures.logins.append((time.perf_counter() - begun) * 1000)
                for _ in range(20):
                    if not goes_on(rounds):
                        break
                    rounds += 1
                    await timed(figures.asked, "SELECT 1")
                    await asyncio.sleep(pause * chance.uniform(0.5, 1.5))
                    if chance.random() < 0.1:
                        await timed(figures.charts, CHART.format(age=18, days=0))
                    if chance.random() < 0.01:
                        await timed(figures.fresh, f"SELECT {chance.random()} AS fresh, count(*) FROM pg_class")
        except psycopg.Error as error:
            figures.failures[f"{error.sqlstate}: {str(error).strip()[:80]}"] += 1
            rounds += 1
            await asyncio.sleep(0.1)


def people(urls: str, seconds: float, rounds: int) -> None:
    """All clients of the others, in a process of their own, for some time or some rounds; prints what they saw."""
    figures, end = Figures(), time.monotonic() + seconds

    def goes_on(done: int) -> bool:
        return done < rounds if rounds else time.monotonic() < end

    async def all_of_them() -> None:
        await asyncio.gather(*(person(url, figures, goes_on, 0.3) for url in json.loads(urls) for _ in range(CLIENTS)))

    asyncio.run(all_of_them())
    print(json.dumps(asdict(figures)), flush=True)


def attack(url: str, told: Counter[str], done: threading.Event, which: int) -> None:
    """One client of the hostile user: each attack in turn, or results that it keeps."""
    while not done.is_set():
        try:
            with psycopg.connect(url) as client:
                for round in range(20):
                    if done.is_set():
                        return
                    try:
                        if which % 3 == 0:
                            client.execute(f"DECLARE kept{round} CURSOR WITH HOLD FOR {KEPT}")
                        else:
                            client.execute(ATTACKS[(which + round) % len(ATTACKS)]).fetchall()
                        told["answered"] += 1
                        client.commit()
                    except psycopg.Error as error:
                        told[error.sqlstate or "gone"] += 1
                        client.rollback()
        except psycopg.Error as error:
            told[f"login {error.sqlstate or 'gone'}"] += 1
            done.wait(0.05)


def flood(port: int, told: Counter[str], done: threading.Event, rate: float) -> None:
    """Opens sockets without a word, and a few that guess; keeps so many of them open."""
    kept: deque[socket.socket] = deque()
    while not done.wait(1 / rate):
        with contextlib.suppress(OSError):
            kept.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            told["silent sockets"] += 1
        while len(kept) > SOCKETS:
            kept.popleft().close()
    for one in kept:
        one.close()


def hostile(url: str, port: int, rate: float) -> None:
    """The hostile user, in a process of its own, until its input ends; prints what it was told."""
    told: Counter[str] = Counter()
    done = threading.Event()
    threads = [threading.Thread(target=attack, args=(url, told, done, which)) for which in range(CLIENTS)]
    threads.append(threading.Thread(target=flood, args=(port, told, done, rate)))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join(30)
    print(json.dumps(dict(told)), flush=True)
    os._exit(0)


def started(function: str, *given: object) -> subprocess.Popen[str]:
    """Starts a function of this module in a process of its own."""
    command = [sys.executable, "-c", "import json, sys; from benchmarks import soak; "]
    command[-1] += f"soak.{function}(*json.loads(sys.argv[1]))"
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, json.dumps(given)], stdin=pipe, stdout=pipe, text=True)


@contextlib.contextmanager
def besieged(url: str, port: int, figures: Figures, rate: float) -> Iterator[None]:
    """Runs the hostile user's process meanwhile."""
    process = started("hostile", url, port, rate)
    try:
        yield
    finally:
        try:
            written, _ = process.communicate("", timeout=90)
            figures.told = json.loads(written)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def descendants(root: int) -> list[int]:
    """Returns a process and all that it has started."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(name))
    found, left = [], [root]
    while left:
        found.append(left.pop())
        left += parents.get(found[-1], [])
    return found


def memory(root: int) -> int:
    """Returns the megabytes of a process and all that it has started; what they share counts once."""
    total = 0
    for process in descendants(root):
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total >> 10


def watch(root: int, figures: Figures, others: subprocess.Popen[str]) -> None:
    """Looks at memory and load until the others are done; then takes down what they saw."""
    seen: list[str] = []
    reading = threading.Thread(target=lambda: seen.append(others.communicate("")[0]))
    reading.start()
    while reading.is_alive():
        figures.memory = max(figures.memory, memory(root))
        figures.loads.append(os.getloadavg()[0])
        reading.join(1.0)
    found = json.loads(seen[0])
    figures.asked, figures.fresh, figures.charts = found["asked"], found["fresh"], found["charts"]
    figures.logins, figures.failures = found["logins"], Counter(found["failures"])


def soak(*, seconds: float = 0.0, rounds: int = 0, rate: float = 300.0) -> Figures:
    """Returns what the others saw, over some time or some statements of each client."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_study(folder)
        users = Users(folder / "users.db")
        for user in (*PEOPLE, HOSTILE):
            users.add(user, PASSWORD, analyst="reader")
        with served(folder) as (url, root):
            port = int(dict(part.split("=", 1) for part in url.split() if "=" in part)["port"])

            def named(user: str) -> str:
                return url.replace("user=reader", f"user={user}")

            with besieged(named(HOSTILE), port, figures, rate):
                watch(root, figures, started("people", json.dumps([named(user) for user in PEOPLE]), seconds, rounds))
    return figures


def main() -> int:
    """Runs it from the command line; 0 where all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--sockets", type=float, default=300.0, help="silent sockets a second")
    given = parser.parse_args()
    figures = soak(seconds=given.minutes * 60, rate=given.sockets)
    print(figures.report())
    return 0 if figures.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
