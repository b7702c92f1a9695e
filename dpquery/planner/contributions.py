"""How many rows a unit is declared to have, and which columns follow from the unit.

Both only choose the contribution bounds of a plan. Whatever is chosen is enforced, so a wrong declaration costs
accuracy and never privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.kernel.local_joins import unique_sets
from dpquery.plan.expr import Column, Expression, columns_of
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
    is_private,
    output,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What the catalog says of one unit's rows in a relation.

    Attributes:
        rows: The most rows of one unit; None where no table declares `max_rows`.
        attributes: Ids of the columns that have one value for each unit.
        max_groups: The smallest declared `max_groups` of the tables read, or None.
    """

    rows: int | None
    attributes: frozenset[str]
    max_groups: int | None = None


def contribution_of(relation: Relation, catalog: Catalog) -> Contribution:
    """Returns what is declared of one unit's rows in a unit-local relation."""
    match relation:
        case Scan():
            return _scan(relation, catalog)
        case Filter():
            return contribution_of(relation.source, catalog)
        case Project():
            source = contribution_of(relation.source, catalog)
            follows = {c.id for c in relation.columns if _follows(c.expression, source.attributes)}
            return Contribution(rows=source.rows, attributes=frozenset(follows), max_groups=source.max_groups)
        case Join(kind="semi" | "anti"):
            return contribution_of(relation.left, catalog)
        case Join():
            return _join(relation, catalog)
        case Aggregate():
            source = contribution_of(relation.source, catalog)
            if set(relation.group_by) <= source.attributes:
                everything = frozenset(column.id for column in output(relation))
                return Contribution(rows=1, attributes=everything, max_groups=source.max_groups)
            kept = frozenset(relation.group_by) & source.attributes
            return Contribution(rows=source.rows, attributes=kept, max_groups=source.max_groups)
        case Sort() | Limit():
            return contribution_of(relation.source, catalog)
        case Window():
            return contribution_of(relation.source, catalog)
        case SetOperation():
            return Contribution(rows=None, attributes=frozenset())
        case Values() | Released():
            return Contribution(rows=None, attributes=frozenset())
        case _:
            assert_never(relation)


def _scan(scan: Scan, catalog: Catalog) -> Contribution:
    table = catalog.tables[scan.table]
    if catalog.declarations.unit_is_row and not scan.public:
        return Contribution(rows=1, attributes=frozenset(c.id for c in output(scan)))
    if scan.unit is None or scan.ownership is None:
        return Contribution(rows=None, attributes=frozenset())
    if not scan.ownership.path and frozenset({scan.ownership.column}) in table.unique:
        return Contribution(rows=1, attributes=frozenset(c.id for c in output(scan)))
    return Contribution(rows=table.max_rows, attributes=frozenset({scan.unit}), max_groups=table.max_groups)


def _join(join: Join, catalog: Catalog) -> Contribution:
    left, right = contribution_of(join.left, catalog), contribution_of(join.right, catalog)
    both_private = is_private(join.left) and is_private(join.right)
    if both_private:
        rows = None if left.rows is None or right.rows is None else left.rows * right.rows
        if _is_unique(join.right, {b.id for _, b in join.equalities if isinstance(b, Column)}, catalog):
            rows = left.rows
        bounds = [bound for bound in (left.max_groups, right.max_groups) if bound is not None]
        attributes = left.attributes | right.attributes
        return Contribution(rows=rows, attributes=attributes, max_groups=min(bounds, default=None))
    on_the_left = is_private(join.left)
    private, public = (left, join.right) if on_the_left else (right, join.left)
    keys = [(a, b) if on_the_left else (b, a) for a, b in join.equalities]
    joined = {column.id for _, column in keys if isinstance(column, Column)}
    if not _is_unique(public, joined, catalog):
        return Contribution(rows=None, attributes=private.attributes, max_groups=private.max_groups)
    attributes = private.attributes
    if all(_follows(own, attributes) for own, _ in keys):
        attributes |= {column.id for column in output(public)}
    return Contribution(rows=private.rows, attributes=attributes, max_groups=private.max_groups)


def _is_unique(relation: Relation, joined: set[str], catalog: Catalog) -> bool:
    """Whether no two rows of a relation agree in the joined columns, as far as is declared."""
    return any(unique <= joined for unique in unique_sets(relation, catalog.declarations))


def _follows(expression: Expression, attributes: frozenset[str]) -> bool:
    return all(column.id in attributes for column in columns_of(expression))
