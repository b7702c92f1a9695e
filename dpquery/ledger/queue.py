"""Charges that wait for an SQLite ledger are recorded together: whoever has its turn commits those of all who wait.

docs/proofs/ledger.md. Processes and threads take turns by a lock on a file beside the ledger. Who waits writes its
charge into a second file; whoever has the turn records these charges with its own, in one durable transaction, and then
writes the numbers of their entries there. A request is known by its place in a file that only grows, so that no entry
answers two. Neither file has to last: what is lost there is recorded again, or never was.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dpquery.errors import LedgerError
from dpquery.kernel.accountant import Units
from dpquery.ledger.store import BUSY, LOCK, PATIENCE
from dpquery.units.blocks import Touched

try:
    import fcntl
except ImportError:  # a system without it has the ledger's own lock alone
    fcntl = None  # type: ignore[assignment]

LARGEST = 16_384  # bytes, from which a new file is begun
MOST = 64  # charges in one transaction
PAUSE, GATHER, RECENT = 0.0005, 0.002, 0.1  # seconds: between two looks; to let others join, if some waited recently
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Request:
    """A charge: in which ledger, of whom, how much, the query's text, and the blocks that it touches, None for all."""

    ledger: str
    analyst: str
    units: Units
    text: str
    blocks: Touched | None = None

    def told(self) -> list[object]:
        """Returns it as `heard` reads it."""
        blocks = None if self.blocks is None else [self.blocks.spans, self.blocks.undated]
        return [self.ledger, self.analyst, self.units, self.text, blocks]


def heard(told: list[Any]) -> Request:
    """Returns a request that another process wrote."""
    ledger, analyst, units, text, blocks = told
    touched = None if blocks is None else Touched(tuple((first, last) for first, last in blocks[0]), blocks[1])
    return Request(ledger, analyst, cast(Units, tuple(units)), text, touched)


Record = Callable[[Request, list[Request]], list[int]]
"""Records a charge, or raises, and others where allowed; gives the numbers of the durable entries, 0 where not."""


class Queue:
    """Those who wait for one ledger."""

    def __init__(self, ledger: str) -> None:
        self._turns, self._requests = Path(f"{ledger}-turns"), Path(f"{ledger}-requests")

    def charge(self, request: Request, record: Record) -> int:
        """Returns the number of the durable entry of a charge, made by `record` here or in another process."""
        if fcntl is None:
            return record(request, [])[0]
        until, own = time.monotonic() + PATIENCE, -1
        with contextlib.ExitStack() as files:
            turns = _open(self._turns, files)
            while time.monotonic() < until:
                with _turn(turns) as has_turn:
                    if own >= 0 and (number := _answer(own)):
                        return number
                    if has_turn:
                        return self._lead(request, own, files, record)
                if own < 0:
                    own = _open(self._requests, files)
                    _append(own, [time.monotonic(), *request.told()])
                time.sleep(PAUSE)
        raise LedgerError(BUSY)

    def _lead(self, request: Request, own: int, files: contextlib.ExitStack, record: Record) -> int:
        """Records a charge and those of others who wait, and tells them."""
        requests = _open(self._requests, files)
        status = os.fstat(requests)
        if own < 0 and time.time() - status.st_mtime < RECENT:
            time.sleep(GATHER)
        if status.st_size > LARGEST:
            self._requests.unlink(missing_ok=True)  # who wrote into it still holds it
        is_same = own >= 0 and os.path.sameopenfile(own, requests)
        others = _unanswered(requests)
        others.pop(_place(own) if is_same else 0, None)
        first, *numbers = record(request, list(others.values()))
        told = {place: number for place, number in zip(others, numbers, strict=True) if number}
        told |= {_place(own): first} if is_same else {}  # nobody records it again
        if told:
            _append(requests, told)
        return first


@contextlib.contextmanager
def _turn(turns: int) -> Iterator[bool]:
    """Whether it is this thread's turn, until the block ends. No fork happens in a turn, so that no child keeps it."""
    has_turn = LOCK.acquire(blocking=False)
    with contextlib.ExitStack() as held:
        if has_turn:
            held.callback(LOCK.release)
            try:
                fcntl.flock(turns, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.callback(fcntl.flock, turns, fcntl.LOCK_UN)
            except BlockingIOError:
                has_turn = False
        yield has_turn


def _open(path: Path, files: contextlib.ExitStack) -> int:
    try:
        descriptor = os.open(path, FLAGS, 0o600)
    except OSError as error:
        raise LedgerError(f"{path} cannot be used: {error.strerror}") from error
    files.callback(os.close, descriptor)
    if os.name == "posix" and os.fstat(descriptor).st_mode & 0o022:
        raise LedgerError(f"other users may write to {path}; delete it")
    return descriptor


def _append(descriptor: int, told: object) -> None:
    """Appends one line, by one write: it is in one piece, and its end is then the file's position.

    A write that breaks off spoils one line: who asked in it waits for its turn, who is told nothing charges again.
    """
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(told).encode() + b"\n")


def _place(descriptor: int) -> int:
    return os.lseek(descriptor, 0, os.SEEK_CUR)


def _lines(descriptor: int, start: int) -> Iterator[tuple[int, Any]]:
    """Yields what each whole line after a position says, with the position of its end."""
    content = os.pread(descriptor, max(0, os.fstat(descriptor).st_size - start), start)
    for line in content.splitlines(keepends=True):
        start += len(line)
        with contextlib.suppress(ValueError):
            yield start, json.loads(line if line.endswith(b"\n") else b"")


def _answer(own: int) -> int:
    """Returns the number of the entry that was recorded for the request which ends at the file's position, or 0."""
    place = _place(own)
    return next(
        (told[str(place)] for _, told in _lines(own, place) if isinstance(told, dict) and str(place) in told), 0
    )


def _unanswered(requests: int) -> dict[int, Request]:
    """Returns by their places the requests whose processes may still wait, at most so many as one turn takes."""
    now, found = time.monotonic(), dict[int, Request]()
    for place, told in _lines(requests, 0):
        with contextlib.suppress(LookupError, TypeError, ValueError):  # what cannot be read waits for its turn
            if isinstance(told, dict):
                for answered in told:
                    found.pop(int(answered), None)
            elif 0 <= now - told[0] < PATIENCE:
                found[place] = heard(told[1:])
    return dict(list(found.items())[:MOST])
