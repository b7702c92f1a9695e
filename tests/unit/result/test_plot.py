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
    assert len(shown) == 25 and shown[1] == "4, F" and figure.axes[0].get_xlabel() == "rest: ABS(id) % 100, sex"
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

    monkeypatch.setattr(extras.importlib, "import_module", missing)  # type: ignore[attr-defined]
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


@pytest.fixture
def people(tmp_path: Path) -> dp.Session:
    matplotlib.use("Agg")
    columns = {
        "id": {"type": "int64"},
        "age": {"type": "int64", "lower": 0, "upper": 99},
        "z": {"type": "float64", "lower": -20, "upper": 20},
        "sex": {"type": "text", "keys": ["F", "M"]},
        "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    }
    tables = {"t": {"unit": "id", "max_rows": 2, "columns": columns}}
    catalog = dp.Catalog(dataset="p", privacy_unit="person", budget={"epsilon": 1000}, tables=tables)
    rows, random = 12_000, np.random.default_rng(1)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 366, rows), "D")
    frame = pd.DataFrame({"id": random.integers(0, 2500, rows), "age": random.integers(0, 100, rows), "day": days})
    frame["sex"], frame["z"] = random.choice(["F", "M"], rows), random.uniform(-20, 20, rows)
    return dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, tmp_path / "p.ledger"))


@pytest.mark.parametrize(
    ("key", "labels", "title"),
    [
        ("FLOOR(age / 25) * 25", ["below 25", "25 to <50", "50 to <75", "75 to <100"], "k: age"),
        ("age / 50", ["below 50", "50 to <100"], "k: age"),
        ("FLOOR(z / 20)", ["-20 to <0", "0 to <20", "20 to <40"], "k: z"),
        ("age / 50 * 3", ["0", "3"], "k: age / 50 * 3"),
        ("sex", ["F", "M"], "k"),
        ("CASE WHEN age < 50 THEN 0 ELSE 50 END", ["0", "50"], "k: CASE WHEN age < 50 THEN 0 ELSE 50 END"),
    ],
)
def test_axes_say_what_bins_hold(people: dp.Session, key: str, labels: list[str], title: str) -> None:
    figure = people.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=5).plot("bar")
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_xticklabels()] == labels and panel.get_xlabel() == title
    matplotlib.pyplot.close(figure)


def legend(panel: object) -> list[str]:
    found = panel.get_legend()  # type: ignore[attr-defined]
    return [] if found is None else [text.get_text() for text in found.get_texts()]


@pytest.mark.parametrize("kind", ["point", "bar", "line"])
def test_legends_name_what_is_drawn(people: dp.Session, kind: str) -> None:
    query = "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n, MEDIAN(age) AS q FROM t GROUP BY 1"
    answer = people.sql(query, epsilon=5, confidence="0.9")
    figure = answer.plot(kind)
    ranks = math.ceil(answer.rank_errors["q"])
    none = [f"within {ranks} ranks; no interval of values is known"]
    assert [legend(panel) for panel in figure.axes] == [["90 % intervals of the noise"], none]
    assert figure.axes[-1].get_xlabel() == "m: DATE_TRUNC('month', day)"
    matplotlib.pyplot.close(figure)


@pytest.mark.parametrize("kind", ["point", "bar", "heat"])
def test_counts_that_are_known_to_be_too_low_are_marked(people: dp.Session, kind: str) -> None:
    query = "SELECT sex, age > 50 AS old, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY 1, 2"
    assert people.sql(query, epsilon=5).biased == frozenset()
    people.profile(epsilon=20)
    answer = people.sql(query, epsilon=5, fresh=True)
    assert answer.biased == {"n"}
    figure = answer.plot(kind)
    if kind == "heat":
        assert [panel.get_ylabel() for panel in figure.axes if panel.get_label() == "<colorbar>"] == [
            "n, too low: known bias above the noise",
            "a",
        ]
    else:
        counts, means = figure.axes
        words = "known bias above the noise: too low, not in the intervals"
        assert legend(counts) == ["95 % intervals of the noise", words] and legend(means) == legend(counts)[:1]
        (mark,) = [line for line in counts.lines if line.get_label() == words]
        assert np.allclose(mark.get_ydata(), answer.accuracy["n", "upper"])
    matplotlib.pyplot.close(figure)
