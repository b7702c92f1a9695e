"""Grouping columns that lead to one privacy unit each: such groups can never be shown, and asking is a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.catalog import Catalog
from dpquery.plan.expr import Column
from dpquery.plan.logical import Relation, Scan
from dpquery.planner.definitions import origin_of


def owned_by_one_unit(group_by: tuple[str, ...], source: Relation, catalog: Catalog) -> str | None:
    """Returns the column, for people, by which each group belongs to one privacy unit; None if there is none.

    It follows from what the catalog declares: the unit's own column, a foreign key to the owner, or columns that are
    unique in a private table. A wrong declaration makes a wrong refusal, no more.
    """
    read: dict[str, set[str]] = {}
    scans: dict[str, Scan] = {}
    for id in group_by:
        expression, found = origin_of(id, source)
        if isinstance(expression, Column) and expression.id in found:
            scan = found[expression.id]
            if not isinstance(scan, Scan):
                continue
            name = next(column.name for column in scan.columns if column.id == expression.id)
            place = scan.columns[0].id
            read.setdefault(place, set()).add(name)
            scans[place] = scan
    for place, names in read.items():
        for columns in _leading_to_one(scans[place], catalog):
            if columns <= names:
                return ", ".join(sorted(columns))
    return None


def _leading_to_one(scan: Scan, catalog: Catalog) -> Iterator[frozenset[str]]:
    if scan.public or scan.ownership is None:
        return
    if scan.ownership.path:
        yield frozenset(child for child, _, _ in scan.ownership.path[0].on)
    else:
        yield frozenset({scan.ownership.column})
    yield from catalog.tables[scan.table].unique
