"""What executors return for parts of the rows, added up: bit for bit the integers of all rows, without Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.private_statements import PreparedAggregate, adds_up
from dpquery.backends.resources import Resources
from dpquery.backends.spark.executors import (
    MARKER,
    PART,
    TABLE,
    Job,
    column_name,
    joined,
    of_shards,
    sources_of_part,
    stamp_of,
)
from dpquery.catalog import Catalog
from dpquery.data.prepared import PreparedTable
from dpquery.errors import BackendError
from dpquery.kernel.release import ExactAggregates
from tests.backends.conformance import test_merges as merges
from tests.backends.conformance.test_random import bounded, made
from tests.backends.engines import Engine, both
from tests.backends.prepared import prepared
from tests.backends.test_shards import CHOICES, DECIDING, KEYS, pairs

FAST, SLOW = range(6_000, 6_004), range(7_000, 7_100)
NOTHING = SimpleNamespace(value={})


class InParts(DuckDBBackend):
    """Reads a prepared folder as executors do, in this process."""

    def __init__(self, catalog: Catalog, sources: Mapping[str, Any]) -> None:
        super().__init__(catalog, sources)
        self.job: dict[str, Any] = {
            "catalog": catalog,
            "public": NOTHING,
            "private": {},
            "is_cut": False,
            "prepared": sources,
            "stamps": {file: stamp_of(file) for table in sources.values() for file in table.files},
            "resources": Resources(),
        }

    def run(self, statement: PreparedAggregate, key: int) -> ExactAggregates:
        shards = max(len(table.shards) for table in self.job["prepared"].values())
        count = shards if adds_up(statement.aggregate) else 1
        numbers = range(count) if adds_up(statement.aggregate) else [MARKER]
        job = Job(**self.job, aggregate=statement.aggregate, key=key)
        tasks = [pa.Table.from_batches(of_shards(job, iter([numbered(i)]))) for i in numbers]
        return self.added(statement, joined(pa.concat_tables(tasks[::-1]), count))


def numbered(i: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([i])], names=["id"])


def in_parts(shards: int) -> Engine:
    return prepared(shards, InParts)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_every_measure(keys: merges.Keys) -> None:
    rows, case = merges.data(300, 11), merges.CASES[1]
    tested, whole = merges.opened(in_parts(2), rows), merges.opened(DuckDBBackend, rows)
    unit = DECIDING if keys is merges.SELECTED else merges.UNITS
    plans = [merges.planned(case, keys, unit, *merges.LINEAR, groups=1)]
    plans.append(merges.planned(case, keys, merges.UNITS, merges.SOME, *CHOICES, groups=1))
    plans.append(merges.planned(case, keys, merges.UNITS, merges.DIFFERENT, merges.HALF, groups=1))
    for plan in plans:
        assert both(tested, plan) == both(whole, plan)
    assert pairs(tested, plans[0]) == pairs(whole, plans[0])


@pytest.mark.parametrize("seeds", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)], ids=str)
def test_random_plans(seeds: range) -> None:
    for seed in seeds:
        data, plan = made(seed)
        tested, whole = in_parts(2)(data.catalog, data.frames), DuckDBBackend(data.catalog, data.frames)
        for one in (plan, bounded(plan, 2, 2)):
            assert both(tested, one) == both(whole, one), seed


# What is not counted.


def returned(*rows: tuple[int, int, int]) -> pa.Table:
    """Returns pieces of parts: the part, the piece and how many there are, each with one number."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"n": pa.int64()})) as stream:
        stream.write_batch(pa.record_batch([pa.array([1])], names=["n"]))
    data = [sink.getvalue().to_pybytes()] * len(rows)
    columns = dict(zip(("part", "piece", "pieces"), zip(*rows, strict=True), strict=True))
    return pa.table({**columns, "data": data})


def test_each_part_and_piece_is_there_once() -> None:
    whole = [(1, 0, 1), (0, 1, 2), (0, 0, 2)]
    assert [len(part) for part in joined(returned(*whole), 2)] == [2, 1]
    assert len(joined(returned(*whole), None)) == 2
    for i, row in enumerate(whole):
        for wrong in ([*whole, row], whole[:i] + whole[i + 1 :]):
            with pytest.raises(BackendError, match=r"a part (was returned twice|is missing)"):
                joined(returned(*wrong), 2)
    with pytest.raises(BackendError, match="missing"):
        joined(returned(*whole, (2, 0, 1)), 2)


def test_rows_of_another_part_are_not_read() -> None:
    schema = pa.schema({"u": pa.int64(), "x": pa.string()})
    job: Any = SimpleNamespace(private={"v": schema, "w": schema}, is_cut=True)

    def batches(part: int) -> list[pa.RecordBatch]:
        first, second = column_name(0, 0), column_name(1, 1)
        columns = {TABLE: [0, 1, MARKER], PART: [1, part, 1], first: [7, None, None], second: [None, "a", None]}
        made: list[pa.RecordBatch] = pa.table(columns).to_batches()
        return made

    found = sources_of_part(job, 1, batches(1))
    assert [table.to_pylist() for table in found.values()] == [[{"u": 7, "x": None}], [{"u": None, "x": "a"}]]
    with pytest.raises(BackendError, match="another part"):
        sources_of_part(job, 1, batches(0))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_is_not_the_drivers_is_not_read(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = merges.opened(in_parts(2), merges.data(30, 1))
    assert isinstance(backend, InParts)
    statement = backend.prepare(merges.planned(merges.CASES[1], (), merges.UNITS))
    (table,) = backend.job["prepared"].values()
    assert isinstance(table, PreparedTable)
    job = Job(**backend.job, aggregate=statement.aggregate, key=5)

    part = DuckDBBackend.part

    def touched(*given: Any) -> pa.Table:
        made = part(*given)
        os.utime(table.files[1], ns=(0, 0))
        return made

    list(of_shards(job, iter([numbered(1)])))
    if when == "before":
        os.utime(table.files[1], ns=(0, 0))
    else:
        monkeypatch.setattr(DuckDBBackend, "part", touched)
    with pytest.raises(BackendError) as caught:
        list(of_shards(job, iter([numbered(1)])))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert str(caught.value).startswith("BackendError at dpquery.backends.spark.executors")
