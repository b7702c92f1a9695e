"""Turns of units for different values: one unit more takes none away and adds at most M, in every small world.

docs/proofs/weights.md, Theorem 4. The loop of the embedded engine and the reference interpreter are tried, and both
against a plain computation.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pandas as pd
import pytest

from dpquery.backends.duckdb.exact_results import matched
from dpquery.kernel.measures import LOOKED_AT
from dpquery.kernel.plan import Count, Key, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.logical import Scan, ScanColumn
from dpquery.plan.types import INT64
from tests.backends.engines import catalog_of, groups_of
from tests.reference.backend import ReferenceBackend

Pairs = tuple[int, ...]
"""The pairs of one unit, in the order in which it goes through them; even ones are of group 0, odd ones of group 1."""
Turns = Callable[[Sequence[Pairs], int], set[int]]


def in_turn(units: Sequence[Pairs], most: int) -> set[int]:
    """Returns the pairs that are stood for."""
    stood_for = set[int]()
    for pairs in units:
        stood_for |= set([pair for pair in pairs if pair not in stood_for][:most])
    return stood_for


def cut_to_what_is_free(units: Sequence[Pairs], most: int) -> set[int]:
    """Returns the same where lists are first cut to what no unit with few pairs has: it lacks the lemma."""
    sure = {pair for pairs in units if len(pairs) <= most for pair in pairs}
    return sure | in_turn([[p for p in pairs if p not in sure][:most] for pairs in units if len(pairs) > most], most)  # type: ignore[misc]


def worlds(units: int, pairs: int) -> Iterator[tuple[Pairs, ...]]:
    """Yields what each of so many units may have of so many pairs."""
    subsets = [s for size in range(pairs + 1) for s in itertools.combinations(range(pairs), size)]
    yield from itertools.product(subsets, repeat=units)


def worst(turns: Turns, most: int, units: int, pairs: int) -> tuple[bool, int]:
    """Returns whether one unit more ever takes a pair away, and the most that it adds; fewer pairs go first."""
    takes, adds = False, 0
    for world in worlds(units, pairs):
        ordered = sorted(world, key=len)
        whole = turns(ordered, most)
        for left_out in range(units):
            less = turns(ordered[:left_out] + ordered[left_out + 1 :], most)
            takes |= not less <= whole
            adds = max(adds, len(whole - less))
    return takes, adds


def looked_at(units: Sequence[Pairs], most: int) -> set[int]:
    """Returns the same where each unit looks at the first two of its pairs alone, whatever others have."""
    return in_turn([pairs[: max(2, most)] for pairs in units], most)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("turns", [in_turn, looked_at])
def test_one_unit_more_takes_no_pair_away_and_adds_at_most_m(turns: Turns, most: int) -> None:
    assert worst(turns, most, 3, 4) == (False, most)


def test_lists_that_are_cut_after_others_took_their_pairs_add_more() -> None:
    """So that the property is no formality: each list is a function of its unit alone, or the lemma is lost."""
    assert worst(cut_to_what_is_free, 1, 3, 4)[1] > 1


@pytest.mark.parametrize("most", [1, 2])
def test_a_loop_over_entries_is_the_same(most: int) -> None:
    for world in worlds(3, 4):
        assert looped(world, most, Random(repr(world))) == Counter(pair % 2 for pair in in_turn(world, most))


def looped(world: Sequence[Pairs], most: int, random: Random) -> Counter[int]:
    """Returns what the engine's last step counts in each group, of entries in any order."""
    entries = [(pair % 2, turn, pair + 1) for turn, pairs in enumerate(world, start=1) for pair in pairs]
    random.shuffle(entries)
    group, turn, place = np.array(entries, np.int64).reshape(-1, 3).T
    return Counter(dict(enumerate(matched(group, turn, place, groups=2, most=most).tolist())))


@pytest.mark.parametrize("most", [1, 3])
def test_many_entries_are_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole and in parts of a few entries, where a unit's are in several parts."""
    random = Random(f"many {most}")
    world = [tuple(sorted(random.sample(range(60), random.randint(0, 30)))) for _ in range(25)]
    expected = Counter(pair % 2 for pair in in_turn(world, most))
    assert looped(world, most, random) == expected
    monkeypatch.setattr("dpquery.backends.duckdb.exact_results._AT_ONCE", 7)
    assert looped(world, most, random) == expected


def test_without_entries_nothing_is_counted() -> None:
    assert matched(*np.zeros((3, 0), np.int64), groups=3, most=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize("most", [1, 2])
def test_turns_reach_half_of_a_largest_matching_at_least(most: int) -> None:
    for world in worlds(3, 4):
        assert 2 * len(in_turn(world, most)) >= largest(world, most)


def largest(world: Sequence[Pairs], most: int) -> int:
    """Returns the most pairs that units can stand for: by König, the least over sets of units of what they may
    stand for and what others have."""
    return min(
        len({pair for unit in others for pair in world[unit]})
        + sum(min(most, len(world[unit])) for unit in range(len(world)) if unit not in others)
        for size in range(len(world) + 1)
        for others in itertools.combinations(range(len(world)), size)
    )


CATALOG = catalog_of(
    {"v": {"unit": "u", "max_rows": 9, "columns": {name: {"type": "int64"} for name in ("u", "k", "x")}}}
)


def aggregate(most: int) -> PrivateAggregate:
    declared = CATALOG.tables["v"]
    columns = tuple(ScanColumn(id=f"v_{c.name}", name=c.name, type=c.type) for c in declared.columns.values())
    return PrivateAggregate(
        source=Scan(table="v", columns=columns, public=False, ownership=declared.ownership, unit="v_u"),
        unit="v_u",
        keys=(Key.of("v_k", INT64, (0, 1)),),
        weights=Weights(weighing=Weighing.COUNTED, max_rows=most),
        measures=(Measure(id="d", label="", count=Count.DISTINCT, value="v_x"),),
    )


@pytest.mark.parametrize("pairs", [1, LOOKED_AT])
def test_the_reference_interpreter_takes_turns_too(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rows, each unit left out, replaced by others, under one key."""
    monkeypatch.setattr("tests.reference.sums.LOOKED_AT", pairs)
    reached = 0
    for seed in range(120):
        random = Random(f"turns {seed}")
        rows = [tuple(random.randint(0, top) for top in (4, 1, 4)) for _ in range(random.randint(3, 30))]
        most, key = random.randint(1, 3), random.getrandbits(128)
        whole = counted(rows, most, key)
        values = {(k, x) for _, k, x in rows}
        assert all(whole[group] <= sum(k == group for k, _ in values) for group in whole)
        for unit in {row[0] for row in rows}:
            others = [row for row in rows if row[0] != unit]
            less = counted(others, most, key)
            assert all(whole[group] >= less[group] for group in (0, 1))
            assert whole.total() - less.total() <= most
            reached += whole.total() - less.total() == most
            instead = [(unit, random.randint(0, 1), random.randint(0, 9)) for _ in range(random.randint(1, 9))]
            replaced = counted([*others, *instead], most, key)
            steps = [replaced[group] - whole[group] for group in (0, 1)]
            assert max(map(abs, steps)) <= most and sum(map(abs, steps)) <= 2 * most
    assert reached > 100


def counted(rows: Sequence[tuple[int, ...]], most: int, key: int) -> Counter[int]:
    frame = pd.DataFrame(list(rows), columns=["u", "k", "x"], dtype="int64")
    backend, plan = ReferenceBackend(CATALOG, {"v": frame}), aggregate(most)
    found = groups_of(plan, backend.run(backend.prepare(plan), key))
    return Counter({int(str(group)): numbers[0] for (group,), numbers in found.items()})
