"""Each client of the table connects, lists tables, counts with a parameter, reads intervals, and is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.server.clients.installing import node_with, python_with
from tests.server.clients.programs import COUNT, INTERVALS, PROGRAMS, REFUSED, TABLES, Program
from tests.server.clients.study import DATABASE, STUDY_COLUMNS, USER, Study, unused_weight
from tests.server.serving import PASSWORD
from tests.waiting import PATIENCE

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_asks_and_is_answered(study: Study, name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    path = tmp_path / f"program{program.suffix}"
    statements = {"TABLES": TABLES, "REFUSED": REFUSED, "INTERVALS": INTERVALS}
    statements["COUNT"] = COUNT.format(program.mark, unused_weight())
    text = program.text
    for word, statement in statements.items():
        text = text.replace(f"@{word}@", statement)
    path.write_text(text, encoding="utf-8")
    with study.charges(1):
        seen = json.loads(_run(study, name, program, path))
    assert set(STUDY_COLUMNS) <= set(seen["tables"])
    assert 6_500 < seen["count"] < 7_700  # 7,080 women are heavier; noise of scale 10 passes 400 with e^-40
    assert seen["columns"] == ["n", "n_low", "n_high"]
    assert "rows of a single patient are not shown" in seen["refused"]


def _run(study: Study, name: str, program: Program, path: Path) -> str:
    command, environment = [*program.run, str(path)], dict(os.environ)
    folder = name.replace(" ", "-").replace("::", "-").lower()
    if program.pip:
        command[0] = str(python_with(folder, *program.pip))
    if program.npm:
        environment["NODE_PATH"] = str(node_with(folder, *program.npm))
    url = f"postgresql://{USER}:{quote(PASSWORD)}@127.0.0.1:{study.port}/{DATABASE}"
    environment |= {"HOST": "127.0.0.1", "PORT": str(study.port), "USER_": USER, "PASSWORD": PASSWORD}
    environment |= {"DATABASE": DATABASE, "URL": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
