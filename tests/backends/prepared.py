"""Backends over prepared data, in a number of shards, with the same constructor as the other backends under test."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.session.preparing import sources_of
from tests.backends.engines import Engine


def prepared(shards: int, read: Callable[..., Backend] = DuckDBBackend) -> Engine:
    """Returns a constructor of backends that read what was prepared of the frames.

    Args:
        read: Opens the tables of a prepared folder.
    """

    def opened(catalog: Catalog, sources: Mapping[str, object]) -> Backend:
        folder = Path(tempfile.mkdtemp())
        ledger = dp.create_ledger(catalog, folder / "ledger")
        try:
            declared = {table: sources[table] for table in catalog.tables if table in sources}
            dp.prepare(catalog, declared, folder / "data", ledger=ledger, shards=shards)
            backend = read(catalog, sources_of(catalog, folder / "data", ledger))
        except BaseException:
            shutil.rmtree(folder)
            raise
        finally:
            ledger.close()
        weakref.finalize(backend, shutil.rmtree, folder)
        return backend

    return opened
