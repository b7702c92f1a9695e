"""PostgreSQL's numbers of types, and those of plans and of Arrow: fixed by the plan and never by what the data hold."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from dpquery.backends.duckdb.system_process import TYPE
from dpquery.frontends.postgres.wire.answers import Field
from dpquery.plan.types import Kind, Type

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT2VECTOR, INT4 = 16, 17, 18, 19, 20, 21, 22, 23
REGPROC, TEXT, OID, OIDVECTOR, FLOAT4, FLOAT8, UNKNOWN = 24, 25, 26, 30, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1042, 1043, 1082, 1083, 1114, 1184, 1186
NUMERIC, UUID, JSON = 1700, 2950, 114

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


_OIDS = {
    Kind.BOOLEAN: BOOL,
    Kind.INT64: INT8,
    Kind.FLOAT64: FLOAT8,
    Kind.DECIMAL: NUMERIC,
    Kind.TEXT: TEXT,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
}

_EXAMPLES: dict[int, object] = {
    BOOL: True,
    **dict.fromkeys((INT2, INT4, INT8, OID), 1),
    **dict.fromkeys((FLOAT4, FLOAT8), 1.0),
    NUMERIC: Decimal(1),
    DATE: datetime.date(2000, 1, 1),
    **dict.fromkeys((TIMESTAMP, TIMESTAMPTZ), datetime.datetime(2000, 1, 1)),
    TIME: "00:00:00",
    INTERVAL: "1 day",
    UUID: "00000000-0000-0000-0000-000000000000",
}


def oid_of(type: Type) -> int:
    """Returns the OID of a plan's type."""
    return _OIDS[type.kind]


def field_of(name: str, type: Type, *, is_exact: bool = True) -> Field:
    """Returns the description of a column of a plan.

    Args:
        name: Its name in the query.
        type: Its type in the plan.
        is_exact: Whether the digits of decimals are known; where parameters take part they depend on their values.
    """
    typmod = ((type.precision << 16) | type.scale) + 4 if type.kind is Kind.DECIMAL and is_exact else -1
    return Field(name=name, oid=oid_of(type), typmod=typmod)


def example_of(oid: int) -> object:
    """Returns some value of an OID: what a query is described with."""
    for element, array in ARRAYS.items():
        if array == oid:
            return [example_of(element)]
    return _EXAMPLES.get(oid, "")


def field_of_arrow(field: pa.Field) -> Field:
    """Returns the description of a column of the emulated catalog."""
    oid = {b"JSON": JSON, b"UUID": UUID}.get((field.metadata or {}).get(TYPE, b""))
    return Field(name=field.name, oid=oid or _oid_of_arrow(field.type))


def _oid_of_arrow(type: pa.DataType) -> int:
    plain = {
        pa.bool_(): BOOL,
        pa.int8(): INT2,
        pa.int16(): INT2,
        pa.uint8(): INT2,
        pa.int32(): INT4,
        pa.uint16(): INT4,
        pa.int64(): INT8,
        pa.uint32(): OID,
        pa.float32(): FLOAT4,
        pa.float64(): FLOAT8,
        pa.date32(): DATE,
        pa.time64("us"): TIME,
        pa.timestamp("us"): TIMESTAMP,
        pa.binary(): BYTEA,
        pa.month_day_nano_interval(): INTERVAL,
    }
    if type in plain:
        return plain[type]
    if pa.types.is_decimal(type):
        return NUMERIC
    if pa.types.is_timestamp(type):
        return TIMESTAMPTZ
    if pa.types.is_list(type):
        return ARRAYS.get(_oid_of_arrow(type.value_type), 1009)
    return TEXT
