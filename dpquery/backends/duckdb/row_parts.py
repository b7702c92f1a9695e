"""Cuts rows into parts, each to be read as a table of its own, in memory that does not grow with them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpquery.backends.duckdb.shard_files import sorted_by
from dpquery.backends.resources import bytes_of
from dpquery.catalog.names import quoted
from dpquery.data.encrypted_files import EncryptionKey
from dpquery.data.sources import address, parquet_scan, quote
from dpquery.errors import CatalogError

Run = Callable[[str], list[tuple[Any, ...]]]
TOO_LARGE = "it takes more than the memory limit; set a higher one"
PART = " part"
"""The column that says to which part a row belongs."""
OF_A_MOMENT = "FORMAT parquet, COMPRESSION uncompressed, DICTIONARY_SIZE_LIMIT 4096"
"""How files are written that are read once: without what takes longer than to read them as they are, compression and
looking for equal values among many."""
PLACE = " place"
"""The column that numbers rows of a part."""
PIECES = 8
"""The engine keeps rows that it cuts until a part has half a million of them, and others that arrive while it writes
(https://github.com/duckdb/duckdb/pull/22505, /23037, https://github.com/duckdb/duckdb/issues/25920). So it is given no
more at once than one part in so many of its memory, unless all rows fit into twice that. Rows that fit into that once
are sorted in memory and not cut. Until it bounds what it keeps by bytes, and tests/backends/test_prepared_memory.py
passes without pieces."""
ROW_GROUP = 122_880
"""Rows of a group, at most: the engine's default."""
LEAST_ROWS = 2_048
"""What the number of rows in a group is a multiple of: the rows that the engine has in hand at once."""

WIDE = ("VARCHAR", "HUGEINT", "UHUGEINT", "UUID", "INTERVAL")
"""Types of which the engine keeps 16 bytes of each value, and the texts elsewhere; all others take at most 8."""


def in_order(rows: str, order: Sequence[str]) -> str:
    """Returns a SELECT of rows, given by one with PART, sorted."""
    return f"SELECT * EXCLUDE ({quoted(PART)}) FROM ({rows}){sorted_by(*order)}"


class Cutting:
    """How the rows of one table are cut.

    Args:
        run: Runs a statement in the engine that writes.
        rows: A SELECT of them, with PART.
        counted: A SELECT of how many there are.
        texts, stored: SQL for their texts, over the table of this SQL.
        folder: A new folder for files of a moment, which is removed in the end.
        key: With which these files are sealed, if that is given.
    """

    def __init__(
        self,
        run: Run,
        rows: str,
        counted: str,
        texts: Sequence[str],
        stored: str,
        folder: Path,
        key: EncryptionKey | None,
    ) -> None:
        self._run, self._rows, self._folder, self._key = run, rows, folder, key
        lengths = " + ".join(f"COALESCE(SUM(strlen({text})), 0)" for text in texts)
        self._counted, self._lengths = counted, f"SELECT {lengths} FROM {stored}" if texts else "SELECT 0"

    def parts(self, count: int, order: Sequence[str]) -> Iterator[str | None]:
        """Yields a SELECT of each part, in order, or None where it has no row: sources are read once for all parts, and
        what was made of a part is there until the next one is asked for."""
        rows, size, most = self._sizes()
        if size <= most:
            yield from self._in_memory(count, order)
        else:
            yield from self._in_files(count, order, rows, size, most)

    def _in_memory(self, count: int, order: Sequence[str]) -> Iterator[str | None]:
        """Sorts all rows at once. The window keeps them in the order in which they are: one thread numbers them."""
        self._run(f"CREATE TABLE cut AS FROM ({self._rows}){sorted_by(quoted(PART), *order)}")
        found = {int(part) for (part,) in self._run(f"SELECT DISTINCT {quoted(PART)} FROM cut")}
        for part in range(count):
            placed = f"SELECT *, row_number() OVER () AS {quoted(PLACE)} FROM cut WHERE {quoted(PART)} = {part}"
            columns = f"* EXCLUDE ({quoted(PART)}, {quoted(PLACE)})"
            yield f"SELECT {columns} FROM ({placed}) WHERE {quoted(PLACE)} > 0" if part in found else None
        self._run("DROP TABLE cut")

    def _in_files(self, count: int, order: Sequence[str], rows: int, size: int, most: int) -> Iterator[str | None]:
        """Writes rows by part, and sorts one part after another."""
        self._folder.mkdir(0o700)
        found = dict[int, list[str]]()
        for place, piece in enumerate(self._pieces(rows, size, most)):
            cut = self._folder / f"cut{place}"
            cut.mkdir(0o700)
            form = f"{OF_A_MOMENT}, PARTITION_BY ({quoted(PART)}), WRITE_PARTITION_COLUMNS"
            self._run(f"COPY ({piece}) TO {quote(address(cut, self._key))} ({form})")
            for written in cut.iterdir():
                part = int(written.name.rpartition("=")[2])
                found.setdefault(part, []).extend(sorted(map(str, written.iterdir())))
        for part in range(count):
            files = found.get(part, [])
            scan = parquet_scan(files, self._key).removesuffix(")") + ", hive_partitioning = false)"
            yield in_order(f"FROM {scan}", order) if files else None
            for file in files:
                os.unlink(file)
        shutil.rmtree(self._folder)

    @contextlib.contextmanager
    def told(self, shards: int) -> Iterator[None]:
        """Raises CatalogError where one of so many shards takes more memory than there is, with how many would do."""
        try:
            yield
        except duckdb.OutOfMemoryException:
            _, size, most = self._sizes()
            needed = -(-size // most)
            more = f", or prepare {needed} shards" if needed > shards else ""
            raise CatalogError(f"the data could not be prepared: {TOO_LARGE}{more}") from None

    def _pieces(self, rows: int, size: int, most: int) -> Iterator[str]:
        """Yields a SELECT of all rows, or of one piece after another of as many rows as may be cut at once: these are
        written as they come first, for which the engine keeps a group of rows for each thread."""
        if size <= 2 * most:
            yield self._rows
            return
        [(threads,)] = self._run("SELECT current_setting('threads')")
        piece = most * rows // size
        group = min(max(piece // (2 * int(threads) * LEAST_ROWS), 1) * LEAST_ROWS, ROW_GROUP)
        whole, form = self._folder / "whole", f"{OF_A_MOMENT}, ROW_GROUP_SIZE {group}"
        form += f", ROW_GROUPS_PER_FILE {max(piece // group, 1)}"
        self._run(f"COPY ({self._rows}) TO {quote(address(whole, self._key))} ({form})")
        for file in sorted(whole.iterdir()):
            yield f"SELECT * FROM {parquet_scan([str(file)], self._key)}"
            file.unlink()

    def _sizes(self) -> tuple[int, int, int]:
        """Returns how many rows there are, their bytes before anything compresses them, and how many bytes the engine
        is given at once."""
        [(rows,)], [(texts,)] = self._run(self._counted), self._run(self._lengths)
        types = [str(type) for _, type, *_ in self._run(f"DESCRIBE {self._rows}")]
        width = sum(16 if type in WIDE or type.startswith("DECIMAL") else 8 for type in types)
        [(limit,)] = self._run("SELECT current_setting('memory_limit')")
        return int(rows), int(rows) * width + int(texts), bytes_of(limit) // PIECES
