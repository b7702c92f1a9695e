"""The rows of a private table as a public one: exact answers at no charge, so such sources are refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import dpquery as dp

CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: study
privacy_unit: person
budget: {epsilon: 1}
tables:
  people:
    unit: id
    max_rows: 8
    columns: {id: {type: int64}, ill: {type: boolean}}
  known:
    public: true
    columns: {ill: {type: boolean}}
""")
PEOPLE = pd.DataFrame({"id": range(40), "ill": [i % 3 == 0 for i in range(40)]})


def opened(folder: Path, people: object, known: object) -> dp.Session:
    return dp.connect(CATALOG, {"people": people, "known": known}, ledger=folder / "ledger", create=True)


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "itself": lambda frame: frame,
    "a copy": lambda frame: frame.copy(),
    "a column": lambda frame: frame[["ill"]],
    "Arrow": pa.Table.from_pandas,
    "polars": pl.from_pandas,
}


@pytest.mark.parametrize("name", FRAMES)
def test_no_frame_is_private_and_public(name: str, tmp_path: Path) -> None:
    """GRP-11, ACC-06: SELECT over the public one would show every row, exactly and free."""
    with pytest.raises(dp.CatalogError, match="table known is public and has the same"):
        opened(tmp_path, PEOPLE, FRAMES[name](PEOPLE))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "feather"])
@pytest.mark.parametrize("made", ["itself", "symlink", "hard link", "copy", "folder", "glob", "relative"])
def test_no_file_is_private_and_public(made: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "files" / f"people.{suffix}"
    other = file.with_name(f"known.{suffix}")
    file.parent.mkdir()
    write = {
        "parquet": PEOPLE.to_parquet,
        "csv": lambda to: PEOPLE.to_csv(to, index=False),
        "feather": PEOPLE.to_feather,
    }
    write[suffix](file)  # type: ignore[operator]
    monkeypatch.chdir(file.parent)
    match made:
        case "itself":
            other = file
        case "symlink":
            other.symlink_to(file)
        case "hard link":
            os.link(file, other)
        case "copy":
            shutil.copy(file, other)
        case "folder" if suffix == "parquet":
            other = file.parent
        case "folder" | "glob":
            other = file.with_name(f"peop*.{suffix}")
        case _:
            other = Path(file.name)
    with pytest.raises(dp.CatalogError, match="has the same file"):
        opened(tmp_path, str(file), other)


def test_a_dataset_is_its_files(tmp_path: Path) -> None:
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    files = pads.dataset(str(tmp_path / "people.parquet"))
    with pytest.raises(dp.CatalogError, match="has the same file"):
        opened(tmp_path, str(tmp_path / "people.parquet"), files)
    with pytest.raises(dp.CatalogError, match="has the same data"):
        opened(tmp_path, files, files)


def test_other_data_are_taken(tmp_path: Path) -> None:
    """Two tables of one database, other rows, and few rows that are equal by chance."""
    base = str(tmp_path / "base.duckdb")
    connection = duckdb.connect(base)
    connection.execute("CREATE TABLE people AS SELECT 1 AS id, TRUE AS ill; CREATE TABLE known AS SELECT TRUE AS ill")
    connection.close()
    few = PEOPLE.head(5)
    for number, pair in enumerate(
        [(base, base), (PEOPLE, PEOPLE.head(30)), (few, few.copy()), (PEOPLE, ~PEOPLE[["ill"]])]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(folder, *pair) as session:
            assert len(session.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.1"))


def test_a_protected_frame_is_not_public_too() -> None:
    frame = PEOPLE.rename(columns={"id": "patient"})
    with pytest.raises(dp.CatalogError, match="has the same rows"):
        dp.protect(
            frame, privacy_unit="patient", max_rows=8, budget={"epsilon": 1}, dataset="twice", public={"known": frame}
        )


def test_repeated_values_beside_rows_as_units_are_told_to_the_owner() -> None:
    """API-07: by use: many values, some of several rows; keys and bounded values are none."""

    def rows(key: list[int]) -> pd.DataFrame:
        return pd.DataFrame({"key": key, "x": [i % 50 for i in range(200)]})

    said: dict[str, Any] = {"privacy_unit": "row", "bounds": {"x": (0, 50)}, "budget": {"epsilon": 1}}
    with pytest.warns(UserWarning, match="values of 'key' come again"):
        dp.protect(rows([i % 40 for i in range(200)]), **said, dataset="rows a")
    dp.protect(rows([7] * 200), **said, dataset="rows b")
    dp.protect(rows([*range(200)]), **said, dataset="rows c")
