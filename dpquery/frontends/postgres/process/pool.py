"""The engines of a server: which one answers, and how they are replaced one by one while clients stay connected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dpquery.errors import BackendError
from dpquery.frontends.postgres.process import serialization
from dpquery.frontends.postgres.process.log import LOGGER
from dpquery.frontends.postgres.process.supervisor import Reply, RunningRequest, Supervisor, SupervisorSettings
from dpquery.frontends.postgres.wire.answers import Refusal

PATIENCE = 15.0
"""Seconds that a statement waits for an engine that starts again."""
PAUSE = 2.0
"""Seconds from one try to start a process for new data to the next."""
TRIES = 3
"""New versions of the data that come while one statement waits for them."""


def starting() -> Refusal:
    """Returns the refusal of a statement that comes while no engine runs."""
    return Refusal("57P03", "the engine is starting", hint="Ask again in a moment.")


@dataclass(slots=True, eq=False)
class Pool:
    """So many processes, each of which holds the data and can answer any statement.

    What connections hold (settings, prepared statements, cursors with their rows) is not theirs, so another process can
    take the place of each.

    Attributes:
        settings: Of all processes together; each has its part of the threads.
        workers: How many there are.
        epoch: Changes whenever another process may answer, from declarations that it has read anew.
    """

    settings: SupervisorSettings
    workers: int = 1
    epoch: int = 0
    _engines: list[Supervisor] = field(default_factory=list)
    _started: set[Supervisor] = field(default_factory=set)
    _waiting: dict[RunningRequest, Refusal] = field(default_factory=dict)
    _last: int = 0
    _old: int = 0
    _replacing: asyncio.Task[None] | None = None
    _ended: int = 0

    @property
    def about(self) -> dict[str, Any]:
        """What the engines say of themselves."""
        return self._engines[0].about if self._engines else {}

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes that can answer."""
        return [one.process for one in self._engines if one.is_ready and one.process is not None]

    @property
    def restarts(self) -> int:
        """How many processes have ended unexpectedly."""
        return self._ended + sum(one.restarts for one in self._started)

    async def start(self) -> None:
        """Starts them and waits until all can answer. Raises BackendError with the engine's words where one cannot."""
        engines = [self._engine() for _ in range(self.workers)]
        for failure in filter(None, await asyncio.gather(*(one.start() for one in engines), return_exceptions=True)):
            await self.stop()
            raise failure
        self._engines = engines

    async def stop(self) -> None:
        """Ends them all; statements that run are cancelled."""
        if self._replacing is not None:
            self._replacing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._replacing
        await asyncio.gather(*map(self._end, list(self._started)))

    def _engine(self) -> Supervisor:
        settings = replace(self.settings, threads=-(-self.settings.threads // self.workers))
        made = Supervisor(settings, number_of=self._count, came=self._came, stale=self._is_stale)
        self._started.add(made)
        return made

    def _count(self) -> int:
        self._last += 1
        return self._last

    async def _end(self, engine: Supervisor) -> None:
        await engine.stop()
        self._started.discard(engine)
        self._ended += engine.restarts

    # Asking.

    def begin(
        self, words: dict[str, Any], take: Callable[[int], bytearray] = bytearray, *, is_long: bool = False
    ) -> RunningRequest:
        """Returns a request that runs, or waits for a process; the arguments are as of `RunningRequest`."""
        loop = asyncio.get_running_loop()
        call = RunningRequest(loop.create_future(), self.settings.tick, take, words=words, is_long=is_long)
        if not self._ask(call):
            self._waiting[call] = starting()
            loop.call_later(PATIENCE, self._give_up, call)
        return call

    @staticmethod
    async def finish(call: RunningRequest) -> Reply:
        """Waits for the reply. Raises the Refusal that it is, or the one that the call was cancelled for."""
        words, table = await asyncio.shield(call.reply)
        if "refusal" in words:
            raise serialization.to_refusal(words)
        return words, table

    def _ask(self, call: RunningRequest) -> bool:
        """Asks the process that suits best, of those that are to stay if there is one; says whether it did."""
        ready = [one for one in self._engines if one.is_ready]
        chosen = [one for one in ready if one.number > self._old] or ready
        fitting = [one for one in chosen if one.number > call.after]
        if fitting:
            min(fitting, key=lambda one: one.load(call)).run(call)
        return bool(fitting)

    def _came(self) -> None:
        """Asks what waits, where a process can answer it now."""
        self.epoch += 1
        for call in list(self._waiting):
            if call.is_over or self._ask(call):
                del self._waiting[call]

    def _give_up(self, call: RunningRequest) -> None:
        """Refuses what still waits."""
        if (why := self._waiting.pop(call, None)) is not None:
            call.fail(why)

    # Replacing.

    def renew(self) -> None:
        """Replaces all processes, one by one, by new ones, which read declarations and data anew.

        What runs ends where it began. Where none can be started, the old ones go on, and the log says why.
        """
        self._old = self._last
        if self._replacing is None or self._replacing.done():
            self._replacing = asyncio.get_running_loop().create_task(self._replace())

    def _is_stale(self, engine: Supervisor, call: RunningRequest, why: Refusal) -> None:
        """Has a call answered by a process that has opened the new data, once there is one."""
        if engine.number > self._old or self._replacing is None or self._replacing.done():
            self.renew()
        if call.is_over:
            return
        call.after, call.tries = self._old, call.tries + 1
        if call.tries > TRIES:
            call.fail(why)
        elif not self._ask(call):
            self._waiting[call] = why

    async def _replace(self) -> None:
        while any(one.number <= self._old for one in self._engines):
            new = self._engine()
            try:
                await new.start()
            except (BackendError, OSError) as error:
                await self._end(new)
                LOGGER.error("engines not replaced, as a new one does not start: %s", error)
                for call in [call for call in self._waiting if call.after]:
                    self._give_up(call)
                await asyncio.sleep(PAUSE)
                if not any(call.after for call in self._waiting):
                    return
                continue
            left = [one for one in self._engines if one.number <= self._old and one.number < new.number]
            if not left:  # they have ended meanwhile, and were started anew
                await self._end(new)
                continue
            leaving = min(left, key=lambda one: one.calls)
            LOGGER.info("engine replaced process=%s by=%s", leaving.process, new.process)
            self._engines[self._engines.index(leaving)] = new
            self._came()
            await leaving.drain()
            await self._end(leaving)
