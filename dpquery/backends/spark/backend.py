"""The driver's side: plans are bound over tables without rows, executors run them, and what they return is added up.

Ledger, noise and post-processing know nothing of Spark. docs/proofs/shards.md says why the integers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.private_statements import PreparedAggregate, adds_up
from dpquery.backends.resources import Resources
from dpquery.backends.spark.executors import MARKER, RETURNED, Job, joined, of_rows, of_shards, stamp_of
from dpquery.backends.spark.frames import Frames, collected, session_of
from dpquery.catalog import Catalog
from dpquery.data.prepared import PreparedTable
from dpquery.errors import BackendError, CatalogError
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates

MOST_PUBLIC = 2**30
"""Bytes of public tables that are sent to the executors."""


class SparkBackend(DuckDBBackend):
    """Holds the tables of a catalog in Spark, or a prepared folder that all executors see.

    Args:
        catalog: The declarations.
        sources: For each private table a frame of Spark, the name of a table in its catalog, or a path that it reads;
            for public ones also what other backends read. Or the tables of a prepared folder.
        resources: What the driver's engine may use, and each task; by default each task has its core's part of half of
            its machine's memory.
    Raises:
        CatalogError: Data that are missing or contradict the declarations; executors that cannot run dpquery.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, object], *, resources: Resources | None = None) -> None:
        given = resources or Resources()
        self._spark, self._frames = session_of(sources), None
        self._in_files = {name: table for name, table in sources.items() if isinstance(table, PreparedTable)}
        if any(table.key is not None for table in self._in_files.values()):
            raise CatalogError("executors of Spark have no key: encrypted prepared data are read by the backend duckdb")
        held = sources
        if not self._in_files:
            self._frames = Frames(self._spark, catalog, sources)
            empty = {name: schema.empty_table() for name, schema in self._frames.schemas.items()}
            held = {**empty, **self._frames.public}
        super().__init__(catalog, held, resources=given)
        try:
            self._job = Job(
                catalog=catalog,
                aggregate=None,
                key=0,
                public=self._spark.sparkContext.broadcast(self._public_tables()),
                private={} if self._frames is None else self._frames.schemas,
                is_cut=self._frames is not None and self._frames.is_cut,
                prepared=self._in_files,
                stamps={file: stamp_of(file) for table in self._in_files.values() for file in table.files},
                resources=given,
            )
            self._check_executors()
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raises BackendError if files are not what they were; see `Backend`."""
        super().check()
        if self._frames is not None and self._frames.state() != self._frames.at_opening:
            raise BackendError(
                "files that Spark reads were changed after they were checked, so the privacy guarantee might not hold; "
                "nothing was charged. Close this session and open a new one"
            )

    def run(self, statement: PreparedAggregate, key: int) -> ExactAggregates:
        """Returns the exact integers of a statement; see `Backend`."""
        aggregate = statement.aggregate
        self.check()
        parts = self._run(aggregate, key)
        self.check()
        return self.added(statement, parts or [self.part(aggregate, key)])

    def _run(self, aggregate: PrivateAggregate | None, key: int = 0) -> list[pa.Table]:
        """Returns what the tasks of a job return, by part."""
        is_whole = aggregate is not None and not adds_up(aggregate)
        job = Job(**{name: getattr(self._job, name) for name in Job.__slots__} | {"aggregate": aggregate, "key": key})
        if self._frames is not None:
            count = 1 if is_whole else self._frames.parts()
            read = self._frames.read_by(None if aggregate is None else aggregate.source)
            if not read:
                return []
            is_cut = self._frames.is_cut
            frame, task = self._frames.rows(read, parts=count, is_cut=is_cut), of_rows
            expected = count if is_cut else None
        else:
            count = 1 if is_whole else max(len(table.shards) for table in self._in_files.values())
            numbers = (MARKER, 0, 1, 1) if is_whole else (0, count, 1, count)
            frame, task, expected = self._spark.range(*numbers), of_shards, count
        return joined(collected(frame.mapInArrow(partial(task, job), RETURNED)), expected)

    def _check_executors(self) -> None:
        """Raises CatalogError unless the executors run dpquery, see the files, and the rows are as declared."""
        reason, problems = "", list[str]()
        try:
            for part in self._run(None):
                problems += [problem for problem in part["problem"].to_pylist() if problem not in problems]
        except PySparkException as error:
            reason = type(error).__name__  # its words may quote data
        if reason:
            raise CatalogError(
                f"the executors of Spark could not check the tables ({reason}); they need dpquery and DuckDB in the "
                "versions of the driver, and see a prepared folder under the same path. Their logs say more"
            )
        if problems:
            raise CatalogError(problems)

    def _public_tables(self) -> dict[str, pa.Table]:
        """Returns the public tables for the executors, which read those of a prepared folder themselves."""
        if self._in_files:
            return {}
        made = {name: self.arrow(name) for name, table in self._catalog.tables.items() if table.public}
        if sum(table.nbytes for table in made.values()) > MOST_PUBLIC:
            raise CatalogError("the public tables are larger than 1 GB together; prepare the data")
        return made
