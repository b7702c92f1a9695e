# mypy: disable-error-code="arg-type, no-untyped-call, no-untyped-def, operator, type-arg"
"""An average can have a target where a number of rows is assumed; `prices` never raises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
def test_a_mean_keeps_its_target_for_the_worst_values(tmp_path: Path, budget: dict[str, object]) -> None:
    """Noise of the plan's laws, on 1000 rows of any mean: it moves the mean by the target in 5 % of draws or less."""
    text, (error, rows) = "SELECT AVG(x) AS mean FROM visits", (2, 1000)
    opened = session(tmp_path, budget)
    plan = opened.explain(text, error={"mean": (error, rows)})
    assert [measured.label for measured in plan.measurements] == ["SUM(100 - x)", "SUM(x)"]
    (scale,) = {float(measured.scale) for measured in plan.measurements}
    random, missed = np.random.default_rng(2), []
    draw = random.laplace if "epsilon" in budget else random.normal
    for mean in (0, 20, 50, 100):
        below, above = (100 - mean) * rows + draw(0, scale, 20_000), mean * rows + draw(0, scale, 20_000)
        missed.append((abs(100 * above / (above + below) - mean) > error).mean())
    assert 0.03 < max(missed) < 0.056
    dearer = opened.explain(text, error={"mean": (error / 2, rows)})
    assert sum(m.scale for m in dearer.measurements) < sum(m.scale for m in plan.measurements)


@pytest.mark.parametrize("asked", [{"n": 20, "s": 2000}, {"n": 20, "m": (1, 1000)}, {"s": 1500, "m": (2, 2000)}])
@pytest.mark.parametrize("budget", BUDGETS)
def test_counts_sums_and_means_of_one_vector(tmp_path: Path, budget: dict[str, object], asked: dict) -> None:
    """The cheaper form is taken: no dearer than each column's target by itself, added up."""
    opened = session(tmp_path, budget)
    column = {"n": "COUNT(*)", "s": "SUM(x)", "m": "AVG(x)"}

    def charge(names):
        shown = ", ".join(f"{column[name]} AS {name}" for name in names)
        plan = opened.explain(f"SELECT {shown} FROM visits", error={name: asked[name] for name in names})
        return float(plan.charge.epsilon or plan.charge.rho)

    assert max(charge([name]) for name in asked) * 0.999 <= charge(list(asked))
    assert charge(list(asked)) <= 1.001 * sum(charge([name]) for name in asked)


def test_prices_list_a_mean_of_assumed_rows(tmp_path: Path) -> None:
    table = session(tmp_path, {"epsilon": 10}).explain("SELECT AVG(x) AS m FROM visits", error={"m": (2, 1000)}).prices
    assert table["m"].notna().all() and table.loc["epsilon=1", "m"] < table.loc["epsilon=0.1", "m"]


def test_without_rows_the_refusal_says_what_to_write(tmp_path: Path) -> None:
    opened = session(tmp_path, {"epsilon": 10})
    for error in ({"m": 2}, 2):
        with pytest.raises(UnsupportedQueryError, match=r"error=\{'m': \(2, 1000\)\}"):
            opened.explain("SELECT AVG(x) AS m FROM visits", error=error)
    for given in ((2,), (2, 0), (2, "many"), (2, 1000, 3)):
        with pytest.raises(InvalidLossError):
            opened.explain("SELECT AVG(x) AS m FROM visits", error={"m": given})
    with pytest.raises(UnsupportedQueryError, match="depends on the data"):
        opened.explain("SELECT VAR_POP(x) AS v FROM visits", error={"v": (2, 1000)})
