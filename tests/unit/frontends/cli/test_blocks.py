"""The command line where rows are in blocks: budgets by block, new blocks, and the audit's columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpquery.frontends.cli.main import app

CATALOG = """
version: 2
dataset: clinic
privacy_unit: row
budget: {epsilon: 1}
analysts: {ann: {epsilon: 0.5}}
tables:
  visits:
    blocks: {column: day, by: quarter}
    columns: {day: {type: date, lower: 2024-01-01, upper: 2024-12-31}}
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic.yaml").write_text(CATALOG)
    (tmp_path / "visits.csv").write_text("day\n2024-02-01\n2024-05-01\n2025-02-01\n")
    assert run("ledger", "create", "clinic.yaml").exit_code == 0
    query = "SELECT COUNT(*) AS n FROM visits WHERE day < DATE '2024-07-01'"
    asked = run("query", "clinic.yaml", query, "--epsilon", "0.2", "--analyst", "ann", "--source", "visits=visits.csv")
    assert asked.exit_code == 0, asked.output
    assert "charged epsilon 0.2 to 2024-Q1 to 2024-Q2" in asked.output + asked.stderr
    return tmp_path


def test_what_is_left_is_shown_by_block(folder: Path) -> None:
    shown = run("budget", "clinic.yaml").output
    assert "epsilon 1 for each quarter" in shown
    assert shown.endswith(
        "Left for ann:\n  2024-Q1 to 2024-Q2: epsilon 0.3\n  2024-Q3 to 2024-Q4: epsilon 0.5\n  undated: epsilon 0.5\n"
    )
    told = json.loads(run("budget", "clinic.yaml", "--json").output)
    assert told["remaining_by_block"]["ann"]["2024-Q2"]["epsilon"] == 0.3


def test_the_owner_extends_blocks(folder: Path) -> None:
    made = run("ledger", "extend", "clinic.ledger", "--last", "2025-Q1", "--why", "new data", "--by", "owner")
    assert made.output == "Entry 2: there are blocks from 2024-Q1 to 2025-Q1\nWrite the bounds in the catalog.\n"
    refused = run("ledger", "extend", "clinic.ledger", "--last", "2024-Q4", "--why", "less", "--by", "owner")
    assert "can only be added" in str(refused.exception)
    shown = run("ledger", "show", "clinic.ledger").output
    assert "epsilon 0.2 to 2024-Q1..2024-Q2" in shown
    assert "new blocks, by owner: new data" in shown
    assert run("ledger", "verify", "clinic.ledger").exit_code == 0


def test_the_audit_names_blocks(folder: Path) -> None:
    assert run("ledger", "export", "clinic.ledger", "audit.jsonl").exit_code == 0
    assert json.loads((folder / "audit.jsonl").read_text())["blocks"] == "2024-Q1..2024-Q2"
    assert json.loads(run("ledger", "show", "clinic.ledger", "--json").output)[0]["blocks"] == "2024-Q1..2024-Q2"


def test_check_says_what_is_protected(folder: Path) -> None:
    text = run("check", "clinic.yaml").output
    assert "protected: each single row" in text
    assert "blocks: 4 from 2024-Q1 to 2024-Q4, and one of rows without a date" in text
    assert "budget: epsilon 1 for each quarter" in text
