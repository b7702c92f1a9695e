"""`max_rows: {all: 200, per: {month(taken): 20}}`: rows of one unit in all, and in each stratum of a table."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from dpquery.catalog.names import plain, shown, suggestion
from dpquery.catalog.rows import RowsToMeasure, has_one_row, read_rows
from dpquery.catalog.tree import Node, TreeReading
from dpquery.plan.calendar import By
from dpquery.plan.logical import Ownership
from dpquery.plan.strata import Strata
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, TIMESTAMP

if TYPE_CHECKING:
    from dpquery.catalog.read_table import TableDraft
    from dpquery.catalog.tables import ColumnDeclaration

    Columns = Mapping[str, ColumnDeclaration | None]

_PERIOD = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*", re.ASCII)


def read_bounds(
    node: Node, columns: Columns, keys_from: Container[str], reading: TreeReading
) -> tuple[int | RowsToMeasure | None, Strata | None]:
    """Returns `max_rows` of a table, and its strata if it has some; None after noting a mistake.

    Args:
        keys_from: The columns whose public keys are those of another table.
    """
    if not isinstance(node.content, Mapping):
        return read_rows(node, reading), None
    fields = reading.fields(node, required=("all", "per"))
    rows = reading.count(fields["all"]) if "all" in fields else None
    entries = reading.mapping(fields["per"]) if "per" in fields else {}
    if "per" in fields and len(entries) != 1 and isinstance(fields["per"].content, Mapping):
        reading.refuse(fields["per"], "say one thing by which rows are in strata, such as {month(taken): 20}")
    found = [_read_entry(name, inner, columns, keys_from, reading) for name, inner in entries.items()]
    strata = found[0] if len(found) == 1 else None
    if rows is not None and strata is not None and strata.max_rows > rows:
        reading.refuse(node, f"per says {strata.max_rows:,}, and all only {rows:,}, which holds in each stratum")
    return rows, strata


def written(strata: Strata) -> str:
    """Returns what tells the strata, as catalogs write it."""
    return strata.column if strata.by is None else f"{strata.by.value}({strata.column})"


def in_words(strata: Strata) -> str:
    """Returns a stratum in words."""
    return f"{'value' if strata.by is None else strata.by.value} of {plain(strata.column)}"


def _read_entry(
    text: str, node: Node, columns: Columns, keys_from: Container[str], reading: TreeReading
) -> Strata | None:
    most, by, name = reading.count(node), None, text
    matched = _PERIOD.fullmatch(text) if text not in columns else None
    if matched is not None:
        name, by = matched[2], next((one for one in By if one.value == matched[1].lower()), None)
        if by is None:
            known = ", ".join(one.value for one in By)
            reading.refuse(node, f"{shown(matched[1])} is not a period of the calendar; the periods are: {known}")
            return None
    if name not in columns:
        reading.refuse(node, f"{shown(name)} is not a declared column; {suggestion(name, columns)}")
        return None
    column = columns[name]
    if column is None or most is None:
        return None
    if fault := _fault(column, by, has_keys=name in keys_from):
        reading.refuse(node, fault)
        return None
    return Strata(column=name, by=by, max_rows=most)


def _fault(column: ColumnDeclaration, by: By | None, *, has_keys: bool) -> str:
    """Returns why a column does not tell strata, or ""."""
    if column.randomized is not None:
        return f"{shown(column.name)} is randomized, so it does not say which stratum a row belongs to"
    if by is not None and column.type not in (DATE, TIMESTAMP):
        return f"periods of the calendar need a date or timestamp column, not {column.type}"
    if by is None and (column.type == FLOAT64 or not (has_keys or column.keys or column.type == BOOLEAN)):
        return (
            f"strata need a column with public keys, but {shown(column.name)} has none; declare its keys, or "
            "write a period of a date, such as month(taken)"
        )
    return ""


def check_strata(
    drafts: Mapping[str, TableDraft], owners: Mapping[str, Ownership], unit: str | None, reading: TreeReading
) -> None:
    """Notes strata of tables in which they bound nothing, or which have other weights beside."""
    for name, draft in drafts.items():
        if draft.strata is None:
            continue
        with_total = [c.name for c in draft.columns.values() if c is not None and c.max_total is not None]
        if unit == "row":
            reading.refuse(draft.node, "max_rows per stratum bounds a unit's rows; here each row is a unit by itself")
        elif has_one_row(owners.get(name), draft.unique):
            reading.refuse(draft.node, f"one {unit} has one row here, by unique; leave max_rows out")
        elif with_total:
            reading.refuse(
                draft.node,
                f"max_rows per stratum and max_total of {shown(with_total[0])} cannot be combined: sums that are "
                "scaled to a total have weights of their own. Leave one out",
            )
