"""Planning many quantiles of one value looks for those that are chosen together as often as planning a few does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.kernel import quantiles
from dpquery.kernel.plan import Measure


def test_families_are_found_once_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"id": {"type": "int64"}, "x": {"type": "int64", "lower": 0, "upper": 1000}}
    tables = {"t": {"unit": "id", "unique": [["id"]], "columns": columns}}
    catalog = dp.Catalog(dataset="t", privacy_unit="person", budget={"epsilon": 1}, tables=tables)
    ledger = dp.create_ledger(catalog, tmp_path / "t.ledger")
    opened = dp.connect(catalog, {"t": pd.DataFrame({"id": [1], "x": [1]})}, ledger=ledger)
    calls: list[int] = []
    plain = quantiles.families

    def counted(measures: Sequence[Measure]) -> list[tuple[int, ...]]:
        calls.append(len(measures))
        return plain(measures)

    monkeypatch.setattr(quantiles, "families", counted)
    made = []
    for count in (10, 90):
        calls.clear()
        chosen = ", ".join(f"QUANTILE_CONT(x, {i / 100}) AS q{i}" for i in range(1, count + 1))
        opened.explain(f"SELECT {chosen} FROM t", epsilon="0.5")
        made.append(len(calls))
    assert max(made) <= 30
