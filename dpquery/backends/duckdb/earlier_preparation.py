"""An earlier preparation to whose sources files were only added: files of rows that stay are linked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpquery.backends.duckdb.shard_files import make_durable
from dpquery.catalog import Table
from dpquery.catalog.names import quoted
from dpquery.data.encrypted_files import EncryptionKey
from dpquery.data.prepared import File, Manifest
from dpquery.data.sources import parquet_scan


class Unfit(Exception):
    """More changed than files that were added, so that all has to be written; found before anything is written."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A preparation of the same declarations, whose files are as they were written.

    Attributes:
        manifest: What it holds.
        folder: The folder of its files.
        key: With which they are sealed, if they are.
    """

    manifest: Manifest
    folder: Path
    key: EncryptionKey | None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files."""
        return tuple(path for table in self.manifest.tables for path in self._paths(table))

    def scan(self, table: str) -> str:
        """Returns SQL that reads all rows of a table."""
        return parquet_scan(self._paths(table), self.key)

    def _paths(self, table: str) -> list[str]:
        return [str(self.folder / file.name) for shard in self.manifest.tables[table] for file in shard]

    def type_of(self, table: str, column: str, run: Callable[[str], list[tuple[Any, ...]]]) -> str:
        """Returns the engine's type of a column of a table."""
        described = run(f"DESCRIBE SELECT {quoted(column)} FROM {self.scan(table)}")
        return str(described[0][1])

    def fits(self, sources: Mapping[str, Sequence[Sequence[str]]], owned: Sequence[Table]) -> bool:
        """Whether all files of the sources are there as they were, and every private row has an owner: then each row
        that was there is still there, and has the owner that it had, as keys of owners are unique.

        Args:
            sources: What tells the files of each table now from others, and the types with which they are read.
            owned: The tables whose rows have owners.
        """
        private = set(self.manifest.forms)
        if private != {table.name for table in owned}:
            return False
        return all(
            (before := self.manifest.sources.get(name)) and all(list(file) in given for file in before)
            for name, given in sources.items()
            if name in private
        )

    def linked(self, table: str, shard: int, cell: int, to: Path) -> list[File]:
        """Returns the file of a cell, if there is one, after making it available under another path."""
        found = [file for file in self.manifest.tables[table][shard] if file.cell == cell]
        for file in found:
            link(self.folder / file.name, to)
        return [replace(file, name=to.name) for file in found]


def link(file: Path, to: Path) -> None:
    """Makes a file available under another path, by a copy of it where the file system knows no links."""
    try:
        os.link(file, to)
    except OSError:
        shutil.copy2(file, to)
        make_durable(to)
