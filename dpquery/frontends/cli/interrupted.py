"""What a command says when Ctrl-C ended its query."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpquery.cancelling import is_cancelled
from dpquery.frontends.cli.answer import say

if TYPE_CHECKING:
    from dpquery.session.session import Session


@contextlib.contextmanager
def left_if_interrupted(session: Session) -> Iterator[None]:
    """Says what is left if the query that runs meanwhile is interrupted: it may have been charged."""
    try:
        yield
    except BaseException:
        if is_cancelled():
            say(f"[interrupted; the charge is kept; left for {session.analyst}: {session.remaining}]")
        raise
