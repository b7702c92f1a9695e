"""Columns that tell privacy units apart: what every backend reads whole, and what it checks when tables are opened."""

from __future__ import annotations

from dpquery.catalog import Catalog
from dpquery.plan.cached import cached


@cached
def leading_to_owners(catalog: Catalog) -> frozenset[tuple[str, str]]:
    """Returns (table, column) of privacy units and of the keys that lead to them.

    Such a text is never cut, as what is left of it may be somebody else's: a longer one is NULL.
    """
    found: set[tuple[str, str]] = set()
    for table in catalog.tables.values():
        if table.ownership is None:
            continue
        name = table.name
        for step in table.ownership.path:
            found |= {(name, child) for child, _, _ in step.on} | {(step.parent, parent) for _, parent, _ in step.on}
            name = step.parent
        found |= {(name, column) for column in table.ownership.columns}
    return frozenset(found)


def unique_sets(catalog: Catalog, table: str) -> tuple[frozenset[str], ...]:
    """Returns sets of columns of which no two rows of a table agree: those declared, and the keys of other tables'
    owners. Backends check them when tables are opened."""
    steps = [step for t in catalog.tables.values() if t.ownership is not None for step in t.ownership.path]
    keys = [frozenset(parent for _, parent, _ in step.on) for step in steps if step.parent == table]
    return (*catalog.tables[table].unique, *dict.fromkeys(keys))
