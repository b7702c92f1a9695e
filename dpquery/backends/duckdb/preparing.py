"""Writes prepared data: the tables of a catalog as Parquet shards cut by privacy unit, then verifies what was written.

The form, and what is checked when it is opened, is in `data/prepared.py`; why this is enough, in docs/proofs/shards.md.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dpquery.backends.duckdb.engine import Engine
from dpquery.backends.duckdb.public_tables import PublicTables
from dpquery.backends.duckdb.table_reading import BLOCK
from dpquery.backends.resources import Resources
from dpquery.cancelling import interruptible
from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import quoted
from dpquery.data.prepared import CODE, OWNER, ROWS, Files, digest_of, labels
from dpquery.data.sources import parquet_scan, quote
from dpquery.data.unchanged import Stamp, stamps_of
from dpquery.errors import BackendError, CatalogError
from dpquery.plan.types import DATE, TIMESTAMP

SHARD = " shard"
ROWS_OF_SHARD = 20_000_000
"""Rows of one shard, where the owner does not say how many shards there are."""
Say = Callable[[str], None]
Written = dict[str, Files]
CODES = 2**32
"""Numbers of units that a shard which is written by itself has for its own."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several writers of a preparation writes.

    Attributes:
        made: The name of the preparation.
        shard: The number of the shard whose rows it has, all of them; None for the public tables.
    """

    made: str
    shard: int | None


class Preparing(PublicTables):
    """Tables that are opened as a session opens them, with the same checks, to be written once.

    Args:
        catalog: The declarations.
        sources: For each declared table its data; see `open_source`.
        into: An empty folder for the files; its name is that of the preparation.
        resources: How much memory it takes, and where it spills.
        say: Called with a line about each step, if it is given.
        share: What is written, where that is not everything.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, object],
        into: Path,
        *,
        resources: Resources,
        say: Say | None = None,
        share: Share | None = None,
    ) -> None:
        self._hold(catalog, sources, catalog.tables)
        self._share, self._made = share, into.name if share is None else share.made
        self._first = 0 if share is None or share.shard is None else share.shard
        self._into, self._say = into, say or (lambda line: None)
        memory = resources.settings(1)
        self._public = Engine(self._opened, keep_order=False, memory=memory, spill=resources.folder(), writes=str(into))
        self._cursor = self._public.cursor()
        self._read_schemas(self._cursor)
        self._check_data(self._cursor)
        self._owned = [table for table in catalog.tables.values() if table.ownership is not None]

    def write(self, shards: int | None) -> tuple[int, Written]:
        """Returns how many shards there are, and the files of each table, by shard.

        Raises:
            CatalogError: The engine could not write the files, or sources were changed meanwhile.
            BackendError: What was written is not what was read.
        """
        before = self._stamps()
        try:
            count = self._number_units(shards)
            written = dict(self._write_tables(count))
            self._verify(count, written)
        except duckdb.Error as error:
            reason = type(error).__name__  # its words may quote data
        else:
            reason = "a source was changed meanwhile" if self._stamps() != before else ""
        if reason:
            raise CatalogError(f"the data could not be prepared: {reason}")
        return count, written

    # How units are cut.

    def _number_units(self, shards: int | None) -> int:
        """Makes for each table with owners a table of its units: in each block their rows, their shard and number."""
        for i, table in enumerate(self._owned):
            counted = f'SELECT {quoted(OWNER)} AS unit, {quoted(BLOCK)} AS block, COUNT(*) AS "rows"'
            self._run(f"CREATE TABLE held{i} AS {counted} FROM ({self._tables.declared(table)}) GROUP BY ALL")
        rows = [self._number(self._rows_of(table)) for table in self._catalog.tables.values() if not table.public]
        count = shards or max(1, -(-max(rows, default=0) // ROWS_OF_SHARD))
        self._total, self._done, self._start = sum(rows), 0, time.monotonic()
        self._say(f"{self._total:,} rows, {count} {'shard' if count == 1 else 'shards'}")
        if self._owned:
            units = " UNION ".join(f"SELECT DISTINCT unit FROM held{i}" for i in range(len(self._owned)))
            placed = f"SELECT unit, {shard_of('unit', count)} AS shard FROM ({units})"
            numbered = f"row_number() OVER (ORDER BY shard, unit) - 1 + {self._first * CODES} AS code"
            self._run(f"CREATE TABLE units AS SELECT *, {numbered} FROM ({placed})")
        return count

    def _rows_of(self, table: Table) -> str:
        """Returns a SELECT of how many rows of a private table are written: those that have an owner, if rows do."""
        if table.ownership is None:
            return f"SELECT COUNT(*) FROM {self._tables.places[table.name]}"
        return f'SELECT COALESCE(SUM("rows"), 0) FROM held{self._owned.index(table)}'

    # Files.

    def _write_tables(self, count: int) -> Iterator[tuple[str, Files]]:
        for place, table in enumerate(self._catalog.tables.values()):
            if self._share is not None and table.public is not (self._share.shard is None):
                continue
            rows = self._rows(table, count)
            shards = [rows] if table.public or count == 1 else self._cut(rows, place, count)
            order = ", ".join(_order(table))
            order = f" ORDER BY {order}" if order else ""
            files = []
            for shard, part in enumerate(shards, self._first):
                file = self._into / f"{place}-{shard:04d}.parquet"
                text = f"SELECT * EXCLUDE ({quoted(SHARD)}) FROM ({part}){order}"
                self._copy(text, file, labels(self._made, table.name, shard))
                _keep(file)
                files.append((file.name, file.stat().st_size, digest_of(file)))
                if not table.public:
                    self._tell(table, shard, count, file)
            yield table.name, tuple(files)

    def _rows(self, table: Table, count: int) -> str:
        """Returns a SELECT of what is written of a table: its columns as declared, and SHARD; of rows with owners CODE
        and ROWS too, and OWNER where it is none of the columns."""
        declared = self._tables.declared(table)
        if table.ownership is None:
            shard = "0" if table.public else f"row_number() OVER () % {count}"
            return f"SELECT *, {shard} AS {quoted(SHARD)} FROM ({declared})"
        held = f"SELECT held.*, shard, code FROM held{self._owned.index(table)} AS held JOIN units USING (unit)"
        left_out = [BLOCK, *([] if table.ownership.path else [OWNER])]
        columns = f"given.* EXCLUDE ({', '.join(map(quoted, left_out))}), held.code AS {quoted(CODE)}"
        columns += f', CAST(held."rows" AS BIGINT) AS {quoted(ROWS)}, held.shard AS {quoted(SHARD)}'
        on = f"held.unit = given.{quoted(OWNER)}"
        on += "" if table.blocks is None else f" AND held.block IS NOT DISTINCT FROM given.{quoted(BLOCK)}"
        return f"SELECT {columns} FROM ({declared}) AS given JOIN ({held}) AS held ON {on}"

    def _cut(self, rows: str, place: int, count: int) -> Iterator[str]:
        """Writes rows once, by shard, and yields a SELECT of each shard, so that sources are read once for all."""
        folder = self._into / f"cut{place}"
        folder.mkdir(0o700)
        form = f"FORMAT parquet, PARTITION_BY ({quoted(SHARD)}), WRITE_PARTITION_COLUMNS"
        self._run(f"COPY ({rows}) TO {quote(str(folder))} ({form})")
        found = {int(part.name.rpartition("=")[2]): sorted(map(str, part.iterdir())) for part in folder.iterdir()}
        for shard in range(count):
            if shard in found:
                scan = parquet_scan(found[shard]).removesuffix(")")
                yield f"SELECT * FROM {scan}, hive_partitioning = false)"
            else:
                yield f"SELECT * FROM ({rows}) LIMIT 0"
        shutil.rmtree(folder)

    def _copy(self, text: str, file: Path, said: Mapping[str, str]) -> None:
        footer = ", ".join(f"{key}: {quote(value)}" for key, value in said.items())
        self._run(f"COPY ({text}) TO {quote(str(file))} (FORMAT parquet, KV_METADATA {{{footer}}})")

    def _tell(self, table: Table, shard: int, count: int, file: Path) -> None:
        """Says what was written, and when the rest will be, if it goes on like this."""
        self._done += self._number(f"SELECT COUNT(*) FROM {parquet_scan([str(file)])}")
        left = (self._total - self._done) * (time.monotonic() - self._start) / max(self._done, 1)
        self._say(f"{table.name}: shard {shard + 1} of {count}; about {left:.0f} s left")

    # Verification of what was written.

    def _verify(self, count: int, written: Written) -> None:
        """Raises BackendError unless all rows are there, each unit is in its shard alone, under one number, and each
        row says how many rows its unit has."""
        for table in self._catalog.tables.values():
            if not table.public and table.name in written:
                scan = parquet_scan(str(self._into / file) for file, *_ in written[table.name])
                self._require(self._number(f"SELECT COUNT(*) FROM {scan}") == self._number(self._rows_of(table)))
        for shard in range(count if self._owned and self._owned[0].name in written else 0):
            for table in self._owned:
                self._require(not self._any(self._miscounted(table, self._scan(written, table, shard))))
            pairs = " UNION ".join(self._units(written, table, shard) for table in self._owned)
            wrong = "COUNT(DISTINCT unit) <> COUNT(*) OR COUNT(DISTINCT code) <> COUNT(*)"
            wrong += f" OR bool_or({shard_of('unit', count)} <> {shard})"
            self._require(not self._any(f"SELECT 1 FROM ({pairs}) HAVING COALESCE({wrong}, FALSE)"))
        self._say("verified")

    def _miscounted(self, table: Table, scan: str) -> str:
        """Returns a SELECT of units whose rows, in a block, are not as many as each of them says."""
        block = "NULL"
        if table.blocks is not None:
            block = f"date_trunc('{table.blocks.by.value}', {quoted(table.blocks.column)})"
        rows = quoted(ROWS)
        counted = f"COUNT(*) AS n, MIN({rows}) AS least, MAX({rows}) AS most"
        grouped = f"SELECT {counted} FROM {scan} GROUP BY {quoted(CODE)}, {block}"
        return f"SELECT 1 FROM ({grouped}) WHERE n IS DISTINCT FROM least OR n IS DISTINCT FROM most"

    def _units(self, written: Written, table: Table, shard: int) -> str:
        """Returns a SELECT of the units of a shard and their numbers."""
        columns = f"{_owner(table)} AS unit, {quoted(CODE)} AS code"
        return f"SELECT DISTINCT {columns} FROM {self._scan(written, table, shard)}"

    def _scan(self, written: Written, table: Table, shard: int) -> str:
        return parquet_scan([str(self._into / written[table.name][shard][0])])

    def _require(self, holds: bool) -> None:
        if not holds:
            raise BackendError("the prepared data failed their check after writing; nothing was kept")

    def _stamps(self) -> list[tuple[Stamp, ...]]:
        return [stamps_of(source) for source in self._opened.values()]

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        with interruptible(self._cursor.interrupt):
            return self._cursor.execute(text).fetchall()

    def _number(self, text: str) -> int:
        return int(self._run(text)[0][0])

    def _any(self, text: str) -> bool:
        return bool(self._run(f"{text} LIMIT 1"))


def shard_of(unit: str, count: int) -> str:
    """Returns SQL for the shard of a unit, the same in all versions of the engine."""
    return f"CAST(md5_number_lower(CAST({unit} AS VARCHAR)) % {count} AS INTEGER)"


def _order(table: Table) -> list[str]:
    """Returns SQL for what rows are sorted by within a file: by day, so that a question about some days reads these,
    where the rows are in blocks or have a date with bounds; then by unit. It decides no answer."""
    bounded = (c.name for c in table.columns.values() if c.type in (DATE, TIMESTAMP) and c.lower is not None)
    dated = next(bounded, None) if table.blocks is None else table.blocks.column
    day = [] if dated is None else [f"date_trunc('day', {quoted(dated)})"]
    return day + ([] if table.ownership is None else [quoted(CODE)])


def _owner(table: Table) -> str:
    assert table.ownership is not None
    return quoted(OWNER if table.ownership.path else table.ownership.column)


def _keep(file: Path) -> None:
    """Makes a file durable, and its owner's alone."""
    file.chmod(0o600)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
