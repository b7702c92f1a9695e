"""The clinic that equivalent texts are asked about: a session over it, and plain DuckDB over the same rows."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

import dpquery as dp

HERE = Path(__file__).parent
FIRST_DAY = datetime.date(2024, 1, 1)
PATIENTS = 300
Rows = list[dict[str, Any]]


def tables(*, heavy: bool) -> dict[str, pa.Table]:
    """Returns the clinic's tables.

    Args:
        heavy: Whether some patients have far more rows than `max_rows` says; otherwise none has more.
    """
    draw = Random(20260101)
    people: dict[str, Rows] = {"patients": [], "visits": [], "items": [], "labs": []}
    for number in range(PATIENTS):
        _patient(people, draw, 1000 + 7 * number, heavy=heavy and number % 5 == 0)
    columns = {name: {key: [row[key] for row in rows] for key in rows[0]} for name, rows in people.items()}
    made = {name: pa.table(found) for name, found in columns.items()}
    amounts = pa.array(columns["items"]["amount"], pa.decimal128(10, 2))
    made["items"] = made["items"].set_column(made["items"].column_names.index("amount"), "amount", amounts)
    return made | _public()


def _patient(people: dict[str, Rows], draw: Random, id: int, *, heavy: bool) -> None:
    """Adds a patient with visits, labs and items, each at most as many as `max_rows` says unless heavy."""
    sex, region = draw.choice("FM"), draw.choice(["east", "north", "south", "west"])
    people["patients"].append(
        {"id": id, "sex": sex, "region": region, "age": draw.randint(18, 90), "smoker": draw.random() < 0.3}
    )
    room = 1000 if heavy else 20
    for _ in range(draw.randint(9, 40) if heavy else draw.randint(0, 8)):
        visit = len(people["visits"]) + 1
        people["visits"].append(
            {
                "visit_id": visit,
                "patient_id": id,
                "ward": draw.choice("aaabbcd"),
                "kind": draw.choice(["first", "return"]),
                "day": FIRST_DAY + datetime.timedelta(days=draw.randrange(366)),
                "cost": draw.randint(0, 500),
                "score": draw.choice([None, *(half / 2 for half in range(21))]),
                "urgent": draw.random() < 0.3,
            }
        )
        items = min(room, draw.randint(0, 4))
        room -= items
        for _ in range(items):
            amount = Decimal(draw.randint(0, 20_000)) / 100
            people["items"].append({"visit_id": visit, "drug": draw.choice("xyz"), "amount": amount})
    for _ in range(draw.randint(13, 60) if heavy else draw.randint(0, 12)):
        people["labs"].append(
            {
                "lab_id": len(people["labs"]) + 1,
                "patient_id": id,
                "code": draw.choice(["crp", "hdl", "ldl", "sbp"]),
                "value": draw.randint(0, 1024) / 2,
                "taken": FIRST_DAY + datetime.timedelta(days=draw.randrange(366)),
                "urgent": draw.random() < 0.1,
            }
        )


def _public() -> dict[str, pa.Table]:
    days = [FIRST_DAY + datetime.timedelta(days=day) for day in range(366)]
    return {
        "tests": pa.table({"code": ["crp", "hdl", "ldl", "sbp"], "panel": ["blood", "lipids", "lipids", "heart"]}),
        "days": pa.table(
            {
                "day": days,
                "month": [f"{day:%Y-%m}" for day in days],
                "quarter": [(day.month + 2) // 3 for day in days],
            }
        ),
        "bands": pa.table({"band": ["low", "middle", "high"], "low": [0, 100, 250], "high": [99, 249, 500]}),
    }


CONTRACTS = {
    "epsilon": {},
    "rho": {"budget: {epsilon: 1000000}": "budget: {rho: 1000000, delta: 0.5}", "epsilon: 1}": "rho: 1}"},
    "replace_one": {"neighbours: add_remove": "neighbours: replace_one"},
}
"""What is said otherwise in the catalog."""


def session(data: dict[str, pa.Table], folder: Path, contract: str = "epsilon") -> dp.Session:
    """Returns a session over the tables that stores no answers."""
    text = (HERE / "catalog.yaml").read_text(encoding="utf-8")
    for old, new in CONTRACTS[contract].items():
        text = text.replace(old, new)
    catalog = dp.Catalog.from_yaml(text)
    return dp.connect(catalog, data, ledger=dp.create_ledger(catalog, folder / "clinic.ledger"), reuse=False)


def plain(data: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """Returns DuckDB over the tables."""
    engine = duckdb.connect(":memory:")
    for name, table in data.items():
        engine.register(name, table)
    return engine


def plain_rows(engine: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """Returns the exact rows of a query in PostgreSQL's dialect, in any order."""
    return engine.sql(sqlglot.transpile(sql, read="postgres", write="duckdb")[0]).fetchall()
