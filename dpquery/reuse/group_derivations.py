"""How groups that were released become groups that are asked: the same ones, some of them, or sums of them.

A way is taken only where the number that the private plan gives without noise stays the same, as far as the
declarations say, but for rounding: weights of rows are added exactly, and each released group is rounded once. So
whether a number is measured or derived never shows in anything but its noise, its rounding and its price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.plan import Count, Measure, Weighing
from dpquery.plan.axes import cells, most_summed, summed, within
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Expression, columns_of
from dpquery.planner.keys.narrowing import narrowed
from dpquery.reuse.frames import AskedAggregate, KeyText, MeasurementFrame, over_key, values_of
from dpquery.reuse.releases import Facts
from dpquery.reuse.text import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDerivation:
    """From a released table to the groups that are asked.

    Attributes:
        places: For each group of the released table the number of the asked one that it is part of; -1 for none.
        groups: How many groups are asked.
        same: Whether these are the groups of the released table, up to their order.
        one_group: Whether each unit has one group, of those that were released and of those that are asked.
        whole_rows, whole_units: Whether each row weighs 1, and each unit in each of its groups.
    """

    places: NDArray[np.int64]
    groups: int
    same: bool
    one_group: bool
    whole_rows: bool
    whole_units: bool

    @property
    def count(self) -> int:
        """How many released groups make one that is asked, at most."""
        return most_summed(self.places)

    def serves(self, measure: Measure) -> bool:
        """Whether the numbers of this measure can go this way.

        What is counted in weights of rows is linear: it adds up, and of some groups it is the same as of all. How much
        a unit weighs in a group, and which of its values stand for it, may depend on its other groups.
        """
        if self.same:
            return True
        match measure.count:
            case Count.ROWS | Count.VALUES | Count.SUM:
                return True
            case Count.DECIDING:
                return False
            case Count.QUANTILE | Count.MODE:
                return self.count == 1
            case Count.UNITS:
                return self.one_group or (self.count == 1 and self.whole_units)
            case Count.DISTINCT:
                return self.count == 1 and (self.one_group or self.whole_rows)
            case _:
                assert_never(measure.count)

    def follow(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns the numbers of the groups that are asked, in the order of their keys."""
        return summed(numbers, self.places, self.groups)


def way(
    frame: MeasurementFrame, facts: Facts, asked: AskedAggregate, own: Facts, *, unit_is_row: bool
) -> GroupDerivation | None:
    """Returns the way from a released table to an aggregate that is asked; None where there is none.

    Args:
        facts, own: What the catalog said of the released groups, and what it says of those that are asked.
    """
    wanted = asked.frame
    if frame.is_selected or wanted.is_selected:
        return None
    if frame.base != wanted.base or frame.weights.of_rows != wanted.weights.of_rows:
        return None
    if frame.weights.weighing is Weighing.COUNTED and set(frame.conditions) != set(wanted.conditions):
        return None  # rows are weighed where they are counted
    released, kept = _columns(frame), _columns(wanted)
    if len({*released}) < len(released) or len({*kept}) < len(kept):
        return None
    removed, places = _removed(frame, asked), cells(frame.keys, wanted.keys)
    if removed is None or places is None:
        return None
    known = facts.catalog == own.catalog
    for axis, (key, conditions) in enumerate(zip(frame.keys, removed, strict=True)):
        passing = _passing(key, conditions)
        if not {*kept} >= {*key.columns} and not (known and facts.covering[axis]) and not _lists(key, conditions):
            return None  # groups of rows that fulfil the conditions may be missing
        places = within(places, axis, frame.keys, [values in passing for values in key.domain or ()])
    groups = math.prod(wanted.shape)
    if len({*places[places >= 0].tolist()}) < groups:
        return None  # a group that is asked was not released
    whole = len(released) == len(kept) and groups == len(places)
    same_limits = frame.weights.max_groups == wanted.weights.max_groups
    return GroupDerivation(
        places=places,
        groups=groups,
        same=whole and same_limits and not any(removed),
        one_group=unit_is_row or (known and facts.one_group and own.one_group),
        whole_rows=frame.weights.weighing is Weighing.WHOLE,
        whole_units=_keeps_all(frame) and _keeps_all(wanted),
    )


def _columns(frame: MeasurementFrame) -> list[str]:
    return [column for key in frame.keys for column in key.columns]


def _keeps_all(frame: MeasurementFrame) -> bool:
    """Whether each unit weighs 1 in each of its groups: there are no more of them than it may count in."""
    most = frame.weights.max_groups
    return most is None or most >= math.prod(frame.shape)


def _removed(frame: MeasurementFrame, asked: AskedAggregate) -> list[list[Expression]] | None:
    """Returns for each released key the conditions on it that only the query has, over the columns `key0`, `key1`, ...

    None where the released rows fulfil another condition, or where a condition is on anything else.
    """
    if not set(frame.conditions) <= set(asked.frame.conditions):
        return None
    found: list[list[Expression]] = [[] for _ in frame.keys]
    for text in asked.frame.conditions:
        if text in frame.conditions:
            continue
        read = [(axis, over) for axis, key in enumerate(frame.keys) if (over := over_key(text, key.columns))]
        if not read:
            return None
        found[read[0][0]].append(read[0][1])
    return found


def _passing(key: KeyText, conditions: list[Expression]) -> set[tuple[str, ...]]:
    """Returns the public values that fulfil the conditions, as texts."""
    domain = key.domain or ()
    if not conditions:
        return {*domain}
    return {values for values in domain if all(evaluate(c, values_of(values)) is True for c in conditions)}


def _lists(key: KeyText, conditions: list[Expression]) -> bool:
    """Whether the conditions list all values that a key of one column may have, and all of them are public."""
    column = next((column for condition in conditions for column in columns_of(condition)), None)
    listed = None if column is None or len(key.columns) > 1 else narrowed(column, None, tuple(conditions))
    public = _passing(key, conditions)
    return bool(listed) and all((text_of(value),) in public for value in listed or ())
