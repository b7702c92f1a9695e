"""A small clinic to attack: its catalog, its rows, and a session whose every reading of private rows is counted."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import QueryError
from dpquery.kernel.release import ExactAggregates
from dpquery.ledger.ledger import Ledger
from dpquery.plan.logical import Relation
from dpquery.plan.types import Value
from dpquery.result.table import Result
from dpquery.session.session import Session

PEOPLE = 60
BUDGET = "{epsilon: 10000, delta: 1e-2}"
CATALOG = """
version: 2
dataset: clinic
privacy_unit: person
budget: BUDGET
defaults: {max_groups: 2, max_rows: 3, least_charge: 1e-12}
tables:
  people:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      age: {type: int64, lower: 0, upper: 100}
      sex: {type: text, keys: [F, M]}
      town: {type: text}
  visits:
    unit: id
    max_rows: 5
    columns:
      id: {type: int64}
      visit: {type: int64}
      day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
      moment: {type: timestamp, lower: 2020-01-01 00:00, upper: 2020-12-31 00:00}
      cost: {type: float64, lower: -10, upper: 40, nullable: true}
      loss: {type: int64, lower: -80, upper: -20}
      fixed: {type: int64, lower: 5, upper: 5}
      big: {type: int64, lower: 0, upper: 1000000000000000000}
      price: {type: "decimal(10,2)", lower: 0, upper: 100}
      free: {type: float64}
      ward: {type: text, keys_from: wards.code}
      note: {type: text}
      urgent: {type: boolean}
  referrals:
    unit: id
    columns:
      id: {type: int64}
      referrer: {type: int64}
  flags:
    unit: {via: visits, on: {visit: visit}}
    columns:
      visit: {type: int64}
      flag: {type: text, keys: [high, low]}
  wards:
    public: true
    unique: [[code]]
    columns: {code: {type: text}, floor: {type: int64, lower: 0, upper: 9}}
  tags:
    public: true
    columns: {code: {type: text}, tag: {type: text}}
"""


def frames(seed: int = 1) -> dict[str, pd.DataFrame]:
    """Returns the clinic's rows, without anything odd."""
    draw = np.random.default_rng(seed)
    rows = 3 * PEOPLE
    people = pd.DataFrame(
        {
            "id": range(PEOPLE),
            "age": draw.integers(0, 101, PEOPLE),
            "sex": draw.choice(["F", "M"], PEOPLE),
            "town": draw.choice(["east", "west"], PEOPLE),
        }
    )
    visits = pd.DataFrame(
        {
            "id": draw.integers(0, PEOPLE, rows),
            "visit": range(rows),
            "day": pd.to_datetime(draw.choice(["2020-03-01", "2020-06-07"], rows)),
            "moment": pd.to_datetime(draw.choice(["2020-03-01 10:00", "2020-06-07 11:11"], rows)),
            "cost": draw.uniform(-10, 40, rows),
            "loss": draw.integers(-80, -19, rows),
            "fixed": 5,
            "big": draw.integers(0, 10**18, rows),
            "price": draw.integers(0, 10_000, rows) / 100,
            "free": draw.uniform(-1e6, 1e6, rows),
            "ward": draw.choice(["x", "y", "z"], rows),
            "note": draw.choice(["cough", "fever"], rows),
            "urgent": draw.random(rows) < 0.5,
        }
    )
    return {
        "people": people,
        "visits": visits,
        "referrals": pd.DataFrame({"id": range(10), "referrer": range(1, 11)}),
        "flags": pd.DataFrame({"visit": range(20), "flag": ["high", "low"] * 10}),
        "wards": pd.DataFrame({"code": ["x", "y", "z", "empty"], "floor": [1, 2, 3, 4]}),
        "tags": pd.DataFrame({"code": ["x", "x", "x", "y"], "tag": ["a", "b", "c", "a"]}),
    }


class Watched:
    """A backend that counts how often private rows are read."""

    def __init__(self, inner: DuckDBBackend) -> None:
        self.inner = inner
        self.runs = 0
        self.exact: list[ExactAggregates] = []

    def run(self, statement: Any, key: int) -> ExactAggregates:
        self.runs += 1
        exact = self.inner.run(statement, key)
        self.exact.append(exact)
        return exact

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[tuple[Value, ...], ...]:
        return self.inner.public_rows(table, columns)

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        return self.inner.evaluate(relation, released)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def in_memory(owner: object, folder: Path) -> Path:
    """Returns a new folder in memory, where there is one, that goes with its owner."""
    if not os.access("/dev/shm", os.W_OK):
        return folder
    made = tempfile.mkdtemp(dir="/dev/shm")
    weakref.finalize(owner, shutil.rmtree, made, ignore_errors=True)
    return Path(made)


class Clinic:
    """A session over the clinic, its ledger's file, and its watched backend."""

    def __init__(
        self,
        folder: Path,
        *,
        tables: Mapping[str, object] | None = None,
        catalog: str = CATALOG,
        budget: str = BUDGET,
        analyst: str = "alice",
    ) -> None:
        self.catalog = Catalog.from_yaml(catalog.replace("BUDGET", budget))
        self.path = in_memory(self, folder) / "clinic.ledger"
        self.ledger = Ledger.create(self.path, self.catalog.declarations, self.catalog.budget, self.catalog.analysts)
        given: dict[str, object] = {**frames(), **(tables or {})}
        given = {name: given[name] for name in self.catalog.tables}
        self.backend = Watched(DuckDBBackend(self.catalog, given))
        self.session = self.login(analyst)

    def login(self, analyst: str) -> Session:
        """Returns one more session over the same rows and the same ledger."""
        return Session(self.catalog, backend=self.backend, ledger=self.ledger, analyst=analyst, reuse=False)

    def sql(self, query: str, **options: Any) -> Result:
        """Answers a query; by default for an epsilon of 1."""
        if not {"epsilon", "rho"} & options.keys():
            options["epsilon"] = 1
        return self.session.sql(query, **options)

    def rows(self, query: str, **options: Any) -> list[tuple[Any, ...]]:
        """Returns an answer as tuples."""
        table = self.sql(query, **options).to_arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def one(self, query: str, **options: Any) -> Any:
        """Returns the only cell of an answer."""
        ((value,),) = self.rows(query, **options)
        return value

    def refuses(self, query: str, kind: type[QueryError] = QueryError, **options: Any) -> QueryError:
        """Returns the error of a query that must be refused before a private row is read or anything is charged."""
        refused = self.attempt(query, kind, **options)
        assert refused is not None, f"answered: {query}"
        return refused

    def attempt(self, query: str, kind: type[QueryError] = QueryError, **options: Any) -> QueryError | None:
        """Returns None for a query that is answered, and else its error, which comes before a private row is read or
        anything is charged."""
        before, runs = self.path.read_bytes(), self.backend.runs
        if not {"epsilon", "rho"} & options.keys():
            options["epsilon"] = 1
        try:
            self.session.sql(query, **options)
        except kind as error:
            caught = error
        else:
            return None
        with pytest.raises(kind):
            self.session.explain(query, **options)
        assert self.backend.runs == runs
        assert self.path.read_bytes() == before
        assert str(caught)
        return caught
