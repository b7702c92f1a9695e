"""Bounds of frames found with noise: what is suggested, and that `protect` and `assign_bounds` take it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.frontends.pandas.protected_frame import SuggestedBounds
from tests.scripted import zero_noise


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    zero_noise(monkeypatch)  # steps are still held against the noise that there would be
    made = pd.DataFrame({"who": [i // 4 for i in range(4000)]})
    made["spend"] = [7 if who else 10**12 for who in made["who"]]
    made["this.x"] = 30.5
    made["at"] = pd.Timestamp("2020-05-05", tz="Europe/Berlin")
    made["town"] = "Ulm"
    made["odd"] = [{} for _ in range(4000)]  # type: ignore[assignment]
    return made


def _protected(frame: pd.DataFrame, **said: Any) -> Any:
    return frame.dp.protect(**{"privacy_unit": "who", "max_rows": "auto", "budget": {"epsilon": 20}, **said})


def test_columns_without_bounds_are_found_and_charged_once(frame: pd.DataFrame) -> None:
    people = _protected(frame)
    found = people.suggest_bounds(epsilon=10)
    start, end = pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")
    assert found.bounds == {"spend": (5, 10), "this.x": (20.0, 50.0), "at": (start, end)}
    assert (found.max_rows, found.missing, found.charge) == (4, (), dp.PrivacyLoss(epsilon=Fraction(10)))
    assert people.remaining.epsilon == 10 and people.last is None


@pytest.mark.parametrize("columns", ["spend", ["spend"], ("spend",)])
def test_protect_and_assign_bounds_take_what_is_found(frame: pd.DataFrame, columns: Any) -> None:
    people = _protected(frame)
    with pytest.raises(dp.MissingBoundsError):
        people.sum("spend", epsilon=1)
    found = frame.dp.suggest_bounds(columns, epsilon=5)
    assert set(found.bounds) == {"spend"}
    expected = 7 * (4000 - 4) + 10 * 4
    assert people.assign_bounds(found.bounds).sum("spend", epsilon=1, max_rows=4) == expected
    again = _protected(frame, bounds=found.bounds, max_rows=found.max_rows, budget=None)
    assert again.sum("spend", epsilon=1) == expected
    assert again.remaining.epsilon == 13


def test_moments_with_a_zone_come_back_as_bounds(frame: pd.DataFrame) -> None:
    found = _protected(frame).suggest_bounds("at", epsilon=5)
    assert _protected(frame, bounds=found.bounds, max_rows=4, budget=None).min("at", epsilon=1).year == 2020


def test_rows_by_themselves(frame: pd.DataFrame) -> None:
    found = _protected(frame.drop(columns="who"), privacy_unit="row").suggest_bounds("spend", epsilon=5)
    assert found.bounds == {"spend": (5, 10)} and found.max_rows is None


def test_other_frames(frame: pd.DataFrame) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame[["who", "spend"]])
    made = dp.protect(table, privacy_unit="who", max_rows=8, dataset="arrow", budget={"epsilon": 9})
    assert made.suggest_bounds(epsilon=5).bounds == {"spend": (5, 10)}


def test_what_is_printed_is_what_to_write(frame: pd.DataFrame) -> None:
    found = _protected(frame).suggest_bounds(["at", "spend"], epsilon=5)
    bounds = "{'at': ('2020-01-01 00:00:00', '2021-01-01 00:00:00'), 'spend': (5, 10)}"
    assert str(found).splitlines()[1:] == [f"bounds={bounds}, max_rows=4"]
    assert "# Charged epsilon 5." in str(found)
    assert found._repr_html_().startswith("<pre># Charged") and "{&#x27;at" in found._repr_html_()
    _protected(frame, **eval(f"dict(\n{found}\n)"), budget=None)


def test_too_few_people(frame: pd.DataFrame) -> None:
    found = _protected(frame).suggest_bounds("spend", epsilon="0.001")
    assert found.bounds == {} and found.missing == ("spend",) and found.max_rows is None
    assert "bounds=" not in str(found) and "# spend: too few units" in str(found)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda p: p.suggest_bounds("sped"), dp.UnknownNameError, "did you mean"),
        (lambda p: p.suggest_bounds("odd"), dp.UnknownNameError, "cannot be used"),
        (lambda p: p.suggest_bounds([3]), dp.UnknownNameError, "must be a string"),
        (lambda p: p.suggest_bounds("town"), dp.ParameterError, "can have no bounds"),
        (lambda p: p.suggest_bounds([]), dp.ParameterError, "no column"),
        (lambda p: p.suggest_bounds("spend"), dp.InvalidLossError, "epsilon"),
        (lambda p: p.suggest_bounds("spend", epsilon=100), dp.InsufficientBudgetError, "costs"),
        (lambda p: p.suggest_bounds("spend", epsilon=1, coverage=2), dp.ParameterError, "coverage"),
        (lambda p: p.query("spend > 3").suggest_bounds(epsilon=1), dp.UnsupportedQueryError, "whole frame"),
        (lambda p: p.assign_bounds(spend=(0, 9)).suggest_bounds(epsilon=1), dp.UnsupportedQueryError, "whole frame"),
        (lambda p: p.explain.suggest_bounds(epsilon=1), dp.UnsupportedQueryError, "no plan"),
    ],
)
def test_bad_input_costs_nothing(frame: pd.DataFrame, ask: Any, error: type[Exception], says: str) -> None:
    people = _protected(frame)
    with pytest.raises(error, match=says):
        ask(people)
    assert people.remaining.epsilon == 20


def test_what_is_found_is_frozen() -> None:
    found = SuggestedBounds(bounds={}, max_rows=None, missing=(), charge=dp.PrivacyLoss(epsilon=Fraction(1)))
    with pytest.raises(AttributeError):
        found.max_rows = 3  # type: ignore[misc]
