"""How many rows a unit is declared to have, and which columns follow from the unit.

Both only choose the contribution bounds of a plan. Whatever is chosen is enforced, so a wrong declaration costs
accuracy and never privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.kernel.locality import locality
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
            if is_private(relation):
                follows |= locality(relation, catalog.declarations).units
            return Contribution(rows=source.rows, attributes=frozenset(follows), max_groups=source.max_groups)
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
    if is_private(join.left) and is_private(join.right):
        bounds = [bound for bound in (left.max_groups, right.max_groups) if bound is not None]
        return Contribution(
            rows=_pairs(join, left, right, catalog),
            attributes=_attributes(join, left, right),
            max_groups=min(bounds, default=None),
        )
    on_the_left = is_private(join.left)
    private, public = (left, join.right) if on_the_left else (right, join.left)
    keys = [(a, b) if on_the_left else (b, a) for a, b in join.equalities]
    joined = {column.id for _, column in keys if isinstance(column, Column)}
    if not _is_unique(public, joined, catalog):
        return Contribution(rows=None, attributes=private.attributes, max_groups=private.max_groups)
    attributes = private.attributes
    given = frozenset(column.id for column in output(public))
    same_match = join.kind == "inner" or join.condition is None or _follows(join.condition, attributes | given)
    if same_match and all(_follows(own, attributes) for own, _ in keys):
        attributes |= given
    return Contribution(rows=private.rows, attributes=attributes, max_groups=private.max_groups)


def _pairs(join: Join, left: Contribution, right: Contribution, catalog: Catalog) -> int | None:
    """Returns the most rows of one unit in a join of private relations; a side may be there without the other."""
    if left.rows is None or right.rows is None:
        return None
    met = left.rows * right.rows
    return met if join.kind != "full" or _meets_fully(join, catalog) else max(met, left.rows + right.rows)


def _meets_fully(join: Join, catalog: Catalog) -> bool:
    """Whether all rows of a unit on one side meet all of its rows on the other: nothing but units is compared."""
    units = [locality(side, catalog.declarations).units for side in (join.left, join.right)]
    pairs = [(a.id, b.id) for a, b in join.equalities if isinstance(a, Column) and isinstance(b, Column)]
    of_units = [pair for pair in pairs if pair[0] in units[0] and pair[1] in units[1]]
    return join.condition is None and len(of_units) == len(join.equalities)


def _attributes(join: Join, left: Contribution, right: Contribution) -> frozenset[str]:
    """Returns the attributes of a join of private relations.

    A side that is filled up with NULL keeps its attributes where the unit's rows of the other side all meet or all do
    not: where the join compares attributes of that side alone.
    """
    filled = {"left": [(right, left)], "full": [(right, left), (left, right)]}.get(join.kind, [])
    lost: frozenset[str] = frozenset()
    for side, other in filled:
        outside = {column.id for column in output(join.left if other is left else join.right)}
        parts = [expression for pair in join.equalities for expression in pair]
        parts += [] if join.condition is None else [join.condition]
        read = {column.id for part in parts for column in columns_of(part)} & outside
        if not read <= other.attributes:
            lost |= side.attributes
    return (left.attributes | right.attributes) - lost


def _is_unique(public: Relation, joined: set[str], catalog: Catalog) -> bool:
    """Whether the joined columns cover a declared unique set of a public table."""
    while isinstance(public, Filter | Project):
        if isinstance(public, Project):
            renamed = {c.id: c.expression.id for c in public.columns if isinstance(c.expression, Column)}
            joined = {renamed[id] for id in joined if id in renamed}
        public = public.source
    if isinstance(public, Values):
        places = [i for i, column in enumerate(public.columns) if column.id in joined]
        columns = [[row[i] for row in public.rows if row[i] is not None] for i in places]
        return any(len(set(values)) == len(values) for values in columns)
    if not isinstance(public, Scan):
        return False
    names = {column.name for column in public.columns if column.id in joined}
    return any(unique <= names for unique in catalog.tables[public.table].unique)


def _follows(expression: Expression, attributes: frozenset[str]) -> bool:
    return all(column.id in attributes for column in columns_of(expression))
