"""The high-water mark: a second file that remembers how far a ledger had come. docs/proofs/ledger.md.

It is written after entries are durable and before their charges return, so it may lag behind the ledger and is never
ahead of it, unless the ledger lost entries. Each level is written twice, so that no one damaged line hides the newest.
Beside the newest it keeps older ones, ever further apart, so that what a restored ledger lost can be bounded.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.kernel.accountant import LedgerAmount
from dpquery.ledger import disk
from dpquery.ledger.schema import NOTHING, Mark
from dpquery.ledger.store import PATIENCE, TURN

SLOT = 512  # bytes: a sector, which disks write whole
TITLE, DURABLE, NEWEST, OLDER = 0, 1, 2, 4  # where lines stand: of the newest there are two, of older ones 64
LINES = OLDER + 64
NAME = "dpquery-mark-2"
BLANK = b" " * (SLOT - 1) + b"\n"
STANDS = "the ledger is busy, or locked by a process that hangs; the charge is kept and the query is not answered"
TRIES = 5  # to read it whole while another process writes a line


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a ledger had come: an entry, and the dataset's total after it."""

    mark: Mark
    spent: LedgerAmount


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a mark says.

    Attributes:
        levels: The newest first; the last is the founding of the ledger.
        durable: The last level that is known to be on the disk, or None.
        is_cut_short: Whether both copies of a level may be damaged, as a crash leaves them where it struck between a
            commit and its mark: then the ledger holds an entry behind the newest level that can be read.
        lines: All lines as they are.
    """

    levels: tuple[Checkpoint, ...]
    durable: Checkpoint | None
    is_cut_short: bool
    lines: tuple[bytes, ...]

    @property
    def newest(self) -> Mark:
        """The entry that every later state of the ledger holds."""
        return self.levels[0].mark


class MarkFile:
    """An existing mark, or the path where one is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, identity: str) -> None:
        """Creates the mark of a new ledger; refuses a path where anything stands."""
        with self._told():
            disk.create(self.path, _whole(identity, [Checkpoint(Mark(0, identity), NOTHING)]))

    def read(self, identity: str) -> Remembered:
        """Returns what it remembers.

        Raises LedgerError where it is missing, damaged beyond one unfinished write, writable by others, not by us, or
        of another ledger.
        """
        for last in range(TRIES):
            with self._told(), disk.opened(self.path, os.O_RDWR) as descriptor:  # what cannot be written is refused
                content = os.pread(descriptor, SLOT * LINES + 1, 0)
            try:
                found = _remembered(self.path, content, identity)
            except LedgerError:
                if last == TRIES - 1:
                    raise
            else:
                if not found.is_cut_short or last == TRIES - 1:
                    return found
            time.sleep(0.001)
        raise LedgerError(f"its mark {self.path} cannot be read")

    @contextlib.contextmanager
    def turn(self) -> Iterator[int]:
        """Holds the lock of those who make charges durable; no fork happens meanwhile. Gives the open file."""
        if not TURN.acquire(timeout=PATIENCE):
            raise LedgerError(STANDS)
        try:
            with self._told(), disk.opened(self.path, os.O_RDWR) as descriptor, disk.locked(descriptor, STANDS):
                if disk.identity(os.lstat(self.path)) != disk.identity(os.fstat(descriptor)):
                    raise LedgerError(
                        f"its mark {self.path} was replaced; the charge is kept and the query is not answered"
                    )
                yield descriptor
        finally:
            TURN.release()

    def advance(self, descriptor: int, identity: str, level: Checkpoint) -> None:
        """Remembers a level durably, unless a later one is remembered, in one's turn. Then says that it is durable."""
        with self._told():
            found = _remembered(self.path, os.pread(descriptor, SLOT * LINES + 1, 0), identity)
            if found.newest.seq < level.mark.seq:
                changes = _changes(found, level)
            else:  # a sync that failed may have left them in memory alone, and a later one would not tell
                level, changes = found.levels[0], dict(enumerate(found.lines))
            for place, line in changes.items():
                _write(descriptor, place, line)
            disk.sync(descriptor)
            _write(descriptor, DURABLE, _line(level))

    def replace(self, identity: str, levels: list[Checkpoint]) -> None:
        """Forgets everything but these levels, which include the founding."""
        fresh = self.path.with_name(self.path.name + ".new")
        with self._told():
            fresh.unlink(missing_ok=True)
            disk.create(fresh, _whole(identity, levels))
            fresh.replace(self.path)
            disk.sync_folder(self.path.parent)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise LedgerError(
                f"its mark {self.path} is missing; it records the ledger's last entry. Put it back beside the "
                "ledger, or name its path. If it is lost, the owner can run dpquery ledger reconcile"
            ) from error
        except OSError as error:
            raise LedgerError(f"its mark {self.path} cannot be used: {error.strerror}") from error


REMEDY = (
    ". Restore a copy of it; an older copy is safe. If there is none, delete it; the owner can then run dpquery "
    "ledger reconcile --mark-is-lost"
)


@lru_cache(maxsize=16)  # between two charges a mark is read several times
def _remembered(path: Path, content: bytes, identity: str) -> Remembered:
    """Returns what the content of a mark says, which follows from it alone; raises LedgerError where it is damaged."""
    if len(content) != SLOT * LINES:
        raise LedgerError(f"its mark {path} is damaged: it has the wrong length{REMEDY}")
    lines = tuple([content[start : start + SLOT] for start in range(0, len(content), SLOT)])
    if lines[TITLE] != _title(identity):
        raise LedgerError(f"its mark {path} is damaged, or belongs to another ledger{REMEDY}")
    read = [_level(line) for line in lines]
    broken = [read[place] is None and line != BLANK for place, line in enumerate(lines)]
    levels = tuple(sorted({level for level in read[NEWEST:] if level is not None}, key=lambda level: -level.mark.seq))
    if {*read[NEWEST:OLDER]} == {None} or levels[-1].mark != Mark(0, identity):
        raise LedgerError(f"its mark {path} is damaged{REMEDY}")
    return Remembered(levels, read[DURABLE], any(broken[NEWEST:OLDER]) and any(broken[OLDER:]), lines)


def _slot_of(seq: int) -> int:
    """Returns where a level is kept: of the numbers that 2 divides k times and no more, the last two are kept."""
    if not seq:
        return LINES - 1
    twos = (seq & -seq).bit_length() - 1
    return OLDER + 2 * twos + (seq >> (twos + 1) & 1)


def _changes(found: Remembered, level: Checkpoint) -> dict[int, bytes]:
    """Returns the lines that remember a level: not in place of the newest one, and damaged older ones are blank."""
    read = [_level(line) for line in found.lines]
    damaged = {place: BLANK for place in range(OLDER, LINES) if read[place] is None and found.lines[place] != BLANK}
    free = NEWEST if read[NEWEST] is None or read[NEWEST] != found.levels[0] else NEWEST + 1
    return {**damaged, free: _line(level), _slot_of(level.mark.seq): _line(level)}


def _whole(identity: str, levels: list[Checkpoint]) -> bytes:
    ordered = sorted(levels, key=lambda level: level.mark.seq)
    lines = {_slot_of(level.mark.seq): _line(level) for level in ordered}
    lines |= {TITLE: _title(identity), DURABLE: _line(ordered[-1]), NEWEST: _line(ordered[-1])}
    return b"".join(lines.get(place, BLANK) for place in range(LINES))


def _title(identity: str) -> bytes:
    return _padded(f"{NAME} {identity}")


def _line(level: Checkpoint) -> bytes:
    return _padded(" ".join(map(str, (level.mark.seq, level.mark.hash, *level.spent))))


def _padded(text: str) -> bytes:
    return f"{text} {_check(text)}".encode("ascii").ljust(SLOT - 1) + b"\n"


@lru_cache(maxsize=4 * LINES)  # most lines are those that were read before
def _level(line: bytes) -> Checkpoint | None:
    """Returns the level of a line, or None where there is none, or a write broke off."""
    with contextlib.suppress(ValueError):
        text, _, check = line.decode("ascii").strip().rpartition(" ")
        if check == _check(text):
            seq, hash, epsilon, delta, rho = text.split(" ")
            return Checkpoint(Mark(int(seq), hash), (int(epsilon), int(delta), int(rho)))
    return None


def _write(descriptor: int, place: int, line: bytes) -> None:
    if os.pwrite(descriptor, line, SLOT * place) != SLOT:
        raise OSError(None, "the write was incomplete")


def _check(text: str) -> str:
    return sha256(f"{NAME} {text}".encode()).hexdigest()
