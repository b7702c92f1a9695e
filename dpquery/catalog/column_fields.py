"""Fields of a column that have rules of their own: `max_length`, how long its texts are read; `zone`, in whose wall
clock its dates and timestamps are read; `max_total`, to what sum the values of one privacy unit are scaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.catalog.names import shown
from dpquery.catalog.tables import Table
from dpquery.catalog.tree import Node, TreeReading, Word
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import parse_amount
from dpquery.plan.functions import TEXT_LIMIT
from dpquery.plan.logical import LONGEST_OWNER, LONGEST_TEXT, Ownership
from dpquery.plan.ranges import number_of
from dpquery.plan.types import Kind, Type, Value
from dpquery.plan.zones import tzinfo_of

if TYPE_CHECKING:
    from dpquery.catalog.read_table import TableDraft

FINEST = Fraction(1, 2**40)
"""A total is no smaller than this part of the largest magnitude of a value, so that sums keep their digits."""


def read_length(fields: Mapping[str, Node], type: Type, reading: TreeReading) -> int:
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


def require_short(keys: Mapping[Value, Node], most: int, reading: TreeReading) -> None:
    """Notes keys that no row can have, as texts are cut before."""
    for key, node in keys.items():
        if isinstance(key, str) and len(key) > most:
            reading.refuse(node, f"the key has {len(key):,} characters, and the column is read with {most:,}")


def require_short_owners(
    drafts: Mapping[str, TableDraft], owners: Mapping[str, Ownership], reading: TreeReading
) -> None:
    """Notes columns that lead to privacy units and are longer than such a column may be."""
    for name, owner in owners.items():
        tables = [name, *(step.parent for step in owner.path)]
        read = {(child, column) for child, step in zip(tables, owner.path, strict=False) for column, _, _ in step.on}
        read |= {(step.parent, column) for step in owner.path for _, column, _ in step.on}
        for table, column in sorted(read | {(tables[-1], column) for column in owner.columns}):
            said = drafts[table].columns.get(column)
            if said is not None and said.max_length > LONGEST_OWNER:
                what = f"{shown(column)} identifies privacy units, so its max_length is at most {LONGEST_OWNER:,}"
                reading.refuse(drafts[table].node, what)


def read_zone(fields: Mapping[str, Node], type: Type, reading: TreeReading, default: str = "") -> str:
    """Returns the zone of a column: its own, or the default of the catalog where it is a date or timestamp."""
    has_zone = type.kind in (Kind.DATE, Kind.TIMESTAMP)
    if "zone" not in fields:
        return default if has_zone else ""
    if not has_zone:
        reading.refuse(fields["zone"], f"a column of type {type} has no time zone")
    return zone_of(fields["zone"], reading)


def zone_of(node: Node, reading: TreeReading) -> str:
    """Returns the name of a zone; "" after noting a mistake."""
    name = reading.text(node)
    if name is None:
        return ""
    try:
        tzinfo_of(name)
    except ValueError as error:
        reading.refuse(node, str(error))
        return ""
    return name


def zone_of_all(tables: Iterable[Table]) -> str | None:
    """Returns the zone of all columns that declare one, "" if none does, or None where they differ."""
    zones = {column.zone for table in tables for column in table.columns.values() if column.zone}
    return None if len(zones) > 1 else next(iter(zones), "")


def read_total(
    fields: Mapping[str, Node], type: Type, lower: Value, upper: Value, reading: TreeReading
) -> Fraction | None:
    """Returns a column's `max_total`, or None where it says none or after noting a mistake."""
    node = fields.get("max_total")
    if node is None:
        return None
    low, high = number_of(lower), number_of(upper)
    if type.kind not in (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL):
        reading.refuse(node, f"a column of type {type} cannot be added up, so it has no total")
        return None
    if low is None or high is None:
        reading.refuse(node, "needs bounds: declare lower and upper; values are clamped to them before they are scaled")
        return None
    content = node.content
    try:
        total = parse_amount(content.text if isinstance(content, Word) else content, name="max_total")
    except InvalidLossError as error:
        reading.refuse(node, error.reason)
        return None
    least = Fraction(0) if type.kind is Kind.FLOAT64 else Fraction(1, 10**type.scale)
    if total < max(least, max(-low, high) * FINEST):
        reading.refuse(node, "is far smaller than a single value may be; declare narrower bounds or a larger max_total")
        return None
    return total


def require_owners_of_totals(drafts: Mapping[str, TableDraft], unit: str | None, reading: TreeReading) -> None:
    """Notes totals of columns whose rows are not those of a privacy unit."""
    for draft in drafts.values():
        with_total = [c.name for c in draft.columns.values() if c is not None and c.max_total is not None]
        if with_total and draft.public:
            reading.refuse(
                draft.node,
                f"max_total of {shown(with_total[0])} bounds the total of a privacy unit; a public table has none",
            )
        elif with_total and unit == "row":
            reading.refuse(
                draft.node,
                f"max_total of {shown(with_total[0])} bounds the total of one unit; where each row is a unit, "
                "lower and upper are enough",
            )
