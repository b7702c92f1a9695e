"""Databases of random worlds, in either engine, as `dpquery.auditing` looks at them; here what it finds is an error."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pandas as pd
import pyarrow as pa

import dpquery as dp
from dpquery.auditing import databases
from dpquery.auditing.databases import Opens, visible
from dpquery.auditing.inputs import (
    AuditedPlan,
    Group,
    Groups,
    Norms,
    Weights,
    changes,
    claimed,
    compare,
    norms_of,
    realised_loss,
)
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.session.options import Options
from tests.properties.queries import Query
from tests.reference.backend import ReferenceBackend

__all__ = [
    "ENGINES",
    "AuditedPlan",
    "Database",
    "Group",
    "Groups",
    "Hall",
    "Norms",
    "Weights",
    "changes",
    "check_inputs",
    "claimed",
    "folder",
    "norms_of",
    "realised_loss",
    "reference",
    "visible",
]
EPSILON = "1"


def reference(catalog: dp.Catalog, sources: Mapping[str, pa.Table]) -> ReferenceBackend:
    """Returns the reference interpreter over Arrow tables."""
    frames = {
        name: pd.DataFrame({c: pd.Series(table[c].to_pylist(), dtype=object) for c in table.column_names})
        for name, table in sources.items()
    }
    return ReferenceBackend(catalog, frames)


ENGINES: dict[str, Opens] = {"duckdb": DuckDBBackend, "reference": reference}


class Hall:
    """Databases of the same catalog under one ledger, in an engine by its name."""

    def __init__(self, catalog: dp.Catalog, folder: str, engine: str = "duckdb") -> None:
        self._hall = databases.Hall(catalog, folder, ENGINES[engine])
        self.catalog, self.ledger = self._hall.catalog, self._hall.ledger

    def open(self, sources: Mapping[str, object]) -> Database:
        """Returns a database of these tables."""
        return Database(self._hall.open(sources))


@contextmanager
def folder() -> Iterator[str]:
    """A directory for ledgers, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dpquery-") as name:
        yield name


def options_of(query: Query) -> Options:
    """Returns what a random query asks."""
    return Options(epsilon=EPSILON, max_groups=query.max_groups, max_rows=query.max_rows)


class Database:
    """One database, asked random queries."""

    def __init__(self, opened: databases.AuditedDatabase) -> None:
        self.opened, self.hall = opened, opened.hall
        self.backend, self.session = opened.backend, opened.session

    def prepare(self, query: Query) -> AuditedPlan:
        """Returns what would be measured; raises QueryError for what is refused."""
        return self.opened.prepare(query.text, options_of(query))

    def explain(self, query: Query) -> dp.Plan:
        """Returns the plan as an analyst sees it."""
        return self.opened.explain(query.text, options_of(query))

    def preview(self, query: Query) -> tuple[object, ...]:
        """Returns all that an analyst sees before any charge: the plan, its price and its columns, or the error."""
        return self.opened.preview(query.text, options_of(query))

    def answer(self, query: Query) -> dp.Result:
        """Returns the answer."""
        return self.opened.answer(query.text, options_of(query))

    def inputs(self, prepared: AuditedPlan, key: int) -> tuple[Groups, ...]:
        """Returns the exact numbers of every aggregate of a plan: what noise will be added to."""
        return self.opened.inputs(prepared, key)


def check_inputs(prepared: AuditedPlan, left: Sequence[Groups], right: Sequence[Groups], label: str) -> bool:
    """Asserts that the inputs differ by no more than the plan declares; returns whether they differ at all."""
    found = compare(prepared, left, right)
    assert not found.problems, f"{label}: {found.problems[0]}"
    return found.moved
