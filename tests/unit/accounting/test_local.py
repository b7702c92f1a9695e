"""`dpquery.local.randomize`: reports in the form of what was given, and bad input."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATEGORIES = ["a", "b", "c"]


@pytest.mark.usefixtures("truthful")
@pytest.mark.parametrize(
    "values",
    [
        ["a", "c", "b"],
        pd.Series(["a", "c"], index=[7, 3], name="x"),
        pd.Series(["a", "c"], dtype="category"),
        pd.Series([], dtype="str"),
        np.array(["a", "c", "c"]),
        pa.array(["a", "b"]),
    ],
)
def test_reports_have_the_form_of_the_values(values: Any) -> None:
    reports = dp.local.randomize(values, "1", CATEGORIES)
    assert type(reports) is type(values)
    if isinstance(values, pd.Series):
        pd.testing.assert_series_equal(reports.astype(str), values.astype(str))
    else:
        assert list(reports) == list(values)


@pytest.fixture
def truthful(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


@pytest.mark.usefixtures("truthful")
@pytest.mark.parametrize("categories", [[False, True], [1, 2, 3], [1.5, 2.5], [Decimal("1.5"), Decimal(2)]])
def test_categories_of_every_type(categories: list[Any]) -> None:
    assert dp.local.randomize(categories, 1, categories) == categories


def test_a_report_may_be_longer_than_every_value() -> None:
    reports = dp.local.randomize(np.array(["a"] * 200), "0.01", ["a", "longer"])
    assert set(reports.tolist()) == {"a", "longer"}


def test_reports_over_a_grid_stay_near() -> None:
    reports = np.array(dp.local.randomize(np.full(20_000, 50), "30", list(range(0, 101, 10)), weighting="distance"))
    assert set(reports) <= set(range(0, 101, 10))
    assert abs(reports - 50).mean() < 15 < abs(np.arange(0, 101, 10) - 50).mean()


def test_reports_differ_from_call_to_call() -> None:
    values = ["a"] * 500
    assert dp.local.randomize(values, "0.1", CATEGORIES) != dp.local.randomize(values, "0.1", CATEGORIES)


@pytest.mark.parametrize(
    ("values", "epsilon", "categories", "error", "says"),
    [
        (["a"], 0, CATEGORIES, dp.InvalidLossError, "epsilon"),
        (["a"], -1, CATEGORIES, dp.InvalidLossError, "epsilon"),
        (["a"], True, CATEGORIES, dp.InvalidLossError, "epsilon"),
        (["a"], 65, CATEGORIES, dp.InvalidLossError, "hides nothing"),
        (["secret"], 1, CATEGORIES, dp.ParameterError, "none of the categories"),
        ([None], 1, CATEGORIES, dp.ParameterError, "none of the categories"),
        ([["a"]], 1, CATEGORIES, dp.ParameterError, "none of the categories"),
        (["a"], 1, ["a"], dp.ParameterError, "from 2 to 1000"),
        (["a"], 1, "ab", dp.ParameterError, "not one text"),
        (["a"], 1, ["a", "a"], dp.ParameterError, "twice"),
        (["a"], 1, ["a", None], dp.ParameterError, "not a category"),
        ([1.0], 1, [1.0, float("nan")], dp.ParameterError, "not a category"),
        (["a"], 1, ["a", 1], dp.ParameterError, "one type"),
        (range(2000), 1, range(2000), dp.ParameterError, "from 2 to 1000"),
    ],
)
def test_bad_input_is_told(values: Any, epsilon: Any, categories: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        dp.local.randomize(values, epsilon, categories)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("categories", [["a", "b"], [False, True], [1.0, float("inf")]])
def test_distances_need_numbers(categories: list[Any]) -> None:
    with pytest.raises(dp.ParameterError, match="finite numbers"):
        dp.local.randomize(categories[:1], 1, categories, weighting="distance")
    with pytest.raises(dp.ParameterError, match="weighting"):
        dp.local.randomize([1], 1, [1, 2], weighting="other")  # type: ignore[arg-type]
