"""Plans that are kept: used for the same request under the same terms, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpquery as dp
from dpquery.session import pipeline
from dpquery.session import stages as prepared
from tests.unit.reuse.shop import Shop

COUNT = "SELECT COUNT(*) AS n FROM sales WHERE score > $1"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were planned, in order."""
    texts: list[str] = []
    plan = pipeline.plan

    def watched(requests: Any, **options: Any) -> Any:
        texts.extend(request.text for request in requests)
        return plan(requests, **options)

    monkeypatch.setattr(pipeline, "plan", watched)
    return texts


def test_the_same_request_is_planned_once(tmp_path: Path, planned: list[str]) -> None:
    with Shop(tmp_path).session() as session:
        for _ in range(3):
            session.sql(COUNT, params=[3], fresh=True)
        session.explain(COUNT, params=[3])
        assert planned == [COUNT]


def test_what_differs_in_any_option_is_planned_by_itself(tmp_path: Path, planned: list[str]) -> None:
    with Shop(tmp_path).session() as session:
        shown = {
            str(session.explain(COUNT, **options))
            for options in (
                {"params": [3]},
                {"params": [4]},
                {"params": [3], "epsilon": "0.5"},
                {"params": [3], "epsilon": "0.25", "confidence": "0.5"},
            )
        }
        session.explain(COUNT, params=["3"])
        session.explain(COUNT.replace(">", "<"), params=[3])
        assert len(planned) == 6 and len(shown) == 4


def test_a_plan_that_reads_the_clock_is_not_kept(tmp_path: Path, planned: list[str]) -> None:
    with Shop(tmp_path).session() as session:
        for _ in range(2):
            session.explain("SELECT COUNT(*) FROM sales WHERE day < CURRENT_DATE")
        assert len(planned) == 2


def test_a_refusal_is_not_kept(tmp_path: Path, planned: list[str]) -> None:
    with Shop(tmp_path).session() as session:
        for _ in range(2):
            with pytest.raises(dp.QueryError):
                session.explain("SELECT id FROM sales")
        assert len(planned) == 2


def test_other_limits_of_the_ledger_mean_another_plan(tmp_path: Path, planned: list[str]) -> None:
    shop = Shop(tmp_path)
    with shop.session() as session:
        session.sql(COUNT, params=[3], fresh=True)
        dp.Ledger.open(shop.path).set_limit(None, dp.Budget.of(epsilon=200_000), by="Ann", why="a test")
        session.sql(COUNT, params=[3], fresh=True)  # which reads the ledger
        session.sql(COUNT, params=[3], fresh=True)
        assert len(planned) == 2


def test_the_oldest_plans_are_forgotten(tmp_path: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MOST", 2)
    with Shop(tmp_path).session() as session:
        for number in (1, 2, 3, 3, 2, 1):
            session.explain(COUNT, params=[number])
        assert len(planned) == 4
