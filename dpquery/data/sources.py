"""Where tables come from: frames, Arrow, files and DuckDB files, as something that DuckDB scans in place.

Messages name tables, columns and files, never a value.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.feather as feather

from dpquery.catalog.names import quoted
from dpquery.data.arrow import arrow_type, is_dataset, is_frame
from dpquery.data.csv_lines import read_csv
from dpquery.data.encrypted_files import EncryptionKey
from dpquery.data.engine_readable import coded, readable
from dpquery.data.prepared import PreparedTable
from dpquery.data.remote_sources import RemoteReading, kind_of
from dpquery.errors import CatalogError
from dpquery.plan.types import Type

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as pads

SEALED = "sealed://"
"""What addresses of sealed files begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table's data.

    Attributes:
        name: Under which the engine knows it; given by the backend.
        data: An Arrow table or dataset to be registered, or None where SQL reads files.
        scan: SQL to read from, where there is no `data`; of an attached database, behind its alias and a dot.
        files: The files that the engine may open for it.
        database: A DuckDB file to attach, or None.
        prepared: What a prepared folder says of it, where it is from one: its values are as declared already.
        is_own: Whether `data` were read for this source, so that no other code has their memory.
        key: The key of its files, where these are sealed.
    """

    name: str = ""
    data: Any = None
    scan: str = ""
    files: tuple[str, ...] = ()
    database: str | None = None
    prepared: PreparedTable | None = None
    is_own: bool = False
    key: EncryptionKey | None = None


def open_source(
    table: str,
    source: object,
    columns: Mapping[str, Type],
    zones: Mapping[str, str] | None = None,
    reading: RemoteReading | None = None,
) -> Source:
    """Returns the data of a declared table.

    Args:
        table: Its name, for messages.
        source: A pandas or polars frame, an Arrow table, dataset or reader, a path or an address, a table of Delta Lake
            or Iceberg, or a table of a prepared folder.
        columns: The stored columns that are needed, with their declared types; a frame's others are left alone.
        zones: The declared zones of those that have one, for moments among a frame's objects.
        reading: What reads data elsewhere, one for all sources that are opened together.
    Raises:
        CatalogError: The source is missing, of an unknown kind, or cannot be opened.
    """
    if reading is not None and (found := reading.read(table, source, list(columns))) is not None:
        if isinstance(found, str):
            return Source(scan=parquet_scan([found], reading.key), files=(found,), key=reading.key)
        return Source(data=found, is_own=True)
    if is_frame(source):
        return Source(data=coded(readable(table, _of_pandas(table, source, columns, zones or {}))))
    if isinstance(source, pa.Table):
        kept = source.select([name for name in columns if name in source.column_names])
        if not kept.column_names:
            raise CatalogError(f"table {table} has none of its declared columns")
        return Source(data=coded(readable(table, kept)))
    if is_dataset(source):
        return Source(data=_of_dataset(table, source, columns))
    if type(source).__module__.split(".")[0] == "polars":
        frame: Any = source
        return open_source(table, (frame.collect() if hasattr(frame, "collect") else frame).to_arrow(), columns)
    if isinstance(source, PreparedTable):
        scan = prepared_scan(source, source.files)
        return Source(scan=scan, files=source.files, prepared=source, key=source.key)
    if isinstance(source, str | os.PathLike):
        return _of_path(table, os.fspath(source), columns)
    kinds = "a DataFrame, an Arrow table or dataset, a path, or an address"
    raise CatalogError(f"the source of table {table} is a {type(source).__name__}; give {kinds}")


def _of_dataset(table: str, source: pads.Dataset, columns: Mapping[str, Type]) -> pads.Dataset:
    """Returns a dataset whose types are stored with it; others infer them from values, one row from others."""
    import pyarrow.dataset as pads

    stored = pads.ParquetFileFormat | pads.IpcFileFormat
    if not (isinstance(source, pads.FileSystemDataset) and isinstance(source.format, stored)):
        raise CatalogError(f"the source of table {table} is a dataset, and not of Parquet or Arrow files")
    for batch in source.to_batches(columns=[name for name in columns if name in source.schema.names]):
        readable(table, pa.Table.from_batches([batch]))
    return source


def _of_pandas(table: str, frame: pd.DataFrame, columns: Mapping[str, Type], zones: Mapping[str, str]) -> pa.Table:
    """Returns the needed columns as Arrow; numeric columns without NULL are not copied."""
    import pandas as pd

    if isinstance(frame.columns, pd.MultiIndex):
        raise CatalogError(f"table {table} has several levels of column names; flatten them first")
    if not frame.columns.is_unique:
        raise CatalogError(f"table {table} has two columns of the same name")
    present = [name for name in columns if name in frame.columns]
    if not present:
        raise CatalogError(f"table {table} has none of its declared columns")
    return pa.table({n: _of_series(table, n, frame[n], columns[n], zones.get(n, "")) for n in present})


def _of_series(table: str, name: str, series: pd.Series[Any], type: Type, zone: str) -> Any:
    """Returns a column as Arrow. Objects are read one by one, so that no value changes how another is read."""
    from dpquery.data.values import read

    array = None
    if series.dtype != object:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            array = pa.Array.from_pandas(series)
    if array is None or pa.types.is_decimal256(array.type):
        array = pa.array([read(value, type, zone) for value in series], type=arrow_type(type))
    if pa.types.is_nested(array.type):
        raise CatalogError(f"column {name} of table {table} holds lists or structures")
    return array


def _of_path(table: str, path: str, columns: Mapping[str, Type]) -> Source:
    if "\0" in path:
        raise CatalogError(f"the source of table {table} is not a path: it contains a NUL character")
    files = files_of(path)
    if not files or not all(os.path.isfile(name) for name in files):
        reason = "is a folder without Parquet files" if os.path.isdir(path) else "does not exist"
        raise CatalogError(f"the source of table {table} {reason}: {path}")
    if not all(os.access(name, os.R_OK) for name in files):
        raise CatalogError(f"the source of table {table} cannot be read: {path}")
    match kind_of(files):
        case "parquet":
            return Source(scan=parquet_scan(files), files=tuple(files))
        case "csv":
            return open_source(table, read_csv(table, files, columns), columns)
        case "feather":
            return open_source(table, _read_feather(table, files), columns)
        case "duckdb":
            return Source(scan=quoted(table), database=files[0])
    raise CatalogError(f"the source of table {table} has the unknown ending {Path(files[0]).suffix!r}: {path}")


def files_of(path: str) -> list[str]:
    """Returns the files that a path, a folder or a glob means, whether or not they are there."""
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) and not os.path.exists(path) else [path]
    return [os.path.realpath(name) for part in found for name in _files(part)]


def _files(path: str) -> list[str]:
    """Returns the file itself, or the Parquet files in a folder and its folders."""
    if not os.path.isdir(path):
        return [path]
    return sorted(str(file) for file in Path(path).rglob("*.parquet") if not file.name.startswith((".", "_")))


def _read_feather(table: str, files: list[str]) -> pa.Table:
    tables: list[pa.Table] = []
    with contextlib.suppress(pa.ArrowException, OSError):
        tables = [feather.read_table(name, memory_map=True) for name in files]
    if not tables:
        raise CatalogError(f"the source of table {table} is not a Feather file")
    return pa.concat_tables(tables)


def parquet_scan(files: Iterable[str], key: EncryptionKey | None = None, *, about: int | None = None) -> str:
    """Returns SQL that reads Parquet files as one table; sealed ones, where there is a key.

    Args:
        about: How many rows the engine supposes, by which it orders joins. By itself it takes each file to be as long
            as the first.
    """
    supposed = "" if about is None else f", explicit_cardinality = {about}"
    return f"read_parquet([{', '.join(quote(address(file, key)) for file in files)}]{supposed})"


def prepared_scan(table: PreparedTable, files: Iterable[str]) -> str:
    """Returns SQL that reads some files of a prepared table as one.

    Privacy:
        The engine is told the next power of two above their rows, so that one row hardly ever decides about the order
        of joins; docs/proofs/work.md, Lemma 5.
    """
    read = tuple(files)
    return parquet_scan(read, table.key, about=1 << sum(table.rows[file] for file in read).bit_length())


def address(path: str | os.PathLike[str], key: EncryptionKey | None) -> str:
    """Returns what an engine calls a file: its path, or of a sealed one an address that only works with the key."""
    return f"{'' if key is None else SEALED}{os.fspath(path)}"


def quote(text: str) -> str:
    """Returns a text as a literal of DuckDB's SQL, which knows no escapes."""
    return "'" + text.replace("'", "''") + "'"
