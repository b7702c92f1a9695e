"""Prepared folders that are not what was written, or belong to something else: refused before anything is charged."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpquery as dp
from dpquery.backends.duckdb.further_columns import FurtherColumns
from dpquery.backends.duckdb.preparing import Preparing
from dpquery.backends.duckdb.shards import run_each
from dpquery.data.prepared import CODE, MANIFEST
from dpquery.data.stored_encodings import step_of
from dpquery.errors import BackendError, CatalogError, DataChangedError
from dpquery.ledger.ledger import Ledger
from dpquery.session.preparing import remove
from tests.scripted import zero_noise

CATALOG = """
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 1000}
defaults: {max_rows: 3}
tables:
  orders:
    unit: id
    columns: {id: {type: int64}, number: {type: int64}, day: {type: date, lower: 2020-01-01, upper: 2020-12-31}}
  items:
    unit: {via: orders, on: {number: number}}
    columns: {number: {type: int64}, price: {type: float64, lower: 0, upper: 10}}
  colours:
    public: true
    columns: {name: {type: text}}
"""
ROWS_ALONE = re.sub("    unit: .*\n", "", CATALOG.replace("privacy_unit: customer", "privacy_unit: row"))
"""The same, where each row is a unit."""
COUNT = "SELECT COUNT(*) AS n FROM items"


def sources() -> dict[str, pd.DataFrame]:
    """Returns 40 orders of 20 customers, each with two items, and what belongs to nobody."""
    numbers = range(40)
    orders = {"id": [i // 2 for i in numbers], "number": list(numbers), "day": ["2020-02-03"] * 40}
    items = {"number": [*numbers, *numbers, 999], "price": [1.5] * 81}
    return {
        "orders": pd.DataFrame(orders),
        "items": pd.DataFrame(items),
        "colours": pd.DataFrame({"name": ["red", "blue"]}),
    }


class Shop:
    """A prepared folder of three shards, and the ledger that it belongs to."""

    def __init__(self, folder: Path, catalog: str = CATALOG) -> None:
        self.catalog = dp.Catalog.from_yaml(catalog)
        self.ledger = dp.create_ledger(self.catalog, folder / "ledger")
        self.place = folder / "data"
        self.prepare()

    def prepare(self, **more: Any) -> Path:
        given = {"shards": 3} | more
        return dp.prepare(self.catalog, sources(), self.place, ledger=self.ledger, **given)

    def connect(self, catalog: dp.Catalog | None = None, ledger: Ledger | None = None) -> dp.Session:
        return dp.connect(catalog or self.catalog, self.place, ledger=ledger or self.ledger)

    @property
    def text(self) -> str:
        return (self.place / MANIFEST).read_text()

    @property
    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.text.rstrip("\n").rpartition("\n")[0])
        return said

    @property
    def made(self) -> Path:
        return self.place / str(self.said["made"])

    def forge(self, change: Callable[[dict[str, Any]], None], text: str | None = None) -> None:
        """Writes another manifest, with its own digest, and of each file the digest and size that it has now."""
        said = self.said
        change(said)
        for entry in (entry for table in said["tables"].values() for shard in table for entry in shard):
            content = (self.place / said["made"] / entry[0]).read_bytes()
            entry[1:3] = [len(content), hashlib.sha256(content).hexdigest()]
        _signed(self, json.dumps(said, indent=1, ensure_ascii=False))


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop of which tests have copies."""
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(tmp_path: Path, prepared_once: Shop) -> Shop:
    shutil.copytree(prepared_once.place.parent, tmp_path, dirs_exist_ok=True)
    copied = copy.copy(prepared_once)
    copied.place, copied.ledger = tmp_path / "data", Ledger.open(tmp_path / "ledger")
    return copied


def test_rows_are_counted_as_in_the_sources(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four items of a customer three weigh; those of an unknown order are nobody's."""
    zero_noise(monkeypatch)
    assert shop.connect().sql(COUNT, epsilon="1").to_pandas()["n"].tolist() == [60]


def test_only_the_owner_may_open_what_is_written(shop: Shop) -> None:
    """BAK-14."""
    paths = [shop.place, *shop.place.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}
    assert len(paths) == 2 + 1 + 3 + 3 + 1


def test_rows_are_sorted_by_day_and_then_by_unit(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    given = sources()
    given["orders"]["day"] = [f"2020-01-{1 + i * 5 % 28:02}" for i in range(40)]
    dp.prepare(shop.catalog, given, shop.place, ledger=shop.ledger, shards=1)
    rows = parquet.read_table(_first(shop, "orders"), columns=["day", CODE]).to_pylist()
    found = [(row["day"], row[CODE]) for row in rows]
    assert found == sorted(found) and len({day for day, _ in found}) == 28


def _first(shop: Shop, table: str = "items") -> Path:
    return shop.made / str(shop.said["tables"][table][0][0][0])


def _flip(shop: Shop) -> None:
    file = _first(shop)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _listed_twice(said: dict[str, Any]) -> None:
    files = said["tables"]["items"]
    files[1] = [list(files[0][0])]


def _copied(shop: Shop) -> None:
    """A second copy of a shard, under the name of another one."""
    files = [file for ((file, *_),) in shop.said["tables"]["items"]]
    shutil.copyfile(shop.made / files[0], shop.made / files[1])
    shop.forge(lambda said: None)


def _rewritten(shop: Shop, change: Callable[[Any], Any], *, labels: dict[bytes, bytes] | None = None) -> None:
    """A file with other rows, which says of itself what the file before said."""
    file = _first(shop)
    table = parquet.read_table(file)
    changed = change(table).replace_schema_metadata((table.schema.metadata or {}) | (labels or {}))
    parquet.write_table(changed, file)
    os.chmod(file, 0o600)
    shop.forge(lambda said: None)


def _unit_of_another_shard(shop: Shop) -> None:
    names = [file for ((file, *_),) in shop.said["tables"]["items"]]
    other = parquet.read_table(shop.made / names[1]).slice(0, 1)
    _rewritten(shop, lambda table: pa.concat_tables([table, other.cast(table.schema)]))


def _steps_beyond_the_lattice(shop: Shop) -> None:
    def change(table: Any) -> Any:
        place = table.column_names.index(step_of("price"))
        return table.set_column(place, table.field(place), pa.array([2**32 - 1] * len(table), pa.uint32()))

    _rewritten(shop, change)


def _cell_twice(shop: Shop) -> None:
    """A second file of the rows of a shard, under a name of its own."""
    name = _first(shop).name
    other = name.replace("-0.parquet", "-1.parquet")
    shutil.copyfile(_first(shop), shop.made / other)
    os.chmod(shop.made / other, 0o600)

    def change(said: dict[str, Any]) -> None:
        shard = said["tables"]["items"][0]
        shard.append([other, *shard[0][1:]])

    shop.forge(change)


def _of_another_preparation(shop: Shop) -> None:
    old = _first(shop).read_bytes()
    shop.prepare()
    _first(shop).write_bytes(old)


def _of_another_preparation_in_the_manifest(shop: Shop) -> None:
    _of_another_preparation(shop)
    shop.forge(lambda said: None)


def _moved(shop: Shop) -> None:
    """The file of a table under the name of another table's."""
    shutil.copyfile(_first(shop, "orders"), _first(shop))
    shop.forge(lambda said: None)


def _linked(shop: Shop) -> None:
    file = _first(shop)
    file.rename(shop.place / "x")
    file.symlink_to(shop.place / "x")


def _nothing(said: dict[str, Any]) -> None:
    """Changes no word of a manifest."""


def _a_pattern(said: dict[str, Any]) -> None:
    said["tables"]["colours"][0][0][0] = "*.parquet"


def _written(shop: Shop, change: Callable[[dict[str, Any]], None]) -> None:
    """Another manifest of the same files, with its own digest."""
    said = shop.said
    change(said)
    _signed(shop, json.dumps(said))


def _signed(shop: Shop, body: str) -> None:
    (shop.place / MANIFEST).write_text(f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n")


def _more(name: str, value: Any) -> Callable[[Shop], None]:
    return lambda shop: shop.forge(lambda said: said["bound"].__setitem__(name, value))


def _no_parquet(shop: Shop) -> None:
    _first(shop).write_bytes(b"x")
    shop.forge(_nothing)


BROKEN: dict[str, tuple[Callable[[Shop], object], str]] = {
    "a flipped byte": (_flip, "not as it was written"),
    "a flipped byte of the manifest": (
        lambda shop: (shop.place / MANIFEST).write_text(shop.text.replace('"shards": 3', '"shards": 2')),
        "manifest is not as it was written",
    ),
    "no manifest": (lambda shop: (shop.place / MANIFEST).unlink(), "no manifest.json"),
    "an empty manifest": (lambda shop: (shop.place / MANIFEST).write_text(""), "not as it was written"),
    "no file": (lambda shop: _first(shop).unlink(), "there is no"),
    "a link": (_linked, "link"),
    "a shard listed twice": (lambda shop: shop.forge(_listed_twice), "lists a file twice"),
    "a shard copied": (_copied, "another preparation, table or shard"),
    "a shard without a file": (
        lambda shop: shop.forge(lambda said: said["tables"]["items"][0].pop()),
        "every shard once",
    ),
    "a cell twice": (_cell_twice, "a part of a shard twice"),
    "a shard left out": (
        lambda shop: shop.forge(lambda said: said["tables"]["items"].pop()),
        "every shard once",
    ),
    "a unit in two shards": (_unit_of_another_shard, "units of one shard are in another"),
    "steps beyond the lattice": (_steps_beyond_the_lattice, "beyond the bounds"),
    "a file of another preparation": (_of_another_preparation, "not as it was written"),
    "a forged file of another preparation": (_of_another_preparation_in_the_manifest, "another preparation"),
    "a file of another table": (_moved, "another preparation, table or shard"),
    "another dataset": (_more("dataset", "bank"), "another dataset"),
    "another ledger": (_more("ledger", "0" * 64), "another ledger"),
    "another version": (_more("data_version", "1"), "another version of the data"),
    "another format": (lambda shop: shop.forge(lambda said: said.update(format=3)), "format 3"),
    "a table less": (lambda shop: shop.forge(lambda said: said["tables"].pop("colours")), "not those of the catalog"),
    "a file elsewhere": (
        lambda shop: shop.forge(lambda said: said.update(made="../data/" + said["made"])),
        "outside of it",
    ),
    "a folder above": (lambda shop: _written(shop, lambda said: said.update(made="..")), "outside of it"),
    "a pattern of files": (lambda shop: _written(shop, _a_pattern), "outside of it"),
    "a file that is no Parquet": (
        _no_parquet,
        "cannot be read",
    ),
    "nothing but brackets": (lambda shop: _signed(shop, "[" * 100_000), "another form"),
    "more shards than any number": (
        lambda shop: _signed(shop, shop.text.rpartition("\n}")[0].replace('"shards": 3', '"shards": 1e999') + "\n}"),
        "another form",
    ),
    "nonsense": (
        lambda shop: (shop.place / MANIFEST).write_text("[]\n" + hashlib.sha256(b"[]").hexdigest() + "\n"),
        "manifest",
    ),
    "a file that others may write": (lambda shop: _first(shop).chmod(0o620), "other users may write"),
    "a folder that others may write": (lambda shop: shop.place.chmod(0o702), "other users may write"),
    "files in a folder that others may write": (lambda shop: shop.made.chmod(0o770), "other users may write"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_folder_that_is_not_as_it_was_written_is_refused(shop: Shop, case: str) -> None:
    """BAK-13, BAK-14."""
    change, words = BROKEN[case]
    change(shop)
    with pytest.raises(CatalogError, match=words):
        shop.connect()
    assert len(shop.ledger.entries()) == 0


def test_other_backends_are_not_given_prepared_data(shop: Shop) -> None:
    with pytest.raises(CatalogError, match="prepared data are read by duckdb"):
        dp.connect(shop.catalog, shop.place, ledger=shop.ledger, backend="another")


def test_other_declarations_are_refused_and_other_bounds_are_not(shop: Shop) -> None:
    wider = dp.Catalog.from_yaml(CATALOG.replace("max_rows: 3", "max_rows: 2").replace("upper: 10}", "upper: 20}"))
    assert shop.connect(wider).sql(COUNT, epsilon="1").to_pandas() is not None
    for old, new in (("price: {type: float64", "price: {type: int64"), ("name: {type: text}", "name: {type: date}")):
        other = dp.Catalog.from_yaml(CATALOG.replace(old, new))
        with pytest.raises(CatalogError, match="declares other tables, columns or owners"):
            shop.connect(other)


def test_a_new_version_of_the_data_needs_a_new_preparation(shop: Shop) -> None:
    before = shop.connect()
    shop.ledger.new_data_version(by="owner", why="more orders")
    with pytest.raises(CatalogError, match="another version of the data"):
        shop.connect()
    with pytest.raises(DataChangedError):
        before.sql(COUNT, epsilon="1")
    shop.prepare()
    shop.connect().sql(COUNT, epsilon="1")


@pytest.mark.parametrize("shards", [1, 3])
def test_a_file_that_changes_under_a_session_ends_it(shop: Shop, shards: int) -> None:
    shop.prepare(shards=shards)
    session = shop.connect()
    session.sql(COUNT, epsilon="1")
    spent = session.remaining
    shop.prepare(shards=shards)
    with pytest.raises(BackendError, match="changed"):
        session.sql("SELECT SUM(price) AS s FROM items", epsilon="1")
    assert session.remaining == spent
    _flip(shop)
    with pytest.raises(CatalogError):
        shop.connect()


@pytest.mark.parametrize("table", ["items", "colours"])
def test_a_file_of_a_table_without_owners_that_changes_under_a_session_ends_it(tmp_path: Path, table: str) -> None:
    shop = Shop(tmp_path, ROWS_ALONE)
    session = shop.connect()
    os.utime(_first(shop, table), (1, 1))
    with pytest.raises(BackendError, match="changed"):
        session.sql(COUNT, epsilon="1")
    assert not shop.ledger.entries()


def test_a_file_that_changes_between_shards_ends_the_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each row is a unit: it would be in a shard of one state, and in another one of the next."""
    shop = Shop(tmp_path, ROWS_ALONE)
    read = run_each

    def changing(*given: Any) -> None:
        read(*given)
        os.utime(_first(shop), (1, 1))

    monkeypatch.setattr("dpquery.backends.duckdb.backend.run_each", changing)
    with pytest.raises(BackendError):
        shop.connect().sql(COUNT, epsilon="1")
    assert len(shop.ledger.entries()) == 1


WRONG: dict[str, tuple[str, str]] = {
    "a number of rows too few": (
        'CAST(held."rows" AS UINTEGER) AS',
        'CAST(held."rows" - 1 AS UINTEGER) AS',
    ),
    "a unit in all shards": ("held.shard AS", "(row_number() OVER () % 3) AS"),
    "one number for two units": ("held.code AS", "held.code // 2 AS"),
    "other steps": (' AS " step price"', ' + 1 AS " step price"'),
    "numbers of other units": ("held.code AS", "held.code + 1 AS"),
    "rows left out": (" AS given JOIN", " AS given JOIN (SELECT 1 LIMIT 0) AS nothing ON TRUE JOIN"),
    "rows twice": (" AS given JOIN", " AS given CROSS JOIN range(2) JOIN"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_was_written_wrongly_is_not_kept(shop: Shop, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer with a defect in one of its tables: what it wrote fails its verification, and nothing was committed."""
    before, rows = shop.text, Preparing._rows

    def wrong(self: Preparing, table: Any, count: int) -> str:
        text = rows(self, table, count)
        if table.name != "items":
            return text
        assert WRONG[case][0] in text
        return text.replace(*WRONG[case])

    monkeypatch.setattr(Preparing, "_rows", wrong)
    with pytest.raises(BackendError, match="failed their check after writing"):
        shop.prepare()
    assert shop.text == before
    assert [path.name for path in shop.place.iterdir() if path.is_dir()] == [shop.made.name]
    shop.connect()


MISPLACED = {
    "units in shards of others": (r"^(CREATE TABLE placed AS SELECT unit, )", r"\1 2 - "),
    "units with two numbers": (r"^CREATE TABLE placed AS (.*)$", r"CREATE TABLE placed AS \1, range(2)"),
    "one number for two units": (r"^(CREATE OR REPLACE TABLE held.* CAST\(code)", r"\1 // 2"),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_units_whose_places_were_written_wrongly_are_not_kept(
    shop: Shop, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect before anything is written: all rows agree with the tables of units, and these are wrong."""
    before, run, changed = shop.text, Preparing._run, list[str]()

    def wrong(self: Preparing, text: str) -> list[tuple[Any, ...]]:
        given = re.sub(*MISPLACED[case], text)
        changed.extend({given} - {text})
        return run(self, given)

    monkeypatch.setattr(Preparing, "_run", wrong)
    with pytest.raises(BackendError, match="failed their check after writing"):
        shop.prepare()
    assert changed and shop.text == before


@pytest.mark.parametrize("code", ["{} // 2", "{} + 7", "COALESCE({}, 1)", "COALESCE({}, 7)", "NULLIF({}, 2)", "{}"])
def test_codes_that_were_written_wrongly_are_not_kept(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two strings, one of which is no key, or of NULL. The last ones are right."""
    colour = "columns: {colour: {type: text, keys: [red, blue], nullable: true}, "
    head, _, items = CATALOG.partition("  items:")
    declared, given = dp.Catalog.from_yaml(f"{head}  items:{items.replace('columns: {', colour, 1)}"), sources()
    given["items"]["colour"] = ["red", "green", None] * 27
    ledger, further = dp.create_ledger(declared, tmp_path / "ledger"), FurtherColumns.further

    def wrong(self: FurtherColumns) -> dict[str, str]:
        return {
            name: re.sub(r'"codes of \w+ in items".code', lambda found: code.format(found[0]), sql)
            for name, sql in further(self).items()
        }

    monkeypatch.setattr(FurtherColumns, "further", wrong)
    expected = contextlib.nullcontext() if code == "{}" else pytest.raises(BackendError, match="failed their check")
    with expected:
        dp.prepare(declared, given, tmp_path / "data", ledger=ledger, shards=3)


@pytest.mark.parametrize("more", [" LIMIT 3", " CROSS JOIN range(2)"])
def test_rows_that_are_units_and_were_written_wrongly_are_not_kept(
    tmp_path: Path, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, rows = Shop(tmp_path, ROWS_ALONE), Preparing._rows
    monkeypatch.setattr(Preparing, "_rows", lambda *given: rows(*given) + more)
    with pytest.raises(BackendError, match="failed their check after writing"):
        shop.prepare()


def test_a_folder_of_other_files_is_left_alone(shop: Shop, tmp_path: Path) -> None:
    """Its permissions too; a link is not followed, as what it leads to would be refused when it is opened."""
    link, place, shop.place = tmp_path / "link", shop.place, tmp_path
    link.symlink_to(place)
    tmp_path.chmod(0o755)
    with pytest.raises(CatalogError, match="holds other files"):
        shop.prepare()
    with pytest.raises(CatalogError, match="holds other files"):
        remove(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    shop.place = link
    with pytest.raises(CatalogError, match="cannot be made"):
        shop.prepare()
    shop.place = tmp_path / "nowhere" / "data"
    with pytest.raises(CatalogError, match="cannot be made"):
        shop.prepare()


@pytest.mark.parametrize("shards", [0, -1, True, 1.5, 10**9])
def test_numbers_of_shards(shop: Shop, shards: Any) -> None:
    with pytest.raises(CatalogError, match="number of shards"):
        shop.prepare(shards=shards)


def test_sources_that_are_missing_or_unknown(shop: Shop) -> None:
    given = sources()
    with pytest.raises(CatalogError, match="no source"):
        dp.prepare(shop.catalog, {"items": given["items"]}, shop.place, ledger=shop.ledger)
    with pytest.raises(CatalogError, match="not a declared table"):
        dp.prepare(shop.catalog, {**given, "more": given["items"]}, shop.place, ledger=shop.ledger)
    shop.connect()


def test_a_unit_that_is_erased_leaves_no_byte_and_all_others_stay(tmp_path: Path) -> None:
    """BAK-15: its rows and those that a parent leads to it; the shards of others are the files that they were."""
    catalog = CATALOG.replace("unit: id\n", "unit: name\n").replace("{id: {type: int64}", "{name: {type: text}")
    declared, given = dp.Catalog.from_yaml(catalog), sources()
    names = [f"person-{number:03}" for number in given["orders"].pop("id")]
    given["orders"]["name"] = names
    ledger = dp.create_ledger(declared, tmp_path / "ledger")
    place = dp.prepare(declared, given, tmp_path / "data", ledger=ledger, shards=3)
    before = {file.name: file.stat().st_ino for file in place.rglob("*.parquet")}
    read = {file.name: parquet.read_table(file).to_pylist() for file in place.rglob("*.parquet")}
    version = ledger.data_version
    dp.erase(declared, place, "person-007", ledger=ledger, by="owner")
    files = list(place.rglob("*.parquet"))
    assert len(files) == len(before) and not any(b"person-007" in file.read_bytes() for file in files)
    assert sum(before[file.name] != file.stat().st_ino for file in files) == 2
    for file in files:
        others = [row for row in read[file.name] if "person-007" not in row.values()]
        assert parquet.read_table(file).to_pylist() == others
    assert {path.stat().st_mode & 0o777 for path in place.rglob("*.parquet")} == {0o600}
    assert ledger.data_version != version and "person" not in str(ledger.entries()[-1])
    dp.connect(declared, place, ledger=ledger).sql(COUNT, epsilon="1")


def test_who_is_not_there_is_not_erased(shop: Shop) -> None:
    before, version = shop.text, shop.ledger.data_version
    said = {
        10**6: "no row",
        "nobody": "not a valid int64",
        "6.6": "not a valid int64",
        6.6: "not a valid",
        " 7": "no row",
    }
    for nobody, why in said.items():
        with pytest.raises(CatalogError, match=f"nothing was erased: .*{why}"):
            dp.erase(shop.catalog, shop.place, nobody, ledger=shop.ledger, by="owner")
    assert (shop.text, shop.ledger.data_version) == (before, version)
    assert [path.name for path in shop.place.iterdir() if path.is_dir()] == [shop.made.name]
    _flip(shop)
    with pytest.raises(CatalogError, match="not as it was written"):
        dp.erase(shop.catalog, shop.place, 7, ledger=shop.ledger, by="owner")
