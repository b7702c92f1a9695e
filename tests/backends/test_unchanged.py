"""What the promise takes from the data holds as long as the session does: later changes of frames and files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.errors import BackendError
from tests.scripted import zero_noise

CODES = """
version: 2
dataset: study
privacy_unit: row
budget: {epsilon: 100}
tables:
  people:
    columns: {code: {type: int64}}
  codes:
    public: true
    unique: [[code]]
    columns: {code: {type: int64}, panel: {type: text}}
"""
OWNED = """
version: 2
dataset: study
privacy_unit: person
budget: {epsilon: 100}
defaults: {max_rows: 1000}
tables:
  orders:
    unit: id
    columns: {id: {type: int64}, number: {type: int64}}
  items:
    unit: {via: orders, on: {number: number}}
    columns: {number: {type: int64}}
"""
COUNT = "SELECT COUNT(*) AS n FROM people JOIN codes ON people.code = codes.code"
PEOPLE = pd.DataFrame({"code": [1] * 100})


def frame(codes: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"code": codes, "panel": ["a", "b", "c"]})


def session(catalog: str, folder: Path, sources: dict[str, Any]) -> dp.Session:
    read = dp.Catalog.from_yaml(catalog)
    return dp.connect(read, sources, ledger=dp.create_ledger(read, folder / "ledger"))


def asked(of: dp.Session, query: str = COUNT) -> int:
    return int(of.sql(query, epsilon=1, fresh=True).to_pandas()["n"][0])


@pytest.mark.parametrize("made", [lambda given: given, lambda given: pa.Table.from_pandas(given), pl.from_pandas])
def test_a_frame_that_is_changed_in_place_is_not_read_again(
    made: Callable[[pd.DataFrame], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    codes = frame([1, 2, 3])
    with session(CODES, tmp_path, {"people": PEOPLE, "codes": made(codes)}) as opened:
        assert asked(opened) == 100
        codes.loc[:, "code"] = 1
        codes["code"].array._ndarray[:] = 1
        assert asked(opened) == 100


@pytest.mark.parametrize(
    ("rows", "total", "query", "first"),
    [
        ({"max_rows": 50}, {"max_total": 20}, "SELECT SUM(price) AS n FROM orders", 12),
        ({"max_rows": {"all": 12, "per": {"kind": 2}}}, {}, "SELECT kind, COUNT(*) AS n FROM orders GROUP BY 1", 2),
    ],
)
@pytest.mark.parametrize("made", [lambda given: given, lambda given: pa.table({c: given[c].array for c in given})])
def test_a_frame_that_is_changed_in_place_adds_no_more_than_its_weights_were_made_for(
    made: Callable[[pd.DataFrame], Any],
    rows: dict[str, Any],
    total: dict[str, Any],
    query: str,
    first: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """API-03: weights follow from values of a column with a total, and from the strata of rows, which are read once."""
    zero_noise(monkeypatch)
    kind, number = {"type": "int64", "keys": list(range(6))}, {"type": "int64", "lower": 0, "upper": 100}
    columns = {"id": {"type": "int64"}, "kind": kind, "price": number | total}
    tables = {"orders": {"unit": "id", "columns": columns} | rows}
    catalog = dp.Catalog(dataset="shop", privacy_unit="person", budget={"epsilon": 100}, tables=tables)
    given = pd.DataFrame({"id": [1] * 12, "kind": [i % 6 for i in range(12)], "price": [1] * 12})
    memory = [given[column].array._ndarray for column in ("kind", "price")]
    with dp.connect(catalog, {"orders": made(given)}, ledger=dp.create_ledger(catalog, tmp_path / "l")) as opened:
        assert asked(opened, query) == first
        for one, value in zip(memory, (0, 100), strict=True):
            one.flags.writeable = True
            one[:] = value
        assert asked(opened, query) == first


def replaced(file: Path) -> None:
    frame([1, 1, 1]).to_parquet(file.with_suffix(".new"))
    os.replace(file.with_suffix(".new"), file)


def written(file: Path) -> None:
    frame([1, 1, 1]).to_parquet(file)


@pytest.mark.parametrize("change", [replaced, written, os.remove])
@pytest.mark.parametrize("opened_as", ["path", "dataset"])
def test_no_query_runs_over_a_public_file_that_was_changed(
    opened_as: str, change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    file = tmp_path / "codes.parquet"
    frame([1, 2, 3]).to_parquet(file)
    source = str(file) if opened_as == "path" else pads.dataset(str(file))
    with session(CODES, tmp_path, {"people": PEOPLE, "codes": source}) as opened:
        assert asked(opened) == 100
        change(file)
        left = opened.remaining
        with pytest.raises(BackendError, match="file of table codes was changed") as caught:
            asked(opened)
        assert "nothing was charged" in str(caught.value) and opened.remaining == left


@pytest.mark.parametrize("change", [replaced, written])
def test_what_was_counted_of_a_public_file_holds(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of a person meets at most as many public rows as the gate counted, of tables without keys too."""
    zero_noise(monkeypatch)
    file, bag = tmp_path / "codes.parquet", CODES.replace("    unique: [[code]]\n", "")
    bag = bag.replace("privacy_unit: row", "privacy_unit: person").replace(
        "people:\n", "people:\n    unit: id\n    max_rows: 8\n"
    )
    bag = bag.replace("{code: {type: int64}}", "{id: {type: int64}, code: {type: int64}}")
    frame([1, 2, 3]).to_parquet(file)
    people = PEOPLE.assign(id=range(100))
    with session(bag, tmp_path, {"people": people, "codes": str(file)}) as opened:
        assert asked(opened) == 100
        change(file)
        with pytest.raises(BackendError, match="file of table codes was changed"):
            asked(opened)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("opened_as", ["path", "dataset"])
def test_a_public_file_that_is_changed_while_the_statement_runs_gives_no_answer(
    opened_as: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a person would meet three public rows, where the gate counted one."""
    zero_noise(monkeypatch)
    file, read = tmp_path / "codes.parquet", DuckDBBackend._read
    frame([1, 2, 3]).to_parquet(file)

    def changing(*given: Any) -> Any:
        if moment == "before":
            replaced(file)
            with contextlib.suppress(BackendError):
                return read(*given)
        found = read(*given)
        replaced(file)
        return found

    source = str(file) if opened_as == "path" else pads.dataset(str(file))
    with session(CODES, tmp_path, {"people": PEOPLE, "codes": source}) as opened:
        logged: list[str] = []
        real = DuckDBBackend.run

        def running(*given: Any) -> Any:
            try:
                return real(*given)
            except BackendError as error:
                logged.append(str(error))
                raise

        monkeypatch.setattr(DuckDBBackend, "run", running)
        monkeypatch.setattr(DuckDBBackend, "_read", changing)
        with pytest.raises(BackendError):
            asked(opened)
        assert len(logged) == 1 and "changed while it was read" in logged[0]


def test_no_query_runs_over_a_parent_that_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two owners of one order: each of its items would be two people's."""
    zero_noise(monkeypatch)
    file = tmp_path / "orders.parquet"
    pd.DataFrame({"id": [1, 2], "number": [10, 20]}).to_parquet(file)
    items = pd.DataFrame({"number": [10] * 50})
    query = "SELECT COUNT(*) AS n FROM items"
    with session(OWNED, tmp_path, {"orders": str(file), "items": items}) as opened:
        assert asked(opened, query) == 50
        pd.DataFrame({"id": [1, 2], "number": [10, 10]}).to_parquet(file)
        with pytest.raises(BackendError, match="file of table orders was changed"):
            asked(opened, query)


def test_files_that_nothing_rests_on_may_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    file = tmp_path / "people.parquet"
    PEOPLE.to_parquet(file)
    with session(CODES, tmp_path, {"people": str(file), "codes": frame([1, 2, 3])}) as opened:
        assert asked(opened) == 100
        pd.DataFrame({"code": [1] * 300}).to_parquet(file)
        assert asked(opened) == 300
