"""Which units decide about which selected groups, in DuckDB: a cut by hash keeps what an order of all groups says."""

from __future__ import annotations

from collections import Counter, defaultdict

import duckdb
import pytest

from dpquery.backends.duckdb.sql.distinct_sql import IN_TURN, deciding_units, held_by_units
from dpquery.kernel.measures import CONSIDERED

KEYS = ["key0", "key1"]
HASHES = {"one for each group": "hash(unit, key0, key1)", "many ties": "hash(key0) % 7", "one for all": "0"}
ROWS = (
    "SELECT range % 5 AS unit, CASE WHEN range % 9 > 0 THEN (range * 17) % most END AS key0, "
    "CASE WHEN range % 4 > 0 THEN 'k' || range % 3 END AS key1 FROM range({rows}), (SELECT CASE WHEN {rows} > 99 THEN "
    "151 ELSE 3 END AS most)"
)
"""Of five units; a NULL is a key as others are."""


@pytest.mark.parametrize("numbers", [[], ["number0"]], ids=["alone", "with sums"])
@pytest.mark.parametrize("hashed", HASHES.values(), ids=HASHES)
@pytest.mark.parametrize("rows", [0, 8, 330, 3_000])
def test_units_decide_about_the_groups_that_are_first_by_hash(hashed: str, rows: int, numbers: list[str]) -> None:
    """Of no unit, of some with few groups, of some with about as many as are considered, and of some with many."""
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE given AS {ROWS.format(rows=rows)}")
        held = held_by_units("given", KEYS, ["COUNT(*) AS number0"], hashed)
        found = engine.execute(f"WITH held AS ({held}) FROM ({deciding_units('held', KEYS, 3, numbers)})").fetchall()
        summed = engine.execute("SELECT key0, key1, COUNT(*) FROM given GROUP BY ALL").fetchall()
        all_in_order = engine.execute(
            f"SELECT unit, key0, key1, row_number() OVER (PARTITION BY unit ORDER BY {hashed}, key0, key1) "
            f"FROM (SELECT DISTINCT unit, key0, key1 FROM given) QUALIFY row_number() OVER "
            f"(PARTITION BY unit ORDER BY {hashed}, key0, key1) <= {CONSIDERED}"
        ).fetchall()
    by_turn, by_unit = (defaultdict[int, set[tuple[object, ...]]](set) for _ in range(2))
    for key0, key1, *_, counted, deciding in found:
        assert counted == len(deciding or ())
        for entry in deciding or ():
            by_turn[entry // IN_TURN].add((key0, key1, entry % IN_TURN))
    for unit, *group_and_place in all_in_order:
        by_unit[unit].add(tuple(group_and_place))
    assert Counter(map(frozenset, by_turn.values())) == Counter(map(frozenset, by_unit.values()))
    if numbers:
        assert {(*group, n) for *group, n, _, _ in found if n is not None} == set(summed)
