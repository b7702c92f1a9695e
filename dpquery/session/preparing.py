"""Prepared data: `dp.prepare` writes a folder once for a version of the data, and sessions read that."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpquery.backends.duckdb.preparing import Preparing
from dpquery.backends.opening import is_of_spark
from dpquery.backends.resources import Resources
from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog import Catalog
from dpquery.data.prepared import MADE, MANIFEST, MOST_SHARDS, Manifest, bound_to, opened
from dpquery.errors import CatalogError, DataChangedError
from dpquery.ledger.disk import sync_folder
from dpquery.ledger.ledger import Ledger
from dpquery.session.agreed import check_ledger

try:
    import fcntl
except ImportError:  # without locks the owner has to see that one preparation runs at a time
    fcntl = None  # type: ignore[assignment]

Place = str | os.PathLike[str]


def prepare(
    catalog: Catalog | Place,
    sources: Mapping[str, object],
    folder: Place,
    *,
    ledger: Ledger | Place,
    shards: int | None = None,
    memory_limit: str | None = None,
    spill: bool | Place = True,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Returns the folder, after writing the data to it in the form that sessions read fastest.

    Owners, declared types and the rows of each unit are found once. `connect(catalog, folder, ledger=...)` then reads
    the folder and not the sources, and it does so as long as the ledger has this version of the data. The folder is a
    second copy of people's data, and only its owner may open it. A preparation that is stopped at any moment leaves
    what was there before.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: For each declared table its data, as in `connect`. If a frame of Spark is among them, Spark writes the
            shards, in executors that see the folder under the same path.
        folder: Where to write: a new or empty folder, or one that holds prepared data, which are replaced.
        ledger: The ledger, or its path or URL: the data belong to it and to its version of the data.
        shards: Into how many parts the units are cut. A statement that does not fit into memory needs several; by
            default one for each 20 million rows.
        memory_limit, spill: As in `connect`.
        say: Called with a line about each step.
    Raises:
        CatalogError: Mistakes in the catalog, data that contradict it, or a folder that cannot be written to.
        BackendError: What was written failed its check; nothing was kept.
        LedgerError: The ledger was made for other declarations.
        DataChangedError: The owner recorded a new version of the data meanwhile.
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    known = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    check_ledger(declared, known)
    if shards is not None and not (type(shards) is int and 1 <= shards <= MOST_SHARDS):
        raise CatalogError(f"the number of shards must be a whole number from 1 to {MOST_SHARDS:,}")
    if unknown := sorted(sources.keys() - declared.tables.keys()):
        raise CatalogError([f"source {name} is not a declared table" for name in unknown])
    version, place, resources = known.data_version, Path(os.path.abspath(folder)), Resources(memory_limit, spill)
    writing: Any = Preparing
    if any(map(is_of_spark, sources.values())):
        from dpquery.backends.spark.preparing import SparkPreparing as writing  # here, as others need no Spark
    with _for_itself(place):
        with _new_folder(place) as into, interruptible_work():
            with contextlib.closing(writing(declared, sources, into, resources=resources, say=say)) as work:
                count, written = work.write(shards)
            if known.data_version != version:
                raise DataChangedError("the owner recorded a new version of the data meanwhile; prepare them again")
            bound = _bound(declared, known, version)
            _commit(place, Manifest(made=into.name, bound=bound, shards=count, tables=written))
        _remove_others(place, into.name)
    return place


def sources_of(catalog: Catalog, given: Mapping[str, object] | Place, ledger: Ledger) -> Mapping[str, object]:
    """Returns sources as they are, or the tables of a prepared folder; raises CatalogError where that is not of this
    ledger, catalog and version of the data, or not as it was written."""
    if isinstance(given, Mapping):
        return given
    return opened(given, catalog, _bound(catalog, ledger, ledger.data_version))


def _bound(catalog: Catalog, ledger: Ledger, version: str) -> dict[str, str]:
    return bound_to(catalog, ledger=ledger.hash_of(0) or "", data_version=version)


@contextlib.contextmanager
def _for_itself(place: Path) -> Iterator[None]:
    """Makes a folder that only its owner may open, and keeps other preparations out of it."""
    try:
        place.mkdir(mode=0o700, parents=False, exist_ok=True)
        place.chmod(0o700)
        descriptor = os.open(place, os.O_RDONLY)
    except OSError as error:
        raise CatalogError(f"{place} cannot be made a folder for prepared data: {error.strerror}") from None
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CatalogError(f"another process is preparing data in {place}") from None
        if others := [name for name in os.listdir(place) if not _is_ours(name)]:
            raise CatalogError(f"{place} holds other files, such as {min(others)!r}; name a folder of its own")
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """Gives a new folder for the files of one preparation, which is removed again where that fails."""
    into = place / hashlib.sha256(f"{time.time_ns()} {os.getpid()}".encode()).hexdigest()[:32]
    into.mkdir(0o700)
    try:
        yield into
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def _is_ours(name: str) -> bool:
    return name in (MANIFEST, f"{MANIFEST}.new") or MADE.fullmatch(name) is not None


def _commit(place: Path, manifest: Manifest) -> None:
    """Makes a preparation the folder's, at once: the files are durable by now, and the manifest takes its name last."""
    sync_folder(place / manifest.made)
    new = place / f"{MANIFEST}.new"
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(manifest.to_json())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(place)
    os.replace(new, place / MANIFEST)
    sync_folder(place)


def _remove_others(place: Path, made: str) -> None:
    """Removes what earlier preparations left, those that were stopped too."""
    for name in os.listdir(place):
        if name != made and MADE.fullmatch(name):
            shutil.rmtree(place / name)
