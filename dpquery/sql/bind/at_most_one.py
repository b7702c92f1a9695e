"""How many rows a relation can have: exactly one, at most one, or more. A subquery used as a value may have one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
)


class Rows(Enum):
    """A bound on the number of rows that follows from the plan alone."""

    ONE = "one"
    AT_MOST_ONE = "at most one"
    MANY = "many"


def rows_of(relation: Relation, boundaries: Sequence[Aggregate]) -> Rows:
    """Returns the bound for a relation.

    Args:
        boundaries: What the released tables are; a grand total has one row.
    """
    match relation:
        case Values():
            return {0: Rows.AT_MOST_ONE, 1: Rows.ONE}.get(len(relation.rows), Rows.MANY)
        case Released():
            return Rows.MANY if boundaries[relation.index].group_by else Rows.ONE
        case Aggregate() if not relation.group_by:
            return Rows.ONE
        case Project() | Sort() | Window():
            return rows_of(relation.source, boundaries)
        case Filter() | Aggregate():
            return Rows.MANY if rows_of(relation.source, boundaries) is Rows.MANY else Rows.AT_MOST_ONE
        case Limit():
            return Rows.AT_MOST_ONE if relation.count in (0, 1) else _fewer(rows_of(relation.source, boundaries))
        case Join(kind="semi" | "anti"):
            return _fewer(rows_of(relation.left, boundaries))
        case Join(kind="inner" | "cross" | "left"):
            sides = {rows_of(side, boundaries) for side in (relation.left, relation.right)}
            if Rows.MANY in sides:
                return Rows.MANY
            return Rows.ONE if sides == {Rows.ONE} and relation.kind != "inner" else _left(relation, boundaries)
        case Scan() | Join() | SetOperation():
            return Rows.MANY
        case _:
            assert_never(relation)


def _left(join: Join, boundaries: Sequence[Aggregate]) -> Rows:
    """Returns the bound of a join of at most one row with at most one row."""
    return rows_of(join.left, boundaries) if join.kind == "left" else Rows.AT_MOST_ONE


def _fewer(rows: Rows) -> Rows:
    return Rows.MANY if rows is Rows.MANY else Rows.AT_MOST_ONE
