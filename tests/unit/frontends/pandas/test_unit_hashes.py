"""Whom frames are about: which identifiers are the same, and which frames share a budget."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.frontends.pandas import datasets
from dpquery.frontends.pandas.unit_hashes import NOBODY, people_of, shared, together
from tests.scripted import zero_noise

BUDGET = {"epsilon": 1}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_known", {})


SAME = {
    "int64": pd.Series([1, 2, 30]),
    "int8": pd.Series([1, 2, 30], dtype="int8"),
    "with missing ones": pd.Series([1, None, 2, 30, 30]),
    "Int64": pd.Series([1, None, 2, 30], dtype="Int64"),
    "text": pd.Series(["1", " 2", "30 "]),
    "text of floats": pd.Series(["1.0", "2.00", "30"]),
    "mixed": pd.Series([1, "2", Decimal("30")], dtype=object),
    "category": pd.Series(["1", "2", "30"]).astype("category"),
    "decimal": pd.Series([Decimal("1.0"), Decimal("2"), Decimal("30")]),
}


@pytest.mark.parametrize("name", SAME)
def test_identifiers_that_mean_the_same_are_the_same(name: str) -> None:
    """API-20: neither a type nor a format makes other people."""
    people = people_of(pd.DataFrame({"x": SAME["int64"]}), ["x"])
    assert np.array_equal(people_of(pd.DataFrame({"x": SAME[name]}), ["x"]), people)
    assert len(people) == 3 and np.array_equal(people, np.sort(people))


@pytest.mark.parametrize("sign", [1, -1])
def test_long_identifiers_are_the_same_whatever_their_type(sign: int) -> None:
    """API-20: numbers of 19 digits, as services give them, are those of their texts."""
    ids = [sign * number for number in (10**18 - 1, 10**18, 1234567890123456789, 2**63 - 1)]
    people = people_of(pa.table({"x": pa.array(ids, pa.int64())}), ["x"])
    for values in (
        [str(number) for number in ids],
        [f" {number}.0" for number in ids],
        pd.Series([Decimal(number) for number in ids], dtype=object),
        pd.Series(ids).astype("category"),
    ):
        assert np.array_equal(people_of(pd.DataFrame({"x": values}), ["x"]), people)
    exact = sign * 2**60  # also as a float
    assert shared(*(people_of(pd.DataFrame({"x": [value]}), ["x"]) for value in (exact, float(exact)))) == 1


def test_other_identifiers_are_others() -> None:
    made = {
        name: people_of(pa.table({"x": values}), ["x"])
        for name, values in {
            "numbers": [1, 2],
            "others": [-1, 3, 4],
            "halves": [1.5, 2.5],
            "texts": ["a", "b", "01"],
            "large": ["9" * 30],
            "none": pa.array([None], pa.int64()),
        }.items()
    }
    assert [len(people) for people in made.values()] == [2, 3, 2, 3, 1, 0]
    everybody = NOBODY
    for people in made.values():
        assert shared(people, everybody) == 0
        everybody = together(everybody, people)
    assert len(everybody) == 11 and all(shared(people, everybody) == len(people) for people in made.values())


def test_a_large_set_is_eight_bytes_for_each_unit() -> None:
    many = people_of(pa.table({"x": np.arange(1_000_000)}), ["x"])
    assert many.nbytes == 8_000_000 and shared(many, people_of(pa.table({"x": [999_999, -5]}), ["x"])) == 1


def frame(ids: Any = range(60)) -> pd.DataFrame:
    return pd.DataFrame({"id": list(ids), "x": 1.0})


def merged(df: pd.DataFrame) -> pd.DataFrame:
    return df.merge(frame(range(5)).rename(columns={"x": "y"})).rename(columns={"id": "pid"})


RENAMED: dict[str, tuple[Any, str]] = {
    "merge and rename": (
        lambda df: df.merge(frame(range(5)).rename(columns={"x": "y"})).rename(columns={"id": "pid"}),
        "pid",
    ),
    "another frame": (lambda df: pd.DataFrame({"who": range(30, 90), "x": 2.0}), "who"),
    "as text": (lambda df: pd.DataFrame({"id": df["id"].astype(str), "x": 1.0}), "id"),
    "as a category": (lambda df: pd.DataFrame({"pid": df["id"].astype("category"), "x": 1.0}), "pid"),
    "concat": (lambda df: pd.concat([df.rename(columns={"id": "a"}), pd.DataFrame({"a": [99], "x": [1.0]})]), "a"),
    "the same column": (lambda df: pd.DataFrame({"id": range(59, 99), "x": 3.0}), "id"),
}


@pytest.mark.parametrize("name", RENAMED)
def test_frames_of_the_same_people_share_a_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-20: merge, rename and another name of the unit gain nothing."""
    zero_noise(monkeypatch)
    make, unit = RENAMED[name]
    first = frame()
    first.dp.protect(privacy_unit="id", max_rows=8, bounds={"x": (0, 5)}, budget=BUDGET)
    first.dp.count(epsilon="0.5")  # type: ignore[call-arg]
    made = make(first)
    made.attrs = {}
    found = made.dp.protect(privacy_unit=unit, max_rows=8, bounds={"x": (0, 5)}, budget=BUDGET)
    assert found.remaining.epsilon * 2 == 1
    assert found.count(epsilon="0.1") == len(made) and found.query("x > 0").sum("x", epsilon="0.1") > 0
    assert found.sql("WITH a AS (SELECT * FROM this) SELECT COUNT(*) AS n FROM a", epsilon="0.1").to_pandas()["n"][0]
    assert found.suggest_bounds("x", epsilon="0.1").charge.epsilon * 10 == 1
    assert first.dp.remaining.epsilon == found.remaining.epsilon == Fraction(1, 10)
    first.dp.count(epsilon=first.dp.remaining.epsilon)  # type: ignore[call-arg]
    with pytest.raises(dp.InsufficientBudgetError):
        found.count(epsilon="0.1")
    with pytest.raises(dp.LedgerError, match="does not change"):
        made.dp.protect(privacy_unit=unit, max_rows=8, budget={"epsilon": 2})
    again = make(first)
    again.attrs = {}
    assert again.dp.protect(privacy_unit=unit, max_rows=8).remaining.epsilon == 0


def test_a_name_says_that_these_are_other_people() -> None:
    frame().dp.protect(privacy_unit="id", max_rows=8, budget=BUDGET).count(epsilon=1)
    other = frame().dp.protect(privacy_unit="id", max_rows=8, budget=BUDGET, dataset="shops")
    assert other.remaining.epsilon == 1
    with pytest.raises(dp.CatalogError, match=r"several datasets.*'id', 'shops'"):
        frame([3, 70]).rename(columns={"id": "n"}).dp.protect(privacy_unit="n", max_rows=8, budget=BUDGET)
    assert frame([3]).dp.protect(privacy_unit="id", max_rows=8, dataset="shops").remaining.epsilon == 1


def test_people_add_up_over_frames() -> None:
    frame(range(10)).dp.protect(privacy_unit="id", max_rows=8, budget=BUDGET).count(epsilon="0.5")
    frame(range(9, 20)).rename(columns={"id": "b"}).dp.protect(privacy_unit="b", max_rows=8)
    fourth = frame([2]).rename(columns={"id": "e"}).dp.protect(privacy_unit="e", max_rows=8)
    assert fourth.remaining.epsilon * 2 == 1
    third = frame([19]).rename(columns={"id": "c"}).dp.protect(privacy_unit="c", max_rows=8)
    assert third.remaining.epsilon * 2 == 1
    assert (
        frame([20])
        .rename(columns={"id": "d"})
        .dp.protect(privacy_unit="d", max_rows=8, budget=BUDGET)
        .remaining.epsilon
        == 1
    )


def test_rows_are_no_units_where_a_column_tells_whose_they_are() -> None:
    """API-20: who says "row" of the same people's rows begins no budget."""
    frame().dp.protect(privacy_unit="id", max_rows=8, budget=BUDGET)
    rows = pd.concat([frame(), frame()]).rename(columns={"id": "key"})
    with pytest.raises(dp.CatalogError, match=r"column 'key' has the units of the dataset 'id'"):
        rows.dp.protect(privacy_unit="row", budget=BUDGET)
    with pytest.warns(UserWarning, match="values of 'key' come again"):
        assert rows.dp.protect(privacy_unit="row", budget=BUDGET, dataset="rows").remaining.epsilon == 1
    assert (
        frame(range(100, 160)).drop(columns="id").dp.protect(privacy_unit="row", budget=BUDGET).remaining.epsilon == 1
    )


def test_nothing_of_people_is_shown() -> None:
    found = frame().dp.protect(privacy_unit="id", max_rows=8, budget=BUDGET)
    assert "people" not in repr(datasets.find("id")) and "uint64" not in repr(found)
