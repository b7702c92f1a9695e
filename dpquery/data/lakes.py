"""Tables of Delta Lake and Iceberg as Arrow, each as it was at one version."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpquery.errors import CatalogError, extra

ICEBERG = "iceberg"


def is_delta(path: str) -> bool:
    """Whether a folder holds a Delta table, whose Parquet files are not all of its newest version."""
    return (Path(path) / "_delta_log").is_dir()


def is_iceberg(path: str) -> bool:
    """Whether a path is the metadata of an Iceberg table, or the folder of one."""
    return path.endswith(".metadata.json") or any((Path(path) / "metadata").glob("*.metadata.json"))


def delta_table(place: str, version: int | None) -> Any:
    """Returns a Delta table, of a version or of the newest."""
    return extra("deltalake", "delta", "a Delta table").DeltaTable(place, version=version)


def read_delta(table: Any, columns: Iterable[str]) -> pa.RecordBatchReader:
    """Returns those of the columns that a `deltalake.DeltaTable` has, as of its version."""
    data = table.to_pyarrow_dataset()
    return data.scanner(columns=[name for name in columns if name in data.schema.names]).to_reader()


def iceberg_table(place: str) -> Any:
    """Returns an Iceberg table: of `iceberg://CATALOG/NAMESPACE.TABLE`, where PyIceberg's own configuration says what
    CATALOG is, or of the path of its metadata."""
    scheme, is_address, rest = place.partition("://")
    if is_address and scheme == ICEBERG:
        catalog, _, name = rest.partition("/")
        known = extra("pyiceberg.catalog", ICEBERG, "an Iceberg table").load_catalog(catalog)
        try:
            return known.load_table(name)
        finally:  # its connections end; a table that needs one again opens it
            getattr(known, "close", lambda: None)()  # pyiceberg 0.9 has none; until the lowest version has
    if not place.endswith(".metadata.json"):
        raise CatalogError("it is the folder of an Iceberg table; name one of its files metadata/*.metadata.json")
    return extra("pyiceberg.table", ICEBERG, "an Iceberg table").StaticTable.from_metadata(place)


def read_iceberg(table: Any, snapshot: int | None, columns: Iterable[str]) -> pa.RecordBatchReader:
    """Returns those of the columns that a `pyiceberg.table.Table` has, of a snapshot or of its current one."""
    scan = table.scan(snapshot_id=snapshot)
    there = {field.name for field in scan.projection().fields}
    names = tuple(name for name in columns if name in there)
    return table.scan(snapshot_id=snapshot, selected_fields=names).to_arrow_batch_reader()
