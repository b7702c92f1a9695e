"""What always is the same: types of statements, and answers that read no data and no clock. They need no engine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dpquery.frontends.postgres.wire.answers import Answered, Described

LONGEST = 4096
"""Characters of a statement and its parameters that are kept."""
MOST_OF_ONE = 128 << 10
MOST_OF_USER = 1 << 20
MOST_USERS = 64
"""Bytes of one answer, bytes of one user, and users: 64 MB in all."""
COLUMN, ENTRY = 256, 4 << 10
"""Bytes of the words about one column, and of all that is beside: settings, objects of Arrow; roughly."""
Key = tuple[object, ...]
Made = TypeVar("Made", Answered, Described)


@dataclass(slots=True)
class Kept:
    """Descriptions and answers by statement, each user's apart, so that no user displaces another's."""

    _users: OrderedDict[str, OrderedDict[tuple[type, Key], tuple[Answered | Described, int]]] = field(
        default_factory=OrderedDict
    )

    def find(self, user: str, key: Key, kind: type[Made]) -> Made | None:
        """Returns what was kept, or None."""
        of_user = self._users.get(user)
        if of_user is not None:
            self._users.move_to_end(user)
        found = None if of_user is None else of_user.get((kind, key))
        return found[0] if found is not None and isinstance(found[0], kind) else None

    def keep(self, user: str, key: Key, made: Answered | Described) -> None:
        """Keeps it, unless it is long; forgets what came first."""
        size = ENTRY + len(repr(key)) + COLUMN * len(made.fields)
        size += made.table.nbytes if isinstance(made, Answered) else 0
        if not key or size > MOST_OF_ONE:
            return
        of_user = self._users.setdefault(user, OrderedDict())
        self._users.move_to_end(user)
        of_user[type(made), key] = made, size
        while sum(size for _, size in of_user.values()) > MOST_OF_USER:
            of_user.popitem(last=False)
        if len(self._users) > MOST_USERS:
            self._users.popitem(last=False)


def key_of(text: str, given: tuple[object, ...], analyst: str, settings: Mapping[str, str], restarts: int) -> Key:
    """Returns all that an answer without data depends on; nothing where the statement is too long to be kept.

    Args:
        given: The OIDs or the values of its parameters; their form tells 1 from 1.0 and True.
        restarts: How often the engine has started again, as it then reads its catalog again.
    """
    if len(text) > LONGEST or len(written := repr(given)) > LONGEST:
        return ()
    return text, written, analyst, tuple(sorted(settings.items())), restarts
