"""How long short statements wait beside long ones, with one engine and with more: `python -m benchmarks.workers 1 2`.

Thirty clients ask what dashboards ask, while three ask long questions over three million prepared rows without end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as parquet

import dpquery as dp
from benchmarks.server import PASSWORD, served
from benchmarks.soak import shown
from dpquery.frontends.postgres.login.users import Users

CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 100000}
defaults: {epsilon: 0.1}
tables:
  sales:
    unit: customer
    max_rows: 64
    columns:
      customer: {type: int64}
      product: {type: int64, lower: 0, upper: 4999}
      region: {type: text, keys: [east, north, south, west]}
      amount: {type: float64, lower: 0, upper: 500}
"""
ROWS, CLIENTS, LONG_CLIENTS = 3_000_000, 30, 3
LONG = "SELECT product, COUNT(*) AS n, COUNT(DISTINCT customer) AS c, AVG(amount) AS a FROM sales WHERE amount > {} "
CHART = "SELECT region, COUNT(*) AS n, AVG(amount) AS a FROM sales GROUP BY region"
KINDS = {"SELECT 1": 1.0, "stored chart": 0.3, "fresh question to the catalogs": 0.05}
"""What the short clients ask, and how often in a round."""
Times = dict[str, list[float]]


def make(folder: Path) -> None:
    """Writes the data, prepared, the ledger and the users."""
    draw = np.random.default_rng(1)
    (folder / "shop.yaml").write_text(CATALOG)
    regions = pa.DictionaryArray.from_arrays(draw.integers(0, 4, ROWS), ["east", "north", "south", "west"])
    columns = {"customer": draw.integers(0, ROWS // 10, ROWS), "product": draw.integers(0, 5_000, ROWS)}
    table = pa.table({**columns, "region": regions.cast(pa.string()), "amount": draw.uniform(0, 500, ROWS)})
    parquet.write_table(table, folder / "sales.parquet")
    with contextlib.closing(dp.create_ledger(folder / "shop.yaml", folder / "shop.ledger")) as ledger:
        dp.prepare(folder / "shop.yaml", {"sales": folder / "sales.parquet"}, folder / "data", ledger=ledger)
    users = Users.create(folder / "users.db")
    for name in ("reader", "miner"):
        users.add(name, PASSWORD, analyst="analyst")


async def short(url: str, times: Times, done: threading.Event) -> None:
    """One client of a dashboard."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as client:
        while not done.is_set():
            for kind, share in KINDS.items():
                if random.random() < share:
                    text = {"SELECT 1": "SELECT 1", "stored chart": CHART}.get(kind)
                    begun = time.perf_counter()
                    try:
                        await client.execute((text or f"SELECT {random.random()}, count(*) FROM pg_class").encode())
                    except psycopg.errors.QueryCanceled:  # a statement over the catalogs has five seconds
                        kind = "too late"
                    times[kind].append((time.perf_counter() - begun) * 1000)
            await asyncio.sleep(random.uniform(0.1, 0.5))


def long(url: str, times: Times, done: threading.Event, which: int) -> None:
    """One client whose questions take long, each another one."""
    with psycopg.connect(url.replace("user=reader", "user=miner"), autocommit=True) as client:
        for number in itertools.count():
            if done.is_set():
                return
            begun = time.perf_counter()
            client.execute(f"{LONG.format(f'{which}.{number}')} GROUP BY product ORDER BY n DESC LIMIT 10")
            times["long question"].append((time.perf_counter() - begun) * 1000)


def waits(folder: Path, workers: int, seconds: float) -> Times:
    """Returns the milliseconds of each kind of statement, with so many engines."""
    times, done = defaultdict[str, list[float]](list), threading.Event()
    options = ("--workers", str(workers), "--source", str(folder / "data"))
    with served(folder, None, "shop.yaml", *options) as (url, _):
        with psycopg.connect(url, autocommit=True) as client:
            client.execute(CHART)
        asking = [threading.Thread(target=long, args=(url, times, done, which)) for which in range(LONG_CLIENTS)]
        for thread in asking:
            thread.start()

        async def all_of_them() -> None:
            asyncio.get_running_loop().call_later(seconds, done.set)
            await asyncio.gather(*(short(url, times, done) for _ in range(CLIENTS)))

        try:
            asyncio.run(all_of_them())
        finally:
            done.set()
            for thread in asking:
                thread.join()
    return times


def main(counts: list[int], seconds: float = 60.0) -> None:
    """Prints the waits for each number of engines."""
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        for workers in counts or [1, 2]:
            times = waits(Path(name), workers, seconds)
            print(f"{workers} engines; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            for kind in (*KINDS, "too late", "long question"):
                print(f"  {kind:32} {shown(times[kind])}", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
