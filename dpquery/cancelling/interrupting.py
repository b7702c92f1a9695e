"""Ctrl-C while a query runs: the engine is stopped at once.

An engine that runs a long statement does not see Ctrl-C by itself: Python calls its own handler only between two of its
instructions. So a thread waits for the signal, and stops the statement that runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from functools import lru_cache

from dpquery.cancelling import Cancellation, cancellable, is_cancellable

CAUGHT_UP = 0
"""The number of no signal."""


@contextlib.contextmanager
def interruptible_work() -> Iterator[None]:
    """Makes Ctrl-C stop what the engine runs meanwhile. Any error that this raises becomes a KeyboardInterrupt.

    It does so in the main thread, which alone learns of signals, and where the program has left Ctrl-C as Python has
    it. Where somebody else may cancel the work, or handles signals, nothing changes.
    """
    if is_cancellable() or not _is_ours():
        yield
        return
    cancellation = Cancellation()
    try:
        with cancellable(cancellation), _signals(cancellation):
            yield
    except BaseException:
        if cancellation.is_cancelled:
            raise KeyboardInterrupt from None
        raise


def _is_ours() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    wakes = signal.set_wakeup_fd(-1)
    if wakes == -1:
        return True
    signal.set_wakeup_fd(wakes)  # of an event loop, which would miss its signals meanwhile
    return False


@contextlib.contextmanager
def _signals(cancellation: Cancellation) -> Iterator[None]:
    watcher = _watcher(os.getpid())

    def interrupted(*_: object) -> None:
        watcher.is_pressed = True
        cancellation.cancel()
        raise KeyboardInterrupt

    if watcher.is_pressed:
        watcher.catch_up()
    watcher.watched = cancellation
    handler = signal.signal(signal.SIGINT, interrupted)
    wakes = signal.set_wakeup_fd(watcher.write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGINT, handler)
        watcher.watched = None


class _Watcher:
    """A thread that cancels what is watched when Ctrl-C arrives; between two signals it sleeps.

    There is one for the process, as to start and to end one takes longer than a query where other threads are busy.
    """

    def __init__(self) -> None:
        self.watched: Cancellation | None = None
        self.is_pressed = False
        self._caught_up = threading.Event()
        self._read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        threading.Thread(target=self._wait, name="dpquery Ctrl-C", daemon=True).start()

    def catch_up(self) -> None:
        """Waits until all signals of what was watched before are dealt with, so that none stops what comes next."""
        self._caught_up.clear()
        os.write(self.write, bytes([CAUGHT_UP]))
        self._caught_up.wait()
        self.is_pressed = False

    def _wait(self) -> None:
        while numbers := os.read(self._read, 1):
            if numbers[0] == CAUGHT_UP:
                self._caught_up.set()
            elif numbers[0] == signal.SIGINT and self.watched is not None:
                self.watched.cancel()


@lru_cache(maxsize=1)
def _watcher(process: int) -> _Watcher:
    """Returns the watcher of a process; a fork has no threads of the one before."""
    return _Watcher()
