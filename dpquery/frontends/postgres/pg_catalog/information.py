"""Rows of the emulated information_schema."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.catalog import Catalog
from dpquery.frontends.postgres.pg_catalog.relations import (
    ANALYST,
    DP,
    INFORMATION_SCHEMA,
    OWNER_NAME,
    PG_CATALOG,
    PUBLIC,
    Relation,
    Row,
)


def information_schema(
    catalog: Catalog, own: list[tuple[Row, list[Row]]], system: tuple[Relation, ...]
) -> Iterator[tuple[str, list[Row]]]:
    """Yields (place, rows) for each relation of information_schema that has any.

    Args:
        catalog: The declarations.
        own: For each table, declared or virtual, its rows of pg_class and pg_attribute.
        system: PostgreSQL's own relations.
    """
    database = {"table_catalog": catalog.dataset}
    names = {"public": PUBLIC, "dp": DP, "pg_catalog": PG_CATALOG, "information_schema": INFORMATION_SCHEMA}
    yield (
        "inf.schemata",
        [{"catalog_name": catalog.dataset, "schema_name": n, "schema_owner": OWNER_NAME} for n in names],
    )
    yield "inf.information_schema_catalog_name", [{"catalog_name": catalog.dataset}]
    encoding = {"character_set_name": "UTF8", "character_repertoire": "UCS", "form_of_use": "UTF8"}
    collation = {"default_collate_schema": "pg_catalog", "default_collate_name": "C"}
    yield "inf.character_sets", [{**encoding, "default_collate_catalog": catalog.dataset, **collation}]
    yield "inf.enabled_roles", [{"role_name": ANALYST}]
    yield "inf.applicable_roles", []
    schemas = {oid: name for name, oid in names.items()}
    listed = [(schemas[_int(row["relnamespace"])], row["relname"], row["relkind"]) for row, _ in own]
    listed += [(relation.schema, relation.name, relation.kind) for relation in system]
    yield (
        "inf.tables",
        [
            {**database, "table_schema": schema, "table_name": name, "is_insertable_into": "NO", "is_typed": "NO"}
            | {"table_type": "BASE TABLE" if kind == "r" else "VIEW"}
            for schema, name, kind in listed
        ],
    )
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
        "is_generated": "NEVER",
        **dict.fromkeys(("is_self_referencing", "is_identity", "identity_cycle", "is_updatable"), "NO"),
    }
