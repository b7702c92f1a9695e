"""Data that lie elsewhere, or have versions, are read once, when they are opened, and not again.

So no later change of them reaches a query, and no failure of a network or a server comes after a charge. Messages tell
of a source what `addresses.shown` lets through, and nothing in the words of a driver.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.fs as fs
import pyarrow.parquet as parquet

from dpquery.data import lakes, postgres, stores
from dpquery.data.addresses import DATABASES, of_version, path_of, scheme_of, shown
from dpquery.data.arrow import is_dataset_of_files
from dpquery.data.csv_lines import read_csv
from dpquery.data.encrypted_files import EncryptionKey, create
from dpquery.data.engine_readable import coded, readable
from dpquery.errors import CatalogError, DPQueryError

KINDS = (*DATABASES, *stores.STORES, *stores.WEB, lakes.ICEBERG)
"""Kinds of addresses that are known."""


class RemoteReading:
    """Reads what lies elsewhere for one opening of a catalog's sources; tables of one database come from one snapshot.

    Args:
        into: A folder for copies as Parquet files; without one they are kept in memory.
        key: With which copies are sealed, if that is given.
    """

    def __init__(self, into: Path | None = None, key: EncryptionKey | None = None) -> None:
        self._into, self.key = into, key
        self._databases: dict[str, postgres.DatabaseSnapshot] = {}

    def __enter__(self) -> RemoteReading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for database in self._databases.values():
            database.close()

    def read(self, table: str, source: object, columns: Sequence[str]) -> pa.Table | str | None:
        """Returns the needed columns in memory, or the path of a copy; None of data that lie here and have no versions.

        Args:
            table: The declared table.
            source: What was given for it.
            columns: The needed columns; those that are not there are left out.
        Raises:
            CatalogError: It cannot be read.
        """
        problem = ""
        try:
            batches = self._batches(table, source, columns)
            if batches is None:
                return None
            if not batches.schema.names:
                raise CatalogError(f"table {table} has none of its declared columns")
            return self._copied(table, batches) if self._into else coded(readable(table, batches.read_all()))
        except CatalogError as error:
            problem = error.problems[0]
        except DPQueryError as error:
            problem = str(error)
        except Exception as error:  # of drivers, whose words may hold credentials or values
            problem = (postgres if scheme_of(source) in DATABASES else stores).reason(error)
        raise CatalogError(f"the source of table {table}, {_shown(source)}, cannot be read: {problem}")

    def _batches(self, table: str, source: object, columns: Sequence[str]) -> pa.RecordBatchReader | None:
        scheme, path = scheme_of(source), path_of(source)
        if scheme in DATABASES:
            place, _, name = str(source).partition("#")
            if place not in self._databases:
                self._databases[place] = postgres.DatabaseSnapshot(place)
            return self._databases[place].read(name or table.replace("%", "%25").replace(".", "%2E"), columns)
        if scheme == lakes.ICEBERG or (path and lakes.is_iceberg(of_version(path)[0])):
            place, version = of_version(path or str(source))
            return lakes.read_iceberg(lakes.iceberg_table(place), version, columns)
        if scheme in stores.STORES or scheme in stores.WEB:
            return self._stored(table, str(source), columns)
        if scheme:
            raise CatalogError(f"addresses begin with {', '.join(f'{kind}://' for kind in KINDS)}")
        place, version = (path, None) if os.path.exists(path) else of_version(path)
        if path and lakes.is_delta(place):
            return lakes.read_delta(lakes.delta_table(place, version), columns)
        return _of_object(source, columns)

    def _stored(self, table: str, address: str, columns: Sequence[str]) -> pa.RecordBatchReader:
        place, version = of_version(address)
        store = None if version is not None else stores.ObjectStore(address)
        if store is None or store.is_delta:
            return lakes.read_delta(lakes.delta_table(place, version), columns)
        if not store.files:
            raise CatalogError("it does not exist, or is a folder without Parquet files")
        kind = kind_of([file.path for file in store.files])
        openers = {file.path: file.open for file in store.files}
        if kind == "csv":
            whole = read_csv(table, openers, columns, lambda path: io.BytesIO(openers[path]().read()))
        elif kind == "feather":
            whole = pa.concat_tables(feather.read_table(opener()) for opener in openers.values())
            whole = whole.select([name for name in columns if name in whole.column_names])
        elif kind == "parquet":
            return _checked(_of_parquet(openers.values(), columns), store.check)
        else:
            raise CatalogError("it has an unknown ending")
        store.check()
        return whole.to_reader()

    def _copied(self, table: str, batches: pa.RecordBatchReader) -> str:
        assert self._into is not None
        path = self._into / f"{len(list(self._into.iterdir()))}.parquet"
        writer = None
        with create(path, self.key) as file:
            for batch in batches:
                made = readable(table, pa.Table.from_batches([batch]))
                writer = writer or parquet.ParquetWriter(file, made.schema)
                writer.write_table(made)
            if writer is None:
                parquet.write_table(readable(table, batches.schema.empty_table()), file)
            else:
                writer.close()
        return str(path)


def kind_of(paths: Iterable[str]) -> str:
    """Returns what files are by their endings: "parquet", "csv", "feather", "duckdb", or "" where unknown.

    Raises:
        CatalogError: They are of several kinds.
    """
    found = {_KINDS.get(Path(path.lower().removesuffix(".gz")).suffix, "") for path in paths}
    packed = {path.lower().endswith(".gz") for path in paths}
    if len(found) > 1:
        raise CatalogError("its files are of several kinds")
    return "" if True in packed and found != {"csv"} else found.pop()


_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".feather", ".arrow"), "feather"),
    **dict.fromkeys((".duckdb", ".db", ".ddb"), "duckdb"),
}


def _of_object(source: object, columns: Sequence[str]) -> pa.RecordBatchReader | None:
    """Returns the columns of what holds a table elsewhere or of a version, None of other sources."""
    data: Any = source
    match type(source).__module__.split(".")[0]:
        case "deltalake":
            return lakes.read_delta(data, columns)
        case "pyiceberg":
            return lakes.read_iceberg(data, None, columns)
    if is_dataset_of_files(source) and not isinstance(source.filesystem, fs.LocalFileSystem):
        return data.scanner(columns=[name for name in columns if name in source.schema.names]).to_reader()
    if isinstance(source, pa.RecordBatchReader):
        names = [name for name in columns if name in source.schema.names]
        schema = pa.schema([source.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in source))
    return None


def _of_parquet(openers: Iterable[Callable[[], Any]], columns: Sequence[str]) -> pa.RecordBatchReader:
    """Returns the columns of Parquet files one after the other; all have the same types."""
    files = [parquet.ParquetFile(opener()) for opener in openers]
    types = [{field.name: field.type for field in file.schema_arrow if field.name in columns} for file in files]
    if any(other != types[0] for other in types):
        raise CatalogError("its files have different columns")
    schema, names = pa.schema(types[0]), list(types[0])
    batches = (b.select(names).cast(schema) for file in files for b in file.iter_batches(columns=names))
    return pa.RecordBatchReader.from_batches(schema, batches)


def _checked(batches: pa.RecordBatchReader, check: Callable[[], None]) -> pa.RecordBatchReader:
    """Returns the batches, and checks after the last one."""

    def each() -> Iterator[pa.RecordBatch]:
        yield from batches
        check()

    return pa.RecordBatchReader.from_batches(batches.schema, each())


def _shown(source: object) -> str:
    if scheme_of(source):
        return shown(str(source))
    return path_of(source) or f"a {type(source).__name__}"
