"""The effective catalog in words, for the owner to read over."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.catalog.min_units import least_units
from dpquery.catalog.names import plain, shown
from dpquery.catalog.rows import RowsToMeasure, has_one_row, rows_of
from dpquery.catalog.strata import in_words
from dpquery.catalog.tables import REFUSE, WORK, ColumnDeclaration, Table
from dpquery.kernel.accountant import Budget, BudgetKind, limit_of
from dpquery.kernel.loss import pure_to_zcdp, show_amount
from dpquery.plan.logical import LONGEST_TEXT
from dpquery.plan.types import Kind, Value
from dpquery.units.declarations import Neighbours

if TYPE_CHECKING:
    from dpquery.catalog.model import Catalog

MOST_KEYS = 20  # printed for one column


def describe(catalog: Catalog) -> str:
    """Returns the text, one line for each thing declared or assumed."""
    return (
        "\n".join([*_dataset(catalog), *(line for t in catalog.tables.values() for line in _table(t, catalog))]) + "\n"
    )


def describe_table(table: Table, catalog: Catalog) -> str:
    """Returns what is declared of a table, without its columns, on one line for people."""
    kind, *lines = [line.strip() for line in _about(table, catalog)]
    unit = "" if table.public else f" ({catalog.privacy_unit} is protected)"
    return "; ".join([kind.partition(": ")[2] + unit, *lines])


def describe_column(column: ColumnDeclaration) -> str:
    """Returns what is declared of a column, without its type, on one line for people."""
    return "; ".join(_column(column)) + _note(column.description)


def _dataset(catalog: Catalog) -> Iterator[str]:
    unit, whole = catalog.privacy_unit, "row" if catalog.privacy_unit == "row" else "all rows of one unit"
    axis = catalog.declarations.blocks
    change = "added or removed" if catalog.neighbours is Neighbours.ADD_REMOVE else "replaced by others"
    yield f"Dataset {catalog.dataset}"
    if unit == "row":
        yield "  protected: each single row of each private table (privacy_unit: row)"
    elif axis is None:
        yield f"  protected: each {unit}, with all rows of that {unit} in all private tables at once"
    else:
        whole, change = f"the rows of one {unit} in one {axis.by.value}", "replaced by others of it, or by none"
        yield f"  protected: {whole}, with the {unit}'s rows in private tables without blocks; not all of its"
        yield f"    rows together: a {unit} with rows in k {axis.by.value}s is protected by k times the budget"
    yield f"  neighbours: {catalog.neighbours.value}: {'one ' if unit == 'row' else ''}{whole} {change}"
    each = "" if axis is None else f" for each {axis.by.value}"
    yield f"  budget: {_budget(catalog.budget)}{each}, all analysts together{_counted(catalog.budget)}"
    for name, budget in catalog.analysts.items():
        yield f"  analyst {plain(name)}: {_budget(budget)}{each}{_counted(budget)}"
    if axis is not None:
        dated = f"{len(axis.blocks) - 1} from {axis.blocks[0]} to {axis.blocks[-2]}, and one of rows without a date"
        yield f"  blocks: {dated}"
    if not catalog.analysts:
        yield "  analysts: none named; the budget of the dataset is the only limit"
    given = [(part, getattr(catalog.defaults, part)) for part in ("epsilon", "rho", "delta")]
    offered = ", ".join(f"{part} {show_amount(amount)}" for part, amount in given if amount is not None)
    asked = catalog.defaults.epsilon if catalog.budget.kind is BudgetKind.APPROXIMATE else None
    most = "" if asked is None else f", which costs rho {show_amount(pure_to_zcdp(asked))} at most"
    yield f"  a query without options may lose: {offered or 'nothing, so it must name one'}{most}"
    if unit != "row":
        yield f"  read of one {unit}: at most {catalog.defaults.row_limit:,} rows of a table without its own limit"
    if catalog.defaults.zone:
        yield f"  dates and timestamps without a time zone are read in {catalog.defaults.zone}"
    if catalog.defaults.texts_without_keys != REFUSE:
        yield f"  MIN and MAX of a text without public keys are {catalog.defaults.texts_without_keys}"
    yield f"  each fresh query costs at least {show_amount(catalog.defaults.least_charge)} of the analyst's limit"
    if catalog.profile is not None:
        yield f"  a profile of each data version costs {show_amount(catalog.profile)}"
    if catalog.backend is not None:
        yield f"  backend: {plain(catalog.backend)}, which is trusted to compute exactly what plans say"
    yield from _work(catalog)


def _work(catalog: Catalog) -> Iterator[str]:
    """What one unit can change of the time that a query takes: bounded and printed, but not hidden by noise."""
    default = " (default)" if catalog.work == WORK else ""
    yield f"  work: one stored row causes at most {catalog.work:,} steps in a query{default}"
    if catalog.privacy_unit == "row":
        return
    private = [table for table in catalog.tables.values() if not table.public]
    rows = max((n for table in private if not isinstance(n := rows_of(table, catalog), RowsToMeasure)), default=1)
    yield (
        f"    so a {catalog.privacy_unit} with {rows:,} {'row' if rows == 1 else 'rows'} in each table changes the "
        f"time of a query by at most {rows * catalog.work:,} steps,"
    )
    limits = {table.row_limit or catalog.defaults.row_limit for table in private}
    most = max(limits, default=catalog.defaults.row_limit)
    yield f"    and one with as many rows as are read of it ({most:,}) by {most * catalog.work:,}"


def _counted(budget: Budget) -> str:
    """Returns how the ledger counts a budget in epsilon and delta, "" of others."""
    return f" (counted as {limit_of(budget)})" if budget.kind is BudgetKind.APPROXIMATE else ""


def _budget(budget: Budget) -> str:
    parts = [(part, getattr(budget, part) or Fraction(0)) for part in ("epsilon", "delta", "rho")]
    return ", ".join(f"{part} {show_amount(amount)}" for part, amount in parts if amount)


def _table(table: Table, catalog: Catalog) -> Iterator[str]:
    yield ""
    yield from _about(table, catalog)
    width, types = (max(map(len, texts)) for texts in (table.columns, [str(c.type) for c in table.columns.values()]))
    for column in table.columns.values():
        yield f"  {column.name:<{width}}  {column.type!s:<{types}}  {describe_column(column)}"


def _about(table: Table, catalog: Catalog) -> Iterator[str]:
    yield f"Table {table.name}: {'public' if table.public else 'private'}" + _note(table.description)
    if not table.public:
        yield f"  unit: {_unit(table, catalog.privacy_unit)}"
        if catalog.privacy_unit != "row":
            yield f"  rows of one {catalog.privacy_unit}: {rows_in_words(table, catalog)}"
            if (groups := table.max_groups or catalog.defaults.max_groups) is not None:
                yield f"  one {catalog.privacy_unit} counts in at most {groups:,} groups{_default(table.max_groups)}"
        if catalog.privacy_unit != "row" and table.row_limit is not None:
            each = " in a block" if table.blocks else ""
            yield f"  read of one {catalog.privacy_unit}: at most {table.row_limit:,} rows{each}"
        if (least := least_units(table, catalog)) is not None:
            yield f"  groups and totals of fewer than {least:,} people, by a noisy count, are withheld (min_units)"
        yield from _blocks(table, catalog)
    for columns in table.unique:
        yield f"  no two rows have the same: {', '.join(sorted(columns))}"


def rows_in_words(table: Table, catalog: Catalog) -> str:
    """Returns how many rows one unit has in a private table."""
    rows = rows_of(table, catalog)
    if isinstance(rows, RowsToMeasure):
        return "to be measured with dpquery profile (max_rows: auto)"
    if has_one_row(table.ownership, table.unique):
        return "at most 1"
    within = f"in one {table.blocks.by.value}" if table.blocks is not None else "in all"
    each = "" if table.strata is None else f", and {table.strata.max_rows:,} in each {in_words(table.strata)}"
    return f"at most {rows:,} {within}{each}{_default(table.max_rows)}"


def _blocks(table: Table, catalog: Catalog) -> Iterator[str]:
    if table.blocks is not None:
        column = table.columns[table.blocks.column]
        yield f"  in blocks: by {table.blocks.by.value} of {column.name}; rows beyond its bounds are not read"
    elif catalog.declarations.blocks is not None:
        yield "  without blocks: queries of it are charged to all blocks, including those of new data"


def _unit(table: Table, privacy_unit: str) -> str:
    if table.ownership is None:
        return "each row by itself"
    way = ""
    for step in table.ownership.path:
        way += f"the row of {step.parent} where " + " and ".join(f"{p} = this {c}" for c, p, _ in step.on) + ", then "
    if table.ownership.parts:
        parts = ", ".join(f"{name} ({type})" for name, type in table.ownership.parts)
        return f"the {privacy_unit} in {way}columns {parts} together"
    return f"the {privacy_unit} in {way}column {table.ownership.column} ({table.ownership.type})"


def _default(own: int | RowsToMeasure | None) -> str:
    return " (default)" if own is None else ""


def _column(column: ColumnDeclaration) -> Iterator[str]:
    if column.randomized is not None:
        count, epsilon = len(column.randomized.categories), show_amount(column.randomized.epsilon)
        yield f"reported by randomised response: epsilon {epsilon}, {count} categories"
    if column.lower is not None:
        yield f"clamped to {_value(column.lower)} .. {_value(column.upper)}"
    elif column.type.kind not in (Kind.TEXT, Kind.BOOLEAN):
        yield "no bounds"
    if column.max_total is not None:
        yield f"sums of one unit scaled to {show_amount(column.max_total)} at most"
    yield "may be NULL" if column.nullable else "not NULL"
    if column.keys is not None:
        more = f", ... {len(column.keys)} in all" if len(column.keys) > MOST_KEYS else ""
        yield "public keys " + ", ".join(_value(key) for key in column.keys[:MOST_KEYS]) + more
    elif column.keys_from is not None:
        yield f"public keys are those of {'.'.join(column.keys_from)}"
    if column.max_length != LONGEST_TEXT:
        yield f"cut after {column.max_length:,} characters"
    if column.zone:
        yield f"in the time zone {column.zone}"


def _value(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return shown(value) if isinstance(value, str) else str(value)


def _note(description: str) -> str:
    return f"  # {plain(description)}" if description.strip() else ""
