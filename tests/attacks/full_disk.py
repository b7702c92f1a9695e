"""A disk that fills and frees while processes charge one ledger, and files beside it that are truncated.

`python -m tests.attacks.full_disk --seconds 60 [--truncate] [--folder A_SMALL_FILE_SYSTEM]`. Each process writes down
the number that each of its charges returned, with analyst and amount. At the end each number has an entry of its own,
of the same analyst and amount, and the ledger allowed all that it holds.

The disk is full in one of two ways: each process is now and then not allowed to let files grow (in any folder), or a
file fills the file system and is removed again (with `--folder`, which should be small: a tmpfs of a megabyte).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from dpquery.errors import InsufficientBudgetError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration
from tests.forking import fork

DECLARATIONS = Declarations(
    dataset="clinic",
    privacy_unit="row",
    neighbours=Neighbours.ADD_REMOVE,
    tables={"visits": TableDeclaration(name="visits", public=False)},
)
UNIT = Fraction(1, 1_000_000)
FREE = resource.RLIM_INFINITY


def run(folder: Path, logs: Path, *, seconds: float, processes: int, truncate: bool, fill: bool) -> tuple[int, int]:
    """Returns how many charges returned a number and how many entries there are, after checking each number.

    `folder` holds the ledger, `logs` what the processes write down; `fill` fills the file system of `folder`, otherwise
    each process limits the size of its own files.
    """
    path = folder / "ledger"
    Ledger.create(path, DECLARATIONS, Budget.of(epsilon=1000), {}).close()
    until = time.monotonic() + seconds
    works: list[Callable[[], None]] = [
        lambda i=i: _charge(path, logs / f"{i}.log", i, until, limits=not fill)  # type: ignore[misc]
        for i in range(processes)
    ]
    works += [lambda: _truncate(path, until)] * truncate + [lambda: _fill(folder, until)] * fill
    children = [_child(work) for work in works]
    if any(os.waitpid(child, 0)[1] for child in children):
        raise RuntimeError("a process failed")
    return check(path, logs)


def check(path: Path, logs: Path) -> tuple[int, int]:
    """Returns the numbers of released charges and of entries; raises AssertionError unless each has its own."""
    ledger = Ledger.open(path)
    ledger.verify()
    recorded = {entry.seq: (entry.analyst, entry.loss.epsilon) for entry in ledger.entries()}
    told = [line.split() for log in sorted(logs.glob("*.log")) for line in log.read_text().splitlines()]
    numbers = [int(number) for number, *_ in told]
    assert len(set(numbers)) == len(numbers), f"{len(numbers) - len(set(numbers))} numbers were returned twice"
    for number, analyst, amount in told:
        assert recorded.get(int(number)) == (analyst, int(amount) * UNIT), f"entry {number} is not the one charged"
    assert sum(amount for _, amount in recorded.values()) == ledger.spent(None).epsilon <= ledger.limit(None).epsilon
    return len(numbers), len(recorded)


def _child(work: Callable[[], None]) -> int:
    child = fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FREE, FREE))  # of the file that holds what is written here, too
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _charge(path: Path, log: Path, turn: int, until: float, *, limits: bool) -> None:
    """Charges as fast as it can; what fails is tried again with a ledger that is opened anew."""
    draw, written = random.Random(turn), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    analyst, ledger = f"analyst{turn}", None
    while time.monotonic() < until:
        amount = draw.randrange(1, 1000)
        if limits and draw.random() < 0.5:
            with contextlib.suppress(OSError):
                beside = [file.stat().st_size for file in path.parent.iterdir() if draw.random() < 0.5]
                room = max([*beside, 0]) + draw.choice([0, 0, 1, 100, 512, 4096])
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, FREE))
        with contextlib.suppress(InsufficientBudgetError):
            try:
                ledger = ledger or Ledger.open(path)
                loss = PrivacyLoss(epsilon=amount * UNIT)
                entry = ledger.charge(analyst=analyst, loss=loss, query="SELECT COUNT(*) FROM visits")
            except LedgerError:
                ledger = None
                resource.setrlimit(resource.RLIMIT_FSIZE, (FREE, FREE))
                time.sleep(draw.uniform(0, 0.005))
                continue
            resource.setrlimit(resource.RLIMIT_FSIZE, (FREE, FREE))
            os.write(written, b"%d %s %d\n" % (entry, analyst.encode(), amount))


def _truncate(path: Path, until: float) -> None:
    """Cuts the files beside the ledger, each at a random length; a mark is put back a moment later, as its owner would.

    An older mark does no harm: the chain explains what came after it.
    """
    draw = random.Random(7)
    while time.monotonic() < until:
        time.sleep(draw.uniform(0.005, 0.05))
        for file in [file for file in path.parent.iterdir() if file != path and file.name != "ballast"]:
            with contextlib.suppress(OSError):
                content = file.read_bytes() if file.name.endswith(".mark") else None
                os.truncate(file, draw.choice([0, 1, draw.randrange(1 + file.stat().st_size)]))
                time.sleep(draw.uniform(0, 0.01))
                if content is not None:
                    _put_back(file, content, until + 5)
    os.sync()


def _put_back(file: Path, content: bytes, until: float) -> None:
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            file.write_bytes(content)
            return
        time.sleep(0.001)


def _fill(folder: Path, until: float) -> None:
    draw, ballast = random.Random(11), folder / "ballast"
    while time.monotonic() < until:
        with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as file:
            while file.write(b"x" * draw.choice([1, 512, 4096, 65536])):
                pass
        time.sleep(draw.uniform(0, 0.02))
        with contextlib.suppress(OSError):
            os.truncate(ballast, max(0, ballast.stat().st_size - draw.choice([4096, 16384, 2**20])))
        time.sleep(draw.uniform(0, 0.02))
    ballast.unlink(missing_ok=True)


def main() -> None:
    """Runs the harness as often as it takes to fill the time, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--truncate", action="store_true")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    released = recorded = 0
    until = time.monotonic() + given.seconds
    while (left := until - time.monotonic()) > 0.5:
        with tempfile.TemporaryDirectory(dir=given.folder) as name, tempfile.TemporaryDirectory() as logs:
            some = run(
                Path(name),
                Path(logs),
                seconds=min(left, 10),
                processes=given.processes,
                truncate=given.truncate,
                fill=given.folder is not None,
            )
            released, recorded = released + some[0], recorded + some[1]
    print(f"{released:,} charges returned a number, each with an entry of its own among {recorded:,}")


if __name__ == "__main__":
    main()
