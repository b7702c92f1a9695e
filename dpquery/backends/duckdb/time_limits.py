"""Statements that take too long are interrupted: by one thread that watches over all of them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from dpquery.cancelling import interruptible

AGAIN = 0.05
"""Seconds after which what still runs is interrupted again: an engine forgets an interruption between two steps.

DuckDB forgets one that comes before a prepared statement begins (https://github.com/duckdb/duckdb-rs/pull/860, in 2.0).
Until it does not: then once is enough.
"""


class TimeLimitWatch:
    """What is to be interrupted and when, and a thread for it that lives until the last time limit has passed."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._changed = threading.Condition()
        self._alarms: dict[object, tuple[float, Callable[[], object]]] = {}
        self._wakes = 0.0
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def over(self, interrupt: Callable[[], object], seconds: float) -> Iterator[None]:
        """Calls `interrupt` if the block takes longer, and again until it ends; never once it has ended."""
        alarm, due = object(), time.monotonic() + seconds
        with self._changed:
            self._alarms[alarm] = due, interrupt
            if self._thread is None:
                self._wakes = due
                self._thread = threading.Thread(target=self._run, name="dpquery time limits", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._alarms.pop(alarm, None)

    def _run(self) -> None:
        with self._changed:
            while self._alarms:
                self._ring(time.monotonic())
                self._changed.wait(self._wakes - time.monotonic())
            self._thread = None

    def _ring(self, now: float) -> None:
        """Interrupts what is due. Nothing of it stays in the thread's frame, which may outlive the engine at exit."""
        for alarm, (due, interrupt) in list(self._alarms.items()):
            if due <= now:
                self._alarms[alarm] = now + AGAIN, interrupt
                with contextlib.suppress(Exception):  # a connection that was closed
                    interrupt()
        self._wakes = min((due for due, _ in self._alarms.values()), default=now)


_WATCH = TimeLimitWatch()


@contextlib.contextmanager
def time_limit(interrupt: Callable[[], object], seconds: float) -> Iterator[None]:
    """Calls `interrupt` if the block takes longer than so many seconds, or when its query is cancelled."""
    global _WATCH
    if _WATCH.process != os.getpid():  # a forked child has no threads but its own
        _WATCH = TimeLimitWatch()
    with _WATCH.over(interrupt, seconds), interruptible(interrupt):
        yield
