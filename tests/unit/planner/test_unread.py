"""Aggregates of subqueries that nothing reads are not measured, and change nothing about what is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery as dp

CATALOG = """
version: 2
dataset: shop
privacy_unit: row
budget: {epsilon: 100, delta: 1e-6}
defaults: {epsilon: 1}
tables:
  sales:
    columns:
      region: {type: text, keys: [east, north, west]}
      price: {type: float64, lower: 0, upper: 100}
      items: {type: int64, lower: 1, upper: 9}
      note: {type: float64}
"""
CELLS = "SELECT region, COUNT(*) AS n, MIN(items) AS s, MEDIAN(price) AS m FROM sales GROUP BY region"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[dp.Session]:
    (tmp_path / "shop.yaml").write_text(CATALOG)
    columns = {"region": pa.string(), "price": pa.float64(), "items": pa.int64(), "note": pa.float64()}
    empty = pa.schema(list(columns.items())).empty_table()
    with dp.connect(tmp_path / "shop.yaml", {"sales": empty}, ledger=tmp_path / "l", create=True) as session:
        yield session


def measured(session: dp.Session, query: str) -> list[str]:
    """Returns what a query would measure."""
    return [one.label for one in session.explain(query).measurements]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (f"SELECT region, n FROM ({CELLS})", ["COUNT(*)"]),
        (f"WITH c AS ({CELLS}) SELECT region FROM c WHERE n > 10", ["COUNT(*)"]),
        (f"WITH c AS ({CELLS}) SELECT region FROM c ORDER BY n DESC LIMIT 2", ["COUNT(*)"]),
        (f"WITH c AS ({CELLS}) SELECT n - LAG(n) OVER (ORDER BY region) AS d FROM c", ["COUNT(*)"]),
        (f"WITH c AS ({CELLS}) SELECT SUM(n) AS n FROM c", ["COUNT(*)"]),
        (
            f"WITH c AS ({CELLS}) SELECT a.n FROM c AS a JOIN c AS b ON a.region = b.region AND b.m > 3",
            ["COUNT(*)", "MEDIAN(price)"],
        ),
        (f"WITH c AS ({CELLS}) SELECT n FROM c UNION ALL SELECT s FROM c", ["COUNT(*)", "MIN(items)"]),
        (f"WITH c AS ({CELLS}) SELECT region FROM c", ["COUNT(*)"]),
        (f"SELECT region, n FROM (SELECT region, n, m AS o FROM ({CELLS})) WHERE o > 4", ["COUNT(*)", "MEDIAN(price)"]),
        (CELLS, ["COUNT(*)", "MIN(items)", "MEDIAN(price)"]),
    ],
)
def test_what_nothing_reads_is_not_measured(query: str, read: list[str], shop: dp.Session) -> None:
    assert sorted(measured(shop, query)) == sorted(read)


def test_what_is_read_is_as_exact_as_if_it_had_been_asked_alone(shop: dp.Session) -> None:
    alone = shop.explain("SELECT region, COUNT(*) AS n FROM sales GROUP BY region")
    wrapped = shop.explain(f"SELECT region, n FROM ({CELLS})")
    assert [one.error95 for one in wrapped.measurements] == [one.error95 for one in alone.measurements]
    assert wrapped.charge == alone.charge


def test_what_is_not_read_need_not_be_declared(shop: dp.Session) -> None:
    query = "SELECT region, n FROM (SELECT region, COUNT(*) AS n, SUM(note) AS t FROM sales GROUP BY region)"
    assert measured(shop, query) == ["COUNT(*)"]
    with pytest.raises(dp.DPQueryError, match="note"):
        shop.explain(query.replace("region, n FROM", "region, n, t FROM"))


def test_an_answer_is_the_same_as_one_without_it(shop: dp.Session) -> None:
    first = shop.sql(f"SELECT region, n FROM ({CELLS}) ORDER BY region").to_pandas()
    again = shop.sql("SELECT region, COUNT(*) AS n FROM sales GROUP BY region ORDER BY region")
    assert again.to_pandas().equals(first) and again.charge.epsilon == 0


def test_queries_of_a_batch_keep_what_one_of_them_reads(shop: dp.Session) -> None:
    texts = [f"SELECT region, {name} FROM ({CELLS})" for name in ("n", "s")]
    labels = {one.label for answer in shop.batch(texts) for one in answer.measurements}
    assert labels == {"COUNT(*)", "MIN(items)"}


def test_grouping_sets_stay_as_they_are(shop: dp.Session) -> None:
    sets = "SELECT region, COUNT(*) AS n, MIN(items) AS s FROM sales GROUP BY ROLLUP (region)"
    assert {"COUNT(*)", "MIN(items)"} <= {*measured(shop, f"SELECT region, n FROM ({sets})")}
