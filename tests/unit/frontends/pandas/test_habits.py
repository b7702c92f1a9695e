"""What people type out of habit: brackets, masks, `dt`, `pd.Grouper`, bins, `agg`, as pandas has them without noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpquery.errors import CatalogError, MissingDeltaError, UnknownNameError, UnsupportedQueryError
from tests.scripted import zero_noise

_names = itertools.count()
N = 600
FRAME = pd.DataFrame(
    {
        "who": np.arange(N) % 300,
        "spend": np.arange(N) * 7 % 80,
        "age": np.arange(N) * 13 % 50 + 20,
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N) * 5 % 366, "D"),
        "region": pd.Categorical(np.array(["e", "n", "s"])[np.arange(N) % 3]),
    }
)
SAID: dict[str, Any] = {
    "privacy_unit": "who",
    "bounds": {"spend": (0, 100), "age": (0, 100), "day": ("2024-01-01", "2024-12-31")},
    "keys": {"region": ["e", "n", "s"]},
    "max_rows": 2,
}


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    zero_noise(monkeypatch)
    made = FRAME.copy()
    made.dp.protect(**SAID, budget={"epsilon": 1000}, dataset=f"habits{next(_names)}")
    return made


Ask = Callable[[Any], Any]
PAIRS: dict[str, tuple[Ask, Ask]] = {
    "a column": (lambda d: d["spend"].sum(epsilon=1), lambda f: f["spend"].sum()),
    "skipna": (lambda d: d["spend"].mean(epsilon=1, skipna=True), lambda f: f["spend"].mean()),
    "a mask": (lambda d: d[d["spend"] > 10]["spend"].count(epsilon=1), lambda f: (f["spend"] > 10).sum()),
    "masks": (
        lambda d: d[(d["spend"] > 10) & ~(d["region"] == "e") | d["age"].between(20, 25)].count(epsilon=1),
        lambda f: ((f["spend"] > 10) & ~(f["region"] == "e") | f["age"].between(20, 25)).sum(),
    ),
    "arithmetic": (
        lambda d: d[d["spend"] * 2 + 5 < d["age"] - 10].count(epsilon=1),
        lambda f: (f["spend"] * 2 + 5 < f["age"] - 10).sum(),
    ),
    "turned": (lambda d: d[90 - d["age"] > 50].count(epsilon=1), lambda f: (90 - f["age"] > 50).sum()),
    "notna": (lambda d: d[d["spend"].notna()].count(epsilon=1), lambda f: f["spend"].notna().sum()),
    "isnull": (lambda d: d[~d["spend"].isnull()].count(epsilon=1), lambda f: f["spend"].notna().sum()),
    "a number of numpy": (lambda d: d[np.int64(10) < d["spend"]].count(epsilon=1), lambda f: (f["spend"] > 10).sum()),
    "agg of a column": (lambda d: d["spend"].agg("sum", epsilon=1), lambda f: f["spend"].sum()),
    "isin": (
        lambda d: d[d["region"].isin(["e", "s"])].count(epsilon=1),
        lambda f: f["region"].isin(["e", "s"]).sum(),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_number_is_that_of_pandas(frame: pd.DataFrame, name: str) -> None:
    asked, plain = PAIRS[name]
    assert float(asked(frame.dp)) == pytest.approx(float(plain(frame)))


GROUPS: dict[str, tuple[Ask, Ask]] = {
    "month": (lambda d: d.groupby(d["day"].dt.month).size(epsilon=1), lambda f: f.groupby(f["day"].dt.month).size()),
    "dayofweek": (
        lambda d: d.groupby(d["day"].dt.dayofweek)["spend"].sum(epsilon=1),
        lambda f: f.groupby(f["day"].rename("day").map(pd.Timestamp.weekday))["spend"].sum(),
    ),
    "two keys": (
        lambda d: d.groupby(["region", d["day"].dt.quarter]).size(epsilon=1),
        lambda f: f.groupby(["region", f["day"].dt.quarter], observed=False).size(),
    ),
    "a column": (
        lambda d: d.groupby(d["region"])["spend"].sum(epsilon=1),
        lambda f: f.groupby("region", observed=False)["spend"].sum(),
    ),
    "Grouper": (
        lambda d: d.groupby(pd.Grouper(key="day", freq="MS"))["spend"].sum(epsilon=1),
        lambda f: f.groupby(pd.Grouper(key="day", freq="MS"))["spend"].sum(),
    ),
    "resample": (
        lambda d: d.resample("QS", on="day")["spend"].sum(epsilon=1),
        lambda f: f.resample("QS", on="day")["spend"].sum(),
    ),
    "cut": (
        lambda d: d.groupby(d["spend"].cut([0, 20, 50, 100])).size(epsilon=1),
        lambda f: f.groupby(pd.cut(f["spend"], [0, 20, 50, 100]), observed=False).size(),
    ),
    "cut from the left": (
        lambda d: d.groupby(d["spend"].cut([5, 20.5, 100], right=False)).size(epsilon=1),
        lambda f: f.groupby(pd.cut(f["spend"], [5, 20.5, 100], right=False), observed=False).size(),
    ),
    "cut with labels": (
        lambda d: d.groupby(d["age"].cut([0, 30, 100], labels=["young", "no longer 'young'"])).size(epsilon=1),
        lambda f: f.groupby(
            pd.cut(f["age"], [0, 30, 100], labels=["young", "no longer 'young'"]), observed=False
        ).size(),
    ),
    "aggregates of a column": (
        lambda d: d["spend"].agg(["sum", "count"], epsilon=1),
        lambda f: f["spend"].agg(["sum", "count"]),
    ),
    "agg": (
        lambda d: d.agg({"spend": ["sum", "count"], "age": ["count"]}, epsilon=1),
        lambda f: f.agg({"spend": ["sum", "count"], "age": ["count"]}),
    ),
    "agg of one each": (
        lambda d: d.agg({"spend": "sum", "age": "count"}, epsilon=1),
        lambda f: f.agg({"spend": "sum", "age": "count"}),
    ),
    "a column as an argument": (
        lambda d: d.groupby("region").mean("spend", epsilon=1),
        lambda f: f.groupby("region", observed=False)["spend"].mean(),
    ),
    "a list of columns": (
        lambda d: d[["spend", "age"]].agg("sum", epsilon=1),
        lambda f: f[["spend", "age"]].agg("sum"),
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_table_is_that_of_pandas(frame: pd.DataFrame, name: str) -> None:
    asked, plain = GROUPS[name]
    found, expected = asked(frame.dp), plain(frame)
    assert [str(key) for key in found.index] == [str(key).replace(".0", "") for key in expected.index]
    assert found.index.names == expected.index.names
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), equal_nan=True)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda f: f.dp[f["spend"] > 10], "holds rows of people"),
        (lambda f: f.dp[f.dp["spend"] > f["age"]], "holds rows of people"),
        (lambda f: f.dp[(f.dp["spend"] > 1) & (f["age"] > 1)], "holds rows of people"),
        (lambda f: f.dp.groupby(f["day"].dt.month), "holds rows of people"),
        (lambda f: f.dp.groupby(lambda row: row), "holds rows of people"),
        (lambda f: f.dp[3], "not a column"),
        (lambda f: f.dp.groupby("region", observed=True), "observed"),
        (lambda f: f.dp["spend"].mean(epsilon=1, skipna=False), "skipna"),
        (lambda f: f.dp.groupby(pd.Grouper(key="day", freq="ME")), "'MS'"),
        (lambda f: f.dp.groupby(f.dp["spend"].dt.month), "type int64"),
        (lambda f: f.dp["spend"].cut(4), "would read data"),
        (lambda f: f.dp["spend"].cut([0, 1, 2], labels=["a"]), "a different text for each bin"),
        (lambda f: pd.cut(f.dp["spend"], [0, 20]), "holds no values"),
        (lambda f: np.asarray(f.dp["spend"]), "holds no values"),
        (lambda f: len(f.dp["spend"]), "the number of rows is private"),
        (lambda f: f.dp["spend"].cut([0, float("inf")]), "finite"),
        (lambda f: f.dp["region"].isin("e"), "list"),
        (lambda f: f.dp.agg({}, epsilon=1), "by their names"),
        (lambda f: f.dp.groupby("who")["spend"].sum().mean(epsilon=1), "groups would be one unit"),
        (lambda f: f.dp.groupby(["who", "region"]).size(), "groups would be one unit"),
    ],
)
def test_what_reads_rows_or_has_no_counterpart_is_refused(frame: pd.DataFrame, ask: Ask, words: str) -> None:
    before = frame.dp.remaining
    with pytest.raises(UnsupportedQueryError, match=words):
        ask(frame)
    assert frame.dp.remaining == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("head", "never shown"), ("unique", "never shown"), ("apply", "never called"), ("colour", "dir")),
        *(("str", "isin"), ("plot", "plot the answer"), ("dropna", "notna")),
    ],
)
def test_names_of_pandas_say_the_way_on(frame: pd.DataFrame, name: str, words: str) -> None:
    for of in (frame.dp, frame.dp.query("age > 3")):
        with pytest.raises(AttributeError, match=words):
            getattr(of, name)
    with pytest.raises(AttributeError, match=words):
        getattr(frame.dp["spend"], name)
    with pytest.raises(UnknownNameError, match="spend"):
        frame.dp["spent"]
    with pytest.raises(AttributeError, match="in brackets"):
        frame.dp.spend  # noqa: B018


def test_the_advice_on_groups_of_one_unit_is_a_query(frame: pd.DataFrame) -> None:
    with pytest.raises(UnsupportedQueryError) as refused:
        frame.dp.groupby("who")["spend"].sum()
    query = str(refused.value.advice).split('"""')[1]
    found = frame.dp.sql(query, epsilon=1).to_pandas()
    assert found.iloc[0, 0] == pytest.approx(FRAME.groupby("who")["spend"].sum().mean(), rel=1e-3)


def test_what_is_computed_and_groups_say_the_way_on(frame: pd.DataFrame) -> None:
    with pytest.raises(AttributeError, match=r"no 'sum': .*df\.dp\.sql"):
        (frame.dp["spend"] * frame.dp["age"]).sum(epsilon=1)
    with pytest.raises(AttributeError, match=r"pd\.Grouper\(key='day', freq='MS'\)"):
        frame.dp["day"].dt.to_period("M")
    with pytest.raises(AttributeError, match=r"groupby\(\.\.\.\)\['spend'\]"):
        frame.dp.groupby("region").spend  # noqa: B018


def test_an_expression_is_neither_true_nor_false_and_holds_no_data(frame: pd.DataFrame) -> None:
    mask = frame.dp["spend"] > 10
    with pytest.raises(TypeError, match="combine masks"):
        bool(mask)
    assert set(vars(mask)) == {"frame", "text", "values"} and list(mask.values.values()) == [10]


def test_masks_of_other_frames_are_refused(frame: pd.DataFrame) -> None:
    other = FRAME.copy()
    other.dp.protect(**SAID, budget={"epsilon": 1}, dataset=f"habits{next(_names)}")
    with pytest.raises(UnsupportedQueryError, match="different protected frame"):
        frame.dp[other.dp["spend"] > 10]
    with pytest.raises(UnsupportedQueryError, match="different protected frames"):
        assert frame.dp["spend"] > other.dp["spend"]


def test_a_frame_with_more_columns_is_protected_again_by_what_was_said(frame: pd.DataFrame) -> None:
    wider = frame.assign(double=frame["spend"] * 2).drop(columns="age")
    with pytest.raises(CatalogError):
        assert wider.dp.remaining
    left = frame.dp.remaining
    again = wider.dp.protect()
    assert (
        again.remaining == left and "double" in again.columns and again["spend"].sum(epsilon=1) == frame["spend"].sum()
    )
    assert frame.dp.remaining.epsilon == left.epsilon - 1
    assert wider.dp.protect(bounds={"double": (0, 200)})["double"].sum(epsilon=1) == frame["spend"].sum() * 2
    both = wider.dp.protect(bounds={"double": (0, 200)}, keys={"double": [0, 2]})
    assert both["spend"].sum(epsilon=1) == frame["spend"].sum() and list(both.groupby("region").size(epsilon=1).index)
    with pytest.raises(CatalogError, match="name the privacy unit"):
        FRAME.copy().dp.protect()


def test_months_of_moments_without_bounds_have_no_group_without_a_month(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    made = FRAME.copy()
    unbounded = {**SAID, "bounds": {"spend": (0, 100)}}
    people = made.dp.protect(**unbounded, budget={"epsilon": 1000}, dataset=f"habits{next(_names)}")
    found = people.groupby(people["day"].dt.month).size(epsilon=1)
    assert found.tolist() == FRAME.groupby(FRAME["day"].dt.month).size().tolist()
    assert [str(key) for key in found.index] == [str(month) for month in range(1, 13)]


def test_selecting_groups_without_a_delta_says_what_protect_takes(frame: pd.DataFrame) -> None:
    wider = frame.assign(town="x")
    with pytest.raises(MissingDeltaError, match="keys="):
        wider.dp.protect()["town"].value_counts(epsilon=1)
