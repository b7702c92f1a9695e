"""Prepared data larger than the memory limit, with no file to spill to: shards are read one after another within it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpquery as dp
from dpquery.errors import CatalogError
from tests.architecture.package import ROOT

COLUMNS = [f"c{i}" for i in range(6)]
CATALOG = dp.Catalog(
    dataset="large",
    privacy_unit="person",
    budget={"epsilon": 100},
    tables={
        "visits": {
            "unit": "person",
            "max_rows": 1,
            "columns": {"person": {"type": "int64"}}
            | {name: {"type": "int64", "lower": 0, "upper": 100} for name in COLUMNS},
        }
    },
)
OWN = f"SELECT person, {', '.join(f'MAX({name}) AS {name}' for name in COLUMNS)} FROM visits GROUP BY person"
SQL = f"SELECT {', '.join(f'SUM({name}) AS {name}' for name in COLUMNS)} FROM ({OWN}) AS own"
BESIDE = 200 * 2**20
"""Bytes that the process may take beside the engine's memory: those of threads, and of what Arrow and Python read."""


def limit_memory(megabytes: int) -> None:
    """Lets the process take so much more than it has."""
    status = Path("/proc/self/status").read_text()
    taken = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (taken * 1024 + BESIDE + megabytes * 2**20,) * 2)


def ask(folder: Path, limit: int) -> None:
    """Asks for sums of a number of each person, under limits of the engine and of the system."""
    opened = dp.connect(CATALOG, folder / "data", ledger=folder / "ledger", memory_limit=f"{limit}MiB", spill=False)
    with opened as session:
        limit_memory(limit)
        assert session.sql(SQL, epsilon="1").to_arrow().num_rows == 1  # pandas would be loaded here, within the limit


def prepare(folder: Path, limit: int, shards: int) -> None:
    """Prepares files under limits of the engine and of the system, of which the second begins with the first line that
    is said, when the engine's threads are there."""
    sources, ledger, memory = {"visits": str(folder / "visits")}, folder / "ledger", f"{limit}MiB"
    limits = iter([limit])

    def say(_: str) -> None:
        for megabytes in limits:
            limit_memory(megabytes)

    dp.prepare(
        CATALOG, sources, folder / "data", ledger=ledger, shards=shards, memory_limit=memory, spill=folder, say=say
    )


def written(folder: Path, table: pa.Table, shards: int) -> int:
    """Returns the megabytes of prepared data."""
    folder.mkdir()
    ledger = dp.create_ledger(CATALOG, folder / "ledger")
    dp.prepare(CATALOG, {"visits": table}, folder / "data", ledger=ledger, shards=shards)
    ledger.close()
    return sum(file.stat().st_size for file in (folder / "data").rglob("*.parquet")) >> 20


def asked(folder: Path, limit: int) -> str:
    """Returns what a process says on its standard error that asks under a limit; nothing where it is answered."""
    return _run(folder, limit)


def _run(*arguments: object) -> str:
    command = [sys.executable, "-m", "tests.backends.test_prepared_memory", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    ("rows", "shards", "limit"),
    [(1_300_000, 16, 64), (45_000_000, 200, 512)],
)
@pytest.mark.slow  # that shards are read within the limit is also asked by the test below
def test_shards_are_read_within_the_limit(tmp_path: Path, rows: int, shards: int, limit: int) -> None:
    """Of people whose numbers cannot be compressed, and of whom one shard takes more memory than there is."""
    draw = np.random.default_rng(1)
    columns = {name: draw.integers(-(2**63), 2**63 - 1, rows) for name in COLUMNS}
    table = pa.table({"person": draw.permutation(rows), **columns})
    for count in (shards, 1):
        assert written(tmp_path / str(count), table, count) > limit
    assert asked(tmp_path / str(shards), limit) == ""
    assert "BackendError: the query could not be computed" in asked(tmp_path / "1", limit)


@pytest.mark.parametrize(
    ("rows", "shards", "limit"),
    [
        (1_400_000, 8, 64),
        pytest.param(38_000_000, 40, 768, marks=pytest.mark.slow),
        pytest.param(380_000_000, 400, 4096, marks=pytest.mark.slow),
    ],
)
def test_files_larger_than_memory_are_prepared_and_asked_within_it(
    tmp_path: Path, rows: int, shards: int, limit: int
) -> None:
    """Each person has twenty rows. The longest takes some 50 GB of the disk: sources, rows by shard and shards."""
    draw = np.random.default_rng(2)
    (tmp_path / "visits").mkdir()
    for file, size in enumerate([2_000_000] * (rows // 2_000_000) + [rows % 2_000_000]):
        columns = {name: draw.integers(-(2**63), 2**63 - 1, size) for name in COLUMNS}
        table = pa.table({"person": draw.integers(0, rows // 20, size), **columns})
        parquet.write_table(table, tmp_path / "visits" / f"{file}.parquet", row_group_size=100_000)
    assert sum(file.stat().st_size for file in (tmp_path / "visits").iterdir()) > limit * 2**20
    dp.create_ledger(CATALOG, tmp_path / "ledger").close()
    assert _run(tmp_path, limit, shards) == ""
    assert asked(tmp_path, limit) == ""


def test_a_preparation_that_needs_more_memory_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    """Of a million persons with a row each, whose numbers alone take more than there is."""
    table = pa.table({"person": np.arange(1_000_000), **{name: np.zeros(1_000_000, np.int64) for name in COLUMNS}})
    ledger, folder = dp.create_ledger(CATALOG, tmp_path / "ledger"), tmp_path / "data"
    with pytest.raises(CatalogError, match="it takes more than the memory limit; set a higher one"):
        dp.prepare(CATALOG, {"visits": table}, folder, ledger=ledger, memory_limit="64MiB", spill=False)
    assert not [*folder.rglob("*.parquet")]


def test_shards_that_are_too_large_to_be_sorted_say_how_many_would_do(tmp_path: Path) -> None:
    """Of a thousand persons with a thousand rows each."""
    table = pa.table({"person": np.arange(10**6) % 1000, **{name: np.arange(10**6) for name in COLUMNS}})
    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")

    def prepare(shards: int) -> None:
        sources = {"visits": table}
        dp.prepare(CATALOG, sources, tmp_path / "data", ledger=ledger, shards=shards, memory_limit="64MiB", spill=False)

    with pytest.raises(CatalogError, match=r"set a higher one, or prepare \d+ shards$") as caught:
        prepare(1)
    prepare(int(str(caught.value).split()[-2]))


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), *map(int, sys.argv[2:])) if sys.argv[3:] else ask(Path(sys.argv[1]), int(sys.argv[2]))
