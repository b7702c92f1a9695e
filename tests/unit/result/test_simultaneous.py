"""Intervals that hold all at once: exact for independent noise, never less than asked for, whatever HAVING shows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.simultaneous import Drawn, failure_of_each

TRIALS = 4000
GROUPS = 40
BY_GROUP = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


@pytest.mark.parametrize("failure", [Fraction(1, 20), Fraction(1, 5), Fraction(1, 1000)])
@pytest.mark.parametrize("count", [1, 2, 7, 1000, 10**6])
def test_sidak_is_exact_and_bonferroni_is_below(failure: Fraction, count: int) -> None:
    exact = failure_of_each(failure, Drawn(count=count, independent=True))
    loose = failure_of_each(failure, Drawn(count=count, independent=False))
    assert loose == failure / count <= exact
    together = 1 - (1 - float(exact)) ** count
    assert together == pytest.approx(float(failure), rel=1e-6)
    assert 1 - (1 - exact) ** count <= failure if count <= 7 else True


@pytest.mark.parametrize("law", [(Mechanism.LAPLACE, Fraction(20)), (Mechanism.GAUSSIAN, Fraction(400))])
def test_as_many_hold_at_once_as_are_said_to(law: tuple[Mechanism, Fraction]) -> None:
    """The true noise, drawn 4000 times for ten numbers: five deviations of the simulation are allowed for."""
    noise = NoiseLaw(mechanism=law[0], parameter=law[1])
    drawn = np.abs(noise.sample(10 * TRIALS)).reshape(TRIALS, 10)
    each = failure_of_each(Fraction(1, 20), Drawn(count=10, independent=True))
    held = float((drawn <= noise.half_width(each)).all(axis=1).mean())
    alone = float((drawn <= noise.half_width(Fraction(1, 20))).all(axis=1).mean())
    assert 0.95 - 5 * 0.0035 < held < 0.975
    assert alone < 0.75


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    columns = {
        "k": {"type": "int64", "keys": list(range(GROUPS))},
        "x": {"type": "float64", "lower": 0, "upper": 10},
    }
    catalog = dp.Catalog(dataset="p", privacy_unit="row", budget={"epsilon": 1000}, tables={"t": {"columns": columns}})
    frame = pd.DataFrame({"k": [i % GROUPS for i in range(4000)], "x": [5.0] * 4000})
    return dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, tmp_path / "p.ledger"))


def test_an_answer_has_them(session: dp.Session) -> None:
    held = 0
    for _ in range(60):
        answer = session.sql(BY_GROUP, epsilon="0.1", fresh=True)
        together = answer.intervals(simultaneous=True)["n"]
        held += bool(((together["lower"] <= 100) & (together["upper"] >= 100)).all())
    width = (answer.accuracy["n", "upper"] - answer.accuracy["n", "lower"]).iloc[0]
    assert held >= 47  # 57 of 60 are expected; fewer than 47 once in 10^7
    assert (together["upper"] - together["lower"]).gt(width).all()
    wider = answer.intervals("0.99")["n"]
    assert (wider["upper"] - wider["lower"]).gt(width).all()
    assert answer.intervals("0.95").equals(answer.accuracy)


def test_what_having_shows_changes_nothing(session: dp.Session) -> None:
    """Rows chosen by their noise are covered: every number of the released table counts."""
    whole = session.sql(BY_GROUP, epsilon="0.1")
    few = session.sql(BY_GROUP + " HAVING COUNT(*) > 0 ORDER BY n DESC LIMIT 2", epsilon="0.1")
    widths = [answer.intervals(simultaneous=True)["n"] for answer in (whole, few)]
    assert {float((one["upper"] - one["lower"]).max()) for one in widths[:1]} == {
        float((one["upper"] - one["lower"]).min()) for one in widths[1:]
    }


def test_numbers_computed_from_several_are_covered(session: dp.Session) -> None:
    answer = session.sql("SELECT k, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY k", epsilon=2)
    together, alone = answer.intervals(simultaneous=True), answer.accuracy
    assert (together["m", "lower"] <= alone["m", "lower"] + 1e-9).all()
    assert ((together["m", "lower"] <= 5) & (together["m", "upper"] >= 5)).all()


@pytest.mark.parametrize("confidence", ["1", "0", "high", "2"])
def test_a_confidence_lies_between_0_and_1(session: dp.Session, confidence: str) -> None:
    with pytest.raises(dp.InvalidLossError):
        session.sql(BY_GROUP, epsilon="0.1").intervals(confidence)
