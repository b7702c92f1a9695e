"""Stored columns read as declared, in DuckDB's SQL: total, and NULL where a value does not fit.

NaN is NULL, -0.0 is 0.0, dates and timestamps outside the years 1 to 9999 are NULL. Zoned timestamps are read as the
wall clock of the zone that the catalog declares for their column, and not at all without one.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.backends.duckdb.sql.zones import local_microseconds
from dpquery.plan.expr import Cast, Column
from dpquery.plan.types import FLOAT64, TEXT, Kind, Type

_LONGEST = 1_000
"""Bytes of a text that may be read as a number, truth value or date: none of them has as many."""
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_WIDE = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
_EXACT = "9007199254740992"  # 2^53: from here on a float may stand for several integers
SHORT = frozenset({*_INTEGERS, *_WIDE, "UUID", "BOOLEAN", "DATE"})
"""Stored types whose values are short as texts."""
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
_ZONED_NANOSECONDS = frozenset({"TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"})
_ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", *_ZONED_NANOSECONDS})
_NANOSECONDS = frozenset({"TIMESTAMP_NS", *_ZONED_NANOSECONDS})


def read(stored: str, declared: Type, column: str, zone: str = "") -> str | None:
    """Returns SQL that reads a stored column as declared, or None if its stored type cannot be.

    Args:
        stored: DuckDB's name of the stored type.
        declared: The declared type.
        column: The column's reference in SQL.
        zone: The declared zone of a date or timestamp, if it has one.
    """
    base = _base(stored)
    if base in ("VARCHAR", "ENUM", "NULL"):  # NULL: a column without any value
        text = column if base == "VARCHAR" else f"CAST({column} AS VARCHAR)"
        if declared == TEXT:
            return text
        return _cast(TEXT, declared, f"CASE WHEN strlen({text}) <= {_LONGEST} THEN {text} END")
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
            return _moment(base, declared, column, zone)
        case Kind.INTERVAL:
            return None


def is_zoned(stored: str) -> bool:
    """Whether a stored type, by DuckDB's name, has instants."""
    return _base(stored) in _ZONED


def without_zone(table: str, column: str, type: Type) -> str:
    """Returns what to do about a column of instants for which no zone is declared."""
    return (
        f"column {column} of table {table} contains instants, but the catalog does not say in which time zone to "
        f"read them; declare {column}: {{type: {type}, zone: UTC}}, or the local zone, such as Europe/Berlin"
    )


def _base(stored: str) -> str:
    return stored.split("(")[0].strip('"').upper()


def limited(sql: str, most: int, *, is_whole: bool) -> str:
    """Returns SQL for the first `most` characters of a text; or for NULL in place of a longer one, if it counts whole.

    Args:
        sql: Reads a text.
    """
    if is_whole:
        return f"CASE WHEN strlen({sql}) <= {most} OR length({sql}) <= {most} THEN {sql} END"
    return f"CASE WHEN strlen({sql}) <= {most} THEN {sql} ELSE left({sql}, {most}) END"


def together(parts: Sequence[str]) -> str:
    """Returns SQL for several values as one text: each as a text behind its number of bytes and a colon, so that
    different values are different texts; NULL where one of them is NULL."""
    texts = [f"CAST({part} AS VARCHAR)" for part in parts]
    return "(" + " || ".join(f"CAST(strlen({text}) AS VARCHAR) || ':' || {text}" for text in texts) + ")"


def most_equal(table: str, columns: list[str]) -> str:
    """Returns a query for the most rows of a table that agree in columns, of which none is NULL; without columns for
    the number of all rows."""
    if not columns:
        return f"SELECT COUNT(*) FROM {table}"
    names = [f"k{i}" for i in range(len(columns))]
    read_columns = ", ".join(f"{sql} AS {k}" for sql, k in zip(columns, names, strict=True))
    present = " AND ".join(f"{k} IS NOT NULL" for k in names)
    counted = (
        f"SELECT COUNT(*) AS n FROM (SELECT {read_columns} FROM {table}) WHERE {present} GROUP BY {', '.join(names)}"
    )
    return f"SELECT COALESCE(MAX(n), 0) FROM ({counted})"


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


def _moment(base: str, declared: Type, column: str, zone: str) -> str | None:
    microseconds, exact = f"epoch_us({column})", ("", 1)
    # DuckDB 2.0 rounds, into the next day or year. Until
    # `SELECT CAST(TIMESTAMP_NS '2024-01-01 23:59:59.999999999' AS DATE)` is that day.
    if base in _NANOSECONDS:
        part = f"CASE WHEN epoch_ns({column}) % 1000 < 0 THEN 1 ELSE 0 END"
        microseconds, exact = f"(epoch_ns({column}) // 1000 - {part})", (f"epoch_ns({column})", 1000)
    if base in _ZONED:
        if not zone:
            return None
        local = f"make_timestamp({local_microseconds(microseconds, zone, *exact)})"
        return local if declared.kind is Kind.TIMESTAMP else f"CAST({local} AS DATE)"
    if base in _NANOSECONDS:
        column = f"make_timestamp({microseconds})"
    elif base not in _TIMESTAMPS | {"DATE"}:
        return None
    name, last = ("DATE", "9999-12-31") if declared.kind is Kind.DATE else ("TIMESTAMP", "9999-12-31 23:59:59.999999")
    cast = column if base == name else f"TRY_CAST({column} AS {name})"
    return f"CASE WHEN {cast} BETWEEN {name} '0001-01-01' AND {name} '{last}' THEN {cast} END"
