"""Columns that lead to one privacy unit each, as far as the catalog declares it: groups by them belong to one unit."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dpquery.catalog.cached_locality import cached_locality
from dpquery.catalog.model import Catalog
from dpquery.plan.definitions import definition, ending_of, origin_of
from dpquery.plan.expr import Column
from dpquery.plan.logical import Relation, Scan, SetOperation
from dpquery.plan.one_to_one import column_behind


def owning_columns(group_by: tuple[str, ...], source: Relation, catalog: Catalog) -> tuple[str, frozenset[str]] | None:
    """Returns the table and its columns by which each group belongs to one privacy unit; None if there are none.

    It follows from what the catalog declares: the unit's own column, a foreign key to the owner, columns that are
    unique in a private table, or one-to-one functions of these. A wrong declaration makes a wrong refusal, no more.
    """
    read: dict[str, set[str]] = {}
    scans: dict[str, Scan] = {}
    for id in group_by:
        if (own := _unit_of(id, source)) is not None:
            return own
        expression, found = origin_of(id, source)
        behind = column_behind(expression)
        if behind is not None and behind.id in found:
            scan = found[behind.id]
            if not isinstance(scan, Scan):
                continue
            name = next(column.name for column in scan.columns if column.id == behind.id)
            place = scan.columns[0].id
            read.setdefault(place, set()).add(name)
            scans[place] = scan
    for place, names in read.items():
        for columns in _leading_to_one(scans[place], catalog):
            if columns <= names:
                return scans[place].table, columns
    return None


def unit_of_parts(ids: Collection[str], source: Relation, catalog: Catalog) -> Column | None:
    """Returns the unit's column of the relation where columns of it are all the parts of that unit; None otherwise."""
    read = [_part(id, source) for id in ids]
    scans = {scan.unit: scan for scan, _ in filter(None, read)}
    if None in read or len(scans) != 1:
        return None
    ((unit, scan),) = scans.items()
    if unit is None or scan.ownership is None or {name for _, name in filter(None, read)} != {*scan.ownership.columns}:
        return None
    is_held = unit in cached_locality(source, catalog.declarations).units
    return Column(id=unit, type=scan.ownership.type) if is_held else None


def parts_of_unit(ids: Collection[str], source: Relation, units: frozenset[str]) -> frozenset[str]:
    """Returns the columns of a relation that are parts of its unit, which is not NULL on any row that counts."""
    read = {id: _part(id, source) for id in ids}
    return frozenset(id for id, part in read.items() if part is not None and part[0].unit in units)


def _part(id: str, source: Relation) -> tuple[Scan, str] | None:
    """Returns the scan that a column is read from, and its name there, where it is a part of that scan's unit."""
    meaning, leaves = definition(id, source)
    scan = leaves.get(meaning.id) if isinstance(meaning, Column) else None
    if not isinstance(scan, Scan) or scan.ownership is None or scan.ownership.path:
        return None
    names = [c.name for c in scan.columns if isinstance(meaning, Column) and c.id == meaning.id]
    return (scan, names[0]) if scan.ownership.parts and names and names[0] in scan.ownership.columns else None


def _unit_of(id: str, source: Relation) -> tuple[str, frozenset[str]] | None:
    """Returns the table and the unit's own column of it that the column is, on every side of the set operations it
    passes."""
    meaning, found = origin_of(id, source)
    expression = column_behind(meaning)
    if expression is None:
        return None
    scan = found.get(expression.id)
    if isinstance(scan, Scan) and scan.ownership is not None and scan.ownership.is_stored:
        names = {column.name for column in scan.columns if column.id == expression.id}
        return (scan.table, frozenset(names)) if names == {scan.ownership.column} else None
    operation = ending_of(expression.id, source)
    if not isinstance(operation, SetOperation):
        return None
    matched = next(column for column in operation.columns if column.id == expression.id)
    sides = [_unit_of(matched.left, operation.left), _unit_of(matched.right, operation.right)]
    return None if None in sides else sides[0]


def _leading_to_one(scan: Scan, catalog: Catalog) -> Iterator[frozenset[str]]:
    if scan.public or scan.ownership is None:
        return
    if scan.ownership.path:
        yield frozenset(child for child, _, _ in scan.ownership.path[0].on)
    else:
        yield frozenset(scan.ownership.columns)
    yield from catalog.tables[scan.table].unique
