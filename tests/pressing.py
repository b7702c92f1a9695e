"""Ctrl-C, pressed while the engine runs a long statement."""

from __future__ import annotations

import gc
import os
import signal
import threading

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.cancelling import interruptible

LONG = "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(50000) b(i)"
"""For the engine: it runs for minutes, and sees no signal meanwhile."""


def long_statement(backend: DuckDBBackend, *_: object) -> None:
    """A long statement in place of a method of the backend. Ctrl-C is pressed while it runs."""
    cursor = backend._private.cursor()
    was_enabled = gc.isenabled()
    gc.disable()  # the first Python function that runs then raises; in a collection's callback that would be lost
    try:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with interruptible(cursor.interrupt):
            cursor.execute(LONG)
    finally:
        if was_enabled:
            gc.enable()
    raise AssertionError("it ran to its end")
