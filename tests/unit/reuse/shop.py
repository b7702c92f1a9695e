"""A small shop whose sessions share a ledger, for the tests of stored answers."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.reuse import least_squares, normal_equations

CATALOG = """\
version: 2
dataset: {DATASET}
privacy_unit: {UNIT}
budget: {BUDGET}
defaults: {epsilon: 1, least_charge: 1e-12}
tables:
  sales:
    {OWNER}
    columns:
      id: {type: int64}
      region: {type: text, keys: [east, north, west]}
      kind: {type: text, keys: [a, b]}
      site: {type: text, keys: [x, y], nullable: true}
      day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      price: {type: float64, lower: 0, upper: HIGH}
      score: {type: int64, lower: -5, upper: 20}
      town: {type: text}
"""
ROWS = 600


def catalog(
    *,
    unit: str = "row",
    budget: str = "{epsilon: 100000}",
    dataset: str = "shop",
    high: int = 100,
    most: int = 4,
    work: int = 10_000,
) -> dp.Catalog:
    """Returns the catalog; where the unit is the customer, the rows of each weigh `most`; some have more than four."""
    owner = "unique: []" if unit == "row" else f"unit: id\n    max_rows: {most}\n    max_groups: 2"
    words = {"{DATASET}": dataset, "{UNIT}": unit, "{BUDGET}": budget, "{OWNER}": owner, "HIGH": str(high)}
    text = f"{CATALOG}work: {work}\n"
    for word, meant in words.items():
        text = text.replace(word, meant)
    return dp.Catalog.from_yaml(text)


@cache
def sales(rows: int = ROWS) -> pa.Table:
    """Returns the rows: all keys are declared ones, but some sites are NULL."""
    draw = np.random.default_rng(7)
    days = np.datetime64("2024-01-01") + draw.integers(0, 366, rows).astype("timedelta64[D]")
    return pa.table(
        {
            "id": draw.integers(0, rows // 2, rows),
            "region": draw.choice(["east", "north", "west"], rows),
            "kind": draw.choice(["a", "b"], rows),
            "site": pa.array([None if x == "z" else str(x) for x in draw.choice(["x", "y", "z"], rows)]),
            "day": pa.array(days),
            "price": draw.integers(0, 100, rows) / 4,
            "score": draw.integers(-5, 21, rows),
            "town": draw.choice([f"town {n}" for n in range(4)], rows),
        }
    )


def allow_work(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Allows so much work for the exactness of an answer, which is found by descent."""
    monkeypatch.setattr(least_squares, "are_marginals", lambda tables, sizes: False)
    monkeypatch.setattr(normal_equations, "MOST_DENSE", 0)
    monkeypatch.setattr(normal_equations, "MOST_WORK", most)


class Kept:
    """An engine that stays open for the next session: most of a session's time is that of opening one."""

    def __init__(self, engine: DuckDBBackend) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Nothing."""


@cache
def _engine(declared: tuple[tuple[str, Any], ...], rows: int, process: int) -> Kept:
    """Returns an engine of this process over the rows."""
    return Kept(DuckDBBackend(catalog(**dict(declared)), {"sales": sales(rows)}))


class Shop:
    """One ledger, and sessions on it."""

    _declared: tuple[tuple[str, Any], ...] = ()

    def __init__(self, folder: Path, name: str = "shop.ledger", **declared: Any) -> None:
        self.catalog, self.path = catalog(**declared), folder / name
        self._declared = tuple(sorted(declared.items()))
        dp.create_ledger(self.catalog, self.path).close()
        self.store = folder / f"{name}.releases"

    def session(self, analyst: str = "ann", rows: int = ROWS, *, apart: bool = False, **options: Any) -> dp.Session:
        """Returns a new session, as of another process; but for its engine, unless that is asked for."""
        if apart:
            return dp.connect(self.catalog, {"sales": sales(rows)}, ledger=self.path, analyst=analyst, **options)
        engine: Any = _engine(self._declared, rows, os.getpid())
        ledger, given = dp.Ledger.open(self.path), {"reuse": True, **options}
        version = ledger.data_version
        return dp.Session(self.catalog, backend=engine, ledger=ledger, analyst=analyst, data_version=version, **given)

    def entries(self) -> int:
        """Returns how often was charged."""
        return len(dp.Ledger.open(self.path).entries())
