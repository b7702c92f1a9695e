"""Mistakes of a first day on the command line: each is told in the command's own words, with what to do."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from dpquery.errors import QueryError
from dpquery.frontends.cli.main import run
from dpquery.frontends.postgres.login.users import Users
from dpquery.frontends.text import as_options, as_settings, grid
from dpquery.sql.bind.wording import ADVISED
from dpquery.sql.parse.parse import parse

CATALOG = """\
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 2, delta: 1e-6}
tables:
  visits:
    unit: person
    max_rows: 8
    columns: {person: {type: int64}, epsilon: {type: int64}}
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def dpquery(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line: exit code and standard error, with its lines and frames joined."""

    def run_command(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return code, " ".join(capsys.readouterr().err.replace("│", " ").split())

    return run_command


@pytest.fixture
def shop(tmp_path: Path, dpquery: Run) -> Path:
    pd.DataFrame({"person": range(9), "epsilon": range(9)}).to_parquet(tmp_path / "visits.parquet")
    (tmp_path / "shop.yaml").write_text(CATALOG)
    assert dpquery("ledger", "create", tmp_path / "shop.yaml")[0] == 0
    return tmp_path / "shop.yaml"


def test_a_price_that_was_not_said_is_asked_for_as_an_option(shop: Path, dpquery: Run) -> None:
    code, err = dpquery("query", shop, "SELECT COUNT(*) FROM visits")
    assert code == 2
    assert "Ask with --epsilon ..., --rho ... or the catalog's defaults." in err


def test_what_still_fits_is_said_as_an_option(shop: Path, dpquery: Run) -> None:
    code, err = dpquery("query", shop, "SELECT COUNT(*) FROM visits", "--epsilon", 50)
    assert code == 1
    assert "--epsilon 0." in err and "would still fit" in err and "epsilon=" not in err


def test_the_query_is_quoted_as_it_was_written(shop: Path, dpquery: Run) -> None:
    _, err = dpquery("query", shop, "SELECT COUNT(*), nothing FROM visits WHERE epsilon=3", "--epsilon", 1)
    assert "WHERE epsilon=3" in err


@pytest.mark.parametrize(
    ("advice", "options", "settings"),
    [
        ("Ask with rho=..., for example rho='0.01'.", "--rho 0.01.", "SET dpquery.rho = '0.01'."),
        ("epsilon=1.4 would still fit.", "--epsilon 1.4 would", "SET dpquery.epsilon = '1.4' would"),
        ("Ask with max_rows=3.", "--max-rows 3.", "SET dpquery.max_rows = '3'."),
        ("Write [query, query].", "Write [query, query].", "Write [query, query]."),
    ],
)
def test_advice_is_said_in_the_words_of_who_asks(advice: str, options: str, settings: str) -> None:
    assert options in as_options(advice)
    assert settings in as_settings(advice)


def test_a_folder_in_place_of_the_users_file_is_no_matter_of_permissions(tmp_path: Path, dpquery: Run) -> None:
    code, err = dpquery("user", "list", "--users", tmp_path)
    assert code == 2
    assert "is not a file" in err and "chmod" not in err


def test_an_address_in_use_is_told_with_the_option_for_another(shop: Path, dpquery: Run) -> None:
    users = shop.parent / "users.db"
    Users.create(users)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, err = dpquery("serve", shop, "--users", users, "--listen", f"127.0.0.1:{port}")
    assert code == 2
    assert f"127.0.0.1:{port}: Address already in use" in err and "--listen" in err


def test_a_file_that_exists_is_told_with_its_error(shop: Path, dpquery: Run, tmp_path: Path) -> None:
    assert dpquery("ledger", "export", shop.with_suffix(".ledger"), tmp_path / "all.jsonl")[0] == 0
    code, err = dpquery("ledger", "export", shop.with_suffix(".ledger"), tmp_path / "all.jsonl")
    assert code == 2
    assert err.startswith("FileExistsError: ") and err.endswith("all.jsonl: File exists")


@pytest.mark.parametrize("command", [("ledger", "show"), ("ledger", "verify"), ("data", "new-version", "--why", "new")])
def test_a_catalog_in_the_place_of_its_ledger_is_told_which_that_is(
    shop: Path, dpquery: Run, command: tuple[str, ...]
) -> None:
    code, err = dpquery(*command, shop)
    assert code == 2 and "shop.yaml is a catalog, and not a ledger; its ledger is" in err and "shop.ledger" in err


def test_a_rule_below_a_name_is_no_longer_than_a_line() -> None:
    names, rule, row = grid(["number", "query"], [["1", "SELECT " + "x, " * 99]], [True, False])
    assert names == "number  query" and rule == "-" * 6 + "  " + "-" * 60 and len(row) > 300


def test_another_dialect_is_named_as_an_option_and_not_to_clients_of_the_server(shop: Path, dpquery: Run) -> None:
    query = "SELECT TOP 3 COUNT(*) FROM visits"
    assert "or with --dialect snowflake." in dpquery("query", shop, query, "--epsilon", 1)[1]
    with pytest.raises(QueryError) as refused:
        parse(query)
    assert as_settings(refused.value.advice) == "It is grammatical in snowflake: write it as PostgreSQL has it."
    days = as_settings(ADVISED["date_diff"])
    assert days.endswith("EXTRACT(EPOCH FROM b - a) / 3600 for hours.") and "dialect" not in days
