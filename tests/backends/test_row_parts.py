"""Rows that are cut by shard and date: piece by piece where memory is short, and the same files either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpquery as dp
from dpquery.backends.duckdb.preparing import Preparing
from dpquery.data.encrypted_files import EncryptedFileReader, key_of
from dpquery.data.prepared import CODE

ROWS = 1_040_000
KEY = "0f" * 32
DAYS = {"type": "date", "lower": "2024-01-01", "upper": "2024-02-29"}
TOWNS = ["", "ä", "zürich " * 9, None]
CATALOG = dp.Catalog(
    dataset="cut",
    privacy_unit="person",
    budget={"epsilon": 1},
    tables={
        "visits": {
            "unit": "person",
            "max_rows": 1,
            "columns": {"person": {"type": "int64"}, "day": DAYS, "town": {"type": "text", "keys": ["ä"]}},
        }
    },
)


def visits() -> pa.Table:
    draw = np.random.default_rng(3)
    days = np.datetime64("2024-01-01") + draw.integers(0, 60, ROWS).astype("timedelta64[D]")
    towns = pa.array(TOWNS).take(pa.array(draw.integers(0, 4, ROWS)))
    return pa.table({"person": draw.integers(0, 20_000, ROWS), "day": days, "town": towns})


def written(folder: Path, key: str | None) -> dict[str, pa.Table]:
    """Returns what each prepared file holds: its rows in one order, and not whether the file says that NULL occurs.
    Before, they are sorted by day, and then by unit."""
    found = dict[str, pa.Table]()
    for path in folder.rglob("*.parquet"):
        secret = key_of(key)
        table = parquet.read_table(path if secret is None else EncryptedFileReader(path, secret))
        days = table["day"].cast(pa.int32()).to_numpy().astype(np.int64)
        assert (np.diff(days * 2**32 + table[CODE].to_numpy()) >= 0).all()
        table = table.sort_by([(name, "ascending") for name in table.column_names])
        found[path.name] = pa.table(dict(zip(table.column_names, table.columns, strict=True)))
    return found


def test_pieces_make_the_files_that_all_rows_at_once_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, run = list[str](), Preparing._run

    def noted(self: Preparing, text: str) -> list[tuple[Any, ...]]:
        said.append(text)
        return run(self, text)

    monkeypatch.setattr(Preparing, "_run", noted)
    ledger, sources, made = dp.create_ledger(CATALOG, tmp_path / "ledger"), {"visits": visits()}, []
    cases = [("memory", "4GiB", None), ("files", "512MiB", None), ("pieces", "64MiB", None), ("sealed", "64MiB", KEY)]
    for name, limit, key in cases:
        said.clear()
        dp.prepare(CATALOG, sources, tmp_path / name, ledger=ledger, shards=2, memory_limit=limit, key=key)
        cuts = sum("PARTITION_BY" in text for text in said)
        assert cuts > 5 if limit == "64MiB" else cuts == ["memory", "files"].index(name)
        assert not [*(tmp_path / name).rglob("cut*")]
        made.append(written(tmp_path / name, key))
    assert made[0] == made[1] == made[2] == made[3]
    assert sorted(made[0]) == [f"0-000{shard}-{cell}.parquet" for shard in (0, 1) for cell in (0, 1, 2)]
    assert sum(map(len, made[0].values())) == ROWS
