"""How far an answer would be off, told before it is paid."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp

CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: shop
privacy_unit: row
budget: {epsilon: 9}
tables: {sales: {columns: {x: {type: int64, lower: 0, upper: 9}}}}
""")


@pytest.mark.parametrize(
    ("shown", "inside"),
    [
        ("ROUND(AVG(x), 2)", "AVG(x)"),
        ("COALESCE(SUM(x), 0)", "SUM(x)"),
        ("COALESCE(ROUND(AVG(x), 1), 0)", "AVG(x)"),
        ("NULLIF(COUNT(*), 0)", "COUNT(*)"),
        ("CASE WHEN COUNT(*) < 10 THEN NULL ELSE COUNT(*) END", "COUNT(*)"),
        ("CASE WHEN COUNT(*) > 0 THEN AVG(x) ELSE 0 END", "AVG(x)"),
    ],
)
def test_a_choice_beside_constants_is_off_as_what_is_inside(tmp_path: Path, shown: str, inside: str) -> None:
    with dp.connect(CATALOG, {"sales": pd.DataFrame({"x": [1]})}, ledger=tmp_path / "l", create=True) as session:
        told = [session.explain(f"SELECT {one} AS n FROM sales", epsilon=1).expected for one in (shown, inside)]
        assert told[0] == told[1] and told[0][0].startswith("n ± ")
        either = "SELECT CASE WHEN COUNT(*) > 5 THEN SUM(x) ELSE COUNT(x) END AS n FROM sales"
        assert session.explain(either, epsilon=1).expected == ("n: depends on the data",)
