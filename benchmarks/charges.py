"""How many durable charges a second processes make together on one ledger: `python -m benchmarks.charges [FOLDER ...]`.

Each figure stands beside the number of single writes that the same disk syncs in a second, before and after: disks
that others use differ tenfold from one minute to the next. `--once FOLDER` makes a ledger and 100 charges and ends, to
count what the disk is asked for: `strace -f -c -e trace=fsync,fdatasync python -m benchmarks.charges --once FOLDER`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import dpquery as dp
from dpquery.kernel.accountant import Budget
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

SECONDS = 6.0
SYNCS = 100
PROCESSES = (1, 2, 4, 8)
LOSS = dp.PrivacyLoss(epsilon=Fraction(1, 1000))
DECLARATIONS = Declarations(
    dataset="clinic",
    privacy_unit="row",
    neighbours=Neighbours.ADD_REMOVE,
    tables={"visits": TableDeclaration(name="visits", public=False)},
)


def syncs(folder: Path) -> float:
    """Returns how many writes of 512 bytes a second are durable, one after the other."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        file.write(bytes(512 * SYNCS))
        os.fsync(file.fileno())
        file.seek(0)
        start = time.perf_counter()
        for _ in range(SYNCS):
            file.write(b"x" * 512)
            os.fdatasync(file.fileno())
        return SYNCS / (time.perf_counter() - start)


def charges(folder: Path, processes: int, seconds: float = SECONDS) -> float:
    """Returns how many charges a second so many processes make together, each as fast as it can."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "ledger"
        dp.Ledger.create(path, DECLARATIONS, Budget.of(epsilon=1000), {}).close()
        children = [_child(path, seconds) for _ in range(processes)]
        if any(os.waitpid(child, 0)[1] for child in children):
            raise RuntimeError("a process could not charge")
        return dp.Ledger.open(path).verify() / seconds


def once(folder: Path, times: int = 100) -> None:
    """Makes a ledger and so many charges, one after the other."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        ledger = dp.Ledger.create(Path(name) / "ledger", DECLARATIONS, Budget.of(epsilon=1000), {})
        for _ in range(times):
            ledger.charge(analyst="alice", loss=LOSS, query="SELECT COUNT(*) FROM visits")


def _child(path: Path, seconds: float) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        ledger, until = dp.Ledger.open(path), time.monotonic() + seconds
        while time.monotonic() < until:
            ledger.complete(ledger.charge(analyst="alice", loss=LOSS, query="SELECT COUNT(*) FROM visits"))
        status = 0
    finally:
        os._exit(status)


def main(arguments: list[str]) -> None:
    """Prints the figures of each folder."""
    if arguments[:1] == ["--once"]:
        once(Path(arguments[1]))
        return
    for folder in map(Path, arguments or [tempfile.gettempdir()]):
        for processes in PROCESSES:
            before, made, after = syncs(folder), charges(folder, processes), syncs(folder)
            print(f"{folder}  {processes} processes: {made:5.0f} charges/s, {before:5.0f} and {after:5.0f} syncs/s")


if __name__ == "__main__":
    main(sys.argv[1:])
