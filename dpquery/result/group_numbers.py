"""Noisy numbers that windows and second aggregations make of released groups: those of other groups, sums and means.

Each row below is a group of one released table, whose groups are public, and which rows are there, in which order and
in which partition, follows from no noise. So it is known how much noise is in a number, and what was shown of other
groups changes nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.error_propagation import Factors
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.moments import AVG
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Column, Expression, Literal, columns_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Project,
    Relation,
    Released,
    Sort,
    Window,
    WindowColumn,
)
from dpquery.plan.noisy_columns import Keys, noisy_columns
from dpquery.plan.types import INT64
from dpquery.plan.windows import PICKS

Floats = NDArray[np.float64]
STEPPING = frozenset({"lag", "lead"})
"""Functions that give the value of another row at a distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A measure's number in another group.

    Attributes:
        measure: Its id.
        is_other: Whether it is surely not that of the row's own group.
    """

    measure: str
    is_other: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """A sum or a mean of numbers of groups.

    Attributes:
        factors: The measures in the number of one group, each with its factor.
        rounded: How far the number of one group may be off by being rounded.
        rows: The id of the column that says, row by row, how many groups' numbers are in it.
        is_mean: Whether they are divided by how many they are.
    """

    factors: Factors
    rounded: Fraction
    rows: str
    is_mean: bool

    def half_widths(self, counts: Iterable[object], width: Callable[[Factors, int], Fraction]) -> Floats:
        """Returns how far the number may be off, shape (rows,); NaN where no group is in it.

        Args:
            counts: How many groups' numbers are in it, row by row.
            width: How far a sum of so many groups' numbers may be off, but for rounding them.
        """
        listed = [count if isinstance(count, int) else 0 for count in counts]
        of = {n: float(width(self.factors, n) + n * self.rounded) for n in {*listed} if n > 0}
        return np.array([of.get(n, np.nan) / (n if self.is_mean and n else 1) for n in listed], dtype=np.float64)


def noisy_of_groups(relation: Relation, keys: Keys, is_public: Callable[[int], bool]) -> frozenset[str] | None:
    """Returns the noisy columns of rows that are each a group of one released table, in which groups are public and
    which rows are there follows from no noise; None of any other rows.

    Args:
        keys: Gives a released table's exact columns.
        is_public: Whether all groups of a released table are in it.
    """
    match relation:
        case Released() if is_public(relation.index):
            return noisy_columns(relation, keys)
        case Filter():
            below = noisy_of_groups(relation.source, keys, is_public)
            return None if below is None or below & _read(relation.condition) else below
        case Project() | Window() | Sort() if noisy_of_groups(relation.source, keys, is_public) is not None:
            return noisy_columns(relation, keys)
        case _:
            return None


def is_exact(column: WindowColumn, noisy: frozenset[str]) -> bool:
    """Whether no noise decides which rows a window function reads, and in which order."""
    ordered = {key.column for key in column.order_by}
    return not noisy & {*column.partition_by, *ordered, *_read(column.filter, *column.arguments[1:])}


def is_picked(column: WindowColumn) -> bool:
    """Whether a window function gives the value of one row."""
    return column.function in PICKS or column.function in STEPPING


def is_of_other(column: WindowColumn) -> bool:
    """Whether that is surely not the row itself."""
    offset = column.arguments[1] if column.function in STEPPING and len(column.arguments) > 1 else None
    return column.function in STEPPING and (offset is None or (isinstance(offset, Literal) and offset.value != 0))


def picking(column: WindowColumn, leaf: Column) -> WindowColumn:
    """Returns the window function, still without a name, that gives another column's value of the same row; NULL where
    there is none."""
    arguments = (leaf, *column.arguments[1:2])
    return replace(column, id="", name="", arguments=arguments, type=leaf.type, span=None)


def counting(column: WindowColumn) -> WindowColumn:
    """Returns the window function that counts how many values one adds up."""
    return replace(column, id=rows_of(column.id), name="", function="count", type=INT64)


def counting_groups(column: AggregateColumn) -> AggregateColumn:
    """Returns the aggregate that counts how many values one adds up."""
    return replace(column, id=rows_of(column.id), name="", function=COUNT, type=INT64)


def rows_of(id: str) -> str:
    """Returns the id of the column that says how many values are in a sum or mean."""
    return f"{id}_rows"


def added_up_by(aggregate: Aggregate, noisy: frozenset[str]) -> list[AggregateColumn]:
    """Returns the sums and means of an aggregation of groups in which no noise decides what is added up."""
    if noisy & {*aggregate.group_by}:
        return []
    added = [one for one in aggregate.aggregates if one.function in (SUM, AVG)]
    return [one for one in added if not noisy & _read(one.filter)]


def _read(*parts: Expression | None) -> frozenset[str]:
    return frozenset(column.id for part in parts if part is not None for column in columns_of(part))
