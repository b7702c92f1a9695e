"""Errors that are asked of several queries: the charge follows from all of them, and finer ones cost the difference."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.result.table import Result
from tests.unit.reuse.shop import Shop

FREE = dp.PrivacyLoss()
BUDGETS = {
    "rho": "{rho: 1000, delta: 1e-6}",
    "epsilon": "{epsilon: 1000}",
    "approximate": "{epsilon: 1000, delta: 1e-6}",
}
SINGLE = ["SELECT COUNT(*) AS n FROM sales"]
GROUPINGS = [
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
    "SELECT kind, COUNT(*) AS n FROM sales GROUP BY kind",
    "SELECT COUNT(*) AS n FROM sales",
]
PREFIXES = [f"SELECT COUNT(*) AS n FROM sales WHERE score <= {k}" for k in range(-4, 20, 3)]
MIXED = [
    "SELECT region, COUNT(*) AS n, SUM(score) AS s FROM sales GROUP BY region",
    "SELECT COUNT(*) AS n, AVG(score) AS mean FROM sales",
    "SELECT COUNT(DISTINCT id) AS units FROM sales",
]
WORKLOADS = {"single": SINGLE, "groupings": GROUPINGS, "prefixes": PREFIXES}


def amount(charge: dp.PrivacyLoss) -> float:
    return float(charge.epsilon + charge.rho)


def widest(answers: Sequence[Result], column: str) -> float:
    """Returns the largest half-width of a column's intervals."""
    read = [one.accuracy for one in answers if (column, "upper") in one.accuracy.columns]
    return max(float(((one[column, "upper"] - one[column, "lower"]) / 2).max()) for one in read)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("queries", WORKLOADS.values(), ids=list(WORKLOADS))
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_finer_error_costs_the_difference(budget: str, queries: list[str], tmp_path: Path) -> None:
    """Under rho precisions add up as charges do; under epsilon they are squares of it, so both charges together are
    more than one. Either way nothing that was paid is lost."""
    with Shop(tmp_path, budget=BUDGETS[budget]).session() as session:
        at_once = amount(session.plan_dashboard(queries, error=200).charge)
        coarse = session.batch(queries, error=400)
        assert widest(coarse, "n") <= 400 and session.batch(queries, error=400).charge == FREE
        fine = session.batch(queries, error=200)
        assert widest(fine, "n") <= 200 and session.batch(queries, error=200).charge == FREE
        first, second = amount(coarse.charge), amount(fine.charge)
        if budget == "epsilon":
            assert at_once < first + second and first**2 + second**2 <= 1.05 * at_once**2
        else:
            assert first + second <= 1.02 * at_once
        assert all(session.sql(query, error=200).charge == FREE for query in queries)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("queries", [GROUPINGS, PREFIXES], ids=["groupings", "prefixes"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_errors_of_a_batch_cost_less_than_each_by_itself(budget: str, queries: list[str], tmp_path: Path) -> None:
    with Shop(tmp_path, budget=BUDGETS[budget]).session() as session:
        alone = sum(amount(session.explain(query, error=100).charge) for query in queries)
        planned = session.plan_dashboard(queries, error=100)
        assert amount(planned.alone) == pytest.approx(alone) and "one by one" in str(planned)
        assert amount(planned.charge) < 0.9 * alone
        bought = planned.buy()
        assert bought.charge == planned.charge and widest(bought, "n") <= 100


@pytest.mark.thinned(2)
@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
def test_numbers_that_are_computed_from_several_keep_their_errors(
    budget: str, simultaneous: bool, tmp_path: Path
) -> None:
    errors = {"n": 100, "s": 2000, "mean": (3, 500), "units": 80}
    with Shop(tmp_path, budget=BUDGETS[budget], unit="customer").session() as session:
        answers = session.batch(MIXED, error=errors, simultaneous=simultaneous)
        assert [widest(answers, name) <= errors[name] for name in ("n", "s", "units")] == [True] * 3  # type: ignore[operator]
        assert session.batch(MIXED, error=errors, simultaneous=simultaneous).charge == FREE


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_is_stored_of_some_numbers_is_taken_off(budget: str, tmp_path: Path) -> None:
    """A grouping that was bought coarsely tells a part of its total; the rest is measured, and no more."""
    with Shop(tmp_path, budget=BUDGETS[budget]).session() as session:
        whole = amount(session.explain(GROUPINGS[0], error=100).charge)
        session.batch([GROUPINGS[0], "SELECT COUNT(DISTINCT id) AS units FROM sales"], error={"n": 150, "units": 90})
        finer = session.sql(GROUPINGS[0], error=100)
        assert 0 < amount(finer.charge) < 0.9 * whole and widest([finer], "n") <= 100
        (measured,) = finer.measurements
        assert not measured.stored and measured.error95 <= 100
        assert session.explain(GROUPINGS[0], error=100).charge == FREE
        assert amount(session.sql(GROUPINGS[0], error=100, fresh=True).charge) == pytest.approx(whole)


def test_a_loss_that_is_named_is_paid_whole(tmp_path: Path) -> None:
    with Shop(tmp_path, budget=BUDGETS["rho"]).session() as session:
        for part in ("0.01", "0.02"):
            assert session.sql(SINGLE[0], rho=part).charge == dp.PrivacyLoss(rho=Fraction(part))
