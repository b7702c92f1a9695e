"""CSV files, one line one row: what a line holds never changes how another is read.

Engines that guess a file's form, or let a quoted value span lines, read one person's row by the rows of others. Here
the form is fixed: UTF-8, a header, commas (tabs in .tsv), double quotes doubled inside quotes. A line with another
number of fields gives a row of NULLs; an empty field is NULL. A file with a value that spans lines is refused.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from dpquery.errors import CatalogError

BATCH = 100_000


def read_csv(table: str, files: Iterable[str], columns: Iterable[str]) -> pa.Table:
    """Returns the needed columns of CSV files as texts.

    Args:
        table: For messages.
        files: Read one after the other; each has a header.
        columns: The needed columns; those that a header lacks are left out.
    Raises:
        CatalogError: A file without a header of different names, with a value that spans lines, or files that differ.
    """
    parts = [_read_file(table, file, list(columns)) for file in files]
    if len({tuple(part.column_names) for part in parts}) > 1:
        raise CatalogError(f"the files of table {table} have different columns")
    return pa.concat_tables(parts)


def _read_file(table: str, file: str, columns: list[str]) -> pa.Table:
    delimiter = "\t" if Path(file).suffix.lower() == ".tsv" else ","
    with Path(file).open("rb") as lines:
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
