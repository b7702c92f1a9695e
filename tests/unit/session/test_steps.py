"""Queries in steps: what is released first is a constant of the second query, and both are charged."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.kernel.plan import BudgetedPlan
from dpquery.kernel.release import NoisyAggregates, release
from dpquery.plan.logical import Relation, Values, sources
from dpquery.session import answering

CATALOG = """
version: 2
dataset: clinic
privacy_unit: patient
budget: {epsilon: 4}
defaults: {epsilon: 1}
tables:
  visits:
    unit: id
    max_rows: 2
    columns: {id: {type: int64}, ward: {type: text, keys: [a, b, c]}, cost: {type: int64, lower: 0, upper: 100}}
"""
ABOVE = "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)"
TOP = (
    "SELECT SUM(cost) AS s FROM visits"
    " WHERE ward IN (SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2)"
)


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    rows = {"id": [1, 1, 2, 3], "ward": ["a", "b", "a", "c"], "cost": [10, 20, 30, 90]}
    return dp.connect(
        dp.Catalog.from_yaml(CATALOG), {"visits": pd.DataFrame(rows)}, ledger=tmp_path / "ledger", create=True
    )


def test_the_loss_is_divided_and_all_steps_are_charged(session: dp.Session) -> None:
    plan = session.explain(ABOVE)
    answer = session.sql(ABOVE)
    assert answer.charge.epsilon == plan.charge.epsilon == answer.guarantee.epsilon == 1
    assert session.remaining.epsilon == 3
    assert [measured.loss.epsilon for measured in plan.measurements] == [Fraction(1, 2)] * 3
    assert answer.measurements == plan.measurements
    assert answer.releases == (1, 2)
    assert "released first, and used as a constant" in answer.notes[0]
    assert "Step 1 of 2" in str(plan) and str(plan).endswith("Charge of all steps: epsilon 1")


def test_the_same_again_is_free_and_the_same(session: dp.Session) -> None:
    first, again = session.sql(TOP), session.sql(TOP)
    assert again.charge == dp.PrivacyLoss()
    assert again.to_pandas().equals(first.to_pandas())
    assert again.source.startswith("free, from releases")


def test_what_does_not_fit_whole_is_refused_before_the_first_step(session: dp.Session) -> None:
    with pytest.raises(dp.InsufficientBudgetError, match="2 steps"):
        session.sql(ABOVE, epsilon=5)
    assert session.remaining.epsilon == 4


def test_what_is_refused_of_a_later_step_costs_nothing(session: dp.Session) -> None:
    text = "SELECT SUM(cost * (SELECT AVG(cost) FROM visits)) FROM visits"
    with pytest.raises(dp.QueryError, match="no finite sensitivity"):
        session.sql(text)
    assert session.remaining.epsilon == 4


def test_steps_have_no_errors_to_ask_for_and_are_in_no_batch(session: dp.Session) -> None:
    with pytest.raises(dp.QueryError, match="error= cannot be asked"):
        session.sql(ABOVE, error=10)
    with pytest.raises(dp.QueryError, match="not in a batch"):
        session.batch([ABOVE, "SELECT COUNT(*) FROM visits"])
    assert session.remaining.epsilon == 4


def test_more_steps_than_a_few_are_refused(session: dp.Session) -> None:
    text = "SELECT COUNT(*) FROM visits WHERE " + " AND ".join(
        f"cost > (SELECT AVG(cost) FROM visits WHERE cost > {number})" for number in range(5)
    )
    with pytest.raises(dp.QueryError, match="at most 4 released results"):
        session.sql(text)


def test_a_plan_over_a_sample_is_never_measured(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is handed literal tables of what was released, and no rows that stand for others."""
    released: list[bool] = []

    def watched(plan: BudgetedPlan, **rest: Any) -> NoisyAggregates:
        released.append(any(_samples(one.aggregate.source) for one in plan.aggregates))
        return release(plan, **rest)

    monkeypatch.setattr(answering, "release", watched)
    session.sql(ABOVE)
    session.sql(TOP)
    assert released == [False] * 4


def _samples(relation: Relation) -> bool:
    if isinstance(relation, Values):
        return relation.is_sample
    return any(_samples(source) for source in sources(relation))
