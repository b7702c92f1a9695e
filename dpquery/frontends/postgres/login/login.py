"""From a client's first byte to a user who is known: encryption, SCRAM or a certificate, delegates."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from dpquery.frontends.postgres.commands.gucs import Settings, startup_settings
from dpquery.frontends.postgres.login.lobby import PasswordGuesses, network_of
from dpquery.frontends.postgres.login.scram import BOUND, PLAIN, Exchange, ScramError
from dpquery.frontends.postgres.login.shares import Turns
from dpquery.frontends.postgres.login.users import User, Users
from dpquery.frontends.postgres.wire import messages, wire
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.channel import Channel, Closed

NEWEST_MINOR = 2
PENALTY = 0.5
"""Seconds that a failed login waits for its answer."""


@dataclass(frozen=True, slots=True)
class Login:
    """A client that has proved who it is: the account, the user it asks as, and what it asked for at its start."""

    account: User
    user: User
    settings: Settings
    minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What decides who may come in.

    Attributes:
        tls: How connections are encrypted, or None.
        binding: The hash of the server's certificate.
        caps: The most that may be set, see `Settings`.
        databases: The names that may be asked for; empty for all.
        cancel: Called with what a request to cancel presents.
        named: Called with the name that is asked for.
        guesses: Wrong passwords, and what they cost.
        turns: Passwords that are looked at, at the same time, of one user from one address.
        needs_tls: Whether clients on the machine itself have to encrypt, too.
    """

    users: Users
    tls: ssl.SSLContext | None
    binding: bytes | None
    caps: dict[str, str]
    databases: frozenset[str]
    cancel: Callable[[Channel, wire.Cancel], None]
    named: Callable[[str], None]
    guesses: PasswordGuesses
    turns: Turns
    needs_tls: bool = False
    seconds: float = 10.0


async def log_in(channel: Channel, door: Door) -> Login | None:
    """Returns who has come, or None for a client that wanted something else and is done.

    Raises:
        Refusal: It may not come in; the connection has to end.
        wire.ProtocolError: It does not speak the protocol.
    """
    first = await _first(channel, door)
    if isinstance(first, wire.Cancel):
        door.cancel(channel, first)
        return None
    if not channel.is_tls and (door.needs_tls or not channel.is_local):
        raise Refusal("28000", "TLS is required", hint="Connect with sslmode=require or stronger.")
    parameters = first.parameters
    given = startup_settings(parameters)
    name = parameters.get("user", "")
    if not name:
        raise Refusal("28000", "no PostgreSQL user name specified in startup packet")
    if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise Refusal("0A000", "replication is not supported")
    unknown = [option for option in parameters if option.startswith("_pq_.")]
    if first.minor > NEWEST_MINOR or unknown:
        channel.write(messages.negotiate(min(first.minor, NEWEST_MINOR), unknown))
    login = given.pop("dpquery.login", name)
    door.named(login)
    account = await _in_turn(channel, door, login)
    user = await _as(account, name, door)
    database = parameters.get("database") or name
    if door.databases and database not in door.databases | {name, "postgres"}:
        raise Refusal("3D000", f'database "{database[:63]}" does not exist')
    settings = _settings(given, door, user)
    channel.write(messages.AUTHENTICATED)
    return Login(account, user, settings, min(first.minor, NEWEST_MINOR))


async def _first(channel: Channel, door: Door) -> wire.Startup | wire.Cancel:
    """Reads what begins a session, after at most one offer of TLS and one of GSSAPI."""
    asked: set[bool] = set()
    loop = asyncio.get_running_loop()
    end = loop.time() + door.seconds
    while True:
        packet = await channel.first()
        if not isinstance(packet, wire.Encryption):
            return packet
        if packet.is_tls in asked or channel.is_tls:
            raise wire.ProtocolError("encryption was asked for twice")
        asked.add(packet.is_tls)
        if channel.has_unread:
            # Clear text that follows may be an attacker's, and must never count as the client's (CVE-2021-23214).
            raise wire.ProtocolError("received unencrypted data after an encryption request")
        if packet.is_tls and door.tls is not None:
            await channel.start_tls(door.tls, end - loop.time())
        else:
            channel.write(b"N")


async def _in_turn(channel: Channel, door: Door, name: str) -> User:
    """Authenticates when it is the turn of this user from this address, and after what wrong passwords cost."""
    key = f"{network_of(channel.address)} {name}"
    turn = door.turns.ask(key)
    try:
        await turn
        await asyncio.sleep(door.guesses.delay(channel.address, name))
        account = await _authenticate(channel, door, name)
        door.guesses.right(channel.address, name)
        return account
    finally:
        door.turns.leave(key, turn)


async def _authenticate(channel: Channel, door: Door, name: str) -> User:
    user, verifier = await asyncio.to_thread(door.users.verifier, name)
    presented = channel.certificate_name
    if user is not None and user.certificate is not None and presented == user.certificate:
        return user
    binding = door.binding if channel.is_tls else None
    mechanisms = [PLAIN] if binding is None else [BOUND, PLAIN]
    channel.write(messages.sasl(messages.MECHANISMS, b"".join(map(messages.text, mechanisms)) + b"\0"))
    try:
        mechanism, data = _initial(await _password(channel))
        if mechanism not in mechanisms:
            raise ScramError
        exchange = Exchange(verifier, mechanism, binding)
        channel.write(messages.sasl(messages.CONTINUE, exchange.first(data)))
        final = exchange.final(await _password(channel))
        if user is None:
            raise ScramError
    except ScramError:
        door.guesses.wrong(channel.address, name)
        await asyncio.sleep(PENALTY)
        raise Refusal("28P01", f'password authentication failed for user "{name[:63]}"') from None
    channel.write(messages.sasl(messages.FINAL, final))
    return user


async def _password(channel: Channel) -> bytes:
    message = await channel.message(wire.MOST_BEFORE_LOGIN)
    if not isinstance(message, wire.Password):
        if message == wire.TERMINATE:
            raise Closed
        raise wire.ProtocolError("expected a response to the request for authentication")
    return message.data


def _initial(data: bytes) -> tuple[str, bytes]:
    """Reads the first response: the mechanism, and the client's first message."""
    mechanism, separator, rest = data.partition(b"\0")
    if not separator or len(rest) < 4 or int.from_bytes(rest[:4], "big") != len(rest) - 4:
        raise wire.ProtocolError("malformed SASL message")
    return mechanism.decode("ascii", errors="replace"), rest[4:]


async def _as(account: User, name: str, door: Door) -> User:
    """A delegate logs in with its own password and asks as the user that the startup packet names."""
    if name == account.name:
        return account
    user = await asyncio.to_thread(door.users.find, name) if account.may_act_for(name) else None
    if user is None:
        raise Refusal("28000", f'"{account.name[:63]}" may not act for "{name[:63]}"')
    return user


def _settings(given: dict[str, str], door: Door, user: User) -> Settings:
    settings = Settings(door.caps)
    settings.values["session_authorization"] = user.name
    for name, value in given.items():
        settings.set(name, value)
    settings.start = dict(settings.values)
    return settings


def new_key(minor: int) -> tuple[int, bytes]:
    """Returns a process number and the key that cancels what it runs."""
    return secrets.randbelow((1 << 31) - 1) + 1, secrets.token_bytes(32 if minor >= 2 else 4)
