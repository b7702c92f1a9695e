"""What the emulated catalogs hold: the declarations as rows for `catalog.sql`, and the tables of the schema dp."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from dpquery.catalog import Catalog
from dpquery.catalog.describe import rows_in_words
from dpquery.catalog.names import SYNOPSES
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.frontends.postgres.commands.gucs import DEFAULTS
from dpquery.frontends.postgres.pg_catalog.relations import ANALYST, Relation, oid_of_code, text_of
from dpquery.frontends.postgres.wire.oids import BOOL, FLOAT8, INT8, TEXT, field_of
from dpquery.ledger.entries import State
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.schema import EntryKind
from dpquery.plan.types import BOOLEAN, Value
from dpquery.units.declarations import Neighbours

MOST_KEYS = 20
SETTINGS = DEFAULTS | {
    "lc_ctype": "C.UTF-8",
    "default_tablespace": "",
    "default_table_access_method": "heap",
    "jit": "off",
    "ssl": "on",
}
Row = tuple[object, ...]


def stable_oid(*parts: str) -> int:
    """Returns an OID that depends only on a name, beyond those that PostgreSQL keeps for itself."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return 20_000 + int.from_bytes(digest[:4], "big") % 2_000_000_000


def rows(catalog: Catalog, system: Iterable[Relation]) -> dict[str, pa.Table]:
    """Returns the tables of the schema aid that `catalog.sql` reads, by name."""
    relations, columns = list[Row](), list[Row]()
    for table in catalog.tables.values():
        schema, name = schema_of(table)
        oid = stable_oid(schema, name)
        relations.append((oid, schema, name, "r", table_comment(table, catalog)))
        for i, column in enumerate(table.columns.values(), start=1):
            field, said = field_of(column.name, column.type), column_comment(column, table, catalog)
            columns.append((oid, i, field.name, field.oid, field.typmod, column.nullable, said))
    others = [(stable_oid("dp", name), "dp", name, "v", map(_of_dp, parts)) for name, parts in VIRTUAL.items()]
    for oid, schema, name, kind, parts in (*others, *map(_of_system, system)):
        relations.append((oid, schema, name, kind, None))
        columns += [(oid, i, part, type, -1, True, None) for i, (part, type) in enumerate(parts, start=1)]
    about = (catalog.dataset, dataset_comment(catalog), ANALYST, stable_oid("role"))
    return {
        "relations": _arrow("oid schema name kind comment", relations),
        "columns": _arrow("relation number name type typmod is_nullable comment", columns),
        "about": _arrow("dataset comment analyst role", [about]),
        "settings": _arrow("name setting", list(SETTINGS.items())),
        **{name: _read(f"{name}.txt") for name in ("types", "procs")},
    }


def schema_of(table: Table) -> tuple[str, str]:
    """Returns the schema that a declared table or a synopsis is listed in, and its name there."""
    schema, _, name = table.name.partition(".")
    return (SYNOPSES, name) if schema == SYNOPSES and name and table.public else ("public", table.name)


def _of_dp(column: tuple[str, str]) -> tuple[str, int]:
    return column[0], _TYPES[column[1]][0]


def _of_system(made: Relation) -> tuple[int, str, str, str, Iterable[tuple[str, int]]]:
    return made.oid, made.schema, made.name, made.kind, ((name, oid_of_code(code)) for name, code in made.columns)


def _arrow(names: str, rows: Sequence[Row]) -> pa.Table:
    """Returns rows as a table with these names of columns, written with spaces between."""
    return pa.table(dict(zip(names.split(), map(list, zip(*rows, strict=True)), strict=True)))


def _read(name: str) -> pa.Table:
    head, *lines = text_of(name).splitlines()
    return _arrow(head.replace("|", " "), [tuple(line.split("|")) for line in lines])


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
    if own is not None and not own.path and column.name in own.columns:
        others = ", ".join(name for name in own.columns if name != column.name)
        said.append(f"Privacy unit: names the {catalog.privacy_unit}{f', together with {others}' if others else ''}.")
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


# The schema dp: what an analyst has and has spent, and what is declared of each column; free to read.

_COLUMNS = {
    "budget": "currency text, budget float, spent float, remaining float",
    "releases": "number int, time text, epsilon float, rho float, delta float, answered bool, query text",
    "columns": "table_name text, column_name text, type text, is_public bool, is_nullable bool, lower text, "
    "upper text, public_keys int, description text",
}
VIRTUAL: Mapping[str, tuple[tuple[str, str], ...]] = {
    table: tuple((column, word) for column, word in map(str.split, columns.split(", ")))
    for table, columns in _COLUMNS.items()
}
"""By name: columns and words for their types."""

_TYPES = {
    "text": (TEXT, pa.string()),
    "float": (FLOAT8, pa.float64()),
    "int": (INT8, pa.int64()),
    "bool": (BOOL, pa.bool_()),
}


def virtual_table(name: str, catalog: Catalog, ledger: Ledger, analyst: str | None) -> pa.Table:
    """Returns the rows of a virtual table as far as they concern this analyst; without one none, for descriptions."""
    rows: list[Row] = []
    if analyst is not None:
        rows = _columns(catalog) if name == "columns" else _ACCOUNTS[name](ledger, analyst)
    return pa.table(
        {column: pa.array([row[i] for row in rows], _TYPES[word][1]) for i, (column, word) in enumerate(VIRTUAL[name])}
    )


def _budget(ledger: Ledger, analyst: str) -> list[Row]:
    limit, left = ledger.limit(analyst), ledger.remaining(analyst)
    has_own = bool(limit.epsilon or limit.rho or limit.delta)
    whole, spent = (limit, ledger.spent(analyst)) if has_own else (ledger.limit(None), ledger.spent(None))
    return [
        (part, float(getattr(whole, part)), float(getattr(spent, part)), float(getattr(left, part)))
        for part in ("epsilon", "rho", "delta")
        if getattr(whole, part)
    ]


def _releases(ledger: Ledger, analyst: str) -> list[Row]:
    entries = [entry for entry in ledger.entries() if entry.analyst == analyst and entry.kind is EntryKind.CHARGE]
    return [
        (i, e.time, float(e.loss.epsilon), float(e.loss.rho), float(e.loss.delta), e.state is State.ANSWERED, e.query)
        for i, e in enumerate(entries, start=1)
    ]


_ACCOUNTS: Mapping[str, Callable[[Ledger, str], list[Row]]] = {"budget": _budget, "releases": _releases}


def _columns(catalog: Catalog) -> list[Row]:
    return [
        (
            table.name,
            column.name,
            str(column.type),
            table.public,
            column.nullable,
            None if column.lower is None else str(column.lower),
            None if column.upper is None else str(column.upper),
            None if column.keys is None else len(column.keys),
            column.description or None,
        )
        for table in catalog.tables.values()
        for column in table.columns.values()
    ]
