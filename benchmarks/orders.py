"""A deterministic shop: orders of customers who have ten on average, a few of them hundreds."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp

REGIONS = ["east", "north", "online", "south", "west"]
PRODUCTS = [f"product-{i:02d}" for i in range(20)]
FIRST_DAY, DAYS = np.datetime64("2023-01-01"), 731
MAX_ROWS = 40
"""The bound that tests declare: about one customer in thirty has more orders."""

CATALOG = """
version: 2
dataset: orders
privacy_unit: customer
budget: {epsilon: 1000000}
defaults: {epsilon: 1, least_charge: 1e-12}
tables:
  orders:
    unit: customer_id
    unique: [[order_id]]
    max_rows: MAX_ROWS
    columns:
      order_id: {type: int64}
      customer_id: {type: int64}
      region: {type: text, keys: [REGIONS]}
      product: {type: text, keys: [PRODUCTS]}
      ordered_on: {type: date, lower: 2023-01-01, upper: 2024-12-31}
      amount: {type: int64, lower: 0, upper: 200}
      returned: {type: boolean}
"""


def orders(customers: int) -> pa.Table:
    """Returns about ten orders for each customer, in numbers with a heavy tail, over 24 months."""
    random = np.random.default_rng(20260101)
    drawn = random.lognormal(0, 1.15, customers)
    counts = 1 + (drawn * 9.5 / drawn.mean()).astype(np.int64)
    rows = int(counts.sum())
    who = np.repeat(np.arange(customers), counts)
    home = random.integers(0, len(REGIONS), customers)[who]
    region = np.where(random.random(rows) < 0.8, home, random.integers(0, len(REGIONS), rows))
    product = (len(PRODUCTS) * random.random(rows) ** 1.5).astype(np.int64)
    day = FIRST_DAY + (DAYS * random.random(rows) ** 0.9).astype(np.int64)
    return pa.table(
        {
            "order_id": np.arange(rows),
            "customer_id": who * 7919 + 13,
            "region": np.array(REGIONS)[region],
            "product": np.array(PRODUCTS)[product],
            "ordered_on": pa.array(day.astype("datetime64[D]"), pa.date32()),
            "amount": np.minimum(random.gamma(2, 25, rows), 200).astype(np.int64),
            "returned": random.random(rows) < 0.12,
        }
    )


def catalog(max_rows: object = MAX_ROWS) -> dp.Catalog:
    """Returns the declarations under a budget that no run exhausts.

    Args:
        max_rows: Of a customer; or `auto`, where it is to be measured.
    """
    text = CATALOG.replace("MAX_ROWS", str(max_rows))
    return dp.Catalog.from_yaml(text.replace("REGIONS", ", ".join(REGIONS)).replace("PRODUCTS", ", ".join(PRODUCTS)))


def session(table: pa.Table, folder: Path, max_rows: object = MAX_ROWS) -> dp.Session:
    """Returns a session over the orders, with a new ledger in the folder, that stores no answers."""
    declared = catalog(max_rows)
    ledger = dp.create_ledger(declared, folder / f"orders-{max_rows}.ledger")
    return dp.connect(declared, {"orders": table}, ledger=ledger, reuse=False)


def weighed(table: pa.Table, max_rows: int = MAX_ROWS) -> duckdb.DuckDBPyConnection:
    """Returns plain DuckDB over the orders, with each row's weight as the column `weight`."""
    who = table["customer_id"].to_numpy()
    _, places, counts = np.unique(who, return_inverse=True, return_counts=True)
    steps: NDArray[np.int64] = np.minimum(2**24, 2**24 * max_rows // counts)
    engine = duckdb.connect(":memory:")
    engine.register("orders", table.append_column("weight", pa.array(steps[places] / 2**24)))
    return engine
