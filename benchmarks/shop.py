"""Errors of a shop's total and monthly cells at epsilon 0.5: suggested bound, and the profile's price inside.

200,000 orders of 20,000 customers, ten on average with a heavy tail. Errors are against all orders, so they hold both
the noise and what weights leave out.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp
from benchmarks.orders import catalog, orders, session
from benchmarks.suggested import PART, profile

EPSILON = Fraction(1, 2)
CUSTOMERS, PROFILES, RUNS = 20_000, 10, 20
CELL, TOTAL = 0.08, 0.04
"""The aims."""
MONTHS = "SELECT date_trunc('month', ordered_on) AS month, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1"


def shop_errors(customers: int = CUSTOMERS) -> dict[str, dict[str, float]]:
    """Returns the root mean square relative error of a monthly cell and of the total, over profiles and runs."""
    table = orders(customers)
    days = table["ordered_on"].to_numpy().astype("datetime64[M]")
    months = np.unique(days, return_counts=True)[1]
    cells, totals = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PROFILES):
            declared = profile(catalog(), {"orders": table}, Path(folder) / f"profile-{number}", EPSILON * PART)
            bound = declared["orders"].suggest_max_rows(epsilon=EPSILON * (1 - PART))
            place = Path(folder) / f"shop-{number}"
            place.mkdir()
            with session(table, place, bound) as opened:
                cells.append(_errors(opened, MONTHS, months))
                totals.append(_errors(opened, "SELECT COUNT(*) AS n FROM orders", np.array([table.num_rows])))
    return {
        "shop at epsilon 0.5: error of a monthly cell": {"ratio": _root(cells), "aim": CELL},
        "shop at epsilon 0.5: error of the total": {"ratio": _root(totals), "aim": TOTAL},
    }


def _errors(opened: dp.Session, sql: str, exact: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns relative errors, shape (runs, cells)."""
    answers = [opened.sql(sql, epsilon=EPSILON * (1 - PART)).to_arrow() for _ in range(RUNS)]
    return np.array([_numbers(answer) - exact for answer in answers]) / exact


def _numbers(answer: pa.Table) -> NDArray[np.float64]:
    return np.array([float(n) for n in answer["n"].to_pylist()])


def _root(errors: list[NDArray[np.float64]]) -> float:
    return float(np.sqrt(np.mean(np.concatenate([part.ravel() for part in errors]) ** 2)))


if __name__ == "__main__":
    for name, row in shop_errors().items():
        print(f"{name}: {row['ratio']:.1%} (aim {row['aim']:.0%})")
