"""Window functions over lists of rows: plain loops, one partition after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from dpquery.errors import InternalError
from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.logical import SortKey, Window, WindowColumn, output
from dpquery.plan.types import FLOAT64, Value, sum_type
from dpquery.plan.windows import PICKS, RANKS, TOTALS, exact_sum, frame_of, summand

Row = dict[str, Value]


def windowed(window: Window, rows: list[Row]) -> list[Row]:
    """Returns the rows, in the same order, with the columns of the window functions."""
    made: list[Row] = [dict(row) for row in rows]
    ties = [SortKey(column=column.id) for column in output(window.source)]
    for column in window.columns:
        partitions: dict[tuple[Value, ...], list[int]] = {}
        for place, row in enumerate(rows):
            partitions.setdefault(tuple(normal(row[id]) for id in column.partition_by), []).append(place)
        for places in partitions.values():
            places.sort(key=cmp_to_key(_comparison(rows, (*column.order_by, *ties))))
            partition = _Partition(column=column, rows=[rows[place] for place in places])
            for place, value in zip(places, partition.values(), strict=True):
                made[place][column.id] = value
    return made


@dataclass(frozen=True, kw_only=True)
class _Partition:
    """The rows of one partition, ordered by the query and then by all columns."""

    column: WindowColumn
    rows: list[Row]

    def values(self) -> list[Value]:
        function = self.column.function
        if function in RANKS:
            return self._ranks()
        if function in PICKS:
            return [self._picked(self.rows[start:end]) for start, end in self._frames()]
        if function in TOTALS:
            return [_total(self.column, self.rows[start:end]) for start, end in self._frames()]
        count = len(self.rows)
        match function:
            case "row_number":
                return [place + 1 for place in range(count)]
            case "ntile":
                return _tiles(count, _number(self.column.arguments[0]))
            case "lag":
                return [self._shifted(place, -_number(self.column.arguments[1])) for place in range(count)]
            case "lead":
                return [self._shifted(place, _number(self.column.arguments[1])) for place in range(count)]
            case _:
                raise InternalError(f"the window function {function} has no meaning here")

    def _peers(self) -> list[int]:
        """Returns for each row the number of its group of rows that the query's order leaves equal."""
        compare = _comparison(self.rows, self.column.order_by)
        groups: list[int] = []
        for place in range(len(self.rows)):
            same = place > 0 and compare(place - 1, place) == 0
            groups.append(groups[-1] + (0 if same else 1) if groups else 0)
        return groups

    def _frames(self) -> list[tuple[int, int]]:
        """Returns for each row where its frame starts and where it ends."""
        frame, count = frame_of(self.column), len(self.rows)
        units = list(range(count)) if frame.mode == "rows" else self._peers()
        found = []
        for unit in units:
            inside = [
                place
                for place, other in enumerate(units)
                if (frame.start is None or other >= unit + frame.start)
                and (frame.end is None or other <= unit + frame.end)
            ]
            found.append((inside[0], inside[-1] + 1) if inside else (0, 0))
        return found

    def _ranks(self) -> list[Value]:
        groups, count = self._peers(), len(self.rows)
        firsts = [groups.index(group) for group in groups]
        match self.column.function:
            case "rank":
                return [first + 1 for first in firsts]
            case "dense_rank":
                return [group + 1 for group in groups]
            case "percent_rank":
                return [first / (count - 1) if count > 1 else 0.0 for first in firsts]
            case _:
                return [sum(other <= group for other in groups) / count for group in groups]

    def _picked(self, frame: list[Row]) -> Value:
        place = {"first_value": 0, "last_value": len(frame) - 1}.get(self.column.function)
        if place is None:
            place = _number(self.column.arguments[1]) - 1
        return evaluate(self.column.arguments[0], frame[place]) if 0 <= place < len(frame) else None

    def _shifted(self, place: int, offset: int) -> Value:
        arguments = self.column.arguments
        if 0 <= place + offset < len(self.rows):
            return evaluate(arguments[0], self.rows[place + offset])
        return evaluate(arguments[2], self.rows[place]) if len(arguments) > 2 else None


def _total(column: WindowColumn, frame: list[Row]) -> Value:
    if column.filter is not None:
        frame = [row for row in frame if evaluate(column.filter, row) is True]
    if not column.arguments:
        return len(frame)
    argument = column.arguments[0]
    given: list[Any] = [v for row in frame if (v := evaluate(argument, row)) is not None]
    if column.function == "count":
        return len(given)
    if column.function in ("min", "max"):
        least: Value = (min if column.function == "min" else max)(given, default=None)
        return least
    added = [v for row in frame if (v := evaluate(summand(argument), row)) is not None]
    if not added:
        return None
    if column.function == "sum" and column.type != FLOAT64:
        return exact_sum(added, column.type)
    total = float(exact_sum(added, sum_type(summand(argument).type)) or 0)
    return total / len(added) if column.function == "avg" else total


def _tiles(count: int, tiles: int) -> list[Value]:
    """Returns the number of each row's tile: the first ones are larger by one row where they cannot be equal."""
    size, larger = divmod(count, tiles)
    return [tile + 1 for tile in range(min(count, tiles)) for _ in range(size + (tile < larger))]


def _number(argument: Expression) -> int:
    assert isinstance(argument, Literal)
    assert isinstance(argument.value, int)
    return argument.value


def _comparison(rows: list[Row], keys: Sequence[SortKey]) -> Callable[[int, int], int]:
    """Returns the order of two rows, given by their places in `rows`."""

    def compare(one: int, other: int) -> int:
        for key in keys:
            a: Any = normal(rows[one][key.column])
            b: Any = normal(rows[other][key.column])
            if a == b:
                continue
            if a is None or b is None:
                return -1 if (a is None) is key.nulls_first else 1
            return -1 if (a < b) is not key.descending else 1
        return 0

    return compare
