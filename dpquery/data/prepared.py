"""Prepared data: a folder of Parquet files cut by privacy unit, and the manifest that says which files these are.

A folder is read as it was written or not at all: every file has the size and the digest of the manifest, says itself
which preparation, table and shard it is of, and the units of no two shards overlap. docs/proofs/shards.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as parquet

from dpquery.catalog import Catalog, Table
from dpquery.catalog.names import plain
from dpquery.data.cells import Cut
from dpquery.data.encrypted_files import VARIABLE, DamagedError, EncryptedFileReader, EncryptionKey, is_sealed
from dpquery.data.stored_encodings import Forms, step_of
from dpquery.errors import CatalogError
from dpquery.units.blocks import Touched

FORMAT = 2
MANIFEST = "manifest.json"
OWNER, CODE, ROWS = " unit", " code", " rows"
"""Columns beside the declared ones, by names that no declared column can have: the unit of a row that another table
leads to, the unit's number, and how many rows the unit has in the table (in the row's block of it)."""
MOST_SHARDS = 10_000
MADE = re.compile(r"[0-9a-f]{32}")
"""Names of preparations."""
_FILE = re.compile(r"[0-9]+-[0-9]{4}-[0-9]+\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a table.

    Attributes:
        name: In the folder of the preparation.
        size: In bytes.
        digest: SHA-256 in hexadecimal.
        cell: Which cell of the table's shard it holds; 0 where that is not cut.
        made: The preparation that wrote it; another one where it was kept from that.
    """

    name: str
    size: int
    digest: str
    cell: int
    made: str


Files = tuple[tuple[File, ...], ...]
"""The files of a table, by shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTable:
    """A table of a prepared folder: a source that is read as it is.

    Attributes:
        name: Its name in the catalog.
        shards: The paths of its files and the cell of each, by shard; a public table is one shard.
        most_rows: No unit has more rows in the table, or in a block of it; 0 where rows have no owner.
        forms: Its further columns.
        cut: How each shard is cut, or None.
        rows: How many rows each file has, by its path.
        key: Of its files, where these are sealed.
    """

    name: str
    shards: tuple[tuple[tuple[str, int], ...], ...]
    most_rows: int
    forms: Forms
    cut: Cut | None
    rows: Mapping[str, int]
    key: EncryptionKey | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files."""
        return tuple(path for shard in self.shards for path, _ in shard)

    def read(self, touched: Touched) -> tuple[tuple[str, ...], ...]:
        """Returns for each shard the files that may hold rows of these periods of the column by which it is cut."""
        if self.cut is None:
            return tuple(tuple(path for path, _ in shard) for shard in self.shards)
        kept = [[path for path, cell in shard if self.cut.meets(cell, touched)] for shard in self.shards]
        return tuple(tuple(k or [shard[0][0]]) for k, shard in zip(kept, self.shards, strict=True))


def bound_to(catalog: Catalog, *, ledger: str, data_version: str) -> dict[str, str]:
    """Returns what prepared data belong to, as the manifest holds it.

    Bounds, keys, budgets and `max_rows` are not part of it: they may change without a new preparation.

    Args:
        catalog: The declarations.
        ledger: The hash of the ledger's founding document.
        data_version: The ledger's version of the data.
    """
    facts = {"unit": catalog.privacy_unit, "tables": {name: _facts(table) for name, table in catalog.tables.items()}}
    text = json.dumps(facts, sort_keys=True)
    return {
        "dataset": catalog.dataset,
        "catalog": hashlib.sha256(text.encode()).hexdigest(),
        "ledger": ledger,
        "data_version": data_version,
    }


def _facts(table: Table) -> dict[str, Any]:
    """Returns what is written of a table follows from."""
    owner = table.ownership
    steps = [] if owner is None else [[s.parent, [[c, p, str(type)] for c, p, type in s.on]] for s in owner.path]
    parts = [] if owner is None else [[name, str(type)] for name, type in owner.parts]
    return {
        "public": table.public,
        "owner": None if owner is None else [steps, owner.column, str(owner.type), *parts],
        "unique": sorted(sorted(columns) for columns in table.unique),
        "blocks": None if table.blocks is None else [table.blocks.column, table.blocks.by.value],
        "columns": [[c.name, str(c.type), c.max_length, c.zone] for c in table.columns.values()],
    }


def labels(made: str, table: str, shard: int, cell: int) -> dict[str, str]:
    """Returns what a file says of itself in its footer."""
    return {"dpquery_made": made, "dpquery_table": table, "dpquery_shard": str(shard), "dpquery_cell": str(cell)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a folder holds.

    Attributes:
        made: The name of the preparation, 32 hexadecimal digits, and of the folder of its files.
        bound: What it belongs to; see `bound_to`.
        shards: Into how many parts the units are cut.
        tables: For each table its files.
        forms: The further columns of each private table.
        cuts: How shards of tables are cut by date, of those that are.
        sources: What tells the files that were read of each table from others, and the types of their columns.
    """

    made: str
    bound: Mapping[str, str]
    shards: int
    tables: Mapping[str, Files]
    forms: Mapping[str, Forms]
    cuts: Mapping[str, Cut]
    sources: Mapping[str, list[list[str]]]

    def to_json(self) -> str:
        """Returns the text of the file, whose last line is the digest of those before it."""
        content = {"format": FORMAT, "made": self.made, "shards": self.shards, "bound": dict(self.bound)}
        content["forms"] = {name: forms.to_json() for name, forms in self.forms.items()}
        content["sources"] = dict(self.sources)
        content["cuts"] = {name: cut.to_json() for name, cut in self.cuts.items()}
        tables = {
            name: [[[file.name, file.size, file.digest, file.cell, file.made] for file in shard] for shard in files]
            for name, files in self.tables.items()
        }
        text = json.dumps(content | {"tables": tables}, indent=1, ensure_ascii=False)
        return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n"

    @staticmethod
    def from_json(text: str, folder: Path) -> Manifest:
        """Returns the manifest that `to_json` wrote; raises CatalogError for any other text."""
        body, _, digest = text.removesuffix("\n").rpartition("\n")
        if hashlib.sha256(body.encode()).hexdigest() != digest:
            _refuse(folder, "its manifest is not as it was written")
        try:
            content = json.loads(body)
            if content["format"] != FORMAT:
                _refuse(folder, f"it has format {content['format']!r}, and this version reads format {FORMAT}")
            tables = {
                str(name): tuple(tuple(_file(*facts) for facts in shard) for shard in files)
                for name, files in content["tables"].items()
            }
            forms = {str(name): Forms.from_json(said) for name, said in content["forms"].items()}
            cuts = {str(name): Cut.from_json(said) for name, said in content["cuts"].items()}
            made, shards, bound = str(content["made"]), int(content["shards"]), dict(content["bound"])
            given = {str(n): [list(map(str, stamp)) for stamp in stamps] for n, stamps in content["sources"].items()}
            return Manifest(made=made, bound=bound, shards=shards, tables=tables, forms=forms, cuts=cuts, sources=given)
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            _refuse(folder, "its manifest has another form")


def _file(name: str, size: int, digest: str, cell: int, made: str) -> File:
    return File(name=str(name), size=int(size), digest=str(digest), cell=int(cell), made=str(made))


def opened(
    folder: str | os.PathLike[str], catalog: Catalog, bound: Mapping[str, str], key: EncryptionKey | None
) -> dict[str, PreparedTable]:
    """Returns the tables of a prepared folder, each file of which was read and is as it was written.

    Args:
        folder: What `dpquery prepare` made.
        catalog: The declarations.
        bound: What the data have to belong to; see `bound_to`.
        key: With which they were sealed; None where they were not.
    Raises:
        CatalogError: The folder is not one, was made for something else, is not as it was written, or other users may
            write to it.
    """
    place = Path(os.path.abspath(folder))
    manifest = manifest_of(place, key)
    for what, words in _BOUND.items():
        if manifest.bound.get(what) != bound[what]:
            _refuse(place, words)
    if manifest.tables.keys() != catalog.tables.keys() or not 1 <= manifest.shards <= MOST_SHARDS:
        _refuse(place, "its tables are not those of the catalog")
    if not MADE.fullmatch(manifest.made):
        _refuse(place, "its manifest names a folder outside of it")
    _require_own(place, place / manifest.made, stat.S_ISDIR)
    listed = [file.name for _, _, file in _every_file(manifest)]
    if len(set(listed)) < len(listed):
        _refuse(place, "its manifest lists a file twice")
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        list(threads.map(lambda facts: _check_file(place, manifest, key, *facts), _every_file(manifest)))
    _check_shards(place, manifest, catalog, key)
    made = {}
    for name, files in manifest.tables.items():
        parts = tuple(tuple((_path(place, manifest, file), file.cell) for file in shard) for shard in files)
        paths = [path for shard in parts for path, _ in shard]
        has_owners = catalog.tables[name].ownership is not None
        rows = [most for path in paths for _, most in _ends(place, path, ROWS, key)] if has_owners else []
        forms = manifest.forms.get(name, Forms())
        _check_forms(place, paths, forms, key)
        most, cut = max(rows, default=0), manifest.cuts.get(name)
        counts = {path: _footer(place, Path(path), key).num_rows for path in paths}
        made[name] = PreparedTable(name=name, shards=parts, most_rows=most, forms=forms, cut=cut, rows=counts, key=key)
    return made


def manifest_of(place: Path, key: EncryptionKey | None = None) -> Manifest:
    """Returns the manifest of a prepared folder; raises CatalogError where it has none that was written as it is, or
    another key is needed."""
    _require_own(place, place, stat.S_ISDIR)
    if not os.path.lexists(place / MANIFEST):
        _refuse(place, f"it has no {MANIFEST}, so it is not, or not completely, written by dpquery prepare")
    _require_own(place, place / MANIFEST, stat.S_ISREG)
    return Manifest.from_json(_read(place, place / MANIFEST, key).decode(errors="replace"), place)


_BOUND = {
    "dataset": "it was prepared for another dataset",
    "catalog": "the catalog declares other tables, columns or owners than when it was prepared. Prepare the data again",
    "ledger": "it was prepared for another ledger",
    "data_version": "it holds another version of the data than the ledger records. Prepare the data again",
}
"""What is said where prepared data do not belong to a session."""


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _every_file(manifest: Manifest) -> list[tuple[str, int, File]]:
    """Returns table, shard, and what the manifest says of each file."""
    return [
        (name, shard, file)
        for name, files in manifest.tables.items()
        for shard, parts in enumerate(files)
        for file in parts
    ]


def _path(place: Path, manifest: Manifest, file: File) -> str:
    if not _FILE.fullmatch(file.name):
        _refuse(place, "its manifest names a file outside of it")
    return str(place / manifest.made / file.name)


def _check_file(place: Path, manifest: Manifest, key: EncryptionKey | None, table: str, shard: int, file: File) -> None:
    """Raises CatalogError unless a file is what the manifest says, and of this preparation, table, shard and cell."""
    path = Path(_path(place, manifest, file))
    _require_own(place, path, stat.S_ISREG)
    if path.stat().st_size != file.size or digest_of(path) != file.digest:
        _refuse(place, f"its file {plain(file.name)} is not as it was written. Prepare the data again")
    said = _footer(place, path, key).metadata or {}
    wanted = labels(file.made, table, shard, file.cell)
    if any(said.get(key.encode()) != value.encode() for key, value in wanted.items()):
        _refuse(place, f"its file {plain(file.name)} is of another preparation, table or shard")


def _check_shards(place: Path, manifest: Manifest, catalog: Catalog, key: EncryptionKey | None) -> None:
    """Raises CatalogError unless each shard is there once, and no unit has rows in two of them."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for name, files in manifest.tables.items():
        table = catalog.tables[name]
        if len(files) != (1 if table.public else manifest.shards) or not all(files):
            _refuse(place, f"table {plain(name)} does not have every shard once")
        if any(len({file.cell for file in shard}) < len(shard) for shard in files):
            _refuse(place, f"table {plain(name)} has a part of a shard twice")
        for shard, parts in enumerate(files):
            if table.ownership is not None:
                for file in parts:
                    ranges.setdefault(shard, []).extend(_ends(place, _path(place, manifest, file), CODE, key))
    ends = sorted((min(a for a, _ in found), max(b for _, b in found)) for found in ranges.values() if found)
    if any(before[1] >= after[0] for before, after in itertools.pairwise(ends)):
        _refuse(place, "units of one shard are in another one")


def _check_forms(place: Path, paths: Sequence[str], forms: Forms, key: EncryptionKey | None) -> None:
    """Raises CatalogError unless lattice integers are within the bounds of their lattice."""
    for path in paths:
        for column, lattice in forms.lattices.items():
            ends = _ends(place, path, step_of(column), key, may_be_null=True)
            if any(low < lattice.lower or high > lattice.upper for low, high in ends):
                _refuse(place, f"its file {plain(Path(path).name)} holds numbers beyond the bounds of their column")


def _ends(
    place: Path, path: str, column: str, key: EncryptionKey | None, *, may_be_null: bool = False
) -> list[tuple[int, int]]:
    """Returns the least and the largest number in a column of each group of rows, as the file's footer says."""
    footer = _footer(place, Path(path), key)
    names, ends = footer.schema.to_arrow_schema().names, []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        said = group.column(names.index(column)).statistics if column in names else None
        nulls = said.null_count if said is not None and may_be_null else 0
        if nulls == group.num_rows:
            continue
        if said is None or not said.has_min_max or said.null_count > nulls:
            _refuse(place, f"its file {plain(Path(path).name)} does not say what it holds")
        ends.append((said.min, said.max))
    return ends


def _footer(place: Path, path: Path, key: EncryptionKey | None) -> Any:
    """Returns what a file says of itself."""
    try:
        with path.open("rb") if key is None else EncryptedFileReader(path, key) as file:
            return parquet.read_metadata(file)
    except (pa.ArrowException, DamagedError):
        _refuse(place, f"its file {plain(path.name)} cannot be read")


def _read(place: Path, path: Path, key: EncryptionKey | None) -> bytes:
    """Returns what the manifest held before it was sealed, if it was."""
    if key is None:
        content = path.read_bytes()
        problem = f"it is encrypted: give its key, by --key-file, key= or the environment's {VARIABLE}"
        return content if not is_sealed(content) else _refuse(place, problem)
    try:
        with EncryptedFileReader(path, key) as file:
            return file.read()
    except DamagedError as error:
        problem = str(error)
    return _refuse(place, f"a key was given, and its manifest {problem}")


def _require_own(place: Path, path: Path, is_kind: Any) -> None:
    """Raises CatalogError unless a path is of a kind, not a link, and only this user may write to it."""
    try:
        status = os.lstat(path)
    except OSError:
        _refuse(place, f"there is no {plain(path.name)}")
    if not is_kind(status.st_mode):
        _refuse(place, f"{plain(path.name)} is a link, or not what it should be")
    if os.name == "posix" and (status.st_mode & 0o022 or status.st_uid not in (0, os.geteuid())):
        _refuse(place, f"other users may write to {plain(path.name)}; only you should")


def _refuse(place: Path, why: str) -> NoReturn:
    raise CatalogError(f"the prepared data {plain(str(place))} cannot be used: {why}")
