"""A ledger in a file: lines that are only added, under a lock on the file. docs/proofs/ledger.md.

A write that breaks off leaves a line without an end, or with a wrong hash: it was never answered, as the mark does not
know it, and the next writer cuts it off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger import disk, schema
from dpquery.ledger.schema import CHECKPOINT, Record
from dpquery.ledger.store import Store

PAGE = 1 << 16  # bytes read at a time
OLD = b"SQLite format 3\0"
_FOUNDING = re.compile(rb'[0-9a-f]{64} \[0, "founding"')
_CHECKPOINT = re.compile(rb'\n[0-9a-f]{64} \[(\d{1,18}), "checkpoint"')


class LedgerFile(Store):
    """An existing file. It is opened, looked at and locked anew for each transaction, so nothing passes a fork."""

    failures = (OSError, UnicodeError)

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._identity: tuple[int, int] | None = None
        with self.told(), self._opened() as (descriptor, status):
            self._identity = disk.identity(status)
            _check_kind(os.pread(descriptor, 100, 0))

    def _transaction(self, *, writes: bool) -> Iterator[FileLog]:
        with self._opened() as (descriptor, _), disk.locked(descriptor) if writes else contextlib.nullcontext():
            yield FileLog(descriptor)

    def _sync(self) -> None:
        with self._opened() as (descriptor, _):
            disk.sync(descriptor)

    def check(self) -> None:
        """Does nothing: a file is its lines."""

    def close(self) -> None:
        """Does nothing: no file stays open."""

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[int, os.stat_result]]:
        try:
            with disk.opened(self._path, os.O_RDWR) as descriptor:
                status = os.fstat(descriptor)
                if self._identity not in (None, disk.identity(status)):
                    raise LedgerError("the file was moved, deleted or replaced while it was open")
                yield descriptor, status
        except FileNotFoundError as error:
            if self._identity is not None:
                raise LedgerError("the file was moved or deleted while it was open") from error
            raise LedgerError("no ledger here; its owner makes it: create=True, or dpquery ledger create") from error

    def _explain(self, error: Exception) -> str:
        if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS):
            return "the ledger is not writable, so nothing can be charged"
        return f"the ledger cannot be used: {getattr(error, 'strerror', None) or error}"


class FileLog:
    """The lines of a file that is open. Positions are offsets in bytes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def lines(self, start: int) -> Iterator[tuple[int, str, int]]:
        """Yields the whole lines from a position on; what is no text cannot follow in the chain, and is yielded."""
        begun, position = b"", start
        while content := os.pread(self._descriptor, PAGE, position):
            position += len(content)
            *whole, begun = (begun + content).split(b"\n")
            for line in whole:
                yield start, line.decode("ascii", errors="replace"), start + len(line) + 1
                start += len(line) + 1

    def find(self, seq: int) -> int | None:
        """Returns where the entry of a number begins: lines are in the order of their numbers."""
        low, high = 0, self._size()  # low begins a line with a smaller number, or the file
        while high - low > PAGE:
            middle = (low + high) // 2
            begin = self._next_line(middle)
            if begin is not None and begin < high and self._number(begin) < seq:
                low = begin
            else:
                high = begin if begin is not None and begin < high else middle
        for start, line, _ in self.lines(low):
            number, kind, _ = _glance(line)
            if number >= seq:
                return start if number == seq and kind not in (schema.ANSWERED, CHECKPOINT) else None
        return None

    def checkpoint(self, before: int) -> int | None:
        """Returns where the last checkpoint begins that follows an entry with a smaller number, read from the end."""
        end, width = self._size(), PAGE
        while end > 0:
            start = max(0, end - width)
            content = os.pread(self._descriptor, end - start + 100, start)
            for found in reversed(list(_CHECKPOINT.finditer(content))):
                if int(found[1]) < before:
                    return start + found.start() + 1
            end, width = start, 2 * width
        return None

    def append(self, position: int, records: Sequence[Record]) -> list[tuple[int, int]]:
        """Adds records in one write; where it breaks off, whole lines stay and the rest is removed."""
        content = "".join(f"{record.line}\n" for record in records).encode("ascii")
        written, failure = 0, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            while written < len(content):
                written += os.pwrite(self._descriptor, content[written:], position + written)
        except OSError as error:
            failure = error
        if written < len(content):
            self.cut(position + content[:written].rfind(b"\n") + 1)
            raise failure
        ends = list(accumulate((len(record.line) + 1 for record in records), initial=position))
        return list(pairwise(ends))

    def unfinished(self) -> None:
        """Accepts a line that does not follow: whether it was answered, the mark tells."""

    def cut(self, position: int) -> None:
        """Removes what follows a position."""
        if self._size() > position:
            os.ftruncate(self._descriptor, position)

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _next_line(self, position: int) -> int | None:
        """Returns where the first line begins behind a position."""
        while content := os.pread(self._descriptor, PAGE, position):
            if (end := content.find(b"\n")) >= 0:
                return position + end + 1
            position += len(content)
        return None

    def _number(self, start: int) -> int:
        return _glance(os.pread(self._descriptor, schema.DIGITS + 64, start).decode("ascii", errors="replace"))[0]


def _glance(line: str) -> tuple[int, str, str]:
    try:
        return schema.glance(line)
    except ValueError:
        raise LedgerError("the ledger is damaged: a line is malformed") from None


def make(path: Path, founding: Record) -> None:
    """Makes a ledger's file with its founding document; refuses a path where anything stands."""
    try:
        disk.create(path, f"{founding.line}\n".encode("ascii"))
    except FileExistsError:
        raise LedgerError(f"{path} already exists; open it, or choose another path") from None
    except OSError as error:
        raise LedgerError(f"{path} cannot be created: {error.strerror}") from error


def looks_like_a_ledger(beginning: bytes) -> bool:
    """Whether a file that begins so may be a ledger, of this format or an older one."""
    return beginning.startswith(OLD) or _FOUNDING.match(beginning) is not None


def _check_kind(beginning: bytes) -> None:
    """Raises LedgerError unless a file may be a ledger of this format; what it holds is looked at later."""
    if not beginning:
        raise LedgerError(
            "the file is empty; if no query was ever answered with it, delete it and create the ledger again"
        )
    if beginning.startswith(OLD) and beginning[68:72] == b"dpQ1":
        raise LedgerError(schema.of_format(2))
    if not _FOUNDING.match(beginning):
        raise LedgerError("the file is not a dpquery ledger")
