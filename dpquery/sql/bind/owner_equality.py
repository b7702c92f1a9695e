"""Joins along ownership: which equality of units follows from the columns that a query equates."""

from __future__ import annotations

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.expr import Column, Expression
from dpquery.plan.logical import Project, Relation, Scan, column, is_private, sources
from dpquery.sql.bind.scope import Context

Equality = tuple[Expression, Expression]


def owner_equality(left: Relation, right: Relation, equalities: list[Equality], context: Context) -> list[Equality]:
    """Returns the equality of units that a join along an ownership path implies, if it does not stand there already.

    Adding it is always safe; as a child's row has the owner of the one parent row that it refers to, which the backend
    checks, it removes no pair of rows. So it is right for every kind of join.
    """
    if not (is_private(left) and is_private(right)):
        return []
    sides = [cached_locality(relation, context.catalog.declarations).telling for relation in (left, right)]
    pairs = [(a.id, b.id) for a, b in equalities if isinstance(a, Column) and isinstance(b, Column)]
    if any(a in sides[0] and b in sides[1] for a, b in pairs):
        return []
    origins = [(_origin(left, a), _origin(right, b)) for a, b in pairs]
    joined = set(origins) | {(b, a) for a, b in origins}
    for mine in _scans(left):
        for other in _scans(right):
            if mine.unit not in sides[0] or other.unit not in sides[1]:
                continue
            follows = _follows(mine, other, joined) or _follows(other, mine, joined)
            if follows or _are_siblings(mine, other, joined) or _are_one_unit(mine, other, joined):
                return [(column(left, mine.unit), column(right, other.unit))]
    return []


def _follows(child: Scan, parent: Scan, joined: set[tuple[str, str]]) -> bool:
    """Whether the joined columns are the first step of the child's ownership, and lead to this parent."""
    if child.ownership is None or not child.ownership.path or child.ownership.path[0].parent != parent.table:
        return False
    children = {c.name: c.id for c in child.columns}
    parents = {c.name: c.id for c in parent.columns}
    return all((children.get(a), parents.get(b)) in joined for a, b, _ in child.ownership.path[0].on)


def _are_siblings(first: Scan, second: Scan, joined: set[tuple[str, str]]) -> bool:
    """Whether the joined columns lead both to the same parent's row, whose owner is theirs."""
    paths = [scan.ownership.path if scan.ownership is not None else () for scan in (first, second)]
    if not paths[0] or not paths[1] or paths[0][0].parent != paths[1][0].parent:
        return False
    ids = [{c.name: c.id for c in scan.columns} for scan in (first, second)]
    keys = [{parent: ids[i].get(child) for child, parent, _ in path[0].on} for i, path in enumerate(paths)]
    return keys[0].keys() == keys[1].keys() and all((keys[0][key], keys[1][key]) in joined for key in keys[0])


def _are_one_unit(first: Scan, second: Scan, joined: set[tuple[str, str]]) -> bool:
    """Whether the joined columns are all parts of both rows' units, in order."""
    owners = (first.ownership, second.ownership)
    if any(owner is None or owner.path or not owner.parts for owner in owners):
        return False
    ids = [{c.name: c.id for c in scan.columns} for scan in (first, second)]
    parts = [owner.columns for owner in owners if owner is not None]
    return all((ids[0].get(a, ""), ids[1].get(b, "")) in joined for a, b in zip(*parts, strict=True))


def _origin(relation: Relation, id: str) -> str:
    """Returns the id that a column has below, where projections only gave it another one."""
    if isinstance(relation, Project):
        made = next((c.expression for c in relation.columns if c.id == id), None)
        id = made.id if isinstance(made, Column) else id
    for source in sources(relation):
        id = _origin(source, id)
    return id


def _scans(relation: Relation) -> list[Scan]:
    if isinstance(relation, Scan):
        return [relation] if relation.unit is not None else []
    return [scan for source in sources(relation) for scan in _scans(source)]
