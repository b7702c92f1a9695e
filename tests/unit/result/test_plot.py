"""Pictures show the numbers and intervals of the answer, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery import extras

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    matplotlib.use("Agg")
    columns = {
        "id": {"type": "int64"},
        "sex": {"type": "text", "keys": ["F", "M"]},
        "x": {"type": "int64", "lower": 0, "upper": 9},
    }
    catalog = dp.Catalog(dataset="p", privacy_unit="row", budget={"epsilon": 100}, tables={"t": {"columns": columns}})
    frame = pd.DataFrame({"id": range(100), "sex": ["F", "M"] * 50, "x": [i % 10 for i in range(100)]})
    return dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, tmp_path / "p.ledger"))


def test_points_and_bars_are_those_of_the_answer(session: dp.Session) -> None:
    answer = session.sql("SELECT sex, COUNT(*) AS n, AVG(x) AS m, MEDIAN(x) AS q FROM t GROUP BY sex", epsilon=5)
    figure = answer.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["n", "m", "q"]
    assert [label.get_text() for label in figure.axes[-1].get_xticklabels()] == ["F", "M"]
    for axes, name in zip(figure.axes, ("n", "m", "q"), strict=True):
        points, _, (bars,) = axes.containers[0]
        assert np.allclose(points.get_ydata(), answer.to_pandas()[name].astype(float))
        if name != "q":
            ends = np.array([segment[:, 1] for segment in bars.get_segments()])
            assert np.allclose(ends, answer.accuracy[name].to_numpy())
    matplotlib.pyplot.close(figure)


def test_what_cannot_be_drawn_is_refused(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(dp.DPQueryError, match="no noisy number"):
        session.sql("SELECT 1 AS one").plot()

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(dp.DPQueryError, match="pip install"):
        session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).plot()
