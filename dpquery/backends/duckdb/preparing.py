"""Writes prepared data: the tables of a catalog as Parquet shards cut by privacy unit, then verifies what was written.

The form, and what is checked when it is opened, is in `data/prepared.py`; why this is enough, in docs/proofs/shards.md.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from dpquery.backends.duckdb.earlier_preparation import Earlier, Unfit
from dpquery.backends.duckdb.engine import DuckDBEngine
from dpquery.backends.duckdb.further_columns import FurtherColumns
from dpquery.backends.duckdb.public_tables import PublicTables
from dpquery.backends.duckdb.row_parts import PART, TOO_LARGE, Cutting, in_order
from dpquery.backends.duckdb.shard_files import (
    block_of,
    cell_of,
    confused,
    copied,
    dated_by,
    kept,
    order_of,
    owner_of,
    shard_of,
    told_by_rows,
    told_by_units,
)
from dpquery.backends.duckdb.table_reading import BLOCK
from dpquery.backends.resources import Resources
from dpquery.cancelling import interruptible
from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import quoted
from dpquery.catalog.tables import ColumnDeclaration
from dpquery.data.cells import Cut, cut_of
from dpquery.data.change_detection import Stamp, stamps_of
from dpquery.data.encrypted_files import EncryptionKey
from dpquery.data.prepared import CODE, OWNER, ROWS, File, Files, labels
from dpquery.data.remote_sources import RemoteReading
from dpquery.data.sources import Source, parquet_scan
from dpquery.data.stored_encodings import MOST_KEYS, Forms
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.plan import Lattice
from dpquery.plan.types import TEXT

ROWS_OF_SHARD = 20_000_000
"""Rows of one shard, where the owner does not say how many shards there are."""
Say = Callable[[str], None]
Written = dict[str, Files]


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several writers of a preparation writes.

    Attributes:
        made: The name of the preparation.
        shard: The number of the shard whose rows it has, all of them; None for the public tables.
        count: How many shards there are.
    """

    made: str
    shard: int | None
    count: int


class Preparing(PublicTables):
    """Tables that are opened as a session opens them, with the same checks, to be written once.

    Args:
        catalog: The declarations.
        sources: For each declared table its data; see `open_source`.
        into: An empty folder for the files; its name is that of the preparation.
        lattices: For each private table the lattices of its columns of numbers.
        earlier: A preparation to whose sources files were only added: what stayed is linked.
        resources: How much memory it takes, and where it spills.
        say: Called with a line about each step, if it is given.
        share: What is written, where that is not everything. Then no shard is cut into cells.
        key: With which all files are sealed, those of a moment too, if that is given; `earlier` is sealed with it too.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; all of them at once.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, object],
        into: Path,
        *,
        lattices: Mapping[str, Mapping[str, Lattice]],
        earlier: Earlier | None = None,
        resources: Resources,
        say: Say | None = None,
        share: Share | None = None,
        key: EncryptionKey | None = None,
    ) -> None:
        self._share, self._made, self._key = share, into.name if share is None else share.made, key
        self._first = 0 if share is None or share.shard is None else share.shard
        self._copies = into / "copies"
        self._copies.mkdir(0o700)
        self._hold(catalog, sources, catalog.tables, resources=resources, reads=RemoteReading(self._copies, key))
        self._into, self._say = into, say or (lambda line: None)
        memory = resources.settings(1)
        before = {} if earlier is None else {" earlier": Source(files=earlier.files, key=key)}
        self._started = DuckDBEngine(
            self._opened | before, keep_order=False, memory=memory, spill=resources.folder(), writes=str(into), key=key
        )
        self._cursor = self._started.cursor()
        self._read_schemas(self._cursor)
        self._check_data(self._cursor)
        self._owned = [table for table in catalog.tables.values() if table.ownership is not None]
        self._earlier, self._lattices = earlier, lattices
        self._columns = dict[str, FurtherColumns]()
        self.cuts = dict[str, Cut]() if earlier is None else dict(earlier.manifest.cuts)
        self.sources = {name: self._told_by(name) for name in self._opened}

    def write(self, shards: int | None) -> tuple[int, Written]:
        """Returns how many shards there are, and the files of each table, by shard.

        Raises:
            CatalogError: The engine could not write the files, or sources were changed meanwhile.
            BackendError: What was written is not what was read.
            Unfit: More changed than files that were added.
        """
        before = self._stamps()
        if self._earlier is not None and not self._earlier.fits(self.sources, self._owned):
            self._earlier, self.cuts = None, {}
        try:
            self._make_columns()
            count = self._number_units(shards)
            written = dict(self._write_tables(count))
            self._verify(count, written)
        except duckdb.OutOfMemoryException:
            reason = TOO_LARGE
        except duckdb.Error as error:
            reason = type(error).__name__  # its words may quote data
        else:
            reason = "a source was changed meanwhile" if self._stamps() != before else ""
        if reason:
            raise CatalogError(f"the data could not be prepared: {reason}")
        return count, written

    def close(self) -> None:
        """Ends the engine and removes copies of what lies elsewhere."""
        super().close()
        shutil.rmtree(self._copies, ignore_errors=True)

    @property
    def forms(self) -> dict[str, Forms]:
        """The further columns of each private table."""
        return {name: columns.forms for name, columns in self._columns.items()}

    def _make_columns(self) -> None:
        for table in (table for table in self._catalog.tables.values() if not table.public):
            before = None if self._earlier is None else self._earlier.scan(table.name)
            keys = {c.name: keys for c in table.columns.values() if (keys := self._keys(c)) is not None}
            forms = Forms(lattices=self._lattices[table.name], keys=keys)
            made = FurtherColumns(table, forms, self._run, of_codes=None if self._share is None else "UINTEGER")
            self._columns[table.name] = made
            made.number(self._tables, before)
        if self._earlier is not None and self._earlier.manifest.forms != self.forms:
            raise Unfit("other bounds or keys")

    def _keys(self, column: ColumnDeclaration) -> tuple[str, ...] | None:
        """Returns the public keys of a column of strings that get codes."""
        keys = column.keys
        if column.keys_from is not None:
            table, name = column.keys_from
            keys = tuple(sorted(str(value) for (value,) in self.public_rows(table, (name,)) if value is not None))
        return tuple(map(str, keys)) if column.type == TEXT and keys is not None and len(keys) <= MOST_KEYS else None

    # How units are cut.

    def _number_units(self, shards: int | None) -> int:
        """Makes for each table with owners a table of its units: in each block their rows, their shard and number."""
        for i, table in enumerate(self._owned):
            by = [quoted(OWNER), *([] if table.blocks is None else [quoted(BLOCK)])]
            counted = f'SELECT {by[0]} AS unit, {by[-1] if by[1:] else "NULL"} AS block, COUNT(*) AS "rows"'
            declared = self._tables.declared(table)
            self._run(f"CREATE TABLE held{i} AS {counted} FROM ({declared}) GROUP BY {', '.join(by)}")
        rows = [self._number(self._rows_of(table)) for table in self._catalog.tables.values() if not table.public]
        count = shards or max(1, -(-max(rows, default=0) // ROWS_OF_SHARD))
        count = count if self._earlier is None else self._earlier.manifest.shards
        self._total, self._done, self._start = sum(rows), 0, time.monotonic()
        self._say(f"{self._total:,} rows, {count} {'shard' if count == 1 else 'shards'}")
        for name, table in self._catalog.tables.items() if self._earlier is None and self._share is None else ():
            dated = None if table.public else dated_by(table)
            lower, upper = (None, None) if dated is None else (table.columns[dated].lower, table.columns[dated].upper)
            if dated and isinstance(lower, datetime.date) and isinstance(upper, datetime.date):
                cut = cut_of(dated, lower, upper, self._number(self._rows_of(table)) // count)
                self.cuts |= {} if cut is None else {name: cut}
        if self._owned:
            self._number_codes(count)
            self._find_changed()
        return count

    def _number_codes(self, count: int) -> None:
        """Makes a table of all units with their shard and number, those with a number before with that one. The numbers
        of a shard are in a range of its own, so that later units find room there."""
        units = " UNION ".join(f"SELECT DISTINCT unit FROM held{i}" for i in range(len(self._owned)))
        self._run(f"CREATE TABLE placed AS SELECT unit, {shard_of('unit', count)}::BIGINT AS shard FROM ({units})")
        known = "SELECT unit, 0::BIGINT AS code FROM placed LIMIT 0"
        if self._earlier is not None:
            scans = [(owner_of(table), self._earlier.scan(table.name)) for table in self._owned]
            known = " UNION ".join(
                f"SELECT DISTINCT {unit} AS unit, {quoted(CODE)}::BIGINT AS code FROM {s}" for unit, s in scans
            )
        self._run(f"CREATE TABLE known AS {known}")
        room = 2**32 // (count if self._share is None else self._share.count)
        for wider in (room, 2**40):
            first = f"COALESCE(MAX(code) OVER (PARTITION BY shard) + 1, (shard + {self._first}) * {wider})"
            place = "row_number() OVER (PARTITION BY shard, code IS NULL ORDER BY unit) - 1"
            code = f"CASE WHEN code IS NULL THEN {first} + {place} ELSE code END"
            numbered = f"SELECT unit, shard, {code} AS code FROM placed LEFT JOIN known USING (unit)"
            self._run(f"CREATE OR REPLACE TABLE units AS {numbered}")
            type = "UINTEGER" if wider == room else "BIGINT"
            if self._number(f"SELECT COALESCE(MAX(code - (shard + {self._first}) * {wider}), 0) FROM units") < wider:
                break
        self._require(self._share is None or wider == room)  # the types of all shards are the same
        if self._earlier is not None and type != self._earlier.type_of(self._owned[0].name, CODE, self._run):
            raise Unfit("more units than there is room for")
        self._run("DROP TABLE placed")
        typed = f"SELECT unit, shard, CAST(code AS {type}) AS code FROM units"
        for i in range(len(self._owned)):  # once, and so that rows are joined with one table, in less memory
            self._run(f"CREATE OR REPLACE TABLE held{i} AS FROM held{i} JOIN ({typed}) USING (unit)")
        self._run("DROP TABLE units")

    def _find_changed(self) -> None:
        """Makes for each table with owners a table of the units that have more rows than before, in a block."""
        for i, table in enumerate(self._owned if self._earlier is not None else ()):
            assert self._earlier is not None
            columns = f'{owner_of(table)} AS unit, {block_of(table)} AS block, {quoted(ROWS)} AS "rows"'
            self._run(f"CREATE TABLE before{i} AS SELECT DISTINCT {columns} FROM {self._earlier.scan(table.name)}")
            same = "held.unit = before.unit AND held.block IS NOT DISTINCT FROM before.block"
            other = 'held."rows" IS DISTINCT FROM before."rows"'
            changed = f"SELECT held.code, held.block FROM held{i} AS held LEFT JOIN before{i} AS before ON {same}"
            self._run(f"CREATE TABLE changed{i} AS {changed} WHERE {other}")

    def _fresh(self, table: Table, rows: str) -> frozenset[int] | None:
        """Returns the parts of a table that have to be written; None for all."""
        if self._earlier is None:
            return None
        if table.public:
            return None if self.sources[table.name] != self._earlier.manifest.sources.get(table.name) else frozenset()
        changed = f"changed{self._owned.index(table)} AS changed"
        on = f"given.{quoted(CODE)} = changed.code AND ({block_of(table)}) IS NOT DISTINCT FROM changed.block"
        found = self._run(f"SELECT DISTINCT {quoted(PART)} FROM ({rows}) AS given SEMI JOIN {changed} ON {on}")
        return frozenset(int(part) for (part,) in found)

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
            rows, cells, number = self._rows(table, count), self._cells(table), 1 if table.public else count
            fresh, order = self._fresh(table, rows), order_of(table)
            if fresh:
                rows = f"SELECT * FROM ({rows}) WHERE {quoted(PART)} IN ({', '.join(map(str, sorted(fresh)))})"
            cutting = self._cutting(table, rows, self._into / f"cut{place}")
            parts: Iterable[str | None] = [None] * number * cells
            if fresh != frozenset():
                parts = [in_order(rows, order)] if number * cells == 1 else cutting.parts(number * cells, order)
            files: list[list[File]] = [[] for _ in range(number)]
            for part, text in enumerate(parts):
                shard, cell = divmod(part, cells)
                file = self._into / f"{place}-{self._first + shard:04d}-{cell}.parquet"
                if self._earlier is not None and fresh is not None and part not in fresh:
                    files[shard] += self._earlier.linked(table.name, shard, cell, file)
                    continue
                if text is None and cell:
                    continue
                text = text or f"{in_order(rows, ())} LIMIT 0"
                said = labels(self._made, table.name, self._first + shard, cell)
                with contextlib.nullcontext() if table.public else cutting.told(number):
                    self._run(copied(text, file, said, self._key))
                files[shard].append(replace(kept(file, cell), made=self._made))
                if not table.public:
                    self._tell(table, shard, count, file)
            yield table.name, tuple(map(tuple, files))

    def _cells(self, table: Table) -> int:
        return self.cuts[table.name].cells if table.name in self.cuts else 1

    def _part(self, table: Table, shard: str, row: str) -> str:
        """Returns SQL for the part of a row: its shard, and in that its cell."""
        if (cut := self.cuts.get(table.name)) is None:
            return shard
        return f"({shard}) * {cut.cells} + {cell_of(cut, f'{row}.{quoted(cut.column)}')}"

    def _rows(self, table: Table, count: int) -> str:
        """Returns a SELECT of what is written of a table: its columns as declared, and SHARD; of rows with owners CODE
        and ROWS too, and OWNER where it is none of the columns."""
        declared = self._tables.declared(table)
        if not table.public:
            further = "".join(f", {sql} AS {quoted(c)}" for c, sql in self._columns[table.name].further().items())
            declared = f"SELECT declared.*{further} FROM ({declared}) AS declared{self._columns[table.name].codes()}"
        if table.ownership is None:
            shard = "0" if table.public else f"row_number() OVER () % {count}"
            return f"SELECT *, {self._part(table, shard, 'given')} AS {quoted(PART)} FROM ({declared}) AS given"
        held = f"held{self._owned.index(table)}"
        left_out = [BLOCK, *([OWNER] if table.ownership.is_stored else [])]
        columns = f"given.* EXCLUDE ({', '.join(map(quoted, left_out))}), held.code AS {quoted(CODE)}"
        part = self._part(table, "held.shard", "given")
        columns += f', CAST(held."rows" AS UINTEGER) AS {quoted(ROWS)}, {part} AS {quoted(PART)}'
        on = f"held.unit = given.{quoted(OWNER)}"
        on += "" if table.blocks is None else f" AND held.block IS NOT DISTINCT FROM given.{quoted(BLOCK)}"
        return f"SELECT {columns} FROM ({declared}) AS given JOIN {held} AS held ON {on}"

    def _cutting(self, table: Table, rows: str, folder: Path) -> Cutting:
        texts = [self._tables.column(table, c.name, TEXT, "stored") for c in table.columns.values() if c.type == TEXT]
        stored = f"{self._tables.places[table.name]} AS stored"
        return Cutting(self._run, rows, self._rows_of(table), texts, stored, folder, self._key)

    def _tell(self, table: Table, shard: int, count: int, file: Path) -> None:
        """Says what was written, and when the rest will be, if it goes on like this."""
        self._done += self._number(f"SELECT COUNT(*) FROM {parquet_scan([str(file)], self._key)}")
        left = (self._total - self._done) * (time.monotonic() - self._start) / max(self._done, 1)
        self._say(f"{table.name}: shard {shard + 1} of {count}; about {left:.0f} s left")

    # Verification of what was written.

    def _verify(self, count: int, written: Written) -> None:
        """Raises BackendError unless all rows are there, each unit is in its shard alone, under one number, and each
        row says how many rows its unit has."""
        for table in self._catalog.tables.values():
            if not table.public and table.name in written:
                files, rows = (
                    [file for shard in written[table.name] for file in shard],
                    self._number(self._rows_of(table)),
                )
                scan = self._scan_of(files, about=rows)
                self._require(self._number(f"SELECT COUNT(*) FROM {scan}") == rows)
                self._require(not self._any(self._misread(table, scan)))
                for file in files if table.name in self.cuts else ():
                    cut, one = self.cuts[table.name], self._scan_of([file])
                    wrong = f"{cell_of(cut, quoted(cut.column))} <> {file.cell}"
                    self._require(not self._any(f"SELECT 1 FROM {one} WHERE {wrong}"))
        owned = [(i, table) for i, table in enumerate(self._owned) if table.name in written]
        for i, table in owned:
            told = {shard: sums for shard, *sums in self._run(told_by_units(f"held{i}"))}
            for shard, cells in enumerate(written[table.name]):
                [read] = self._run(told_by_rows(table, self._scan_of(cells)))
                self._require(list(read) == told.get(shard, [0, 0]))
        if owned:
            self._require(not self._any(confused([f"held{i}" for i, _ in owned], count)))
        self._say("verified")

    def _misread(self, table: Table, scan: str) -> str:
        """Returns a SELECT of rows in which a further column is not what the declared one says."""
        columns = self._columns[table.name]
        return f"SELECT 1 FROM {scan} AS declared{columns.strings()} WHERE {columns.wrong()}"

    def _scan_of(self, files: Iterable[File], about: int | None = None) -> str:
        return parquet_scan((str(self._into / file.name) for file in files), self._key, about=about)

    def _require(self, holds: bool) -> None:
        if not holds:
            raise BackendError("the prepared data failed their check after writing; nothing was kept")

    def _told_by(self, table: str) -> list[list[str]]:
        """Returns what tells the files of a table from others: a file that is added may change the types of all."""
        files = [list(map(str, stamp)) for stamp in stamps_of(self._opened[table])]
        return files and [*files, *map(list, self._tables.stored[table].items())]

    def _stamps(self) -> list[tuple[Stamp, ...]]:
        return [stamps_of(source) for source in self._opened.values()]

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        with interruptible(self._cursor.interrupt):
            return self._cursor.execute(text).fetchall()

    def _number(self, text: str) -> int:
        return int(self._run(text)[0][0])

    def _any(self, text: str) -> bool:
        return bool(self._run(f"{text} LIMIT 1"))
