"""The cells that stored numbers are sums of: axes made of all public keys that occur, and tables as blocks on them.

A released table is a product: on each axis its key makes blocks of public values, and conditions on the axis leave some
values out. On an axis that a table has neither a key nor a condition of, all rows are one block.
docs/concepts/stored-answers.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.plan import Weighing
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, columns_of
from dpquery.plan.types import BOOLEAN, TEXT
from dpquery.planner.keys.narrowing import narrowed
from dpquery.reuse.frames import KeyText, MeasurementFrame, narrowing_of, over_key, values_of
from dpquery.reuse.lines import Line, begins_of, behind, changes
from dpquery.reuse.releases import Facts
from dpquery.reuse.text import expression_of, text_of

Row = tuple[str, ...]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AxisPartition:
    """Disjoint sets of an axis's rows: for each row the number of its block, -1 for none; and how many there are.

    Attributes:
        signs: 1 or -1 for each row, which its numbers are multiplied by; None: 1 for all.
    """

    codes: Codes
    count: int
    signs: Codes | None = None

    @property
    def marks(self) -> Codes:
        """What tells rows apart: equal ones are in the same block with the same sign."""
        return self.codes if self.signs is None else np.where(self.codes < 0, -1, 2 * self.codes + (self.signs > 0))


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """The sets of cells that a table's numbers are of.

    Attributes:
        keys: For each axis that it has keys of, ascending, the blocks on it.
        limits: For each further axis of which conditions leave out rows, or on which rows have signs, one block.
        shape: How many values each of its own keys has, in its own order.
        order: Its own keys, those of the first axis first.
    """

    keys: tuple[tuple[int, AxisPartition], ...]
    limits: tuple[tuple[int, AxisPartition], ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @staticmethod
    def of(keys: Sequence[tuple[int, AxisPartition]], limits: Sequence[tuple[int, AxisPartition]] = ()) -> CellTable:
        """Returns the table with these keys, in its own order; several keys of one axis make blocks together."""
        order = sorted(range(len(keys)), key=lambda i: keys[i][0])
        made: dict[int, AxisPartition] = {}
        for axis, blocks in (keys[i] for i in order):
            known = made.get(axis, AxisPartition(np.zeros_like(blocks.codes), 1))
            either = (known.codes < 0) | (blocks.codes < 0)
            codes = np.where(either, -1, known.codes * blocks.count + blocks.codes)
            made[axis] = AxisPartition(codes, known.count * blocks.count)
        shape = tuple(blocks.count for _, blocks in keys)
        return CellTable(tuple(made.items()), tuple(sorted(limits, key=lambda limit: limit[0])), shape, tuple(order))

    def by_axis(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns numbers of its groups, in its own order, in the order of the axes: shape (blocks of each)."""
        return numbers.reshape(self.shape).transpose(self.order).reshape([blocks.count for _, blocks in self.keys])

    def by_key(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns what `by_axis` gave in its own order, shape (groups,)."""
        shape = [self.shape[i] for i in self.order]
        return numbers.reshape(shape).transpose(np.argsort(self.order)).reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class CellAxis:
    """Public values of some grouping columns, each row's in a place of its own; or an ordered value, cut into places.

    Attributes:
        columns: The texts of the columns, or of the ordered value.
        rows: The place of each row of values, which are texts; of an ordered value one in each place.
        is_open: Whether a last place stands for all rows of the data that have none of these values.
        line: The places of an ordered value.
    """

    columns: Row
    rows: dict[Row, int]
    is_open: bool
    line: Line | None = None

    @staticmethod
    def of(line: Line) -> CellAxis:
        """Returns the axis of an ordered value."""
        rows: dict[Row, int] = {(text_of(value),): place for place, value in enumerate(line.inside)}
        return CellAxis((text_of(line.value),), rows, False, line)

    @property
    def size(self) -> int:
        """Its places."""
        return len(self.rows) + self.is_open


class Axes:
    """The axes of all keys of some frames over one base.

    Args:
        frames: With what the catalog said of each; none has selected groups.
        filters: Further conditions, of measures.
    """

    def __init__(self, frames: Sequence[tuple[MeasurementFrame, Facts]], filters: Iterable[str] = ()) -> None:
        self._resolved: dict[tuple[int, Row], tuple[NDArray[np.bool_], bool]] = {}
        self._conditions: dict[tuple[int, str], Expression | None] = {}
        keys = [(key.columns, key.domain or ()) for key in {key: None for frame, _ in frames for key in frame.keys}]
        conditions = {text for frame, _ in frames for text in frame.conditions} | {*filters}
        lines = _lines(keys, conditions)
        found: list[tuple[Row, dict[Row, int]]] = []
        for columns, domain in sorted(keys, key=lambda key: -len(key[0])):
            if _begins(columns, domain, lines):
                continue
            place = _place(found, columns, domain)
            if place is None:
                found.append((columns, {}))
                place = len(found) - 1
            own, rows = found[place]
            if len(own) == len(columns):
                for values in _permuted(columns, own, domain):
                    rows.setdefault(values, len(rows))
        self._axes = [*map(CellAxis.of, lines.values()), *(CellAxis(columns, rows, True) for columns, rows in found)]
        self._covered: list[dict[frozenset[str], set[Row]]] = [{} for _ in self._axes]
        told = {
            (key, narrowing_of(frame, key)): None
            for frame, facts in frames
            for key, covers in zip(frame.keys, facts.covering, strict=True)
            if covers
        }
        for key, narrowing in sorted(told, key=lambda one: not _begins(one[0].columns, one[0].domain or (), lines)):
            place = self._of(key)
            if place is not None and (self._axes[place].line or len(self._axes[place].columns) == len(key.columns)):
                own_rows = self._having(place, key)
                if self._axes[place].line and all(self._over(place, text) for text in narrowing):
                    passing = self._passing(place, tuple(narrowing))[0]
                    own_rows |= {row for row, at in self._axes[place].rows.items() if not passing[at]}
                    narrowing = frozenset()  # no row is in the other places, under any condition
                known = self._covered[place].setdefault(narrowing, own_rows)
                known &= own_rows
        is_open = [axis.line is None and frozenset() not in self._covered[i] for i, axis in enumerate(self._axes)]
        self._axes = [replace(axis, is_open=here) for axis, here in zip(self._axes, is_open, strict=True)]
        self._resolved.clear()
        self._conditions.clear()
        self._stand_ins = [self._stand_in(place) for place in range(len(self._axes))]

    def _stand_in(self, place: int) -> Codes:
        """Returns for each place of an axis itself, and for one in which no row can be the first in which one can."""
        return np.where(may := self._possible(place, ()), np.arange(len(may)), may.argmax())

    @property
    def sizes(self) -> list[int]:
        """The places of each axis."""
        return [axis.size for axis in self._axes]

    def knows(self, frame: MeasurementFrame, facts: Facts) -> bool:
        """Whether it is known of all keys that cover every row that they do: otherwise their groups would not be made
        to add up to the total."""
        for key, covers in zip(frame.keys, facts.covering, strict=False):  # of coarser groups, of some keys
            place, narrowing = self._of(key) if covers else None, narrowing_of(frame, key)
            if place is None or (not self._axes[place].line and len(self._axes[place].columns) > len(key.columns)):
                continue  # where keys follow from each other, coverage is not followed
            if not any(some <= narrowing for some in self._covered[place]):
                return False
        return True

    def elsewhere(self, frame: MeasurementFrame, kept: Row = ()) -> frozenset[str]:
        """Returns the conditions on a frame's rows that are on no axis: with others, its groups are of other rows.

        Args:
            kept: Conditions of a measure's filter.
        """
        outside, over = self._placed(frame, kept)
        keyed = {self._of(key) for key in frame.keys} if over else set[int | None]()
        for place in over.keys() - keyed:
            possible = self._possible(place, {*frame.conditions, *kept})
            if possible[-1] and not self._passing(place, tuple(over[place]))[1]:
                outside |= {*over[place]}
        return frozenset(outside)

    def table(
        self, frame: MeasurementFrame, kept: Row = (), signed: tuple[int, Codes] | None = None
    ) -> CellTable | None:
        """Returns the sets of cells that a frame's groups are, where the conditions of `elsewhere` hold; None where
        they are not sets of cells.

        Args:
            kept: Conditions of a measure's filter.
            signed: What `signs` found of it.
        """
        _, over = self._placed(frame, kept)
        keys, limits, said = (
            list[tuple[int, AxisPartition]](),
            list[tuple[int, AxisPartition]](),
            {*frame.conditions, *kept},
        )
        for key in frame.keys:
            place = self._of(key)
            blocks = None if place is None else self._blocks(place, key, tuple(over.get(place, ())), said)
            if place is None or blocks is None:
                return None
            keys.append((place, AxisPartition(blocks.codes[self._stand_ins[place]], blocks.count)))
        for place in {*range(len(self._axes))} - {place for place, _ in keys}:
            possible = self._possible(place, said)
            passing, is_known = self._passing(place, tuple(over.get(place, ())))
            if is_known or not possible[-1]:
                possible &= passing
            possible = possible[self._stand_ins[place]]
            signs = None if signed is None or signed[0] != place else signed[1][self._stand_ins[place]]
            if signs is not None or not possible.all():
                limits.append((place, AxisPartition(np.where(possible, 0, -1), 1, signs)))
        return CellTable.of(keys, limits)

    def signs(self, frame: MeasurementFrame, kept: Row, value: str) -> tuple[int, Codes] | None:
        """Returns the axis that an expression is a function of, and the sign that it is in each place of it; None where
        it is no sign of every row, and where the axis has groups.

        Args:
            kept: Conditions of a measure's filter.
        """
        place = next((i for i in range(len(self._axes)) if self._over(i, value)), None)
        if place is None or self._axes[place].is_open or place in {self._of(key) for key in frame.keys}:
            return None
        axis, over = self._axes[place], self._over(place, value)
        assert over is not None
        found = np.zeros(axis.size, dtype=np.int64)
        for row, at in axis.rows.items():
            told = evaluate(over, values_of(row))
            found[at] = told if type(told) is int and abs(told) == 1 else 0
        may = self._possible(place, {*frame.conditions, *kept})
        return None if np.any(may & (found == 0)) else (place, np.where(found == 0, 1, found))

    def _placed(self, frame: MeasurementFrame, kept: Row) -> tuple[set[str], dict[int, list[str]]]:
        """Returns the conditions that are on no axis, and those on each."""
        outside, over = set[str](), dict[int, list[str]]()
        counted = frame.weights.weighing is Weighing.COUNTED  # over the relation, with all its conditions
        for text in dict.fromkeys((*frame.conditions, *kept)):
            place = next((i for i in range(len(self._axes)) if self._over(i, text)), None)
            if place is None or (counted and text in frame.conditions):
                outside.add(text)
            if place is not None:
                over.setdefault(place, []).append(text)
        return outside, over

    def _of(self, key: KeyText) -> int | None:
        value = _ordered(key.columns)
        for place, axis in enumerate(self._axes):
            if axis.line is not None and axis.line.value == value:
                possible = self._possible(place, ()).tolist()
                if axis.line.holds(key.columns, key.domain or (), possible):
                    return place
        return _place([(axis.columns, axis.rows) for axis in self._axes], key.columns, key.domain or ())

    def _rows(self, place: int, key: KeyText) -> list[Row]:
        """Returns the values of a key in each place of its axis, as texts."""
        axis = self._axes[place]
        if axis.line is not None:
            each = [axis.line.values(text) for text in key.columns]
            return [tuple(map(text_of, values)) for values in zip(*each, strict=True)]
        if key.columns == axis.columns:
            return list(axis.rows)
        columns = [axis.columns.index(name) for name in key.columns]
        return [tuple(row[column] for column in columns) for row in axis.rows]

    def _having(self, place: int, key: KeyText) -> set[Row]:
        """Returns the rows of an axis in which a key has one of its public values."""
        domain, rows = {*(key.domain or ())}, self._rows(place, key)
        return {row for row, values in zip(self._axes[place].rows, rows, strict=True) if values in domain}

    def _blocks(self, place: int, key: KeyText, conditions: Row, said: set[str]) -> AxisPartition | None:
        axis, domain = self._axes[place], key.domain or ()
        numbers = {values: number for number, values in enumerate(domain)}
        codes = np.full(axis.size, -1, dtype=np.int64)
        for at, values in zip(axis.rows.values(), self._rows(place, key), strict=True):
            codes[at] = numbers.get(values, -1)
        if (axis.is_open or axis.line) and len({*codes[codes >= 0].tolist()}) < len(domain):
            return None  # a group of which nothing was released
        if conditions:
            codes = np.where(self._passing(place, conditions)[0], codes, -1)
        if axis.line:
            codes = np.where(self._possible(place, said), codes, -1)
        return AxisPartition(codes, len(domain))

    def _passing(self, place: int, conditions: Row) -> tuple[NDArray[np.bool_], bool]:
        """Returns which rows of an axis fulfil conditions on it, and whether that is known of all other rows too."""
        if (place, conditions) not in self._resolved:
            axis, parts = self._axes[place], [self._over(place, text) for text in conditions]
            over = [part for part in parts if part is not None]
            passing = np.full(axis.size, not conditions)
            for row, at in axis.rows.items():
                passing[at] = all(evaluate(part, values_of(row)) is True for part in over)
            self._resolved[place, conditions] = passing, not axis.is_open or self._lists(axis, over)
        return self._resolved[place, conditions]

    def _possible(self, place: int, conditions: Collection[str]) -> NDArray[np.bool_]:
        """Returns which places of an axis rows may have that fulfil conditions: where some of these were said before,
        the public values of then."""
        axis, possible = self._axes[place], np.ones(self._axes[place].size, dtype=np.bool_)
        for some, rows in self._covered[place].items():
            if some.issubset(conditions):
                possible &= np.array([row in rows for row in axis.rows] + [False] * axis.is_open)
        return possible

    def _lists(self, axis: CellAxis, conditions: list[Expression]) -> bool:
        """Whether conditions list all values that a key of one column may have, and all of them are places."""
        column = next((column for condition in conditions for column in columns_of(condition)), None)
        if column is None or len(axis.columns) > 1:
            return False
        listed = narrowed(column, None, tuple(conditions))
        return listed is not None and all((text_of(value),) in axis.rows for value in listed)

    def _over(self, place: int, condition: str) -> Expression | None:
        """Returns a condition over the columns `key0`, `key1`, ... of an axis; None where it reads anything else, or
        divides a place."""
        if (place, condition) not in self._conditions:
            line, over = self._axes[place].line, over_key(condition, self._axes[place].columns)
            if over is not None and line is not None:
                over = None if line.divides(expression_of(condition), self._possible(place, ()).tolist()) else over
            self._conditions[place, condition] = over
        return self._conditions[place, condition]


def _ordered(columns: Row) -> Expression | None:
    first = expression_of(columns[0])
    is_other = isinstance(first, Column) and first.type in (TEXT, BOOLEAN)
    return None if is_other else behind(columns)


def _lines(keys: Sequence[tuple[Row, Sequence[Row]]], conditions: Iterable[str]) -> dict[Expression, Line]:
    """Returns the ordered values that keys tell intervals of, cut where one of these or a condition changes."""
    cuts: dict[Expression, set[Any]] = {}
    for columns, domain in keys:
        value = _ordered(columns)
        begins = None if value is None else begins_of(columns, tuple(domain), value)
        if value is not None and begins is not None:
            cuts.setdefault(value, set()).update(begins)
    for text in conditions if cuts else ():
        value = behind((text,))
        if value in cuts:
            cuts[value] |= changes(expression_of(text), value) or frozenset()
    return {value: Line(value, tuple(sorted(begins))) for value, begins in cuts.items()}


def _begins(columns: Row, domain: Sequence[Row], lines: Mapping[Expression, Line]) -> bool:
    """Whether the places of a line were made for a key."""
    value = _ordered(columns)
    return value in lines and begins_of(columns, tuple(domain), value) is not None


def _place(axes: Sequence[tuple[Row, dict[Row, int]]], columns: Row, domain: Sequence[Row]) -> int | None:
    """Returns the axis of a key: that of the same columns, else one of more that has all of its values."""
    for place, (own, _) in enumerate(axes):
        if {*own} == {*columns}:
            return place
    for place, (own, rows) in enumerate(axes):
        if {*columns} < {*own}:
            at = [own.index(name) for name in columns]
            if {tuple(row[i] for i in at) for row in rows} >= {*domain}:
                return place
    return None


def _permuted(columns: Row, own: Row, domain: Sequence[Row]) -> Sequence[Row]:
    at = [columns.index(name) for name in own]
    return [tuple(values[i] for i in at) for values in domain]
