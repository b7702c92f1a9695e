"""The study that the tests of the server ask about: orders of forty customers, without a random draw."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import dpquery as dp

HERE = Path(__file__).parent
CATALOG = HERE / "orders.yaml"
REGIONS = ("east", "north", "south", "west")


def catalog() -> dp.Catalog:
    """Returns the declarations."""
    return dp.Catalog.load(CATALOG)


def tables() -> dict[str, pa.Table]:
    """Returns the rows of each table; all of them within the declared bounds."""
    start = datetime.datetime(2023, 1, 1, 6, 30)
    rows = range(400)
    moments = [start + datetime.timedelta(hours=21 * i) for i in rows]
    orders = pa.table(
        {
            "order_id": pa.array([1000 + i for i in rows], pa.int64()),
            "customer_id": pa.array([i % 40 for i in rows], pa.int64()),
            "region": pa.array([REGIONS[(i * i + i // 7) % 4] for i in rows], pa.string()),
            "amount": pa.array([Decimal(i * 37 % 99999) / 100 for i in rows], pa.decimal128(10, 2)),
            "price": pa.array([None if i % 11 == 0 else (i * 13 % 97) + 0.5 for i in rows], pa.float64()),
            "qty": pa.array([i * 7 % 21 for i in rows], pa.int64()),
            "is_new": pa.array([i % 3 == 0 for i in rows], pa.bool_()),
            "note": pa.array([None if i % 5 else "CANARY-note" for i in rows], pa.string()),
            "ordered_on": pa.array([moment.date() for moment in moments], pa.date32()),
            "created_at": pa.array(moments, pa.timestamp("us")),
        }
    )
    regions = pa.table({"name": list(REGIONS), "country": ["CH", "DE", "IT", "FR"]})
    return {"orders": orders, "regions": regions}
