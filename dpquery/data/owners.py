"""Columns that tell privacy units apart: what every backend reads whole, and what it checks when tables are opened."""

from __future__ import annotations

import pandas as pd

from dpquery.catalog import Catalog
from dpquery.data.values import read
from dpquery.plan.cached import cached
from dpquery.plan.logical import LONGEST_OWNER
from dpquery.plan.types import TEXT, Type, Value


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


def declared_values(
    catalog: Catalog, table: str, column: str, frame: pd.DataFrame, type: Type | None = None
) -> list[Value]:
    """Returns the values of a frame's column as the catalog declares them, one by one: what does not fit is None.

    Args:
        type: How it is read; None for as declared. A key of a parent's owner need not be a declared column.
    """
    said = catalog.tables[table].columns.get(column)
    if type is None:
        type = catalog.tables[table].columns[column].type
    values = [read(stored, type, "" if said is None else said.zone) for stored in frame[column].tolist()]
    if type != TEXT:
        return values
    most = LONGEST_OWNER if said is None else said.max_length
    is_whole = (table, column) in leading_to_owners(catalog)
    return [_limited(value, most, is_whole=is_whole) if isinstance(value, str) else value for value in values]


def _limited(text: str, most: int, *, is_whole: bool) -> Value:
    """Returns the first characters of a text; None in place of a longer one that counts whole."""
    return None if is_whole and len(text) > most else text[:most]
