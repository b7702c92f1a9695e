"""A shop's numbers add up: every chart of one table shows parts of the same weighted total, whatever the grouping.

Without noise, up to rounding by 1 for each cell; with noise, within what the noise of that many cells can add up to
with a chance of 99.9 % for all groupings at once, under noise that is the same at each run.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.orders import orders, session, weighed
from tests.scripted import same_noise, zero_noise

MONTH = "date_trunc('month', ordered_on)"
GROUPINGS: dict[str, tuple[str, ...]] = {
    "total": (),
    "product": ("product",),
    "month": (MONTH,),
    "week": ("date_trunc('week', ordered_on)",),
    "day": ("ordered_on",),
    "region x product": ("region", "product"),
    "region x month": ("region", MONTH),
}
MEASURES = {"n": ("COUNT(*)", "SUM(weight)"), "s": ("SUM(amount)", "SUM(weight * amount)")}
FAILURE = 0.001
"""Chance that any sum of a correct engine is outside."""


class Shop:
    """The shop in dpquery, and its weighted truth in plain DuckDB."""

    def __init__(self, customers: int, folder: Path) -> None:
        table = orders(customers)
        self.session, self.truth = session(table, folder), weighed(table)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows of an answer."""
        answer = self.session.sql(sql).to_arrow()
        return _simple(zip(*(column.to_pylist() for column in answer.columns), strict=True))

    def exact(self, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows of plain SQL over the table with the column `weight`."""
        engine: duckdb.DuckDBPyConnection = self.truth
        return _simple(engine.sql(sql).fetchall())


@pytest.fixture(scope="module", params=[2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The shop with ten orders for each customer, and 40 that count of one in full."""
    made = Shop(request.param, tmp_path_factory.mktemp("shop"))
    with made.session:
        yield made


def _asked(keys: tuple[str, ...], measure: str = "COUNT(*)", where: str = "") -> str:
    """Returns the query of a measure by the keys, which are the first columns."""
    grouped = f"GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join((*keys, measure))} AS n FROM orders {where} {grouped}"


def test_weights_bind_in_this_shop(shop: Shop) -> None:
    rows, weight, most = shop.exact(
        "SELECT COUNT(*), SUM(weight), (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY customer_id)) "
        "FROM orders"
    )[0]
    assert 0.8 * rows < weight < 0.99 * rows
    assert most > 100


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_each_cell_is_its_weighted_truth(
    shop: Shop, grouping: str, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    keys, (asked, meant) = GROUPINGS[grouping], MEASURES[measure]
    truth = {row[:-1]: row[-1] for row in shop.exact(_asked(keys, meant))}
    cells = {row[:-1]: row[-1] for row in shop.rows(_asked(keys, asked))}
    assert set(truth) <= set(cells)
    assert all(abs(value - truth.get(key, 0)) <= 1 for key, value in cells.items())


@pytest.mark.parametrize("measure", MEASURES)
def test_all_groupings_add_up_to_one_total(shop: Shop, measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    asked, meant = MEASURES[measure]
    whole = shop.exact(_asked((), meant))[0][0]
    for keys in GROUPINGS.values():
        cells = [row[-1] for row in shop.rows(_asked(keys, asked))]
        assert abs(sum(cells) - whole) <= len(cells)


def test_each_level_of_a_cube_adds_up_to_one_total(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    whole = shop.exact("SELECT SUM(weight) FROM orders")[0][0]
    levels: dict[int, list[int]] = {}
    for level, n in shop.rows("SELECT GROUPING(region, product), COUNT(*) FROM orders GROUP BY CUBE (region, product)"):
        levels.setdefault(level, []).append(n)
    assert sorted(map(len, levels.values())) == [1, 5, 20, 100]
    assert all(abs(sum(cells) - whole) <= 100 for cells in levels.values())


@pytest.mark.parametrize("seed", range(3))
def test_with_noise_the_sums_differ_by_noise_alone(shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    same_noise(monkeypatch, seed)
    for asked, meant in MEASURES.values():
        whole = shop.exact(_asked((), meant))[0][0]
        for keys in GROUPINGS.values():
            answer = shop.session.sql(_asked(keys, asked))
            (measured,) = answer.measurements
            cells = [float(cell) for cell in answer.to_arrow().columns[-1].to_pylist()]
            allowed = _sum_of_laplace(measured.scale, len(cells), FAILURE / (len(MEASURES) * len(GROUPINGS)))
            assert abs(sum(cells) - whole) <= allowed + len(cells)


@pytest.mark.parametrize(
    "where",
    ["WHERE ordered_on >= DATE '2024-02-01'", "WHERE ordered_on BETWEEN DATE '2023-03-01' AND DATE '2023-05-31'"],
)
@pytest.mark.parametrize("measure", ["COUNT(*)", "SUM(amount)"])
def test_a_date_filter_changes_no_months_number(
    shop: Shop, where: str, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    whole = {row[0]: row[1] for row in shop.rows(_asked((MONTH,), measure))}
    kept = {row[0] for row in shop.exact(_asked((MONTH,), "COUNT(*)", where))}
    found = {row[0]: row[1] for row in shop.rows(_asked((MONTH,), measure, where))}
    assert 1 < len(kept) < len(whole)
    assert all(found[key] == whole[key] for key in kept)
    assert all(value == 0 for key, value in found.items() if key not in kept)


def test_a_filter_shows_the_cells_of_a_finer_grouping(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    cells = {row[:-1]: row[-1] for row in shop.rows(_asked(("region", MONTH)))}
    for region in ("east", "west"):
        where = f"WHERE region = '{region}'"
        found = {row[0]: row[1] for row in shop.rows(_asked((MONTH,), where=where))}
        assert all(value == cells[region, key] for key, value in found.items())


RATES = {
    "filters": "1.0 * COUNT(*) FILTER (WHERE returned) / COUNT(*)",
    "sums": "1.0 * SUM(CASE WHEN returned THEN 1 ELSE 0 END) / COUNT(*)",
    "a mean": "AVG(CASE WHEN returned THEN 1.0 ELSE 0.0 END)",
    "a mean of a cast": "AVG(CAST(returned AS int))",
}


@pytest.mark.parametrize("keys", [(), ("product",), ("region",)], ids=str)
def test_spellings_of_a_rate_agree(shop: Shop, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    weighted = "SUM(CASE WHEN returned THEN weight ELSE 0 END) / SUM(weight)"
    truth = {row[:-1]: row[-1] for row in shop.exact(_asked(keys, weighted))}
    least = min(row[-1] for row in shop.exact(_asked(keys, "SUM(weight)")))
    for rate in RATES.values():
        found = {row[:-1]: row[-1] for row in shop.rows(_asked(keys, rate))}
        assert all(abs(found[key] - truth[key]) <= 2 / least for key in truth)


def test_a_rate_of_two_questions_is_the_rate_of_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    ((returned,),) = shop.rows("SELECT COUNT(*) FROM orders WHERE returned")
    ((all_orders,),) = shop.rows("SELECT COUNT(*) FROM orders")
    ((rate,),) = shop.rows(_asked((), RATES["filters"]))
    assert rate == pytest.approx(returned / all_orders, abs=2 / all_orders)


@pytest.mark.parametrize("keys", [("product",), ("region",), (MONTH,)], ids=str)
def test_shares_add_up_to_one(shop: Shop, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    shares = [row[-1] for row in shop.rows(_asked(keys, "1.0 * COUNT(*) / SUM(COUNT(*)) OVER ()"))]
    assert math.fsum(shares) == pytest.approx(1, abs=1e-9)
    ((total,),) = shop.rows("SELECT COUNT(*) FROM orders")
    parts = [row[-1] / total for row in shop.rows(_asked(keys))]
    assert math.fsum(parts) == pytest.approx(1, abs=len(parts) / total)


def _simple(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Returns the rows with dates for timestamps, and floats for decimals."""
    return [tuple(map(_value, row)) for row in rows]


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.date() if isinstance(value, datetime.datetime) else value


def _sum_of_laplace(scale: float, cells: int, failure: float) -> float:
    """Returns a t with P(|sum of the noise of the cells| > t) <= failure, by Chernoff's bound.

    E exp(x noise) <= 1 / (1 - (x scale)^2) for 0 < x < 1 / scale; the discrete law has lighter tails.
    """
    found = math.inf
    for step in range(1, 200):
        x = step / 200
        found = min(found, (math.log(2 / failure) - cells * math.log1p(-x * x)) / x)
    return found * scale
