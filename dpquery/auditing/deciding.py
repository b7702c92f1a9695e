"""What units weigh in groups where they decide in rounds which are shown."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict

from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.rounds import weight_of

Group = tuple[object, ...]


def in_a_round(aggregate: PrivateAggregate, exact: ExactAggregates, *, hidden: bool = False) -> dict[Group, int]:
    """Returns what units weigh in groups in a round, by the words of the proof: docs/proofs/selection.md, "In rounds".

    Args:
        hidden: Whether some groups, about half of all, were shown before.
    """
    assert exact.pairs is not None
    groups, most = groups_of_keys(exact), groups_per_unit(aggregate) or 0
    held = defaultdict[int, list[tuple[int, Group]]](list)
    for group, unit, place in zip(exact.pairs.group, exact.pairs.unit, exact.pairs.place, strict=True):
        if not hidden or zlib.crc32(repr(groups[group]).encode()) % 2:
            held[int(unit)].append((int(place), groups[group]))
    found = Counter[Group]()
    for own in held.values():
        counted = [group for _, group in sorted(own, key=lambda one: one[0])][:most]
        for group in counted:
            found[group] += weight_of(len(counted))
    return dict(found)


def groups_of_keys(exact: ExactAggregates) -> list[Group]:
    """Returns the groups in order, each by the values of its keys, or their places in the domains."""
    return [tuple(column[i] for column in exact.keys) for i in range(len(exact.numbers[0]))]
