"""Sums scaled to a total, and stored numbers: what follows from what, and what does not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp

ROWS = [("a", 1, 100), ("a", 2, 100), ("b", 1, 30), ("b", 1, 10), ("c", 3, 7), ("d", 2, 90), ("d", 3, 90), ("d", 3, 90)]
"""Customer, month, value: of a and d more than 150 in all, so that a's rows weigh 3/4 and d's 5/9."""
SCALED = {1: 75 + 40, 2: 75 + 50, 3: 7 + 100}
PLAIN = sum(value for _, _, value in ROWS)


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    columns = {
        "customer": {"type": "text"},
        "month": {"type": "int64", "keys": [1, 2, 3]},
        "value": {"type": "int64", "lower": 0, "upper": 100, "max_total": 150},
    }
    catalog = dp.Catalog(
        dataset="shop",
        privacy_unit="customer",
        budget={"epsilon": 900_000},
        tables={"orders": {"unit": "customer", "max_rows": 4, "columns": columns}},
    )
    frame = pd.DataFrame(ROWS, columns=["customer", "month", "value"])
    return dp.connect(catalog, {"orders": frame}, ledger=dp.create_ledger(catalog, str(tmp_path / "shop.ledger")))


def asked(session: dp.Session, query: str) -> list[float]:
    """Returns the numbers of the last column, whose noise is not seen."""
    numbers: list[float] = session.sql(query, epsilon=20_000).to_pandas().iloc[:, -1].tolist()
    return numbers


BY_MONTH = "SELECT month, SUM(value) AS s FROM orders GROUP BY month"


def test_groups_add_up_to_what_a_filter_gives(session: dp.Session) -> None:
    months = asked(session, BY_MONTH)
    assert months == pytest.approx(list(SCALED.values()), abs=1)
    before = session.remaining
    for month, value in SCALED.items():
        found = asked(session, f"SELECT SUM(value) AS s FROM orders WHERE month = {month}")
        assert found == pytest.approx([value], abs=1)
    assert session.remaining == before, "they follow from the groups"


def test_a_sum_without_a_total_does_not_follow_from_one_with_it(session: dp.Session) -> None:
    """Both are on one lattice; only their weights differ."""
    scaled = asked(session, "SELECT SUM(value) AS s FROM orders")
    assert scaled == pytest.approx([sum(SCALED.values())], abs=1)
    ratio = asked(session, "SELECT SUM(value) / COUNT(*) AS r FROM orders")
    assert ratio == pytest.approx([PLAIN / len(ROWS)], abs=0.5)
    mean = asked(session, "SELECT AVG(value) AS m FROM orders")
    assert mean == pytest.approx([PLAIN / len(ROWS)], abs=0.5)


def test_sums_do_not_follow_from_means_and_counts_under_other_weights(session: dp.Session) -> None:
    asked(session, "SELECT COUNT(*) AS n, AVG(value) AS m FROM orders")
    scaled = asked(session, "SELECT SUM(value) AS s FROM orders")
    assert scaled == pytest.approx([sum(SCALED.values())], abs=1)
