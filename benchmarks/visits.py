"""A deterministic visits table: skewed users, 50 regions, 1000 products, amounts with a few values out of bounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

import dpquery as dp

REGIONS = [f"region-{i:02d}" for i in range(50)]
PRODUCTS = [f"product-{i:04d}" for i in range(1000)]
HOME = 0.9  # of a user's visits are in the home region


def visits(rows: int) -> pa.Table:
    """Returns `rows` visits of about rows / 10 users, the busiest of whom have thousands."""
    random = np.random.default_rng(20260101)
    users = max(rows // 10, 1)
    user = random.integers(0, users, rows)
    busy = random.random(rows) < 0.3
    user[busy] = np.minimum(users ** random.random(int(busy.sum())), users - 1).astype(np.int64)
    at_home = random.random(rows) < HOME
    region = np.where(at_home, user * 7919 % len(REGIONS), random.integers(0, len(REGIONS), rows))
    product = (len(PRODUCTS) * random.random(rows) ** 1.3).astype(np.int32)
    amount = np.round(random.gamma(2, 60, rows), 2)
    odd = random.random(rows)
    amount[odd < 0.001] = np.nan
    amount[(odd >= 0.001) & (odd < 0.0011)] = np.inf
    return pa.table(
        {
            "user_id": user * 2654435761 % 2**40,
            "region": pa.array(np.array(REGIONS, dtype=object)[region], pa.string()),
            "product": pa.array(np.array(PRODUCTS, dtype=object)[product], pa.string()),
            "amount": amount,
            "qty": random.integers(1, 11, rows),
        }
    )


def catalog(*, unit_is_row: bool, dated: bool = False) -> dp.Catalog:
    """Returns the declarations of the visits table, or of one with days, under a budget that no run exhausts."""
    columns: dict[str, Mapping[str, object]] = {
        "user_id": {"type": "int64"},
        "region": {"type": "text", "keys": REGIONS},
        "product": {"type": "text", "keys": PRODUCTS},
        "amount": {"type": "float64", "lower": 0, "upper": 500, "nullable": True},
        "qty": {"type": "int64", "lower": 0, "upper": 10},
    }
    if dated:
        columns["day"] = {"type": "date", "lower": "2023-01-01", "upper": "2025-12-31"}
    table: dict[str, object] = {"columns": columns}
    if not unit_is_row:
        table |= {"unit": "user_id", "max_rows": 12}
    return dp.Catalog(
        dataset="visits",
        privacy_unit="row" if unit_is_row else "user",
        budget={"epsilon": 100_000},
        defaults={"epsilon": 1, "least_charge": "1e-12"},
        tables={"visits": table},
    )
