"""Turns and room that users share: who comes next, how much one takes, and that nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter

import pytest

from dpquery.frontends.postgres.login.shares import Room, Turns, shares_of
from dpquery.frontends.postgres.wire.answers import Refusal


def test_one_user_takes_a_share_and_the_others_the_rest() -> None:
    async def run() -> None:
        turns = Turns(places=8, per_user=3, reserve=2)
        greedy = [turns.ask("greedy") for _ in range(20)]
        assert [turn.done() for turn in greedy] == [True] * 3 + [False] * 17
        others = [turns.ask(f"user {i}") for i in range(5)]
        assert all(turn.done() for turn in others)  # as many as there are places
        late = turns.ask("late")
        assert not late.done() and turns.waiting == 18
        turns.leave("greedy", greedy[0])
        assert late.done() and not greedy[3].done()  # who has nothing comes first
        turns.leave("user 0", others[0])
        turns.leave("late", late)
        turns.leave("user 1", others[1])
        assert greedy[3].done() and not greedy[4].done()

    asyncio.run(run())


def test_the_reserve_is_for_those_who_have_nothing() -> None:
    async def run() -> None:
        turns = Turns(places=4, per_user=4, reserve=1)
        first = [turns.ask("a") for _ in range(4)]
        assert [turn.done() for turn in first] == [True, True, True, False]
        assert turns.ask("b").done()

    asyncio.run(run())


def test_a_user_who_leaves_the_queue_takes_no_place() -> None:
    async def run() -> None:
        turns = Turns(places=1, per_user=1, reserve=0)
        running, cancelled, failed, last = (turns.ask("a") for _ in range(4))
        cancelled.cancel()
        turns.leave("a", cancelled)
        failed.set_exception(Refusal("57014", "canceling statement due to user request"))
        turns.leave("a", failed)
        turns.leave("a", running)
        assert last.done() and turns.waiting == 0
        turns.leave("a", last)
        assert turns.ask("b").done()
        with pytest.raises(Refusal):
            failed.result()

    asyncio.run(run())


def test_places_are_neither_lost_nor_made_in_any_order_of_events() -> None:
    async def run() -> None:
        chance = random.Random(7)
        turns = Turns(places=6, per_user=2, reserve=2)
        known: list[tuple[str, asyncio.Future[None]]] = []
        for _ in range(5_000):
            if chance.random() < 0.5:
                user = f"user {chance.randrange(6)}"
                known.append((user, turns.ask(user)))
            elif known:
                user, turn = known.pop(chance.randrange(len(known)))
                if chance.random() < 0.2:
                    turn.cancel()  # done already where it has a place
                turns.leave(user, turn)
            taken = Counter(user for user, turn in known if turn.done() and not turn.cancelled())
            assert taken.total() <= 6 and max(taken.values(), default=0) <= 2
            waits = {user for user, turn in known if not turn.done()}
            assert taken.total() == 6 or all(taken[user] for user in waits)  # nobody with nothing waits beside a place
        while known:
            turns.leave(*known.pop(0))
        assert turns.waiting == 0 and turns.ask("a").done()

    asyncio.run(run())


def test_room_is_given_back_when_nothing_refers_to_a_result() -> None:
    room = Room(most=10 << 20, per_user=4 << 20)
    held = [room.take("a", 2 << 20), room.take("a", 2 << 20)]
    with pytest.raises(Refusal, match="more than 4 MB together") as refused:
        room.take("a", 1)
    assert refused.value.sqlstate == "53200"
    others = [room.take(user, 3 << 20) for user in ("b", "c")]
    with pytest.raises(Refusal, match="all connections take more than 10 MB"):
        room.take("d", 1 << 20)
    assert room.held == 10 << 20
    view = memoryview(held[0])
    held.clear()
    gc.collect()
    assert room.held == 8 << 20  # something still refers to one of them
    view.release()
    del view
    others.clear()
    gc.collect()
    assert room.held == 0


def test_a_result_that_is_forgotten_while_another_is_counted_stops_nothing() -> None:
    """Memory is collected at any moment, also in the middle of `take`: no lock may wait for itself."""
    room = Room(most=1 << 20, per_user=1 << 20)
    kept = [room.take("a", 8)]

    class Forgetful(Counter[str]):
        def __getitem__(self, user: str) -> int:
            kept.clear()
            return super().__getitem__(user)

    room._held = Forgetful(room._held)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(room.take("b", 16)), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and room.held == 16


def test_shares_follow_the_threads() -> None:
    for threads, per_user, expected in ((16, None, (16, 4, 4)), (1, None, (1, 1, 0)), (4, 9, (4, 4, 1))):
        turns = shares_of(threads, per_user=per_user, room=64).statements
        assert (turns.places, turns.per_user, turns.reserve) == expected
