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

from dpquery.cancelling import Cancellation, cancellable, is_cancellable


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
    def interrupted(*_: object) -> None:
        cancellation.cancel()
        raise KeyboardInterrupt

    read, write = os.pipe()
    os.set_blocking(write, False)
    thread = threading.Thread(target=_wait, args=(read, cancellation), daemon=True)
    thread.start()
    handler, wakes = signal.signal(signal.SIGINT, interrupted), signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGINT, handler)
        os.close(write)
        thread.join()
        os.close(read)


def _wait(read: int, cancellation: Cancellation) -> None:
    """Cancels when Ctrl-C arrives; ends when the other end of the pipe is closed."""
    while numbers := os.read(read, 1):
        if numbers[0] == signal.SIGINT:
            cancellation.cancel()
