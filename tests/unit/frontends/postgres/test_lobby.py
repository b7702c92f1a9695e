# mypy: disable-error-code="arg-type"
"""Sockets before their login, and what wrong passwords cost: who has to go, who waits how long, and who does not."""

from __future__ import annotations

import asyncio

import pytest

from dpquery.frontends.postgres.login.lobby import (
    FREE,
    HALF_LIFE,
    LONGEST_DELAY,
    MOST_KNOWN,
    Lobby,
    PasswordGuesses,
    network_of,
)


class Socket:
    """A socket that knows whether it was closed."""

    def __init__(self, address: str, since: float = 0.0) -> None:
        self.address, self.since, self.is_closed = address, since, False

    def abort(self) -> None:
        self.is_closed = True


def test_the_address_with_most_sockets_loses_its_oldest() -> None:
    async def run() -> None:
        lobby = Lobby(most=4, silence=60)
        few, many = Socket("10.0.0.1"), [Socket("10.0.0.2") for _ in range(1000)]
        lobby.enter(few)
        for socket in many:
            lobby.enter(socket)
        assert [socket.is_closed for socket in many] == [True] * 997 + [False] * 3
        assert not few.is_closed and len(lobby) == 4
        lobby.close()
        assert few.is_closed and len(lobby) == 0

    asyncio.run(run())


def test_silence_pushes_out_nobody_who_speaks() -> None:
    async def run() -> None:
        lobby = Lobby(most=2, silence=60)
        speaking = [Socket("10.0.0.1") for _ in range(2)]
        for socket in speaking:
            lobby.enter(socket)
            lobby.speak(socket)
        for _ in range(100):
            lobby.enter(Socket("10.0.0.1"))
        assert not any(socket.is_closed for socket in speaking) and len(lobby) == 4
        late = Socket("10.0.0.1")
        lobby.enter(late)
        lobby.speak(late)
        assert [socket.is_closed for socket in [*speaking, late]] == [True, False, False]
        lobby.leave(late)
        lobby.leave(late)
        assert len(lobby) == 2
        lobby.close()

    asyncio.run(run())


def test_who_says_nothing_is_closed_in_time() -> None:
    async def run() -> None:
        now = asyncio.get_running_loop().time()
        lobby = Lobby(most=10, silence=0.2)
        old, new, speaking = Socket("a", now - 1), Socket("b", now + 3600), Socket("c", now - 1)
        for socket in (old, new, speaking):
            lobby.enter(socket)
        lobby.speak(speaking)
        while not old.is_closed:
            await asyncio.sleep(0.01)
        assert not new.is_closed and not speaking.is_closed
        lobby.close()

    asyncio.run(run())


def test_ipv6_addresses_of_one_network_are_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("10.0.0.1") != network_of("10.0.0.2")


def test_wrong_passwords_cost_time_and_time_forgives() -> None:
    now = [0.0]
    guesses = PasswordGuesses(lambda: now[0])
    guesses.right("home", "alice")
    delays = []
    for _ in range(50):
        delays.append(guesses.delay("attacker", "alice"))
        guesses.wrong("attacker", "alice")
    assert delays[: FREE["pair"] + 1] == [0.0] * (FREE["pair"] + 1)
    assert delays == sorted(delays) and delays[-1] == LONGEST_DELAY
    assert guesses.delay("home", "alice") == 0.0  # it logged in from there before
    assert guesses.delay("elsewhere", "alice") == LONGEST_DELAY
    assert guesses.delay("attacker", "bob") == LONGEST_DELAY  # many guesses from one address
    assert guesses.delay("elsewhere", "bob") == 0.0
    now[0] += 10 * HALF_LIFE
    assert guesses.delay("attacker", "alice") == guesses.delay("elsewhere", "alice") == 0.0


@pytest.mark.parametrize("user", ["alice", ""])
def test_what_is_remembered_is_bounded(user: str) -> None:
    guesses = PasswordGuesses(lambda: 0.0)
    for i in range(2 * MOST_KNOWN):
        guesses.wrong(f"address {i}", f"{user}{i}")
        guesses.right(f"address {i}", f"{user}{i}")
    assert len(guesses._wrong) <= MOST_KNOWN and len(guesses._right) <= MOST_KNOWN
