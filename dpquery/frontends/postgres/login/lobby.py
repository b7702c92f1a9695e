"""Sockets that have not logged in: how many wait, which of them has to go, and how soon a guess may be made again."""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dpquery.frontends.postgres.wire.channel import Channel

FREE = {"pair": 3, "user": 10, "address": 30}
"""Wrong passwords that cost no delay: of one user from one address, of one user, and from one address."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 4.0
"""Seconds; shorter than a login may take, so that a user with the password can still log in."""
HALF_LIFE = 60.0
"""Seconds in which half of the wrong passwords are forgotten."""
MOST_KNOWN = 10_000
"""Users and addresses that are remembered."""


@dataclass(slots=True)
class Lobby:
    """Sockets before their login, in two rooms: those that have said nothing yet, and those whose login goes on.

    When a room is full, the address with most sockets in it loses its oldest one. So a client that floods the server
    displaces its own sockets, as long as others come from other addresses, and silent sockets never displace a login.

    Attributes:
        most: Sockets in each room.
        silence: Seconds after which a socket that says nothing is closed.
    """

    most: int
    silence: float
    _silent: Sockets = field(default_factory=lambda: Sockets())
    _speaking: Sockets = field(default_factory=lambda: Sockets())
    _alarm: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Channel]:
        yield from [*self._silent, *self._speaking]

    def __len__(self) -> int:
        return len(self._silent) + len(self._speaking)

    def enter(self, channel: Channel) -> None:
        """Takes in a socket, which has said nothing."""
        if len(self._silent) >= self.most:
            self._close(self._silent.oldest_of_most())
        self._silent.add(channel)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self.silence / 4, self._look_round)

    def speak(self, channel: Channel) -> None:
        """Moves a socket that has begun to say who it is."""
        if self._silent.discard(channel):
            if len(self._speaking) >= self.most:
                self._close(self._speaking.oldest_of_most())
            self._speaking.add(channel)

    def leave(self, channel: Channel) -> None:
        """Forgets a socket that has logged in or is gone."""
        self._silent.discard(channel)
        self._speaking.discard(channel)

    def close(self) -> None:
        """Closes all of them."""
        for channel in self:
            self._close(channel)
        if self._alarm is not None:
            self._alarm.cancel()

    def _close(self, channel: Channel) -> None:
        self.leave(channel)
        channel.abort()

    def _look_round(self) -> None:
        """Closes who was silent for too long; looks again as long as there is anybody."""
        loop = asyncio.get_running_loop()
        for channel in list(self._silent):
            if loop.time() - channel.since >= self.silence:
                self._close(channel)
        self._alarm = loop.call_later(self.silence / 4, self._look_round) if len(self._silent) else None


class Sockets:
    """Sockets by network, each network's in the order in which they came."""

    def __init__(self) -> None:
        self._sockets: dict[str, OrderedDict[Channel, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Channel]:
        for sockets in self._sockets.values():
            yield from sockets

    def add(self, channel: Channel) -> None:
        """Takes in a socket."""
        self._sockets.setdefault(network_of(channel.address), OrderedDict())[channel] = None
        self._count += 1

    def discard(self, channel: Channel) -> bool:
        """Forgets a socket; says whether it was there."""
        network = network_of(channel.address)
        sockets = self._sockets.get(network)
        if sockets is None or channel not in sockets:
            return False
        del sockets[channel]
        self._count -= 1
        if not sockets:
            del self._sockets[network]
        return True

    def oldest_of_most(self) -> Channel:
        """Returns the oldest socket of the network that has most of them."""
        most = max(self._sockets, key=lambda network: len(self._sockets[network]))
        return next(iter(self._sockets[most]))


def network_of(address: str) -> str:
    """Returns what one client may have many addresses of: for IPv6 its first 64 bits."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


@dataclass(slots=True)
class PasswordGuesses:
    """Wrong passwords, and the delay that they cost the next login.

    They count for a user and an address together, and for each of both alone; where a user has logged in from an
    address before, only for both together. It is a delay, not a lock: a user with the password waits at most
    `LONGEST_DELAY`, and does not wait for what is guessed elsewhere.

    Attributes:
        clock: Seconds that only go forward.
    """

    clock: Callable[[], float]
    _wrong: OrderedDict[tuple[str, str, str], tuple[float, float]] = field(default_factory=OrderedDict)
    _right: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)

    def delay(self, address: str, user: str) -> float:
        """Returns the seconds that a login waits before its password is looked at."""
        network = network_of(address)
        kinds = ["pair"] if (network, user) in self._right else list(FREE)
        return max(_seconds(self._count(_key(kind, network, user)) - FREE[kind]) for kind in kinds)

    def wrong(self, address: str, user: str) -> None:
        """Counts a wrong password."""
        now, network = self.clock(), network_of(address)
        for kind in FREE:
            key = _key(kind, network, user)
            self._wrong[key] = self._count(key) + 1, now
            self._wrong.move_to_end(key)
        while len(self._wrong) > MOST_KNOWN:
            self._wrong.popitem(last=False)

    def right(self, address: str, user: str) -> None:
        """Remembers that a user logged in from an address."""
        self._right[network_of(address), user] = None
        self._right.move_to_end((network_of(address), user))
        while len(self._right) > MOST_KNOWN:
            self._right.popitem(last=False)

    def _count(self, key: tuple[str, str, str]) -> float:
        count, when = self._wrong.get(key, (0.0, 0.0))
        return count * math.pow(0.5, (self.clock() - when) / HALF_LIFE)


def _key(kind: str, network: str, user: str) -> tuple[str, str, str]:
    return kind, "" if kind == "user" else network, "" if kind == "address" else user


def _seconds(beyond: float) -> float:
    """Returns the delay for so many wrong passwords beyond those that are free: it doubles with each."""
    return 0.0 if beyond <= 0 else min(LONGEST_DELAY, FIRST_DELAY * math.pow(2.0, min(beyond, 20.0)))
