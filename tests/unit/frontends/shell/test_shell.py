"""The shell: what a statement does, what it shows before it is paid, and what a pipe is split into."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.errors import DPQueryError
from dpquery.frontends.cli import main as cli
from dpquery.frontends.shell import prompt
from dpquery.frontends.shell.background import Opening
from dpquery.frontends.shell.fitting import fitted
from dpquery.frontends.shell.shell import COMMANDS, Shell
from dpquery.frontends.shell.typed_input import is_whole, read_pipe
from dpquery.session.options import Options
from dpquery.session.session import Session

CATALOG: dict[str, Any] = {
    "dataset": "shop",
    "privacy_unit": "customer",
    "budget": {"epsilon": 1},
    "tables": {
        "visits": {
            "unit": "id",
            "max_rows": 4,
            "columns": {"id": {"type": "int64"}, "region": {"type": "text", "keys": ["north", "south"]}},
        }
    },
}
QUERY = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(json.dumps({"version": 2, **CATALOG}))
    visits = pd.DataFrame({"id": range(400)})
    visits.assign(region=visits["id"].mod(2).map({0: "north", 1: "south"})).to_parquet(tmp_path / "visits.parquet")
    dp.create_ledger(dp.Catalog.load(tmp_path / "shop.yaml"), tmp_path / "shop.ledger")
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Session:
    return dp.connect(folder / "shop.yaml", {"visits": folder / "visits.parquet"}, ledger=folder / "shop.ledger")


def made(session: Session, agrees: Callable[[], bool] | None = None) -> Shell:
    return Shell(session, Options(epsilon="0.25"), agrees=agrees)


def test_a_price_is_shown_and_paid_only_if_agreed(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([False, True])
    shell = made(session, agrees=lambda: next(answers))
    shell.handle(QUERY + ";")
    assert (
        "costs epsilon 0.25; left epsilon 1: enough for 4 such queries]\n[expected errors: n ±"
        in capsys.readouterr().err
    )
    assert str(session.remaining) == "epsilon 1"
    shell.handle(QUERY + ";")
    assert "north" in capsys.readouterr().out and str(session.remaining) == "epsilon 0.75"
    shell.handle(QUERY + ";")  # stored, so nothing is asked
    assert "north" in capsys.readouterr().out and str(session.remaining) == "epsilon 0.75"


def test_a_refusal_is_shown_in_the_words_of_the_shell_and_it_goes_on(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = made(session)
    shell.handle("\\set error 1")
    shell.handle("SELECT COUNT(*) FROM visits;")
    shown = capsys.readouterr().err
    assert "InsufficientBudgetError" in shown and "\\set error" in shown and "--" not in shown
    shell.handle("SELECT nothing FROM visits")
    assert "UnknownNameError" in capsys.readouterr().err and not shell.has_ended
    shell.handle("\\nothing")
    assert "\\help lists them" in capsys.readouterr().err
    shell.handle("\\q")
    assert shell.has_ended


def test_what_is_set_gives_way_to_what_is_set_later(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell = made(session)
    shell.handle("\\set error n=20")
    assert shell.options.error == {"n": "20"} and shell.options.epsilon is None
    shell.handle("\\set epsilon 0.5")
    assert shell.options.epsilon == "0.5" and shell.options.error is None
    shell.handle("\\set max_rows = 3")
    assert shell.options.max_rows == 3
    shell.handle("\\set confidence")
    shell.handle("\\set max_rows")
    assert shell.options == Options(epsilon="0.5")
    capsys.readouterr()
    for wrong in ("\\set colour red", "\\set max_rows many", "\\set epsilon abc", "\\set error 5%"):
        shell.handle(wrong)
        assert "Error:" in capsys.readouterr().err
    assert shell.options == Options(epsilon="0.5")


def test_free_commands_charge_nothing(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell = made(session)
    for text in (f"\\explain {QUERY}", f"\\prices {QUERY}", "\\budget", "\\tables", "\\d visits", "\\set", "help"):
        shell.handle(text)
        assert capsys.readouterr().out.strip(), text
    shell.handle("\\tables nothing")
    assert "CatalogError" in capsys.readouterr().err
    assert str(session.remaining) == "epsilon 1"


def test_a_synopsis_is_listed_described_and_read_free_with_its_intervals(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.synopsis("visits", ["region"], epsilon="1")
    shell = made(session, agrees=lambda: False)
    shell.handle("SELECT region, COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM synopsis.visits GROUP BY region;")
    shown = capsys.readouterr()
    held = [line for line in shown.out.splitlines() if line.startswith(("north", "south"))]
    assert len(held) == 2 and all("±" in line or "[" in line for line in held)
    assert "all others are synthetic alone" in " ".join((shown.out + shown.err).split())
    for typed, expected in (("\\tables", "synopsis.visits"), ("describe synopsis.visits", "row_weight")):
        shell.handle(typed)
        assert expected in capsys.readouterr().out, typed
    assert str(session.remaining) == "nothing"


def test_habits_of_other_programs_and_commands_about_the_last_query(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = made(session)
    shell.handle("\\prices")
    assert "write a SELECT" in capsys.readouterr().err
    for typed, expected in (
        (f"EXPLAIN {QUERY};", "Charge: epsilon"),
        ("\\prices", "charge (epsilon)"),
        ("SHOW TABLES;", "visits"),
        ("describe visits", "public keys"),
        ("\\history", "time (UTC)"),
    ):
        shell.handle(typed)
        assert expected in capsys.readouterr().out, typed
    shell.handle("describe visit")
    assert "did you mean 'visits'?" in capsys.readouterr().err
    assert str(session.remaining) == "epsilon 1"


def test_what_the_rest_does_not_pay_for_is_refused_without_asking(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[bool]()
    shell = Shell(session, Options(epsilon=3), agrees=lambda: not asked.append(True))  # type: ignore[func-returns-value]
    shell.handle(QUERY)
    assert "InsufficientBudgetError" in capsys.readouterr().err and not asked


def test_the_last_answer_is_written_with_its_intervals(session: Session, tmp_path: Path) -> None:
    shell = made(session)
    shell.handle(f"\\export {tmp_path}/none.csv")
    assert shell.has_failed and not (tmp_path / "none.csv").exists()
    shell.handle(QUERY)
    for ending in ("csv", "json", "parquet", "txt"):
        shell.handle(f"\\export '{tmp_path}/an answer.{ending}'")
        assert (tmp_path / f"an answer.{ending}").stat().st_size > 20
    assert "n_low" in (tmp_path / "an answer.csv").read_text()
    shell.handle(f"\\export {tmp_path}/an.xls")
    assert not (tmp_path / "an.xls").exists()


def test_an_answer_wider_than_the_terminal_is_shown_by_rows(session: Session) -> None:
    answer = session.sql(QUERY, epsilon="0.25")
    assert fitted(answer, 80) == answer.to_text() + "\n" == fitted(answer, None)
    narrow = fitted(answer, 12).splitlines()
    assert narrow[0] == "-- row 1" and narrow[1].split() == ["region", "north"]


def test_a_pipe_is_split_at_semicolons_that_end_a_line() -> None:
    lines = ["\\tables\n", "SELECT ';'\n", "FROM t;\n", "\n", "SELECT 2"]
    assert [text.strip() for text in read_pipe(iter(lines))] == ["\\tables", "SELECT ';'\nFROM t;", "", "SELECT 2"]
    assert is_whole("quit") and is_whole("\\help") and is_whole("SELECT 1;") and not is_whole("SELECT 1")


def test_statements_of_a_pipe_are_paid_without_asking(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\\set epsilon 0.5\n{QUERY};\n\\quit\nSELECT nothing;\n"))
    assert cli.run(["shell", str(folder / "shop.yaml")]) == 0
    shown = capsys.readouterr()
    assert "north" in shown.out and "charged epsilon 0.5" in shown.err
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT nothing FROM visits;"))
    assert cli.run(["shell", str(folder / "shop.yaml")]) == 2


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("SELECT reg", "region"),
        ("select COUNT(*) FROM vi", "visits"),
        ("SELECT CLA", "CLAMP"),
        ("SELECT MED", "MEDIAN"),
        ("sel", "SELECT"),
        ("\\ex", "explain"),
        ("\\set ep", "epsilon"),
        ("SELECT id,re", "region"),
    ],
)
def test_tab_completes_what_is_declared_and_known(session: Session, typed: str, first: str) -> None:
    found = [word for word, _, _ in prompt.completions(typed, prompt.words_of(session))]
    assert first in found
    assert all(word.lower().startswith(typed.lower().split(" ")[-1].split(",")[-1].lstrip("\\")) for word in found)


def test_nothing_typed_completes_to_nothing_and_all_commands_have_words(session: Session) -> None:
    assert not [*prompt.completions("SELECT ", prompt.words_of(session))]
    assert all(command.says for command in COMMANDS.values())


def test_history_is_readable_by_this_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert prompt.history_file().stat().st_mode & 0o077 == 0


def test_only_yes_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, expected in (("", True), ("Y", True), ("yes", True), ("n", False), ("no", False), ("x", False)):
        monkeypatch.setattr("builtins.input", lambda _, typed=typed: typed)
        assert prompt.agrees() is expected

    def gone(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", gone)
    assert prompt.agrees() is False


def test_without_prompt_toolkit_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "prompt_toolkit", None)
    with pytest.raises(DPQueryError, match=r"dpquery\[shell\]"):
        next(prompt.read_terminal(Opening(contextlib.nullcontext)))  # type: ignore[arg-type]
