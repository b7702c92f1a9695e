"""Joins with chosen public rows, made as early as they can be: what they are moved to meets one of them at most.

The engine orders joins by itself, but moves none across the fences of `sql/sentinels`: it would join all items with
all orders, and then keep those of the suppliers of one nation.
"""

from __future__ import annotations

from dataclasses import replace

from dpquery.plan.expr import Column, columns_of
from dpquery.plan.logical import Filter, Join, Relation, is_private, output, sources
from dpquery.units.declarations import Declarations
from dpquery.units.joins import unique_sets

_BESIDE_LEFT = ("inner", "cross", "left", "semi", "anti")
"""Joins of which a row has one row of the left side, with all its columns, so that either join may be made first."""
_BESIDE_RIGHT = ("inner", "cross")


def early(join: Join, declared: Declarations) -> Relation:
    """Returns a join; one with chosen public rows is made below the joins of its left side that it does not need.

    Such a join is moved where it makes no more rows of what it is moved to than there are, so that no other join has
    more to do: docs/proofs/work.md.
    """
    return _placed(join, join.left) if _only_keeps(join, declared) else join


def _only_keeps(join: Join, declared: Declarations) -> bool:
    """Whether a join is with some rows of public tables, and has at most one row for each of its left side.

    With all rows of a table rows would only have more columns to carry.
    """
    if join.kind in ("semi", "anti"):
        return is_private(join.left) and not is_private(join.right)
    if is_private(join.right) or not is_private(join.left) or not _is_filtered(join.right):
        return False
    met = {b.id for _, b in join.equalities if isinstance(b, Column)}
    return join.kind in _BESIDE_RIGHT and any(unique <= met for unique in unique_sets(join.right, declared))


def _is_filtered(relation: Relation) -> bool:
    return isinstance(relation, Filter) or any(map(_is_filtered, sources(relation)))


def _placed(join: Join, left: Relation) -> Relation:
    """Returns a join with these rows on its left side, made as far below as its columns are."""
    if isinstance(left, Filter):
        return replace(left, source=_placed(join, left.source))
    if isinstance(left, Join) and left.kind in _BESIDE_LEFT:
        own = {column.id for column in output(join.right)}
        parts = [*(a for a, _ in join.equalities), *([] if join.condition is None else [join.condition])]
        read = {column.id for part in parts for column in columns_of(part)} - own
        if is_private(left.left) and read <= {column.id for column in output(left.left)}:
            return replace(left, left=_placed(join, left.left))
        may_be_right = left.kind in _BESIDE_RIGHT and is_private(left.right)
        if may_be_right and read <= {column.id for column in output(left.right)}:
            return replace(left, right=_placed(join, left.right))
    return replace(join, left=left)
