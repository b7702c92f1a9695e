"""A sign of life for work that takes over a second: that it goes on and for how long, nothing about the data."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator

AFTER = 1.0
"""Seconds before anything is shown."""
EVERY = 0.2


@contextlib.contextmanager
def working(label: str = "dpquery") -> Iterator[None]:
    """Shows a spinner while the block runs, if it runs long, a person looks on, and rich or tqdm is installed."""
    if not _is_watched():
        yield
        return
    spinner = _Spinner(label)
    spinner.start()
    try:
        yield
    finally:
        spinner.stop()


def _is_watched() -> bool:
    return _is_kernel() or bool(getattr(sys.stderr, "isatty", bool)())


def _is_kernel() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _Spinner:
    """Waits in a thread of its own; the block that it watches may hold the main one."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        if self._done.wait(AFTER):
            return
        show = _with_rich(self._label) or _with_tqdm(self._label)
        if show is not None:
            show(self._done)


def _with_rich(label: str) -> Callable[[threading.Event], None] | None:
    with contextlib.suppress(ImportError):
        console = importlib.import_module("rich.console").Console(stderr=True)

        def show(done: threading.Event) -> None:
            with console.status(f"{label}: working"):
                done.wait()

        return show
    return None


def _with_tqdm(label: str) -> Callable[[threading.Event], None] | None:
    with contextlib.suppress(ImportError):
        tqdm = importlib.import_module("tqdm").tqdm

        def show(done: threading.Event) -> None:
            with tqdm(desc=f"{label}: working", bar_format="{desc} {elapsed}", leave=False) as bar:
                while not done.wait(EVERY):
                    bar.update(0)
                    bar.refresh()

        return show
    return None
