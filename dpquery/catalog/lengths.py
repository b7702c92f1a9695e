"""How long the texts of a column are read, and that keys and owners fit into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpquery.catalog.names import shown
from dpquery.catalog.tree import Node, Reading
from dpquery.plan.functions import TEXT_LIMIT
from dpquery.plan.logical import LONGEST_OWNER, LONGEST_TEXT, Ownership
from dpquery.plan.types import Kind, Type, Value

if TYPE_CHECKING:
    from dpquery.catalog.read_table import TableDraft


def read_length(fields: Mapping[str, Node], type: Type, reading: Reading) -> int:
    """Returns the `max_length` of a column: characters of a text that are read."""
    if "max_length" not in fields:
        return LONGEST_TEXT
    node = fields["max_length"]
    found = reading.count(node)
    if type.kind is not Kind.TEXT:
        reading.refuse(node, f"a column of type {type} does not hold text")
    elif found is not None and found > TEXT_LIMIT:
        reading.refuse(node, f"a text is read with at most {TEXT_LIMIT:,} characters")
    return found or LONGEST_TEXT


def require_short(keys: Mapping[Value, Node], most: int, reading: Reading) -> None:
    """Notes keys that no row can have, as texts are cut before."""
    for key, node in keys.items():
        if isinstance(key, str) and len(key) > most:
            reading.refuse(node, f"the key has {len(key):,} characters, and the column is read with {most:,}")


def require_short_owners(drafts: Mapping[str, TableDraft], owners: Mapping[str, Ownership], reading: Reading) -> None:
    """Notes columns that lead to privacy units and are longer than such a column may be."""
    for name, owner in owners.items():
        tables = [name, *(step.parent for step in owner.path)]
        read = {(child, column) for child, step in zip(tables, owner.path, strict=False) for column, _, _ in step.on}
        read |= {(step.parent, column) for step in owner.path for _, column, _ in step.on}
        for table, column in sorted(read | {(tables[-1], owner.column)}):
            said = drafts[table].columns.get(column)
            if said is not None and said.max_length > LONGEST_OWNER:
                what = f"{shown(column)} identifies privacy units, so its max_length is at most {LONGEST_OWNER:,}"
                reading.refuse(drafts[table].node, what)
