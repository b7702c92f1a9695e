"""Prepared data written by Spark: one task for each shard, with the code that writes a shard on one machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException

from dpquery.backends.duckdb.earlier_preparation import Earlier
from dpquery.backends.duckdb.preparing import Preparing, Say, Share, Written
from dpquery.backends.resources import Resources
from dpquery.backends.spark.executors import FACTS, RETURNED, Job, joined, prepared_of_rows
from dpquery.backends.spark.frames import Frames, collected, session_of
from dpquery.catalog import Catalog
from dpquery.data.cells import Cut
from dpquery.data.prepared import File
from dpquery.data.stored_encodings import Forms
from dpquery.errors import CatalogError
from dpquery.kernel.plan import Lattice


class SparkPreparing:
    """Tables of Spark to be written once; see `Preparing`, whose arguments these are.

    Args:
        into: An empty folder that all executors see under this path.
        earlier: None: each time everything is written.
    Attributes:
        cuts: No shard is cut by date.
        sources: Nothing tells the rows of frames from others, so no later preparation keeps files of this one.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, object],
        into: Path,
        *,
        lattices: Mapping[str, Mapping[str, Lattice]],
        earlier: Earlier | None,
        resources: Resources,
        say: Say | None,
    ) -> None:
        assert earlier is None
        self.cuts, self.sources = dict[str, Cut](), dict[str, list[list[str]]]()
        self._spark = session_of(sources)
        self._frames = Frames(self._spark, catalog, sources)
        self._catalog, self._into, self._resources, self._say = catalog, into, resources, say or (lambda line: None)
        empty = {name: schema.empty_table() for name, schema in self._frames.schemas.items()}
        given, share = {**empty, **self._frames.public}, Share(into.name, None, 1)
        self._public = Preparing(catalog, given, into, lattices=lattices, resources=resources, share=share)
        self._lattices = lattices

    @property
    def forms(self) -> dict[str, Forms]:
        """The further columns of each private table."""
        return self._public.forms

    def write(self, shards: int | None) -> tuple[int, Written]:
        """Returns how many shards there are, and the files of each table, by shard; see `Preparing`."""
        count = shards or self._frames.parts()
        public = self._public.write(1)[1]
        schemas = self._frames.schemas
        context = self._spark.sparkContext
        job = Job(
            catalog=self._catalog,
            aggregate=None,
            key=0,
            public=context.broadcast({name: self._public.arrow(name) for name in public}),
            private=schemas,
            is_cut=True,
            prepared={},
            stamps={},
            resources=self._resources,
        )
        task = partial(prepared_of_rows, job, str(self._into), Share(self._into.name, None, count), self._lattices)
        rows = self._frames.rows(self._frames.read_by(None), parts=count, is_cut=True)
        self._say(f"{count} {'shard' if count == 1 else 'shards'}, each in a task of Spark")
        reason = ""
        try:
            parts = joined(collected(rows.mapInArrow(task, RETURNED)), count)
        except PySparkException as error:
            reason = f"{type(error).__name__} in an executor; its log says where"  # its words may quote data
        else:
            reason = "a source was changed meanwhile" if self._frames.state() != self._frames.at_opening else ""
        if reason:
            raise CatalogError(f"the data could not be prepared: {reason}")
        found = [row for part in parts for row in part.to_pylist()]
        for row in found:
            self._move(row["folder"], row["name"])
        for other in (entry for entry in self._into.iterdir() if entry.is_dir()):  # of tasks that ran twice, too
            shutil.rmtree(other)
        self._say("verified")
        for table in schemas:
            of_table = ({name: row[name] for name in FACTS} for row in found if row["table"] == table)
            public[table] = tuple((File(**facts),) for facts in of_table)
        return count, public

    def close(self) -> None:
        """Ends the driver's engine."""
        self._public.close()

    def _move(self, folder: str, file: str) -> None:
        try:
            os.rename(self._into / folder / file, self._into / file)
        except OSError:
            raise CatalogError("the executors do not write to the folder that the driver sees") from None
