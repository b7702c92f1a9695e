"""Strata, from a catalog to an answer: past months stay as they are while a table grows, and months have less noise."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp

BY_MONTH = "SELECT DATE_TRUNC('month', taken) AS m, COUNT(*) AS n FROM orders GROUP BY 1"
STRATA = {"all": 40, "per": {"month(taken)": 4}}


def catalog(max_rows: object, **budget: object) -> dp.Catalog:
    columns = {
        "customer": {"type": "int64"},
        "taken": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
        "price": {"type": "int64", "lower": 0, "upper": 10},
    }
    return dp.Catalog(
        dataset="shop",
        privacy_unit="customer",
        budget=budget or {"epsilon": 1_000_000},
        tables={"orders": {"unit": "customer", "max_rows": max_rows, "columns": columns}},
    )


def orders(months: int, each: int = 8) -> pd.DataFrame:
    """Returns the orders of two customers: a steady one of so many months, and one with few orders in each."""
    rows = [(1, month) for month in range(1, months + 1) for _ in range(each)]
    rows += [(2, month) for month in range(1, months + 1)]
    return pd.DataFrame(
        {
            "customer": [customer for customer, _ in rows],
            "taken": [datetime.date(2024, month, 1 + i % 28) for i, (_, month) in enumerate(rows)],
            "price": [i % 10 for i in range(len(rows))],
        }
    )


def session(made: dp.Catalog, frame: pd.DataFrame, folder: Path) -> dp.Session:
    path = folder / f"{len(list(folder.iterdir()))}.ledger"
    return dp.connect(made, {"orders": frame}, ledger=dp.create_ledger(made, path), reuse=False)


def counts(made: dp.Catalog, frame: pd.DataFrame, folder: Path) -> list[int]:
    return session(made, frame, folder).sql(BY_MONTH, epsilon=10_000).to_pandas()["n"].tolist()


def test_past_months_do_not_shrink_as_the_table_grows(tmp_path: Path) -> None:
    """Without strata 40 rows are spread over ever more months; with them each month keeps its 4."""
    whole = [counts(catalog(40), orders(months), tmp_path)[0] for months in (2, 5, 10)]
    strata = [counts(catalog(STRATA), orders(months), tmp_path)[0] for months in (2, 5, 10)]
    assert whole == [9, 9, 5] and strata == [5, 5, 5]
    assert counts(catalog(STRATA), orders(12), tmp_path)[0] == round(1 + 40 / 12), (
        "beyond 10 full months all are scaled"
    )


def test_months_add_up_and_a_filter_changes_none(tmp_path: Path) -> None:
    made = catalog(STRATA)
    opened = session(made, orders(12), tmp_path)
    by_month = opened.sql(BY_MONTH, epsilon=10_000).to_pandas()["n"].sum()
    asked = "SELECT COUNT(*) AS n FROM orders"
    whole, march = (
        opened.sql(f"{asked}{where}", epsilon=10_000).to_pandas()["n"][0]
        for where in ("", " WHERE taken >= DATE '2024-03-01' AND taken < DATE '2024-04-01'")
    )
    assert abs(by_month - whole) <= 6 and whole == 52 and march == round(1 + 40 / 12)


@pytest.mark.parametrize(
    ("query", "most", "one"),
    [
        (BY_MONTH, 40, 4),
        ("SELECT taken, COUNT(*) AS n FROM orders GROUP BY 1", 40, 4),
        ("SELECT YEAR(taken) AS y, MONTH(taken) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2", 40, 4),
        ("SELECT TO_CHAR(taken, 'YYYY-MM') AS m, COUNT(*) AS n FROM orders GROUP BY 1", 40, 4),
        ("SELECT DATE_TRUNC('quarter', taken) AS q, COUNT(*) AS n FROM orders GROUP BY 1", 40, 12),
        ("SELECT price, COUNT(*) AS n FROM orders GROUP BY 1", 40, None),
        ("SELECT price, COUNT(*) FROM orders WHERE taken BETWEEN '2024-01-15' AND '2024-02-09' GROUP BY 1", 8, None),
        ("SELECT COUNT(*) AS n FROM orders", 40, None),
    ],
)  # fmt: skip
def test_what_a_plan_knows_of_strata(query: str, most: int, one: int | None, tmp_path: Path) -> None:
    text = str(session(catalog(STRATA), orders(2), tmp_path).explain(query, epsilon=1))
    assert f"max_rows={most}  stored" in text and f"linf={one or most} l1=" in text
    assert "weights max_rows=40, 4 per month(taken)" in text


def test_gaussian_noise_of_a_month_is_smaller_with_strata(tmp_path: Path) -> None:
    """By sqrt(m / M): each month's noise hides m rows in each of M / m months, not M in one."""
    rho: dict[str, Any] = {"rho": 10, "delta": "1e-6"}
    errors = [
        session(catalog(said, **rho), orders(2), tmp_path).explain(BY_MONTH, rho="0.1").measurements[0].error95
        for said in (40, STRATA)
    ]
    assert errors[1] == pytest.approx(errors[0] * (4 / 40) ** 0.5, rel=0.1)


def test_a_query_that_says_max_rows_itself_has_no_strata(tmp_path: Path) -> None:
    text = str(session(catalog(STRATA), orders(2), tmp_path).explain(BY_MONTH, epsilon=1, max_rows=5))
    assert "counted here" in text and "per month" not in text


def test_no_profile_is_taken_for_what_strata_leave_out(tmp_path: Path) -> None:
    made = catalog(STRATA)
    opened = dp.connect(made, {"orders": orders(4)}, ledger=dp.create_ledger(made, tmp_path / "p.ledger"))
    profile = opened.profile(epsilon=100)
    assert profile["orders"].rows is None
    (note,) = opened.sql("SELECT COUNT(*) AS n FROM orders", epsilon=1).notes
    assert note == "orders, max_rows 40, 4 in each month of taken: what it leaves out is unknown"


def test_stored_days_answer_one_of_them_and_other_strata_do_not(tmp_path: Path) -> None:
    made = catalog(STRATA)
    ledger = dp.create_ledger(made, tmp_path / "s.ledger")
    opened = dp.connect(made, {"orders": orders(4)}, ledger=ledger)
    opened.sql(BY_MONTH, epsilon=10)
    by_day = "SELECT taken, COUNT(*) AS n FROM orders GROUP BY taken"
    opened.sql(by_day, epsilon=10)
    again = opened.explain(BY_MONTH, epsilon=10)
    assert not again.charge.epsilon
    other = dp.connect(catalog({"all": 40, "per": {"month(taken)": 5}}), {"orders": orders(4)}, ledger=ledger)
    assert other.explain(BY_MONTH, epsilon=10).charge.epsilon
    first = opened.explain("SELECT COUNT(*) AS n FROM orders WHERE taken = DATE '2024-03-01'", epsilon="0.5")
    assert not first.charge.epsilon, "its rows weigh the same, though they are fewer"


def test_protect_takes_strata() -> None:
    kept = dp.protect(
        orders(10),
        privacy_unit="customer",
        max_rows=STRATA,
        types={"taken": "date"},
        bounds={"taken": ("2024-01-01", "2024-12-31")},
        budget={"epsilon": 100_000},
        dataset="strata of a frame",
    )
    assert int(kept.count(epsilon=10_000)) == 50
