"""Schemas of files: names and types of columns, read without looking at values."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

from dpquery.backends.duckdb.sql.reading import is_zoned
from dpquery.errors import CatalogError
from dpquery.plan.zones import UTC

_KINDS = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "int64"),
    (pa.types.is_floating, "float64"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
)
_STORED = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), "int64"),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), "int64"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float64"),
    **dict.fromkeys(("VARCHAR", "UUID", "ENUM"), "text"),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S"),
        "timestamp",
    ),
    "BOOLEAN": "boolean",
    "DATE": "date",
}

OTHER_SIGNS = {";": "delim=';', decimal_separator=',', thousands='.'", "\t": "delim='\\t'", "|": "delim='|'"}
"""Between names in headers of files that are not of commas, and how DuckDB reads them."""
Columns = tuple[tuple[str, str | None, str], ...]
"""(name, type as catalogs write it, or None for a type that cannot be declared, time zone of instants or "")."""


def schemas_of(path: str) -> dict[str, Columns]:
    """Returns the tables of a file and their columns; columns without a type in the file, as in CSV, are text.

    Args:
        path: A Parquet, Feather, CSV or DuckDB file, or a folder of Parquet files.
    Raises:
        CatalogError: There is no such file, or it is of another kind.
    """
    file = Path(path)
    if file.is_dir():
        files = sorted(found for found in file.rglob("*.parquet") if not found.name.startswith((".", "_")))
        if not files:
            raise CatalogError(f"{path} contains no Parquet file")
        return {file.name: _of_arrow(_parquet(files[0]))}
    if not file.is_file():
        raise CatalogError(f"there is no file {path}")
    match file.suffix.lower():
        case ".parquet" | ".pq":
            return {file.stem: _of_arrow(_parquet(file))}
        case ".feather" | ".arrow":
            return {file.stem: _of_arrow(_feather(file))}
        case ".csv" | ".tsv":
            return {file.stem: _header(file)}
        case ".duckdb" | ".db" | ".ddb":
            return dict(_of_database(file))
        case suffix:
            raise CatalogError(f"{path} has the unknown ending {suffix!r}")


def _parquet(file: Path) -> pa.Schema:
    try:
        return parquet.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise CatalogError(f"{file} is not a Parquet file") from error


def _feather(file: Path) -> pa.Schema:
    try:
        with pa.memory_map(str(file)) as mapped:
            return pa.ipc.open_file(mapped).schema
    except (pa.ArrowException, OSError) as error:
        raise CatalogError(f"{file} is not a Feather file") from error


def _of_arrow(schema: pa.Schema) -> Columns:
    return tuple((field.name, _arrow_kind(field.type), _arrow_zone(field.type)) for field in schema)


def _arrow_zone(type: pa.DataType) -> str:
    """Returns the zone of a timestamp; files of Parquet keep none but UTC for all instants."""
    if pa.types.is_dictionary(type):
        return _arrow_zone(type.value_type)
    return str(type.tz or "") if pa.types.is_timestamp(type) else ""


def _arrow_kind(type: pa.DataType) -> str | None:
    if pa.types.is_dictionary(type):
        return _arrow_kind(type.value_type)
    if pa.types.is_decimal(type):
        return _decimal(type.precision, type.scale)
    return next((kind for belongs, kind in _KINDS if belongs(type)), None)


def _decimal(precision: int, scale: int) -> str | None:
    return f"decimal({precision},{scale})" if 1 <= precision <= 38 and 0 <= scale <= precision else None


def _written_anew(file: Path, options: str) -> str:
    to = file.with_suffix(".parquet")
    return f"Write it anew, as DuckDB does: COPY (FROM read_csv('{file}', {options})) TO '{to}'"


def _header(file: Path) -> Columns:
    """Returns the names in the first line, which are all that is read; types are not guessed from values."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ","), [])
    except (UnicodeDecodeError, csv.Error) as error:
        advice = _written_anew(file, "encoding='latin-1'")
        raise CatalogError(f"{file} is not a CSV file in UTF-8. {advice}") from error
    if not names:
        raise CatalogError(f"{file} has no header")
    if len(names) == 1 and (options := next((OTHER_SIGNS[sign] for sign in OTHER_SIGNS if sign in names[0]), None)):
        advice = _written_anew(file, options)
        raise CatalogError(f"{file} has no comma in its header, and CSV files are read with commas. {advice}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CatalogError(f"{file} has several columns called {', '.join(map(repr, twice))}")
    return tuple((name, "text", "") for name in names)


def _of_database(file: Path) -> list[tuple[str, Columns]]:
    try:
        with duckdb.connect(str(file), read_only=True, config={"enable_external_access": "false"}) as connection:
            found = connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
                "ORDER BY table_name, column_index"
            ).fetchall()
    except duckdb.Error as error:
        raise CatalogError(f"{file} is not a DuckDB file, or is in use") from error
    tables: dict[str, list[tuple[str, str | None, str]]] = {}
    for table, column, stored in found:
        tables.setdefault(table, []).append((column, _stored_kind(stored), UTC if is_zoned(stored) else ""))
    return [(table, tuple(columns)) for table, columns in tables.items()]


def _stored_kind(stored: str) -> str | None:
    base, _, sizes = stored.partition("(")
    if base == "DECIMAL":
        precision, scale = (int(size) for size in sizes.rstrip(")").split(","))
        return _decimal(precision, scale)
    return _STORED.get(base) if not stored.endswith("]") else None
