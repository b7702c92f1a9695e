# mypy: disable-error-code="arg-type, operator, str-unpack"
"""The split inside whole queries: what is promised is what is charged, weights and targets do what they say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.accounting.gaussian_calibration import gaussian_epsilon
from dpquery.kernel.directed_rounding import sqrt_up
from dpquery.planner.budget import allocate
from tests.properties.neighbours import folder
from tests.scripted import zero_noise

COLUMNS = {
    "person": {"type": "int64"},
    "sex": {"type": "text", "keys": ["F", "M"]},
    "town": {"type": "text"},
    "x": {"type": "float64", "lower": 0, "upper": 100},
    "y": {"type": "float64", "lower": -5, "upper": 100, "nullable": True},
    "k": {"type": "int64", "lower": 0, "upper": 9},
}
BUDGETS = {
    "epsilon": {"epsilon": 10**5},
    "rho": {"rho": 10**5, "delta": "1e-5"},
    "both": {"epsilon": 10**5, "delta": "1e-5"},
}
QUERIES = (
    "SELECT COUNT(*) AS n FROM t",
    "SELECT AVG(x) AS m FROM t",
    "SELECT sex, COUNT(*) AS n, AVG(x) AS m, STDDEV(x) AS d FROM t GROUP BY sex",
    "SELECT CORR(x, y) AS c, REGR_SLOPE(y, x) AS b FROM t",
    "SELECT sex, COUNT(*) AS n, SUM(k) AS s FROM t GROUP BY ROLLUP (sex)",
    "SELECT 100.0 * COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) AS share, MEDIAN(x) AS m FROM t",
    "SELECT MAX(n) AS most FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) AS g",
    "SELECT sex, AVG(x) AS m FROM t GROUP BY sex HAVING COUNT(DISTINCT town) > 3 ORDER BY SUM(k)",
    "SELECT ROUND(SUM(x) / NULLIF(COUNT(*), 0), 1) AS mean, COUNT(DISTINCT town) AS towns FROM t",
    "SELECT sex, RANK() OVER (ORDER BY m) AS place FROM (SELECT sex, AVG(x) AS m FROM t GROUP BY sex) AS g",
)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def sessions() -> Iterator[Mapping[str, dp.Session]]:
    frame = pd.DataFrame(
        {
            "person": range(900),
            "sex": ["F", "F", "M"] * 300,
            "town": ["a", "b"] * 450,
            "x": [20.0 + i % 50 for i in range(900)],
            "y": [float(i % 20) for i in range(900)],
            "k": [i % 10 for i in range(900)],
        }
    )
    with folder() as shelf:
        opened = {}
        for name, budget in BUDGETS.items():
            catalog = dp.Catalog(
                dataset=name,
                privacy_unit="person",
                budget=budget,
                defaults={"least_charge": "1e-12"},
                tables={"t": {"unit": "person", "max_rows": 2, "columns": COLUMNS}},
            )
            opened[name] = dp.connect(
                catalog, {"t": frame}, ledger=dp.create_ledger(catalog, f"{shelf}/{name}"), reuse=False
            )
        yield opened
        for session in opened.values():
            session.close()


@pytest.mark.parametrize("query", QUERIES)
def test_shares_sum_to_the_offer_and_the_gate_charges_that(query: str, sessions: Mapping[str, dp.Session]) -> None:
    for name, offer in (("epsilon", "epsilon"), ("rho", "rho"), ("both", "rho")):
        session, amount = sessions[name], Fraction(7, 3)
        plan = session.explain(query, **{offer: amount})
        lost = sum(getattr(m.loss, offer) / max(1, m.parallel) for m in plan.measurements)
        assert lost == amount
        before = session.remaining
        answer = session.sql(query, **{offer: amount})
        assert answer.charge == plan.charge
        spent = getattr(before, offer) - getattr(session.remaining, offer)
        assert amount <= spent <= amount + Fraction(1, 10**12)


@pytest.mark.parametrize("query", QUERIES)
def test_an_epsilon_is_never_exceeded(query: str, sessions: Mapping[str, dp.Session]) -> None:
    plan = sessions["both"].explain(query, epsilon="0.7", delta="1e-6")
    paid = sum((m.loss for m in plan.measurements), start=dp.PrivacyLoss())
    if plan.guarantee.epsilon:
        assert plan.guarantee.epsilon == Fraction(7, 10)
    else:
        rest = paid.epsilon if paid.rho else 0
        rho = paid.rho if rest else plan.guarantee.rho
        assert rest + gaussian_epsilon(sqrt_up(2 * rho), Fraction(1, 10**6)) <= Fraction(7, 10)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
@pytest.mark.parametrize("columns", ["COUNT(*) AS n", "COUNT(*) AS n, MEDIAN(x) AS m", "AVG(x) AS m, SUM(k) AS s"])
def test_laplace_and_gaussian_noise_mixed_are_within_the_offer(
    columns: str, epsilon: str, sessions: Mapping[str, dp.Session]
) -> None:
    """What is paid in epsilon, and what rho and the rest of delta make of the other measurements, add up to it."""
    delta = Fraction(1, 10**6)
    plan = sessions["both"].explain(f"SELECT town, {columns} FROM t GROUP BY town", epsilon=epsilon, delta=delta)
    assert [m.mechanism for m in plan.measurements if m.aggregate == "selection"] == ["gaussian"]
    pure = sum((m.loss.epsilon / max(1, m.parallel) for m in plan.measurements), start=Fraction(0))  # a vector once
    rho = sum((m.loss.rho / max(1, m.parallel) for m in plan.measurements), start=Fraction(0))
    assert pure > 0 and rho > 0
    converted = gaussian_epsilon(sqrt_up(2 * rho), delta - plan.charge.delta)  # of continuous noise: a little less
    assert Fraction(epsilon) * Fraction(99, 100) <= pure + converted <= Fraction(epsilon)


def test_a_selection_takes_the_whole_delta_where_nothing_is_converted(sessions: Mapping[str, dp.Session]) -> None:
    query = "SELECT town, COUNT(DISTINCT person) AS n FROM t GROUP BY town"
    plan = sessions["both"].explain(query, epsilon="1", delta="1e-6", max_groups=1)
    assert {m.mechanism for m in plan.measurements} == {"laplace"}
    assert plan.charge.delta == Fraction(1, 10**6)


def test_an_average_balances_its_parts(sessions: Mapping[str, dp.Session]) -> None:
    """Under Gaussian noise the count's weighs, with the mean anywhere in the range, 1 / sqrt 3 of that of the
    deviations; under Laplace noise count and sum are one vector, whose terms have the whole loss."""
    plan = sessions["rho"].explain("SELECT AVG(x) AS m FROM t", rho=1)
    count, deviations = (float(m.loss.rho) for m in plan.measurements)
    assert math.isclose(count / deviations, 3 ** (-1 / 2), rel_tol=1e-3)
    plan = sessions["epsilon"].explain("SELECT AVG(x) AS m FROM t", epsilon=1)
    assert [m.label for m in plan.measurements] == ["SUM(100 - x)", "SUM(x)"]
    assert [m.loss.epsilon for m in plan.measurements] == [1, 1]


def test_weights_are_shares(sessions: Mapping[str, dp.Session]) -> None:
    query = "SELECT COUNT(*) AS n, SUM(x) FILTER (WHERE k > 3) AS s FROM t"
    plan = sessions["epsilon"].explain(query, epsilon=1, weights={"n": 3})
    assert [m.loss.epsilon for m in plan.measurements] == [Fraction(3, 4), Fraction(1, 4)]
    answer = sessions["epsilon"].sql(query, epsilon=1, weights={"s": "1/3"})
    assert [m.loss.epsilon for m in answer.measurements] == [Fraction(3, 4), Fraction(1, 4)]


@pytest.mark.parametrize("weights", [{"z": 1}, {"sex": 1}, {"n": 0}, {"n": -1}, {"n": True}, 2, {1: 2}, {"n": "nan"}])
def test_weights_that_are_none_are_refused(weights: object, sessions: Mapping[str, dp.Session]) -> None:
    with pytest.raises(dp.QueryError):
        sessions["epsilon"].sql("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", epsilon=1, weights=weights)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT COUNT(*) AS n FROM t", 10),
        ("SELECT COUNT(*) AS n, SUM(x) AS s FROM t", {"n": 5, "s": 900}),
        ("SELECT sex, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex)", 40),
        ("SELECT COUNT(*) - COUNT(y) AS missing, 2 * SUM(k) + 5 AS s, AVG(x) AS m FROM t", {"missing": 7, "s": 99}),
        ("SELECT town, SUM(x) AS s FROM t GROUP BY town", 500),
    ],
)
def test_targets_are_kept_and_no_cheaper_loss_keeps_them(
    query: str, error: object, name: str, sessions: Mapping[str, dp.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "town" in query and name == "epsilon":
        return
    zero_noise(monkeypatch)
    session = sessions[name]
    plan = session.explain(query, error=error)
    answer = session.sql(query, error=error)
    assert answer.charge == plan.charge
    widths = {}
    for column in {column for column, _ in answer.accuracy.columns}:
        widths[column] = (answer.accuracy[column, "upper"] - answer.accuracy[column, "lower"]).max() / 2
    targets = error if isinstance(error, dict) else dict.fromkeys(widths, error)
    assert all(widths[column] <= target * (1 + 1e-9) for column, target in targets.items())
    half = session.explain(query, error={column: target / 2 for column, target in targets.items()})
    assert max(half.charge.epsilon, half.charge.rho) > max(plan.charge.epsilon, plan.charge.rho)
    if len(plan.measurements) == 1:  # a loss that is smaller by one in a thousand does not suffice
        kind = "epsilon" if plan.measurements[0].loss.epsilon else "rho"
        if name in (kind, "both"):
            lost = getattr(plan.measurements[0].loss, kind)
            less = session.explain(query, **{kind: lost * Fraction(9, 10)}).measurements[0]
            assert less.error95 > min(targets.values()) * 0.99


@pytest.mark.parametrize(
    "options",
    [
        {"error": 10, "epsilon": 1},
        {"error": 10, "weights": {"n": 1}},
        {"error": {"m": 10}},
        {"error": 10},
        {"error": {"z": 10}},
        {"error": {}},
        {"error": -1},
        {"error": {"n": True}},
        {"error": "1e-20"},
    ],
)
def test_errors_that_cannot_be_asked_for_are_refused(
    options: dict[str, object], sessions: Mapping[str, dp.Session]
) -> None:
    session = sessions["epsilon"]
    before = session.remaining
    with pytest.raises(dp.QueryError) as refused:
        session.sql("SELECT COUNT(*) AS n, AVG(x) AS m FROM t", **options)
    assert session.remaining == before
    assert str(refused.value)


def test_prices_are_those_of_the_plans(sessions: Mapping[str, dp.Session]) -> None:
    for name in BUDGETS:
        session = sessions[name]
        before = session.remaining
        plan = session.explain(
            "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(y) AS m FROM t", **{"rho" if name == "rho" else "epsilon": 1}
        )
        table = plan.prices
        assert session.remaining == before
        assert np.isnan(table["m"]).all()
        assert (table.loc[["error=10", "error=100", "error=1000"], "n"] <= [10, 100, 1000]).all()
        assert list(table["charge"][:3]) == sorted(table["charge"][:3])
        last = table.index[2]
        assert math.isclose(table.loc[last, "charge"], float(plan.charge.epsilon or plan.charge.rho), rel_tol=1e-9)
        noise = plan.measurements[0].error95
        assert table.loc[last, "n"] == noise if len(plan.measurements) == 3 else table.loc[last, "n"] > 0


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "2", "40"])
def test_gaussian_noise_is_left_out_only_where_it_would_not_be_chosen(
    epsilon: str, sessions: Mapping[str, dp.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All candidates compared, as with the short cut: the same noise for each number."""
    session = sessions["both"]
    wide = "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE k >= {i}) AS n{i}" for i in range(9)) + " FROM t"
    for query in (*QUERIES, wide):
        short = session.explain(query, epsilon=epsilon, fresh=True).measurements
        with monkeypatch.context() as patched:
            patched.setattr(allocate._Split, "gaussian_errs_more", lambda *_: False)
            compared = session.explain(f"{query} -- compared", epsilon=epsilon, fresh=True).measurements
        assert [(m.mechanism, m.scale) for m in short] == [(m.mechanism, m.scale) for m in compared], query
