"""Fifty clients of five users, one of them hostile, for a few statements each; `benchmarks.soak` goes on for longer."""

from __future__ import annotations

from benchmarks.soak import CLIENTS, MOST_MEMORY, PEOPLE, soak


def test_a_hostile_user_takes_nothing_from_the_others() -> None:
    """WRK-05, WRK-06: all others log in and are answered, and memory stays below its limit."""
    figures = soak(rounds=5, rate=200.0)
    assert not figures.failures
    assert len(figures.asked) == 5 * CLIENTS * len(PEOPLE)
    assert 0 < figures.memory < MOST_MEMORY
    assert figures.told["silent sockets"] > 0
    assert set(figures.told) & {"54000", "53200", "57014"}  # its series, lists, memory and time were refused
