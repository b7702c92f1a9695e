"""Private tables as frames of Spark, cut by unit in one shuffle for each query.

Units and the keys that lead to them are compared by Spark only where equal as stored means equal as declared. What it
finds decides where a row goes, not whom it belongs to: the engine in the executors finds owners again.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import product
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from dpquery.backends.duckdb.public_tables import needed
from dpquery.backends.duckdb.statements import TIME_LIMIT
from dpquery.backends.duckdb.time_limits import time_limit
from dpquery.backends.spark.executors import MARKER, PART, TABLE, column_name
from dpquery.catalog import Catalog, Table
from dpquery.data.addresses import is_database
from dpquery.data.owners import leading_to_owners
from dpquery.errors import CatalogError
from dpquery.plan.logical import OwnerStep, Relation, Scan, sources
from dpquery.plan.types import DATE, INT64, TEXT, Type

OWNER = " owner"
PART_BYTES = 2**27
"""Bytes of the frames, as Spark estimates them, that make one part."""
_NUMBERS = itertools.count(1)
"""Of jobs, so that one of them can be cancelled."""
_ZONE = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
"""That of moments in Arrow's schema of a frame, which Spark asks for since 4.2; before it was this one."""
Columns = Mapping[str, frozenset[str]]
"""For tables the stored columns that are read of them."""


class Frames:
    """The tables that Spark reads.

    Args:
        spark: The session.
        catalog: The declarations.
        given: For each declared table its source.
    Attributes:
        schemas: For each private table the columns that the catalog needs.
        public: The sources of public tables; what was a frame of Spark is an Arrow table.
        at_opening: What `state` said before anything was checked.
        is_cut: Whether rows have owners, so that queries move all rows of a unit to one partition.
    Raises:
        CatalogError: A source is not a frame, not the same each time it is read, or has columns that cannot be compared
            as declared; all of them at once.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, given: Mapping[str, object]) -> None:
        self._spark, self._catalog = spark, catalog
        if several := [n for n, t in catalog.tables.items() if t.ownership is not None and t.ownership.parts]:
            raise CatalogError(
                f"the unit of table {several[0]} has several columns, which the backend spark does not read; add one "
                "column to its frame that is different for each of their combinations, and name that as the unit"
            )
        if missing := [f"table {name} has no source" for name in catalog.tables if name not in given]:
            raise CatalogError(missing)
        found = {name: _frame(spark, name, given[name], table) for name, table in catalog.tables.items()}
        private = {name: f for name, f in found.items() if f is not None and not catalog.tables[name].public}
        problems = list(_unstable(private))
        for one, (other, frame) in product(private, found.items()):
            if other not in private and frame is not None and private[one].sameSemantics(frame):
                problems.append(f"table {other} is public and has the same data as table {one}, which is private")
        if problems:
            raise CatalogError(problems)
        self.public = {n: given[n] if f is None else f.toArrow() for n, f in found.items() if n not in private}
        self._frames = {name: _only(frame, needed(catalog, name)) for name, frame in private.items()}
        self.schemas = {name: to_arrow_schema(frame.schema, **_ZONE) for name, frame in self._frames.items()}
        self.at_opening = self.state()
        self.is_cut = any(table.ownership is not None for table in catalog.tables.values())
        if problems := [*self._incomparable()] or [*self._ambiguous()]:
            raise CatalogError(problems)

    def state(self) -> list[tuple[str, int, int]]:
        """Returns what tells one state of the files that Spark reads from another: their sizes and times."""
        context, found = self._spark.sparkContext, []
        for name in sorted({file for frame in self._frames.values() for file in frame.inputFiles()}):
            path = context._jvm.org.apache.hadoop.fs.Path(name)
            status = path.getFileSystem(context._jsc.hadoopConfiguration()).getFileStatus(path)
            found.append((name, status.getLen(), status.getModificationTime()))
        return found

    def parts(self) -> int:
        """Returns into how many parts the units are cut."""
        least: int = self._spark.sparkContext.defaultParallelism
        plans = [frame._jdf.queryExecution().optimizedPlan() for frame in self._frames.values()]
        size = sum(int(plan.stats().sizeInBytes()) for plan in plans)
        most = max(least, int(self._spark.conf.get("spark.sql.shuffle.partitions") or 0))
        return min(max(least, size // PART_BYTES), most)

    def rows(self, columns: Columns, *, parts: int, is_cut: bool) -> DataFrame:
        """Returns the rows of tables as one frame.

        Args:
            columns: The tables and columns that are read.
            parts: How many partitions there are.
            is_cut: Whether all rows of a unit, and equal rows without owners, are moved to one partition. Otherwise
                there are as many as the frames have, if `parts` is not 1.
        """
        placed = [
            self._placed(place, self._catalog.tables[table], columns[table], parts)
            for place, table in enumerate(self._frames)
            if table in columns
        ]
        if not is_cut:
            made = reduce(_united, placed)
            return made.coalesce(1) if parts == 1 else made
        markers = self._spark.range(0, parts, 1, 1)
        marked = markers.select(F.lit(MARKER).alias(TABLE), markers["id"].cast("int").alias(PART))
        return reduce(_united, [*placed, marked]).repartitionById(parts, F.col(_quoted(PART)))

    def read_by(self, relation: Relation | None) -> Columns:
        """Returns what is read for a relation; everything for None."""
        if relation is None:
            return {name: frozenset(schema.names) for name, schema in self.schemas.items()}
        found = dict[str, frozenset[str]]()
        for scan in (scan for scan in _scans(relation) if scan.table in self._frames):
            table = self._catalog.tables[scan.table]
            read = {column.name for column in scan.columns} | {one.column for one in scan.scaled}
            read |= set() if scan.strata is None else {scan.strata.column}
            steps = () if table.ownership is None else table.ownership.path
            for name in (scan.table, *(step.parent for step in steps)):
                found[name] = found.get(name, frozenset()) | self._always(name)
            found[scan.table] |= read
        return found

    def _always(self, name: str) -> frozenset[str]:
        """Returns the columns of a table that are read with it: of owners, of blocks, and those checked as unique."""
        table = self._catalog.tables[name]
        leading = {column for holder, column in leading_to_owners(self._catalog) if holder == name}
        blocks = set() if table.blocks is None else {table.blocks.column}
        return frozenset(leading | blocks).union(*table.unique) or frozenset(self.schemas[name].names[:1])

    def _placed(self, place: int, table: Table, columns: frozenset[str], parts: int) -> DataFrame:
        frame, names = self._owned(table), enumerate(self.schemas[table.name].names)
        by = sorted(columns) if table.ownership is None else [OWNER]
        part = F.pmod(F.xxhash64(*(F.col(_quoted(name)) for name in by)), F.lit(parts)).cast("int")
        read = [F.col(_quoted(name)).alias(column_name(place, i)) for i, name in names if name in columns]
        return frame.select(F.lit(place).alias(TABLE), part.alias(PART), *read)

    def _owned(self, table: Table) -> DataFrame:
        """Returns the frame of a table; where rows have owners of those that have one, with the OWNER as a text."""
        owner = table.ownership
        if owner is None:
            return self._frames[table.name]
        return self._led(table.name, owner.path, owner.column).filter(F.col(_quoted(OWNER)).isNotNull())

    def _led(self, name: str, path: tuple[OwnerStep, ...], column: str) -> DataFrame:
        frame = self._frames[name]
        if not path:
            return frame.withColumn(OWNER, _text(column))
        keys = [(a, b, f" key{i}") for i, (a, b, _) in enumerate(path[0].on)]
        parent = self._led(path[0].parent, path[1:], column)
        parent = parent.select(*(_text(b).alias(key) for _, b, key in keys), F.col(_quoted(OWNER)))
        child = frame.select("*", *(_text(a).alias(key) for a, _, key in keys))
        return child.join(parent, on=[key for *_, key in keys])

    def _incomparable(self) -> Iterator[str]:
        """Yields which columns tell owners and may be equal as declared where they are not as stored."""
        leading = dict[tuple[str, str], Type]()
        for table in self._catalog.tables.values():
            if table.ownership is None:
                continue
            holder = table.name
            for step in table.ownership.path:
                for a, b, type in step.on:
                    leading |= {(holder, a): type, (step.parent, b): type}
                holder = step.parent
            leading[holder, table.ownership.column] = table.ownership.type
        for (name, column), type in leading.items():
            schema = self.schemas[name]
            if column not in schema.names:
                yield f"table {name} has no column {column}"
            elif not _is_comparable(schema.field(column).type, type):
                yield (
                    f"column {column} of table {name} tells owners and is stored as {schema.field(column).type}; "
                    f"cast it in Spark to what is declared, {type}"
                )

    def _ambiguous(self) -> Iterator[str]:
        """Yields which keys of parents lead to several rows, which may be in several parts."""
        owners = [table.ownership for table in self._catalog.tables.values() if table.ownership is not None]
        keys_of = {(step.parent, tuple(b for _, b, _ in step.on)) for owner in owners for step in owner.path}
        for parent, columns in sorted(keys_of):
            keys = [_text(column).alias(f"k{i}") for i, column in enumerate(columns)]
            counted = self._frames[parent].select(*keys).dropna().groupBy(*(f"k{i}" for i in range(len(keys)))).count()
            if counted.filter("count > 1").limit(1).count():
                yield f"a table is owned through {parent}({', '.join(columns)}), which is not unique there"


def session_of(sources: Mapping[str, object]) -> SparkSession:
    """Returns the session of the frames, else the active one, or a new one as Spark is configured."""
    frames = [source for source in sources.values() if isinstance(source, DataFrame)]
    found = frames[0].sparkSession if frames else SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not hasattr(found, "_jsparkSession"):
        raise CatalogError("a session of Spark Connect was given; the backend spark needs one in the driver's process")
    return found


def collected(frame: DataFrame) -> pa.Table:
    """Returns the rows of a frame, within the time limit of statements, and as long as its query is not cancelled."""
    context, tag = frame.sparkSession.sparkContext, f"dpquery-{os.getpid()}-{next(_NUMBERS)}"
    context.addJobTag(tag)
    try:
        with time_limit(lambda: context.cancelJobsWithTag(tag), TIME_LIMIT):
            return frame.toArrow()
    finally:
        context.removeJobTag(tag)


def _frame(spark: SparkSession, name: str, source: object, table: Table) -> DataFrame | None:
    """Returns the frame of a source; None for a public one that Spark does not read."""
    if isinstance(source, DataFrame):
        return source
    if isinstance(source, str | os.PathLike) and not is_database(source):
        text = os.fspath(source)
        if spark.catalog.tableExists(text) if _is_name(text) else False:
            return spark.table(text)
        if not table.public:
            return spark.read.load(text)
    if table.public:
        return None
    kinds = "a DataFrame of Spark, the name of a table in its catalog, or a path that it reads"
    raise CatalogError(f"the source of table {name} is a {type(source).__name__}; the backend spark reads {kinds}")


def _is_name(text: str) -> bool:
    return all(part.replace("_", "a").isalnum() for part in text.split("."))


def _unstable(frames: Mapping[str, Any]) -> Iterator[str]:
    """Yields which frames are not the same rows each time they are read: a row could be counted twice."""
    for name, frame in frames.items():
        if not frame._jdf.queryExecution().analyzed().deterministic():
            yield f"the frame of table {name} is not the same each time it is read; write it to a table first"


def _only(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Returns a frame with those of its columns that are needed."""
    return frame.select(*(F.col(_quoted(name)) for name in columns if name in frame.columns))


def _is_comparable(stored: pa.DataType, type: Type) -> bool:
    """Whether values that are equal as declared are equal as texts of Spark."""
    if pa.types.is_integer(stored):
        return type in (INT64, TEXT)
    if pa.types.is_decimal(stored):
        return str(type) == f"decimal({stored.precision},{stored.scale})"  # equal numbers of one scale are one text
    return (pa.types.is_string(stored) and type == TEXT) or (pa.types.is_date(stored) and type == DATE)


def _united(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _text(column: str) -> Any:
    return F.col(_quoted(column)).cast("string")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _scans(relation: Relation) -> Iterator[Scan]:
    if isinstance(relation, Scan):
        yield relation
    for source in sources(relation):
        yield from _scans(source)
