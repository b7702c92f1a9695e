"""Types of plans and of Arrow as PostgreSQL's OIDs; fixed by the plan and never by what the data hold."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from dpquery.frontends.postgres.wire.answers import Field
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, decimal

BOOL, BYTEA, INT8, INT2, INT4, TEXT_OID, OID = 16, 17, 20, 21, 23, 25, 26
FLOAT4, FLOAT8, DATE_OID, TIME, TIMESTAMP_OID, TIMESTAMPTZ, INTERVAL = 700, 701, 1082, 1083, 1114, 1184, 1186
NUMERIC, UUID, UNKNOWN = 1700, 2950, 705

_OIDS = {
    Kind.BOOLEAN: BOOL,
    Kind.INT64: INT8,
    Kind.FLOAT64: FLOAT8,
    Kind.DECIMAL: NUMERIC,
    Kind.TEXT: TEXT_OID,
    Kind.DATE: DATE_OID,
    Kind.TIMESTAMP: TIMESTAMP_OID,
}

ARRAYS = {
    BOOL: 1000,
    BYTEA: 1001,
    INT2: 1005,
    INT4: 1007,
    TEXT_OID: 1009,
    INT8: 1016,
    FLOAT4: 1021,
    FLOAT8: 1022,
    OID: 1028,
    TIMESTAMP_OID: 1115,
    DATE_OID: 1182,
    TIME: 1183,
    TIMESTAMPTZ: 1185,
    NUMERIC: 1231,
    UUID: 2951,
}
"""The OID of the list of each type."""

_TYPES = {
    BOOL: BOOLEAN,
    INT2: INT64,
    INT4: INT64,
    INT8: INT64,
    OID: INT64,
    FLOAT4: FLOAT64,
    FLOAT8: FLOAT64,
    NUMERIC: decimal(38, 9),
    TEXT_OID: TEXT,
    1043: TEXT,  # varchar
    1042: TEXT,  # bpchar
    19: TEXT,  # name
    UNKNOWN: TEXT,
    DATE_OID: DATE,
    TIMESTAMP_OID: TIMESTAMP,
    TIMESTAMPTZ: TIMESTAMP,
}

_EXAMPLES: dict[int, object] = {
    BOOL: True,
    INT2: 1,
    INT4: 1,
    INT8: 1,
    OID: 1,
    FLOAT4: 1.0,
    FLOAT8: 1.0,
    NUMERIC: Decimal(1),
    DATE_OID: datetime.date(2000, 1, 1),
    TIMESTAMP_OID: datetime.datetime(2000, 1, 1),
    TIMESTAMPTZ: datetime.datetime(2000, 1, 1),
    TIME: "00:00:00",
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


def type_of_oid(oid: int) -> Type | None:
    """Returns the plan's type that holds values of an OID, or None."""
    return _TYPES.get(oid)


def example_of(oid: int) -> object:
    """Returns some value of an OID: what a query is described with."""
    for element, array in ARRAYS.items():
        if array == oid:
            return [example_of(element)]
    return _EXAMPLES.get(oid, "")


def field_of_arrow(name: str, type: pa.DataType) -> Field:
    """Returns the description of a column of the emulated catalog."""
    return Field(name=name, oid=_oid_of_arrow(type))


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
        pa.date32(): DATE_OID,
        pa.time64("us"): TIME,
        pa.timestamp("us"): TIMESTAMP_OID,
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
    return TEXT_OID
