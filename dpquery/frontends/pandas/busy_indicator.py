"""A sign of life for work that takes over a second: that it goes on and for how long, nothing about the data."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

AFTER = 1.0
"""Seconds before anything is shown."""


@contextlib.contextmanager
def working(label: str = "dpquery") -> Iterator[None]:
    """Shows a spinner while the block runs, if it runs long and a person looks on.

    The spinner waits in a thread of its own; the block may hold the main one.
    """
    if not _is_watched():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin_late, args=(label, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=1)


def _is_watched() -> bool:
    return _is_kernel() or bool(getattr(sys.stderr, "isatty", bool)())


def _is_kernel() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _spin_late(label: str, done: threading.Event) -> None:
    if not done.wait(AFTER):
        _spin(label, done)


def _spin(label: str, done: threading.Event) -> None:
    """Shows the spinner until the work is done."""
    from rich.console import Console

    with Console(stderr=True).status(f"{label}: working"):
        done.wait()
