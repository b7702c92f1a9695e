"""What a catalog risks, in words: what declarations may tell of the data, and what they leave unprotected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from dpquery.auditing.report import Section
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.catalog.identifiers import on_repeated
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.kernel.accountant import BudgetKind, limit_of
from dpquery.kernel.loss import zcdp_to_approximate

METHOD = (
    "Guarantees rest on what the owner declares. What was copied from the data tells something of the data, and "
    "no noise is added to it: keys that were looked up, bounds that are somebody's value. Units that are no people "
    "leave people unprotected. With --look the declarations are compared with the data; what is found is for the "
    "owner's eyes."
)
FEW_PEOPLE = 100


def risks(catalog: Catalog, data: DuckDBBackend | None) -> Section:
    """Returns the section.

    Args:
        data: The owner's data, where a look is allowed; else None.
    """
    found = [*catalog.warnings, *_on_budget(catalog), *_on_declared(catalog, looked=data is not None)]
    private = [table for table in catalog.tables.values() if not table.public]
    if data is not None:
        found += [one for table in private for one in _on_table(catalog, table, data)]
        if catalog.privacy_unit == "row":
            found += [on_repeated(table, column) for table, column in data.identifying()]
    looked = f"{len(private)} private tables compared with their data." if data else "Data were not looked at."
    return Section(
        name="catalog",
        title="What do the declarations themselves tell, and whom do they leave out?",
        method=METHOD,
        done=f"{len(catalog.tables)} tables read as declared. {looked}",
        risks=tuple(dict.fromkeys(found)),
    )


def _on_budget(catalog: Catalog) -> Iterator[str]:
    kind, limit, unit = catalog.budget.kind, limit_of(catalog.budget), catalog.privacy_unit
    if kind is BudgetKind.PURE:
        epsilon = float(limit.epsilon)
        yield (
            f"budget: when all of it is spent, the odds of anything about one {unit} may have changed by "
            f"a factor of {math.exp(min(epsilon, 700)):,.3g}. `dpquery meaning --catalog` shows what that allows."
        )
    elif limit.delta:
        epsilon = float(zcdp_to_approximate(limit.rho, Fraction(catalog.budget.delta) / 2))
        yield (
            f"budget: when all of it is spent, the odds of anything about one {unit} may have changed by "
            f"a factor of {math.exp(min(epsilon, 700)):,.3g}, except with a chance of {float(catalog.budget.delta):g}. "
            "`dpquery meaning --catalog` shows what that allows."
        )
    part = "epsilon" if kind is BudgetKind.PURE else "rho"
    own = [limit_of(budget) for budget in catalog.analysts.values()]
    total = sum((getattr(one, part) for one in own), Fraction(0))
    if total > getattr(limit, part):
        yield (
            f"analysts: their limits add up to {part} {float(total):g}, more than all together may spend "
            f"({float(getattr(limit, part)):g}); who asks late may find nothing left."
        )


def _on_declared(catalog: Catalog, *, looked: bool) -> Iterator[str]:
    private = [table for table in catalog.tables.values() if not table.public]
    keyed = [f"{t.name}.{c.name}" for t in private for c in t.columns.values() if c.keys is not None]
    if keyed and not looked:
        yield (
            f"keys of {', '.join(keyed[:6])}{' and more' if len(keyed) > 6 else ''}: are they from a code list that is "
            "public anyway? Keys that were looked up in the data tell which values exist. --look compares them."
        )


def _on_table(catalog: Catalog, table: Table, data: DuckDBBackend) -> Iterator[str]:
    """Yields what data and declarations of one table have in common."""
    own = table.ownership
    if own is not None and not own.path:
        unit = ", ".join(f"{{{place}}}" for place in range(len(own.columns)))
        ((people, rows),) = data.looked_at(table.name, f"COUNT(DISTINCT ({unit})), COUNT(*)", *own.columns)
        yield from _on_people(catalog, table, people, rows)
    for column in table.columns.values():
        if column.keys is not None and column.randomized is None:
            yield from _on_keys(table, column, data)
        if column.lower is not None and column.randomized is None:
            yield from _on_bounds(table, column, data)


def _on_people(catalog: Catalog, table: Table, people: int, rows: int) -> Iterator[str]:
    if people < FEW_PEOPLE:
        yield f"tables.{table.name}: it holds fewer than {FEW_PEOPLE} units; noise will hide nearly all."
    if people and rows > 1000 * people:
        yield f"tables.{table.name}: more than 1,000 rows for each unit. Is the unit a person?"
    delta = catalog.budget.delta
    if people and delta * 10 * people > 1:
        yield (
            f"budget: delta {float(delta):g} is more than a tenth of one in the number of units of {table.name}: a "
            "mechanism that publishes somebody at random would be allowed."
        )


def _on_keys(table: Table, column: ColumnDeclaration, data: DuckDBBackend) -> Iterator[str]:
    place, declared = f"tables.{table.name}.columns.{column.name}", set(column.keys or ())
    stored = {value for (value,) in data.looked_at(table.name, "DISTINCT {0}", column.name)} - {None}
    if len(declared) > 2 and stored == declared:
        yield (
            f"{place}.keys: exactly the values that occur in the data. If they were looked up there, that a value is "
            "listed tells that somebody has it."
        )
    elif stored - declared and not column.nullable:
        yield f"{place}.keys: some rows have other values and are in no group, though nullable is not declared."


def _on_bounds(table: Table, column: ColumnDeclaration, data: DuckDBBackend) -> Iterator[str]:
    place = f"tables.{table.name}.columns.{column.name}"
    ((low, high),) = data.looked_at(table.name, "MIN({0}), MAX({0})", column.name)
    pairs = (("lower", low, column.lower), ("upper", high, column.upper))
    ends = [word for word, seen, said in pairs if seen is not None and seen == said]
    if ends:
        yield (
            f"{place}: {' and '.join(ends)} {'is' if len(ends) == 1 else 'are'} exactly the most extreme in the data. "
            "If it was looked up there, the catalog publishes one person's value; choose bounds from what is possible."
        )
