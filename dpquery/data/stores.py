"""Files in object stores (S3, Google, Azure), through Arrow's file systems, and files that a web server gives."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as fs

from dpquery.data.addresses import scheme_of
from dpquery.errors import CatalogError

STORES = ("s3", "gs", "gcs", "abfs", "abfss")
WEB = ("http", "https")
PATIENCE = 60
"""Seconds that a web server may be silent."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file elsewhere: its path, of which the ending counts, and how it is opened."""

    path: str
    open: Callable[[], Any]


class ObjectStore:
    """What an address means: the file, or the Parquet files in a folder, or what a glob matches.

    Its methods raise errors of Arrow and the operating system, whose words may hold keys; see `reason`.
    """

    def __init__(self, address: str) -> None:
        self.files: tuple[StoredFile, ...]
        self.is_delta, self._infos = False, tuple[Any, ...]()
        if scheme_of(address) in WEB:
            self.files = (StoredFile(urlsplit(address).path, lambda: pa.BufferReader(_downloaded(address))),)
            return
        parts = urlsplit(address)
        options = f"?{parts.query}" if parts.query else ""
        self._system, base = fs.FileSystem.from_uri(f"{parts.scheme}://{parts.netloc}{options}")
        path = f"{base.rstrip('/')}/{unquote(parts.path).strip('/')}".rstrip("/")
        found = self._globbed(path) if "*" in path else [self._system.get_file_info(path)]
        if len(found) == 1 and found[0].type == fs.FileType.Directory:
            self.is_delta = self._system.get_file_info(f"{path}/_delta_log").type == fs.FileType.Directory
            found = [] if self.is_delta else self._globbed(f"{path}/**/*.parquet")
        paths = sorted(info.path for info in found if info.type == fs.FileType.File)
        self.files = tuple(StoredFile(path, partial(self._system.open_input_file, path)) for path in paths)
        self._infos = self._states()

    def check(self) -> None:
        """Raises CatalogError where a file was replaced since it was found."""
        if self._infos and self._infos != self._states():
            raise CatalogError("it was changed while it was read")

    def _states(self) -> tuple[Any, ...]:
        infos = self._system.get_file_info([file.path for file in self.files])
        return tuple((info.path, info.type.name, info.size, info.mtime_ns) for info in infos)

    def _globbed(self, pattern: str) -> list[Any]:
        """Returns what a pattern matches as a whole, hidden files not."""
        folder, matches = pattern.partition("*")[0].rpartition("/")[0], as_regex(pattern)
        is_deep = "/" in pattern[len(folder) + 1 :]
        found = self._system.get_file_info(fs.FileSelector(folder, recursive=is_deep, allow_not_found=True))
        return [i for i in found if matches.fullmatch(i.path) and not i.base_name.startswith((".", "_"))]


def as_regex(pattern: str) -> re.Pattern[str]:
    """Returns what a glob matches: * within a name, **/ any number of folders.

    Example:
        >>> bool(as_regex("b/**/*.csv").fullmatch("b/2024/05/x.csv"))
        True
        >>> bool(as_regex("b/*.csv").fullmatch("b/2024/x.csv"))
        False
    """
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*)", pattern)))


def reason(error: Exception) -> str:
    """Returns what may be said of an error while files elsewhere were read."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code}"
    found = re.search(r"AWS Error ([A-Z_]+)", str(error))
    return type(error).__name__ if found is None else f"the store answers {found[1]}"


def _downloaded(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        if scheme_of(answer.geturl()) != scheme_of(address):
            raise CatalogError("it leads to an address of another kind")
        data: bytes = answer.read()
        return data
