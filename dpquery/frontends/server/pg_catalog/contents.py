"""Rows of the emulated catalogs: what is declared, and the parts of PostgreSQL's own that clients ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from dpquery.catalog import Catalog
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.frontends.server.names import oid_of
from dpquery.frontends.server.pg_catalog.comments import column_comment, dataset_comment, table_comment
from dpquery.frontends.server.virtual import VIRTUAL, type_of_column
from dpquery.plan.types import Kind, Type

PG_CATALOG, PUBLIC, INFORMATION_SCHEMA, TOAST, DP = 11, 2200, 13207, 99, 16390
OWNER, OWNER_NAME, DATABASE = 10, "dpquery", 16384
CLASS = 1259
Row = dict[str, object]

_CODES = {
    "o": (26, "UINTEGER"),
    "8": (20, "BIGINT"),
    "n": (19, "VARCHAR"),
    "t": (25, "VARCHAR"),
    "b": (16, "BOOLEAN"),
    "4": (23, "INTEGER"),
    "2": (21, "SMALLINT"),
    "d": (701, "DOUBLE"),
    "f": (700, "REAL"),
    "N": (1700, "DECIMAL(38,9)"),
    "z": (1184, "TIMESTAMP"),
    "c": (18, "VARCHAR"),
    "p": (24, "UINTEGER"),
    "x": (17, "BLOB"),
    "t*": (1009, "VARCHAR[]"),
    "o*": (1028, "UINTEGER[]"),
    "2*": (1005, "SMALLINT[]"),
    "f*": (1021, "REAL[]"),
    "d*": (1022, "DOUBLE[]"),
    "b*": (1000, "BOOLEAN[]"),
}
_SIZES = {16: 1, 20: 8, 21: 2, 23: 4, 26: 4, 24: 4, 18: 1, 19: 64, 700: 4, 701: 8, 1082: 4, 1114: 8, 1184: 8}


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation of PostgreSQL's own: schema, name, OID, kind, and (name, code of the type) of its columns."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """Where the emulation keeps it."""
        return f"{'pgc' if self.schema == 'pg_catalog' else 'inf'}.{self.name}"

    def ddl(self) -> str:
        """Returns the statement that makes it."""
        columns = ", ".join(f'"{name}" {_CODES[code][1]}' for name, code in self.columns)
        return f"CREATE TABLE {self.place} ({columns})"


def relations() -> tuple[Relation, ...]:
    """Returns all relations of PostgreSQL 15's system schemas."""
    made = []
    for line in _text("relations.txt").splitlines():
        full, oid, kind, columns = line.split(" ")
        schema, name = full.split(".")
        pairs = tuple((part.split(":")[0], part.split(":")[1]) for part in columns.split(","))
        made.append(Relation(schema, name, int(oid), kind, pairs))
    return tuple(made)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _read(name: str) -> list[Row]:
    lines = [line.split("|") for line in _text(name).splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def stable_oid(*parts: str) -> int:
    """Returns an OID that depends on a name alone, beyond those that PostgreSQL keeps for itself."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return 20_000 + int.from_bytes(digest[:4], "big") % 2_000_000_000


def rows(catalog: Catalog, system: tuple[Relation, ...]) -> Iterator[tuple[str, list[Row]]]:
    """Yields (place, rows) for each relation of the emulation that has any."""
    yield "pgc.pg_namespace", _namespaces()
    yield "pgc.pg_type", _types()
    yield (
        "pgc.pg_proc",
        [
            {
                "oid": row["oid"],
                "proname": row["proname"],
                "pronamespace": PG_CATALOG,
                "proowner": OWNER,
                "prokind": "f",
            }
            for row in _read("procs.txt")
        ],
    )
    classes, attributes = _system(system)
    own = [*_tables(catalog), *_virtual()]
    yield "pgc.pg_class", [*classes, *(row for row, _ in own)]
    yield "pgc.pg_attribute", [*attributes, *(part for _, parts in own for part in parts)]
    yield "pgc.pg_description", _descriptions(catalog)
    yield from _small(catalog)
    yield from _information_schema(catalog, own, system)


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
    return {
        "oid": oid,
        "relname": name,
        "relnamespace": namespace,
        "relkind": kind,
        "relnatts": columns,
        "relowner": OWNER,
        "relam": 2 if kind == "r" else 0,
        "reltuples": -1.0,
        "relpersistence": "p",
        "relispopulated": True,
        "relreplident": "d",
    }


def attribute(relation: int, number: int, name: str, oid: int, typmod: int = -1, *, is_nullable: bool = True) -> Row:
    """Returns one row of pg_attribute."""
    return {
        "attrelid": relation,
        "attnum": number,
        "attname": name,
        "atttypid": oid,
        "atttypmod": typmod,
        "attlen": _SIZES.get(oid, -1),
        "attnotnull": not is_nullable,
        "attislocal": True,
        "attidentity": "",
        "attgenerated": "",
        "attcompression": "",
        "attalign": "d",
        "attstorage": "p",
        "attcollation": 100 if oid == 25 else 0,
        "attstattarget": -1,
    }


def _system(system: tuple[Relation, ...]) -> tuple[list[Row], list[Row]]:
    classes, attributes = [], []
    for relation in system:
        namespace = PG_CATALOG if relation.schema == "pg_catalog" else INFORMATION_SCHEMA
        classes.append(_class(relation.oid, relation.name, namespace, relation.kind, len(relation.columns)))
        attributes += [
            attribute(relation.oid, i, name, _CODES[code][0])
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
        row = _class(oid, table.name, PUBLIC, "r", len(table.columns))
        yield (
            row,
            [
                attribute(oid, i, c.name, oid_of(c.type), typmod_of(c.type), is_nullable=_is_nullable(c))
                for i, c in enumerate(table.columns.values(), start=1)
            ],
        )


def _is_nullable(column: ColumnDeclaration) -> bool:
    return column.nullable


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


SETTINGS = {
    "server_version": "15.0",
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "lc_collate": "C",
    "lc_ctype": "C.UTF-8",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "search_path": '"$user", public',
    "default_tablespace": "",
    "default_table_access_method": "heap",
    "jit": "off",
    "is_superuser": "off",
    "extra_float_digits": "1",
    "ssl": "on",
}


def _small(catalog: Catalog) -> Iterator[tuple[str, list[Row]]]:
    yield (
        "pgc.pg_am",
        [
            {"oid": 2, "amname": "heap", "amtype": "t"},
            {"oid": 403, "amname": "btree", "amtype": "i"},
            {"oid": 405, "amname": "hash", "amtype": "i"},
        ],
    )
    named = ((100, "default", "d", -1), (950, "C", "c", -1), (951, "POSIX", "c", -1))
    yield (
        "pgc.pg_collation",
        [
            {"oid": o, "collname": n, "collnamespace": PG_CATALOG, "collprovider": p, "collencoding": e}
            for o, n, p, e in named
        ],
    )
    languages = ((12, "internal", False), (13, "c", False), (14, "sql", True))
    yield "pgc.pg_language", [{"oid": o, "lanname": n, "lanowner": OWNER, "lanpltrusted": t} for o, n, t in languages]
    spaces = ((1663, "pg_default"), (1664, "pg_global"))
    yield "pgc.pg_tablespace", [{"oid": o, "spcname": n, "spcowner": OWNER} for o, n in spaces]
    yield (
        "pgc.pg_database",
        [
            {
                "oid": DATABASE,
                "datname": catalog.dataset,
                "datdba": OWNER,
                "encoding": 6,
                "datlocprovider": "c",
                "datallowconn": True,
                "datconnlimit": -1,
                "dattablespace": 1663,
                "datcollate": "C",
                "datctype": "C.UTF-8",
            }
        ],
    )
    roles = [(OWNER, OWNER_NAME, False), (stable_oid("role"), ANALYST, True)]
    yield (
        "pgc.pg_roles",
        [
            {
                "oid": o,
                "rolname": n,
                "rolinherit": True,
                "rolcanlogin": can,
                "rolconnlimit": -1,
                "rolpassword": "********",
            }
            for o, n, can in roles
        ],
    )
    yield "pgc.pg_user", [{"usename": n, "usesysid": o, "passwd": "********"} for o, n, _ in roles]
    yield (
        "pgc.pg_settings",
        [
            {
                "name": n,
                "setting": v,
                "category": "dpquery",
                "context": "user",
                "vartype": "string",
                "source": "default",
            }
            for n, v in SETTINGS.items()
        ],
    )


ANALYST = "\x01analyst"
"""Stands for whoever asks."""


def _information_schema(
    catalog: Catalog, own: list[tuple[Row, list[Row]]], system: tuple[Relation, ...]
) -> Iterator[tuple[str, list[Row]]]:
    database = {"table_catalog": catalog.dataset}
    names = {"public": PUBLIC, "dp": DP, "pg_catalog": PG_CATALOG, "information_schema": INFORMATION_SCHEMA}
    yield (
        "inf.schemata",
        [{"catalog_name": catalog.dataset, "schema_name": n, "schema_owner": OWNER_NAME} for n in names],
    )
    yield "inf.information_schema_catalog_name", [{"catalog_name": catalog.dataset}]
    yield (
        "inf.character_sets",
        [
            {
                "character_set_name": "UTF8",
                "character_repertoire": "UCS",
                "form_of_use": "UTF8",
                "default_collate_catalog": catalog.dataset,
                "default_collate_schema": "pg_catalog",
                "default_collate_name": "C",
            }
        ],
    )
    yield "inf.enabled_roles", [{"role_name": ANALYST}]
    yield "inf.applicable_roles", []
    schemas = {oid: name for name, oid in names.items()}
    tables: list[Row] = []
    for row, _ in own:
        kind = "BASE TABLE" if row["relkind"] == "r" else "VIEW"
        place = {"table_schema": schemas[_int(row["relnamespace"])], "table_name": row["relname"]}
        tables.append(database | place | {"table_type": kind, "is_insertable_into": "NO", "is_typed": "NO"})
    for relation in system:
        kind = "BASE TABLE" if relation.kind == "r" else "VIEW"
        place = {"table_schema": relation.schema, "table_name": relation.name}
        tables.append(database | place | {"table_type": kind, "is_insertable_into": "NO", "is_typed": "NO"})
    yield "inf.tables", tables
    grants = [
        database
        | {"grantor": OWNER_NAME, "grantee": ANALYST, "table_schema": schemas[_int(row["relnamespace"])]}
        | {"table_name": row["relname"], "privilege_type": "SELECT", "is_grantable": "NO", "with_hierarchy": "YES"}
        for row, _ in own
    ]
    yield "inf.table_privileges", grants
    yield "inf.role_table_grants", grants
    yield (
        "inf.columns",
        [
            database
            | {"table_schema": schemas[_int(row["relnamespace"])], "table_name": row["relname"]}
            | _information_column(part, catalog)
            for row, parts in own
            for part in parts
        ],
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


_WORDS = {
    16: ("boolean", "bool"),
    20: ("bigint", "int8"),
    701: ("double precision", "float8"),
    1700: ("numeric", "numeric"),
    25: ("text", "text"),
    1082: ("date", "date"),
    1114: ("timestamp without time zone", "timestamp"),
}


def _information_column(part: Row, catalog: Catalog) -> Row:
    oid, typmod = _int(part["atttypid"]), _int(part["atttypmod"])
    words = _WORDS[oid]
    precision = {20: (64, 2, 0), 701: (53, 2, None)}.get(oid, (None, None, None))
    if oid == 1700 and typmod >= 4:
        precision = ((typmod - 4) >> 16, 10, (typmod - 4) & 65535)
    return {
        "column_name": part["attname"],
        "ordinal_position": part["attnum"],
        "is_nullable": "NO" if part["attnotnull"] else "YES",
        "data_type": words[0],
        "character_octet_length": 1073741824 if oid == 25 else None,
        "numeric_precision": precision[0],
        "numeric_precision_radix": precision[1],
        "numeric_scale": precision[2],
        "datetime_precision": {1082: 0, 1114: 6}.get(oid),
        "udt_catalog": catalog.dataset,
        "udt_schema": "pg_catalog",
        "udt_name": words[1],
        "dtd_identifier": str(part["attnum"]),
        "is_self_referencing": "NO",
        "is_identity": "NO",
        "identity_cycle": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
    }


def table_of(catalog: Catalog, name: str) -> Table:
    """Returns a declared table."""
    return catalog.tables[name]


def oid_of_code(code: str) -> int:
    """Returns the OID of a code for a type."""
    return _CODES[code][0]
