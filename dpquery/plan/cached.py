"""What follows from a plan is worked out once: results of pure functions, remembered for the very same arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, TypeVarTuple

MOST = 4_096
"""Results that one function remembers; then it forgets all of them."""

Given = TypeVarTuple("Given")
Made = TypeVar("Made")


def cached(function: Callable[[*Given], Made]) -> Callable[[*Given], Made]:
    """Returns the function, worked out once for the same objects; they and the result must never change.

    Arguments are told apart by identity, as comparing two plans reads both to their leaves. While a result is
    remembered its arguments are kept, so that no other object can have their identity. Errors are not remembered.
    """
    results: dict[tuple[int, ...], tuple[tuple[*Given], Made]] = {}

    @wraps(function)
    def remembering(*given: *Given) -> Made:
        key = tuple(map(id, given))
        known = results.get(key)
        if known is not None:
            return known[1]
        made = function(*given)
        if len(results) >= MOST:
            results.clear()
        results[key] = (given, made)
        return made

    return remembering
