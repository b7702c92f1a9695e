"""An embedded DuckDB for tables that are public by construction: in a process of its own, locked, and with limits on
the rows, the values, the memory and the time of every statement."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from dpquery.backends.duckdb.engine import LOCK
from dpquery.backends.duckdb.system_process import BEGUN, read_table, receive, send, written_table
from dpquery.cancelling import interruptible
from dpquery.errors import BackendError

MEMORY = "128MB"
"""Of the engine, in which all statements read the same tables."""
START = (
    "import json, os, sys; os.environ.update(json.loads(sys.argv[3])); sys.path[:] = json.loads(sys.argv[1]); "
    "from dpquery.backends.duckdb.system_process import main; main(int(sys.argv[2]))"
)
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
}
"""A process that copies itself has one thread, and takes no memory in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLimits:
    """What one statement may take and give.

    Attributes:
        seconds: How long it computes; where other processes come first, it may take six times as long.
        most_memory: Bytes that it takes, beyond the tables.
        most_rows, most_bytes: Of its result.
        most_items: Of all lists in its result.
        most_cell: Bytes of one value, be it a text or a list.
    """

    seconds: float = 5.0
    most_memory: int = 256 << 20
    most_rows: int = 100_000
    most_bytes: int = 64 << 20
    most_items: int = 100_000
    most_cell: int = 1 << 20


class StatementTimeout(BackendError):
    """A statement took longer than it may."""


class StatementTooLarge(BackendError):
    """A statement gives more than it may; the text says more of what."""


class StatementMemory(BackendError):
    """A statement needs more memory than it may take."""


class SystemTables:
    """An engine with the tables that its statements make, and nothing else within reach; locked once it is filled."""

    def __init__(
        self, statements: Sequence[str], rows: Mapping[str, pa.Table], *, afterwards: Sequence[str] = ()
    ) -> None:
        """Makes the tables.

        Args:
            statements: What makes them.
            rows: What goes into them, by the table's name; columns by name, cast to the table's types.
            afterwards: What is done once they are filled.
        """
        # Each has its reason in `LOCK`.
        settings = [f"SET {setting} = {value}" for setting, value in LOCK.items()]
        # No files are needed, and the process draws nothing.
        locked = ["SET temp_directory = ''", "SET enable_progress_bar = false", *settings]
        self._words = {
            "memory": MEMORY,
            "statements": list(statements),
            "places": list(rows),
            "afterwards": [*afterwards, *locked],
        }
        self._rows = [written_table(table) for table in rows.values()]
        self._guard = threading.Lock()
        self._control = self._started()

    def _started(self) -> socket.socket:
        """Starts the process and fills it."""
        ours, theirs = socket.socketpair()
        with theirs:
            given = [json.dumps(sys.path), str(theirs.fileno()), json.dumps(_ENVIRONMENT)]
            command = [sys.executable, "-P", "-c", START, *given]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        weakref.finalize(self, _end, ours, process)
        self.process = process.pid
        with contextlib.suppress(OSError):
            send(ours, self._words, self._rows)
        if receive(ours) is None:
            raise BackendError("the engine of the system tables could not be started")
        return ours

    def run(
        self, text: str, tables: Mapping[str, pa.Table], *, limits: StatementLimits, first: int | None = None
    ) -> pa.Table:
        """Returns what a statement gives.

        Args:
            text: The statement.
            tables: Further tables that this statement alone may read.
            limits: What it may take and give.
            first: How many rows are wanted, or None for all.
        Raises:
            StatementTimeout, StatementTooLarge, StatementMemory: A limit is passed.
            BackendError: The engine refuses the statement.
        """
        words = {"text": text, "tables": list(tables), "first": first, **asdict(limits)}
        written = [written_table(table) for table in tables.values()]
        begun = time.monotonic()
        with self._copy() as channel, interruptible(lambda: _shut(channel)):
            with contextlib.suppress(OSError):
                send(channel, words, written)
            reply = receive(channel)
        if reply is None and time.monotonic() - begun >= limits.seconds:
            raise StatementTimeout("the statement took too long")
        if reply is None or "memory" in reply[0]:
            raise StatementMemory("the statement needs too much memory")
        if "too_much" in reply[0]:
            raise StatementTooLarge(reply[0]["too_much"])
        if "unknown" in reply[0]:
            raise BackendError("the engine does not know the statement")
        return read_table(reply[1][0])

    def _copy(self) -> socket.socket:
        """Returns a socket to a new copy of the process, which is started anew where it is gone."""
        for _ in range(2):
            ours, theirs = socket.socketpair()
            with theirs, self._guard, contextlib.suppress(OSError):
                socket.send_fds(self._control, [BEGUN], [theirs.fileno()])
            if _begins(ours):
                return ours
            ours.close()
            with self._guard:
                self._start_again()
        raise BackendError("the engine of the system tables ends again and again")

    def _start_again(self) -> None:
        """Starts the process where it is gone, once for all statements that find it so."""
        with contextlib.suppress(OSError):
            if not _is_closed(self._control):
                return
        self._control = self._started()


def _begins(channel: socket.socket) -> bool:
    """Waits for a copy to begin; says whether it did."""
    try:
        return channel.recv(1) == BEGUN
    except OSError:
        return False


def _is_closed(control: socket.socket) -> bool:
    """Whether the other end is gone; it says nothing while it runs."""
    try:
        return control.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def _shut(channel: socket.socket) -> None:
    """Gives a statement up: its process sees it, and ends."""
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
