"""One source as a private and as a public table: its rows would be shown exactly, and nothing charged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pyarrow as pa

from dpquery.catalog import Catalog
from dpquery.data.addresses import of_version, origin_of, path_of
from dpquery.data.arrow import is_dataset_of_files
from dpquery.data.sources import Source, files_of

FEWEST_ROWS = 10
"""Tables of fewer rows may be equal by chance."""


def twice(catalog: Catalog, given: Mapping[str, object], opened: Mapping[str, Source]) -> Iterator[str]:
    """Yields which public tables have the rows of a private one: the same object, the same file or a copy of it, or,
    where both are opened, the same columns in memory."""
    public = [table for table in opened if catalog.tables[table].public]
    private = [table for table in catalog.tables if not catalog.tables[table].public and table in given]
    for one, other in product(private, public):
        origin = origin_of(other, given[other])
        is_same = not origin and given[one] is given[other] and opened[other].database is None
        if is_same or (origin and origin == origin_of(one, given[one])):
            what = "the same data"
        elif _share_a_file(_files(given[one]), _files(given[other])):
            what = "the same file"
        elif one in opened and _are_equal(opened[one].data, opened[other].data):
            what = "the same rows"
        else:
            continue
        yield (
            f"table {other} is public and has {what} as table {one}, which is private: its rows would be shown "
            "exactly and free of charge. Leave it out, or use data that everybody may know"
        )


def _files(source: object) -> tuple[str, ...]:
    """Returns the files of a source that are tables of their own, one for one."""
    if is_dataset_of_files(source):
        return tuple(path for path in source.files if os.path.isfile(path))
    path = path_of(source)
    found = files_of(path if os.path.exists(path) else of_version(path)[0]) if path else ()
    tables = tuple(path for path in found if os.path.isfile(path))
    return () if any(path.endswith((".duckdb", ".db", ".ddb")) for path in found) else tables


def _share_a_file(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_is_same(one, other) for one, other in product(some, others))


def _is_same(one: str, other: str) -> bool:
    if os.path.samefile(one, other):
        return True
    size = os.path.getsize(one)
    return 0 < size == os.path.getsize(other) and _digest(one) == _digest(other)


def _digest(path: str) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _are_equal(one: Any, other: Any) -> bool:
    """Whether of two tables in memory one has all columns of the other, with the same values in the same order."""
    if not (isinstance(one, pa.Table) and isinstance(other, pa.Table)) or len(one) != len(other):
        return False
    few, many = sorted((one, other), key=lambda table: len(table.column_names))
    if len(one) < FEWEST_ROWS or not set(few.column_names) <= set(many.column_names):
        return False
    return all(_column(few, name).equals(_column(many, name)) for name in few.column_names)


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
