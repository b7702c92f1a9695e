"""A query that somebody else may stop: which statement of an engine it runs, so that it can be interrupted.

Who answers a query runs it `with cancellable(cancellation)`; code that runs a statement for it does so
`with interruptible(interrupt)`; and any thread may call `cancellation.cancel()`. The charge is kept.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from dpquery.errors import QueryCancelledError

AGAIN = 0.02
"""Seconds after which a statement is interrupted again: an interrupt that comes before it has begun is lost."""

ENDED_BY_KEYBOARD = "Query interrupted"
"""What DuckDB says, in a RuntimeError, of a statement that Ctrl-C ended."""


class Cancellation:
    """Whether one query was cancelled, and what it runs just now. Safe to share between threads."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._guard = threading.Lock()
        self._running: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Stops the query: what it runs is interrupted, again and again until it has ended, and nothing more begins."""
        if not self._event.is_set():
            self._event.set()
            threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        while True:
            with self._guard:
                if not self._running:
                    return
                for interrupt in list(self._running):
                    try:
                        interrupt()
                    except Exception:  # its connection is closed
                        self._running.remove(interrupt)
            threading.Event().wait(AGAIN)

    @contextlib.contextmanager
    def running(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Knows, meanwhile, how to interrupt a statement. Raises QueryCancelledError where it is too late to begin."""
        with self._guard:
            if self._event.is_set():
                raise QueryCancelledError("the query was cancelled")
            self._running.append(interrupt)
        try:
            yield
        finally:
            with self._guard, contextlib.suppress(ValueError):  # it was closed, and is not there any more
                self._running.remove(interrupt)


_CURRENT: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextlib.contextmanager
def cancellable(cancellation: Cancellation) -> Iterator[None]:
    """Makes what this thread asks meanwhile end when `cancellation` is cancelled."""
    token = _CURRENT.set(cancellation)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[None]:
    """Lets a cancellation call `interrupt` meanwhile.

    Raises:
        KeyboardInterrupt: Ctrl-C ended the statement, which the engine tells in an error of its own.
    """
    current = _CURRENT.get()
    try:
        with contextlib.nullcontext() if current is None else current.running(interrupt):
            yield
    except RuntimeError as error:
        if str(error) == ENDED_BY_KEYBOARD:
            raise KeyboardInterrupt from None
        raise


def is_cancellable() -> bool:
    """Whether somebody may cancel the query that this thread answers."""
    return _CURRENT.get() is not None


def is_cancelled() -> bool:
    """Whether the query that this thread answers was cancelled."""
    current = _CURRENT.get()
    return current is not None and current.is_cancelled


def check_cancelled() -> None:
    """Raises QueryCancelledError if the query that this thread answers was cancelled; called before it is charged."""
    if is_cancelled():
        raise QueryCancelledError("the query was cancelled; nothing was charged")
