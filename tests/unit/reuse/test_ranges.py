"""Prefixes, ranges and periods that are asked together: the charge of the offer, less error, and sums that agree."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

import dpquery as dp
from dpquery.reuse.block_sums import Floats
from dpquery.reuse.partitions import best_ways, merged, total
from tests.unit.reuse.shop import Shop, sales

BUDGETS = {"rho": "{rho: 1000, delta: 1e-6}", "epsilon": "{epsilon: 1000}"}


def prefixes(places: int) -> Floats:
    return np.tril(np.ones((places, places)))


@pytest.mark.parametrize(("power", "most"), [(1, 0.35), (2, 0.72)])
def test_intervals_are_worth_much_more_than_every_place_by_itself(power: int, most: float) -> None:
    asked = prefixes(40)
    ways = best_ways(asked, power)
    labels, parts = [way for way, _ in ways], np.array([part for _, part in ways])
    assert parts.sum() == pytest.approx(1) and (labels[0] == np.arange(40)).all()
    unread = best_ways(np.hstack([np.zeros((40, 1)), asked]), power)
    assert all((way[1:] != way[0]).all() for way, _ in unread)
    gram = asked.T @ asked
    alone = total(gram, [np.arange(40)], np.ones(1), power)
    assert alone == pytest.approx(np.trace(gram))
    assert total(gram, labels, parts, power) < most * alone


def test_places_that_no_sum_tells_apart_are_one() -> None:
    asked = np.array([[1.0, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]])
    distinct, numbers = merged(asked)
    assert distinct.tolist() == [[1, 0, 0], [0, 1, 0]] and numbers.tolist() == [0, 0, 1, 1, 0, 2]


def offered(offer: str, amount: str) -> dp.Options:
    return dp.Options(rho=amount) if offer == "rho" else dp.Options(epsilon=amount)


def scores(low: int, high: int) -> str:
    return f"SELECT COUNT(*) AS n FROM sales WHERE score BETWEEN {low} AND {high}"


@pytest.mark.parametrize("unit", ["row", "customer"])
@pytest.mark.parametrize("offer", ["rho", "epsilon"])
def test_ranges_are_bought_for_the_offer_and_agree(offer: str, unit: str, tmp_path: Path) -> None:
    chance = random.Random(f"{offer} {unit}")
    ranges = [sorted(chance.sample(range(-5, 21), 2)) for _ in range(12)] + [[-5, high] for high in range(-5, 21, 3)]
    queries = [scores(low, high) for low, high in ranges]
    with Shop(tmp_path, budget=BUDGETS[offer], unit=unit).session() as session:
        answers = session.batch(queries, options=offered(offer, "0.5"))
        assert (
            answers.charge
            == session.explain("SELECT COUNT(*) AS n FROM sales", options=offered(offer, "0.5").but(fresh=True)).charge
        )
        found = [answer.to_pandas()["n"][0] for answer in answers]
        again = session.batch(queries, options=offered(offer, "0.5"))
        assert again.charge == dp.PrivacyLoss()
        assert [answer.to_pandas()["n"][0] for answer in again] == found
        below = [
            int(session.sql(scores(-5, high), options=offered(offer, "0.0001")).to_pandas()["n"][0])
            for high in (1, 7, 13)
        ]
        for (low, high), first, second in zip([(2, 7), (8, 13)], below, below[1:], strict=False):
            between = session.sql(scores(low, high), options=offered(offer, "0.0001"))
            if between.charge == dp.PrivacyLoss():  # it may divide what was told apart
                assert between.to_pandas()["n"][0] == second - first
        told = [m for answer in answers for m in answer.measurements]
        assert all(m.follows for m in told) and not all(m.follows for m in answers.measurements)


@pytest.mark.parametrize("offer", ["rho", "epsilon"])
def test_errors_are_those_that_are_told_and_less_than_of_equal_parts(offer: str, tmp_path: Path) -> None:
    counts = [f"COUNT(*) FILTER (WHERE score <= {high}) AS n{high + 5}" for high in range(-5, 20)]
    query = f"SELECT {', '.join(counts)} FROM sales"
    rows = sales().to_pandas()["score"]
    exact = np.array([(rows <= high).sum() for high in range(-5, 20)])
    squares = []
    for run in range(5):
        with Shop(tmp_path, f"{run}.ledger", budget=BUDGETS[offer]).session() as session:
            text = str(session.explain(query, options=offered(offer, "0.5")))
            off = session.sql(query, options=offered(offer, "0.5")).to_pandas().iloc[0].to_numpy() - exact
            squares.append(float((off**2).mean()))
    told = re.findall(r"score <= -?\d+: ([\d.]+) \(([\d.]+)\)", text)
    assert len(told) == 25
    planned, alone = (float(np.mean([float(pair[i]) ** 2 for pair in told])) for i in (0, 1))
    assert planned < alone / 4
    assert planned / 4 < np.mean(squares) < planned * 4


def test_sums_with_further_keys_and_conditions_follow_too(tmp_path: Path) -> None:
    queries = [
        *(
            f"SELECT region, SUM(price) AS n FROM sales WHERE day < '2024-{m:02}-01' AND kind = 'a' GROUP BY region"
            for m in range(2, 13)
        ),
        "SELECT region, date_trunc('quarter', day) AS q, SUM(price) AS n FROM sales WHERE kind = 'a' "
        "GROUP BY region, date_trunc('quarter', day)",
        "SELECT region, SUM(price) AS n FROM sales WHERE kind = 'a' GROUP BY region",
    ]
    with Shop(tmp_path, budget=BUDGETS["rho"]).session() as session:
        answers = session.batch(queries, rho="1")
        assert len({m.label for m in answers.measurements if not m.follows}) == 1
        months = [answer.to_pandas().set_index("region")["n"] for answer in answers[:11]]
        quarters = answers[11].to_pandas().set_index(["region", "q"])["n"].unstack()
        wholes = answers[12].to_pandas().set_index("region")["n"]
        for region in ("east", "north", "west"):
            row = quarters.loc[region].to_numpy()
            assert row[0] == pytest.approx(months[2][region])
            assert row.cumsum()[1:3] == pytest.approx([months[5][region], months[8][region]])
            assert row.sum() == pytest.approx(wholes[region])


def test_periods_of_several_lengths_are_one_family(tmp_path: Path) -> None:
    keys = ["date_trunc('year', day)", "date_trunc('month', day)", "date_trunc('week', day)"]
    queries = [f"SELECT {key} AS k, COUNT(*) AS n FROM sales GROUP BY {key}" for key in keys]
    with Shop(tmp_path, budget=BUDGETS["rho"]).session() as session:
        answers = session.batch(queries, rho="0.1")
        year, months, weeks = (answer.to_pandas()["n"] for answer in answers)
        assert months.sum() == year.sum() == weeks.sum()
        drill = "SELECT COUNT(*) AS n FROM sales WHERE day >= '2024-04-01' AND day < '2024-07-01'"
        answer = session.sql(drill, rho="0.0001")
        assert answer.charge == dp.PrivacyLoss() and answer.to_pandas()["n"][0] == months[3:6].sum()


def test_a_query_that_is_no_workload_is_planned_as_before(tmp_path: Path) -> None:
    with Shop(tmp_path, budget=BUDGETS["rho"]).session() as session:
        plan = session.explain("SELECT COUNT(*) FILTER (WHERE score <= 3) AS n, SUM(score) AS s FROM sales", rho="0.1")
        assert len(plan.measurements) == 2 and "sums over one value" not in str(plan)
