"""The shell in a real terminal of 80 columns: the page of a day in it, typed; and what keys do."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpquery.frontends.cli.demo_files import prepare
from tests.waiting import PATIENCE

PAGE = Path(__file__).parents[4] / "docs/how-to/spend-a-day-in-the-shell.md"
QUESTION = re.compile(r"^\| `(.+?)` \| (yes|) ?\| `(.+)` \|$", re.MULTILINE)
PAYS, LAST, ITS_END = re.escape("Pay and run? [Y/n] "), r"\last", r"there is no command \\last"
COLUMNS = 80
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\x0f]")


class Terminal:
    """A shell that is typed into."""

    def __init__(self, folder: Path) -> None:
        pexpect: Any = importlib.import_module("pexpect")
        environment = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": str(folder), "PAGER": "cat"}
        words = ["-m", "dpquery", "shell", "nafld.yaml"]
        self.child: Any = pexpect.spawn(
            sys.executable,
            words,
            cwd=str(folder),
            env=environment | {"PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=(24, COLUMNS),
        )
        self.child.expect("dpquery>")

    def ask(self, typed: str, *, is_paid: bool) -> str:
        """Returns all that is shown for what is typed, until the next is answered."""
        shown = ""
        self.child.send(typed + "\r")
        if is_paid:
            self.child.expect(PAYS)
            shown += self.child.before + self.child.after
            self.child.send("y\r")
            self.child.expect(r"left\s+for\s+reader")
            shown += self.child.before + self.child.after
        self.child.send(f"{LAST}\r")
        self.child.expect(ITS_END)
        return ESCAPES.sub("", shown + str(self.child.before))

    def leave(self) -> int:
        """Types Ctrl-D, if the shell has not ended; returns its exit code."""
        if self.child.isalive():
            self.child.send("\x04")
        self.child.expect(importlib.import_module("pexpect").EOF)
        self.child.close()
        return int(self.child.exitstatus)

    def end(self) -> None:
        """Ends the shell, whatever it does."""
        if self.child.isalive():  # of a busy machine, which takes its time to end it
            self.child.kill(signal.SIGKILL)
            self.child.wait()
        self.child.close()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


@pytest.fixture
def terminal(study: Path) -> Iterator[Terminal]:
    made = Terminal(study)
    yield made
    made.end()


def test_a_day_in_the_shell(terminal: Terminal) -> None:
    asked = QUESTION.findall(PAGE.read_text(encoding="utf-8"))
    assert len(asked) == 40
    for typed, paid, expected in asked:
        shown = terminal.ask(typed, is_paid=paid == "yes")
        assert " ".join(expected.split()) in " ".join(shown.split()), (typed, shown)
        assert "defect" not in shown and "Traceback" not in shown
        told = [line for line in shown.replace("\r", "").split("\n") if "> " not in line]
        assert max(map(len, told)) <= COLUMNS, typed


def test_tab_completes_arrows_remember_and_ctrl_c_gives_up_a_line(terminal: Terminal) -> None:
    child = terminal.child
    child.send("SELECT COUNT(*) FROM pat\t")
    child.expect("ients")
    child.send("\x03")
    child.expect("dpquery>")
    terminal.ask("\\tables events", is_paid=False)
    child.send("\x1b[A\x1b[A\r")
    child.expect("since the index date")
    assert terminal.leave() == 0


def test_what_is_typed_before_the_data_are_open_is_answered_then(terminal: Terminal) -> None:
    terminal.child.send("\\tables events\r")
    terminal.child.expect("since the index date")
    terminal.child.expect("dpquery>")
    assert terminal.leave() == 0


def test_a_shell_is_left_before_the_data_are_open(terminal: Terminal) -> None:
    assert terminal.leave() == 0


def test_why_the_data_cannot_be_opened_is_said_while_the_prompt_waits(study: Path) -> None:
    (study / "labs.parquet").write_bytes(b"no Parquet")
    terminal = Terminal(study)
    terminal.child.send("SELECT 1")
    terminal.child.expect("CatalogError: ")
    terminal.child.expect("dpquery help CatalogError")
    terminal.child.expect(importlib.import_module("pexpect").EOF)
    terminal.child.close()
    assert terminal.child.exitstatus == 2
