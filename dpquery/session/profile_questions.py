"""What a profile asks of each table: ordinary queries over relations with one row for each unit.

One unit is in one cell of each, so it moves one by 1, and two where neighbours replace it. Where rows are in blocks by
date, what counts is a unit's fullest block, as `max_rows` holds in each: a unit that changes in one block is still in
one cell, and all blocks are charged.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpquery.catalog import Catalog, ColumnDeclaration, Table
from dpquery.catalog.min_units import least_units
from dpquery.catalog.names import quoted
from dpquery.catalog.rows import RowsToMeasure, has_one_row
from dpquery.catalog.rows import rows_of as declared_rows
from dpquery.plan.cached import cached
from dpquery.plan.expr import Case
from dpquery.plan.types import Kind, Value
from dpquery.session.profile_ladder import cells_up_to

NUMBERS = (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)
ROWS, OTHERS = "units_by_rows", "units"
"""Names of the counts: the first ones get half of the loss together."""
LARGEST = 2**40
WITHIN = "within"
OUTSIDE = (WITHIN, "below", "above", "both", "unreadable")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramQuestion:
    """One histogram.

    Attributes:
        table: Whose.
        column: Whose values; the date, of months; "" for rows.
        kind: "rows", "months" or "values".
        cells: The numbers of rows or of months, from and to; () for values.
        query: Gives `cell`, and the number of units in it.
    """

    table: str
    column: str
    kind: str
    cells: tuple[tuple[int, int], ...]
    query: str

    @property
    def word(self) -> str:
        """What the text of each stored answer to it holds: a cell of values, or that cells are told apart by CASE."""
        return WITHIN if self.kind == "values" else Case.__name__


def questions(table: Table, catalog: Catalog) -> Iterator[HistogramQuestion]:
    """Yields what is asked of a table; nothing of a public one."""
    if table.public or why_not(table, catalog):
        return
    if has_many_rows(table):
        if table.strata is None:  # how many rows units have in all does not tell what weighs less in a stratum
            yield rows_of(table, catalog)
        dated = _dated(table)
        if dated is not None:
            yield _months(table, dated, catalog)
    for column in table.columns.values():
        if _is_bounded(column):
            yield _values(table, column, catalog)


def values_of_column(table: Table, name: str, catalog: Catalog) -> HistogramQuestion | None:
    """Returns the histogram of units by how a column's values lie against its bounds; None where there is none."""
    column = table.columns.get(name)
    if column is None or table.public or not _is_bounded(column) or why_not(table, catalog):
        return None
    return _values(table, column, catalog)


def _is_bounded(column: ColumnDeclaration) -> bool:
    return column.type.kind in NUMBERS and column.lower is not None and column.randomized is None


def has_many_rows(table: Table) -> bool:
    """Whether a unit can have several rows in a table."""
    return table.ownership is not None and not has_one_row(table.ownership, table.unique)


def why_not(table: Table, catalog: Catalog) -> str:
    """Returns why a table cannot be profiled, or ""."""
    if catalog.withholds and least_units(table, catalog) is not None:
        return "a profile has cells of few people, which min_units withholds; leave min_units out"
    for step in table.ownership.path if table.ownership is not None else ():
        for _, column, _ in step.on:
            if column not in catalog.tables[step.parent].columns:
                return (
                    f"{step.parent}.{column} identifies the owner of these rows, but is not declared as a column; "
                    "declare it"
                )
    return ""


def bound_of(table: Table, catalog: Catalog) -> int | None:
    """Returns how many rows of one unit weigh in full; None where that is to be measured."""
    said = declared_rows(table, catalog)
    return None if isinstance(said, RowsToMeasure) else said


@cached
def rows_of(table: Table, catalog: Catalog) -> HistogramQuestion:
    """Returns the histogram of units by their rows; in blocks, by the rows in their fullest one."""
    source, columns = _source(table)
    unit = ", ".join(columns)
    most = min(LARGEST, table.row_limit or catalog.defaults.row_limit)
    if table.blocks is None:
        inner = f"SELECT COUNT(*) AS t FROM {source} GROUP BY {unit}"
    else:
        block = f"DATE_TRUNC('{table.blocks.by.value}', {_column(table.blocks.column)})"
        named = ", ".join(f"{column} AS u{place}" for place, column in enumerate(columns))
        each = f"SELECT {named}, COUNT(*) AS c FROM {source} GROUP BY {unit}, {block}"
        inner = (
            f"SELECT MAX(c) AS t FROM ({each}) AS each_block GROUP BY {', '.join(f'u{i}' for i in range(len(columns)))}"
        )
    cells = cells_up_to(most)
    return HistogramQuestion(table=table.name, column="", kind="rows", cells=cells, query=_counted(inner, cells, ROWS))


def _months(table: Table, column: ColumnDeclaration, catalog: Catalog) -> HistogramQuestion:
    source, columns = _source(table)
    unit = ", ".join(columns)
    lower, upper = column.lower, column.upper
    assert isinstance(lower, datetime.date) and isinstance(upper, datetime.date)
    most = (upper.year - lower.year) * 12 + upper.month - lower.month + 1
    cells = ((0, 0), *cells_up_to(most))
    inner = f"SELECT COUNT(DISTINCT DATE_TRUNC('month', {_column(column.name)})) AS t FROM {source} GROUP BY {unit}"
    return HistogramQuestion(
        table=table.name, column=column.name, kind="months", cells=cells, query=_counted(inner, cells, OTHERS)
    )


def _counted(inner: str, cells: Sequence[tuple[int, int]], name: str) -> str:
    arms = " ".join(f"WHEN t <= {high} THEN {place}" for place, (_, high) in enumerate(cells[:-1]))
    last = len(cells) - 1
    step = f"CASE {arms} ELSE {last} END" if arms else f"CASE WHEN t > 0 THEN {last} ELSE {last} END"
    return f"SELECT cell, COUNT(*) AS {name} FROM (SELECT {step} AS cell FROM ({inner}) AS of_unit) AS c GROUP BY cell"


def _values(table: Table, column: ColumnDeclaration, catalog: Catalog) -> HistogramQuestion:
    """NULL is what a value becomes that cannot be read as declared; where it is expected, nothing tells them apart."""
    name, lower, upper = _column(column.name), _literal(column.lower), _literal(column.upper)
    if table.ownership is None:
        source, group, least, most = quoted(table.name) + " AS a0", "", name, name
        missing = f"WHEN {name} IS NULL THEN 'unreadable' "
    else:
        source, columns = _source(table)
        unit = ", ".join(columns)
        group, least, most = f" GROUP BY {unit}", f"MIN({name})", f"MAX({name})"
        missing = f"WHEN COUNT(*) > COUNT({name}) THEN 'unreadable' "
    both = f"WHEN {least} < {lower} AND {most} > {upper} THEN 'both' " if table.ownership is not None else ""
    arms = both + f"WHEN {least} < {lower} THEN 'below' WHEN {most} > {upper} THEN 'above' "
    arms += "" if column.nullable else missing
    inner = f"SELECT CASE {arms}ELSE '{WITHIN}' END AS cell FROM {source}{group}"
    query = f"SELECT cell, COUNT(*) AS {OTHERS} FROM ({inner}) AS of_unit GROUP BY cell"
    return HistogramQuestion(table=table.name, column=column.name, kind="values", cells=(), query=query)


def _dated(table: Table) -> ColumnDeclaration | None:
    """Returns the column that tells when a row is from: that of the blocks, or the first with bounds."""
    if table.blocks is not None:
        return table.columns[table.blocks.column]
    dates = (c for c in table.columns.values() if c.type.kind in (Kind.DATE, Kind.TIMESTAMP))
    return next((column for column in dates if column.lower is not None and column.randomized is None), None)


def _source(table: Table) -> tuple[str, list[str]]:
    """Returns a table joined to where its owners stand, and the columns of the owner."""
    owner = table.ownership
    assert owner is not None
    source = f"{quoted(table.name)} AS a0"
    for place, step in enumerate(owner.path):
        equal = " AND ".join(f"a{place}.{quoted(own)} = a{place + 1}.{quoted(other)}" for own, other, _ in step.on)
        source += f" JOIN {quoted(step.parent)} AS a{place + 1} ON {equal}"
    return source, [f"a{len(owner.path)}.{quoted(column)}" for column in owner.columns]


def _column(name: str) -> str:
    return f"a0.{quoted(name)}"


def _literal(value: Value) -> str:
    return format(value, "f") if isinstance(value, Decimal) else repr(value)
