"""What users share: turns at the engine, turns at the threads that write rows, and memory for results."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from dpquery.frontends.postgres.wire.answers import NO_MEMORY, Described, Refusal, StatementAnswer

WRITERS = 4
"""Threads that write rows and read long texts."""
Made = TypeVar("Made")


@dataclass(slots=True)
class Turns:
    """Places that users take in turn: who has fewest comes first.

    Attributes:
        places: How many there are.
        per_user: The most that one user takes.
        reserve: How many of them only users take who have none.
    """

    places: int
    per_user: int
    reserve: int
    _taken: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, deque[asyncio.Future[None]]] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def busy(self) -> int:
        """How many places are taken."""
        return self._taken.total()

    def ask(self, user: str) -> asyncio.Future[None]:
        """Returns what is done once a place is the user's; the caller has to `leave` in any case."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._give()
        return turn

    def leave(self, user: str, turn: asyncio.Future[None]) -> None:
        """Gives a place back, or waits for it no longer."""
        has_place = turn.done() and not turn.cancelled() and turn.exception() is None
        if has_place:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
        else:
            self._forget(user, turn)
        self._give()

    def _forget(self, user: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(user, deque())
        if turn in queue:
            queue.remove(turn)
        if not queue:
            self._waiting.pop(user, None)

    def _give(self) -> None:
        """Gives free places to those who wait, as long as there is one for somebody."""
        while (user := min(filter(self._may, self._waiting), key=self._taken.__getitem__, default=None)) is not None:
            queue = self._waiting.pop(user)
            turn = queue.popleft()
            if queue:
                self._waiting[user] = queue  # behind the others
            if not turn.done():
                self._taken[user] += 1
                turn.set_result(None)

    def _may(self, user: str) -> bool:
        own, taken = self._taken[user], self._taken.total()
        return own < self.per_user and taken < (self.places - self.reserve if own else self.places)


class HeldBytes(bytearray):
    """Bytes of a result, which count as their user's until nothing refers to them any more."""

    release: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.release is not None:
            self.release()


@dataclass(slots=True)
class Room:
    """Memory for results that clients have not read or closed yet, in bytes.

    Results are forgotten in any thread and at any moment, also while one is counted here: what they give back is put
    aside without a lock, and counted later.
    """

    most: int
    per_user: int
    _held: Counter[str] = field(default_factory=Counter)
    _given_back: deque[tuple[str, int]] = field(default_factory=deque)

    @property
    def held(self) -> int:
        """How many bytes there are."""
        return self._held.total() - sum(size for _, size in self._given_back.copy())

    def take(self, user: str, size: int) -> HeldBytes:
        """Returns room for a result. Raises Refusal where the user, or the server, holds too much already."""
        self._count()
        if self._held[user] + size > self.per_user:
            message = f"the results of this user's connections take more than {self.per_user >> 20} MB together"
            hint = "Close cursors that are done, or ask for less. The charge is kept."
            raise Refusal(NO_MEMORY, message, hint=hint)
        if self._held.total() + size > self.most:
            message = f"the results of all connections take more than {self.most >> 20} MB together"
            raise Refusal(NO_MEMORY, message, hint="Ask again later. The charge is kept.")
        found = HeldBytes(size)
        self._held[user] += size
        found.release = partial(self._given_back.append, (user, size))
        return found

    def _count(self) -> None:
        """Takes off what was given back."""
        while self._given_back:
            user, size = self._given_back.popleft()
            self._held[user] -= size
            if not self._held[user]:
                del self._held[user]


# What always is the same: types of statements, and answers that read no data and no clock. They need no engine.

LONGEST = 4096
"""Characters of a statement and its parameters that are kept."""
MOST_OF_ONE = 128 << 10
MOST_OF_USER = 1 << 20
MOST_USERS = 64
"""Bytes of one answer, bytes of one user, and users: 64 MB in all."""
COLUMN, ENTRY = 256, 4 << 10
"""Bytes of the words about one column, and of all that is beside: settings, objects of Arrow; roughly."""
Key = tuple[object, ...]
Found = TypeVar("Found", StatementAnswer, Described)


@dataclass(slots=True)
class StatementCache:
    """Descriptions and answers by statement, each user's apart, so that no user displaces another's."""

    _users: OrderedDict[str, OrderedDict[tuple[type, Key], tuple[StatementAnswer | Described, int]]] = field(
        default_factory=OrderedDict
    )

    def find(self, user: str, key: Key, kind: type[Found]) -> Found | None:
        """Returns what was kept, or None."""
        of_user = self._users.get(user)
        if of_user is not None:
            self._users.move_to_end(user)
        found = None if of_user is None else of_user.get((kind, key))
        return found[0] if found is not None and isinstance(found[0], kind) else None

    def keep(self, user: str, key: Key, made: StatementAnswer | Described) -> None:
        """Keeps it, unless it is long; forgets what came first."""
        size = ENTRY + len(repr(key)) + COLUMN * len(made.fields)
        size += made.table.nbytes if isinstance(made, StatementAnswer) else 0
        if not key or size > MOST_OF_ONE:
            return
        of_user = self._users.setdefault(user, OrderedDict())
        self._users.move_to_end(user)
        of_user[type(made), key] = made, size
        while sum(size for _, size in of_user.values()) > MOST_OF_USER:
            of_user.popitem(last=False)
        if len(self._users) > MOST_USERS:
            self._users.popitem(last=False)


def key_of(text: str, given: tuple[object, ...], analyst: str, settings: Mapping[str, str], epoch: int) -> Key:
    """Returns all that an answer without data depends on; nothing where the statement is too long to be kept.

    Args:
        given: The OIDs or the values of its parameters; their form tells 1 from 1.0 and True.
        epoch: Changes when engines were started, as they then read the catalog again.
    """
    if len(text) > LONGEST or len(written := repr(given)) > LONGEST:
        return ()
    return text, written, analyst, tuple(sorted(settings.items())), epoch


@dataclass(slots=True)
class Shares:
    """What the connections of a server share.

    Attributes:
        statements: Turns at the engine.
        room: Memory for results.
        kept: What needs no engine.
    """

    statements: Turns
    room: Room
    kept: StatementCache = field(default_factory=StatementCache)
    _writing: Turns = field(default_factory=lambda: Turns(WRITERS, WRITERS // 2, 1))
    _writers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(WRITERS, "writer"))

    async def aside(self, user: str, work: Callable[..., Made], *given: Any) -> Made:
        """Does work that takes long in a thread, so that other users do not wait for it; users take turns."""
        turn = self._writing.ask(user)
        try:
            await turn
            return await asyncio.get_running_loop().run_in_executor(self._writers, work, *given)
        finally:
            self._writing.leave(user, turn)

    def close(self) -> None:
        """Ends the threads."""
        self._writers.shutdown(wait=False, cancel_futures=True)


def shares_of(threads: int, *, per_user: int | None, room: int) -> Shares:
    """Returns the shares of a server.

    Args:
        threads: Statements that the engine runs at once; a quarter of them is kept for users who run none.
        per_user: The most of them that one user runs, by default a quarter.
        room: Bytes for results, of which one user takes a quarter.
    """
    most = max(1, threads // 4) if per_user is None else min(per_user, threads)
    return Shares(Turns(threads, most, threads // 4), Room(room, room // 4))
