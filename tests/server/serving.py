"""`dpquery serve` as its users run it: a process of its own over a small shop."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpquery as dp
from dpquery.frontends.postgres.login.users import Users
from tests.waiting import PATIENCE

PASSWORD = "correct horse"
CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 1000}
analysts: {alice: {epsilon: 500}, bob: {epsilon: 1}}
defaults: {epsilon: 0.1, max_groups: 4, max_rows: 4, least_charge: 1e-12}
tables:
  orders:
    unit: customer
    columns:
      customer: {type: int64}
      region: {type: text, keys: [east, north, south, west]}
      amount: {type: float64, lower: 0, upper: 500}
      bought: {type: date, lower: 2023-01-01, upper: 2023-12-31}
"""


def make_shop(folder: Path) -> None:
    """Makes catalog, data, ledger and users."""
    (folder / "shop.yaml").write_text(CATALOG)
    rows = np.arange(4000)
    regions = np.array(["east", "north", "south", "west"])[rows % 4]
    days = np.datetime64("2023-01-01") + rows % 365
    table = {"customer": rows // 4, "region": regions, "amount": rows % 500 * 1.0, "bought": days}
    pq.write_table(pa.table(table), folder / "orders.parquet")
    dp.create_ledger(folder / "shop.yaml", folder / "shop.ledger").close()
    users = Users.create(folder / "users.db")
    for name in ("alice", "bob"):
        users.add(name, PASSWORD)


def entries(folder: Path) -> int:
    """Returns how many charges the ledger holds, after checking all of it."""
    ledger = dp.Ledger.open(folder / "shop.ledger")
    try:
        ledger.verify()
        return len(ledger.entries())
    finally:
        ledger.close()


@dataclass
class Serving:
    """A server that runs."""

    folder: Path
    process: subprocess.Popen[str]
    port: int
    said: list[str] = field(default_factory=list)

    def url(self, user: str = "alice") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname=shop password='{PASSWORD}'"

    def engines(self) -> list[int]:
        """The processes that the server has started."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [int(word) for word in listed.stdout.split()]


@contextlib.contextmanager
def serving(folder: Path, *options: str, catalog: str = "shop.yaml") -> Iterator[Serving]:
    """Runs a server until the block ends; it has to end well by itself unless it was killed."""
    command = [sys.executable, "-m", "dpquery", "serve", str(folder / catalog)]
    command += ["--users", str(folder / "users.db"), "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"answers for \w+ on 127\.0\.0\.1:(\d+)", line):
            break
    else:
        process.wait()
        process.stderr.close()
        raise AssertionError("".join(said))
    rest = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    rest.start()
    try:
        yield Serving(folder, process, int(found[1]), said)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        rest.join(PATIENCE)
        process.stderr.close()


def ended(process: int) -> bool:
    """Whether a process is gone."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False
