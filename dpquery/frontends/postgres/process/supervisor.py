"""One engine's process as the listener sees it: asked, cancelled, watched, and started again when it ends."""

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
from dpquery.frontends.postgres.process import serialization
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
LONG, WEIGHT = 1.0, 4
"""Seconds after which a statement counts as a long one, and as how many others it counts."""
DRAINING = 0.05
"""Seconds from one look to the next at whether a process that is replaced has answered what it was asked."""


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
class RunningRequest:
    """One request that runs. `cancel` ends it; `reason` is what its client is told.

    The client is told at the next tick of the server, a public grid of time, independent of the engine: when
    it stops, and whether it would have answered, may depend on data. `take` returns room for the table of its reply, or
    raises the Refusal of one for which there is none.

    Attributes:
        words: What is asked.
        is_long: Whether it may take long, as what its client asked last.
        send, begun: Sends more words to the process that was asked, if one was, and when that was, in the loop's time.
        after, tries: The process that answers has a higher number than this, as so many before had old data.
    """

    reply: asyncio.Future[Reply]
    tick: float
    take: Callable[[int], bytearray] = bytearray
    reason: Refusal | None = None
    words: dict[str, Any] = field(default_factory=dict)
    is_long: bool = False
    send: Callable[[dict[str, Any]], None] | None = None
    begun: float = 0.0
    after: int = 0
    tries: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the client waits for no process any more."""
        return self.reply.done() or self.reason is not None

    def cancel(self, reason: Refusal) -> None:
        """Asks the engine to stop, and waits for it no longer than to the next tick."""
        if not self.is_over:
            self.reason = reason
            if self.send is not None:
                self.send({"what": "cancel"})
            loop = asyncio.get_running_loop()
            loop.call_at((loop.time() // self.tick + 1) * self.tick, self._end)

    def answer(self, words: dict[str, Any], table: bytearray) -> None:
        """Takes the engine's reply, unless the client waits for the tick: whether one comes depends on the engine."""
        if not self.is_over:
            self.reply.set_result((words, table))

    def fail(self, refusal: Refusal) -> None:
        """Takes note that the engine has ended or cannot answer, unless the client waits for the tick."""
        if not self.is_over:
            self.reply.set_exception(refusal)

    def _end(self) -> None:
        if not self.reply.done() and self.reason is not None:
            self.reply.set_exception(self.reason)


@dataclass(slots=True, eq=False)
class Supervisor:
    """A process that answers, and another in its place when it ends.

    Attributes:
        number_of: Returns the number of a process that is started, of all of the server.
        came: Called when the process is ready.
        stale: Takes a call that is refused as the data have a new version.
        number: Of the process.
        restarts: How often the process has ended unexpectedly.
        is_ready: Whether it may be asked.
    """

    settings: SupervisorSettings
    number_of: Callable[[], int]
    came: Callable[[], None]
    stale: Callable[[Supervisor, RunningRequest, Refusal], None]
    about: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    restarts: int = 0
    is_ready: bool = False
    _is_leaving: bool = False
    _process: asyncio.subprocess.Process | None = None
    _writer: asyncio.StreamWriter | None = None
    _calls: dict[int, RunningRequest] = field(default_factory=dict)
    _given_up: set[int] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts it and waits until it can answer. Raises BackendError with the engine's own words where it cannot."""
        reader = await self._launch()
        self._watcher = asyncio.create_task(self._watch(reader))

    async def _launch(self) -> asyncio.StreamReader:
        self.number = self.number_of()
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
        self.is_ready = True
        self.came()
        return reader

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """Hands replies to those who wait; when the process ends, tells them, and starts another."""
        while True:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    await self._take_reply(reader)
            self.is_ready = False
            self._say_why(await self._end_process())
            calls, self._calls = list(self._calls.values()), {}
            for call in calls:
                call.fail(failed())
            self.restarts += 1
            if self._is_leaving:
                return
            reader = await self._start_again()

    async def _start_again(self) -> asyncio.StreamReader:
        delay = 0.1
        while True:
            try:
                return await self._launch()
            except (BackendError, OSError) as error:
                LOGGER.error("engine not started: %s", error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 30.0)

    async def _take_reply(self, reader: asyncio.StreamReader) -> None:
        """Reads one reply, and hands it to who waits for it; a table for which there is no room is read past."""
        number, words, size = await self._head(reader)
        self._given_up.discard(number)
        call = self._calls.get(number)
        if call is not None and words.get("is_stale"):
            del self._calls[number]
            self.stale(self, call, serialization.to_refusal(words))
            return
        table: bytearray | None = None
        if call is not None and not call.is_over:
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
        number, length, size = serialization.HEAD.unpack(await reader.readexactly(serialization.HEAD.size))
        if length + size > serialization.MOST_BYTES:
            raise OSError
        return number, json.loads(await reader.readexactly(length)), size

    def _say_why(self, code: int | None) -> None:
        """Tells the owner that an engine has ended unexpectedly."""
        how = "unknown" if code is None else f"signal={_signal_name(-code)}" if code < 0 else f"exit={code}"
        LOGGER.error("engine ended process=%s %s statements=%d", self.process, how, len(self._calls))

    def _write(self, number: int, words: dict[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(bytes(serialization.frame(number, words)[0]))

    def load(self, call: RunningRequest) -> tuple[bool, int, int]:
        """Returns less, the better it is to ask this process: whether the call would wait for a thread, and how many
        statements run, long ones counted as several; a long one is better asked where most other long ones run."""
        now = asyncio.get_running_loop().time()
        long = sum(now - one.begun > LONG or one.is_long for one in self._calls.values()) + len(self._given_up)
        running = len(self._calls) + len(self._given_up)
        return running >= self.settings.threads, -long if call.is_long else 0, running + long * (WEIGHT - 1)

    @property
    def calls(self) -> int:
        """How many statements run."""
        return len(self._calls)

    def run(self, call: RunningRequest) -> None:
        """Asks the process. It has to be ready."""
        number = next(self._numbers) % (1 << 32) or next(self._numbers)
        call.send, call.begun = lambda message: self._cancel(number, message), asyncio.get_running_loop().time()
        self._calls[number] = call
        self._write(number, call.words)

    def _cancel(self, number: int, message: dict[str, Any]) -> None:
        if number in self._calls and self._writer is not None:
            self._write(number, message)
            asyncio.get_running_loop().call_later(GRACE, self._lose, number, self._process)

    def _lose(self, number: int, process: asyncio.subprocess.Process | None) -> None:
        """Counts a thread whose statement was abandoned: where most are, another process takes over."""
        if number not in self._calls or process is not self._process:
            return
        del self._calls[number]
        self._given_up.add(number)
        if len(self._given_up) >= max(1, self.settings.threads // 2) and self._process is not None:
            self.is_ready = False  # who comes now waits for the next one
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def drain(self) -> None:
        """Waits until the process has answered what it was asked; it is asked nothing more, and not started again."""
        self.is_ready, self._is_leaving = False, True
        while self._calls:
            await asyncio.sleep(DRAINING)

    async def stop(self) -> None:
        """Ends the process; statements that run are cancelled."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        self.is_ready = False
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
