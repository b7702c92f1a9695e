"""Waiting for what happens in another thread or process: for the condition itself, never for a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a condition that does not come true has failed, on however busy a machine."""
PAUSE = threading.Event()


def wait_until(condition: Callable[[], object], what: str = "what was waited for", seconds: float = PATIENCE) -> None:
    """Returns as soon as a condition is true; raises AssertionError after very long."""
    turns = int(seconds / 0.02)
    for _ in range(turns):
        if condition():
            return
        PAUSE.wait(0.02)
    raise AssertionError(f"{what} did not happen in {seconds:g} seconds")
