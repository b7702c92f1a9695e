"""Sealed files as the engine reads and writes them: by addresses of a file system that it is given with a key.

The engine's own encryption of Parquet draws its nonces from a generator that it calls unsafe itself, and decrypts ten
times more slowly than it reads.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

from fsspec import AbstractFileSystem

from dpquery.data.sealed import Key, Reader, Writer
from dpquery.data.sources import SEALED


class SealedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system of one key: `SEALED` and a path is the address of a sealed file.

    Which addresses are opened the engine's settings say.
    """

    protocol = SEALED.removesuffix("://")
    cachable = False  # two engines have two keys

    def __init__(self, key: Key) -> None:
        super().__init__()
        self._key = key

    def open(self, path: str, mode: str = "rb", **_: Any) -> Reader | Writer:
        """Returns a file as it was before encryption."""
        return Writer(_path(path), self._key) if "w" in mode else Reader(_path(path), self._key)

    def size(self, path: str) -> int:
        """Returns how long a file was before encryption."""
        with Reader(_path(path), self._key) as file:
            return file.size

    def modified(self, path: str) -> datetime.datetime:
        """Returns when a file was changed last."""
        return datetime.datetime.fromtimestamp(os.stat(_path(path)).st_mtime, datetime.UTC)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is a file or a folder."""
        return os.path.exists(_path(path))

    def isfile(self, path: str) -> bool:
        """Whether there is a file."""
        return os.path.isfile(_path(path))

    def isdir(self, path: str) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(_path(path))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a folder that only its owner may open."""
        os.mkdir(_path(path), 0o700)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns what a folder holds."""
        found = list(os.scandir(_path(path)))
        if not detail:
            return [f"{SEALED}{entry.path}" for entry in found]
        kinds = [("directory" if entry.is_dir() else "file", entry) for entry in found]
        return [{"name": f"{SEALED}{e.path}", "type": kind, "size": e.stat().st_size} for kind, e in kinds]

    def glob(self, path: str, **_: Any) -> list[str]:
        """Returns the address itself, where there is something: names hold no patterns."""
        return [path] if self.exists(path) else []


def _path(address: str) -> str:
    return address.removeprefix(SEALED)
