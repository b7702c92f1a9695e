"""What DuckDB hands over of different values that several units could stand for: few entries of each unit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dpquery.backends.duckdb import exact_results
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.sql import distinct_sql
from dpquery.kernel.measures import LOOKED_AT
from dpquery.kernel.plan import Weighing
from tests.backends.conformance import test_merges as merges
from tests.backends.engines import KEY, run

CASE = merges.Case


@pytest.mark.parametrize("most", [1, 3])
def test_what_a_unit_hands_over_is_bounded(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """WRK-02: a unit with any number of values has LOOKED_AT times M entries at most outside of the engine."""
    sizes: list[dict[int, int]] = []
    matched = exact_results.matched

    def seen(group: Any, turn: Any, place: Any, **given: int) -> Any:
        sizes.append(Counter(turn.tolist()))
        return matched(group, turn, place, **given)

    monkeypatch.setattr(exact_results, "matched", seen)
    rows = merges.owners([(1, x) for x in range(900)] + [(2, x) for x in range(800, 830)] + [(3, 1)])
    backend = merges.opened(DuckDBBackend, rows)
    plan = merges.planned(CASE(Weighing.COUNTED, most), (), merges.DIFFERENT)
    assert run(backend, plan, KEY) == {(): (2 * most + 1,)}
    (entries,) = sizes
    assert max(entries.values()) == LOOKED_AT * most and sum(entries.values()) <= LOOKED_AT * most + 30


@pytest.mark.thinned(2)
@pytest.mark.parametrize("looked_at", [1, 2])
@pytest.mark.parametrize("keys", ["none", "apart"])
def test_one_unit_takes_no_value_away_where_few_are_looked_at(
    keys: str, looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distinct_sql, "LOOKED_AT", looked_at)
    merges.test_one_unit_takes_no_different_value_away_and_adds_few(DuckDBBackend, keys)
