"""`df.dp` shows the interval of each number: scalars print theirs, Series and frames have theirs beside."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpquery
from tests.scripted import zero_noise
from tests.unit.frontends.pandas.frames import protected


@pytest.fixture
def people() -> Any:
    rows = np.arange(900)
    frame = pd.DataFrame(
        {
            "who": rows,
            "x": rows % 20 + 0.5,
            "k": rows % 4,
            "region": np.array(["east", "north"])[rows % 2],
            "at": pd.Timestamp("2020-01-01"),
        }
    )
    return protected(
        frame, max_rows=1, types={}, bounds={"x": (0, 20), "k": (0, 3), "at": ("2020-01-01", "2020-12-31")}
    )


def ends(accuracy: pd.DataFrame, name: str) -> tuple[list[float], list[float]]:
    return accuracy[name, "lower"].tolist(), accuracy[name, "upper"].tolist()


def test_scalars_are_the_answer_with_its_interval(people: Any) -> None:
    for call, name in (("count", "count"), ("mean", "x"), ("sum", "x"), ("std", "x")):
        made = people.count() if call == "count" else getattr(people, call)("x")
        answer = people.last
        low, high = ends(answer.accuracy, name)
        assert (made, made.low, made.high) == (answer.to_arrow()[name][0].as_py(), low[0], high[0])
        assert made.confidence == 0.95 and made.low < made < made.high
        assert str(made) == " ".join(str(answer).split("\n")[2].split())
    assert isinstance(people.count(), int) and isinstance(people.mean("x"), float)


def test_ranks_have_no_interval_and_say_so(people: Any) -> None:
    for call, *arguments in (("median",), ("min",), ("max",), ("quantile", 0.3)):
        made = getattr(people, call)(*arguments, "x")
        (ranks,) = people.last.rank_errors.values()
        assert made.interval is None and made.ranks == ranks
        assert str(made).endswith(f" within {math.ceil(ranks):,} ranks")
        assert str(pickle.loads(pickle.dumps(made))) == str(made)
    assert isinstance(people.max("at"), pd.Timestamp)


def test_groups_have_theirs_beside(people: Any) -> None:
    shown = people.groupby("region").agg(total=("x", "sum"), n=("x", "count"), middle=("x", "median"))
    accuracy, own = shown.dp.accuracy, people.last.accuracy
    order = [people.last.to_arrow()["region"].to_pylist().index(region) for region in shown.index]
    assert accuracy.index.equals(shown.index)
    for name in ("total", "n"):
        assert accuracy[name].to_numpy().tolist() == own[name].to_numpy()[order].tolist()
        rounding = 0.5  # counts are shown as whole numbers, and this noise is smaller
        low, high = accuracy[name, "lower"] - rounding, accuracy[name, "upper"] + rounding
        assert ((low < shown[name]) & (shown[name] < high)).all()
    assert accuracy["middle"].isna().all(axis=None)
    assert shown["n"].dp.accuracy.equals(pd.DataFrame({end: accuracy["n", end] for end in ("lower", "upper")}))
    few = shown[["n"]].sort_values("n").head(2)
    assert few.dp.accuracy["n", "lower"].tolist() == [accuracy["n", "lower"][key] for key in few.index]


@pytest.mark.parametrize(
    "call",
    [
        lambda dp: dp.describe("x"),
        lambda dp: dp.describe(["x", "k"]),
        lambda dp: dp.sum(["x", "k"]),
        lambda dp: dp.value_counts("region"),
        lambda dp: dp.value_counts("region", normalize=True),
        lambda dp: dp.histogram("x", 4),
        lambda dp: dp.crosstab("region", "k"),
        lambda dp: dp.pivot_table("x", "region", "k", "sum"),
        lambda dp: dp.pivot_table("x", "region"),
        lambda dp: dp.quantile([0.2, 0.8], ["x", "k"]),
        lambda dp: dp.corr(["x", "k"]),
        lambda dp: dp.mode(["region"]),
        lambda dp: dp.groupby("region").agg({"x": ["sum", "mean"]}),
        lambda dp: dp.groupby("region", as_index=False).agg(n=("x", "count")),
        lambda dp: dp.groupby(["region", "k"])["x"].mean(),
        lambda dp: dp.groupby("region")["at"].max(),
        lambda dp: dp.groupby("k").size(),
    ],
)
def test_every_shape_has_intervals_around_its_numbers(people: Any, call: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpquery.AccuracyWarning)  # ours: the people are few
        shown = call(people)
    accuracy = shown.dp.accuracy
    assert accuracy.index.equals(shown.index)
    together = shown.dp.intervals(simultaneous=True)
    assert list(together.columns) == list(accuracy.columns)
    for label in [None] if isinstance(shown, pd.Series) else list(shown.columns):
        numbers = shown if label is None else shown[label]
        name = () if label is None else label if isinstance(label, tuple) else (label,)
        if not pd.api.types.is_numeric_dtype(numbers.dtype):
            continue
        low, high = (accuracy[(*name, end) if name else end] for end in ("lower", "upper"))
        known = (low.notna() & numbers.notna()).to_numpy()
        slack = 1e-9 * (1 + numbers.abs().to_numpy()[known])
        assert (low.to_numpy()[known] <= numbers.to_numpy()[known] + slack).all()
        assert (numbers.to_numpy()[known] <= high.to_numpy()[known] + slack).all()


def test_parts_of_all_hold_the_true_ones(people: Any) -> None:
    """Simultaneous intervals of counts make those of proportions; a thousandth of doubt leaves no chance to fail."""
    shown = people.value_counts("region", normalize=True, confidence="0.9999999", epsilon=5)
    accuracy = shown.dp.accuracy
    true = {"east": 0.5, "north": 0.5, "west": 0.0}
    for region, part in true.items():
        assert accuracy["lower"][region] <= part <= accuracy["upper"][region]
    assert (accuracy["upper"] - accuracy["lower"]).max() < 0.2


def test_they_are_of_the_released_numbers_alone(people: Any) -> None:
    shown = people.groupby("region").agg(n=("x", "count"))
    assert not shown.dp.accuracy.empty
    for changed in (shown * 2, shown.assign(n=1), shown.rename(columns={"n": "m"}), shown.T):
        with pytest.raises(dpquery.DPQueryError, match="not the released numbers"):
            _ = changed.dp.accuracy
    with pytest.raises(dpquery.DPQueryError, match="not a private answer"):
        _ = pd.DataFrame({"a": [1]}).dp.accuracy
    series: Any = pd.Series([1])
    with pytest.raises(dpquery.DPQueryError, match="not a private answer"):
        _ = series.dp.accuracy


def test_pandas_may_copy_compare_and_write_attrs(people: Any, tmp_path: Path) -> None:
    shown = people.groupby("region").agg(n=("x", "count"))
    json.dumps(shown.attrs)
    assert pd.concat([shown, shown]).shape == (6, 1)
    assert pd.concat([shown, people.groupby("region").agg(n=("x", "count"))]).shape == (6, 1)
    assert copy.deepcopy(shown).dp.accuracy.equals(shown.dp.accuracy)
    again = pickle.loads(pickle.dumps(shown))
    assert again.dp.accuracy.equals(shown.dp.accuracy)
    with pytest.raises(dpquery.DPQueryError, match="another process"):
        again.dp.intervals("0.5")
    shown.to_parquet(tmp_path / "shown.parquet")
    with pytest.raises(dpquery.DPQueryError, match="not a private answer"):
        _ = pd.read_parquet(tmp_path / "shown.parquet").dp.accuracy


def test_an_answer_that_says_nothing_warns(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    with pytest.warns(dpquery.AccuracyWarning, match="which say nothing: x"):
        made = people.mean("x", epsilon="0.003")
    assert made.interval == (0, 20)
