"""The backends under test, and what they give in a form that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.features import NO_GAPS, Feature, features_of
from dpquery.catalog import Catalog
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.plan import CHOICES, Key, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation, output
from dpquery.plan.types import Value
from tests.reference.backend import ReferenceBackend

Frames = Mapping[str, pd.DataFrame]
Engine = Callable[[Catalog, Frames], Backend]
Groups = dict[tuple[Value, ...], tuple[int, ...]]
Histograms = list[dict[tuple[object, ...], int]]

ENGINES: dict[str, Engine] = {"reference": ReferenceBackend, "duckdb": DuckDBBackend}
KEY = 0x0123456789ABCDEF_FEDCBA9876543210
NotOwed: type[BaseException] = pytest.xfail.Exception
"""Ends a test that asks for what a backend lacks, or one of its plans."""


class Held:
    """A backend whose `prepare` is held to its gaps: it refuses a plan if, and only if, it lacks something for it."""

    gaps = NO_GAPS  # so that planning refuses nothing before `prepare` could

    def __init__(self, backend: Backend, catalog: Catalog) -> None:
        self._backend, self.catalog = backend, catalog
        self.refusing = backend.prepare

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def prepare(self, aggregate: PrivateAggregate) -> Any:
        """Returns the statement, or ends the test where none is owed."""
        gaps = self._backend.gaps
        lacking = [feature for feature in Feature if feature in features_of(aggregate, self.catalog) & gaps.keys()]
        if not lacking:
            return self._backend.prepare(aggregate)
        with pytest.raises(UnsupportedQueryError):
            self._backend.prepare(aggregate)
        return _not_owed(lacking[0], gaps[lacking[0]].word)


def owed(backend: Any, plan: PrivateAggregate) -> PrivateAggregate:
    """Returns a plan without the measures that a backend lacks, whose whole plan it then has to refuse."""
    if not backend.gaps:
        return plan
    others = features_of(replace(plan, measures=(), selection=None), backend.catalog)

    def lacks(measure: Measure) -> bool:
        alone = features_of(replace(plan, measures=(measure,), selection=None), backend.catalog)
        return bool((alone - others) & backend.gaps.keys())

    kept = tuple(measure for measure in plan.measures if not lacks(measure))
    if kept in ((), plan.measures) or plan.is_selected:
        return plan
    with pytest.raises(UnsupportedQueryError):
        backend.refusing(plan)
    return replace(plan, measures=kept)


def _not_owed(feature: Feature, word: str) -> NoReturn:
    pytest.xfail(f"{word}: {feature.value}")


@cache
def held(engine: Engine) -> Engine:
    """Returns a constructor of the same backends, each held to its gaps; the same for the same."""

    def opened(catalog: Catalog, frames: Frames) -> Any:
        return Held(engine(catalog, frames), catalog)

    return opened


def catalog_of(tables: Mapping[str, object], *, unit: str = "person", **more: Any) -> Catalog:
    """Returns a catalog of these tables, with a budget that tests do not exhaust."""
    budget = {"epsilon": 1000, "delta": "1/1000"}
    more = {"defaults": {"least_charge": "1e-12"}} | more
    return Catalog(dataset="test", privacy_unit=unit, tables=tables, budget=budget, **more)


def groups_of(aggregate: PrivateAggregate, exact: ExactAggregates) -> Groups:
    """Returns the measures of each group by its key values; of public groups those that are not all 0.

    Fails if the shape is not the one that the kernel is promised.
    """
    assert len(exact.keys) == len(aggregate.keys)
    assert len(exact.numbers) == len(aggregate.measures)
    assert len({len(column) for column in (*exact.keys, *exact.numbers)}) <= 1
    check_histograms(aggregate, exact)
    columns: list[list[tuple[Value, ...]]] = []
    for key, values in zip(aggregate.keys, exact.keys, strict=True):
        assert values.dtype == (object if key.domain is None else np.int64)
        columns.append(_values(key, values))
    for numbers in exact.numbers:
        assert numbers.dtype == np.int64 or all(type(number) is int for number in numbers)
    count = len(exact.numbers[0]) if exact.numbers else 0
    groups: Groups = {}
    for index in range(count):
        group = tuple(value for column in columns for value in column[index])
        assert group not in groups, "a group was returned twice"
        groups[group] = tuple(int(numbers[index]) for numbers in exact.numbers)
    if not aggregate.keys:
        assert len(groups) == 1, "a grand total has one row"
    if aggregate.is_selected or not aggregate.keys:
        return groups
    return {group: numbers for group, numbers in groups.items() if any(numbers)}


def check_histograms(aggregate: PrivateAggregate, exact: ExactAggregates) -> None:
    """Fails unless each choice has a histogram whose weights add up to its number in each group, each value once."""
    numbers = [n for n, m in zip(exact.numbers, aggregate.measures, strict=True) if m.count in CHOICES]
    for total, histogram in zip(numbers, exact.histograms, strict=True):
        assert {column.dtype for column in (histogram.group, histogram.value, histogram.weight)} == {np.dtype("int64")}
        pairs = list(zip(histogram.group.tolist(), histogram.value.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        added = np.zeros(len(total), np.int64)
        np.add.at(added, histogram.group, histogram.weight)
        assert added.tolist() == total.tolist()
        assert (histogram.weight > 0).all()


def histograms(backend: Backend, aggregate: PrivateAggregate, key: int = KEY) -> Histograms:
    """Returns the histogram of each choice: the weight of each value by (key values, value)."""
    return histograms_of(aggregate, backend.run(backend.prepare(aggregate), key))


def both(backend: Backend, aggregate: PrivateAggregate, key: int = KEY) -> tuple[Groups, Histograms]:
    """Returns the groups and the histograms of one run."""
    exact = backend.run(backend.prepare(aggregate), key)
    return groups_of(aggregate, exact), histograms_of(aggregate, exact)


def histograms_of(aggregate: PrivateAggregate, exact: ExactAggregates) -> Histograms:
    """Returns the histogram of each choice in comparable form."""
    found: Histograms = []
    columns = [_values(key, values) for key, values in zip(aggregate.keys, exact.keys, strict=True)]
    for histogram in exact.histograms:
        triples = zip(*(c.tolist() for c in (histogram.group, histogram.value, histogram.weight)), strict=True)
        found.append(
            {(*(v for column in columns for v in column[group]), value): weight for group, value, weight in triples}
        )
    return found


def run(backend: Backend, aggregate: PrivateAggregate, key: int = KEY) -> Groups:
    """Returns what a backend gives for a private aggregate, in comparable form."""
    return groups_of(aggregate, backend.run(backend.prepare(aggregate), key))


def rows_of(backend: Backend, relation: Relation, released: tuple[Any, ...] = ()) -> list[tuple[Value, ...]]:
    """Returns the rows of a public relation, each a tuple in the order of its columns."""
    table = backend.evaluate(relation, released)
    assert table.column_names == [column.id for column in output(relation)]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def sorted_rows(rows: list[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """Returns rows in an order of their own, so that they can be compared as bags."""
    return sorted(rows, key=lambda row: [(value is None, str(type(value)), str(value)) for value in row])


def _values(key: Key, values: NDArray[Any]) -> list[tuple[Value, ...]]:
    """Returns what the columns of a key hold in each group."""
    return [(_plain(value),) if key.domain is None else key.domain[value] for value in values]


def _plain(value: Any) -> Value:
    plain: Value = value.item() if isinstance(value, np.generic) else value
    return plain
