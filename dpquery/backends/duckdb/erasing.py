"""Prepared data without one privacy unit: files that hold rows of it are written anew, and all others are linked."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb

from dpquery.backends.duckdb.earlier_preparation import link
from dpquery.backends.duckdb.engine import DuckDBEngine
from dpquery.backends.duckdb.preparing import Written
from dpquery.backends.duckdb.shard_files import copied, kept, order_of, owner_of, sorted_by
from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.resources import Resources
from dpquery.catalog import Catalog, Table
from dpquery.data.encrypted_files import EncryptionKey
from dpquery.data.prepared import File, Manifest, labels
from dpquery.data.sources import Source, parquet_scan, quote
from dpquery.errors import BackendError, CatalogError


def written_without(
    unit: str,
    catalog: Catalog,
    manifest: Manifest,
    place: Path,
    into: Path,
    resources: Resources,
    key: EncryptionKey | None,
) -> Written:
    """Returns the files of all tables after writing or linking them; of the unit they have no row.

    T counts the rows of one unit, and no other unit's rows are touched, so what is written of these stays true.

    Args:
        unit: Its value, as the text that the engine makes of it.
        manifest: Of the preparation whose files were checked.
        place: The prepared folder.
        into: The empty folder of the new preparation.
        key: With which files are sealed, if they are.
    Raises:
        CatalogError: No row belongs to the unit, or the engine could not write the files.
    """
    before, found = place / manifest.made, False
    paths = tuple(str(before / file.name) for files in manifest.tables.values() for shard in files for file in shard)
    source = Source(name="prepared", scan=parquet_scan(paths, key), files=paths, key=key)
    memory = resources.settings(1)
    engine = DuckDBEngine(
        {"prepared": source}, keep_order=False, memory=memory, spill=resources.folder(), writes=str(into), key=key
    )
    made: Written = {}
    try:
        _check_unit(engine, catalog, unit)
        for name, files in manifest.tables.items():
            table, shards = catalog.tables[name], list[tuple[File, ...]]()
            for shard, parts in enumerate(files):
                places = [before / file.name for file in parts]
                held = [table.ownership is not None and _holds(engine, table, path, unit, key) for path in places]
                found = found or any(held)
                pairs = zip(parts, held, strict=True)
                shards.append(
                    tuple(_without(engine, table, f, before, into, unit, shard, key) if h else f for f, h in pairs)
                )
            made[name] = tuple(shards)
    except duckdb.Error as error:
        reason = type(error).__name__  # its words may quote data
    else:
        reason = "" if found else "no row belongs to this unit"
    finally:
        engine.close()
    if reason:
        raise CatalogError(f"nothing was erased: {reason}")
    for file in (file for files in made.values() for shard in files for file in shard if file.made != into.name):
        link(before / file.name, into / file.name)
    return made


def _check_unit(engine: DuckDBEngine, catalog: Catalog, unit: str) -> None:
    """Raises `CatalogError` unless the string is a value of the unit's type: 17.6 as int64 would be the unit 18."""
    for table in catalog.tables.values():
        if table.ownership is None:
            continue
        read = f"SELECT TRY_CAST({quote(unit)} AS {type_name(table.ownership.type)})"
        [[value]] = engine.cursor().execute(read).fetchall()
        if value is None or (isinstance(value, int | Decimal) and Decimal(unit) != value):
            raise CatalogError(f"nothing was erased: the unit is not a valid {table.ownership.type} value")


def _is_unit(table: Table, unit: str) -> str:
    """Returns SQL for whether a row belongs to a unit: as texts, so that no other one is met by rounding."""
    return f"CAST({owner_of(table)} AS VARCHAR) = {quote(unit)}"


def _holds(engine: DuckDBEngine, table: Table, file: Path, unit: str, key: EncryptionKey | None) -> bool:
    rows = f"SELECT 1 FROM {parquet_scan([str(file)], key)} WHERE {_is_unit(table, unit)}"
    return bool(engine.cursor().execute(f"{rows} LIMIT 1").fetchall())


def _without(
    engine: DuckDBEngine,
    table: Table,
    file: File,
    before: Path,
    into: Path,
    unit: str,
    shard: int,
    key: EncryptionKey | None,
) -> File:
    """Returns a file after writing it without the rows of a unit."""
    others = f"FROM {parquet_scan([str(before / file.name)], key)} WHERE NOT ({_is_unit(table, unit)})"
    said, cursor = labels(into.name, table.name, shard, file.cell), engine.cursor()
    cursor.execute(copied(f"SELECT * {others}{sorted_by(*order_of(table))}", into / file.name, said, key))
    written = parquet_scan([str(into / file.name)], key)
    counts = f"SELECT (SELECT COUNT(*) {others}) = (SELECT COUNT(*) FROM {written})"
    if cursor.execute(counts).fetchall() != [(True,)]:
        raise BackendError("the prepared data failed their check after writing; nothing was kept")
    return kept(into / file.name, file.cell)
