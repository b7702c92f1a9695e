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
from dpquery.data.forms import Forms, step_of
from dpquery.errors import CatalogError

FORMAT = 2
MANIFEST = "manifest.json"
OWNER, CODE, ROWS = " unit", " code", " rows"
"""Columns beside the declared ones, by names that no declared column can have: the unit of a row that another table
leads to, the unit's number, and how many rows the unit has in the table (in the row's block of it)."""
MOST_SHARDS = 10_000
MADE = re.compile(r"[0-9a-f]{32}")
"""Names of preparations."""
_FILE = re.compile(r"[0-9]+-[0-9]{4}\.parquet")
Files = tuple[tuple[str, int, str], ...]
"""Name, size and SHA-256 of each file of a table, by shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTable:
    """A table of a prepared folder: a source that is read as it is.

    Attributes:
        name: Its name in the catalog.
        files: Its files: of a private table one for each shard, of a public one a single file.
        most_rows: No unit has more rows in the table, or in a block of it; 0 where rows have no owner.
        forms: Its further columns.
    """

    name: str
    files: tuple[str, ...]
    most_rows: int
    forms: Forms


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
    return {
        "public": table.public,
        "owner": None if owner is None else [steps, owner.column, str(owner.type)],
        "unique": sorted(sorted(columns) for columns in table.unique),
        "blocks": None if table.blocks is None else [table.blocks.column, table.blocks.by.value],
        "columns": [[c.name, str(c.type), c.max_length, c.zone] for c in table.columns.values()],
    }


def labels(made: str, table: str, shard: int) -> dict[str, str]:
    """Returns what a file says of itself in its footer."""
    return {"dpquery_made": made, "dpquery_table": table, "dpquery_shard": str(shard)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a folder holds.

    Attributes:
        made: The name of the preparation, 32 hexadecimal digits, and of the folder of its files.
        bound: What it belongs to; see `bound_to`.
        shards: Into how many parts the units are cut.
        tables: For each table its files, by shard: name, size and SHA-256.
        forms: The further columns of each private table.
    """

    made: str
    bound: Mapping[str, str]
    shards: int
    tables: Mapping[str, Files]
    forms: Mapping[str, Forms]

    def to_json(self) -> str:
        """Returns the text of the file, whose last line is the digest of those before it."""
        content = {"format": FORMAT, "made": self.made, "shards": self.shards, "bound": dict(self.bound)}
        content["forms"] = {name: forms.to_json() for name, forms in self.forms.items()}
        text = json.dumps(content | {"tables": dict(self.tables)}, indent=1, ensure_ascii=False)
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
                str(name): tuple((str(file), int(size), str(hash)) for file, size, hash in files)
                for name, files in content["tables"].items()
            }
            forms = {str(name): Forms.from_json(said) for name, said in content["forms"].items()}
            made, shards = str(content["made"]), int(content["shards"])
            return Manifest(made=made, bound=dict(content["bound"]), shards=shards, tables=tables, forms=forms)
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            _refuse(folder, "its manifest has another form")


def opened(folder: str | os.PathLike[str], catalog: Catalog, bound: Mapping[str, str]) -> dict[str, PreparedTable]:
    """Returns the tables of a prepared folder, each file of which was read and is as it was written.

    Args:
        folder: What `dpquery prepare` made.
        catalog: The declarations.
        bound: What the data have to belong to; see `bound_to`.
    Raises:
        CatalogError: The folder is not one, was made for something else, is not as it was written, or other users may
            write to it.
    """
    place = Path(os.path.abspath(folder))
    _require_own(place, place, stat.S_ISDIR)
    if not os.path.lexists(place / MANIFEST):
        _refuse(place, f"it has no {MANIFEST}, so it is not, or not completely, written by dpquery prepare")
    manifest = Manifest.from_json(_read(place, place / MANIFEST).decode(errors="replace"), place)
    for what, words in _BOUND.items():
        if manifest.bound.get(what) != bound[what]:
            _refuse(place, words)
    if manifest.tables.keys() != catalog.tables.keys() or not 1 <= manifest.shards <= MOST_SHARDS:
        _refuse(place, "its tables are not those of the catalog")
    if not MADE.fullmatch(manifest.made):
        _refuse(place, "its manifest names a folder outside of it")
    _require_own(place, place / manifest.made, stat.S_ISDIR)
    listed = [file for files in manifest.tables.values() for file, *_ in files]
    if len(set(listed)) < len(listed):
        _refuse(place, "its manifest lists a file twice")
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        list(threads.map(lambda facts: _check_file(place, manifest, *facts), _every_file(manifest)))
    _check_shards(place, manifest, catalog)
    made = {}
    for name, files in manifest.tables.items():
        paths = tuple(_path(place, manifest, file) for file, *_ in files)
        has_owners = catalog.tables[name].ownership is not None
        rows = [most for path in paths for _, most in _ends(place, path, ROWS)] if has_owners else []
        forms = manifest.forms.get(name, Forms())
        _check_forms(place, paths, forms)
        made[name] = PreparedTable(name=name, files=paths, most_rows=max(rows, default=0), forms=forms)
    return made


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


def _every_file(manifest: Manifest) -> list[tuple[str, int, str, int, str]]:
    """Returns table, shard, and what the manifest says of each file."""
    return [
        (name, shard, file, size, hash)
        for name, files in manifest.tables.items()
        for shard, (file, size, hash) in enumerate(files)
    ]


def _path(place: Path, manifest: Manifest, file: str) -> str:
    if not _FILE.fullmatch(file):
        _refuse(place, "its manifest names a file outside of it")
    return str(place / manifest.made / file)


def _check_file(place: Path, manifest: Manifest, table: str, shard: int, file: str, size: int, digest: str) -> None:
    """Raises CatalogError unless a file is what the manifest says, and of this preparation, table and shard."""
    path = Path(_path(place, manifest, file))
    _require_own(place, path, stat.S_ISREG)
    if path.stat().st_size != size or digest_of(path) != digest:
        _refuse(place, f"its file {plain(file)} is not as it was written. Prepare the data again")
    try:
        said = parquet.read_metadata(path).metadata or {}
    except pa.ArrowException:
        _refuse(place, f"its file {plain(file)} cannot be read")
    if any(said.get(key.encode()) != value.encode() for key, value in labels(manifest.made, table, shard).items()):
        _refuse(place, f"its file {plain(file)} is of another preparation, table or shard")


def _check_shards(place: Path, manifest: Manifest, catalog: Catalog) -> None:
    """Raises CatalogError unless each shard is there once, and no unit has rows in two of them."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for name, files in manifest.tables.items():
        table = catalog.tables[name]
        if len(files) != (1 if table.public else manifest.shards):
            _refuse(place, f"table {plain(name)} does not have every shard once")
        for shard, (file, *_) in enumerate(files):
            if table.ownership is not None:
                ranges.setdefault(shard, []).extend(_ends(place, _path(place, manifest, file), CODE))
    ends = sorted((min(a for a, _ in found), max(b for _, b in found)) for found in ranges.values() if found)
    if any(before[1] >= after[0] for before, after in itertools.pairwise(ends)):
        _refuse(place, "units of one shard are in another one")


def _check_forms(place: Path, paths: Sequence[str], forms: Forms) -> None:
    """Raises CatalogError unless lattice integers are within the bounds of their lattice."""
    for path in paths:
        for column, lattice in forms.lattices.items():
            ends = _ends(place, path, step_of(column), may_be_null=True)
            if any(low < lattice.lower or high > lattice.upper for low, high in ends):
                _refuse(place, f"its file {plain(Path(path).name)} holds numbers beyond the bounds of their column")


def _ends(place: Path, path: str, column: str, *, may_be_null: bool = False) -> list[tuple[int, int]]:
    """Returns the least and the largest number in a column of each group of rows, as the file's footer says."""
    footer = parquet.read_metadata(path)
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


def _read(place: Path, path: Path) -> bytes:
    _require_own(place, path, stat.S_ISREG)
    return path.read_bytes()


def _require_own(place: Path, path: Path, is_kind: Any) -> None:
    """Raises CatalogError unless a path is of a kind, not a link, and nobody else may write to it."""
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
