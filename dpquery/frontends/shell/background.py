"""Something that is opened while somebody types already: to load an engine takes longer than to show a prompt."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, Self, TypeVar

from dpquery.cancelling import Cancellation, cancellable

Opened = TypeVar("Opened")


class Opening(Generic[Opened]):
    """What is opened in a thread of its own. Used as a context, it is closed at the end, or its opening is given up.

    Args:
        opens: Returns the context of what is opened; it is entered in the thread.
    """

    def __init__(self, opens: Callable[[], AbstractContextManager[Opened]]) -> None:
        self._opens, self._stack = opens, contextlib.ExitStack()
        self._cancellation, self._has_ended = Cancellation(), threading.Event()
        self._opened: Opened | None = None
        self._then: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._open, name="dpquery opening", daemon=True)
        self.error: BaseException | None = None
        """Why it cannot be opened, where that is known."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.ident is None:
            return
        if not self._has_ended.is_set():
            self._cancellation.cancel()
        self._thread.join()
        self._stack.close()

    def start(self, then: Callable[[], object]) -> None:
        """Begins, if that was not done.

        Args:
            then: Called in the thread when it has ended, well or not.
        """
        if self._thread.ident is None:
            self._then = then
            self._thread.start()

    def _open(self) -> None:
        try:
            with cancellable(self._cancellation):
                self._opened = self._stack.enter_context(self._opens())
        except BaseException as error:
            self.error = error
        self._has_ended.set()
        self._then()

    @property
    def opened(self) -> Opened | None:
        """What was opened; None where it is not there yet, or cannot be had."""
        return self._opened

    def join(self) -> None:
        """Waits until it has ended, well or not."""
        self._has_ended.wait()

    def wait(self) -> Opened:
        """Returns what was opened when it is there. Raises what opening it raised."""
        self.join()
        if self.error is not None:
            raise self.error
        assert self._opened is not None
        return self._opened
