"""Batches and the store: what is known is free, what is missing is charged once, and single queries use it after."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from tests.unit.reuse.shop import Shop, allow_work

QUERIES = [
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
    "SELECT region, SUM(price) FILTER (WHERE kind = 'a') AS s, COUNT(*) AS n FROM sales GROUP BY region",
    "SELECT COUNT(*) AS n FROM sales WHERE score > 3",
]
FREE, ONE = dp.PrivacyLoss(), dp.PrivacyLoss(epsilon=Fraction(1))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_batch_is_paid_once(shop: Shop) -> None:
    with shop.session() as ann, shop.session("bob") as bob:
        first = ann.batch(QUERIES, epsilon=1)
        assert first.charge != FREE and {one.source for one in first} == {"charged as release 1"}
        for session in (ann, bob, bob):
            again = session.batch(QUERIES, epsilon=1)
            assert again.charge == FREE and [one.to_arrow() for one in again] == [one.to_arrow() for one in first]
            assert {one.source for one in again} == {"free, from release 1"}
        for query, answer in zip(QUERIES, first, strict=True):
            alone = bob.sql(query, epsilon="0.1")
            assert alone.charge == FREE and alone.to_arrow() == answer.to_arrow()
        assert ann.batch(QUERIES, epsilon=1, fresh=True).charge != FREE
    assert shop.entries() == 2


def test_only_what_a_batch_lacks_is_charged(shop: Shop) -> None:
    with shop.session() as session:
        known = session.sql(QUERIES[0], epsilon=2)
        batch = session.batch(QUERIES, epsilon=1)
        assert batch[0].to_arrow() == known.to_arrow() and batch[0].releases == (1, 2)
        assert FREE.epsilon < batch.charge.epsilon < 1
        assert {m.stored for m in batch[2].measurements} == {()}
        assert {m.stored for m in batch[0].measurements} == {(1,), ()}  # of the table, which has the sum too
        rest = session.batch([QUERIES[2], "SELECT COUNT(*) AS n FROM sales WHERE score > 4"], epsilon=1)
        assert [one.source for one in rest] == ["charged as release 3"] * 2  # half of the offer is more than a third
        rest = session.batch([QUERIES[2], "SELECT COUNT(*) AS n FROM sales WHERE score > 5"], epsilon=1)
        assert [one.source for one in rest] == ["free, from releases 1, 2, 3", "charged as release 4"]


def test_requests_that_differ_are_not_taken_for_each_other(shop: Shop) -> None:
    """What is remembered of a request: text, values with their types, offer, bounds, confidence, weights, errors."""
    with shop.session() as session:
        query = "SELECT COUNT(*) AS n FROM sales WHERE score > $1"
        asked: list[dict[str, object]] = [
            {"params": [3]},
            {"params": [4]},
            {"params": [3], "max_rows": 2},
            {"params": [3], "confidence": "0.9"},
        ]
        for _ in range(3):
            answers = [session.sql(query, **options) for options in asked]  # type: ignore[arg-type]
        assert answers[0].to_arrow() != answers[1].to_arrow()
        assert answers[0].confidence == 0.95 and answers[3].confidence == 0.9
        both = "SELECT COUNT(*) AS n, SUM(price) AS s FROM sales"
        light, heavy = (session.explain(both, weights={"n": w}) for w in (1, 50))
        assert light.measurements != heavy.measurements
        session.sql(both, error={"n": 5, "s": 500})
        assert session.sql(both, error={"n": 5, "s": 500}).charge == FREE
        assert session.sql(both, error={"n": 1, "s": 500}).charge != FREE


@pytest.mark.parametrize("wrong", [7, {"a"}, [object()], [[1]]])
def test_wrong_requests_are_refused_as_ever(shop: Shop, wrong: object) -> None:
    with shop.session() as session, pytest.raises(dp.QueryError):
        session.sql("SELECT COUNT(*) FROM sales WHERE score > $1", params=wrong)  # type: ignore[arg-type]
    with shop.session() as session, pytest.raises(dp.DPQueryError):
        session.sql(wrong)  # type: ignore[arg-type]


TOGETHER = [
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
    "SELECT COUNT(*) AS n FROM sales",
    "SELECT COUNT(*) AS n FROM sales WHERE region = 'east'",
]


def test_what_follows_from_the_rest_of_a_batch_is_not_measured(shop: Shop) -> None:
    """Groups get the whole loss; the total has three times the variance of one, less than on a third of the loss."""
    with shop.session() as session:
        alone = session.explain(TOGETHER[0], epsilon=1).measurements[0]
        batch = session.batch(TOGETHER, epsilon=1)
        assert batch.charge == ONE and float(batch.guarantee.epsilon) == pytest.approx(1)
        groups, total, east = batch.measurements
        assert groups.scale == pytest.approx(alone.scale) and not groups.follows
        assert total.follows and east.follows and (total.loss, east.loss) == (FREE, FREE)
        assert east.error95 == groups.error95 < total.error95 < 9  # by itself on a third of the loss
        by_region = batch[0].to_arrow().to_pydict()
        assert batch[1].to_arrow()["n"].to_pylist() == [sum(by_region["n"])]
        assert batch[2].to_arrow()["n"].to_pylist() == [by_region["n"][by_region["region"].index("east")]]
        assert session.batch(TOGETHER, epsilon=1).charge == FREE
        assert session.batch(TOGETHER, epsilon=1, fresh=True).charge == ONE
    assert shop.entries() == 2


def test_what_follows_from_stored_numbers_that_are_not_exact_enough_is_measured(shop: Shop) -> None:
    """Rows and columns of nine cells are exact enough; the sum of all cells is not, as it is of both together."""
    queries = [
        "SELECT COUNT(*) AS n FROM sales",
        "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
        "SELECT site, COUNT(*) AS n FROM sales GROUP BY site",
    ]
    with shop.session() as session:
        session.sql("SELECT region, site, COUNT(*) AS n FROM sales GROUP BY region, site", epsilon="0.9")
        batch = session.batch(queries, epsilon=1)
        assert [m.follows for m in batch.measurements] == [False] * 3
        assert batch.charge.epsilon == pytest.approx(Fraction(1, 3))
        assert [one.to_arrow().num_rows for one in batch] == [1, 3, 3]
        assert session.batch(queries, epsilon=1).charge == FREE


def test_a_mean_and_its_count_and_sum_are_measured_once(shop: Shop) -> None:
    queries = [f"SELECT {number} AS x FROM sales" for number in ("AVG(price)", "COUNT(*)", "SUM(price)")]
    with shop.session() as session:
        alone = session.explain(queries[0], epsilon=1).measurements
        batch = session.batch(queries, epsilon=1)
        assert batch.charge == ONE
        assert [m.scale for m in batch.measurements if not m.follows] == pytest.approx([m.scale for m in alone])
        mean, count, total = (answer.to_arrow()["x"][0].as_py() for answer in batch)
        assert mean == pytest.approx(total / count)
        for query, epsilon in zip(queries, ("0.999", "0.6", "0.999"), strict=True):
            assert session.sql(query, epsilon=epsilon).charge == FREE


def test_without_a_store_all_of_a_batch_is_measured(tmp_path: Path) -> None:
    with Shop(tmp_path).session(reuse=False) as session:
        assert not any(m.follows for m in session.batch(TOGETHER, epsilon=1).measurements)


def test_what_follows_still_does_beside_stored_numbers_that_are_too_much_work_with_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY region, kind"
    coarse = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
    with shop.session() as session:
        session.sql("SELECT site, COUNT(*) AS n FROM sales GROUP BY site", epsilon="0.01")
        assert any(m.follows for m in session.batch([fine, coarse], epsilon=1, fresh=True).measurements)
    allow_work(monkeypatch, 10)  # enough for the batch, and not for it beside groups of sites
    with shop.session("bob", reuse="own") as session:
        session.sql("SELECT site, COUNT(*) AS n FROM sales GROUP BY site", epsilon="0.01")
        batch = session.batch([fine, coarse], epsilon=1)
        assert any(m.follows for m in batch.measurements) and batch.charge == ONE
        assert batch[1].to_pandas()["n"].sum() == batch[0].to_pandas()["n"].sum()


def test_what_is_shown_as_it_was_stored_counts_in_what_the_answer_satisfies(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside new numbers it takes too much work to know more of the stored ones, so they are shown as they are."""
    with shop.session() as session:
        stored = session.sql("SELECT region, COUNT(*) AS n FROM sales GROUP BY region", epsilon=1)
        allow_work(monkeypatch, 3)
        query = "SELECT region, site, COUNT(*) AS n FROM sales GROUP BY GROUPING SETS ((region), (site))"
        planned, both = session.explain(query, epsilon="0.5"), session.sql(query, epsilon="0.5")
    assert both.to_arrow()["n"].to_pylist()[:3] == stored.to_arrow()["n"].to_pylist()
    assert both.charge == dp.PrivacyLoss(epsilon=Fraction(1, 4))
    assert both.guarantee == planned.guarantee == dp.PrivacyLoss(epsilon=Fraction(5, 4))


def test_laplace_noise_gets_what_is_left_out_under_a_budget_that_counts_rho(tmp_path: Path) -> None:
    queries = [
        "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY region, kind",
        "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
    ]
    shop = Shop(tmp_path, budget="{epsilon: 1000, delta: 1e-6}")
    with shop.session() as session, shop.session(reuse=False) as plain:
        batch, whole = session.batch(queries, epsilon="0.01"), plain.batch(queries, epsilon="0.01")
        assert [m.follows for m in batch.measurements] == [False, True]
        assert whole.charge.rho * Fraction(999, 1000) < batch.charge.rho <= whole.charge.rho
        assert batch.guarantee.epsilon <= whole.guarantee.epsilon
        assert batch.measurements[0].error95 < 0.8 * whole.measurements[0].error95


def test_a_measure_that_an_equation_names_alone_is_not_known(tmp_path: Path) -> None:
    """Whether a sum of deviations follows is asked while nothing tells of it."""
    queries = [
        "SELECT MEDIAN(price) AS m FROM sales",
        "SELECT score, site, SUM(price) AS s, COUNT(site) AS n FROM sales WHERE kind = 'a' GROUP BY score, site",
    ]
    shop = Shop(tmp_path, unit="customer", budget="{epsilon: 1000, delta: 1e-6}")
    with shop.session() as session, shop.session(reuse=False) as plain:
        assert session.batch(queries, epsilon="0.5").charge == plain.batch(queries, epsilon="0.5").charge
