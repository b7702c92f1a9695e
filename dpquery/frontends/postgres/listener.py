"""The server: listens, limits who and how many come in, keeps the engine running, and ends without loss."""

from __future__ import annotations

import asyncio
import hmac
import ssl
import time
from collections import Counter, deque
from dataclasses import dataclass, field

import pyarrow as pa

from dpquery.errors import CatalogError
from dpquery.frontends.postgres.commands.gucs import REPORTED
from dpquery.frontends.postgres.commands.transactions import Block
from dpquery.frontends.postgres.connection import ClientConnection
from dpquery.frontends.postgres.execution import Executor
from dpquery.frontends.postgres.login.lobby import Lobby, PasswordGuesses
from dpquery.frontends.postgres.login.login import Door, Login, log_in, new_key
from dpquery.frontends.postgres.login.shares import Shares, Turns, shares_of
from dpquery.frontends.postgres.login.users import Users
from dpquery.frontends.postgres.process.log import LOGGER, ConnectionLog, Counts
from dpquery.frontends.postgres.process.pool import Pool
from dpquery.frontends.postgres.wire import messages, wire
from dpquery.frontends.postgres.wire.answers import TOO_MANY, Field, Refusal, StatementAnswer
from dpquery.frontends.postgres.wire.channel import Channel, Closed
from dpquery.frontends.postgres.wire.columns import stored
from dpquery.frontends.postgres.wire.oids import TEXT
from dpquery.frontends.postgres.wire.rows import data_rows

BACKLOG = 4096
"""Connections that wait with the system."""
PASSWORDS = 4
"""Logins of one user from one address that go on at the same time, so that guesses come one after the other."""
MANY = 1 << 20
WRONG_CANCELS = 10
"""Wrong keys from one address within a minute, after which its requests to cancel are not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many, how long.

    Attributes:
        connections, connections_per_user: That are logged in.
        waiting: Sockets that say nothing, and sockets whose login goes on; beyond, see `Lobby`.
        statements_per_user: That one user runs at once, by default a quarter of the engine's threads.
        room: Bytes of results that clients have not read or closed yet; one user holds a quarter of them.
        handshake: Seconds from the first byte to the login; within half of them the first byte has to come.
        idle: Seconds of silence after it.
        statement: Seconds of one statement.
        patience: Seconds that a client may leave what was sent unread.
        drain: Seconds that statements get to finish when the server ends.
    """

    connections: int = 200
    connections_per_user: int = 100
    waiting: int = 512
    statements_per_user: int | None = None
    room: int = 512 << 20
    handshake: float = 10.0
    idle: float = 3600.0
    statement: float = 600.0
    patience: float = 60.0
    drain: float = 10.0


@dataclass(slots=True)
class Server:
    """A server over engines in other processes; connections, shares and counts are its own, whichever answers."""

    engine: Pool
    users: Users
    limits: Limits = field(default_factory=Limits)
    tls: ssl.SSLContext | None = None
    binding: bytes | None = None
    needs_tls: bool = False
    caps: dict[str, str] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    shares: Shares = field(init=False)
    _listener: asyncio.Server | None = None
    _lobby: Lobby = field(init=False)
    _guesses: PasswordGuesses = field(default_factory=lambda: PasswordGuesses(time.monotonic))
    _passwords: Turns = field(default_factory=lambda: Turns(MANY, PASSWORDS, 0))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _connections: dict[int, tuple[bytes, ClientConnection]] = field(default_factory=dict)
    _wrong_cancels: dict[str, deque[float]] = field(default_factory=dict)
    _is_ending: bool = False

    def __post_init__(self) -> None:
        limits, threads = self.limits, self.engine.settings.threads
        self.shares = shares_of(threads, per_user=limits.statements_per_user, room=limits.room)
        self._lobby = Lobby(limits.waiting, limits.handshake / 2)

    async def start(self, host: str, port: int) -> int:
        """Starts the engine, then listens; returns the port."""
        await self.engine.start()
        _warm_up()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Channel(self._accept, self._spoken, self._lobby.leave), host, port, backlog=64, reuse_address=True
        )
        for opened in self._listener.sockets:
            with opened.dup() as same:
                same.listen(BACKLOG)  # many wait with the system; asyncio accepts as many at once as its own backlog
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accepts no more connections, lets statements finish, ends connections and the engine."""
        self._is_ending = True
        if self._listener is not None:
            for opened in self._listener.sockets:
                asyncio.get_running_loop().remove_reader(opened.fileno())
            await asyncio.sleep(0)  # what was accepted is taken over before the listener is gone, and refused
            self._listener.close()
        self._lobby.close()
        for _, connection in list(self._connections.values()):
            connection.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.drain)
        for _, connection in list(self._connections.values()):
            connection.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.engine.stop()
        self.shares.close()

    @property
    def open(self) -> int:
        """How many clients are logged in."""
        return len(self._connections)

    # Connections.

    def _accept(self, channel: Channel) -> None:
        if self._is_ending:
            channel.abort()
            return
        self._lobby.enter(channel)

    def _spoken(self, channel: Channel) -> None:
        self._lobby.speak(channel)
        task = asyncio.get_running_loop().create_task(self._serve(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, channel: Channel) -> None:
        log = ConnectionLog(self.counts, channel.address)
        try:
            login = await self._log_in(channel, log)
            if login is not None:
                await self._run(channel, login, log)
        except Closed:
            pass
        except Exception as error:
            log.defect(error)
        finally:
            self._lobby.leave(channel)
            channel.close()

    async def _log_in(self, channel: Channel, log: ConnectionLog) -> Login | None:
        names = [""]
        door = Door(
            users=self.users,
            tls=self.tls,
            binding=self.binding,
            caps=self.caps,
            databases=frozenset(filter(None, [self.engine.about.get("dataset")])),
            cancel=self._cancel,
            named=names.append,
            guesses=self._guesses,
            turns=self._passwords,
            needs_tls=self.needs_tls,
            seconds=self.limits.handshake,
        )
        refusal: Refusal
        try:
            async with asyncio.timeout(self.limits.handshake):
                login = await log_in(channel, door)
            if login is not None:
                self._check_room(login)
            return login
        except TimeoutError:
            refusal = Refusal("57014", "the login took too long")
        except wire.ProtocolError as error:
            refusal = Refusal("08P01", str(error))
        except CatalogError:
            refusal = Refusal("58000", "the users' file cannot be read")
        except Refusal as found:
            refusal = found
        log.rejected(refusal.sqlstate, names[-1])
        channel.write(messages.error(refusal, "FATAL"))
        return None

    def _check_room(self, login: Login) -> None:
        if self._is_ending:
            raise Refusal("57P03", "the server is shutting down")
        names = Counter(connection.executor.login.name for _, connection in self._connections.values())
        if names[login.account.name] >= self.limits.connections_per_user:
            hint = f"One user has at most {self.limits.connections_per_user} connections; close some."
            raise Refusal(TOO_MANY, f'too many connections for role "{login.account.name}"', hint=hint)
        if len(self._connections) >= self.limits.connections:
            hint = f"The server has at most {self.limits.connections} connections; try again later."
            raise Refusal(TOO_MANY, "sorry, too many clients already", hint=hint)

    async def _run(self, channel: Channel, login: Login, log: ConnectionLog) -> None:
        self._lobby.leave(channel)
        channel.is_known = True
        connection = self._connection(channel, login, log)
        process, key = new_key(login.minor)
        while process in self._connections:
            process, key = new_key(login.minor)
        self._connections[process] = key, connection
        channel.on_lost = connection.cancel
        application = login.settings.values["application_name"]
        log.connected(login.account, login.user, is_tls=channel.is_tls, application=application)
        try:
            for name, spelled in REPORTED.items():
                channel.write(messages.parameter_status(spelled, login.settings.values[name]))
            channel.write(messages.backend_key(process, key))
            await connection.serve()
        finally:
            del self._connections[process]
            log.disconnected()

    def _connection(self, channel: Channel, login: Login, log: ConnectionLog) -> ClientConnection:
        def heard(answered: StatementAnswer, seconds: float) -> None:
            log.answered(executor.user, answered, seconds)

        executor = Executor(
            engine=self.engine,
            block=Block(login.settings, lambda name, value: connection.report(name, value)),
            user=login.user,
            login=login.account,
            find_user=self.users.find,
            heard=heard,
            shares=self.shares,
            timeout=self.limits.statement,
        )
        connection = ClientConnection(channel, executor, log, self.limits.idle, self.limits.patience)
        return connection

    def _cancel(self, channel: Channel, request: wire.Cancel) -> None:
        """Cancels what a connection runs if the key is right; says nothing in any case."""
        now = asyncio.get_running_loop().time()
        wrong = self._wrong_cancels.setdefault(channel.address, deque(maxlen=WRONG_CANCELS))
        if len(wrong) == WRONG_CANCELS and now - wrong[0] < 60:
            return
        key, connection = self._connections.get(request.process, (b"", None))
        if hmac.compare_digest(key, request.key) and connection is not None:
            connection.cancel()
            return
        wrong.append(now)
        if len(self._wrong_cancels) > 10_000:
            self._wrong_cancels.clear()
        LOGGER.info("rejected cancel address=%s", channel.address)


def _warm_up() -> None:
    """Writes a row, so that the libraries which that needs are loaded before anybody waits."""
    field = Field(name="a", oid=TEXT)
    table = stored(pa.table({"a": ["a"]}), (field,))
    for _ in (*data_rows(table, (field,), (0,)), *data_rows(table, (field,), (1,))):
        pass
