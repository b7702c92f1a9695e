"""PostgreSQL's numbers of types."""

from __future__ import annotations

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT, OID, OIDVECTOR, FLOAT4, FLOAT8, UNKNOWN = 24, 25, 26, 30, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1042, 1043, 1082, 1083, 1114, 1184, 1186
NUMERIC, UUID = 1700, 2950

LENGTHS = {
    **dict.fromkeys((BOOL, CHAR), 1),
    INT2: 2,
    **dict.fromkeys((INT4, REGPROC, OID, FLOAT4, DATE), 4),
    **dict.fromkeys((2202, 2203, 2204, 2205, 2206, 4096, 4089), 4),  # regprocedure, regoper, ..., regclass, ...
    **dict.fromkeys((INT8, FLOAT8, TIME, TIMESTAMP, TIMESTAMPTZ), 8),
    **dict.fromkeys((INTERVAL, UUID), 16),
    NAME: 64,
    UNKNOWN: -2,
}
"""Bytes of the types that have a fixed length; the others have -1."""

ELEMENTS = {
    1000: BOOL,
    1001: BYTEA,
    1002: CHAR,
    1003: NAME,
    1005: INT2,
    1007: INT4,
    1008: REGPROC,
    1009: TEXT,
    1014: BPCHAR,
    1015: VARCHAR,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    1028: OID,
    1115: TIMESTAMP,
    1182: DATE,
    1183: TIME,
    1185: TIMESTAMPTZ,
    1187: INTERVAL,
    1231: NUMERIC,
    2951: UUID,
    INT2VECTOR: INT2,
    OIDVECTOR: OID,
}
"""For each type of arrays the type of its elements."""

ARRAYS = {element: array for array, element in ELEMENTS.items() if array not in (INT2VECTOR, OIDVECTOR)}

TYPES = {
    **dict.fromkeys(("bool", "boolean"), BOOL),
    **dict.fromkeys(("smallint", "int2"), INT2),
    **dict.fromkeys(("int", "integer", "int4"), INT4),
    **dict.fromkeys(("bigint", "int8"), INT8),
    **dict.fromkeys(("real", "float4"), FLOAT4),
    **dict.fromkeys(("float8", "float", "double precision"), FLOAT8),
    **dict.fromkeys(("numeric", "decimal"), NUMERIC),
    "text": TEXT,
    **dict.fromkeys(("varchar", "character varying"), VARCHAR),
    "char": BPCHAR,
    "date": DATE,
    "time": TIME,
    **dict.fromkeys(("timestamp", "timestamp without time zone"), TIMESTAMP),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), TIMESTAMPTZ),
    "uuid": UUID,
    "bytea": BYTEA,
    "unknown": 0,
    "name": NAME,
    "oid": OID,
    "interval": INTERVAL,
}
"""Types by their names in SQL."""


def length_of(oid: int) -> int:
    """Returns the length of a type's values as the catalog states it, -1 where it varies."""
    return LENGTHS.get(oid, -1)
