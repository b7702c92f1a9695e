"""Stored columns read as declared, in DuckDB's SQL: total, and NULL where a value does not fit.

NaN is NULL, -0.0 is 0.0, dates and timestamps outside the years 1 to 9999 are NULL, zoned timestamps are read in UTC.
"""

from __future__ import annotations

from dpquery.backends.sql_expressions import lower
from dpquery.plan.expr import Cast, Column
from dpquery.plan.types import FLOAT64, TEXT, Kind, Type

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_WIDE = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
_EXACT = "9007199254740992"  # 2^53: from here on a float may stand for several integers
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
_ZONED = frozenset({"TIMESTAMP WITH TIME ZONE"})
_NANOSECONDS = frozenset({"TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"})


def read(stored: str, declared: Type, column: str) -> str | None:
    """Returns SQL that reads a stored column as declared, or None if its stored type cannot be.

    Args:
        stored: DuckDB's name of the stored type.
        declared: The declared type.
        column: The column's reference in SQL.
    """
    base = stored.split("(")[0].strip('"').upper()
    if base in ("VARCHAR", "ENUM", "NULL"):  # NULL: a column without any value
        text = column if base == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if declared == TEXT:
            return text
        return _cast(TEXT, declared, text)
    match declared.kind:
        case Kind.BOOLEAN:
            if base in _INTEGERS:
                return f"CASE {column} WHEN 0 THEN FALSE WHEN 1 THEN TRUE END"
            return column if base == "BOOLEAN" else None
        case Kind.INT64:
            return _integer(base, column)
        case Kind.FLOAT64:
            return _float(base, column)
        case Kind.DECIMAL:
            if base in _FLOATS:
                return _cast(FLOAT64, declared, _float(base, column))
            if base in _INTEGERS | _WIDE | {"DECIMAL"}:
                return f"TRY_CAST({column} AS DECIMAL({declared.precision}, {declared.scale}))"
            return None
        case Kind.TEXT:
            return f"CAST({column} AS VARCHAR)" if base in _INTEGERS | _WIDE | {"UUID", "BOOLEAN", "DATE"} else None
        case Kind.DATE | Kind.TIMESTAMP:
            return _moment(base, declared, column)


def _cast(given: Type, declared: Type, sql: str | None) -> str:
    """Returns a cast of the expression language, applied to SQL that reads a value of the given type."""
    cast = Cast(argument=Column(id="stored", type=given), type=declared)
    return lower(cast, names=lambda _: f"({sql})")


def _integer(base: str, column: str) -> str | None:
    if base == "BIGINT":
        return column
    if base in _INTEGERS:
        return f"CAST({column} AS BIGINT)"
    if base in _WIDE:
        return f"TRY_CAST({column} AS BIGINT)"
    if base in _FLOATS:
        whole = f"{column} = trunc({column}) AND abs({column}) < {_EXACT}"
        return f"TRY_CAST(CASE WHEN {whole} THEN {column} END AS BIGINT)"
    if base == "DECIMAL":
        return f"TRY_CAST(CASE WHEN {column} = trunc({column}) THEN {column} END AS BIGINT)"
    return None


def _float(base: str, column: str) -> str | None:
    if base in _FLOATS:
        wide = column if base == "DOUBLE" else f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN NOT isnan({wide}) THEN {wide} + 0.0::DOUBLE END"
    return f"CAST({column} AS DOUBLE)" if base in _INTEGERS | _WIDE | {"DECIMAL"} else None


def _moment(base: str, declared: Type, column: str) -> str | None:
    if base in _NANOSECONDS:  # the engine's cast would round, into the next day or year
        part = f"CASE WHEN epoch_ns({column}) % 1000 < 0 THEN 1 ELSE 0 END"
        column = f"make_timestamp(epoch_ns({column}) // 1000 - {part})"
    elif base in _ZONED:
        column = f"make_timestamp(epoch_us({column}))"
    elif base not in _TIMESTAMPS | {"DATE"}:
        return None
    name, last = ("DATE", "9999-12-31") if declared.kind is Kind.DATE else ("TIMESTAMP", "9999-12-31 23:59:59.999999")
    cast = column if base == name else f"TRY_CAST({column} AS {name})"
    return f"CASE WHEN {cast} BETWEEN {name} '0001-01-01' AND {name} '{last}' THEN {cast} END"
