"""A statement that is cancelled ends for its client at the next tick, whatever the engine does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dpquery.frontends.postgres.process import supervisor
from dpquery.frontends.postgres.process.supervisor import RunningRequest
from dpquery.frontends.postgres.wire.answers import Refusal, failed

LATE = Refusal("57014", "canceling statement due to statement timeout")


class Clock:
    """A loop whose time stands still, and that keeps what is to be called."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        self.calls.append((when, callback))


def cancelled(monkeypatch: pytest.MonkeyPatch, now: float, tick: float) -> tuple[RunningRequest, Clock, list[Any]]:
    """Returns a call that was cancelled at a moment, its clock and what was sent to the engine."""
    clock, sent = Clock(now), list[Any]()
    monkeypatch.setattr(supervisor.asyncio, "get_running_loop", lambda: clock)  # type: ignore[attr-defined]
    loop = asyncio.new_event_loop()
    call = RunningRequest(loop.create_future(), tick, send=sent.append)
    call.cancel(LATE)
    loop.close()
    return call, clock, sent


@pytest.mark.parametrize(
    ("now", "tick", "ends"),
    [(10.0, 0.25, 10.25), (10.01, 0.25, 10.25), (10.24, 0.25, 10.25), (10.25, 0.25, 10.5), (7.3, 2.0, 8.0)],
)
def test_it_ends_at_the_next_moment_of_a_public_grid(
    monkeypatch: pytest.MonkeyPatch, now: float, tick: float, ends: float
) -> None:
    call, clock, sent = cancelled(monkeypatch, now, tick)
    assert sent == [{"what": "cancel"}]
    ((when, end),) = clock.calls
    assert when == ends
    assert not call.reply.done()
    end()
    assert call.reply.exception() is LATE


def test_only_the_first_reason_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    call, clock, sent = cancelled(monkeypatch, 1.0, 0.25)
    call.cancel(Refusal("57014", "canceling statement due to user request"))
    assert (len(clock.calls), len(sent)) == (1, 1)
    clock.calls[0][1]()
    assert call.reply.exception() is LATE


@pytest.mark.parametrize("engine", [lambda call: call.answer({"about": 1}, b"rows"), lambda call: call.fail(failed())])
def test_what_the_engine_does_until_the_tick_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, engine: Callable[[RunningRequest], None]
) -> None:
    call, clock, _ = cancelled(monkeypatch, 1.0, 0.25)
    engine(call)
    assert not call.reply.done()
    clock.calls[0][1]()
    assert call.reply.exception() is LATE
    engine(call)
    assert call.reply.exception() is LATE
