"""Casts as DuckDB SQL. Text is checked against the one syntax of each type before the engine reads it."""

from __future__ import annotations

from dpquery.backends.duckdb.sql.sql_rules import Lowering
from dpquery.errors import InternalError
from dpquery.plan.expr import Cast
from dpquery.plan.functions.casts import SYNTAX, castable
from dpquery.plan.types import TEXT, Kind, Type

_NAMES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT64: "BIGINT",
    Kind.FLOAT64: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.INTERVAL: "BIGINT",
}


def type_name(of: Type) -> str:
    """Returns DuckDB's name of a type."""
    return f"DECIMAL({of.precision},{of.scale})" if of.kind is Kind.DECIMAL else _NAMES[of.kind]


def cast_sql(lowering: Lowering, cast: Cast) -> str:
    """Returns SQL for a cast."""
    source, target, x = cast.argument.type, cast.type, lowering.value(cast.argument)
    if not castable(source, target):
        raise InternalError(f"{source} cannot be cast to {target}")
    name = type_name(target)
    match source.kind, target.kind:
        case _ if source == target:
            return x
        case Kind.TEXT, kind:
            return f"TRY_CAST(regexp_extract({x}, '^(?:{SYNTAX[kind]})$') AS {name})"
        case Kind.FLOAT64, Kind.DECIMAL:
            return _float_to_decimal(lowering, x, target)
        # DuckDB 2.0 prints .5 for 0.5. Until `SELECT CAST(CAST(0.5 AS DECIMAL(1,1)) AS VARCHAR)` is 0.5.
        case Kind.DECIMAL, Kind.TEXT if source.precision == source.scale:
            return f"CAST(CAST({x} AS DECIMAL({source.precision + 1},{source.scale})) AS VARCHAR)"
        case (Kind.INT64, Kind.BOOLEAN):
            return f"({x} <> 0)"
        case _, Kind.TEXT:
            return f"CAST({x} AS {type_name(TEXT)})"
        case _:
            return f"TRY_CAST({x} AS {name})"


def _float_to_decimal(lowering: Lowering, x: str, target: Type) -> str:
    """The float times ten to the scale, rounded half to even, counts the units of the last place."""
    most = 10**target.precision
    scaled = f"TRY_CAST({x} * CAST('1e{target.scale}' AS DOUBLE) AS HUGEINT)"
    units = lowering.let(scaled, lambda v: f"(CASE WHEN {v} > {-most} AND {v} < {most} THEN {v} END)")
    if target.scale == 0:
        return f"TRY_CAST({units} AS {type_name(target)})"
    step = f"CAST('0.{1:0{target.scale}}' AS DECIMAL({target.scale},{target.scale}))"
    return f"TRY_CAST(TRY_CAST({units} AS DECIMAL(38,0)) * {step} AS {type_name(target)})"
