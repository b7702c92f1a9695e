"""Errors that are asked for: of ratios, of quantiles in ranks, and of all cells at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import dpquery as dp

ROWS = 6000
AROUND = 1.1
"""An interval is made around the noisy ratio of 3,000 rows, where 2,900 are assumed. Noise has a deviation of 54 rows
at most, and 400 of them would be needed to pass this: 7 deviations."""
BUDGETS = [{"epsilon": 10000}, {"rho": 10000, "delta": "1e-6"}]


@pytest.fixture(params=BUDGETS, ids=["epsilon", "rho"], scope="module")
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    columns = {
        "id": {"type": "int64"},
        "sex": {"type": "text", "keys": ["F", "M"]},
        "town": {"type": "text"},
        "x": {"type": "int64", "lower": 0, "upper": 100},
        "y": {"type": "int64", "lower": -10, "upper": 30, "nullable": True},
    }
    tables, usual = {"t": {"columns": columns}}, {"least_charge": "1e-9"}
    catalog = dp.Catalog(dataset="p", privacy_unit="row", budget=request.param, tables=tables, defaults=usual)
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"id": range(ROWS), "sex": ["F", "M"] * (ROWS // 2), "town": "a"})
    frame["x"], frame["y"] = random.integers(0, 101, ROWS), random.integers(-10, 31, ROWS)
    ledger = dp.create_ledger(catalog, tmp_path_factory.mktemp("p") / "p.ledger")
    with dp.connect(catalog, {"t": frame}, ledger=ledger, reuse=False) as opened:
        yield opened


def cost(charge: dp.PrivacyLoss) -> float:
    return float(charge.epsilon or charge.rho)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("ratio", "error"),
    [
        ("1.0 * COUNT(*) FILTER (WHERE x > 50) / COUNT(*)", "0.05"),
        ("100.0 * COUNT(*) FILTER (WHERE x > 50) / NULLIF(COUNT(*), 0)", 5),
        ("COUNT(y) * 1.0 / COUNT(*)", "0.05"),
        ("1.0 * SUM(x) / COUNT(*)", 4),
        ("SUM(y) / CAST(COUNT(y) AS double)", 2),
    ],
)
def test_a_ratio_to_a_number_of_rows_has_a_target(session: dp.Session, ratio: str, error: object) -> None:
    query = f"SELECT sex, {ratio} AS r FROM t GROUP BY sex"
    answer = session.sql(query, error={"r": (error, ROWS // 2 - 100)})
    widths = (answer.accuracy["r", "upper"] - answer.accuracy["r", "lower"]) / 2
    assert (widths <= AROUND * float(str(error))).all() and (widths > float(str(error)) / 8).all()
    plan = session.explain(query, error={"r": (error, ROWS // 2 - 100)})
    assert plan.prices["r"].notna().all()
    (name,) = (name for name in plan.prices.index if name.endswith("=1"))
    dearer = session.explain(query, error={"r": (float(str(error)) / 2, ROWS // 2 - 100)})
    assert cost(dearer.charge) > 1.8 * cost(plan.charge) and plan.prices.loc[name, "r"] > 0
    with pytest.raises(dp.QueryError, match="the error of the ratio r depends on how many rows each group has"):
        session.explain(query, error={"r": error})


@pytest.mark.parametrize(
    ("beside", "ratio", "error"),
    [
        ("COUNT(*) FILTER (WHERE x > 50)", "1.0 * COUNT(y) / COUNT(*)", "0.05"),
        ("COUNT(*) FILTER (WHERE y > 5)", "1.0 * COUNT(*) FILTER (WHERE x > 70) / COUNT(*)", "0.05"),
        ("COUNT(*) FILTER (WHERE x > 5)", "1.0 * SUM(x) / COUNT(*)", 4),
    ],
)
def test_a_total_in_two_halves_counts_all_that_it_is_the_total_of(
    session: dp.Session, beside: str, ratio: str, error: object
) -> None:
    """The total is measured as the rows that another column asks for, and all others."""
    query = f"SELECT sex, {beside} AS part, {ratio} AS r FROM t GROUP BY sex"
    answer = session.sql(query, error={"r": (error, ROWS // 2 - 100)})
    widths = (answer.accuracy["r", "upper"] - answer.accuracy["r", "lower"]) / 2
    assert (widths <= AROUND * float(str(error))).all() and (widths > float(str(error)) / 10).all()


@pytest.mark.parametrize(
    "ratio",
    [
        "1.0 * COUNT(*) / (COUNT(*) FILTER (WHERE x > 50) + COUNT(*) FILTER (WHERE x > 70))",
        "1.0 * SUM(x) / (2 * COUNT(*))",
        "1.0 * SUM(x) / (COUNT(*) - COUNT(y))",
        "1.0 * SUM(x) / SUM(y)",
        "1.0 * COUNT(*) / COUNT(y)",
        "1.0 * COUNT(*) / COUNT(*) FILTER (WHERE x > 50)",
        "1.0 * SUM(x) / COUNT(y)",
        "COUNT(*) * COUNT(y)",
        "1.0 / COUNT(*)",
    ],
)
def test_a_ratio_of_any_size_has_none(session: dp.Session, ratio: str) -> None:
    with pytest.raises(dp.QueryError, match="r cannot have a target"):
        session.explain(f"SELECT {ratio} AS r FROM t", error={"r": (1, 1000)})


@pytest.mark.parametrize("choice", ["MEDIAN(x)", "MIN(x)", "MAX(x)", "QUANTILE_DISC(x, 0.9)"])
@pytest.mark.parametrize("ranks", [3, 40])
def test_a_choice_has_a_target_in_ranks(session: dp.Session, choice: str, ranks: int) -> None:
    query = f"SELECT {choice} AS m FROM t"
    answer = session.sql(query, error={"m": ranks}, confidence="0.9")
    assert min(0.9 * ranks, ranks - 1) < answer.rank_errors["m"] <= ranks  # the rank of an extreme is a whole one
    plan = session.explain(query, error=ranks, confidence="0.9")
    assert plan.charge == answer.charge
    (found,) = {round(value, 1) for name, value in plan.prices["m"].items() if str(name) == "error=10"}
    assert 9 < found <= 10
    cheaper = session.explain(query, error=4 * ranks, confidence="0.9")
    assert cost(cheaper.charge) < cost(plan.charge) / 2.9


def test_choices_that_are_chosen_together_each_keep_theirs(session: dp.Session) -> None:
    names = {"a": "0.1", "b": "0.25", "c": "0.5", "d": "0.75", "e": "0.9"}
    chosen = ", ".join(f"QUANTILE_CONT(x, {target}) AS {name}" for name, target in names.items())
    query = f"SELECT {chosen}, COUNT(*) AS n FROM t"
    answer = session.sql(query, error={"a": 100, "d": 60, "n": 10})
    assert answer.rank_errors["a"] <= 100 and answer.rank_errors["d"] <= 60
    assert answer.rank_errors["a"] > 90 or answer.rank_errors["d"] > 54


def test_errors_hold_for_all_cells_at_once(session: dp.Session) -> None:
    query = "SELECT sex, COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m FROM t GROUP BY sex"
    asked = {"n": 8, "s": 600, "m": 50}
    single, every = (session.sql(query, error=asked, simultaneous=at_once) for at_once in (False, True))
    assert cost(every.charge) > 1.2 * cost(single.charge)
    parts = {
        name: ((every.accuracy[name, "upper"] - every.accuracy[name, "lower"]) / 2 / asked[name]).max()
        for name in ("n", "s")
    }
    assert max(parts.values()) <= 1 and max(parts.values()) > 0.7
    assert every.rank_errors["m"] <= 50 and "95 % intervals of the noise, all at once" in str(every)
    assert every.simultaneous and every.intervals().equals(every.accuracy)
    assert (every.intervals(simultaneous=False)["n", "upper"] < every.accuracy["n", "upper"]).all()


def test_they_do_hold_at_once_as_often_as_they_say(session: dp.Session) -> None:
    """Two counts at a time: each by itself would hold with 80 % and both with 64 %; together both hold with 80 %."""
    query, exact = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", ROWS // 2
    held = 0
    for _ in range(150):
        frame = session.sql(query, error=20, confidence="0.8", simultaneous=True).to_pandas()
        held += bool((abs(frame["n"] - exact) <= 20).all())
    assert held >= 95  # 150 trials at 0.8: five deviations below are 95


def test_of_selected_groups_none_can_hold_at_once(session: dp.Session) -> None:
    query = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
    if session.catalog.budget.delta:
        with pytest.raises(dp.QueryError, match="how many groups will be shown is not known before"):
            session.explain(query, error=10, simultaneous=True)
    with pytest.raises(dp.QueryError, match="simultaneous must be True or False"):
        session.explain("SELECT COUNT(*) AS n FROM t", error=10, simultaneous="yes")  # type: ignore[arg-type]
