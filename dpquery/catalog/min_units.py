"""How many people a group or a total has at least, by a noisy count, where the owner wants others withheld."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpquery.catalog.names import shown
from dpquery.catalog.rows import AUTO
from dpquery.catalog.tables import Defaults, Table
from dpquery.catalog.tree import Node, TreeReading

if TYPE_CHECKING:
    from dpquery.catalog.model import Catalog
    from dpquery.catalog.read_table import TableDraft


def least_units(table: Table, catalog: Catalog) -> int | None:
    """Returns the least number of people of a private table's groups and totals; None for any number."""
    if table.public:
        return None
    return table.min_units if table.min_units is not None else catalog.defaults.min_units


def check_few(
    drafts: Mapping[str, TableDraft], unit: str | None, defaults: Defaults, place: Node | None, reading: TreeReading
) -> None:
    """Notes where people cannot be counted, or where few of them would be shown in another way.

    Args:
        place: Where the defaults are written, if they are.
    """
    if defaults.min_units is not None and unit == "row" and place is not None:
        reading.refuse(place, _BY_ROW)
    for draft in drafts.values():
        if draft.min_units is not None and draft.public:
            reading.refuse(draft.node, "min_units counts people; a public table has none")
        elif draft.min_units is not None and unit == "row":
            reading.refuse(draft.node, _BY_ROW)
        elif (draft.min_units or defaults.min_units) is None or draft.public:
            continue
        elif draft.max_rows is AUTO:
            reading.refuse(
                draft.node,
                "max_rows: auto shows how many people have how many rows, also of few, which min_units "
                "withholds; write a number",
            )
        for column in draft.columns.values():
            if column is not None and column.randomized is not None:
                reading.refuse(
                    draft.node,
                    f"{shown(column.name)} is randomized, and numbers of people behind its reports are estimates, "
                    "which min_units cannot be compared with; leave one out",
                )


_BY_ROW = "min_units counts people, and with privacy_unit: row nothing tells whose a row is; name the unit's column"
