"""Rows of the emulated catalogs: what is declared, and the parts of PostgreSQL's own that clients ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from dpquery.catalog import Catalog
from dpquery.catalog.describe import rows_in_words
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.frontends.postgres.commands.gucs import DEFAULTS
from dpquery.frontends.postgres.pg_catalog.information import information_schema
from dpquery.frontends.postgres.pg_catalog.relations import (
    ANALYST,
    DATABASE,
    DP,
    INFORMATION_SCHEMA,
    OWNER,
    OWNER_NAME,
    PG_CATALOG,
    PUBLIC,
    Relation,
    Row,
    oid_of_code,
    text_of,
)
from dpquery.frontends.postgres.pg_catalog.virtual import VIRTUAL, type_of_column
from dpquery.frontends.postgres.wire.names import oid_of
from dpquery.frontends.postgres.wire.oids import length_of
from dpquery.plan.types import BOOLEAN, Kind, Type, Value
from dpquery.units.declarations import Neighbours

MOST_KEYS = 20

CLASS = 1259
READABLE = [f"=r/{OWNER_NAME}"]
"""Everybody who can connect may ask about a table, and nothing more."""


def _read(name: str) -> list[Row]:
    lines = [line.split("|") for line in text_of(name).splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def stable_oid(*parts: str) -> int:
    """Returns an OID that depends on a name alone, beyond those that PostgreSQL keeps for itself."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return 20_000 + int.from_bytes(digest[:4], "big") % 2_000_000_000


def rows(catalog: Catalog, system: tuple[Relation, ...]) -> Iterator[tuple[str, list[Row]]]:
    """Yields (place, rows) for each relation of the emulation that has any."""
    yield "pgc.pg_namespace", _namespaces()
    yield "pgc.pg_type", _types()
    procs = ((row["oid"], row["proname"], PG_CATALOG, OWNER, "f") for row in _read("procs.txt"))
    yield "pgc.pg_proc", _rows("oid proname pronamespace proowner prokind", *procs)
    classes, attributes = _system(system)
    own = [*_tables(catalog), *_virtual()]
    yield "pgc.pg_class", [*classes, *(row for row, _ in own)]
    yield "pgc.pg_attribute", [*attributes, *(part for _, parts in own for part in parts)]
    yield "pgc.pg_description", _descriptions(catalog)
    yield from _small(catalog)
    yield from information_schema(catalog, own, system)


def _namespaces() -> list[Row]:
    named = ((PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema"), (DP, "dp"))
    return [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in named]


def _types() -> list[Row]:
    procs = {str(row["proname"]): row["oid"] for row in _read("procs.txt")}
    made = []
    for row in _read("types.txt"):
        row = dict(row)
        for name in ("typinput", "typoutput", "typreceive", "typsend"):
            row[name] = procs.get(str(row[name]), "0")
        for name in ("typbyval", "typispreferred"):
            row[name] = row[name] == "t"
        collation = 100 if row["typcategory"] == "S" and row["oid"] != "19" else 0
        made.append({**row, "typisdefined": True, "typowner": OWNER, "typcollation": collation, "typnotnull": False})
    return made


def _class(oid: int, name: str, namespace: int, kind: str, columns: int) -> Row:
    own = {"oid": oid, "relname": name, "relnamespace": namespace, "relkind": kind, "relnatts": columns}
    same = {"relowner": OWNER, "reltuples": -1.0, "relpersistence": "p", "relispopulated": True, "relreplident": "d"}
    return {**own, "relam": 2 if kind == "r" else 0, **same}


def attribute(relation: int, number: int, name: str, oid: int, typmod: int = -1, *, is_nullable: bool = True) -> Row:
    """Returns one row of pg_attribute."""
    own = {"attrelid": relation, "attnum": number, "attname": name, "atttypid": oid, "atttypmod": typmod}
    of_type = {"attlen": length_of(oid), "attcollation": 100 if oid == 25 else 0}
    same = {"attislocal": True, "attalign": "d", "attstorage": "p", "attstattarget": -1}
    none = dict.fromkeys(("attidentity", "attgenerated", "attcompression"), "")
    return {**own, **of_type, **same, **none, "attnotnull": not is_nullable}


def _system(system: tuple[Relation, ...]) -> tuple[list[Row], list[Row]]:
    classes, attributes = [], []
    for relation in system:
        namespace = PG_CATALOG if relation.schema == "pg_catalog" else INFORMATION_SCHEMA
        classes.append(_class(relation.oid, relation.name, namespace, relation.kind, len(relation.columns)))
        attributes += [
            attribute(relation.oid, i, name, oid_of_code(code))
            for i, (name, code) in enumerate(relation.columns, start=1)
        ]
    return classes, attributes


def table_oid(name: str, schema: str = "public") -> int:
    """Returns the OID of a declared table, or of a virtual one."""
    return stable_oid(schema, name)


def typmod_of(type: Type) -> int:
    """Returns a type's parameters as PostgreSQL codes them."""
    return ((type.precision << 16) | type.scale) + 4 if type.kind is Kind.DECIMAL else -1


def _tables(catalog: Catalog) -> Iterator[tuple[Row, list[Row]]]:
    for table in catalog.tables.values():
        oid = table_oid(table.name)
        row = _class(oid, table.name, PUBLIC, "r", len(table.columns)) | {"relacl": READABLE}
        yield (
            row,
            [
                attribute(oid, i, c.name, oid_of(c.type), typmod_of(c.type), is_nullable=c.nullable)
                for i, c in enumerate(table.columns.values(), start=1)
            ],
        )


def _virtual() -> Iterator[tuple[Row, list[Row]]]:
    for name, columns in VIRTUAL.items():
        oid = table_oid(name, "dp")
        yield (
            _class(oid, name, DP, "v", len(columns)),
            [attribute(oid, i, column, type_of_column(word)) for i, (column, word) in enumerate(columns, start=1)],
        )


def _descriptions(catalog: Catalog) -> list[Row]:
    made: list[Row] = [
        {"objoid": PUBLIC, "classoid": 2615, "objsubid": 0, "description": dataset_comment(catalog)},
    ]
    for table in catalog.tables.values():
        oid = table_oid(table.name)
        made.append({"objoid": oid, "classoid": CLASS, "objsubid": 0, "description": table_comment(table, catalog)})
        for i, column in enumerate(table.columns.values(), start=1):
            said = column_comment(column, table, catalog)
            made.append({"objoid": oid, "classoid": CLASS, "objsubid": i, "description": said})
    return made


HIDDEN = "********"
SETTINGS = DEFAULTS | {
    "lc_ctype": "C.UTF-8",
    "default_tablespace": "",
    "default_table_access_method": "heap",
    "jit": "off",
    "ssl": "on",
}


def _rows(names: str, *rows: tuple[object, ...]) -> list[Row]:
    """Returns rows with these names of columns, written with spaces between."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def _small(catalog: Catalog) -> Iterator[tuple[str, list[Row]]]:
    yield "pgc.pg_am", _rows("oid amname amtype", (2, "heap", "t"), (403, "btree", "i"), (405, "hash", "i"))
    named = ((100, "default", "d", -1), (950, "C", "c", -1), (951, "POSIX", "c", -1))
    collations = _rows("oid collname collprovider collencoding collnamespace", *((*row, PG_CATALOG) for row in named))
    yield "pgc.pg_collation", collations
    languages = ((12, "internal", False), (13, "c", False), (14, "sql", True))
    yield "pgc.pg_language", _rows("oid lanname lanpltrusted lanowner", *((*row, OWNER) for row in languages))
    spaces = (1663, "pg_default", OWNER), (1664, "pg_global", OWNER)
    yield "pgc.pg_tablespace", _rows("oid spcname spcowner", *spaces)
    names = "oid datname datdba encoding datlocprovider datallowconn datconnlimit dattablespace datcollate datctype"
    database = (DATABASE, catalog.dataset, OWNER, 6, "c", True, -1, 1663, "C", SETTINGS["lc_ctype"])
    yield "pgc.pg_database", _rows(names, database)
    roles = (OWNER, OWNER_NAME, False), (stable_oid("role"), ANALYST, True)
    names = "oid rolname rolcanlogin rolinherit rolconnlimit rolpassword"
    yield "pgc.pg_roles", _rows(names, *((*role, True, -1, HIDDEN) for role in roles))
    yield "pgc.pg_user", _rows("usesysid usename passwd", *((oid, name, HIDDEN) for oid, name, _ in roles))
    settings = ((*pair, "dpquery", "user", "string", "default") for pair in SETTINGS.items())
    yield "pgc.pg_settings", _rows("name setting category context vartype source", *settings)


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
