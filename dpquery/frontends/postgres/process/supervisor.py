"""The engine's processes as the listener sees them: asked, cancelled, watched, and started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpquery.errors import BackendError
from dpquery.frontends.postgres.process import crossing
from dpquery.frontends.postgres.process.log import LOGGER
from dpquery.frontends.postgres.wire.answers import Refusal, failed

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from dpquery.frontends.postgres.process.worker import main; main(int(sys.argv[2]))"
)
Reply = tuple[dict[str, Any], bytearray]
"""The words of a reply, and its table."""
AT_ONCE = 1 << 18
"""Bytes of a table that are read at once."""
GRACE = 5.0
"""Seconds after which the thread of a cancelled statement counts as lost, as it still computes."""
PATIENCE = 15.0
"""Seconds that a statement waits for an engine that starts again."""


def starting() -> Refusal:
    """Returns the refusal of a statement that comes while no engine runs."""
    return Refusal("57P03", "the engine is starting", hint="Ask again in a moment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How the engine is started.

    Attributes:
        factory: `module:name` of a `worker.Factory`.
        arguments: What it is called with, as JSON.
        threads: Statements that one process runs at once.
        most_rows, most_bytes: Of an answer.
        tick: Seconds from one moment to the next at which cancelled statements end.
    """

    factory: str
    arguments: dict[str, Any]
    threads: int = 16
    most_rows: int = 1_000_000
    most_bytes: int = 128 << 20
    tick: float = 0.25


@dataclass(slots=True, eq=False)
class Call:
    """One request that runs. `cancel` ends it; `reason` is what its client is told.

    The client is told at the next tick of the server, a public grid of time, independent of the engine: when
    it stops, and whether it would have answered, may depend on data. `take` returns room for the table of its reply, or
    raises the Refusal of one for which there is none.
    """

    _send: Callable[[dict[str, Any]], None]
    reply: asyncio.Future[Reply]
    tick: float
    take: Callable[[int], bytearray] = bytearray
    reason: Refusal | None = None

    def cancel(self, reason: Refusal) -> None:
        """Asks the engine to stop, and waits for it no longer than to the next tick."""
        if self.reason is None and not self.reply.done():
            self.reason = reason
            self._send({"what": "cancel"})
            loop = asyncio.get_running_loop()
            loop.call_at((loop.time() // self.tick + 1) * self.tick, self._end)

    def answer(self, words: dict[str, Any], table: bytearray) -> None:
        """Takes the engine's reply, unless the client waits for the tick: whether one comes depends on the engine."""
        if not self.reply.done() and self.reason is None:
            self.reply.set_result((words, table))

    def fail(self) -> None:
        """Takes note that the engine has ended, unless the client waits for the tick."""
        if not self.reply.done() and self.reason is None:
            self.reply.set_exception(failed())

    def _end(self) -> None:
        if not self.reply.done() and self.reason is not None:
            self.reply.set_exception(self.reason)


@dataclass(slots=True)
class Supervisor:
    """A process that answers, and another in its place when it ends."""

    settings: SupervisorSettings
    about: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    _process: asyncio.subprocess.Process | None = None
    _writer: asyncio.StreamWriter | None = None
    _calls: dict[int, Call] = field(default_factory=dict)
    _given_up: set[int] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts it and waits until it can answer. Raises BackendError with the engine's own words where it cannot."""
        reader = await self._launch()
        self._watcher = asyncio.create_task(self._watch(reader))

    async def _launch(self) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = ("-P", "-c", START, json.dumps(sys.path), str(theirs.fileno()))
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, pass_fds=[theirs.fileno()], stdin=asyncio.subprocess.DEVNULL
            )
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=1 << 22)
        given = self.settings
        start = {"factory": given.factory, "arguments": given.arguments}
        limits = {"threads": given.threads, "most_rows": given.most_rows, "most_bytes": given.most_bytes}
        self._write(0, {**start, **limits})
        try:
            _, words, _ = await self._head(reader)
        except (OSError, EOFError):
            words = {"failed": "the engine's process ended while it started"}
        if "failed" in words:
            await self._end_process()
            raise BackendError(words["failed"])
        self.about = words["about"]
        self._given_up.clear()
        self._ready.set()
        return reader

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """Hands replies to those who wait; when the process ends, tells them, and starts another."""
        while True:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    await self._take_reply(reader)
            self._ready.clear()
            self._say_why(await self._end_process())
            calls, self._calls = list(self._calls.values()), {}
            for call in calls:
                call.fail()
            self.restarts += 1
            reader = await self._start_again()

    async def _start_again(self) -> asyncio.StreamReader:
        delay = 0.1
        while True:
            with contextlib.suppress(BackendError, OSError):
                return await self._launch()
            await asyncio.sleep(delay)
            delay = min(delay * 2, 30.0)

    async def _take_reply(self, reader: asyncio.StreamReader) -> None:
        """Reads one reply, and hands it to who waits for it; a table for which there is no room is read past."""
        number, words, size = await self._head(reader)
        self._given_up.discard(number)
        call = self._calls.get(number)
        table: bytearray | None = None
        if call is not None and not call.reply.done() and call.reason is None:
            try:
                table = call.take(size)
            except Refusal as refusal:
                call.reply.set_exception(refusal)
                del self._calls[number]
        place = 0
        while place < size:
            part = await reader.read(min(size - place, AT_ONCE))
            if not part:
                raise EOFError
            if table is not None:
                table[place : place + len(part)] = part
            place += len(part)
        self._calls.pop(number, None)
        if call is not None and table is not None:
            call.answer(words, table)

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any], int]:
        """Reads the number, the words and the size of the table of a reply."""
        number, length, size = crossing.HEAD.unpack(await reader.readexactly(crossing.HEAD.size))
        if length + size > crossing.MOST_BYTES:
            raise OSError
        return number, json.loads(await reader.readexactly(length)), size

    def _say_why(self, code: int | None) -> None:
        """Tells the owner that an engine has ended unexpectedly."""
        how = "unknown" if code is None else f"signal={_signal_name(-code)}" if code < 0 else f"exit={code}"
        LOGGER.error("engine ended process=%s %s statements=%d", self.process, how, len(self._calls))

    def _write(self, number: int, words: dict[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(bytes(crossing.frame(number, words)[0]))

    async def begin(self, words: dict[str, Any], take: Callable[[int], bytearray] = bytearray) -> Call:
        """Sends a request and returns it as it runs; `take` makes room for its table."""
        if not self._ready.is_set():
            try:
                await asyncio.wait_for(self._ready.wait(), PATIENCE)
            except TimeoutError:
                raise starting() from None
        number = next(self._numbers) % (1 << 32) or next(self._numbers)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        call = Call(lambda message: self._cancel(number, message), reply, self.settings.tick, take)
        self._calls[number] = call
        self._write(number, words)
        return call

    def _cancel(self, number: int, message: dict[str, Any]) -> None:
        if number in self._calls and self._ready.is_set():
            self._write(number, message)
            asyncio.get_running_loop().call_later(GRACE, self._lose, number, self._process)

    async def finish(self, call: Call) -> Reply:
        """Waits for the reply. Raises the Refusal that it is, or the one that the call was cancelled for."""
        words, table = await asyncio.shield(call.reply)
        if "refusal" in words:
            raise crossing.to_refusal(words)
        return words, table

    def _lose(self, number: int, process: asyncio.subprocess.Process | None) -> None:
        """Counts a thread whose statement was abandoned: where most are, another process takes over."""
        if number not in self._calls or process is not self._process:
            return
        del self._calls[number]
        self._given_up.add(number)
        if len(self._given_up) >= max(1, self.settings.threads // 2) and self._process is not None:
            self._ready.clear()  # who comes now waits for the next one
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def stop(self) -> None:
        """Ends the engine, after it has finished what it was asked."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        self._ready.clear()
        await self._end_process()

    async def _end_process(self) -> int | None:
        """Ends the process; returns its exit code, or the number of the signal that ended it, below 0."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if self._process is None:
            return None
        try:
            await asyncio.wait_for(self._process.wait(), GRACE)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        return self._process.returncode

    @property
    def process(self) -> int | None:
        """The number of its process."""
        return None if self._process is None else self._process.pid


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
