"""How groups that were released become groups that are asked: the same ones, some of them, or sums of them.

A way is taken only where the number that the private plan gives without noise stays the same, as far as the
declarations say. So whether a number is measured or derived never shows in anything but its noise and its price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.plan import Count, Measure
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, children, columns_of, rebuild
from dpquery.planner.narrowing import narrowed
from dpquery.stored.frames import Asked, Frame, KeyText
from dpquery.stored.releases import Facts
from dpquery.stored.text import text_of, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From a released table to the groups that are asked.

    Attributes:
        shape: The released table's: how many values each of its keys has.
        taken: For each of its keys the places of the values that are read.
        rolled: The keys that are summed over.
        order: Where each remaining key goes.
        same: Whether these are the groups of the released table, up to their order.
        adds_rows, adds_units: Whether numbers of rows, and of units, may be added up on this way.
    """

    shape: tuple[int, ...]
    taken: tuple[tuple[int, ...], ...]
    rolled: tuple[int, ...]
    order: tuple[int, ...]
    same: bool
    adds_rows: bool
    adds_units: bool

    @property
    def count(self) -> int:
        """How many released groups make one that is asked."""
        return math.prod(len(self.taken[axis]) for axis in self.rolled)

    def serves(self, measure: Measure) -> bool:
        """Whether the numbers of this measure can go this way."""
        if self.count == 1:
            return True
        match measure.count:
            case Count.ROWS | Count.VALUES | Count.SUM:
                return self.adds_rows
            case Count.UNITS:
                return self.adds_units
            case _:
                return False  # different values, and choices, never add up

    def follow(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns the numbers of the groups that are asked, in the order of their keys."""
        table = numbers.reshape(self.shape)
        for axis, places in enumerate(self.taken):
            table = table.take(places, axis=axis)
        if self.count > 1 and table.dtype != object and table.size:
            largest = max(abs(int(table.min())), abs(int(table.max())))
            table = table if largest * self.count < 2**63 else table.astype(object)
        summed = np.asarray(table.sum(axis=self.rolled)) if self.rolled else table
        found: NDArray[Any] = summed.transpose(self.order).reshape(-1)
        return found


def way(frame: Frame, facts: Facts, asked: Asked, own: Facts, *, unit_is_row: bool) -> Way | None:
    """Returns the way from a released table to an aggregate that is asked; None where there is none.

    Args:
        facts, own: What the catalog said of the released groups, and what it says of those that are asked.
    """
    wanted = asked.frame
    if frame.is_selected or wanted.is_selected or frame.base != wanted.base or frame.max_rows != wanted.max_rows:
        return None
    expressions = [key.expression for key in frame.keys]
    places = {key.expression: place for place, key in enumerate(wanted.keys)}
    if (
        len(places) < len(wanted.keys)
        or len(set(expressions)) < len(expressions)
        or not places.keys() <= {*expressions}
    ):
        return None
    removed = _removed(frame, asked)
    if removed is None:
        return None
    known = facts.catalog == own.catalog
    taken = []
    for axis, key in enumerate(frame.keys):
        conditions = removed[axis]
        if key.expression in places:
            chosen = _chosen(key, wanted.keys[places[key.expression]], conditions)
        else:
            chosen = _all_passing(key, conditions, covers=known and facts.covering[axis])
        if chosen is None:
            return None
        taken.append(chosen)
    rolled = tuple(axis for axis, key in enumerate(frame.keys) if key.expression not in places)
    whole = not rolled and all(len(chosen) == size for chosen, size in zip(taken, frame.shape, strict=True))
    same = whole and frame.max_groups == wanted.max_groups and not any(removed)
    one_group = unit_is_row or (known and facts.one_group and own.one_group)
    if not same and not one_group and not (_keeps_all(frame) and _keeps_all(wanted)):
        return None
    kept = [places[key.expression] for key in frame.keys if key.expression in places]
    return Way(
        shape=frame.shape,
        taken=tuple(taken),
        rolled=rolled,
        order=tuple(kept.index(place) for place in range(len(wanted.keys))),
        same=same,
        adds_rows=one_group,  # a unit in several groups weighs up to `max_rows` in each of them
        adds_units=one_group,
    )


def _keeps_all(frame: Frame) -> bool:
    """Whether no unit loses groups to `max_groups`."""
    return frame.max_groups >= math.prod(frame.shape)


def _removed(frame: Frame, asked: Asked) -> list[list[Expression]] | None:
    """Returns for each released key the conditions on it that only the query has, over a column `key`.

    None where the released rows fulfil another condition, or where a condition is on anything else.
    """
    if not set(frame.conditions) <= set(asked.frame.conditions):
        return None
    found: list[list[Expression]] = [[] for _ in frame.keys]
    for text in asked.frame.conditions:
        if text in frame.conditions:
            continue
        for axis, key in enumerate(frame.keys):
            over = _over(asked.conditions[text], key.expression)
            if {column.id for column in columns_of(over)} == {"key"}:
                found[axis].append(over)
                break
        else:
            return None
    return found


def _over(expression: Expression, key: str) -> Expression:
    """Returns the expression with each part whose text is the key's replaced by a column `key`."""
    if text_of(expression) == key:
        return Column(id="key", type=expression.type)
    return rebuild(expression, tuple(_key_or_column(part, key) for part in children(expression)))


def _key_or_column(expression: Expression, key: str) -> Expression:
    return expression if isinstance(expression, Column) and expression.id == "key" else _over(expression, key)


def _passing(key: KeyText, conditions: list[Expression]) -> dict[str, int]:
    """Returns the public values that fulfil the conditions, by their text, with their places."""
    values = enumerate(key.domain or ())
    if not conditions:
        return {text: place for place, text in values}
    return {
        text: place
        for place, text in values
        if all(evaluate(condition, {"key": value_of(text)}) is True for condition in conditions)
    }


def _chosen(key: KeyText, wanted: KeyText, conditions: list[Expression]) -> tuple[int, ...] | None:
    """Returns the places of the values that are asked; None where one of them was not released."""
    passing = _passing(key, conditions)
    if not all(text in passing for text in wanted.domain or ()):
        return None
    return tuple(passing[text] for text in wanted.domain or ())


def _all_passing(key: KeyText, conditions: list[Expression], *, covers: bool) -> tuple[int, ...] | None:
    """Returns the places of the values whose groups hold all rows that fulfil the conditions, or None."""
    passing = _passing(key, conditions)
    if not covers:
        column = next((column for condition in conditions for column in columns_of(condition)), None)
        listed = None if column is None else narrowed(column, None, tuple(conditions))
        if listed is None or not all(text_of(value) in passing for value in listed):
            return None
    return tuple(passing.values()) or None
