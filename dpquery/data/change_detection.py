"""What was checked when a session opened, or counted since, stays as it was: which rows are unique, which parent owns a
row, and of public tables the values of keys and the sizes that bound work.

Frames are copied, for their memory is the caller's. What lies elsewhere is read once. Files are looked at again before
each release, and none runs once one of them was replaced or written to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dpquery.catalog import Catalog
from dpquery.data.owners import leading_to_owners
from dpquery.data.sources import Source
from dpquery.errors import BackendError

Stamp = tuple[object, ...]
"""What tells one state of a file from another, without reading it."""


def relied_on(catalog: Catalog) -> frozenset[str]:
    """Returns the tables of which the promise takes something that only a look at their rows shows."""
    looked_at = {table.name for table in catalog.tables.values() if table.unique or table.public}
    owners = (table.ownership for table in catalog.tables.values() if table.ownership is not None)
    return frozenset(looked_at | {step.parent for owner in owners for step in owner.path})


def held(sources: Mapping[str, Source], tables: Iterable[str]) -> dict[str, Source]:
    """Returns the sources, those of the tables with memory of their own."""
    return {**sources, **{table: _held(sources[table]) for table in tables}}


def with_weighed_held(catalog: Catalog, sources: Mapping[str, Source]) -> dict[str, Source]:
    """Returns the sources, those of tables whose rows have owners with memory of their own for what rows weigh by.

    These are the columns that lead to the owner, that of the block, that of the stratum, and those with a total: rows
    of frames are counted, and their values added up, once.
    """
    made, leading = dict(sources), leading_to_owners(catalog)
    for table in catalog.tables.values():
        if table.ownership is None or table.name not in made:
            continue
        columns = {column for holder, column in leading if holder == table.name}
        columns |= set() if table.blocks is None else {table.blocks.column}
        columns |= set() if table.strata is None else {table.strata.column}
        columns |= {column.name for column in table.columns.values() if column.max_total is not None}
        made[table.name] = _with_held(made[table.name], columns)
    return made


def _with_held(source: Source, columns: Iterable[str]) -> Source:
    if not isinstance(source.data, pa.Table) or source.is_own:
        return source
    data = source.data
    for column in sorted(set(columns) & set(data.column_names)):
        place = data.column_names.index(column)
        data = data.set_column(place, data.field(place), _copied(data.select([column]))[column])
    return replace(source, data=data)


def _held(source: Source) -> Source:
    if not isinstance(source.data, pa.Table) or source.is_own:
        return source
    return replace(source, data=_copied(source.data))


def _copied(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


class Files:
    """The files of tables as they were when they were checked.

    A DuckDB file is not among them: an attached one is not written to, and one that replaces it is not read.
    """

    def __init__(self, sources: Mapping[str, Source], tables: Iterable[str]) -> None:
        self._sources = {table: sources[table] for table in tables}
        self._stamps = {table: stamps_of(source) for table, source in self._sources.items()}

    def check(self) -> None:
        """Raises BackendError if a file is not what it was."""
        for table, source in self._sources.items():
            if stamps_of(source) != self._stamps[table]:
                raise BackendError(
                    f"the file of table {table} was changed after it was checked, so the privacy guarantee might "
                    "not hold; nothing was charged. Close this session and open a new one"
                )


def stamps_of(source: Source) -> tuple[Stamp, ...]:
    """Returns what tells one state of a source's files from another; frames have none, because they stay."""
    if source.data is None or isinstance(source.data, pa.Table):
        return tuple(_stamp(file) for file in source.files)
    files: Any = source.data
    return tuple((i.path, i.type.name, i.size, i.mtime_ns) for i in files.filesystem.get_file_info(files.files))


def _stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except OSError:
        return (file,)
    return file, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
