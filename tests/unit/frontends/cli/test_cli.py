"""The command line: every command and format, and mistakes, each told in words with its exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from tests.pressing import long_statement

SHOP = """\
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 2}
analysts: {ann: {epsilon: 1}}
defaults: {epsilon: 0.5}
tables:
  visits:
    unit: person
    max_rows: 8
    columns:
      person: {type: int64}
      town: {type: text, keys: [east, west]}
      spent: {type: float64, lower: 0, upper: 100}
  towns:
    public: true
    unique: [[town]]
    columns: {town: {type: text}, size: {type: int64}}
"""
BY_TOWN = "SELECT town, COUNT(*) AS n, AVG(spent) AS mean FROM visits GROUP BY town"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A catalog with its data beside it, as Parquet and as CSV, and no ledger."""
    people = range(1000)
    visits = {"person": list(people), "town": [("east", "west", "west")[i % 3] for i in people], "spent": [20.0] * 1000}
    pd.DataFrame(visits).to_parquet(tmp_path / "visits.parquet")
    pd.DataFrame({"town": ["east", "west"], "size": [3, 4]}).to_csv(tmp_path / "towns.csv", index=False)
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    return path


@pytest.fixture
def open_shop(shop: Path, dpquery: Run) -> Path:
    """The same, with a ledger."""
    assert dpquery("ledger", "create", shop)[0] == 0
    return shop


def charges(catalog: Path) -> int:
    return len(Ledger.open(catalog.with_suffix(".ledger")).entries())


# check


def test_check_prints_the_catalog_and_reads_the_data_beside_it(shop: Path, dpquery: Run) -> None:
    code, out, _ = dpquery("check", shop)
    assert code == 0
    assert "Dataset shop" in out
    assert "budget: epsilon 2, all analysts together" in out
    assert f"visits: {shop.parent / 'visits.parquet'}" in out
    assert f"towns: {shop.parent / 'towns.csv'}" in out


def test_check_without_data_says_so(shop: Path, dpquery: Run) -> None:
    (shop.parent / "towns.csv").unlink()
    code, out, err = dpquery("check", shop)
    assert code == 0
    assert "Data, readable" not in out
    assert "not checked" in err


def test_check_prints_warnings_apart(shop: Path, dpquery: Run) -> None:
    shop.write_text(SHOP.replace("{epsilon: 2}", "{epsilon: 50}"))
    code, out, err = dpquery("check", shop)
    assert code == 0
    assert "Warning" not in out
    assert "Warning: budget: epsilon 50" in err


def test_check_reports_all_mistakes_of_a_catalog(shop: Path, dpquery: Run) -> None:
    shop.write_text(SHOP.replace("lower: 0", "lowr: 0").replace("type: int64}\n      town", "type: int65}\n      town"))
    code, out, err = dpquery("check", shop)
    assert (code, out) == (2, "")
    assert err.startswith("CatalogError: 3 mistakes\n  shop.yaml:")
    assert "did you mean 'lower'?" in err
    assert "int65" in err
    assert "Traceback" not in err


def test_check_reports_all_contradictions_of_the_data(shop: Path, dpquery: Run) -> None:
    pd.DataFrame({"person": [1], "spent": [1.0]}).to_parquet(shop.parent / "visits.parquet")
    pd.DataFrame({"town": ["east", "east"]}).to_csv(shop.parent / "towns.csv", index=False)
    code, _, err = dpquery("check", shop)
    assert code == 2
    assert "table visits has no column town" in err
    assert "table towns has no column size" in err


def test_check_reports_public_rows_that_are_not_unique(shop: Path, dpquery: Run) -> None:
    pd.DataFrame({"town": ["east", "east"], "size": [1, 2]}).to_csv(shop.parent / "towns.csv", index=False)
    code, _, err = dpquery("check", shop)
    assert code == 2
    assert "towns is not unique by town" in err
    assert "east" not in err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("visits=nowhere.parquet", "nowhere.parquet"),
        ("guests=visits.parquet", "no such table is declared"),
        ("visits", "is written TABLE=PATH"),
    ],
)
def test_bad_sources_are_told(shop: Path, dpquery: Run, source: str, message: str) -> None:
    code, _, err = dpquery("check", shop, "--source", source)
    assert code == 2
    assert message in err


def test_several_files_of_one_table_are_not_chosen_from(open_shop: Path, dpquery: Run) -> None:
    (open_shop.parent / "visits.csv").write_text("person,town,spent\n1,east,2\n")
    code, _, err = dpquery("explain", open_shop, BY_TOWN)
    assert code == 2
    assert "visits.parquet, visits.csv; choose by --source" in err
    assert dpquery("explain", open_shop, BY_TOWN, "-s", f"visits={open_shop.parent / 'visits.csv'}")[0] == 0


def test_a_folder_of_parquet_files_is_found(open_shop: Path, dpquery: Run) -> None:
    folder = open_shop.parent / "visits"
    folder.mkdir()
    (open_shop.parent / "visits.parquet").rename(folder / "part.parquet")
    assert dpquery("explain", open_shop, BY_TOWN)[0] == 0


# explain


def test_explain_prints_the_plan_and_charges_nothing(open_shop: Path, dpquery: Run) -> None:
    code, out, err = dpquery("explain", open_shop, BY_TOWN, "--epsilon", "1/2", "--max-rows", "2", "--max-groups", "1")
    assert code == 0
    assert "Charge: epsilon 0.5" in out
    assert "Weigh person  max_rows=2  counted here" in out
    assert "left for ann: epsilon 1; enough for 2 such queries" in err
    assert charges(open_shop) == 0


def test_explain_says_when_the_budget_does_not_suffice(open_shop: Path, dpquery: Run) -> None:
    code, _, err = dpquery("explain", open_shop, BY_TOWN, "--epsilon", "1.5")
    assert code == 0
    assert "enough for no such query" in err


# query


def test_query_prints_a_table_and_the_charge_apart(open_shop: Path, dpquery: Run) -> None:
    code, out, err = dpquery("query", open_shop, BY_TOWN)
    assert code == 0
    assert out.splitlines()[0].split() == ["town", "n", "mean"]
    assert "±" in out
    assert "charged" not in out
    assert "charged epsilon 0.5; left for ann: epsilon 0.5]" in err
    assert [e.state.value for e in Ledger.open(open_shop.with_suffix(".ledger")).entries()] == ["answered"]


def test_query_prints_csv(open_shop: Path, dpquery: Run) -> None:
    code, out, _ = dpquery("query", open_shop, BY_TOWN, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["town"] for row in rows] == ["east", "west"]
    assert all(int(row["n"]) == float(row["n"]) for row in rows)


def test_query_prints_json_with_intervals(open_shop: Path, dpquery: Run) -> None:
    code, out, _ = dpquery("query", open_shop, BY_TOWN, "--format", "json", "--intervals", "--confidence", "0.9")
    rows = json.loads(out)
    assert code == 0
    assert list(rows[0]) == ["town", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    assert all(row["n_low"] < row["n"] < row["n_high"] for row in rows)


def test_query_writes_parquet(open_shop: Path, dpquery: Run, tmp_path: Path) -> None:
    target = tmp_path / "answer.parquet"
    code, out, err = dpquery("query", open_shop, BY_TOWN, "--format", "parquet", "-o", target, "--intervals")
    assert (code, out) == (0, "")
    assert "2 rows written" in err
    assert pyarrow.parquet.read_table(target).column_names[:3] == ["town", "n", "n_low"]


def test_query_prints_intervals_as_columns_of_a_table(open_shop: Path, dpquery: Run) -> None:
    code, out, _ = dpquery("query", open_shop, "SELECT COUNT(*) AS n FROM visits", "--intervals")
    assert code == 0
    assert out.splitlines()[0].split() == ["n", "n_low", "n_high"]


def test_names_of_interval_columns_never_collide(open_shop: Path, dpquery: Run) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(spent) AS n_low FROM visits"
    code, out, _ = dpquery("query", open_shop, sql, "--intervals", "--format", "json")
    assert code == 0
    assert list(json.loads(out)[0]) == ["n", "n_low_2", "n_high_2", "n_low", "n_low_low", "n_low_high"]


def test_query_reads_standard_input_and_files(
    open_shop: Path, dpquery: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{BY_TOWN}\n"))
    assert dpquery("query", open_shop, "-")[0] == 0
    (tmp_path / "by_town.sql").write_text(BY_TOWN)
    assert dpquery("explain", open_shop, "--file", tmp_path / "by_town.sql")[0] == 0


@pytest.mark.parametrize("arguments", [[], ["SELECT 1", "--file", "x.sql"], [" "], ["--file", "missing.sql"]])
def test_query_needs_one_text(open_shop: Path, dpquery: Run, arguments: list[str]) -> None:
    code, out, err = dpquery("query", open_shop, *arguments)
    assert (code, out) == (2, "")
    assert err
    assert "defect" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "parquet"],
        ["--format", "csv", "--output", "no/such/folder/answer.csv"],
        ["--output", "."],
        ["--format", "xml"],
    ],
)
def test_what_cannot_be_written_is_refused_before_the_charge(
    open_shop: Path, dpquery: Run, arguments: list[str]
) -> None:
    assert dpquery("query", open_shop, BY_TOWN, *arguments)[0] == 2
    assert charges(open_shop) == 0


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "a lot", "1e-40"])
def test_bad_amounts_are_told(open_shop: Path, dpquery: Run, epsilon: str) -> None:
    code, _, err = dpquery("query", open_shop, BY_TOWN, f"--epsilon={epsilon}")
    assert code == 2
    assert err.startswith("InvalidLossError: epsilon must")
    assert charges(open_shop) == 0


def test_bad_queries_are_told_with_their_place(open_shop: Path, dpquery: Run) -> None:
    code, out, err = dpquery("query", open_shop, "SELECT person FROM visits")
    assert (code, out) == (2, "")
    assert "UnsupportedQueryError" in err
    assert "^^^^^^" in err
    assert charges(open_shop) == 0


def test_an_exhausted_budget_has_its_own_code(open_shop: Path, dpquery: Run) -> None:
    assert dpquery("query", open_shop, BY_TOWN, "--epsilon", "0.8")[0] == 0
    assert dpquery("query", open_shop, BY_TOWN, "--epsilon", "0.8")[0] == 0  # stored, hence free
    code, out, err = dpquery("query", open_shop, BY_TOWN, "--epsilon", "0.8", "--fresh")
    assert (code, out) == (1, "")
    assert "costs epsilon 0.8; what is left for ann is epsilon 0.2" in err
    assert charges(open_shop) == 1


def test_without_a_ledger_nothing_is_answered(shop: Path, dpquery: Run) -> None:
    code, out, err = dpquery("query", shop, BY_TOWN)
    assert (code, out) == (2, "")
    assert "LedgerError" in err
    assert not shop.with_suffix(".ledger").exists()


def test_a_ledger_of_another_catalog_is_refused(open_shop: Path, dpquery: Run) -> None:
    open_shop.write_text(SHOP.replace("add_remove", "").replace("privacy_unit: person", "privacy_unit: household"))
    code, _, err = dpquery("query", open_shop, BY_TOWN)
    assert code == 2
    assert "LedgerError" in err


def test_who_asks_must_be_known(open_shop: Path, dpquery: Run, tmp_path: Path) -> None:
    code, _, err = dpquery("query", open_shop, BY_TOWN, "--analyst", "bob")
    assert (code, "bob" in err) == (2, True)
    two = tmp_path / "two.yaml"
    two.write_text(SHOP.replace("{ann: {epsilon: 1}}", "{ann: {epsilon: 1}, bob: {epsilon: 1}}"))
    ledger = tmp_path / "two.ledger"
    assert dpquery("ledger", "create", two, ledger)[0] == 0
    code, _, err = dpquery("query", two, BY_TOWN, "--ledger", ledger)
    assert (code, "--analyst" in err) == (2, True)
    assert dpquery("query", two, BY_TOWN, "--ledger", ledger, "-a", "bob")[0] == 0


# budget and ledger


def test_budget_shows_limits_spent_and_left(open_shop: Path, dpquery: Run) -> None:
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    code, out, _ = dpquery("budget", open_shop)
    rows = [line.split() for line in out.splitlines()[4:]]
    assert code == 0
    assert out.startswith("Dataset shop: differential privacy with epsilon 2\n")
    assert rows[0][:6] == ["all", "together", "epsilon", "2", "0.5", "1.5"]
    assert rows[1][:5] == ["ann", "epsilon", "1", "0.5", "0.5"]
    assert rows[1][-2:] == ["50", "%"]


@pytest.mark.parametrize("place", ["shop.yaml", "shop.ledger"])
def test_budget_in_json(open_shop: Path, dpquery: Run, place: str) -> None:
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    code, out, _ = dpquery("budget", open_shop.parent / place, "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["dataset"], found["budget"]) == (0, "shop", {"epsilon": 2.0})
    assert [account["analyst"] for account in found["accounts"]] == [None, "ann"]
    assert found["accounts"][1]["remaining"] == {"epsilon": 0.5, "rho": 0.0, "delta": 0.0}


@pytest.mark.parametrize("arguments", [["budget"], ["ledger", "show"], ["ledger", "verify"], ["check"]])
@pytest.mark.parametrize("name", ["nothing.yaml", "nothing.ledger", "."])
def test_missing_files_are_told(tmp_path: Path, dpquery: Run, arguments: list[str], name: str) -> None:
    code, out, err = dpquery(*arguments, tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith(("LedgerError", "CatalogError"))


def test_ledger_create_never_replaces_one(open_shop: Path, dpquery: Run) -> None:
    before = open_shop.with_suffix(".ledger").read_bytes()
    code, _, err = dpquery("ledger", "create", open_shop)
    assert (code, "LedgerError" in err) == (2, True)
    assert open_shop.with_suffix(".ledger").read_bytes() == before


def test_ledger_show_lists_charges(open_shop: Path, dpquery: Run) -> None:
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    ledger = Ledger.open(open_shop.with_suffix(".ledger"))
    ledger.charge(analyst="ann", loss=PrivacyLoss(epsilon=Fraction(1, 10)), query="SELECT '\x1b[31mred'\nFROM visits")
    code, out, _ = dpquery("ledger", "show", open_shop.with_suffix(".ledger"))
    assert code == 0
    assert "ann" in out
    assert "epsilon 0.5" in out
    assert "answered" in out
    assert "pending   SELECT '\\u001b[31mred' FROM visits" in out
    code, out, _ = dpquery("ledger", "show", open_shop.with_suffix(".ledger"), "--json")
    entry, _ = json.loads(out)
    assert entry["number"] == 1
    assert entry["charge"] == {"epsilon": 0.5, "rho": 0.0, "delta": 0.0}
    assert entry["query"].startswith(BY_TOWN)


def test_ledger_verify_gives_a_mark_that_finds_a_replaced_ledger(open_shop: Path, dpquery: Run) -> None:
    ledger = open_shop.with_suffix(".ledger")
    old = ledger.read_bytes()
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    code, out, _ = dpquery("ledger", "verify", ledger)
    assert code == 0
    assert "1 entry, unbroken" in out
    mark = out.split()[-1]
    assert dpquery("ledger", "verify", ledger, "--since", mark)[0] == 0
    ledger.write_bytes(old)
    code, _, err = dpquery("ledger", "verify", ledger, "--since", mark)
    assert (code, "LedgerError" in err) == (2, True)


def test_a_limit_is_raised_in_the_ledger_and_then_in_the_catalog(open_shop: Path, dpquery: Run) -> None:
    ledger = open_shop.with_suffix(".ledger")
    code, out, _ = dpquery("ledger", "limit", ledger, "--analyst", "ann", "--epsilon", "1.5", "--why", "a study")
    assert (code, out.startswith("Entry 1: analyst ann may now spend differential privacy with epsilon 1.5")) == (
        0,
        True,
    )
    code, _, err = dpquery("query", open_shop, BY_TOWN)
    assert code == 2
    assert "the catalog's budget for analyst ann is epsilon 1, but the ledger's is epsilon 1.5" in err
    open_shop.write_text(SHOP.replace("{ann: {epsilon: 1}}", "{ann: {epsilon: 1.5}, bob: {epsilon: 1}}"))
    code, _, err = dpquery("query", open_shop, BY_TOWN, "-a", "ann")
    assert code == 2
    assert "gives analyst bob a budget, but the ledger does not" in err
    assert dpquery("ledger", "limit", ledger, "-a", "bob", "--epsilon", 1, "--by", "Eve", "--why", "new")[0] == 0
    assert dpquery("query", open_shop, BY_TOWN, "-a", "bob")[0] == 0
    code, out, _ = dpquery("ledger", "show", ledger)
    assert "new limit, by Eve: new" in out
    open_shop.write_text(SHOP.replace("{ann: {epsilon: 1}}", "{ann: {epsilon: 1.5}}"))
    code, _, err = dpquery("query", open_shop, BY_TOWN, "-a", "ann")
    assert "analysts that the catalog does not name: bob" in err
    for wrong in (["--epsilon", "0.1", "-a", "bob"], ["--rho", "1"], []):
        assert dpquery("ledger", "limit", ledger, "--why", "x", *wrong)[0] == 2


def test_a_restored_ledger_is_refused_until_the_owner_accepts_it(open_shop: Path, dpquery: Run) -> None:
    ledger = open_shop.with_suffix(".ledger")
    old = ledger.read_bytes()
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    ledger.write_bytes(old)
    code, _, err = dpquery("query", open_shop, BY_TOWN)
    assert code == 2
    assert "dpquery ledger reconcile" in err
    code, out, _ = dpquery("ledger", "reconcile", ledger, "--by", "Eve", "--why", "the disk broke")
    assert (code, "each account is charged epsilon 0.5" in out) == (0, True)
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    assert dpquery("ledger", "reconcile", ledger, "--why", "again")[0] == 2


def test_the_mark_may_be_kept_elsewhere(shop: Path, dpquery: Run, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    assert dpquery("ledger", "create", shop, "--mark", tmp_path / "safe" / "m")[0] == 0
    assert dpquery("query", shop, BY_TOWN)[0] == 0
    (tmp_path / "safe" / "m").rename(tmp_path / "m")
    code, _, err = dpquery("ledger", "verify", shop.with_suffix(".ledger"))
    assert (code, "is missing" in err) == (2, True)
    assert dpquery("ledger", "verify", shop.with_suffix(".ledger"), "--mark", tmp_path / "m")[0] == 0


def test_data_get_new_versions(open_shop: Path, dpquery: Run) -> None:
    ledger = open_shop.with_suffix(".ledger")
    before = Ledger.open(ledger).data_version
    code, out, _ = dpquery("data", "new-version", ledger, "--why", "rows of March")
    assert code == 0
    assert out == f"The data are now version {Ledger.open(ledger).data_version}\n"
    assert before not in out


def test_check_tells_of_identifiers_beside_rows(tmp_path: Path, dpquery: Run) -> None:
    """API-07: with data, by the values; a key of few values is none."""
    said = "version: 2\ndataset: shop\nprivacy_unit: row\nbudget: {epsilon: 2}\ntables:\n  visits:\n    columns: "
    (tmp_path / "c.yaml").write_text(said + "{who: {type: int64}, kind: {type: text}}\n")
    pd.DataFrame({"who": [i % 90 for i in range(300)], "kind": ["a", "b", "c"] * 100}).to_csv(tmp_path / "visits.csv")
    code, _, err = dpquery("check", tmp_path / "c.yaml")
    assert (code, err.count("occur in more than one row")) == (
        0,
        1,
    ) and "values of 'who' occur in more than one row" in err


def test_a_catalog_that_grew_is_amended(open_shop: Path, dpquery: Run) -> None:
    """ACC-06: the same budget goes on; another promise is refused."""
    said = open_shop.read_text()
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    spent = Ledger.open(open_shop.with_suffix(".ledger")).spent(None)
    open_shop.write_text(said + "\n  codes:\n    public: true\n    columns: {code: {type: text}}\n")
    (open_shop.parent / "codes.csv").write_text("code\na\n")
    code, _, err = dpquery("query", open_shop, BY_TOWN)
    assert (code, "dpquery ledger amend" in err, "new ledger" in err) == (2, True, False)
    code, out, _ = dpquery("ledger", "amend", open_shop, "--by", "Eve", "--why", "codes")
    assert (code, "codes" in out) == (0, True)
    assert "need no entry" in dpquery("ledger", "amend", open_shop, "--why", "again")[1]
    assert dpquery("query", open_shop, BY_TOWN)[0] == 0
    opened = Ledger.open(open_shop.with_suffix(".ledger"))
    assert opened.spent(None) == spent and "new tables, by Eve: codes" in dpquery("ledger", "show", opened.place)[1]
    open_shop.write_text(said.replace("unit: ", "unit: un", 1))
    assert dpquery("ledger", "amend", open_shop, "--why", "others")[0] == 2


def test_an_audit_is_exported_once(open_shop: Path, dpquery: Run, tmp_path: Path) -> None:
    ledger = open_shop.with_suffix(".ledger")
    for _ in range(2):
        dpquery("query", open_shop, BY_TOWN, "--fresh")
    dpquery("data", "new-version", ledger, "--by", "Eve", "--why", "x")
    for name in ("a.jsonl", "a.parquet"):
        assert dpquery("ledger", "export", ledger, tmp_path / name)[:2] == (0, f"{tmp_path / name}: 3 entries\n")
        assert dpquery("ledger", "export", ledger, tmp_path / name)[0] == 2
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [dict(sorted(row.items())) for row in table] == [dict(sorted(row.items())) for row in lines]
    assert [(row["analyst"], row["epsilon_exact"], row["query"]) for row in lines[:2]] == [("ann", "0.5", BY_TOWN)] * 2
    assert (lines[2]["kind"], lines[2]["by"]) == ("data", "Eve")
    assert dpquery("ledger", "export", ledger, tmp_path / "a.txt")[0] == 2


def test_ledger_show_adds_up(open_shop: Path, dpquery: Run) -> None:
    ledger = open_shop.with_suffix(".ledger")
    for _ in range(2):
        dpquery("query", open_shop, BY_TOWN, "-e", "0.25", "--fresh")
    dpquery("query", open_shop, "SELECT COUNT(*) AS n FROM visits", "-e", "0.1", "--fresh")
    out = dpquery("ledger", "show", ledger, "--totals")[1]
    assert [line.split()[:4] for line in out.splitlines()[2:]] == [
        ["ann", "2", "epsilon", "0.5"],
        ["ann", "1", "epsilon", "0.1"],
    ]
    assert [row["times"] for row in json.loads(dpquery("ledger", "show", ledger, "--totals", "--json")[1])] == [2, 1]
    assert json.loads(dpquery("ledger", "show", ledger, "--analyst", "bob", "--json")[1]) == []


def test_no_server_is_told_without_its_password(open_shop: Path, dpquery: Run, tmp_path: Path) -> None:
    url = f"postgresql://ann:secret@/shop?host={tmp_path}"
    for command in (["budget", url], ["ledger", "show", url], ["query", open_shop, BY_TOWN, "--ledger", url]):
        code, _, err = dpquery(*command)
        assert (code, "LedgerError: postgresql://ann@/shop" in err, "secret" in err) == (2, True, False)


def test_a_file_that_is_no_ledger_is_refused(open_shop: Path, dpquery: Run) -> None:
    for command in ("show", "verify"):
        code, _, err = dpquery("ledger", command, open_shop)
        assert (code, err.startswith("LedgerError")) == (2, True)


# the whole


def test_defects_are_told_without_quoting_anything(
    open_shop: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("secret of Ann")

    monkeypatch.setattr("dpquery.session.session.Session.sql", fail)
    code, out, err = dpquery("query", open_shop, BY_TOWN)
    assert (code, out) == (2, "")
    assert "A defect of dpquery (ValueError at dpquery.frontends.cli.main:" in err
    assert "secret" not in err


def test_an_interruption_is_not_taken_for_an_exhausted_budget(
    open_shop: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpquery.session.session.Session.sql", interrupt)
    assert dpquery("query", open_shop, BY_TOWN)[0] == 130


@pytest.mark.parametrize("command", [("query", BY_TOWN), ("explain", BY_TOWN), ("suggest-bounds",), ("check",)])
def test_ctrl_c_while_a_session_opens_ends_it_in_silence(
    command: tuple[str, ...], open_shop: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDBBackend, "_can_be_read", long_statement)
    before = signal.getsignal(signal.SIGINT)
    code, _, err = dpquery(command[0], open_shop, *command[1:])
    assert (code, err) == (130, "")
    assert charges(open_shop) == 0
    assert signal.getsignal(signal.SIGINT) is before and signal.set_wakeup_fd(-1) == -1


def test_ctrl_c_after_the_charge_ends_the_query_and_the_charge_stands(
    open_shop: Path, dpquery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckDBBackend, "run", long_statement)
    code, out, err = dpquery("query", open_shop, BY_TOWN)
    assert (code, out) == (130, "")
    assert err == "[interrupted; the charge is kept; left for ann: epsilon 0.5]\n"
    assert charges(open_shop) == 1


def test_ctrl_c_while_the_command_line_loads_ends_it_in_silence() -> None:
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which who began the tests in the background ignores
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "dpquery.frontends.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
sys.argv = ["dpquery", "--help"]
import runpy
runpy.run_module("dpquery", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_package_is_the_command_line_too() -> None:
    done = subprocess.run([sys.executable, "-m", "dpquery", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpquery 0.") and done.stderr == ""


def test_a_folder_without_parquet_files_is_called_one(open_shop: Path, dpquery: Run) -> None:
    (open_shop.parent / "bare").mkdir()
    code, _, err = dpquery("query", open_shop, BY_TOWN, "--source", f"visits={open_shop.parent / 'bare'}")
    assert code == 2 and "the source of table visits is a folder without Parquet files: " in err


def test_help_and_version(dpquery: Run) -> None:
    code, out, _ = dpquery("--help")
    assert code == 0
    assert all(command in out for command in ("check", "explain", "query", "budget", "ledger", "demo"))
    assert dpquery("--version")[1].startswith("dpquery 0.")


def test_help_loads_no_engine() -> None:
    """Whatever `import dpquery` loads, the command line itself asks for no engine before a command runs."""
    program = """
import importlib.util, sys, types
package = types.ModuleType("dpquery")
package.__path__ = list(importlib.util.find_spec("dpquery").submodule_search_locations)
sys.modules["dpquery"] = package
from dpquery.frontends.cli.main import run
code = run(["--help"])
print([name for name in ("duckdb", "numpy", "pandas", "pyarrow", "sqlglot", "yaml") if name in sys.modules], code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_an_answer_survives_a_terminal_without_its_characters(open_shop: Path) -> None:
    sql = 'SELECT COUNT(*) AS "l\u0142" FROM visits'
    done = subprocess.run(
        [sys.executable, "-m", "dpquery", "query", str(open_shop), sql],
        capture_output=True,
        env={"PYTHONIOENCODING": "latin-1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
    assert b"l\\u0142" in done.stdout


def test_errors_of_columns_are_options(open_shop: Path, dpquery: Run) -> None:
    sql = "SELECT town, COUNT(*) AS n, AVG(spent) AS mean, MEDIAN(spent) AS middle FROM visits GROUP BY town"
    errors = ("--error", "n=200", "--error", "mean=400@1000", "--error", "middle=5000")
    code, out, _ = dpquery("explain", open_shop, sql, *errors)
    assert code == 0
    (price,) = (line for line in out.splitlines() if line.startswith("Charge: "))
    code, _, err = dpquery("query", open_shop, sql, *errors)
    assert code == 0 and price.removeprefix("Charge: ") in err
    code, out, _ = dpquery("explain", open_shop, sql, *errors, "--simultaneous")
    assert code == 0 and price not in out


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (("--error", "20", "--error", "n=20"), "several errors name their columns"),
        (("--error", "3@1000"), "as does one with rows"),
        (("--error", "n=20", "--error", "n=30"), "a column has two errors"),
        (("--error", "x=20"), "'x' has a target and is not a noisy column"),
        (("--error", "n=many"), "the error of n"),
        (("--error", "20", "--epsilon", "1"), "give either a privacy loss or"),
        (("--error", "mean=3"), "Say for how many rows it is to hold: --error mean=3@1000, from 1000 rows on."),
    ],
)
def test_errors_that_are_none_are_refused(open_shop: Path, dpquery: Run, errors: tuple[str, ...], words: str) -> None:
    code, out, err = dpquery("query", open_shop, BY_TOWN, *errors)
    assert (code, out) == (2, "") and words in " ".join(err.replace("│", " ").split())
    assert charges(open_shop) == 0


def test_prices_are_printed_and_nothing_is_charged(open_shop: Path, dpquery: Run) -> None:
    code, out, err = dpquery("query", open_shop, BY_TOWN, "--prices")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and lines[0] == ["charge", "(epsilon)", "n", "mean"] and lines[2][:2] == ["epsilon=0.01", "0.01"]
    assert [line[0] for line in lines[5:]] == ["error=10", "error=100", "error=1000"]
    assert "nothing was charged" in err and charges(open_shop) == 0
    code, out, _ = dpquery("explain", open_shop, BY_TOWN, "--prices", "--error", "n=50")
    assert code == 0 and out.index("Charge: epsilon") < out.index("Prices\n") < out.index("epsilon=0.01")
