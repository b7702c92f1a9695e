"""Which sums are scaled to the total of their column, and what people read of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.catalog.describe import describe_column
from dpquery.catalog.write import write_catalog
from dpquery.plan.types import FLOAT64, INT64, Type, decimal
from dpquery.planner.protect.lattices import MOST_MOVED, for_total

COLUMNS = {
    "customer": {"type": "text"},
    "month": {"type": "int64", "keys": [1, 2, 3]},
    "paid": {"type": "boolean"},
    "item": {"type": "int64"},
    "price": {"type": "decimal(8,2)", "lower": 0, "upper": 100, "max_total": 250},
    "change": {"type": "float64", "lower": -100, "upper": 100, "max_total": 150},
    "small": {"type": "int64", "lower": 0, "upper": 5, "max_total": 1000},
    "other": {"type": "int64", "lower": 0, "upper": 100},
}
PRICE = "Scale price  max_total=250"


def catalog(**more: object) -> dp.Catalog:
    return dp.Catalog(
        dataset="shop",
        privacy_unit="customer",
        budget={"epsilon": 1000},
        tables={
            "orders": {"unit": "customer", "max_rows": 10, "columns": COLUMNS} | more,
            "people": {"unit": "customer", "unique": [["customer"]], "columns": {"customer": {"type": "text"}}},
            "items": {"public": True, "unique": [["item"]], "columns": {"item": {"type": "int64"}}},
        },
    )


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    row = {"customer": "a", "month": 1, "paid": True, "item": 1, "price": 2.0, "change": 1.0, "small": 1, "other": 1}
    frames = {
        "orders": pd.DataFrame([row]),
        "people": pd.DataFrame({"customer": ["a"]}),
        "items": pd.DataFrame({"item": [1, 2]}),
    }
    made = catalog()
    return dp.connect(made, frames, ledger=dp.create_ledger(made, str(tmp_path / "shop.ledger")))


def explained(session: dp.Session, query: str, **more: object) -> str:
    return str(session.explain(query, epsilon=1, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(price) FROM orders",
        "SELECT month, SUM(price) AS s FROM orders WHERE paid GROUP BY month",
        "SELECT SUM(price) FILTER (WHERE paid) FROM orders",
        "SELECT SUM(CASE WHEN paid THEN price ELSE 0 END) FROM orders",
        "SELECT COUNT(*) AS n, SUM(price) AS s FROM orders",
        "SELECT SUM(price) * 2 FROM orders",
        "SELECT SUM(price) FILTER (WHERE paid) / SUM(price) FROM orders",
        "SELECT month, SUM(price) / SUM(SUM(price)) OVER () AS share FROM orders GROUP BY month",
        "SELECT SUM(o.price) FROM orders o JOIN items i ON o.item = i.item",
        "SELECT SUM(o.price) FROM orders o JOIN people p ON o.customer = p.customer",
        "SELECT SUM(o.price) FROM people p LEFT JOIN orders o ON o.customer = p.customer",
        "SELECT month, SUM(price) AS s FROM orders GROUP BY ROLLUP (month)",
        "SELECT SUM(v) FROM (SELECT customer, price AS v FROM orders WHERE paid) x",
    ],
)
def test_plain_sums_are_scaled_whatever_rows_they_are_of(session: dp.Session, query: str) -> None:
    text = explained(session, query)
    assert "max_total=250" in text and "l1=250 " in text, text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT AVG(price) FROM orders",
        "SELECT SUM(price + 1) FROM orders",
        "SELECT SUM(price) / COUNT(*) FROM orders",
        "SELECT SUM(price) AS s FROM orders HAVING SUM(price) > 5 * COUNT(*)",
        "SELECT s / n FROM (SELECT SUM(price) AS s, COUNT(*) AS n FROM orders) x",
        "SELECT SUM(price) / SUM(other) FROM orders",
        "SELECT (SELECT SUM(price) FROM orders WHERE paid) / (SELECT SUM(price) FROM orders)",
        "SELECT SUM(small) FROM orders",
        "SELECT SUM(other) FROM orders",
        "SELECT SUM(t) FROM (SELECT customer, SUM(CLAMP(price, 0, 9)) AS t FROM orders GROUP BY customer) x "
        "WHERE t BETWEEN 0 AND 9",
    ],
)
def test_other_sums_keep_the_weights_of_rows(session: dp.Session, query: str) -> None:
    assert "max_total=" not in explained(session, query)


def test_a_query_that_says_max_rows_weighs_its_own_rows(session: dp.Session) -> None:
    assert "max_total=" not in explained(session, "SELECT SUM(price) FROM orders", max_rows=9)


def test_values_of_both_signs_are_scaled_where_that_pays(session: dp.Session) -> None:
    text = explained(session, "SELECT SUM(change) FROM orders")
    assert "Scale change  max_total=150" in text and "l1=150 " in text


def test_rows_that_are_read_twice_have_twice_the_total(session: dp.Session) -> None:
    twice = "SELECT SUM(price) FROM (SELECT customer, price FROM orders UNION ALL SELECT customer, price FROM orders) x"
    text = explained(session, twice)
    assert "max_total=500" in text and "l1=500 " in text


def test_unions_of_many_tables_have_one_weight_for_each_column(session: dp.Session) -> None:
    part = "SELECT customer, price, change, small FROM orders"
    many = f"SELECT SUM(price) AS a, SUM(change) AS b FROM ({' UNION ALL '.join([part] * 9)}) x"
    text = explained(session, many)
    assert "Scale price  max_total=2250" in text and "Scale change  max_total=1350" in text


def test_people_read_of_it(session: dp.Session) -> None:
    declared = catalog().tables["orders"].columns["price"]
    assert "sums of one unit scaled to 250 at most" in describe_column(declared)
    answer = session.sql("SELECT SUM(price) AS s FROM orders", epsilon=1)
    assert any("price" in note and "max_total 250" in note for note in answer.notes), answer.notes
    other = session.sql("SELECT SUM(other) AS s FROM orders", epsilon=1)
    assert not any("max_total" in note for note in other.notes)


@pytest.mark.parametrize("type", [INT64, FLOAT64, decimal(10, 2), decimal(18, 6)])
@pytest.mark.parametrize(
    ("upper", "most"), [(100, 250), (100, 7), (10**9, 1), (3, 10**15), (Fraction(1, 4), 3), (10**15, 10**17)]
)
def test_lattices_of_totals_hold_all_values_and_are_fine(type: Type, upper: Fraction, most: int) -> None:
    lattice, steps = for_total(type, Fraction(-upper), Fraction(upper), Fraction(most))
    assert lattice.lower * lattice.grid <= -upper and lattice.upper * lattice.grid >= upper
    assert lattice.upper <= 2**53 and 1 <= steps <= MOST_MOVED
    assert steps * lattice.grid <= most < (steps + 1) * lattice.grid


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        ({"type": "int64", "max_total": 5}, "needs bounds"),
        ({"type": "text", "max_total": 5}, "cannot be added up"),
        ({"type": "int64", "lower": 0, "upper": 9, "max_total": 0}, "positive"),
        ({"type": "int64", "lower": 0, "upper": 9, "max_total": "many"}, "positive"),
        ({"type": "int64", "lower": 0, "upper": 9, "max_total": "1/2"}, "far smaller"),
        ({"type": "float64", "lower": 0, "upper": 1e20, "max_total": 5}, "far smaller"),
        (
            {"type": "int64", "randomized": {"epsilon": 1, "categories": [1, 2]}, "max_total": 5},
            "cannot be combined with randomized",
        ),
    ],
)
def test_totals_that_make_no_sense_are_refused(column: dict[str, object], fault: str) -> None:
    with pytest.raises(dp.CatalogError, match=fault):
        catalog(columns=COLUMNS | {"price": column})


@pytest.mark.parametrize("more", [{"public": True, "unit": None}, {}])
def test_totals_are_of_a_unit(more: dict[str, object]) -> None:
    table = {"columns": {"price": COLUMNS["price"]}} | ({"public": True} if more else {})
    with pytest.raises(dp.CatalogError, match="max_total of 'price'"):
        dp.Catalog(dataset="d", privacy_unit="row", budget={"epsilon": 1}, tables={"orders": table})


def test_a_catalog_that_is_written_is_the_same() -> None:
    assert "max_total: 250" in write_catalog(catalog())
