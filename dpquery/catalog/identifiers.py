"""Columns used as identifiers where rows are the units: a person with several rows is not protected as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.catalog.names import fold, shown
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.plan.types import Kind

KINDS = (Kind.INT64, Kind.TEXT, Kind.DECIMAL)
FEWEST = 20
"""Different values that an identifier has."""
MOST_ROWS = 100
"""Rows that a value has, on average, where it tells one of many units."""
ADVICE = "A person with several rows is not protected as a whole; name a privacy unit and declare `unit`."


def may_identify(column: ColumnDeclaration) -> bool:
    """Whether a column may tell whose a row is: values that are not bounded, listed or reported at random."""
    is_free = column.lower is None and column.keys is None and column.keys_from is None and column.randomized is None
    return is_free and column.type.kind in KINDS


def repeats(rows: int, different: int) -> bool:
    """Whether values of a column that may identify come again as identifiers do: many values, some of several rows."""
    return FEWEST <= different < rows <= different * MOST_ROWS


def on_repeated(table: str, column: str) -> str:
    """Returns the warning about a column whose values come again."""
    return f"tables.{table}: privacy_unit is row, but values of {shown(column)} occur in more than one row. {ADVICE}"


def on_linking(tables: list[Table]) -> Iterator[str]:
    """Yields warnings about columns of private tables that other tables have too, or that are unique elsewhere."""
    for table in tables:
        for column in () if table.public else table.columns.values():
            others = [other for other in tables if other is not table and _has(other, column)]
            private = [other.name for other in others if not other.public]
            if may_identify(column) and private:
                what = f"{shown(column.name)} links rows: table {shown(private[0])} has it too"
                yield f"tables.{table.name}: privacy_unit is row, and {what}. {ADVICE}"


def _has(table: Table, column: ColumnDeclaration) -> bool:
    return any(
        fold(other.name) == fold(column.name) and other.type == column.type and may_identify(other)
        for other in table.columns.values()
    )
