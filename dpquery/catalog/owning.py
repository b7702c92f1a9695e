"""Columns that lead to one privacy unit each, as far as the catalog declares it: groups by them belong to one unit."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.catalog.model import Catalog
from dpquery.plan.definitions import ending_of, origin_of
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


def _unit_of(id: str, source: Relation) -> tuple[str, frozenset[str]] | None:
    """Returns the table and the unit's own column of it that the column is, on every side of the set operations it
    passes."""
    meaning, found = origin_of(id, source)
    expression = column_behind(meaning)
    if expression is None:
        return None
    scan = found.get(expression.id)
    if isinstance(scan, Scan) and scan.ownership is not None and not scan.ownership.path:
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
        yield frozenset({scan.ownership.column})
    yield from catalog.tables[scan.table].unique
