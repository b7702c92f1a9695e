"""Blocks of rows by date: which of them a plan can read, recomputed from the plan that runs. docs/proofs/blocks.md.

A block is a calendar day, week, month, quarter or year, known by its number; numbers grow with time. Rows without a
date are in the block `undated`. What is not understood touches all blocks, also those that are not declared yet.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpquery.plan.calendar import By, name_of, number_of
from dpquery.plan.expr import Call, Column, Expression, Literal
from dpquery.plan.logical import Filter, Relation, Scan, sources
from dpquery.plan.types import Type, are_values

if TYPE_CHECKING:
    from dpquery.units.declarations import Declarations

UNDATED = "undated"
WHOLE = "*"
"""What a charge to all blocks is called: those declared, the undated one, and those that will be declared."""
MOST_BLOCKS = 1_200
FIRST, LAST = -(10**9), 10**9
"""Below and above the number of every block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRange:
    """The blocks that have accounts: those numbered from `first` to `last`."""

    by: By
    first: int
    last: int

    def __post_init__(self) -> None:
        if type(self.by) is not By or type(self.first) is not int or type(self.last) is not int:
            raise ValueError("an axis goes from one number to another")
        if not FIRST < self.first <= self.last < LAST or self.last - self.first >= MOST_BLOCKS:
            raise ValueError(f"there are from 1 to {MOST_BLOCKS:,} blocks")

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of all blocks, the undated one last."""
        return (*(name_of(number, self.by) for number in range(self.first, self.last + 1)), UNDATED)


@dataclass(frozen=True, slots=True)
class Touched:
    """A set of blocks: numbers in closed spans, in order and apart, and perhaps the undated block."""

    spans: tuple[tuple[int, int], ...]
    undated: bool

    def __or__(self, other: Touched) -> Touched:
        joined: list[tuple[int, int]] = []
        for first, last in sorted(self.spans + other.spans):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(joined[-1][1], last)
            else:
                joined.append((first, last))
        return Touched(tuple(joined), self.undated or other.undated)

    def __and__(self, other: Touched) -> Touched:
        met = [(max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans]
        whole = tuple(sorted((first, last) for first, last in met if first <= last))
        return Touched(whole, self.undated and other.undated)


NONE = Touched((), False)
ALL = Touched(((FIRST, LAST),), True)


def touched(relation: Relation, declared: Declarations) -> Touched:
    """Returns the blocks whose rows the relation may depend on.

    Privacy:
        Where a block is not among them, the relation has the same rows on databases that differ in that block alone.
        Only filters that stand directly on a scan count. `locality` has accepted the relation.
        Neighbours: in a block, as in docs/proofs/blocks.md.
    Source:
        docs/proofs/blocks.md, Lemma 2.
    """
    conditions: list[Expression] = []
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.source
    if not isinstance(relation, Scan):
        found = NONE
        for source in sources(relation):
            found |= touched(source, declared)
        return found
    return NONE if relation.public else _of_scan(relation, conditions, declared)


def _of_scan(scan: Scan, conditions: list[Expression], declared: Declarations) -> Touched:
    axis, dated = declared.blocks, declared.tables[scan.table].dated
    if axis is None or dated is None or (scan.ownership is not None and scan.ownership.path):
        return ALL
    ids = frozenset(column.id for column in scan.columns if (column.name, column.type) == dated[:2])
    found = ALL
    for condition in conditions:
        found &= may_hold(condition, ids, dated[1], axis.by)
    return found


def may_hold(condition: Expression, ids: frozenset[str], type: Type, by: By) -> Touched:
    """Returns a set with the block of every row for which the condition is true.

    Args:
        ids: The columns that hold the row's date.
        type: Their type.
    Source:
        docs/proofs/blocks.md, Lemma 1.
    """
    if not isinstance(condition, Call):
        return ALL
    parts = condition.arguments
    match condition.function:
        case "and":
            found = ALL
            for part in parts:
                found &= may_hold(part, ids, type, by)
            return found
        case "or":
            found = NONE
            for part in parts:
                found |= may_hold(part, ids, type, by)
            return found
        case "is_null" if _is_date(parts[0], ids):
            return Touched((), True)
        case "in" if _is_date(parts[0], ids) and all(_is_constant(part, type) for part in parts[1:]):
            found = NONE
            for part in parts[1:]:
                found |= _compared("eq", part, by)
            return found
        case "lt" | "le" | "eq" | "ge" | "gt" as function if _is_date(parts[0], ids) and _is_constant(parts[1], type):
            return _compared(function, parts[1], by)
        case "lt" | "le" | "eq" | "ge" | "gt" as function if _is_date(parts[1], ids) and _is_constant(parts[0], type):
            return _compared({"lt": "gt", "le": "ge", "ge": "le", "gt": "lt"}.get(function, "eq"), parts[0], by)
        case _:
            return ALL


def _is_date(expression: Expression, ids: frozenset[str]) -> bool:
    return isinstance(expression, Column) and expression.id in ids


def _is_constant(expression: Expression, type: Type) -> bool:
    return isinstance(expression, Literal) and expression.type == type and are_values((expression.value,), type)


def _compared(function: str, constant: Expression, by: By) -> Touched:
    """Returns the blocks of the dates that compare with a constant; nothing compares with NULL."""
    value = constant.value if isinstance(constant, Literal) else None
    if not isinstance(value, datetime.date):
        return NONE
    is_moment = isinstance(value, datetime.datetime)
    step = datetime.timedelta(microseconds=1) if is_moment else datetime.timedelta(days=1)
    try:  # the values beside the constant, between which there are no others
        nearest = {"lt": -1, "gt": 1}.get(function, 0) * step + value
    except OverflowError:
        return NONE
    number = number_of(nearest, by)
    if function == "eq":
        return Touched(((number, number),), False)
    return Touched(((number, LAST) if function in ("ge", "gt") else (FIRST, number),), False)
