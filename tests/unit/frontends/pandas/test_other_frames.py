"""`dpquery.protect` gives polars frames and Arrow tables the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpquery as dp
from tests.scripted import zero_noise

COLUMNS = {"who": [1, 1, 2, 3], "x": [1.0, 2.0, None, 4.0], "sex": ["F", "M", None, "F"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.DataFrame(COLUMNS),
        lambda: pl.LazyFrame(COLUMNS),
        lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("sex").cast(pl.Categorical)),
        lambda: pa.table(COLUMNS),
        lambda: pa.table({**COLUMNS, "sex": pa.array(COLUMNS["sex"]).dictionary_encode()}),
        lambda: pd.DataFrame(COLUMNS),
    ],
    ids=["polars", "lazy", "categorical", "arrow", "dictionary", "pandas"],
)
def test_every_sort_of_frame(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    made = make()
    people = dp.protect(
        made,
        privacy_unit="who",
        bounds={"x": (0, 10)},
        keys={"sex": ["F", "M"]},
        budget={"epsilon": 1000},
        max_rows=5,
        defaults={"epsilon": 20, "least_charge": "1e-12"},
    )
    assert people.sum("x") == 7 and people.count() == 4 and people.count("sex") == 3
    assert people.groupby("sex")["x"].sum().to_dict() == {"F": 5, "M": 2}
    assert people.query("x > 1 and sex != 'M'").count() == 1
    public = {"polars": pl.DataFrame({"sex": ["F"], "word": ["f"]}), "arrow": pa.table({"sex": ["F"], "word": ["f"]})}
    with pytest.raises(dp.CatalogError, match="one budget"):
        dp.protect(made, privacy_unit="who", max_rows=8, dataset="with public", budget={"epsilon": 100})
    other = make()  # nobody knows that these are the same people
    again = dp.protect(
        other, privacy_unit="who", max_rows=8, dataset="with public", budget={"epsilon": 100}, public=public
    )
    for name in public:
        assert again.join(name, on="sex").value_counts("word", epsilon=10).to_dict() == {"f": 2}
    with pytest.raises(dp.InsufficientBudgetError):
        dp.protect(made, privacy_unit="who", max_rows=8, bounds={"x": (0, 10)}).sum("x", epsilon=950)


def test_units_that_are_rows_and_units_with_missing_values(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    made = pd.DataFrame({"who": [1.0, None, 2, 2], "x": [1.0, 2, 3, 4], "code": ["a", "b", "a", "c"]})
    rows = dp.protect(made.copy(), privacy_unit="row", bounds={"x": (0, 10)}, budget={"epsilon": 100})
    assert rows.sum("x", epsilon=20) == 10
    assert rows.join(pd.DataFrame({"code": ["a", "b"], "v": ["p", "q"]}), on="code").value_counts(
        "v", epsilon=20
    ).to_dict() == {"p": 2, "q": 1}
    people = dp.protect(made.copy(), privacy_unit="who", bounds={"x": (0, 10)}, budget={"epsilon": 100}, max_rows=5)
    assert people.sum("x", epsilon=20) == 8  # rows of nobody count for nobody
