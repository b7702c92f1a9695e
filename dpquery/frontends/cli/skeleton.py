"""Catalogs to start from: out of the schemas of files, or out of metadata that SmartNoise reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from dpquery.backends.duckdb.schemas import Columns, schemas_of
from dpquery.catalog.names import name_fault
from dpquery.catalog.versions import VERSION
from dpquery.catalog.write import text
from dpquery.errors import CatalogError

MOST_BYTES = 4 * 2**20
_TYPES = {"int": "int64", "float": "float64", "string": "text", "boolean": "boolean", "datetime": "timestamp"}
_COLUMN_FIELDS = {"name", "type", "private_id", "lower", "upper", "nullable"}
_TABLE_FIELDS = {"row_privacy", "max_ids", "rows", "sample_max_ids", "censor_dims", "clamp_counts", "clamp_columns"}
_TABLE_FIELDS |= {"use_dpsu", "nullable"}
_WITHOUT = {
    "sample_max_ids": "contributions are always bounded",
    "clamp_columns": "values are always clamped",
    "clamp_counts": "noisy counts may be negative",
    "censor_dims": "groups without public keys are always selected by a threshold",
    "use_dpsu": "groups without public keys are selected by a threshold",
    "rows": "the number of rows is not public here",
}


def init(paths: Sequence[str], dataset: str) -> str:
    """Returns a catalog in YAML with comments, for the tables of files; no value is read.

    Raises:
        CatalogError: A file is missing or of an unknown kind, or two tables have one name.
    """
    tables: dict[str, Columns] = {}
    for path in paths:
        for name, columns in schemas_of(path).items():
            if name in tables:
                raise CatalogError(f"two tables are called {name}; rename a file")
            tables[name] = columns
    if not tables:
        raise CatalogError("there are no tables in the files")
    faults = [f"{name!r}: {fault}" for name in (dataset, *tables) if (fault := name_fault(name))]
    if faults:
        raise CatalogError(faults)
    head = [*_head(dataset)]
    if any(path.lower().endswith((".csv", ".tsv")) for path in paths):
        head.insert(
            2,
            "# Of CSV files only names are read: write int64, float64, date, ... where a column is not text.",
        )
    return "\n".join([*head, *(line for item in tables.items() for line in _table(*item))]) + "\n"


def _head(dataset: str) -> Iterator[str]:
    yield "# A catalog to edit: only what is declared can be queried. No value of the data was read."
    yield "# Then: dpquery check THIS_FILE; dpquery ledger create THIS_FILE, once, which starts the budget."
    yield "# Unknown bounds: dpquery suggest-bounds THIS_FILE --epsilon 0.1, which spends some of the budget."
    yield f"version: {VERSION}"
    yield f"dataset: {text(dataset)}"
    yield "privacy_unit: row  # or a word for whom you protect, such as person; each table then says unit and max_rows"
    yield "budget: {epsilon: 1}  # or {epsilon: 1, delta: 1e-6}, which also allows groups without public keys"
    yield "# analysts: {alice: {epsilon: 0.5}}"
    yield "# defaults: {epsilon: 0.1}"
    yield "tables:"


def _table(name: str, columns: Columns) -> Iterator[str]:
    yield f"  {text(name)}:"
    yield "    # unit: COLUMN  # whose row it is; or unit: {via: TABLE, on: {COLUMN: COLUMN}}; or public: true"
    yield "    # unique: [[COLUMN]]  # if no two rows agree in it"
    yield "    # max_rows: N  # with a unit: how many rows one has here in all; or auto, measured by dpquery profile"
    yield "    columns:"
    for column, type, zone in columns:
        fault = name_fault(column)
        if type is None or fault:
            yield f"      # {_shown(column)}: left out, {fault or 'its type cannot be declared'}"
        else:
            hint = {"text": "keys: [...] if all values are public", "boolean": ""}.get(type, "lower: ..., upper: ...")
            said = f"'{type}'" if "," in type else type
            read_in = f", zone: {text(zone)}" if zone else ""
            hint += "; zone: that of the people" if zone else ""
            yield f"      {text(column)}: {{type: {said}{read_in}, nullable: true}}" + (f"  # {hint}" if hint else "")


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[:100]


def import_smartnoise(path: str, dataset: str) -> str:
    """Returns a catalog in YAML for SmartNoise's metadata, with comments on what could not be carried over.

    Raises:
        CatalogError: The file is no such metadata.
    """
    if not Path(path).is_file():
        raise CatalogError(f"there is no file {path}")
    if Path(path).stat().st_size > MOST_BYTES:
        raise CatalogError(f"{path} is longer than 4 MiB")
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogError(f"{path} is no YAML file in UTF-8") from error
    tables = list(_tables(content))
    if not tables:
        raise CatalogError(f"{path} has no tables: expected collection, schema and tables, each a mapping")
    names = [name for _, name, _ in tables]
    if len(set(names)) < len(names):
        raise CatalogError("tables of several schemas have one name, and a catalog has no schemas")
    rows = [bool(table.get("row_privacy")) for _, _, table in tables]
    if any(rows) and not all(rows):
        raise CatalogError("some tables protect rows and others people; a catalog protects one of them")
    lines = [
        "# Made from SmartNoise's metadata. Lines with ! say what could not be carried over.",
        f"version: {VERSION}",
        f"dataset: {text(dataset)}",
        f"privacy_unit: {'row' if all(rows) else 'person'}" + ("" if all(rows) else "  # a word for whom you protect"),
        "budget: {epsilon: 1, delta: 1e-6}  # ! metadata have none: decide",
        "tables:",
    ]
    for schema, name, table in tables:
        lines += _smartnoise_table(schema, name, table, by_row=all(rows))
    return "\n".join(lines) + "\n"


def _tables(content: object) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yields (schema, name, table) of every table; a collection holds schemas, which hold tables."""
    for schemas in _inner(content):
        for schema, tables in schemas[1].items():
            for name, table in _inner(tables):
                if any(isinstance(column, Mapping) and "type" in column for column in _columns(table).values()):
                    yield str(schema), str(name), table


def _inner(content: object) -> list[tuple[object, Mapping[str, Any]]]:
    if not isinstance(content, Mapping):
        return []
    return [(name, inner) for name, inner in content.items() if isinstance(inner, Mapping)]


def _columns(table: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = table.get("columns")
    if isinstance(inner, Mapping):
        return inner
    return {str(name): column for name, column in table.items() if isinstance(column, Mapping)}


def _smartnoise_table(schema: str, name: str, table: Mapping[str, Any], *, by_row: bool) -> Iterator[str]:
    columns = _columns(table)
    faults = [f"{part!r}: {fault}" for part in (name, *map(str, columns)) if (fault := name_fault(str(part)))]
    if faults:
        raise CatalogError(faults)
    yield f"  {text(name)}:" + (f"  # of the schema {_shown(schema)}" if schema else "")
    units = [str(column) for column, said in columns.items() if isinstance(said, Mapping) and said.get("private_id")]
    if not by_row:
        if len(units) == 1:
            yield f"    unit: {text(units[0])}"
        else:
            found = "several columns are" if units else "no column is"
            yield f"    unit: COLUMN  # ! {found} private_id: say whose rows these are"
    elif units:
        yield f"    # ! private_id of {', '.join(map(_shown, units))} is left out: row_privacy protects rows"
    most = table.get("max_ids", table.get("max_contributions"))
    if isinstance(most, int) and not isinstance(most, bool) and most >= 1 and not by_row:
        yield f"    max_rows: {most}  # max_ids: rows of one person in all"
    elif not by_row:
        yield f"    max_rows: auto  # ! {_most_said(most)}: write a number, or have it measured by dpquery profile"
    for field, value in table.items():
        if not isinstance(value, Mapping) and field not in ("row_privacy", "max_ids", "max_contributions", "columns"):
            reason = _WITHOUT.get(str(field), "unknown here")
            yield f"    # ! {_shown(str(field))}: {_shown(str(value))} is left out: {reason}"
    yield "    columns:"
    for column, said in columns.items():
        yield from _smartnoise_column(str(column), said, is_unit=str(column) in units)


def _most_said(most: object) -> str:
    if most is None:
        return "there is no max_ids to say how many rows one person has"
    return f"max_ids {_shown(str(most))} is not a number of rows of one person"


def _smartnoise_column(name: str, said: object, *, is_unit: bool) -> Iterator[str]:
    type = _TYPES.get(str(said.get("type")).lower()) if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping) or type is None:
        yield f"      # ! {_shown(name)} is left out: its type is unknown here"
        return
    if is_unit and type not in ("int64", "text"):
        type = "text"
    parts, notes = [f"type: {type}"], []
    lower, upper = said.get("lower"), said.get("upper")
    if lower is not None or upper is not None:
        if type not in ("text", "boolean") and _are_bounds(lower, upper, type):
            parts += [f"lower: {lower}", f"upper: {upper}"]
        else:
            notes.append(f"lower {lower} and upper {upper} are not bounds of {type}")
    if said.get("nullable", True) is not False:
        parts.append("nullable: true")
    notes += [f"{field} {said[field]}" for field in said if field not in _COLUMN_FIELDS]
    yield f"      {text(name)}: {{{', '.join(parts)}}}" + (
        f"  # ! left out: {_shown('; '.join(notes))}" if notes else ""
    )


def _are_bounds(lower: Any, upper: Any, type: str) -> bool:
    return _is_bound(lower, type) and _is_bound(upper, type) and bool(lower <= upper)


def _is_bound(value: object, type: str) -> bool:
    if type == "timestamp":
        return isinstance(value, datetime) and value.tzinfo is None
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole if type == "int64" else whole or (isinstance(value, float) and abs(value) < 1e300)
