"""Prepared data in any number of shards: bit for bit the integers of the sources themselves."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.plan import PrivateAggregate
from tests.backends.conformance.test_random import batches, bounded, made
from tests.backends.engines import KEY, both
from tests.backends.plans import MANY
from tests.backends.prepared import prepared

SHARDS = (1, 3, 7)
FAST, SLOW = range(4_000, 4_030), range(5_000, 5_400)


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


@pytest.mark.parametrize("shards", SHARDS)
def test_random_plans(shards: int) -> None:
    check(FAST, shards)


@pytest.mark.slow
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("seeds", batches(SLOW), ids=str)
def test_many_random_plans(seeds: range, shards: int) -> None:
    check(seeds, shards)
