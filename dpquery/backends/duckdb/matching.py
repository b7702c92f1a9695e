"""The turns of units that have more different values than they may stand for: the last step of a count of them.

The engine gives who has what, with the orders of units and of pairs; docs/proofs/weights.md, Theorem 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2**16
"""Pairs that are Python integers at a time."""


def matched(
    group: NDArray[np.int64], turn: NDArray[np.int64], place: NDArray[np.int64], *, groups: int, most: int
) -> NDArray[np.int64]:
    """Returns for how many pairs of each group some unit stands.

    Each entry says that a unit has a pair. Units take turns, and in its turn a unit stands for the `most` first of its
    pairs for which no unit stands yet.

    Args:
        group: The number of the pair's group, below `groups`.
        turn: The number of the unit; equal for entries of one unit.
        place: The number of the pair, from 1 to at most the number of entries; equal for entries of one pair.
        groups: How many there are.
        most: For how many pairs a unit may stand.
    Privacy:
        A loop with the same few operations for each entry, regardless of other units: the steps that one unit
        adds are as many as its entries, apart from sorting.
    """
    order = np.lexsort((place, turn))
    stood_for = bytearray(int(place.max(initial=0)) + 1)
    current, left = 0, 0
    for start in range(0, len(order), _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        for unit, pair in zip(turn[some].tolist(), place[some].tolist(), strict=True):
            left = left if unit == current else most
            current = unit
            is_free = not stood_for[pair] and left > 0
            left -= is_free
            stood_for[pair] |= is_free
    _, first = np.unique(place, return_index=True)
    counted = np.frombuffer(stood_for, np.uint8)[place[first]].astype(np.int64)
    numbers = np.zeros(groups, np.int64)
    np.add.at(numbers, group[first], counted)
    return numbers
