"""The high-water mark: a second file that remembers how far a ledger had come. docs/proofs/ledger.md.

It is written after an entry is committed and before the charge returns, so it may lag behind the ledger and is never
ahead of it, unless the ledger lost entries. Beside the newest mark it keeps older ones, ever further apart, so that
what a restored ledger lost can be bounded.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.kernel.accountant import Units
from dpquery.ledger.schema import NOTHING, Mark, hash_of
from dpquery.ledger.store import BUSY, LOCK, PATIENCE

try:
    import fcntl
except ImportError:  # a system without it has no other processes to wait for but by the ledger's own lock
    fcntl = None  # type: ignore[assignment]

SLOT = 512  # bytes: a sector, which disks write whole
SLOTS = 64
TITLE = "dpquery-mark-1"
SYNC = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class Level:
    """How far a ledger had come: an entry, and the dataset's total after it."""

    mark: Mark
    spent: Units


class MarkFile:
    """An existing mark, or the path where one is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, identity: str) -> None:
        """Creates the mark of a new ledger; refuses a path where anything stands."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise LedgerError(f"the mark {self.path} cannot be created: {error.strerror}") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(_whole(identity, [Level(Mark(0, identity), NOTHING)]))
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.path.parent)

    def read(self, identity: str) -> list[Level]:
        """Returns the levels that it remembers, the newest first; the last is the founding of the ledger.

        Raises LedgerError where it is missing, damaged beyond one unfinished write, or of another ledger.
        """
        with self._told(), open(self.path, "r+b", buffering=0) as file:  # what cannot be written is refused early
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o022:
                raise LedgerError(f"other users may write to its mark {self.path}; run chmod 600 on it")
            return self._levels(file.read(), identity)

    def advance(self, identity: str, level: Level) -> None:
        """Remembers a level durably, unless a later one is remembered already.

        The last holder of the lock synced what it wrote, so that a level already there needs no sync.
        """
        with LOCK, self._told(), open(self.path, "r+b", buffering=0) as file, _locked(file.fileno()):
            newest = self._levels(file.read(), identity)[0]
            if newest.mark.seq < level.mark.seq:
                file.seek(SLOT * _slot_of(level.mark.seq))
                if file.write(_line(level)) != SLOT:
                    raise OSError(None, "the write broke off")
                SYNC(file.fileno())

    def replace(self, identity: str, levels: list[Level]) -> None:
        """Forgets everything but these levels, which include the founding."""
        fresh = self.path.with_name(self.path.name + ".new")
        with self._told():
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_whole(identity, levels))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            _sync_folder(self.path.parent)

    def _levels(self, content: bytes, identity: str) -> list[Level]:
        lines = [content[start : start + SLOT] for start in range(0, len(content), SLOT)]
        if len(content) != SLOT * (SLOTS + 1):
            raise LedgerError(f"its mark {self.path} is damaged: it has a wrong length")
        title, *rest = lines.pop().split()
        if title != TITLE.encode() or rest != [identity.encode(), _check(identity)]:
            raise LedgerError(f"its mark {self.path} is the mark of another ledger, or damaged")
        read = [_level(line) for line in lines]
        levels = sorted((level for level in read if level is not None), key=lambda level: -level.mark.seq)
        broken = sum(level is None and line.strip() != b"" for level, line in zip(read, lines, strict=True))
        if broken > 1 or not levels or levels[-1].mark != Mark(0, identity):
            raise LedgerError(f"its mark {self.path} is damaged")
        return levels

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise LedgerError(
                f"its mark {self.path} is missing, which tells how far the ledger had come; put it back beside the "
                "ledger, or name its place. If it is lost, the owner may run dpquery ledger reconcile"
            ) from error
        except OSError as error:
            raise LedgerError(f"its mark {self.path} cannot be used: {error.strerror}") from error


def _slot_of(seq: int) -> int:
    """Returns where a level is written: of the numbers that 2 divides k times and no more, the last two are kept."""
    if not seq:
        return SLOTS - 1
    twos = (seq & -seq).bit_length() - 1
    return 2 * twos + (seq >> (twos + 1) & 1)


def _whole(identity: str, levels: list[Level]) -> bytes:
    lines = [b" " * (SLOT - 1) + b"\n"] * SLOTS
    for level in sorted(levels, key=lambda level: level.mark.seq):
        lines[_slot_of(level.mark.seq)] = _line(level)
    title = b" ".join([TITLE.encode(), identity.encode(), _check(identity)])
    return b"".join([*lines, title.ljust(SLOT - 1) + b"\n"])


def _line(level: Level) -> bytes:
    fields = " ".join(map(str, (level.mark.seq, level.mark.hash, *level.spent)))
    return b" ".join([fields.encode(), _check(fields)]).ljust(SLOT - 1) + b"\n"


@lru_cache(maxsize=4 * SLOTS)  # most lines are those that were read before
def _level(line: bytes) -> Level | None:
    """Returns the level of a line, or None where there is none, or a write broke off."""
    fields, _, check = line.strip().rpartition(b" ")
    with contextlib.suppress(ValueError):
        text = fields.decode("ascii")
        if fields and check == _check(text):
            seq, hash, epsilon, delta, rho = text.split(" ")
            return Level(Mark(int(seq), hash), (int(epsilon), int(delta), int(rho)))
    return None


def _check(text: str) -> bytes:
    return hash_of(TITLE, text).encode()


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Keeps other processes from writing; the lock ends with the file's descriptor."""
    until = time.monotonic() + PATIENCE
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise LedgerError(BUSY) from None
            time.sleep(0.0005)
    yield


def _sync_folder(folder: Path) -> None:
    """Makes a name in a folder durable, where the system can."""
    with contextlib.suppress(PermissionError, IsADirectoryError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
