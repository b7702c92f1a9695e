"""The engine's processes as the listener sees them: asked, cancelled, watched, and started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dpquery.errors import BackendError
from dpquery.frontends.server import crossing
from dpquery.frontends.server.answers import Answered, Asked, Described, Refusal
from dpquery.frontends.server.worker import failed

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from dpquery.frontends.server.worker import main; main(int(sys.argv[2]))"
)
GRACE = 5.0
"""Seconds after which a cancelled statement is given up, though its thread still computes."""
PATIENCE = 15.0
"""Seconds that a statement waits for an engine that starts again."""


def ended() -> Refusal:
    """Returns the refusal of a statement during which the engine's process ended."""
    message = "the engine ended while it ran the statement; it starts again"
    return Refusal("58000", message, detail="A charge that was made stands.", hint="Ask again.")


def starting() -> Refusal:
    """Returns the refusal of a statement that comes while there is no engine."""
    return Refusal("57P03", "the engine is starting", hint="Ask again in a moment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How the engine is started.

    Attributes:
        factory: `module:name` of a `worker.Factory`.
        arguments: What it is called with, as JSON.
        threads: Statements that one process runs at once.
        most_rows: Rows of an answer.
    """

    factory: str
    arguments: dict[str, Any]
    threads: int = 16
    most_rows: int = 1_000_000


@dataclass(slots=True, eq=False)
class Call:
    """One request that runs. `cancel` is called by whoever wants it to end; `reason` is what its client is told."""

    _send: Callable[[dict[str, Any]], None]
    reply: asyncio.Future[tuple[dict[str, Any], bytes]]
    reason: Refusal | None = None

    def cancel(self, reason: Refusal) -> None:
        """Asks the engine to stop; it is given up where it does not."""
        if self.reason is None and not self.reply.done():
            self.reason = reason
            self._send({"what": "cancel"})
            asyncio.get_running_loop().call_later(GRACE, self._give_up)

    def _give_up(self) -> None:
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
        self._write(0, {**start, "threads": given.threads, "most_rows": given.most_rows})
        try:
            _, words, _ = await self._receive(reader)
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
                    number, words, table = await self._receive(reader)
                    self._given_up.discard(number)
                    call = self._calls.pop(number, None)
                    if call is not None and not call.reply.done():
                        call.reply.set_result((words, table))
            self._ready.clear()
            await self._end_process()
            calls, self._calls = list(self._calls.values()), {}
            for call in calls:
                if not call.reply.done():
                    call.reply.set_exception(ended())
            self.restarts += 1
            reader = await self._start_again()

    async def _start_again(self) -> asyncio.StreamReader:
        delay = 0.1
        while True:
            with contextlib.suppress(BackendError, OSError):
                return await self._launch()
            await asyncio.sleep(delay)
            delay = min(delay * 2, 30.0)

    @staticmethod
    async def _receive(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any], bytes]:
        number, length, size = crossing.HEAD.unpack(await reader.readexactly(crossing.HEAD.size))
        if length + size > crossing.MOST_BYTES:
            raise OSError
        return number, json.loads(await reader.readexactly(length)), await reader.readexactly(size)

    def _write(self, number: int, words: dict[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(bytes(crossing.frame(number, words)[0]))

    async def begin(self, words: dict[str, Any]) -> Call:
        """Sends a request and returns it as it runs."""
        if not self._ready.is_set():
            try:
                await asyncio.wait_for(self._ready.wait(), PATIENCE)
            except TimeoutError:
                raise starting() from None
        number = next(self._numbers) % (1 << 32) or next(self._numbers)
        call = Call(lambda message: self._cancel(number, message), asyncio.get_running_loop().create_future())
        self._calls[number] = call
        self._write(number, words)
        return call

    def _cancel(self, number: int, message: dict[str, Any]) -> None:
        if number in self._calls and self._ready.is_set():
            self._write(number, message)

    async def finish(self, call: Call) -> tuple[dict[str, Any], bytes]:
        """Waits for the reply. Raises the Refusal that it is, or the one that the call was cancelled for."""
        try:
            words, table = await asyncio.shield(call.reply)
        finally:
            if call.reply.done() and call.reply.exception() is not None:
                self._forget(call)
        if "refusal" in words:
            refusal = crossing.to_refusal(words)
            raise call.reason if call.reason is not None and refusal.sqlstate == "57014" else refusal
        return words, table

    def _forget(self, call: Call) -> None:
        """A statement was given up: where most threads compute for nobody, another process takes over."""
        for number, known in list(self._calls.items()):
            if known is call:
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

    async def _end_process(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), GRACE)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()

    @property
    def process(self) -> int | None:
        """The number of its process."""
        return None if self._process is None else self._process.pid


def describe_words(text: str, oids: tuple[int, ...], analyst: str, settings: dict[str, str]) -> dict[str, Any]:
    """Returns the request for a statement's types."""
    return {"what": "describe", "text": text, "oids": list(oids), "analyst": analyst, "settings": settings}


def ask_words(asked: Asked, *, is_explained: bool) -> dict[str, Any]:
    """Returns the request for an answer, or for its price."""
    parameters = [crossing.from_value(value) for value in asked.parameters]
    words = {"text": asked.text, "parameters": parameters, "analyst": asked.analyst, "settings": dict(asked.settings)}
    return {"what": "explain" if is_explained else "answer", **words}


def described_of(reply: tuple[dict[str, Any], bytes]) -> Described:
    """Returns the types in a reply."""
    return crossing.to_described(reply[0])


def answered_of(reply: tuple[dict[str, Any], bytes]) -> Answered:
    """Returns the answer in a reply."""
    try:
        return crossing.to_answered(*reply)
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError):
        raise failed() from None
