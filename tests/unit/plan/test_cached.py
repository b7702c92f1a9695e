from __future__ import annotations

import gc

import pytest

from dpquery.plan import cached as module
from dpquery.plan.cached import cached


class Made:
    """An object that equals all others of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made)

    __hash__ = None  # type: ignore[assignment]


def test_a_result_is_remembered_for_the_same_object_and_for_no_equal_one() -> None:
    calls: list[Made] = []

    @cached
    def count(given: Made) -> int:
        calls.append(given)
        return len(calls)

    first, second = Made(), Made()
    assert [count(first), count(second), count(first), count(second)] == [1, 2, 1, 2]


def test_no_new_object_takes_the_identity_of_one_that_is_remembered() -> None:
    @cached
    def itself(given: Made) -> Made:
        return given

    for _ in range(100):
        fresh = Made()
        assert itself(fresh) is fresh
        del fresh
        gc.collect(0)


def test_errors_are_not_remembered() -> None:
    calls = []

    @cached
    def fails(given: Made) -> int:
        calls.append(given)
        raise ValueError

    one = Made()
    for _ in range(2):
        with pytest.raises(ValueError):
            fails(one)
    assert len(calls) == 2


def test_it_remembers_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    calls = []

    @cached
    def seen(given: Made) -> int:
        calls.append(given)
        return len(calls)

    kept = [Made() for _ in range(3)]
    for one in kept:
        seen(one)
    assert seen(kept[0]) == 4
