"""Types of plans and of Arrow as PostgreSQL's OIDs; fixed by the plan and never by what the data hold."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Field
from dpquery.plan.types import Kind, Type

_OIDS = {
    Kind.BOOLEAN: oids.BOOL,
    Kind.INT64: oids.INT8,
    Kind.FLOAT64: oids.FLOAT8,
    Kind.DECIMAL: oids.NUMERIC,
    Kind.TEXT: oids.TEXT,
    Kind.DATE: oids.DATE,
    Kind.TIMESTAMP: oids.TIMESTAMP,
}

_EXAMPLES: dict[int, object] = {
    oids.BOOL: True,
    **dict.fromkeys((oids.INT2, oids.INT4, oids.INT8, oids.OID), 1),
    **dict.fromkeys((oids.FLOAT4, oids.FLOAT8), 1.0),
    oids.NUMERIC: Decimal(1),
    oids.DATE: datetime.date(2000, 1, 1),
    **dict.fromkeys((oids.TIMESTAMP, oids.TIMESTAMPTZ), datetime.datetime(2000, 1, 1)),
    oids.TIME: "00:00:00",
    oids.UUID: "00000000-0000-0000-0000-000000000000",
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
    for element, array in oids.ARRAYS.items():
        if array == oid:
            return [example_of(element)]
    return _EXAMPLES.get(oid, "")


def field_of_arrow(name: str, type: pa.DataType) -> Field:
    """Returns the description of a column of the emulated catalog."""
    return Field(name=name, oid=_oid_of_arrow(type))


def _oid_of_arrow(type: pa.DataType) -> int:
    plain = {
        pa.bool_(): oids.BOOL,
        pa.int8(): oids.INT2,
        pa.int16(): oids.INT2,
        pa.uint8(): oids.INT2,
        pa.int32(): oids.INT4,
        pa.uint16(): oids.INT4,
        pa.int64(): oids.INT8,
        pa.uint32(): oids.OID,
        pa.float32(): oids.FLOAT4,
        pa.float64(): oids.FLOAT8,
        pa.date32(): oids.DATE,
        pa.time64("us"): oids.TIME,
        pa.timestamp("us"): oids.TIMESTAMP,
        pa.binary(): oids.BYTEA,
        pa.month_day_nano_interval(): oids.INTERVAL,
    }
    if type in plain:
        return plain[type]
    if pa.types.is_decimal(type):
        return oids.NUMERIC
    if pa.types.is_timestamp(type):
        return oids.TIMESTAMPTZ
    if pa.types.is_list(type):
        return oids.ARRAYS.get(_oid_of_arrow(type.value_type), 1009)
    return oids.TEXT
