# mypy: ignore-errors
"""Pictures show the numbers and intervals of the answer, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery import errors as extras
from dpquery.result.plot import _cell

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


def test_labels_can_be_read(session: dp.Session) -> None:
    answer = session.sql(
        "SELECT ABS(id) % 100 AS rest, sex, COUNT(*) AS n FROM t GROUP BY 1, 2", epsilon=5, max_groups=1
    )
    figure = answer.plot(kind="point")
    shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert len(shown) == 25 and shown[1] == "4, F" and figure.axes[0].get_xlabel() == "rest, sex"
    assert [label.get_rotation() for label in figure.axes[0].get_xticklabels()] == [45] * 25
    assert list(figure.axes[0].get_xticks()) == [8 * place for place in range(25)]
    matplotlib.pyplot.close(figure)
    answer = session.sql(
        "SELECT CASE WHEN sex = 'F' THEN DATE '2020-01-01' END AS d, x > 4 AS big, COUNT(*) AS n FROM t GROUP BY 1, 2",
        epsilon=5,
    )
    figure = answer.plot()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["2020-01-01", "NULL"]
    matplotlib.pyplot.close(figure)
    figure = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=5).plot()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [""]
    matplotlib.pyplot.close(figure)


def test_what_cannot_be_drawn_is_refused(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(dp.DPQueryError, match="no noisy number"):
        session.sql("SELECT 1 AS one").plot()

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(dp.DPQueryError, match="pip install"):
        session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).plot()


@pytest.mark.parametrize(
    ("value", "half", "whole", "text"),
    [
        (134.8, 103.4, False, "135\n±103"),
        (0.06728, 9.53, False, "0.1\n±9.5"),
        (25.001, 0.0736, False, "25.001\n±0.074"),
        (440.0, 1.0, True, "440\n±1"),
        (3.5e9, 2.0e7, False, "3.5e+09\n±2e+07"),
        (7.0, math.nan, False, "7"),
        (math.nan, math.nan, False, ""),
    ],
)
def test_a_cell_of_a_heat_map_has_the_digits_that_its_interval_deserves(
    value: float, half: float, whole: bool, text: str
) -> None:
    assert _cell(value, half, whole=whole) == text
