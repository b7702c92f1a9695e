"""Prepared data in any number of shards: bit for bit the integers of the sources themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.plan import Count, PrivateAggregate
from tests.backends.conformance import test_merges as merges
from tests.backends.conformance.test_random import batches, bounded, made
from tests.backends.engines import KEY, both
from tests.backends.plans import MANY
from tests.backends.prepared import prepared

SHARDS = (3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 7)))
FAST, SLOW = range(4_000, 4_005), range(5_000, 5_400)


def pairs(backend: Backend, plan: PrivateAggregate) -> list[str]:
    """Returns which groups each unit decides about, in its order; units are numbered in any way."""
    exact = backend.run(backend.prepare(plan), KEY)
    if exact.pairs is None:
        return []
    keys = list(zip(*(column.tolist() for column in exact.keys), strict=True))
    found: dict[int, list[str]] = {}
    for group, unit, place in zip(exact.pairs.group, exact.pairs.unit, exact.pairs.place, strict=True):
        found.setdefault(int(unit), []).append(f"{place}: {keys[group]}")
    return sorted(str(sorted(own)) for own in found.values())


def check(seeds: Iterable[int], shards: int) -> None:
    """Compares random plans over random tables."""
    for seed in seeds:
        data, plan = made(seed)
        tested, whole = prepared(shards)(data.catalog, data.frames), DuckDBBackend(data.catalog, data.frames)
        for one in (plan, bounded(plan, MANY, 2), bounded(plan, 2, 2), bounded(plan, 1, 5)):
            assert both(tested, one) == both(whole, one), seed
            assert pairs(tested, one) == pairs(whole, one), seed


@pytest.fixture(scope="module", params=SHARDS)
def both_forms(request: pytest.FixtureRequest) -> tuple[Backend, Backend]:
    """One table of few units with many rows, prepared and as it is."""
    rows = merges.data(300, 11)
    return merges.opened(prepared(request.param), rows), merges.opened(DuckDBBackend, rows)


KEYS = {name: merges.PUBLIC[name] for name in ("none", "apart")} | {"selected": merges.SELECTED}
DECIDING = replace(merges.UNITS, count=Count.DECIDING)
CHOICES = (merges.HALF, merges.MOST, replace(merges.HALF, id="q2", value="v_wide", lattice=merges.WIDE))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("groups", [1, 100])
@pytest.mark.parametrize("case", [merges.CASES[i] for i in (0, 1, 5)])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_every_measure(both_forms: tuple[Backend, Backend], keys: merges.Keys, case: merges.Case, groups: int) -> None:
    """Each kind by itself and beside others, also of groups in which units of one shard have rows and those of another
    count."""
    tested, whole = both_forms
    units = [merges.UNITS, DECIDING] if keys is merges.SELECTED else [merges.UNITS]
    plans = [merges.planned(case, keys, one, *merges.LINEAR, groups=groups) for one in units]
    plans.append(merges.planned(case, keys, merges.UNITS, merges.SOME, *CHOICES, groups=groups))
    plans.append(merges.planned(case, keys, merges.UNITS, merges.DIFFERENT, merges.HALF, groups=groups))
    for plan in plans:
        assert both(tested, plan) == both(whole, plan)
        assert pairs(tested, plan) == pairs(whole, plan)


def test_what_is_read_shard_by_shard_is_not_read_at_once() -> None:
    """Only counts of different values are read over all shards at once; of all else no statement names two files."""
    backend = merges.opened(prepared(3), merges.data(30, 1))
    plan = merges.planned(merges.CASES[1], (), merges.UNITS, *merges.LINEAR)
    statement = backend.prepare(plan)
    assert [part.count(".parquet") for part in statement.parts] == [1, 1, 1] and ".parquet" not in statement.text
    at_once = backend.prepare(replace(plan, measures=(merges.DIFFERENT,)))
    assert not at_once.parts and at_once.text.count(".parquet") >= 3


@pytest.mark.parametrize("shards", SHARDS)
def test_random_plans(shards: int) -> None:
    check(FAST, shards)


@pytest.mark.slow
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("seeds", batches(SLOW), ids=str)
def test_many_random_plans(seeds: range, shards: int) -> None:
    check(seeds, shards)
