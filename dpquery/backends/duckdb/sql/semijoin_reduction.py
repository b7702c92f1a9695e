"""Semi- and anti-joins with groups of private rows: only rows are grouped whose keys the other side has.

`EXISTS` with a comparison groups all rows of a table by what it equates. Where the rows around are few, most groups
meet none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.plan.expr import Call, Column, Expression, Literal, children, conjuncts
from dpquery.plan.logical import Aggregate, Filter, Join, Relation, Scan, sources

LOOKED_FOR = "looked_for"
"""The rows of the left side, which both the groups' rows and the groups are joined with."""
_EXISTS = ("semi", "anti")
"""Joins whose result does not depend on rows of the right side that meet none of the left one."""


def is_looked_for(join: Join, groups: Aggregate) -> bool:
    """Whether rows of keys that the left side lacks are left out before they are grouped: decided by the plan alone.

    Privacy:
        A row is left out by what the left side has of its own unit: both units are among what is equal.
        docs/proofs/work.md, Lemma 5.
    """
    units = set(_units(join.left)), set(_units(groups))
    is_local = any(
        isinstance(a, Column) and isinstance(b, Column) and a.id in units[0] and b.id in units[1]
        for a, b in _pairs(join, groups)
    )
    return join.kind in _EXISTS and is_local and _are_few(join.left)


def matched(join: Join, groups: Aggregate) -> Join:
    """Returns the rows that are grouped, as far as the left side of the join has their keys."""
    pairs = _pairs(join, groups)
    return Join(left=groups.source, right=join.left, kind="semi", equalities=tuple((b, a) for a, b in pairs))


def _pairs(join: Join, groups: Aggregate) -> list[tuple[Expression, Expression]]:
    """Returns what the join equates with the keys of the groups."""
    return [(a, b) for a, b in join.equalities if isinstance(b, Column) and b.id in groups.group_by]


def _units(relation: Relation) -> Iterator[str]:
    """Yields the columns of scans that hold the unit of each row."""
    if isinstance(relation, Scan) and relation.unit is not None:
        yield relation.unit
    for source in sources(relation):
        yield from _units(source)


def _are_few(relation: Relation) -> bool:
    """Whether a filter asks for one value of a column: then few rows are expected."""
    if isinstance(relation, Filter) and any(map(_is_equality, conjuncts(relation.condition))):
        return True
    return any(map(_are_few, sources(relation)))


def _is_equality(part: Expression) -> bool:
    if isinstance(part, Column):
        return True
    if not isinstance(part, Call) or part.function != "eq":
        return False
    return sorted(isinstance(side, Literal) for side in children(part)) == [False, True]
