"""Which store a place names: a path, or the URL of a PostgreSQL database; and where its mark is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger import file
from dpquery.ledger.mark import MarkFile
from dpquery.ledger.store import Connection, Store

Place = str | os.PathLike[str]
URLS = ("postgresql://", "postgres://")


def is_url(place: Place) -> bool:
    """Whether a place is a database's, not a file's."""
    return isinstance(place, str) and place.startswith(URLS)


def store_at(place: Place) -> Store:
    """Returns the store at a place, which has to exist."""
    if is_url(place):
        from dpquery.ledger import postgres as server  # its driver is an extra

        return server.LedgerServer(str(place))
    return file.LedgerFile(file.place(place))


def make_at(place: Place, fill: Callable[[Connection], None]) -> None:
    """Makes a new store at a place, filled in one transaction; refuses a place where anything stands."""
    if is_url(place):
        from dpquery.ledger import postgres as server

        server.make(str(place), fill)
    else:
        file.make(file.place(place), fill)


def mark_at(place: Place, kept: str) -> MarkFile:
    """Returns the mark of the ledger at a place: at the path that is given, or beside its file."""
    if not kept and is_url(place):
        raise LedgerError(
            "a ledger in PostgreSQL keeps its mark outside the server, so that a restored backup of the server is "
            "noticed: name a file for it, mark= or --mark"
        )
    return MarkFile(Path(os.path.abspath(kept)) if kept else Path(f"{file.place(place)}.mark"))
