"""How many rows of one privacy unit a table has: said by its owner, following from `unique`, or to be measured.

It has no default. A default would decide what answers leave out, and no answer would say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from dpquery.catalog.tree import Node, TreeReading, Word
from dpquery.plan.logical import Ownership

if TYPE_CHECKING:
    from dpquery.catalog.model import Catalog
    from dpquery.catalog.read_table import TableDraft
    from dpquery.catalog.tables import Table


class RowsToMeasure(Enum):
    """In place of a number of rows: one that is to be found with noise, and charged to the dataset."""

    AUTO = "auto"


AUTO = RowsToMeasure.AUTO


def read_rows(node: Node, reading: TreeReading) -> int | RowsToMeasure | None:
    """Returns `max_rows` as a number or AUTO, or None after noting a mistake."""
    content = node.content
    if content == AUTO.value or (isinstance(content, Word) and content.plain and content.text == AUTO.value):
        return AUTO
    return reading.count(node, "auto, or ")


def has_one_row(ownership: Ownership | None, unique: tuple[frozenset[str], ...]) -> bool:
    """Whether a table is declared to have at most one row of each unit: no two rows agree in the unit's own columns."""
    if ownership is None or ownership.path:
        return False
    return frozenset(ownership.columns if ownership.parts else (ownership.column,)) in unique


def rows_of(table: Table, catalog: Catalog) -> int | RowsToMeasure:
    """Returns the most rows of one unit that a private table is declared to have: in all, or in each block of it."""
    if catalog.privacy_unit == "row" or has_one_row(table.ownership, table.unique):
        return 1
    rows = table.max_rows if table.max_rows is not None else catalog.defaults.max_rows
    assert rows is not None  # `require_rows` refuses catalogs that leave it open
    return rows


def require_rows(
    drafts: Mapping[str, TableDraft],
    owners: Mapping[str, Ownership],
    unit: str | None,
    defaults: Node | None,
    reading: TreeReading,
) -> None:
    """Notes tables of which nothing says how many rows one unit has.

    Args:
        owners: Of each table whose rows belong to someone, whose they are.
        unit: The privacy unit; None where its declaration is broken.
        defaults: What holds for all tables that say nothing.
    """
    if unit is None or unit == "row" or (defaults is not None and _says(defaults)):
        return
    silent = [n for n, own in owners.items() if not _says(drafts[n].node) and not has_one_row(own, drafts[n].unique)]
    for place, name in enumerate(silent):
        draft = drafts[name]
        again = f"say how many rows one {unit} has here as well"
        reading.refuse(draft.node, again if place else _three_ways(unit, owners[name], draft))


def _says(node: Node) -> bool:
    return isinstance(node.content, Mapping) and "max_rows" in node.content


def _three_ways(unit: str, owner: Ownership, draft: TableDraft) -> str:
    within = f"in one {draft.blocks.by.value}" if draft.blocks is not None else "in all"
    column = "UNIT" if owner.path else owner.column
    where = ", in a table that holds the unit's own column" if owner.path else ""
    return (
        f"say how many rows one {unit} has {within}. It has no default value. Write max_rows: N if you know a number "
        f"(rows of a {unit} with more weigh less); unique: [[{column}]] if none has two{where}; or max_rows: auto "
        "to measure it with dpquery profile, which is charged to the dataset"
    )
