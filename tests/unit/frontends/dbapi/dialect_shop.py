"""A small shop on disk, for the tests of the DB-API and of the SQLAlchemy dialect."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import dpquery as dp

CATALOG = """\
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 4}
defaults: {epsilon: "0.5", max_groups: 1, max_rows: 1}
tables:
  visits:
    unit: person
    description: one row each
    columns:
      person: {type: int64}
      town: {type: text, keys: [east, west, north]}
      spent: {type: float64, lower: 0, upper: 100, nullable: true, description: in euro}
      price: {type: "decimal(8,2)", lower: 0, upper: 100}
      day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
      at: {type: timestamp}
      old: {type: boolean}
  people:
    unit: id
    unique: [[id]]
    columns: {id: {type: int64}, age: {type: int64, lower: 0, upper: 120}}
  items:
    unit: {via: people, on: {owner: id}}
    columns: {owner: {type: int64}, worth: {type: int64, lower: 0, upper: 10}}
  towns:
    public: true
    unique: [[town, size], [town]]
    columns: {size: {type: int64}, town: {type: text}}
"""
BY_TOWN = "SELECT town, COUNT(*) AS n, AVG(spent) AS mean FROM visits GROUP BY town"


def write_shop(folder: Path) -> Path:
    """Writes the catalog, its data and a new ledger; returns the catalog's path."""
    people = range(1200)
    visits = {
        "person": list(people),
        "town": [("east", "west", "west")[i % 3] for i in people],
        "spent": [20.0] * 1200,
        "price": [1.25] * 1200,
        "day": [f"2020-0{1 + i % 2}-01" for i in people],
        "at": ["2020-05-06 07:08:09"] * 1200,
        "old": [i % 2 == 0 for i in people],
    }
    pd.DataFrame(visits).to_csv(folder / "visits.csv", index=False)
    pd.DataFrame({"id": people, "age": [i % 80 for i in people]}).to_parquet(folder / "people.parquet")
    pd.DataFrame({"owner": people, "worth": [3] * 1200}).to_parquet(folder / "items.parquet")
    pd.DataFrame({"town": ["east", "west"], "size": [3, 4]}).to_csv(folder / "towns.csv", index=False)
    path = folder / "shop.yaml"
    path.write_text(CATALOG)
    dp.create_ledger(dp.Catalog.load(path), folder / "shop.ledger").close()
    return path


def charges(catalog: Path) -> int:
    """Returns how many queries were charged."""
    return len(dp.Ledger.open(catalog.with_suffix(".ledger")).entries())
