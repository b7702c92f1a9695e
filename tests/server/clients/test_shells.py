"""pgcli in a terminal, and pgAdmin 4: all that they ask of the catalogs by themselves is answered, and free."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.clients.installing import python_with
from tests.server.clients.study import DATABASE, USER, Study, fresh
from tests.server.serving import PASSWORD
from tests.waiting import PATIENCE

pytestmark = pytest.mark.clients
PGADMIN = Path(__file__).with_name("pgadmin_pages.py")


def test_pgcli_completes_and_answers(study: Study, tmp_path: Path) -> None:
    pexpect: Any = importlib.import_module("pexpect")
    python = python_with("pgcli", "pgcli")
    settings = {"PGPASSWORD": PASSWORD, "HOME": str(tmp_path), "PAGER": "cat", "PROMPT_TOOLKIT_NO_CPR": "1"}
    words = ["-m", "pgcli.main", "-h", "127.0.0.1", "-p", str(study.port), "-U", USER, "-d", DATABASE]
    words += ["--less-chatty", "--prompt", "ready> "]
    environment = os.environ | settings | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    with study.charges(1):
        terminal = pexpect.spawn(
            str(python), words, env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(50, 150)
        )
        terminal.expect("ready>")
        terminal.send("SELECT * FROM pati")
        for _ in range(60):  # what may be meant is read from the server beside
            terminal.send("\t")
            if terminal.expect(["patients", pexpect.TIMEOUT], timeout=2) == 0:
                break
        else:
            raise AssertionError(terminal.before)
        terminal.send("\x15\x0b")
        terminal.send(fresh() + ";\r")
        terminal.expect("charged rho")
        terminal.expect(r"\| F +\| +\d+ \|")
        for command, shown in ((r"\dt", "labs"), (r"\d patients", "weight"), (r"\du", USER), (r"\df", "SELECT 0")):
            terminal.send(command + "\r")
            terminal.expect(shown)
        terminal.send("SELECT * FROM patients;\r")
        terminal.expect("rows of a single patient are not shown")
        terminal.send("\x04")
        terminal.expect(pexpect.EOF)


def test_pgadmin_opens_everything(study: Study, tmp_path: Path) -> None:
    python = python_with("pgadmin", "pgadmin4")
    environment = os.environ | {"HOST": "127.0.0.1", "PORT": str(study.port), "USER_": USER, "PASSWORD": PASSWORD}
    environment |= {"DATABASE": DATABASE, "PGADMIN_DATA": str(tmp_path / "data")}
    before = study.entries
    done = subprocess.run(
        [python, PGADMIN], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["failed"] == []
    assert seen["statements"] > 103
    assert study.entries - before <= 1, "the one query that was asked, if no test asked it before"
    assert [row[0] for row in seen["shown"]] == ["F", "M"]
    (((plan,),),) = (seen["plan"],)
    assert json.loads(plan)[0]["Plan"]["Node Type"].startswith("Result")
    assert "rows of a single patient are not shown" in seen["refused"]
