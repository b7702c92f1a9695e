"""Comments of tables and columns: where tools show what is protected, and within which bounds."""

from __future__ import annotations

from dpquery.catalog import Catalog
from dpquery.catalog.describe import rows_in_words
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.plan.types import BOOLEAN, Value
from dpquery.units.declarations import Neighbours

MOST_KEYS = 20


def dataset_comment(catalog: Catalog) -> str:
    """Returns what is promised of the whole dataset."""
    change = "one more or less" if catalog.neighbours is Neighbours.ADD_REMOVE else "one replaced by another"
    return f"Dataset {catalog.dataset}: answers are noisy and protect each {catalog.privacy_unit} ({change})."


def table_comment(table: Table, catalog: Catalog) -> str:
    """Returns what a table holds, whom it protects, and how much one unit counts."""
    said = [f"{table.description}."] if table.description.strip() else []
    if table.public:
        return " ".join([*said, "Public: its rows are answered as they are, free."])
    said.append(f"Private: protects each {catalog.privacy_unit}.")
    if catalog.privacy_unit != "row":
        said.append(f"Rows of one {catalog.privacy_unit}: {rows_in_words(table, catalog)}.")
        groups = table.max_groups or catalog.defaults.max_groups
        said += [f"One {catalog.privacy_unit} counts in at most {groups} groups."] if groups is not None else []
    return " ".join(said)


def column_comment(column: ColumnDeclaration, table: Table, catalog: Catalog) -> str:
    """Returns what is declared of a column: the unit it names, its bounds, its public keys."""
    said = [f"{column.description}."] if column.description.strip() else []
    own = table.ownership
    if own is not None and not own.path and own.column == column.name:
        said.append(f"Privacy unit: names the {catalog.privacy_unit}.")
    if column.lower is not None:
        said.append(f"Clamped to {_shown(column.lower)} .. {_shown(column.upper)}.")
    if column.keys is not None:
        more = f", ... {len(column.keys)} in all" if len(column.keys) > MOST_KEYS else ""
        said.append(f"Public keys: {', '.join(map(_shown, column.keys[:MOST_KEYS]))}{more}.")
    elif column.keys_from is not None:
        said.append(f"Public keys: those of {'.'.join(column.keys_from)}.")
    elif column.type == BOOLEAN:
        said.append("Public keys: false, true.")
    return " ".join(said) or "No bounds and no public keys."


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "NULL" if value is None else str(value)
