"""A catalog as YAML, for people to edit: what was declared, and what is suggested, each with a comment."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.catalog.rows import RowsToMeasure
from dpquery.catalog.strata import written
from dpquery.catalog.tables import REFUSE, WORK, ColumnDeclaration, Table
from dpquery.catalog.versions import VERSION
from dpquery.kernel.accountant import LEAST_SHARE, Budget
from dpquery.plan.logical import LONGEST_TEXT, ROW_LIMIT
from dpquery.plan.types import Type, Value

if TYPE_CHECKING:
    from dpquery.catalog.model import Catalog

Bounds = Mapping[tuple[str, str], tuple[Value, Value]]


def write_catalog(
    catalog: Catalog,
    *,
    bounds: Bounds | None = None,
    max_rows: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
    why: str = "",
) -> str:
    """Returns a catalog as YAML that loads as the same catalog, but for what is suggested.

    Args:
        bounds: Bounds by (table, column) instead of those declared.
        max_rows: Rows of one unit by table, instead of those declared.
        notes: Comments at the top.
        why: The comment beside what is replaced.
    """
    lines = [*(f"# {note}" for note in notes), *_whole(catalog)]
    for table in catalog.tables.values():
        lines += _table(table, bounds or {}, max_rows or {}, why)
    return "\n".join(lines) + "\n"


def _whole(catalog: Catalog) -> Iterator[str]:
    yield f"version: {VERSION}"
    yield f"dataset: {text(catalog.dataset)}"
    yield f"privacy_unit: {text(catalog.privacy_unit)}"
    yield f"neighbours: {catalog.neighbours.value}"
    yield f"budget: {_budget(catalog.budget)}"
    if catalog.work != WORK:
        yield f"work: {catalog.work}"
    if catalog.profile is not None:
        yield f"profile: {_amount(catalog.profile)}"
    if catalog.backend is not None:
        yield f"backend: {text(catalog.backend)}"
    if catalog.analysts:
        yield "analysts:"
        yield from (f"  {text(name)}: {_budget(budget)}" for name, budget in catalog.analysts.items())
    given = catalog.defaults
    parts = [(name, getattr(given, name)) for name in ("epsilon", "rho", "delta")]
    said = [f"{name}: {_amount(amount)}" for name, amount in parts if amount is not None]
    said += [f"max_groups: {given.max_groups}"] if given.max_groups is not None else []
    said += [f"max_rows: {given.max_rows}"] if given.max_rows is not None else []
    said += [f"row_limit: {given.row_limit}"] if given.row_limit != ROW_LIMIT else []
    said += [f"min_units: {given.min_units}"] if given.min_units is not None else []
    said += [f"least_charge: {_amount(given.least_charge)}"] if given.least_charge != LEAST_SHARE else []
    said += [f"zone: {text(given.zone)}"] if given.zone else []
    if given.texts_without_keys != REFUSE:
        said += [f"texts_without_keys: {text(given.texts_without_keys)}"]
    if said:
        yield f"defaults: {{{', '.join(said)}}}"
    yield "tables:"


def _budget(budget: Budget) -> str:
    parts = [(name, getattr(budget, name)) for name in ("epsilon", "delta", "rho")]
    return "{" + ", ".join(f"{name}: {_amount(amount)}" for name, amount in parts if amount) + "}"


def _amount(amount: Fraction) -> str:
    if amount.denominator == 1:
        return str(amount.numerator)
    short = repr(float(amount))
    return short if Fraction(short) == amount else json.dumps(f"{amount.numerator}/{amount.denominator}")


def _table(table: Table, bounds: Bounds, max_rows: Mapping[str, int], why: str) -> Iterator[str]:
    yield f"  {text(table.name)}:"
    if table.description:
        yield f"    description: {text(table.description)}"
    if table.public:
        yield "    public: true"
    elif table.ownership is not None:
        yield f"    unit: {_unit(table)}"
    if table.unique:
        sets = ", ".join(f"[{', '.join(map(text, sorted(columns)))}]" for columns in table.unique)
        yield f"    unique: [{sets}]"
    if table.name in max_rows:
        yield f"    max_rows: {max_rows[table.name]}  # {why}"
    elif table.max_rows is not None:
        rows = table.max_rows
        said = str(rows.value if isinstance(rows, RowsToMeasure) else rows)
        if table.strata is not None:
            said = f"{{all: {said}, per: {{{text(written(table.strata))}: {table.strata.max_rows}}}}}"
        yield f"    max_rows: {said}"
    if table.max_groups is not None:
        yield f"    max_groups: {table.max_groups}"
    if table.row_limit is not None:
        yield f"    row_limit: {table.row_limit}"
    if table.min_units is not None:
        yield f"    min_units: {table.min_units}"
    if table.blocks is not None:
        yield f"    blocks: {{column: {text(table.blocks.column)}, by: {table.blocks.by.value}}}"
    yield "    columns:"
    for column in table.columns.values():
        found = bounds.get((table.name, column.name))
        lower, upper = found or (column.lower, column.upper)
        yield f"      {text(column.name)}: {_column(column, lower, upper)}" + (f"  # {why}" if found else "")


def _unit(table: Table) -> str:
    assert table.ownership is not None
    if not table.ownership.path:
        names = [text(name) for name in table.ownership.columns]
        return f"[{', '.join(names)}]" if table.ownership.parts else names[0]
    step = table.ownership.path[0]
    on = ", ".join(f"{text(child)}: {text(parent)}" for child, parent, _ in step.on)
    return f"{{via: {text(step.parent)}, on: {{{on}}}}}"


def _column(column: ColumnDeclaration, lower: Value, upper: Value) -> str:
    parts = [f"type: {type_name(column.type)}"]
    if column.randomized is not None:
        categories = ", ".join(map(value, column.randomized.categories))
        parts.append(f"randomized: {{epsilon: {_amount(column.randomized.epsilon)}, categories: [{categories}]}}")
    else:
        parts += [] if lower is None else [f"lower: {value(lower)}", f"upper: {value(upper)}"]
        parts += [] if column.max_total is None else [f"max_total: {_amount(column.max_total)}"]
        parts += [] if column.keys is None else [f"keys: [{', '.join(map(value, column.keys))}]"]
    parts += [] if column.keys_from is None else [f"keys_from: {text('.'.join(column.keys_from))}"]
    parts += ["nullable: true"] if column.nullable else []
    parts += [f"max_length: {column.max_length}"] if column.max_length != LONGEST_TEXT else []
    parts += [f"zone: {text(column.zone)}"] if column.zone else []
    parts += [f"description: {text(column.description)}"] if column.description else []
    return "{" + ", ".join(parts) + "}"


def type_name(type: Type) -> str:
    """Returns a type as catalogs write it."""
    return f"'{type}'" if "," in str(type) else str(type)


def value(given: Value) -> str:
    """Returns a value of a column as YAML; texts stand in quotes, all else does not."""
    if given is None:
        return "null"
    if isinstance(given, str):
        return json.dumps(given)
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, datetime.datetime):
        return given.isoformat(sep=" ")
    if isinstance(given, datetime.date):
        return given.isoformat()
    return format(given, "f") if isinstance(given, Decimal) else repr(given)


def text(given: str) -> str:
    """Returns a name or text as YAML, in quotes unless it is a plain word."""
    plain = given.isascii() and given.replace("_", "a").isalnum() and not given[0].isdigit()
    return (
        given
        if plain and given.lower() not in ("null", "true", "false", "yes", "no", "on", "off")
        else json.dumps(given, ensure_ascii=not given.isprintable())
    )
