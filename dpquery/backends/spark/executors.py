"""What runs in the executors of Spark: the embedded engine over one part of the rows, and what leaves a task.

A part is a shard of prepared data, or the rows of a partition. Its rows are those of whole units, or any rows where the
unit is the row. What a task returns follows from the part and the job alone, so that a task may run twice.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.preparing import Preparing, Share
from dpquery.backends.resources import SHARE, Resources
from dpquery.catalog import Catalog
from dpquery.data.prepared import File, PreparedTable
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.failures import cause_of
from dpquery.kernel.plan import Lattice, PrivateAggregate

RETURNED = "part INT, piece INT, pieces INT, data BINARY"
"""What tasks return, as a schema of Spark: for each part its table, in pieces of Arrow's stream format."""
PIECE = 100_000
"""Rows of one piece."""
TABLE, PART = " table", " part"
"""Columns of rows that go to executors, beside those of their tables: the place of the table, and the part."""
MARKER = -1
"""The place of the table of a row that each part has, so that a part without rows is one."""
FACTS = File.__slots__
"""Columns of what a task that prepares returns of each file, beside its folder and table."""
Batches = Iterator[pa.RecordBatch]
VERSIONS = f"dpquery {sys.modules['dpquery'].__version__}, duckdb {duckdb.__version__}"
Lattices = Mapping[str, Mapping[str, Lattice]]
Stamps = Mapping[str, tuple[int, int]]
"""Size and time of the last change of files, which are the same wherever a folder is mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all tasks of a query share.

    Attributes:
        catalog: The declarations.
        aggregate: What is computed; None to check the rows against the declarations.
        key: The run's key.
        public: A broadcast of the public tables.
        private: For each private table its columns, where rows come from partitions.
        is_cut: Whether all rows of a unit are in one part, as its column says.
        prepared: The tables of a prepared folder, where rows are read from it.
        stamps: The files of these.
        resources: What one task may use.
        versions: Of the driver.
    """

    catalog: Catalog
    aggregate: PrivateAggregate | None
    key: int
    public: Any
    private: Mapping[str, pa.Schema]
    is_cut: bool
    prepared: Mapping[str, PreparedTable]
    stamps: Stamps
    resources: Resources
    versions: str = VERSIONS


def of_rows(job: Job, batches: Batches) -> Batches:
    """Yields what the rows of a partition return."""
    from pyspark import TaskContext  # here, as all else runs without Spark

    part = TaskContext.get().partitionId()
    yield from _returned(part, lambda: _computed(job, sources_of_part(job, part, list(batches))))


def of_shards(job: Job, batches: Batches) -> Batches:
    """Yields what the shards of these numbers return; all shards together where their number is MARKER."""
    for shard in (id for batch in batches for id in batch.column(0).to_pylist()):
        yield from _returned(max(shard, 0), partial(_of_files, job, shard))


def _returned(part: int, compute: Callable[[], pa.Table]) -> Batches:
    """Yields a table in pieces. An error says its type and place alone: Spark writes it to logs."""
    try:
        table, failure = compute(), ""
    except Exception as error:
        failure = cause_of(error)
    if failure:
        raise BackendError(failure)
    pieces = table.combine_chunks().to_batches(max_chunksize=PIECE) or [
        pa.RecordBatch.from_pylist([], schema=table.schema)
    ]
    for i, piece in enumerate(pieces):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_batch(piece)
        numbers = [pa.array([number], pa.int32()) for number in (part, i, len(pieces))]
        data = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.record_batch([*numbers, data], names=["part", "piece", "pieces", "data"])


def joined(returned: pa.Table, expected: int | None) -> list[pa.Table]:
    """Returns the tables of parts, in their order, as the driver gets them.

    Args:
        expected: How many there are; None where the frames say it.
    Raises:
        BackendError: A part is missing, or a piece of it, or one is there twice.
    """
    found = dict[int, dict[int, Any]]()
    for row in returned.to_pylist():
        pieces = found.setdefault(row["part"], dict.fromkeys(range(row["pieces"])))
        if pieces.get(row["piece"], b"") is not None:
            raise BackendError("a part was returned twice")
        pieces[row["piece"]] = row["data"]
    is_whole = expected is None or sorted(found) == list(range(expected))
    if not is_whole or any(data is None for pieces in found.values() for data in pieces.values()):
        raise BackendError("a part is missing")
    read = pa.ipc.open_stream
    return [pa.concat_tables(read(data).read_all() for data in found[part].values()) for part in sorted(found)]


def _computed(job: Job, sources: Mapping[str, object]) -> pa.Table:
    """Returns what tables are of the job's aggregate, or of a check what is wrong with them."""
    if job.versions != VERSIONS:
        raise BackendError("an executor has other versions than the driver")
    problems: tuple[str, ...] = ()
    try:
        backend = DuckDBBackend(job.catalog, {**sources, **job.public.value}, resources=_of_one_task(job.resources))
    except CatalogError as error:
        problems = tuple(error.problems)
    if job.aggregate is None:
        return pa.table({"problem": pa.array(problems, pa.string())})
    if problems:
        raise BackendError("the rows contradict the declarations")
    with contextlib.closing(backend):
        return backend.part(job.aggregate, job.key)


def _of_one_task(given: Resources) -> Resources:
    """Returns what one of as many tasks as the machine has cores may use."""
    memory = given.memory_limit or f"{SHARE / (os.cpu_count() or 1):.2f}%"
    return replace(given, memory_limit=memory, threads=1)


# Preparation.


def prepared_of_rows(job: Job, into: str, share: Share, lattices: Lattices, batches: Batches) -> Batches:
    """Yields which files were written of the rows of a partition, in a folder that no other task writes to.

    Args:
        into: The folder of the preparation.
        share: What all tasks have in common.
        lattices: See `Preparing`.
    """
    from pyspark import TaskContext

    part = TaskContext.get().partitionId()
    yield from _returned(part, lambda: _written(job, replace(share, shard=part), lattices, Path(into), list(batches)))


def _written(job: Job, share: Share, lattices: Lattices, into: Path, batches: list[pa.RecordBatch]) -> pa.Table:
    folder = Path(tempfile.mkdtemp(dir=into))  # for its owner alone: mode 0700
    assert share.shard is not None
    sources = {**sources_of_part(job, share.shard, batches), **job.public.value}
    resources = _of_one_task(job.resources)
    work = Preparing(job.catalog, sources, folder, lattices=lattices, resources=resources, share=share)
    with contextlib.closing(work):
        _, written = work.write(1)
    files = [(table, file) for table, ((file,),) in written.items()]
    return pa.Table.from_pylist([{"folder": folder.name, "table": table, **_facts(file)} for table, file in files])


def _facts(file: File) -> dict[str, Any]:
    return {name: getattr(file, name) for name in FACTS}


# Rows of partitions.


def sources_of_part(job: Job, part: int, batches: list[pa.RecordBatch]) -> dict[str, pa.Table]:
    """Returns the private tables of a partition.

    Raises:
        BackendError: Rows of another part are in it.
    """
    empty = {table: schema.empty_table() for table, schema in job.private.items()}
    if not batches:
        return empty
    rows = pa.Table.from_batches(batches)
    if job.is_cut and not pc.all(pc.equal(rows[PART], part)).as_py():
        raise BackendError("rows of another part are in this one")
    return {table: _rows(rows, i, found) for i, (table, found) in enumerate(empty.items())}


def _rows(rows: pa.Table, place: int, empty: pa.Table) -> pa.Table:
    """Returns the rows of a table among those of all, with NULL in columns that no statement of the job reads."""
    names = {column_name(place, i): field for i, field in enumerate(empty.schema)}
    if not names.keys() & set(rows.column_names):
        return empty
    own = rows.filter(pc.equal(rows[TABLE], place))
    made = (own[name] if name in own.column_names else pa.nulls(len(own), names[name].type) for name in names)
    return pa.table(dict(zip(empty.column_names, made, strict=True)))


def column_name(table: int, column: int) -> str:
    """Returns what a column is called among those of all tables."""
    return f" {table} {column}"


# Shards of a folder.


def _of_files(job: Job, shard: int) -> pa.Table:
    sources = {name: _of_shard(job, table, shard) for name, table in job.prepared.items()}
    files = [file for table in sources.values() for file in table.files]
    _require_unchanged(job, files)
    made = _computed(job, sources)
    _require_unchanged(job, files)
    return made


def _of_shard(job: Job, table: PreparedTable, shard: int) -> PreparedTable:
    is_whole = shard == MARKER or job.catalog.tables[table.name].public
    return table if is_whole else replace(table, shards=table.shards[shard : shard + 1])


def _require_unchanged(job: Job, files: list[str]) -> None:
    if any(stamp_of(file) != job.stamps[file] for file in files):
        raise BackendError("a prepared file is not what it is where the session runs")


def stamp_of(file: str) -> tuple[int, int]:
    """Returns what tells one state of a file from another, on any machine."""
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns
