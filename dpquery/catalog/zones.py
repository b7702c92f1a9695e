"""The time zones in whose wall clock dates and timestamps are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpquery.catalog.tables import Table
from dpquery.catalog.tree import Node, Reading
from dpquery.plan.types import Kind, Type
from dpquery.plan.zones import tzinfo_of


def read_zone(fields: Mapping[str, Node], type: Type, reading: Reading, default: str = "") -> str:
    """Returns the zone of a column: its own, or the default of the catalog where it is a date or timestamp."""
    has_zone = type.kind in (Kind.DATE, Kind.TIMESTAMP)
    if "zone" not in fields:
        return default if has_zone else ""
    if not has_zone:
        reading.refuse(fields["zone"], f"a column of type {type} has no time zone")
    return zone_of(fields["zone"], reading)


def zone_of(node: Node, reading: Reading) -> str:
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
