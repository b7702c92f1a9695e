# mypy: ignore-errors
"""An average can have a target where a number of rows is assumed; `prices` never raises."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.errors import InvalidLossError, UnsupportedQueryError

BUDGETS = ({"epsilon": 10}, {"rho": 10, "delta": "1e-6"})


def session(folder: Path, budget: dict[str, object], upper: int = 100) -> dp.Session:
    columns = {"id": {"type": "int64"}, "x": {"type": "int64", "lower": 0, "upper": upper}}
    catalog = dp.Catalog(
        dataset="shop",
        privacy_unit="customer",
        budget=budget,
        tables={"visits": {"unit": "id", "unique": [["id"]], "columns": columns}},
    )
    frame = pd.DataFrame({"id": range(1000), "x": [upper] * 1000})
    return dp.connect(catalog, {"visits": frame}, ledger=dp.create_ledger(catalog, folder / "shop.ledger"))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("upper", [100, 10**15])
def test_prices_of_a_count_and_a_sum(tmp_path: Path, budget: dict[str, object], upper: int) -> None:
    text, loss = (
        "SELECT COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean FROM visits",
        dict.fromkeys(budget.keys() - {"delta"}, 1),
    )
    table = session(tmp_path, budget, upper).explain(text, **loss).prices
    assert {"charge", "n", "total", "mean"} == set(table.columns)
    assert len(table) >= 3 and table["mean"].isna().all() and not table[["n", "total"]].isna().any(axis=None)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_mean_keeps_its_target_under_the_worst_noise(tmp_path: Path, budget: dict[str, object]) -> None:
    """The widths of the plan's noises, put together in the worst way, move the mean of 1000 rows by the target."""
    text, (error, rows) = "SELECT AVG(x) AS mean FROM visits", (2, 1000)
    opened = session(tmp_path, budget)
    plan = opened.explain(text, error={"mean": (error, rows)})
    widths = {measured.label: float(measured.error95) for measured in plan.measurements}
    assert set(widths) == {"COUNT(*)", "SUM(x - 50)"}
    for mean in (0, 50, 100):
        worst = (widths["SUM(x - 50)"] + abs(mean - 50) * widths["COUNT(*)"]) / (rows - widths["COUNT(*)"])
        assert worst <= error
    dearer = opened.explain(text, error={"mean": (error / 2, rows)})
    assert sum(m.scale for m in dearer.measurements) < sum(m.scale for m in plan.measurements)


def test_prices_list_a_mean_of_assumed_rows(tmp_path: Path) -> None:
    table = session(tmp_path, {"epsilon": 10}).explain("SELECT AVG(x) AS m FROM visits", error={"m": (2, 1000)}).prices
    assert table["m"].notna().all() and table.loc["epsilon=1", "m"] < table.loc["epsilon=0.1", "m"]


def test_without_rows_the_refusal_says_what_to_write(tmp_path: Path) -> None:
    opened = session(tmp_path, {"epsilon": 10})
    for error in ({"m": 2}, 2):
        with pytest.raises(UnsupportedQueryError, match=r"error=\{'m': \(0.5, 1000\)\}"):
            opened.explain("SELECT AVG(x) AS m FROM visits", error=error)
    for given in ((2,), (2, 0), (2, "many"), (2, 1000, 3)):
        with pytest.raises(InvalidLossError):
            opened.explain("SELECT AVG(x) AS m FROM visits", error={"m": given})
    with pytest.raises(UnsupportedQueryError, match="depends on the data"):
        opened.explain("SELECT VAR_POP(x) AS v FROM visits", error={"v": (2, 1000)})
