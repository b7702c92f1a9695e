"""What makes a notebook pleasant: `df.dp` without delay, `%%dpsql`, signs of life, answers and pictures."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.frontends.notebook import magic
from dpquery.frontends.pandas import busy_indicator
from tests.waiting import wait_until


def run(code: str) -> str:
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return made.stdout.strip()


def test_importing_dpquery_loads_nothing_and_pandas_then_has_dp() -> None:
    code = """
import sys, dpquery
assert not {"pandas", "numpy", "duckdb", "sqlglot"} & set(sys.modules)
import pandas as pd
assert not {"duckdb", "sqlglot"} & set(sys.modules)
print(hasattr(pd.DataFrame, "dp"), any("Awaits" in type(f).__name__ for f in sys.meta_path))
"""
    assert run(code) == "True False"
    assert run("import pandas as pd, dpquery; print(hasattr(pd.DataFrame, 'dp'))") == "True"
    assert run("import dpquery, importlib; importlib.reload(dpquery); import pandas as pd; print(pd.DataFrame.dp)")


@pytest.fixture
def frame() -> pd.DataFrame:
    made = pd.DataFrame({"who": range(40), "x": range(40), "sex": ["F", "M"] * 20, "k": [1, 2, 3, 4] * 10})
    made["day"] = pd.date_range("2020-01-01", periods=40)
    made.dp.protect(
        privacy_unit="who",
        max_rows=8,
        bounds={"x": (0, 40), "k": (1, 4), "day": ("2020-01-01", "2020-03-31")},
        keys={"sex": ["F", "M"]},
        budget={"epsilon": 500},
    )
    return made


class Shell:
    def __init__(self, names: dict[str, Any]) -> None:
        self.user_ns = names
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_name] = function


QUERY = "SELECT sex, COUNT(*) AS n FROM this GROUP BY sex"


def test_the_magic_answers_explains_and_keeps(frame: pd.DataFrame) -> None:
    shell = Shell({"frame": frame, "people": frame.dp.query("x > 3"), "session": frame.dp.session, "n": 3})
    dp.load_ipython_extension(shell)
    ask = shell.magics["dpsql"]
    for name in ("frame", "people", "session"):
        assert isinstance(ask(f"{name} epsilon=0.5 max_rows=2", QUERY), dp.Result)
        assert isinstance(ask(f"{name} explain epsilon=0.5", QUERY), dp.Plan)
    assert ask("answer << frame epsilon=0.5", QUERY) is None
    assert shell.user_ns["answer"].columns == ("sex", "n")
    assert "<table>" in shell.user_ns["answer"]._repr_html_() and "±" in shell.user_ns["answer"]._repr_html_()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", dp.QuerySyntaxError),
        ("epsilon=1", dp.QuerySyntaxError),
        ("nobody epsilon=1", dp.UnknownNameError),
        ("n epsilon=1", dp.UnknownNameError),
        ("frame.dp epsilon=1", dp.UnknownNameError),
        ("__import__('os')", dp.UnknownNameError),
        ("frame epsilonn=1", dp.QuerySyntaxError),
        ("frame params=1", dp.QuerySyntaxError),
        ("frame epsilon", dp.QuerySyntaxError),
        ("frame epsilon='1", dp.QuerySyntaxError),
        ("1x << frame epsilon=1", dp.QuerySyntaxError),
        ("frame epsilon=one", dp.InvalidLossError),
        ("frame epsilon=1000", dp.InsufficientBudgetError),
    ],
)
def test_lines_of_the_magic_that_are_refused(frame: pd.DataFrame, line: str, error: type[dp.QueryError]) -> None:
    with pytest.raises(error):
        magic.run(line, QUERY, {"frame": frame, "n": 3})


def test_a_sign_of_life_is_shown_after_a_while_and_no_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(busy_indicator, "AFTER", 0.05)
    monkeypatch.setattr(busy_indicator, "_is_watched", lambda: True)
    shown: list[str] = []

    def show(label: str, done: threading.Event) -> None:
        shown.append(label)
        done.wait()

    spin = busy_indicator._spin
    monkeypatch.setattr(busy_indicator, "_spin", show)
    with busy_indicator.working():
        wait_until(lambda: shown)
    assert shown == ["dpquery"]
    monkeypatch.setattr(busy_indicator, "AFTER", 3600.0)
    with busy_indicator.working():
        pass
    assert shown == ["dpquery"]
    monkeypatch.setattr(busy_indicator, "AFTER", 0.0)
    monkeypatch.setattr(busy_indicator, "_spin", spin)
    with busy_indicator.working():
        time.sleep(0.1)
    assert threading.active_count() < 50
    capsys.readouterr()


def test_nobody_looks_on_where_there_is_no_terminal() -> None:
    before = threading.active_count()
    with busy_indicator.working():
        assert threading.active_count() == before


def test_pictures_have_the_form_of_their_keys(frame: pd.DataFrame) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    days = frame.dp.sql("SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM this GROUP BY 1", epsilon=5)
    figure = days.plot()
    line = figure.axes[0].lines[0]
    kept = days.to_pandas().dropna()
    assert list(line.get_ydata()) == kept["n"].tolist() and figure.axes[0].get_xlabel() == "m: DATE_TRUNC('month', day)"
    matplotlib.pyplot.close(figure)
    frame.dp.crosstab("sex", "k", epsilon=5)
    figure = frame.dp.last.plot()
    image = figure.axes[0].images[0].get_array()
    assert image.shape == (2, 4) and image.sum() == frame.dp.last.to_pandas()["count"].sum()
    assert len(figure.axes[0].texts) == 8 and "±" in figure.axes[0].texts[0].get_text()
    matplotlib.pyplot.close(figure)
    frame.dp.histogram("x", bins=4, epsilon=5)
    figure = frame.dp.last.plot(kind="bar")
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == frame.dp.last.to_pandas()["count"].tolist()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["[0, 10)", "[10, 20)", "[20, 30)", "[30, 40]"] == frame.dp.last.to_pandas()["x"].tolist()
    matplotlib.pyplot.close(figure)
    with pytest.raises(dp.DPQueryError, match="pie"):
        days.plot(kind="pie")
    with pytest.raises(dp.DPQueryError, match="two keys"):
        days.plot(kind="heat")
