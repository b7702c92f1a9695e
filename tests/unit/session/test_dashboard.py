"""A dashboard of 20 tiles: bought once for a stated price; refreshes, filters and drills are free."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.session.dashboard import charged_queries
from tests.unit.reuse.shop import Shop

FREE = dp.PrivacyLoss()
MONTH = "date_trunc('month', day)"
TILES = [
    "SELECT COUNT(*) AS n FROM sales",
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
    "SELECT kind, COUNT(*) AS n FROM sales GROUP BY kind",
    "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY region, kind",
    "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY ROLLUP (region, kind)",
    f"SELECT {MONTH} AS m, COUNT(*) AS n FROM sales GROUP BY {MONTH}",
    "SELECT EXTRACT(YEAR FROM day) AS y, COUNT(*) AS n FROM sales GROUP BY EXTRACT(YEAR FROM day)",
    f"SELECT region, {MONTH} AS m, COUNT(*) AS n FROM sales GROUP BY region, {MONTH}",
    "SELECT region, SUM(score) AS s FROM sales GROUP BY region",
    "SELECT kind, SUM(score) AS s FROM sales GROUP BY kind",
    "SELECT SUM(score) AS s, COUNT(*) AS n FROM sales",
    *(f"SELECT COUNT(*) AS n FROM sales WHERE day < '2024-{month:02}-01'" for month in (4, 7, 10)),
    *(f"SELECT region, COUNT(*) AS n FROM sales WHERE region = '{name}' GROUP BY region" for name in ("east", "west")),
    "SELECT COUNT(*) AS n FROM sales WHERE kind = 'a' AND region <> 'north'",
    f"SELECT {MONTH} AS m, COUNT(*) AS n FROM sales WHERE region = 'east' GROUP BY {MONTH}",
    "SELECT COUNT(*) FILTER (WHERE kind = 'a') AS a, COUNT(*) FILTER (WHERE kind = 'b') AS b FROM sales",
    "SELECT region, COUNT(*) AS n FROM sales GROUP BY region ORDER BY n DESC LIMIT 2",
]
DRILLS = [
    "SELECT COUNT(*) AS n FROM sales WHERE region IN ('east', 'north')",
    "SELECT kind, COUNT(*) AS n FROM sales WHERE region = 'west' GROUP BY kind",
    "SELECT COUNT(*) AS n FROM sales WHERE day >= '2024-04-01' AND day < '2024-07-01'",
    "SELECT date_trunc('quarter', day) AS q, COUNT(*) AS n FROM sales GROUP BY date_trunc('quarter', day)",
    "SELECT SUM(score) AS s FROM sales WHERE kind = 'b'",
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("budget", "asked", "little"),
    [
        ("{rho: 10, delta: 1e-6}", dp.Options(rho="0.5"), dp.Options(rho="0.0005")),
        ("{epsilon: 10}", dp.Options(epsilon="4"), dp.Options(epsilon="0.01")),
    ],
    ids=["rho", "epsilon"],
)
def test_after_it_is_bought_refreshes_filters_and_drills_are_free(
    budget: str, asked: dp.Options, little: dp.Options, tmp_path: Path
) -> None:
    assert len(TILES) == 20
    with Shop(tmp_path, budget=budget).session() as session:
        planned = session.plan_dashboard(TILES, options=asked)
        assert session.releases.empty and planned.charge.epsilon <= 4 and planned.charge.rho <= 0.5
        numbers = [n for n in planned.numbers if not math.isnan(n.alone)]
        better = sum(n.together < n.alone for n in numbers)
        assert {n.tile for n in planned.numbers} == {*range(1, 21)} and better > 0.8 * len(numbers)
        assert {"tile", "alone", "together"} <= {*planned.table.columns} and "Measured" in str(planned)
        bought = planned.buy()
        assert bought.charge == planned.charge
        again = session.batch(TILES, options=asked)
        assert again.charge == FREE
        assert [one.to_arrow() for one in again] == [one.to_arrow() for one in bought]
        after = session.plan_dashboard(TILES, options=asked)
        assert after.charge == FREE and after.measured == () and {n.source for n in after.numbers} == {"stored"}
        for query in (*TILES, *DRILLS):
            assert session.sql(query, options=little).charge == FREE, query
        east = "SELECT COUNT(*) AS n FROM sales WHERE region = 'east'"
        assert (
            session.sql(east, options=little).to_pandas()["n"][0]
            == bought[1].to_pandas().set_index("region")["n"]["east"]
        )
    assert charged_queries(dp.Ledger.open(tmp_path / "shop.ledger"), "ann") == tuple(TILES)


def test_an_analyst_cannot_spend_what_another_has_left(tmp_path: Path) -> None:
    """Bob's part stays Bob's; what Ann bought is free for him, and the ledger says who paid."""
    shop = Shop(tmp_path, budget="{epsilon: 2}\nanalysts: {ann: {epsilon: 1}, bob: {epsilon: 1}}")
    query = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
    with shop.session() as ann, shop.session("bob") as bob:
        assert ann.sql(query, epsilon="0.75").charge != FREE
        with pytest.raises(dp.InsufficientBudgetError):
            ann.plan_dashboard(["SELECT COUNT(*) AS n FROM sales WHERE score > 3"], epsilon="0.5").buy()
        assert bob.remaining == dp.PrivacyLoss(epsilon=1 + FREE.epsilon)
        assert bob.sql(query, epsilon="0.75").charge == FREE
        assert bob.remaining == dp.PrivacyLoss(epsilon=1 + FREE.epsilon)
        assert bob.sql("SELECT COUNT(*) AS n FROM sales WHERE score > 3", epsilon=1).charge != FREE
        assert bob.remaining == FREE and ann.remaining != FREE
        paid = [*ann.releases["analyst"]]
        assert paid == ["ann", "bob"]
