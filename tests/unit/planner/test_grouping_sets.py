"""Grouping sets: what is added up, that it is consistent, what it costs, and that the choice is the better one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {BUDGET}
defaults: {epsilon: 1, least_charge: 1e-12}
tables:
  sales:
    unit: id
    max_rows: 3
    max_groups: 2
    columns:
      id: {type: int64}
      region: {type: text, keys: [east, north, west]}
      kind: {type: text, keys: [a, b]}
      shop: {type: int64, lower: 1, upper: 40}
      site: {type: text, keys: [x, y], nullable: true}
      price: {type: "decimal(10,2)", lower: 0, upper: 100}
      score: {type: int64, lower: -5, upper: 20}
      free: {type: text}
"""
ROWS = 400


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    with _session(tmp_path_factory.mktemp("shop"), "epsilon: 100000") as session:
        yield session


def _session(folder: Path, budget: str) -> dp.Session:
    draw = np.random.default_rng(7)
    sales = pa.table(
        {
            "id": draw.integers(0, 300, ROWS),
            "region": draw.choice(["east", "north", "west"], ROWS),
            "kind": draw.choice(["a", "b"], ROWS),
            "shop": draw.integers(1, 41, ROWS),
            "site": pa.array([None if x == "z" else str(x) for x in draw.choice(["x", "y", "z"], ROWS)]),
            "price": pa.array([Decimal(int(x)) / 100 for x in draw.integers(0, 10000, ROWS)], pa.decimal128(10, 2)),
            "score": draw.integers(-5, 21, ROWS),
            "free": draw.choice(["p", "q"], ROWS),
        }
    )
    catalog = dp.Catalog.from_yaml(CATALOG.replace("BUDGET", budget))
    return dp.connect(catalog, {"sales": sales}, ledger=dp.create_ledger(catalog, folder / "shop.ledger"), reuse=False)


def _totals(rows: list[dict[str, Any]], keys: tuple[str, ...], number: str) -> dict[tuple[Any, ...], Any]:
    """Returns the sums of the finest groups shown, for every way to roll keys up."""
    found: dict[tuple[Any, ...], Any] = defaultdict(int)
    for row in rows:
        if row["level"] == 0:
            for kept in range(2 ** len(keys)):
                found[tuple(row[key] if kept >> i & 1 else None for i, key in enumerate(keys))] += row[number]
    return found


@pytest.mark.parametrize("epsilon", ["0.05", "1", "40"])
def test_added_totals_are_the_sums_of_the_groups_shown(shop: dp.Session, epsilon: str) -> None:
    """With real noise, drawn anew each time; whole numbers and decimals agree exactly."""
    sql = (
        "SELECT region, kind, COUNT(*) AS n, SUM(score) AS s, SUM(price) AS p, GROUPING(region, kind) AS level "
        "FROM sales GROUP BY CUBE (region, kind)"
    )
    seen = set()
    for _ in range(10):
        answer = shop.sql(sql, epsilon=epsilon)
        assert len(answer.measurements) == 3
        rows = answer.to_arrow().to_pylist()
        assert len(rows) == 12
        for number in ("n", "s", "p"):
            totals = _totals(rows, ("region", "kind"), number)
            assert {(row["region"], row["kind"]): row[number] for row in rows} == totals
        seen.add(str(rows))
    assert len(seen) == 10


def test_averages_of_added_totals_follow_from_their_own_sums(shop: dp.Session) -> None:
    """Sums of sums over sums of counts, not averages of averages."""
    sql = (
        "SELECT region, COUNT(*) AS n, SUM(score) AS s, AVG(score) AS m, GROUPING(region) AS level FROM sales "
        "GROUP BY ROLLUP (region)"
    )
    rows = shop.sql(sql, epsilon="10").to_arrow().to_pylist()
    assert all(math.isclose(row["m"], row["s"] / row["n"], abs_tol=0.51 / row["n"]) for row in rows)
    assert rows[-1]["n"] == sum(row["n"] for row in rows[:-1])


def test_only_the_leaves_are_paid_for(shop: dp.Session) -> None:
    sql = "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY {}"
    added, plain = (shop.explain(sql.format(keys)) for keys in ("CUBE (region, kind)", "region, kind"))
    assert added.measurements == plain.measurements
    assert added.charge == plain.charge
    before = shop.remaining
    shop.sql(sql.format("CUBE (region, kind)"))
    assert before.epsilon - shop.remaining.epsilon == plain.charge.epsilon == 1


def test_levels_that_are_released_are_each_paid_for(shop: dp.Session) -> None:
    plan = shop.explain("SELECT region, shop, COUNT(DISTINCT score) AS n FROM sales GROUP BY CUBE (region, shop)")
    assert len(plan.measurements) == 4
    assert sum(made.loss.epsilon for made in plan.measurements) == plan.charge.epsilon == 1


RELEASED = {
    "a selected key": "SELECT free, COUNT(*) FROM sales GROUP BY ROLLUP (free)",
    "different values": "SELECT region, COUNT(DISTINCT score) FROM sales GROUP BY ROLLUP (region)",
    "units in several groups": "SELECT region, COUNT(DISTINCT id) FROM sales GROUP BY ROLLUP (region)",
    "one of them does not add up": "SELECT region, COUNT(*), COUNT(DISTINCT score) FROM sales GROUP BY ROLLUP (region)",
    "no set in another": "SELECT region, kind, COUNT(*) FROM sales GROUP BY GROUPING SETS ((region), (kind))",
}


@pytest.mark.parametrize("sql", RELEASED.values(), ids=RELEASED)
def test_what_does_not_add_up_is_released_by_level(tmp_path: Path, sql: str) -> None:
    with _session(tmp_path, "epsilon: 100, delta: 1e-3") as session:
        text = str(session.explain(sql, epsilon="1"))
    assert "Release 2" in text
    assert "sums of release" not in text
    assert "Grouping sets: each of 2 is released: " in text


def test_a_total_of_rows_with_a_missing_key_has_them(shop: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    totals = [
        shop.sql(f"SELECT site, COUNT(*) AS n FROM sales {where} GROUP BY ROLLUP (site)").to_pandas()
        for where in ("", "WHERE site IN ('x', 'y')")
    ]
    for frame, complete in zip(totals, (False, True), strict=True):
        named = frame["n"][frame["site"].notna()].sum()
        assert bool(named == frame["n"].max()) is complete


@pytest.mark.parametrize("groups", [2, 3, 6, 12, 40])
@pytest.mark.parametrize("budget", ["epsilon: 100", "rho: 100, delta: 1e-6"])
def test_the_choice_is_that_of_the_smaller_geometric_mean(tmp_path: Path, groups: int, budget: str) -> None:
    """By hand: one group of each unit, two sets. Released: each has half the loss. Added: all of it, sqrt(groups)."""
    sql = f"SELECT LEAST(shop, {groups}) AS k, COUNT(*) AS n FROM sales GROUP BY ROLLUP (k)"
    with _session(tmp_path, budget) as session:
        text = str(session.explain(sql, **{budget[: budget.index(":")]: "1"}, max_groups=1))  # type: ignore[arg-type]
    laplace = budget.startswith("epsilon")
    released = 2 * math.log(2 if laplace else math.sqrt(2))
    added = math.log(groups) / 2
    assert ("sums of release 1" in text) is (added < released)
    ratio = math.exp(abs(added - released) / 2)
    assert f"{ratio:.2f}"[:3] in text.split("Grouping sets: ")[1]


def test_a_total_is_added_up_from_the_smallest_released_set(shop: dp.Session) -> None:
    text = str(shop.explain("SELECT region, shop, COUNT(*) FROM sales GROUP BY ROLLUP (region, shop)", max_groups=1))
    assert "Release 3: grand total, free: sums of release 2" in text


def test_intervals_of_added_totals_hold(shop: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is as wide as the noise of so many groups asks for, not as wide as the sum of their intervals."""
    sql = "SELECT region, kind, COUNT(*) AS n, COUNT(*) * 2 AS m FROM sales GROUP BY ROLLUP (region, kind)"
    with monkeypatch.context() as silent:
        zero_noise(silent)
        truth = shop.sql(sql, epsilon="0.5").to_pandas()["n"]
    for _ in range(20):
        answer = shop.sql(sql, epsilon="0.5", confidence="0.999999999")
        for name, factor in (("n", 1), ("m", 2)):
            lower, upper = answer.accuracy[name, "lower"], answer.accuracy[name, "upper"]
            assert ((lower <= truth * factor) & (truth * factor <= upper)).all()
    widths = (answer.accuracy["n", "upper"] - answer.accuracy["n", "lower"]).tolist()
    assert widths[0] == widths[1] < widths[2] < 2 * widths[0]
    assert widths[2] < widths[-1] < 3 * widths[0]


@pytest.mark.parametrize(
    "parts",
    [
        "r AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY ROLLUP(region)), "
        "g AS (SELECT region, SUM(shop) AS s FROM sales GROUP BY region), t AS (SELECT SUM(price) AS s FROM sales)",
        "g AS (SELECT region, SUM(shop) AS s, COUNT(*) AS n FROM sales GROUP BY region), "
        "t AS (SELECT COUNT(*) AS n, SUM(price) AS s FROM sales), "
        "r AS (SELECT region, COUNT(*) AS n FROM sales GROUP BY ROLLUP(region))",
    ],
)
def test_sets_that_other_parts_of_the_query_ask_more_of_are_not_mixed_up(
    parts: str, shop: dp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each boundary of ROLLUP(region) is read elsewhere as well, with another sum: they no longer measure the same."""
    zero_noise(monkeypatch)
    plain = {
        name: shop.sql(f"SELECT {name} FROM sales").to_arrow()[0][0].as_py() for name in ("COUNT(*)", "SUM(price)")
    }
    text = (
        f"WITH {parts} SELECT r.n, t.s FROM g RIGHT JOIN r ON r.region = g.region CROSS JOIN t WHERE r.region IS NULL"
    )
    assert list(shop.sql(text).to_pandas().itertuples(index=False, name=None)) == [
        (plain["COUNT(*)"], plain["SUM(price)"])
    ]
