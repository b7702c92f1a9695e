"""What is said wrongly is refused with a typed error that says what to write, and nothing is charged."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.frontends.pandas import datasets

BUDGET = {"epsilon": 2}


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "who": [1, 1, 2, 3],
            "x": [1.0, 2.0, np.nan, 4.0],
            "free": [1, 2, 3, 4],
            "sex": ["F", "M", None, "F"],
            "mixed": [1, "a", None, 2.5],
            "wait": pd.to_timedelta([1, 2, 3, 4], "h"),
            "price": [Decimal("1.5"), None, Decimal(2), Decimal(3)],
            "flag": [True, False, True, True],
        }
    )


def said(**more: Any) -> dict[str, Any]:
    given = {"privacy_unit": "who", "max_rows": 8, "bounds": {"x": (0, 10)}, "keys": {"sex": ["F", "M"]}}
    return {**given, "budget": BUDGET, **more}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"privacy_unit": "whom"}, "did you mean 'who'"),
        ({"privacy_unit": 3}, "name of a column"),
        ({"privacy_unit": "mixed"}, "several types"),
        ({"privacy_unit": "wait"}, "timedelta"),
        ({"bounds": {"y": (0, 1)}}, "no column 'y'"),
        ({"bounds": {"x": 3}}, "(lower, upper)"),
        ({"bounds": {"x": (3, 0)}}, "exceeds"),
        ({"bounds": {"sex": ("a", "b")}}, "no bounds"),
        ({"bounds": {"mixed": (0, 1)}}, "several types"),
        ({"bounds": {"price": (0, 1)}}, "'decimal(12,2)'"),
        ({"keys": {"sex": "categories"}}, "categorical"),
        ({"keys": {"sex": ["F", "F"]}}, "same key"),
        ({"keys": {"sex": []}}, "at least one"),
        ({"types": {"price": "money"}}, "unknown type"),
        ({"columns": ["x", "z"]}, "no column 'z'"),
        ({"columns": "x"}, "strings"),
        ({"budget": None}, "budget="),
        ({"budget": {"epsilon": 0}}, "epsilon"),
        ({"budget": {"epsilon": True}}, "epsilon"),
        ({"budget": {"epsilon": float("nan")}}, "epsilon"),
        ({"max_rows": 0}, "at least 1"),
        ({"max_rows": "many"}, "expected auto, or an integer of at least 1"),
        ({"max_rows": None, "unique": [["x"]]}, "say how many rows one 'who' has in all"),
        ({"max_rows": None, "defaults": {"epsilon": 1}}, "unique=[['who']]"),
        ({"max_rows": None, "unique": ["who"]}, "max_rows='auto'"),
        ({"unique": ["who"]}, "expected a list of columns"),
        ({"unique": "who"}, "expected a list"),
        ({"dataset": ""}, "empty"),
        ({"dataset": "a\u202eb"}, "invisible"),
        ({"public": {"who": 3}}, "int"),
    ],
)
def test_declarations_that_do_not_fit(more: dict[str, Any], words: str) -> None:
    with pytest.raises((dp.CatalogError, dp.InvalidLossError)) as caught:
        frame().dp.protect(**said(**more))
    assert words in str(caught.value)
    assert not datasets._known


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (frame().iloc[:0], "no rows"),
        (pd.DataFrame(), "no rows"),
        (frame().rename(columns={"x": "who"}), "same name"),
        (frame().set_index(["who", "sex"]), "reset_index"),
        (frame().set_index("who"), "no column 'who'"),
        (pd.concat({"a": frame()}, axis=1), "several levels"),
        (frame()["x"], "Series"),
        ([1, 2], "list"),
        (pl.Series([1]), "series"),
        (pa.table({"who": [1]}).slice(1), "no rows"),
    ],
)
def test_data_that_cannot_be_protected(made: Any, words: str) -> None:
    with pytest.raises(dp.CatalogError) as caught:
        dp.protect(made, **said())
    assert words in str(caught.value)


def test_columns_that_queries_cannot_name() -> None:
    given = frame()
    given["Free"], given[7], given[" edge"] = 1, 2, 3
    protected = dp.protect(given, **said(types={"price": "decimal(5,2)"}))
    assert protected.columns == ("who", "x", "sex", "price", "flag")
    for name, words in {"free": "case", "mixed": "types=", "wait": "timedelta", " edge": "blank"}.items():
        with pytest.raises(dp.UnknownNameError, match=words):
            protected.count(name, epsilon=1)
    with pytest.raises(dp.UnknownNameError, match="left it out"):
        dp.protect(frame(), **said(columns=["x", "sex"])).count("free", epsilon=1)


CALLS: list[tuple[Callable[[Any], Any], type[dp.DPQueryError], str]] = [
    (lambda p: p.sum("free", epsilon=1), dp.MissingBoundsError, "bounds={'free': (lower, upper)}"),
    (lambda p: p.groupby("sex")["free"].mean(epsilon=1), dp.MissingBoundsError, "bounds={'free'"),
    (lambda p: p.histogram("free", epsilon=1), dp.MissingBoundsError, "bounds={'free'"),
    (lambda p: p.quantile(0.5, "free", epsilon=1), dp.MissingBoundsError, "bounds={'free'"),
    (lambda p: p.mean("sex", epsilon=1), dp.UnsupportedQueryError, "text"),
    (lambda p: p.describe("flag", epsilon=1), dp.UnsupportedQueryError, "value_counts('flag')"),
    (lambda p: p.describe(["x", "flag"], epsilon=1), dp.UnsupportedQueryError, "mean('flag')"),
    (lambda p: p.describe("sex", epsilon=1), dp.UnsupportedQueryError, "describe of sex"),
    (lambda p: p.median("flag", epsilon=1), dp.UnsupportedQueryError, "value_counts('flag')"),
    (lambda p: p.pivot_table(index="sex", aggfunc=["sum"], epsilon=1), dp.UnsupportedQueryError, "never called"),
    (lambda p: p.mean("z", epsilon=1), dp.UnknownNameError, "'z'"),
    (lambda p: p.mean(["x", "x"], epsilon=1), dp.UnsupportedQueryError, "twice"),
    (lambda p: p.mean([], epsilon=1), dp.UnsupportedQueryError, "name a column"),
    (lambda p: p.mean(3, epsilon=1), dp.UnsupportedQueryError, "name a column"),
    (lambda p: p.mean("x", axis=1), dp.UnsupportedQueryError, "axis"),
    (lambda p: p.mean("x", numeric_only=False), dp.UnsupportedQueryError, "numeric_only"),
    (lambda p: p.mean("x", epsilon=-1), dp.InvalidLossError, "epsilon"),
    (lambda p: p.mean("x", epsilon=3), dp.InsufficientBudgetError, "left"),
    (lambda p: p.mean("x"), dp.QueryError, "epsilon"),
    (lambda p: p.var("x", ddof=2, epsilon=1), dp.UnsupportedQueryError, "ddof"),
    (lambda p: p.corr("x", epsilon=1), dp.UnsupportedQueryError, "two columns"),
    (lambda p: p.corr(["x"], epsilon=1), dp.UnsupportedQueryError, "two columns"),
    (lambda p: p.mode("sex", "x"), TypeError, ""),  # type: ignore[list-item]
    (lambda p: p.groupby("z"), dp.UnknownNameError, "'z'"),
    (lambda p: p.groupby("sex").agg(epsilon=1), dp.UnsupportedQueryError, "agg"),
    (lambda p: p.groupby("sex").agg(len), dp.UnsupportedQueryError, "never called"),
    (lambda p: p.groupby("sex").agg(n=("x", len)), dp.UnsupportedQueryError, "never called"),
    (lambda p: p.groupby("sex").agg(n=("x", "sume")), dp.UnsupportedQueryError, "did you mean 'sum'"),
    (lambda p: p.groupby("sex").agg(n=3), dp.UnsupportedQueryError, "n="),
    (lambda p: p.groupby("sex").agg(**{"n\x00": ("x", "sum")}), dp.UnsupportedQueryError, "invisible"),
    (lambda p: p.histogram("x", bins=0), dp.UnsupportedQueryError, "bins"),
    (lambda p: p.histogram("x", bins=[3, 2]), dp.UnsupportedQueryError, "increasing"),
    (lambda p: p.histogram("sex"), dp.UnsupportedQueryError, "text"),
    (lambda p: p.crosstab("sex", []), dp.UnsupportedQueryError, "keys"),
    (lambda p: p.query("x.abs() > 3"), dp.UnsupportedQueryError, "calls"),
    (lambda p: p.assign_bounds(x=3), dp.UnsupportedQueryError, "(lower, upper)"),
    (lambda p: p.assign_bounds(sex=("a", "b")), dp.UnsupportedQueryError, "clamped"),
    (lambda p: p.assign_bounds(z=(0, 1)), dp.UnknownNameError, "'z'"),
    (lambda p: p.join(p, on="sex"), dp.UnsupportedQueryError, "public"),
    (lambda p: p.join("lands", on="sex"), dp.UnknownNameError, "public"),
    (lambda p: p.join(pd.DataFrame({"sex": ["F"], "x": [1]}), on="sex"), dp.UnsupportedQueryError, "both frames"),
    (lambda p: p.join(pd.DataFrame({"a": ["F"]}), on="sex"), dp.UnsupportedQueryError, "equal"),
    (lambda p: p.join(pd.DataFrame({"sex": ["F"], "a": [1]}), on="sex", how="outer"), dp.UnsupportedQueryError, "how"),
    (lambda p: p.join(pd.DataFrame({"sex": ["F"] * 999, "a": 1}), on="sex"), dp.UnsupportedQueryError, "public="),
    (lambda p: p.sql("SELECT * FROM this", epsilon=1), dp.UnsupportedQueryError, "single"),
    (lambda p: p.sql(3), dp.UnsupportedQueryError, "string"),
    (lambda p: p.query("x > 3").sql("SELECT 1 AS a", params=[1]), dp.ParameterError, "names"),
]


@pytest.fixture(scope="module")
def protected() -> tuple[pd.DataFrame, dict[str, Any]]:
    """A protected frame, which refused calls leave as it is, and the datasets of a process that has it."""
    given, known = frame(), dict[str, Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "_known", known)
        given.dp.protect(**said())
    return given, known


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls_that_are_refused_and_not_charged(
    number: int, protected: tuple[pd.DataFrame, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, error, words = CALLS[number]
    given, known = protected
    monkeypatch.setattr(datasets, "_known", known)
    before = given.dp.remaining
    with pytest.raises(error) as caught:
        call(given.dp)
    assert words in str(caught.value)
    assert given.dp.remaining == before
    assert given.dp.session._ledger.entries() == []


def test_a_frame_that_is_not_protected() -> None:
    with pytest.raises(dp.CatalogError, match="not protected"):
        frame().dp.count(epsilon=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="no 'cuont'"):
        _ = frame().dp.cuont
    assert "protect" in dir(frame().dp) and "groupby" in dir(frame().dp)
