"""Which store a place names: a path, or the URL of a PostgreSQL database; and where its mark is kept.

docs/proofs/ledger.md.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpquery.errors import LedgerError
from dpquery.ledger import disk, file
from dpquery.ledger.mark import MarkFile
from dpquery.ledger.schema import Record
from dpquery.ledger.store import Store

Place = str | os.PathLike[str]
URLS = ("postgresql://", "postgres://")
BESIDE = (".mark", ".releases", ".releases-journal")
"""How the names of a ledger's other files end: its mark, unless it is kept elsewhere, and its store of answers."""


def is_url(place: Place) -> bool:
    """Whether a place is a database's, not a file's."""
    return isinstance(place, str) and place.startswith(URLS)


def store_at(place: Place) -> Store:
    """Returns the store at a place, which has to exist."""
    if is_url(place):
        from dpquery.ledger import postgres as server  # its driver is an extra

        return server.LedgerServer(str(place))
    return file.LedgerFile(disk.place(place))


def make_at(place: Place, founding: Record) -> None:
    """Makes a new store at a place, with its founding document; refuses a place where anything stands."""
    if is_url(place):
        from dpquery.ledger import postgres as server

        server.make(str(place), founding)
    else:
        file.make(disk.place(place), founding)


def check_free(place: Place, marks: MarkFile) -> None:
    """Raises LedgerError where a ledger stands at a place, or what a deleted one left, and says what to do."""
    path = None if is_url(place) else disk.place(place)
    if path is not None and os.path.lexists(path):
        raise LedgerError(f"{path} already exists; open it, or choose another path")
    names = [str(marks.path), *(f"{path}{end}" for end in BESIDE if path is not None)]
    left = [name for name in dict.fromkeys(names) if os.path.lexists(name)]
    if left:
        raise LedgerError(
            f"the ledger cannot be created beside what another one left: {' and '.join(left)}. If that belonged to a "
            "ledger that is lost, the losses it recorded would be forgotten and a new ledger would grant a full "
            "budget on top of them. Look for a copy of the ledger first; to start over, delete what is left"
        )


def mark_at(place: Place, kept: str) -> MarkFile:
    """Returns the mark of the ledger at a place: at the path that is given, or beside its file."""
    if not kept and is_url(place):
        raise LedgerError(
            "a ledger in PostgreSQL keeps its mark outside the server, so that a restored backup of the server is "
            "detected: name a file for it with mark= or --mark"
        )
    return MarkFile(Path(os.path.abspath(kept)) if kept else Path(f"{disk.place(place)}.mark"))


def mark_of(place: Place, founded: str, given: str) -> MarkFile:
    """Returns the mark of a ledger: where it was founded, or where the owner says that it was moved.

    Raises LedgerError where a file has both, as each would know some charges and not others.
    """
    known, moved = mark_at(place, founded), mark_at(place, given or founded)
    if not is_url(place) and os.path.realpath(known.path) != os.path.realpath(moved.path) and known.path.exists():
        raise LedgerError(
            f"a ledger has one mark, but both {known.path} and {moved.path} exist; delete or move the older one"
        )
    return moved
