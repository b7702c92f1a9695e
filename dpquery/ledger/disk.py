"""Files of the ledger and its mark: opened where only their owner may write, locked, and synced. docs/proofs/ledger.md.

A lock is on the file itself, for every path to it, and ends with the descriptor or the process that holds it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger.store import BUSY, PATIENCE

try:
    import fcntl
except ImportError:  # without locks no two processes may share a file
    fcntl = None  # type: ignore[assignment]

PAUSE = 0.0005  # seconds between two tries to lock
NETWORK = {"afs", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
SYNC = getattr(os, "fdatasync", os.fsync)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Opens a regular file with one name that no other user may write to; raises LedgerError for any other.

    Raises FileNotFoundError where there is none, and OSError as the system does.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise LedgerError(
            f"{path} is a link or not a regular file; the ledger must be a regular file with a single name"
        )
    if os.name == "posix" and status.st_mode & 0o022:
        raise LedgerError(f"other users may write to {path}; run chmod 600 on it")
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        if identity(os.fstat(descriptor)) != identity(status):
            raise LedgerError(f"{path} was replaced while it was opened; try again")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(descriptor: int, busy: str = BUSY) -> Iterator[None]:
    """Keeps other processes and threads from what they lock too; raises LedgerError, in these words, if one hangs."""
    if fcntl is None:
        raise LedgerError("this system does not support file locks; keep the ledger in PostgreSQL")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise LedgerError(busy) from None
            time.sleep(PAUSE)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def create(path: Path, content: bytes) -> None:
    """Makes a durable file that only its owner may read; raises OSError where anything stands."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except BaseException:
        path.unlink()
        raise


def sync(descriptor: int) -> None:
    """Makes what was written to a file durable, by whomever, also in the disk's own memory where it has to be told."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        SYNC(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes a name in a folder durable, where the system can."""
    with contextlib.suppress(PermissionError, IsADirectoryError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def identity(status: os.stat_result) -> tuple[int, int]:
    """Returns what two paths of one file share."""
    return status.st_dev, status.st_ino


def place(path: str | os.PathLike[str]) -> Path:
    """Returns the absolute path of a ledger in an existing, writable directory of a local file system."""
    given = Path(path)
    folder = Path(os.path.realpath(given.parent))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise LedgerError(f"{folder} is not a writable directory, which the ledger needs")
    if (system := file_system(folder)) in NETWORK:
        raise LedgerError(
            f"{folder} is on a network file system ({system}), where file locks are not reliable; use a local disk"
        )
    return folder / given.name


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Returns the type of the file system that holds a folder, or "" where the system does not tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    best, found = 0, ""
    for line in lines:
        _, raw, kind, *_ = line.split(" ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), raw)
        if f"{folder}/".startswith(f"{point.rstrip('/')}/") and len(point) >= best:
            best, found = len(point), kind
    return found
