"""Prepared data: `dp.prepare` writes a folder once for a version of the data, and sessions read that."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpquery.backends.duckdb.earlier_preparation import Earlier, Unfit
from dpquery.backends.duckdb.erasing import written_without
from dpquery.backends.duckdb.preparing import Preparing
from dpquery.backends.duckdb.shard_files import make_durable
from dpquery.backends.opening import is_of_spark
from dpquery.backends.resources import Resources
from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog import Catalog
from dpquery.catalog.rows import rows_of
from dpquery.data.addresses import is_database
from dpquery.data.encrypted_files import EncryptionKey, create, key_of
from dpquery.data.prepared import MADE, MANIFEST, MOST_SHARDS, Manifest, bound_to, manifest_of, opened
from dpquery.errors import CatalogError, DataChangedError
from dpquery.kernel.plan import Lattice
from dpquery.ledger.disk import sync_folder
from dpquery.ledger.ledger import Ledger
from dpquery.plan.types import Kind
from dpquery.planner.protect.lattices import for_sum
from dpquery.session.ledger_match import check_ledger

try:
    import fcntl
except ImportError:  # without locks the owner has to see that one preparation runs at a time
    fcntl = None  # type: ignore[assignment]

Place = str | os.PathLike[str]
_NUMBERS = (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL)


def prepare(
    catalog: Catalog | Place,
    sources: Mapping[str, object] | str,
    folder: Place,
    *,
    ledger: Ledger | Place,
    shards: int | None = None,
    memory_limit: str | None = None,
    spill: bool | Place = True,
    key: object = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Returns the folder, after writing the data to it in the form that sessions read fastest.

    Owners, declared types and the rows of each unit are found once. `connect(catalog, folder, ledger=...)` then reads
    the folder and not the sources, and it does so as long as the ledger has this version of the data. The folder is a
    second copy of people's data, and only its owner may open it. A preparation that is stopped at any moment leaves
    what was there before.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: For each declared table its data, or the address of a database, as in `connect`. If a frame of Spark is
            among them, Spark writes the shards, in executors that see the folder under the same path.
        folder: Where to write: a new or empty folder, or one that holds prepared data, which are replaced.
        ledger: The ledger, or its path or URL: the data belong to it and to its version of the data.
        shards: Into how many parts the units are cut. A statement that does not fit into memory needs several; by
            default one for each 20 million rows.
        memory_limit, spill: As in `connect`.
        key: Encrypts what is written, and is needed to read it: 32 bytes, a string of 64 hexadecimal digits, or the
            `pathlib.Path` of a file with one that only its owner may read. None for what the environment's
            `DPQUERY_KEY` says, or else no encryption.
        say: Called with a line about each step.
    Raises:
        CatalogError: Mistakes in the catalog, data that contradict it, or a folder that cannot be written to.
        BackendError: What was written failed its check; nothing was kept.
        LedgerError: The ledger was made for other declarations.
        DataChangedError: The owner recorded a new version of the data meanwhile.
    Example:
        >>> import pandas as pd
        >>> import dpquery as dp
        >>> frame = pd.DataFrame({"patient": [1, 2], "region": ["east", "west"], "cost": [20.0, 80.0]})
        >>> place = dp.prepare(catalog, {"visits": frame}, folder / "prepared", ledger=ledger)
        >>> with dp.connect(catalog, place, ledger=ledger) as prepared:
        ...     len(prepared.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1))
        1
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    known = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    check_ledger(declared, known)
    if shards is not None and not (type(shards) is int and 1 <= shards <= MOST_SHARDS):
        raise CatalogError(f"the number of shards must be a whole number from 1 to {MOST_SHARDS:,}")
    sources = dict.fromkeys(declared.tables, sources) if isinstance(sources, str) else sources
    if unknown := sorted(sources.keys() - declared.tables.keys()):
        raise CatalogError([f"source {name} is not a declared table" for name in unknown])
    version, place, resources = known.data_version, Path(os.path.abspath(folder)), Resources(memory_limit, spill)
    held, in_spark = key_of(key), any(map(is_of_spark, sources.values()))
    writing: Any = functools.partial(Preparing, key=held)
    if in_spark and held is not None:
        raise CatalogError("executors of Spark have no key, so they write no encrypted data; prepare from files")
    if in_spark:
        from dpquery.backends.spark.preparing import SparkPreparing as writing  # here, as others need no Spark
    with _for_itself(place):
        earlier = None if in_spark else _earlier(declared, known, place, shards, held)
        with _new_folder(place) as into, interruptible_work():
            for before in (earlier, None):
                lattices = _lattices(declared)
                preparing = writing(
                    declared, sources, into, lattices=lattices, earlier=before, resources=resources, say=say
                )
                with contextlib.closing(preparing) as work, contextlib.suppress(Unfit):
                    count, written = work.write(shards)
                    break
            if known.data_version != version:
                raise DataChangedError("the owner recorded a new version of the data meanwhile; prepare them again")
            manifest = Manifest(
                made=into.name,
                bound=_bound(declared, known, version),
                shards=count,
                tables=written,
                forms=work.forms,
                cuts=work.cuts,
                sources=work.sources,
            )
            _commit(place, manifest, held)
        _remove_others(place, into.name)
    return place


def _earlier(
    catalog: Catalog, ledger: Ledger, place: Path, shards: int | None, key: EncryptionKey | None
) -> Earlier | None:
    """Returns what the folder holds, if it is of the same declarations and shards, and as it was written."""
    try:
        manifest = manifest_of(place, key)
        opened(place, catalog, _bound(catalog, ledger, manifest.bound.get("data_version", "")), key)
    except CatalogError:
        return None
    return Earlier(manifest, place / manifest.made, key) if shards in (None, manifest.shards) else None


def erase(
    catalog: Catalog | Place,
    folder: Place,
    unit: object,
    *,
    ledger: Ledger | Place,
    by: str,
    memory_limit: str | None = None,
    spill: bool | Place = True,
    key: object = None,
) -> Path:
    """Returns a prepared folder after removing all rows of one privacy unit from it, and what was there before.

    The data are another version then, which the ledger records; answers that were given stay. The sources are not
    touched: remove the person there too, or the next preparation brings their rows back. Where this is stopped after
    the ledger recorded the version, the folder is refused, and has to be prepared again.

    Args:
        catalog: The declarations, or the path of their YAML file.
        folder: What `prepare` made of the version of the data that the ledger has now.
        unit: The value that identifies it, as it is declared.
        ledger: The ledger, or its path or URL.
        by: Who erases, for the ledger, which is not told whom.
        memory_limit, spill: As in `connect`.
        key: As in `prepare`, with which the folder was written.
    Raises:
        CatalogError: The folder cannot be used, or holds no row of the unit.
        LedgerError: The ledger was made for other declarations.
    Example:
        >>> import pandas as pd
        >>> import dpquery as dp
        >>> frame = pd.DataFrame({"patient": [1, 2], "region": ["east", "west"], "cost": [20.0, 80.0]})
        >>> known = dp.create_ledger(catalog, folder / "erased")
        >>> place = dp.prepare(catalog, {"visits": frame}, folder / "kept", ledger=known)
        >>> dp.erase(catalog, place, 2, ledger=known, by="owner") == place
        True
        >>> [entry.why for entry in known.entries()]
        ['a privacy unit was erased']
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    known = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    check_ledger(declared, known)
    place, resources, held = Path(os.path.abspath(folder)), Resources(memory_limit, spill), key_of(key)
    with _for_itself(place):
        sources_of(declared, place, known, held)
        before = manifest_of(place, held)
        with _new_folder(place) as into, interruptible_work():
            tables = written_without(str(unit), declared, before, place, into, resources, held)
            version = known.new_data_version(by=by, why="a privacy unit was erased")
            _commit(place, replace(before, made=into.name, bound=_bound(declared, known, version), tables=tables), held)
        _remove_others(place, into.name)
    return place


def remove(folder: Place) -> None:
    """Removes what `prepare` wrote to a folder; the folder itself, and the lock on it, stay.

    Raises:
        CatalogError: It is no such folder, or holds other files.
    """
    place = Path(os.path.abspath(folder))
    if not place.is_dir():
        raise CatalogError(f"there is no folder {place}")
    with _for_itself(place):
        (place / MANIFEST).unlink(missing_ok=True)
        _remove_others(place, "")
        sync_folder(place)


def sources_of(
    catalog: Catalog, given: Mapping[str, object] | Place, ledger: Ledger, key: object = None
) -> Mapping[str, object]:
    """Returns sources as they are, all tables of a database, or those of a prepared folder; raises CatalogError where
    that is not of this ledger, catalog and version of the data, or not as it was written."""
    if isinstance(given, Mapping):
        return given
    if is_database(given):
        return dict.fromkeys(catalog.tables, given)
    if Path(given).is_file():
        example = f"{{{next(iter(catalog.tables))!r}: {str(given)!r}}}"
        raise CatalogError(f"{given} is a file: name its table, as {example}; a folder has prepared data")
    return opened(given, catalog, _bound(catalog, ledger, ledger.data_version), key_of(key))


def _lattices(catalog: Catalog) -> dict[str, dict[str, Lattice]]:
    """Returns for each private table the lattices on which plans put its numbers, as long as they clamp them to no
    other bounds and no unit's rows are multiplied: what is stored serves sums, averages and quantiles."""
    made = dict[str, dict[str, Lattice]]()
    for table in catalog.tables.values():
        if table.public:
            continue
        rows = rows_of(table, catalog)
        ranges = {c.name: (c.type, c.range) for c in table.columns.values() if c.type.kind in _NUMBERS}
        made[table.name] = {
            name: for_sum(type, range.lower, range.upper, rows if isinstance(rows, int) else 1)
            for name, (type, range) in ranges.items()
            if range.lower is not None and range.upper is not None
        }
    return made


def _bound(catalog: Catalog, ledger: Ledger, version: str) -> dict[str, str]:
    return bound_to(catalog, ledger=ledger.hash_of(0) or "", data_version=version)


@contextlib.contextmanager
def _for_itself(place: Path) -> Iterator[None]:
    """Makes a folder that only its owner may open, and keeps other preparations out of it."""
    try:
        place.mkdir(mode=0o700, parents=False, exist_ok=True)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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
        _make_private(place, descriptor)
        yield
    finally:
        os.close(descriptor)


def _make_private(place: Path, descriptor: int) -> None:
    try:
        os.fchmod(descriptor, 0o700)
    except OSError as error:
        raise CatalogError(f"{place} cannot be made a folder of your own: {error.strerror}") from None


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


def _commit(place: Path, manifest: Manifest, key: EncryptionKey | None) -> None:
    """Makes a preparation the folder's, at once: the files are durable by now, and the manifest takes its name last."""
    sync_folder(place / manifest.made)
    new = place / f"{MANIFEST}.new"
    new.unlink(missing_ok=True)
    with create(new, key) as file:
        file.write(manifest.to_json().encode())
    make_durable(new)
    sync_folder(place)
    os.replace(new, place / MANIFEST)
    sync_folder(place)


def _remove_others(place: Path, made: str) -> None:
    """Removes what earlier preparations left, those that were stopped too."""
    for name in os.listdir(place):
        if name != made and MADE.fullmatch(name):
            shutil.rmtree(place / name)
