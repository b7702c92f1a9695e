"""CSV files, one line one row: what a line holds never changes how another is read.

Engines that guess a file's form, or let a quoted value span lines, read one person's row by the rows of others. Here
the form is fixed: UTF-8, a header, commas (tabs in .tsv), double quotes doubled inside quotes. A line with another
number of fields gives a row of NULLs; an empty field is NULL. A file with a value that spans lines is refused.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpquery.errors import CatalogError

BATCH = 100_000


def read_csv(
    table: str, files: Iterable[str], columns: Iterable[str], opened: Callable[[str], Any] | None = None
) -> pa.Table:
    """Returns the needed columns of CSV files as texts.

    Args:
        table: For messages.
        files: Read one after the other; each has a header, and is unpacked if its name ends in .gz.
        columns: The needed columns; those that a header lacks are left out.
        opened: Opens a file as bytes, where it is not one of this machine.
    Raises:
        CatalogError: A file without a header of different names, with a value that spans lines, or that cannot be
            unpacked; or files that differ.
    """
    parts, needed, is_whole = [], list(columns), False
    with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error):
        for file in files:
            with (opened or _open)(file) as stored:
                name = file.lower()
                lines = gzip.GzipFile(fileobj=stored) if name.endswith(".gz") else stored
                delimiter = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
                parts.append(_read_lines(table, lines, delimiter, needed))
        is_whole = True
    if not is_whole:
        raise CatalogError(f"a file of table {table} cannot be unpacked, or is not whole")
    if len({tuple(part.column_names) for part in parts}) > 1:
        raise CatalogError(f"the files of table {table} have different columns")
    return pa.concat_tables(parts)


def _open(file: str) -> Any:
    return Path(file).open("rb")


def _read_lines(table: str, lines: Iterator[bytes], delimiter: str, columns: list[str]) -> pa.Table:
    header = _fields(next(lines, b"").removeprefix(b"\xef\xbb\xbf"), delimiter, table)
    if not header or len(set(header)) != len(header):
        raise CatalogError(f"a CSV file of table {table} has no header with distinct names")
    places = {name: header.index(name) for name in columns if name in header}
    batches, rows = [], []
    for line in lines:
        fields = _fields(line, delimiter, table)
        rows.append(fields if len(fields) == len(header) else [""] * len(header))
        if len(rows) == BATCH:
            batches.append(_batch(rows, places))
            rows = []
    return pa.Table.from_batches([*batches, _batch(rows, places)])


def _fields(line: bytes, delimiter: str, table: str) -> list[str]:
    """Returns the fields of one line; a quote that stays open is refused, as its value would go on in other rows."""
    text = line.decode("utf-8", errors="replace").rstrip("\r\n")
    if '"' not in text:
        return text.split(delimiter)
    fields: list[str] | None = None
    with contextlib.suppress(csv.Error):
        fields = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    if fields is None:
        raise CatalogError(f"a CSV file of table {table} has a line with quotes that do not close; use Parquet")
    return fields


def _batch(rows: list[list[str]], places: dict[str, int]) -> pa.RecordBatch:
    made = {name: pa.array([row[i] or None for row in rows], type=pa.string()) for name, i in places.items()}
    return pa.record_batch(made)
