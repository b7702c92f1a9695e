"""dpquery in a real Jupyter kernel: the first cells of a newcomer, pictures, a restart."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

PATIENCE = 300.0
"""Seconds after which a kernel that does not answer has failed; a cell takes less than one."""
PEOPLE = """\
import sys
sys.modules["ipywidgets"] = None  # as where it is not installed
import pandas as pd
import dpquery as dp
people = pd.DataFrame({"who": range(400), "x": range(400), "smokes": [True, False] * 200})
"""
PROTECT = PEOPLE + "people.dp.protect(privacy_unit='who', max_rows=8, bounds={'x': (0, 400)}, budget={'epsilon': 100})"
LEDGER = (
    PEOPLE
    + """
from pathlib import Path
columns = {"who": {"type": "int64"}, "x": {"type": "int64", "lower": 0, "upper": 400}}
catalog = dp.Catalog(
    dataset="people",
    privacy_unit="who",
    budget={"epsilon": 10},
    tables={"people": {"unit": "who", "max_rows": 8, "columns": columns}}
)
if not Path("people.ledger").exists():
    dp.create_ledger(catalog, "people.ledger").close()
session = dp.connect(catalog, {"people": people[["who", "x"]]}, ledger="people.ledger")
"""
)
Shown = list[tuple[str, dict[str, Any]]]


class Kernel:
    """A kernel in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.sockets = tempfile.TemporaryDirectory()  # their paths have to be short
        self.manager = KernelManager(transport="ipc", ip=f"{self.sockets.name}/k")
        self.manager.start_kernel(cwd=str(folder))
        self.connect()

    def connect(self) -> None:
        """Waits until the kernel answers."""
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def run(self, cell: str) -> Shown:
        """Returns what a cell shows, each with its kind; asserts that it raises nothing."""
        shown: Shown = []

        def keep(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown.append((content["name"], {"text": content["text"]}))
            elif kind in ("display_data", "execute_result"):
                shown.append((kind, content["data"]))
            elif kind == "error":
                shown.append((kind, content))

        self.client.execute_interactive(cell, timeout=PATIENCE, output_hook=keep)
        assert not [found for found in shown if found[0] == "error"], shown
        return shown

    def pictures(self, cell: str) -> int:
        """Returns how many pictures a cell shows."""
        return sum("image/png" in data for _, data in self.run(cell))

    def kill_and_restart(self) -> None:
        """Ends the kernel's process as "Restart" does when it hangs, and starts another one."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self.connect()

    def end(self) -> None:
        """Ends the kernel's process."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self.sockets.cleanup()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    made = Kernel(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_the_first_cells_of_a_newcomer(kernel: Kernel) -> None:
    ((kind, data),) = kernel.run(PROTECT)
    assert kind == "execute_result" and "remaining epsilon 100" in data["text/plain"]
    assert [kind for kind, _ in kernel.run("people.dp.mean('x', epsilon=1)")] == ["execute_result"]
    ((kind, data),) = kernel.run("people.dp.sql('SELECT COUNT(*) AS n FROM this', epsilon=1)")
    assert kind == "execute_result" and "±" in data["text/plain"] and data["text/html"].startswith("<table>")
    assert kernel.run("%load_ext dpquery") == []
    ((_, data),) = kernel.run("%%dpsql people epsilon=1\nSELECT smokes, COUNT(*) AS n FROM this GROUP BY smokes")
    assert "true" in data["text/html"].lower()
    shown = kernel.run("answer = people.dp.describe(epsilon=1)\nassert list(answer) == ['x']")
    assert all("AccuracyWarning" in data["text"] for _, data in shown), "few people: some intervals say nothing"


def test_a_kernel_is_known_as_one(kernel: Kernel) -> None:
    ((_, data),) = kernel.run("from dpquery.frontends.pandas import busy_indicator\nbusy_indicator._is_watched()")
    assert data["text/plain"] == "True"


def test_an_answer_is_drawn_once(kernel: Kernel) -> None:
    kernel.run(PROTECT + "\nanswer = people.dp.sql('SELECT COUNT(*) AS n FROM this', epsilon=1)")
    assert kernel.pictures("answer.plot()") == 1
    assert kernel.pictures("answer.plot();") == 1
    assert kernel.pictures("figure = answer.plot()") == 1
    assert kernel.pictures("figure") == 1
    assert kernel.pictures("for _ in range(3):\n    answer.plot()") == 3
    assert kernel.pictures("figure = answer.plot()\ndisplay(figure)") == 1
    assert kernel.pictures("import matplotlib.pyplot as plt\nanswer.plot()\nplt.show()") == 1
    assert kernel.pictures("plt.close(answer.plot())") == 0


def test_a_kernel_that_is_killed_finds_its_budget_again(kernel: Kernel) -> None:
    kernel.run(LEDGER + "session.sql('SELECT COUNT(*) AS n FROM people', epsilon=3)")
    kernel.kill_and_restart()
    ((_, left),) = kernel.run(LEDGER + "print(session.remaining)")
    assert left["text"] == "epsilon 7\n"
    ((_, again),) = kernel.run(
        "print(session.sql('SELECT COUNT(*) AS n FROM people', epsilon=3).charge, session.remaining)"
    )
    assert again["text"] == "nothing epsilon 7\n"
    kernel.run(LEDGER)  # the same cell in the same kernel, with the first session open
    ((_, left),) = kernel.run("print(session.sql('SELECT SUM(x) AS s FROM people', epsilon=1).charge)")
    assert left["text"] == "epsilon 1\n"
