"""Every kind of integer that leaves a backend, under every weighing: bit for bit those of the reference.

These are the kinds that shards merge in ways of their own: sums, histograms, sets of different values, units, selected
groups. What a hash decides is compared by what is proved of it.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpquery.backends.base import Backend
from dpquery.kernel.measures import CONSIDERED
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.expr import Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Project, Scan, column, output
from dpquery.plan.types import INT64, TEXT, Value
from tests.backends.engines import KEY, Engine, Groups, NotOwed, both, catalog_of, histograms, owed, run
from tests.backends.plans import scan
from tests.reference.backend import ReferenceBackend

TYPES = {"u": "int64", "k": "text", "j": "int64", "x": "int64", "wide": "int64", "f": "boolean"}
FRAME = {"u": "Int64", "k": "object", "j": "Int64", "x": "Int64", "wide": "Int64", "f": "boolean"}
CATALOG = catalog_of(
    {"v": {"unit": "u", "max_rows": 10_000, "columns": {name: {"type": type} for name, type in TYPES.items()}}}
)
Row = dict[str, Any]
KINDS = ("a", "b", "c", "d", "e")
ZERO, NOTHING = Literal(value=0, type=INT64), Literal(value=None, type=INT64)


def data(rows: int, seed: int) -> list[Row]:
    """Returns rows of some people with many and many with few, of nobody, and in groups that are not public."""
    draw = random.Random(seed)
    return [
        {
            "u": draw.choice([None, 1, 1, 1, 1, 1, 2, 2, 2, *range(3, 9)]),
            "k": draw.choice([*KINDS, None, "other", f"rare{i % 7}"]),
            "j": draw.choice([0, 1, None]),
            "x": draw.choice([None, 0, 3, 3, 500, -20, 7]),
            "wide": draw.choice([None, 2**52, -(2**52), 2**52 - 1, 12345678901234]),
            "f": draw.choice([True, False, None]),
        }
        for i in range(rows)
    ]


OPENED: OrderedDict[tuple[Engine, str], Backend] = OrderedDict()
"""The backends that were asked last: most tests read the same rows."""
MOST_OPENED = 16


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    OPENED.clear()


def opened(engine: Engine, rows: list[Row]) -> Backend:
    """Returns a backend over rows, opened once for tests that follow each other."""
    key = engine, repr(rows)
    if key not in OPENED:
        OPENED[key] = _opened(engine, rows)
        if len(OPENED) > MOST_OPENED:
            OPENED.popitem(last=False)
    OPENED.move_to_end(key)
    return OPENED[key]


def _opened(engine: Engine, rows: list[Row]) -> Backend:
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=of) for name, of in FRAME.items()})
    return engine(CATALOG, {"v": frame})


@dataclass(frozen=True)
class Case:
    """One weighing over the rows, or over those with x of at least 0."""

    weighing: Weighing
    max_rows: int
    filtered: bool = False

    def source(self) -> Scan | Filter:
        read = scan(CATALOG, "v")
        if self.weighing is Weighing.STORED:
            read = replace(read, weight="v_weight", max_rows=self.max_rows)
        return Filter(source=read, condition=call("ge", (column(read, "v_x"), ZERO))) if self.filtered else read

    def weights(self, groups: int | None) -> Weights:
        stored = "v_weight" if self.weighing is Weighing.STORED else None
        return Weights(weighing=self.weighing, max_rows=self.max_rows, column=stored, max_groups=groups)


CASES = [
    Case(Weighing.WHOLE, 10_000),
    Case(Weighing.STORED, 3),
    Case(Weighing.STORED, 7, filtered=True),
    Case(Weighing.STORED, 10_000),
    Case(Weighing.COUNTED, 3),
    Case(Weighing.COUNTED, 5, filtered=True),
]
Keys = tuple[Key, ...]
PAIRS = tuple((k, j) for k in (*KINDS, None) for j in (0, 1, None))
PUBLIC: dict[str, Keys] = {
    "none": (),
    "one": (Key.of("v_k", TEXT, ("a", "b", None, "none")),),
    "together": (Key(columns=("v_k", "v_j"), types=(TEXT, INT64), domain=PAIRS),),
    "apart": (Key.of("v_k", TEXT, (*KINDS, None)), Key.of("v_j", INT64, (0, 1, None))),
    "very many": (Key.of("v_k", TEXT, (*KINDS, None)), Key.of("v_j", INT64, (None, *range(200)))),
}
SELECTED = (Key.of("v_k", TEXT, None), Key.of("v_j", INT64, (0, None)))

NARROW = Lattice(grid=Fraction(1), lower=-10, upper=100, offset=3)
WIDE = Lattice(grid=Fraction(1), lower=-(2**52), upper=2**52)
SQUARES = Lattice(grid=Fraction(1), lower=-(2**30), upper=2**30, squared=True)
UNITS = Measure(id="units", label="", count=Count.UNITS)
SOME = replace(UNITS, id="some", filter="v_f")
DIFFERENT = Measure(id="d", label="", count=Count.DISTINCT, value="v_x")
HALF = Measure(id="q", label="", count=Count.QUANTILE, value="v_x", lattice=NARROW, target=Fraction(1, 2))
MOST = Measure(id="m", label="", count=Count.MODE, value="v_j", filter="v_f", domain=(1, 5, 0))


def summed(id: str, value: str, lattice: Lattice, filter: str | None = None) -> Measure:
    return Measure(id=id, label="", count=Count.SUM, value=f"v_{value}", lattice=lattice, filter=filter)


LINEAR: list[Measure] = [
    Measure(id="rows", label="", count=Count.ROWS),
    Measure(id="some_rows", label="", count=Count.ROWS, filter="v_f"),
    Measure(id="values", label="", count=Count.VALUES, value="v_x"),
    Measure(id="some_values", label="", count=Count.VALUES, value="v_x", filter="v_f"),
    summed("narrow", "x", NARROW),
    summed("some_narrow", "x", NARROW, "v_f"),
    summed("wide", "wide", WIDE),
    summed("squares", "wide", SQUARES),
]


def planned(case: Case, keys: Keys, *measures: Measure, groups: int | None = None) -> PrivateAggregate:
    selection = "units" if any(key.domain is None for key in keys) else None
    return PrivateAggregate(
        source=case.source(),
        unit="v_u",
        keys=keys,
        weights=case.weights(groups),
        measures=measures,
        selection=selection,
    )


def agreed(engine: Engine, rows: list[Row], *plans: PrivateAggregate) -> Iterator[Groups]:
    """Yields what both give for each plan, which is the same."""
    tested, reference = opened(engine, rows), opened(ReferenceBackend, rows)
    for number, plan in enumerate(map(partial(owed, tested), plans)):
        try:
            found = both(tested, plan)
        except NotOwed:
            if number:
                continue
            raise
        expected = both(reference, plan)
        assert found == expected
        yield expected[0]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("keys", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_counts_and_sums_and_histograms_are_of_weights(engine: Engine, case: Case, keys: str) -> None:
    """Alone and beside each other: what is asked together may be computed in another way."""
    public = PUBLIC[keys]
    plans = [planned(case, public, *measures) for measures in (LINEAR, (HALF,), (HALF, MOST), (MOST, *LINEAR))]
    assert all(agreed(engine, data(200, 1), *plans))


@pytest.mark.parametrize("case", CASES)
def test_sums_of_selected_groups_are_of_weights(engine: Engine, case: Case) -> None:
    assert all(agreed(engine, data(200, 2), planned(case, SELECTED, UNITS, HALF, *LINEAR, groups=100)))


@pytest.mark.parametrize("case", CASES)
def test_sums_of_groups_selected_in_rounds_are_of_all_rows(engine: Engine, case: Case) -> None:
    deciding = replace(UNITS, count=Count.DECIDING)
    assert all(agreed(engine, data(200, 2), planned(case, SELECTED, deciding, *LINEAR, groups=100)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("keys", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_units_of_public_groups_are_divided(engine: Engine, case: Case, keys: str) -> None:
    plans = [planned(case, PUBLIC[keys], UNITS, SOME, LINEAR[0], groups=groups) for groups in (None, 1, 2, 10_000)]
    assert all(agreed(engine, data(200, 4), *plans))
    assert [plan.divides_units for plan in plans] == [False, keys != "none", keys != "none", False]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("case", CASES)
def test_shards_of_whole_units_add_up(engine: Engine, case: Case) -> None:
    """Rows that are cut by unit: what each shard gives adds up to what all rows give."""
    rows, plan = data(300, 5), planned(case, PUBLIC["apart"], HALF, *LINEAR)
    shards = [opened(engine, [row for row in rows if (row["u"] or 0) % 3 == shard]) for shard in range(3)]
    added: dict[tuple[Value, ...], Counter[int]] = defaultdict(Counter)
    values = Counter[tuple[object, ...]]()
    for shard in shards:
        sums, (counted,) = both(shard, plan)
        for group, numbers in sums.items():
            added[group].update(dict(enumerate(numbers)))
        values.update(counted)
    places = range(len(plan.measures))
    expected = {group: tuple(numbers[i] for i in places) for group, numbers in added.items()}
    assert both(opened(engine, rows), plan) == (expected, [values])


def test_values_that_weigh_nothing_are_not_there(engine: Engine) -> None:
    rows = [{"u": 1, "k": "a", "j": 0, "x": 7, "wide": None, "f": True}] * 2
    backend = opened(engine, rows)
    plan = planned(Case(Weighing.STORED, 1), (), replace(MOST, filter=None, domain=(0,)))
    assert histograms(backend, plan) == [{(0,): WEIGHT}]
    source = replace(scan(CATALOG, "v"), weight="v_other", max_rows=1)
    columns = [Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(source)]
    empty = Project(source=source, columns=(*columns, Computed(id="v_weight", name="", expression=NOTHING)))
    nothing = replace(plan, source=empty, measures=(*plan.measures, *LINEAR, UNITS))
    assert histograms(backend, nothing) == [{}]
    assert run(backend, nothing) == {(): (0, *(0 for _ in LINEAR), 1)}


# Where a hash decides.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_units_count_in_some_of_their_selected_groups(engine: Engine, case: Case, groups: int) -> None:
    """In as many as they may, of their own; what each does follows from its own rows; sums are of all rows."""
    rows, found = data(200, 5), dict[tuple[Value, ...], list[int]]()
    plan = planned(case, SELECTED, SOME, UNITS, *LINEAR, groups=groups)
    (everywhere,) = agreed(engine, rows, replace(plan, weights=replace(plan.weights, max_groups=100)))
    for unit in range(1, 9):
        own = [row for row in rows if row["u"] == unit]
        alone, all_own = run(opened(engine, own), plan), everywhere_of(own, plan)
        assert len(alone) == min(groups, len(all_own)) and alone.keys() <= all_own.keys()
        for group, (some, one, *_) in alone.items():
            assert (some, one) == all_own[group][:2]
            added = found.setdefault(group, [0, 0])
            added[0] += some
            added[1] += one
    expected = {group: (*added, *everywhere[group][2:]) for group, added in found.items()}
    assert run(opened(engine, rows), plan) == expected


@pytest.mark.thinned(2)
@pytest.mark.parametrize("groups", [1, 2, 100])
@pytest.mark.parametrize("case", CASES)
def test_units_decide_about_their_groups_in_an_order(engine: Engine, case: Case, groups: int) -> None:
    """Each pair is given once, whatever `max_groups` is below 64; the numbers say how many units a group has."""
    deciding = replace(UNITS, count=Count.DECIDING)
    plan = owed(opened(engine, data(200, 5)), planned(case, SELECTED, deciding, LINEAR[0], groups=groups))
    counted = planned(case, SELECTED, UNITS, LINEAR[0], groups=100)
    tested, reference = opened(engine, data(200, 5)), opened(ReferenceBackend, data(200, 5))
    assert run(tested, plan) == run(reference, plan) == run(reference, counted)
    found = tested.run(tested.prepare(plan), 5)
    assert found.pairs is not None
    pairs = list(zip(found.pairs.group.tolist(), found.pairs.unit.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)) == found.numbers[0].sum()
    assert np.bincount(found.pairs.group).tolist() == found.numbers[0].tolist()
    for unit in set(found.pairs.unit.tolist()):
        places = found.pairs.place[found.pairs.unit == unit]
        assert sorted(places.tolist()) == list(range(1, len(places) + 1))


@pytest.mark.parametrize(("groups", "most"), [(3, CONSIDERED), (80, 80)])
def test_no_unit_decides_about_any_number_of_groups(engine: Engine, groups: int, most: int) -> None:
    rows = [{"u": 1, "k": None, "j": j, "x": 7, "wide": None, "f": True} for j in range(100)]
    keys = (Key.of("v_j", INT64, None),)
    deciding = replace(UNITS, count=Count.DECIDING)
    backend = opened(engine, rows)
    plan = owed(backend, planned(Case(Weighing.COUNTED, 1), keys, deciding, groups=groups))
    chosen = []
    for key in (5, 5, 6):
        found = backend.run(backend.prepare(plan), key)
        assert found.pairs is not None and len(found.pairs.group) == most == len(found.numbers[0])
        chosen.append(set(found.keys[0].tolist()))
    assert chosen[0] == chosen[1] != chosen[2]


def everywhere_of(rows: list[Row], plan: PrivateAggregate) -> Groups:
    return run(opened(ReferenceBackend, rows), replace(plan, weights=replace(plan.weights, max_groups=100)))


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("keys", "filter"), [("none", None), ("apart", None), ("apart", "v_f"), ("very many", "v_f")])
@pytest.mark.parametrize("case", CASES)
def test_a_unit_stands_for_so_many_different_values(engine: Engine, case: Case, keys: str, filter: str | None) -> None:
    rows = data(200, 7)
    plan = planned(case, PUBLIC[keys], replace(DIFFERENT, filter=filter), LINEAR[0])
    if case.max_rows == 10_000:
        assert all(agreed(engine, rows, plan))
        return
    free = replace(plan, weights=replace(plan.weights, max_rows=10_000))
    every, whole = run(opened(ReferenceBackend, rows), free), run(opened(engine, rows), plan)
    assert whole.keys() == every.keys() and all(whole[group][0] <= every[group][0] for group in whole)
    most = 0
    for unit in range(1, 9):
        own = [row for row in rows if row["u"] == unit]
        pairs = sum(numbers[0] for numbers in run(opened(ReferenceBackend, own), free).values())
        alone = sum(numbers[0] for numbers in run(opened(engine, own), plan).values())
        assert alone == min(case.max_rows, pairs)
        most += alone
    assert 0 < sum(numbers[0] for numbers in whole.values()) <= most


def owners(rows: Iterable[tuple[int, int]]) -> list[Row]:
    """Returns rows of units with values."""
    return [{"u": unit, "k": KINDS[unit % 2], "j": 0, "x": x, "wide": None, "f": True} for unit, x in rows]


def test_a_unit_leaves_different_values_that_others_stand_for(engine: Engine) -> None:
    """Units with few values go first, and one with many stands for what nobody else does."""
    shared = [(1, 1), (2, 2), *((3, x) for x in range(1, 5)), *((4, x) for x in range(1, 7))]
    backend = opened(engine, owners(shared))
    for seed in range(20):
        key = random.Random(seed).getrandbits(128)
        assert run(backend, planned(Case(Weighing.COUNTED, 1), (), DIFFERENT), key) == {(): (4,)}
        assert run(backend, planned(Case(Weighing.COUNTED, 2), (), DIFFERENT), key) == {(): (6,)}


@pytest.mark.parametrize("keys", ["none", "apart", "very many"])
def test_one_unit_takes_no_different_value_away_and_adds_few(engine: Engine, keys: str) -> None:
    """With each unit of random rows, every group has at least as many values, and all together at most M more."""
    moved = Counter[int]()
    for seed in range(2):
        draw = random.Random(f"one more {seed}")
        pairs = [(draw.randint(1, 6), draw.randint(0, 9)) for _ in range(draw.randint(5, 60))]
        rows = [row | {"k": draw.choice("ab")} for row in owners(pairs)]
        most, key = draw.randint(1, 4), draw.getrandbits(128)
        plan = planned(Case(Weighing.COUNTED, most), PUBLIC[keys], DIFFERENT)
        whole = run(opened(engine, rows), plan, key)
        for unit in range(1, 7):
            less = run(opened(engine, [row for row in rows if row["u"] != unit]), plan, key)
            steps = [number - less.get(group, (0,))[0] for group, (number, *_) in whole.items()]
            assert less.keys() <= whole.keys() and min(steps) >= 0 and sum(steps) <= most
            moved[sum(steps) - most] += 1
    assert moved[0] > 2, "reached"


def test_the_key_decides_which_different_values_are_counted(engine: Engine) -> None:
    rows = [{"u": 1, "k": KINDS[i % 5], "j": 0, "x": i, "wide": None, "f": True} for i in range(40)]
    backend, plan = opened(engine, rows), planned(Case(Weighing.COUNTED, 3), PUBLIC["apart"], DIFFERENT)
    found = {tuple(sorted(run(backend, plan, KEY + i).items(), key=repr)) for i in range(30)}
    assert len(found) > 2
    assert {sum(n for _, (n,) in each) for each in found} == {3}
