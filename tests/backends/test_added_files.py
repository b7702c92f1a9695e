"""A new version of the data to which files were added: what is written and linked is what would be written anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as parquet
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.data.prepared import CODE, ROWS, manifest_of
from dpquery.session.preparing import sources_of
from tests.backends.engines import catalog_of

VISITS = {"who": {"type": "text"}, "number": {"type": "int64"}, "kind": {"type": "text", "keys": ["a", "b"]}}
DATED = {"day": {"type": "date", "lower": "2020-01-01", "upper": "2020-06-30"}}
ITEMS = {"number": {"type": "int64"}, "cost": {"type": "float64", "lower": 0, "upper": 9}}


def declared(*, blocks: bool = False, keys: tuple[str, ...] = ("a", "b")) -> dp.Catalog:
    """Returns visits of people and items of visits, the visits in months where they are in blocks."""
    visits: dict[str, Any] = {"unit": "who", "columns": {**VISITS, **DATED}, "max_rows": 3}
    visits["columns"]["kind"] = {"type": "text", "keys": list(keys)}
    if blocks:
        visits["blocks"] = {"column": "day", "by": "month"}
    items = {"unit": {"via": "visits", "on": {"number": "number"}}, "columns": ITEMS, "max_rows": 4}
    tables = {"visits": visits, **({} if blocks else {"items": items})}
    more = {"neighbours": "replace_one"} if blocks else {}
    return catalog_of(tables | {"places": {"public": True, "columns": {"name": {"type": "text"}}}}, **more)


class Data:
    """Files of both tables, and a ledger."""

    def __init__(self, folder: Path, catalog: dp.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dpquery.data.cells.ROWS_OF_CELL", 10)
        self.folder, self.catalog = folder, catalog
        self.ledger = dp.create_ledger(catalog, folder / "ledger")
        days = [f"2020-{1 + i % 6:02}-10" for i in range(120)]
        kinds = ["a", "b", "other", None] * 30
        self.add("visits", "1", who=[f"p{i % 20:02}" for i in range(120)], number=range(120), day=days, kind=kinds)
        self.add("items", "1", number=[*range(120), 500, 500], cost=[1.5] * 122)
        self.add("places", "1", name=["x"])

    def add(self, table: str, file: str, **columns: Any) -> None:
        """Writes one more file of a table."""
        place = self.folder / table
        place.mkdir(exist_ok=True)
        frame = pd.DataFrame({column: list(values) for column, values in columns.items()})
        if "day" in columns:
            frame["day"] = pd.to_datetime(frame["day"])
        frame.to_parquet(place / f"{file}.parquet")

    def prepare(self, into: str, **more: Any) -> Path:
        """Returns the folder that is made of the files as they are."""
        sources = {table: str(self.folder / table) for table in self.catalog.tables}
        return dp.prepare(self.catalog, sources, self.folder / into, ledger=self.ledger, shards=3, **more)

    def added(self) -> tuple[int, int]:
        """Returns how many files of private tables are kept of how many, after comparing with a preparation anew."""
        self.ledger.new_data_version(by="owner", why="more")
        place = self.prepare("data")
        anew = self.prepare("anew")
        for table in self.catalog.tables:
            assert rows(place, table) == rows(anew, table)
        both = [sources_of(self.catalog, folder, self.ledger) for folder in (place, anew)]
        backends = [DuckDBBackend(self.catalog, sources) for sources in both]
        assert backends[0]._limited == backends[1]._limited
        manifest = manifest_of(place)
        files = [file for table in manifest.forms for shard in manifest.tables[table] for file in shard]
        with dp.connect(self.catalog, place, ledger=self.ledger) as session:
            session.sql("SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind", epsilon="1")
        shutil.rmtree(anew)
        return sum(file.made != manifest.made for file in files), len(files)


def rows(place: Path, table: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a table in order, without the numbers of units; codes stand for strings."""
    found = []
    manifest = manifest_of(place)
    keys = manifest.forms[table].keys if table in manifest.forms else {}
    for shard, parts in enumerate(manifest.tables[table]):
        for file in parts:
            for row in parquet.read_table(place / manifest.made / file.name).to_pylist():
                for column, known in keys.items():
                    code = row.pop(f" code {column}")
                    assert (row[column] in known) == (code is not None and code < len(known))
                found.append((shard, file.cell, *(str(v) for k, v in sorted(row.items()) if k != CODE)))
    return sorted(found)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    made = Data(tmp_path, declared(), monkeypatch)
    made.prepare("data")
    return made


def test_files_of_people_without_new_rows_are_kept(data: Data) -> None:
    data.add("visits", "2", who=["p03"], number=[200], day=["2020-02-01"], kind=["strange"])
    kept, files = data.added()
    assert 0 < kept < files


def test_new_people_get_numbers_of_their_own(data: Data) -> None:
    data.add(
        "visits", "2", who=["p55", "p56", None], number=[200, 201, 202], day=["2020-02-01"] * 3, kind=["a", "b", "a"]
    )
    data.add("items", "2", number=[200, 201, 202], cost=[2.0, 3.0, 4.0])
    kept, files = data.added()
    assert 0 < kept < files


def test_rows_that_get_an_owner_through_a_new_parent_are_written(data: Data) -> None:
    assert sum(1 for row in rows(data.folder / "data", "items") if "500" in row) == 0
    data.add("visits", "2", who=["p07"], number=[500], day=["2020-02-01"], kind=["a"])
    kept, files = data.added()
    assert 0 < kept < files
    assert sum(1 for row in rows(data.folder / "data", "items") if "500" in row) == 2


def test_what_is_the_same_is_kept_whole_and_again(data: Data) -> None:
    kept, files = data.added()
    assert kept == files
    data.add("visits", "2", who=["p03"], number=[200], day=["2020-02-01"], kind=["a"])
    assert data.added()[0] < files


def test_of_tables_in_blocks_a_new_month_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data(tmp_path, declared(blocks=True), monkeypatch)
    data.prepare("data")
    data.add("visits", "2", who=["p03"], number=[200], day=["2020-06-30"], kind=["a"])
    kept, files = data.added()
    assert kept == files - 1


def _removed(data: Data) -> None:
    (data.folder / "visits" / "1.parquet").unlink()
    data.add("visits", "2", who=["p03"], number=[200], day=["2020-02-01"], kind=["a"])


def _changed(data: Data) -> None:
    data.add("visits", "1", who=["p03"] * 99, number=range(99), day=["2020-02-01"] * 99, kind=["a"] * 99)


def _other_keys(data: Data) -> None:
    data.catalog = declared(keys=("b", "a"))


def _damaged(data: Data) -> None:
    file = next((data.folder / "data").rglob("0-*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])


def _other_types(data: Data) -> None:
    """The engine reads all files with the types of the first."""
    data.add("items", "0", number=[4], cost=[2])


def _many_strings(data: Data) -> None:
    many = range(300)
    data.add("visits", "2", who=["p03"] * 300, number=range(200, 500), day=["2020-02-01"] * 300, kind=map(str, many))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("change", [_removed, _changed, _other_keys, _damaged, _other_types, _many_strings])
def test_all_is_written_where_files_were_not_only_added(data: Data, change: Callable[[Data], None]) -> None:
    change(data)
    assert data.added()[0] == 0


def test_a_number_of_rows_that_was_written_wrongly_is_found(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect by which a person's files are kept though rows were added: the check of all files finds it."""
    data.add("visits", "2", who=["p03"], number=[200], day=["2020-02-01"], kind=["a"])
    monkeypatch.setattr("dpquery.backends.duckdb.preparing.Preparing._fresh", lambda *_: frozenset())
    data.ledger.new_data_version(by="owner", why="more")
    with pytest.raises(dp.BackendError, match="failed their check"):
        data.prepare("data")
    assert ROWS in parquet.read_schema(next((data.folder / "data").rglob("0-*.parquet"))).names
