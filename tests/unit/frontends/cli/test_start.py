"""`dpquery init`, `import-smartnoise` and `suggest-bounds`: catalogs to edit that load, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import dpquery as dp
from dpquery.catalog.rows import AUTO
from dpquery.catalog.write import write_catalog
from tests.scripted import zero_noise
from tests.unit.frontends.dbapi.dialect_shop import charges, write_shop

Run = Callable[..., tuple[int, str, str]]


def test_init_writes_a_catalog_that_loads(tmp_path: Path, dpquery: Run) -> None:
    table = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "Town Name": ["canary"],
            "spent": pa.array([1.5], pa.float32()),
            "price": pa.array([None], pa.decimal128(8, 2)),
            "day": pa.array([None], pa.date32()),
            "at": pa.array([None], pa.timestamp("us", tz="UTC")),
            "new": [True],
            "tags": pa.array([["canary"]]),
            "kind": pa.array(["canary"]).dictionary_encode(),
        }
    )
    pa.parquet.write_table(table, tmp_path / "visits.parquet")
    pyarrow.feather.write_feather(table.select(["id"]), tmp_path / "ids.feather")
    (tmp_path / "towns.csv").write_text("town,size\ncanary,3\n")
    (tmp_path / "parts").mkdir()
    pa.parquet.write_table(table.select(["id", "spent"]), tmp_path / "parts" / "a.parquet")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        made.execute(
            "CREATE TABLE orders (id BIGINT, paid DECIMAL(6,1), note VARCHAR, tags VARCHAR[], place ENUM('canary'))"
        )
    files = [tmp_path / name for name in ("visits.parquet", "ids.feather", "towns.csv", "parts", "shop.duckdb")]
    code, out, err = dpquery("init", *files, "--dataset", "my shop")
    assert (code, err) == (0, "")
    catalog = dp.Catalog.from_yaml(out)
    types = {name: str(column.type) for name, column in catalog.tables["visits"].columns.items()}
    assert types == {
        "id": "int64",
        "Town Name": "text",
        "spent": "float64",
        "price": "decimal(8,2)",
        "day": "date",
        "at": "timestamp",
        "new": "boolean",
        "kind": "text",
    }
    assert "# tags: left out, its type cannot be declared" in out
    assert {str(c.type) for c in catalog.tables["towns"].columns.values()} == {"text"}
    assert list(catalog.tables["orders"].columns) == ["id", "paid", "note", "place"]
    assert (catalog.dataset, list(catalog.tables["parts"].columns)) == ("my shop", ["id", "spent"])
    assert "canary" not in out


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.parquet", None, "there is no file"),
        ("bad.parquet", "x", "not a Parquet file"),
        ("bad.feather", "x", "not a Feather file"),
        ("bad.duckdb", "x", "not a DuckDB file"),
        ("bad.csv", "", "no header"),
        ("bad.xlsx", "x", "unknown ending"),
        ("two.csv", "id,a,a\n1,2,3\n", "several columns called 'a'"),
    ],
)
def test_init_tells_what_it_cannot_read(
    tmp_path: Path, dpquery: Run, name: str, content: str | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    code, out, err = dpquery("init", tmp_path / name)
    assert (code, out) == (2, "") and says in err


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("Nr;Kosten;Ort\n1;1.234,56;Köln\n2;99,10;Ulm\n", [(1, 1234.56, "Köln"), (2, 99.1, "Ulm")]),
        ("Nr\tOrt\n1\tKöln\n", [(1, "Köln")]),
        ("Nr|Ort\n1|Köln\n", [(1, "Köln")]),
        ("Nr,Ort\n1,Köln\n".encode("latin-1"), [(1, "Köln")]),
    ],
)
def test_init_says_how_other_csv_files_are_written_anew(
    tmp_path: Path, dpquery: Run, content: str | bytes, rows: list[tuple[object, ...]]
) -> None:
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = dpquery("init", tmp_path / "a.csv")
    assert (code, out) == (2, "")
    with duckdb.connect() as engine:
        engine.execute(err[err.index("COPY") :].splitlines()[0])
    made = dpquery("init", tmp_path / "a.parquet")[1]
    assert "Ort: {type: text" in made and ("Kosten: {type: float64" in made) is (len(rows[0]) == 3)
    assert duckdb.read_parquet(str(tmp_path / "a.parquet")).fetchall() == rows


def test_names_in_other_letters_are_written_as_they_are(tmp_path: Path, dpquery: Run) -> None:
    (tmp_path / "a.csv").write_text("Größe,Ort\n")
    assert '"Größe": {type: text' in dpquery("init", tmp_path / "a.csv")[1]


def test_init_refuses_two_tables_of_one_name(tmp_path: Path, dpquery: Run) -> None:
    for ending in ("csv", "tsv"):
        (tmp_path / f"a.{ending}").write_text("x\n")
    assert "two tables are called a" in dpquery("init", tmp_path / "a.csv", tmp_path / "a.tsv")[2]


SMARTNOISE = """\
'':
  PUMS:
    PUMS:
      row_privacy: False
      rows: 1000
      max_ids: 3
      sample_max_ids: True
      censor_dims: True
      pid: {type: int, private_id: True}
      age: {type: int, lower: 0, upper: 100, nullable: False}
      income: {type: float, lower: 0.0, upper: 500000}
      wide: {type: float, lower: 5}
      married: {type: boolean}
      when: {type: datetime}
      educ: {type: string, cardinality: 20}
      odd: {type: uuid}
"""


def test_smartnoise_metadata_become_a_catalog(tmp_path: Path, dpquery: Run) -> None:
    (tmp_path / "m.yaml").write_text(SMARTNOISE)
    code, out, err = dpquery("import-smartnoise", tmp_path / "m.yaml", "--dataset", "pums")
    assert (code, err) == (0, "")
    table = dp.Catalog.from_yaml(out).tables["PUMS"]
    assert (table.max_rows, table.max_groups, table.ownership is not None and table.ownership.column) == (
        3,
        None,
        "pid",
    )
    assert (table.columns["age"].lower, table.columns["age"].upper, table.columns["age"].nullable) == (0, 100, False)
    assert (table.columns["income"].upper, table.columns["income"].nullable) == (500000.0, True)
    assert table.columns["wide"].lower is None and "odd" not in table.columns
    assert out.splitlines()[1] == "version: 2"
    for said in (
        "rows: 1000 is left out",
        "censor_dims",
        "cardinality 20",
        "odd is left out",
        "lower 5 and upper None",
    ):
        assert said in out


@pytest.mark.parametrize("most", ["", "      max_ids: 0\n", "      max_ids: many\n"])
def test_smartnoise_without_a_number_of_rows_has_it_measured(most: str, tmp_path: Path, dpquery: Run) -> None:
    (tmp_path / "m.yaml").write_text(SMARTNOISE.replace("      max_ids: 3\n", most))
    out = dpquery("import-smartnoise", tmp_path / "m.yaml")[1]
    assert dp.Catalog.from_yaml(out).tables["PUMS"].max_rows is AUTO
    assert "# ! " in next(line for line in out.splitlines() if "max_rows: auto" in line)


def test_smartnoise_rows_and_missing_units(tmp_path: Path, dpquery: Run) -> None:
    (tmp_path / "m.yaml").write_text(SMARTNOISE.replace("row_privacy: False", "row_privacy: True"))
    catalog = dp.Catalog.from_yaml(dpquery("import-smartnoise", tmp_path / "m.yaml")[1])
    assert catalog.privacy_unit == "row" and catalog.tables["PUMS"].ownership is None
    (tmp_path / "m.yaml").write_text(SMARTNOISE.replace(", private_id: True", ""))
    assert "unit: COLUMN  # ! no column is private_id" in dpquery("import-smartnoise", tmp_path / "m.yaml")[1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [", "no YAML"),
        ("!!python/object:os.system {}", "no YAML"),
        ("just text", "has no tables"),
        ("a: {b: {c: 1}}", "has no tables"),
        (SMARTNOISE + "  OTHER:\n    PUMS: {row_privacy: False, x: {type: int}}\n", "one name"),
        (SMARTNOISE + "  OTHER:\n    T: {row_privacy: True, x: {type: int}}\n", "protect rows and others people"),
        ("'':\n  s:\n    t:\n      ' x': {type: int}\n", "x"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, dpquery: Run, content: str, says: str) -> None:
    (tmp_path / "m.yaml").write_text(content)
    code, out, err = dpquery("import-smartnoise", tmp_path / "m.yaml")
    assert (code, out) == (2, "") and says in err
    assert "m.yaml" in dpquery("import-smartnoise", tmp_path / "none" / "m.yaml")[2]


def test_bounds_are_suggested_and_charged(tmp_path: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    shop = write_shop(tmp_path)
    shop.write_text(shop.read_text().replace("spent: {type: float64, lower: 0, upper: 100,", "spent: {type: float64,"))
    code, out, err = dpquery("suggest-bounds", shop, "visits.spent", "--epsilon", "3", "--coverage", "0.9")
    assert code == 0 and "charged epsilon 3; left for analyst: epsilon 1" in err
    assert charges(shop) == 1
    found = dp.Catalog.from_yaml(out).tables["visits"]
    assert (found.columns["spent"].lower, found.columns["spent"].upper, found.max_rows) == (20.0, 20.0, 1)
    code, out, err = dpquery("suggest-bounds", shop, "visits.nothing")
    assert (code, out, charges(shop)) == (2, "", 1) and "UnknownNameError" in err


def test_a_profile_is_bought_once_and_checked(tmp_path: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    shop = write_shop(tmp_path)
    code, out, err = dpquery("profile", shop, "--epsilon", "3")
    assert code == 0 and "charged epsilon 3; left for analyst: epsilon 1" in err
    assert "Table visits" in out and "1  1,200 ± " in out and "max_rows 1 suits queries of 24 groups" in out
    assert "units by values of spent: within 1,200 ± " in out
    code, again, err = dpquery("profile", shop, "--epsilon", "3")
    assert (code, again, charges(shop)) == (0, out, 1) and "nothing was charged" in err
    assert "queries of 5 groups" in dpquery("profile", shop, "--epsilon", "3", "--groups", "5")[1]
    code, out, err = dpquery("check", shop)
    assert code == 0 and "Profile of the data, with noise" in out
    assert "visits, max_rows 1: 1,200 ± " in out and "suits queries of 24 groups at epsilon 0.5" in out
    assert "visits, max_rows 1: 1,200" in dpquery("query", shop, "SELECT COUNT(*) AS n FROM visits", "-e", "0.2")[2]
    assert dpquery("profile", shop, "towns")[0] == 2 and dpquery("profile", shop, "--groups", "0")[0] == 2


def test_check_finds_the_ledger_that_is_named(tmp_path: Path, dpquery: Run) -> None:
    shop = write_shop(tmp_path)
    assert "Profile" not in dpquery("check", shop)[1]
    place = tmp_path / "shop.ledger"
    moved = tmp_path / "elsewhere.ledger"
    assert dpquery("check", shop, "--ledger", moved)[0] == 2
    place.write_text("no ledger")
    code, _, err = dpquery("check", shop)
    assert code == 0 and "Profile: not looked for" in err
    assert dpquery("check", shop, "--ledger", place)[0] == 2


def test_new_data_buy_the_profile_that_the_catalog_says_a_price_of(
    tmp_path: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    shop = write_shop(tmp_path)
    ledger = tmp_path / "shop.ledger"
    code, _, err = dpquery("data", "new-version", ledger, "--why", "news", "--catalog", shop)
    assert code == 2 and "has no price for a profile" in err and charges(shop) == 0
    shop.write_text(shop.read_text().replace("tables:", 'profile: "1.5"\ntables:', 1))
    code, out, err = dpquery("data", "new-version", ledger, "--why", "news", "--catalog", shop)
    assert code == 0 and "The data are now version" in out and "Table visits" in out
    assert "charged epsilon 1.5; left for analyst: epsilon 2.5" in err and charges(shop) == 2
    code, again, err = dpquery("profile", shop)
    assert code == 0 and again.strip() in out and "nothing was charged" in err
    assert "a profile of each data version costs 1.5" in dpquery("check", shop)[1]
    declared = dp.Catalog.load(shop)
    assert dp.Catalog.from_yaml(write_catalog(declared)).profile == declared.profile == Fraction("1.5")
