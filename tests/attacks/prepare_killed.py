"""Kills `prepare` at each call by which it names a file or makes it durable, and at random moments, and looks what is
left: `python -m tests.attacks.prepare_killed --every 1 --random 100`.

The folder has to hold the version before or the new one, whole; or nothing, where there was nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dpquery as dp
from dpquery.data.prepared import MANIFEST
from dpquery.errors import CatalogError
from dpquery.ledger.ledger import Ledger
from dpquery.session.preparing import prepare, sources_of
from tests.attacks.test_prepared import CATALOG, sources

CALLS = ("mkdir", "chmod", "open", "fsync", "link", "replace", "unlink", "rmdir")
"""The calls of the system that are counted."""


def child(work: Callable[[], object]) -> int:
    """Returns the number of a child process that does some work and ends: 0, or 1 where it fails."""
    number = os.fork()
    if not number:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def ended(number: int) -> int:
    """Returns the exit code of a child; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def preparing(folder: Path, stop: int = 0) -> None:
    """Prepares data; kills itself at the call of number `stop`, and writes down how many there were."""
    count = 0
    catalog, ledger = dp.Catalog.from_yaml(CATALOG), Ledger.open(folder / "ledger")

    def counting(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))
    prepare(catalog, sources(), folder / "data", ledger=ledger, shards=2)
    (folder / "calls").write_text(str(count))


def opening(folder: Path, *, may_be_missing: bool) -> None:
    """Opens what is there, which checks every byte of it; fails for half of a version."""
    catalog = dp.Catalog.from_yaml(CATALOG)
    if may_be_missing and not (folder / "data" / MANIFEST).exists():
        try:
            sources_of(catalog, folder / "data", Ledger.open(folder / "ledger"))
        except CatalogError:
            return
        raise AssertionError("a folder without a manifest was opened")
    assert sources_of(catalog, folder / "data", Ledger.open(folder / "ledger")).keys() == catalog.tables.keys()


def kill_all(folder: Path, *, every: int, at_random: int, is_first: bool) -> int:
    """Returns how many preparations were killed, after opening what each of them left."""
    killed = 0

    def left() -> None:
        nonlocal killed
        killed += 1
        assert ended(child(lambda: opening(folder, may_be_missing=is_first))) == 0
        if is_first:
            shutil.rmtree(folder / "data", ignore_errors=True)

    assert ended(child(lambda: preparing(folder))) == 0
    for stop in range(1, int((folder / "calls").read_text()) + 1, every):
        if is_first:
            shutil.rmtree(folder / "data", ignore_errors=True)
        assert ended(child(lambda stop=stop: preparing(folder, stop))) == -signal.SIGKILL  # type: ignore[misc]
        left()
    for _ in range(at_random):
        number = child(lambda: preparing(folder))
        time.sleep(random.random() * 0.3)
        os.kill(number, signal.SIGKILL)
        ended(number)
        left()
    assert ended(child(lambda: preparing(folder))) == 0
    assert len(os.listdir(folder / "data")) == 2, "what killed preparations left is removed"
    return killed


def main(arguments: list[str]) -> None:
    """Prints how many preparations were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="kill at every so many calls")
    parser.add_argument("--random", type=int, default=50, help="kills at random moments")
    given = parser.parse_args(arguments)
    catalog, killed = dp.Catalog.from_yaml(CATALOG), 0
    for is_first in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            assert ended(child(lambda place=place: dp.create_ledger(catalog, place / "ledger"))) == 0  # type: ignore[misc]
            killed += kill_all(place, every=given.every, at_random=given.random, is_first=is_first)
    print(f"{killed} preparations were killed, and each left a whole version, or none where there was none")


if __name__ == "__main__":
    main(sys.argv[1:])
