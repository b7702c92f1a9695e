"""Blocks of rows by date, each with a budget of its own: what a table declares, and what all tables make of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpquery.catalog.names import shown, suggestion
from dpquery.catalog.tree import Node, TreeReading
from dpquery.plan.calendar import By, number_of
from dpquery.plan.types import DATE, TIMESTAMP
from dpquery.plan.zones import is_fixed
from dpquery.units.blocks import MOST_BLOCKS, BlockRange
from dpquery.units.declarations import Neighbours

if TYPE_CHECKING:
    from dpquery.catalog.tables import ColumnDeclaration, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The column whose date tells the block of a row, and how long a block is."""

    column: str
    by: By


def read_blocks(
    node: Node, columns: Mapping[str, ColumnDeclaration | None], public: bool, reading: TreeReading
) -> Blocks | None:
    """Returns what a table says of its blocks, or None after noting a mistake."""
    before = len(reading.problems)
    if public:
        reading.refuse(node, "a public table costs no budget, so it has no blocks")
    fields = reading.fields(node, required=("column", "by"), optional=("max_blocks",))
    if "max_blocks" in fields:
        reading.refuse(
            fields["max_blocks"],
            "the number of blocks of a privacy unit is not enforced, so it cannot be part of the promise; a "
            "unit's rows in one block are protected. Leave it out",
        )
    name = reading.text(fields["column"]) if "column" in fields else None
    length = reading.text(fields["by"]) if "by" in fields else None
    by = [one for one in By if one.value == length]
    if length is not None and not by:
        known = ", ".join(one.value for one in By)
        reading.refuse(fields["by"], f"{shown(length)} is not a length of blocks; the lengths are: {known}")
    if name is not None and name not in columns:
        reading.refuse(fields["column"], f"{shown(name)} is not a declared column; {suggestion(name, columns)}")
    elif name is not None and (column := columns[name]) is not None:
        if column.type not in (DATE, TIMESTAMP):
            reading.refuse(fields["column"], f"blocks need a date or timestamp column, not {column.type}")
        elif column.randomized is not None:
            reading.refuse(
                fields["column"], f"{shown(name)} is randomized, so it does not say which block a row belongs to"
            )
        elif column.zone and not is_fixed(column.zone):
            reading.refuse(
                fields["column"],
                f"the rules of {column.zone} may change with a new release of the time zone database, which would "
                "move rows to other blocks; declare a zone with a fixed offset for the column, such as zone: UTC "
                "or zone: +01:00",
            )
        elif column.lower is None or column.upper is None:
            reading.refuse(fields["column"], f"declare lower and upper of {shown(name)}: they define the blocks")
    if name is None or not by or len(reading.problems) > before:
        return None
    return Blocks(column=name, by=by[0])


def check_blocks(
    blocks: Mapping[str, tuple[Node, Blocks]],
    owned_by_path: Iterable[str],
    unit: str | None,
    neighbours: Neighbours | None,
    reading: TreeReading,
) -> None:
    """Notes where the blocks of several tables, or blocks and privacy unit, do not go together.

    Args:
        blocks: Of each table that has them, with their place.
        owned_by_path: Tables whose rows find their unit by a foreign key.
    """
    first = next(iter(blocks.values()), None)
    for name, (node, own) in blocks.items():
        if first is not None and own.by is not first[1].by:
            reading.refuse(
                node,
                f"all tables must have blocks of the same length, but another table has blocks by {first[1].by.value}",
            )
        if name in owned_by_path:
            reading.refuse(
                node,
                "a table whose unit is found through a foreign key cannot have blocks, because rows "
                "of another table decide whose rows these are",
            )
    if first is not None and unit not in (None, "row") and neighbours is Neighbours.ADD_REMOVE:
        reading.refuse(
            first[0],
            f"blocks need neighbours: replace_one, or privacy_unit: row. The rows of a {unit} in one "
            f"{first[1].by.value} are protected; without them the {unit} is still in the data with other rows, "
            "which is a replacement",
        )


def axis_of(tables: Iterable[Table]) -> BlockRange | None:
    """Returns the blocks of all tables together; raises ValueError where they are too many."""
    ends: list[int] = []
    by: By | None = None
    for table in tables:
        if table.blocks is not None:
            column, by = table.columns[table.blocks.column], table.blocks.by
            ends += [number_of(end, by) for end in (column.lower, column.upper) if isinstance(end, datetime.date)]
    return None if by is None else BlockRange(by=by, first=min(ends), last=max(ends))


def check_axis(tables: Iterable[Table], place: Node, reading: TreeReading) -> None:
    """Notes where the bounds of the tables make more blocks than a ledger keeps."""
    try:
        axis_of(tables)
    except ValueError:
        advice = "declare longer blocks, or narrower bounds"
        reading.refuse(place, f"these bounds make more than {MOST_BLOCKS:,} blocks; {advice}")
