"""Every count under each weighing in the embedded engine, against a plain computation in Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.sql import private_sql
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.expr import Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Project, Scan, ScanColumn, column, output
from dpquery.plan.types import INT64, TEXT, Value
from tests.backends.engines import KEY, catalog_of, groups_of, histograms

CATALOG = catalog_of(
    {
        "v": {
            "unit": "u",
            "max_rows": 10_000,
            "columns": {
                "u": {"type": "int64"},
                "k": {"type": "text"},
                "j": {"type": "int64"},
                "x": {"type": "int64"},
                "wide": {"type": "int64"},
                "f": {"type": "boolean"},
            },
        }
    }
)
Row = dict[str, Any]
KINDS = ("a", "b", "c", "d", "e")


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


OPENED: dict[str, DuckDBBackend] = {}


def backend_of(rows: list[Row]) -> DuckDBBackend:
    """Returns the backend of these rows, opened once."""
    known = repr(rows)
    if known not in OPENED:
        OPENED[known] = opened(rows)
    return OPENED[known]


def opened(rows: list[Row]) -> DuckDBBackend:
    types = {"u": "Int64", "k": "object", "j": "Int64", "x": "Int64", "wide": "Int64", "f": "boolean"}
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=of) for name, of in types.items()})
    return DuckDBBackend(CATALOG, {"v": frame})


def scanned(max_rows: int | None = None) -> Scan:
    declared = CATALOG.tables["v"]
    columns = tuple(ScanColumn(id=f"v_{c.name}", name=c.name, type=c.type) for c in declared.columns.values())
    weight = None if max_rows is None else "v_weight"
    return Scan(
        table="v",
        columns=columns,
        public=False,
        ownership=declared.ownership,
        unit="v_u",
        weight=weight,
        max_rows=max_rows,
    )


@dataclass(frozen=True)
class Case:
    """One weighing over the rows, or over those with x above 0."""

    weighing: Weighing
    max_rows: int
    filtered: bool = False

    def source(self) -> Scan | Filter:
        scan = scanned(self.max_rows if self.weighing is Weighing.STORED else None)
        if not self.filtered:
            return scan
        return Filter(source=scan, condition=call("ge", (column(scan, "v_x"), ZERO)))

    def weights(self, groups: int | None) -> Weights:
        stored = "v_weight" if self.weighing is Weighing.STORED else None
        return Weights(weighing=self.weighing, max_rows=self.max_rows, column=stored, max_groups=groups)

    def rows(self, rows: list[Row]) -> list[tuple[Row, int]]:
        """Returns the rows of the source that belong to somebody, and what each weighs."""
        there = [row for row in rows if not self.filtered or (row["x"] is not None and row["x"] >= 0)]
        counted = Counter(row["u"] for row in (rows if self.weighing is Weighing.STORED else there))
        steps = 1 if self.weighing is Weighing.WHOLE else WEIGHT
        return [(row, min(steps, steps * self.max_rows // counted[row["u"]])) for row in there if row["u"] is not None]


ZERO, NOTHING = Literal(value=0, type=INT64), Literal(value=None, type=INT64)
CASES = [
    Case(Weighing.WHOLE, 10_000),
    Case(Weighing.STORED, 3),
    Case(Weighing.STORED, 7, filtered=True),
    Case(Weighing.STORED, 10_000),
    Case(Weighing.COUNTED, 3),
    Case(Weighing.COUNTED, 5, filtered=True),
]
Public = tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]
PUBLIC: list[Public | None] = [
    None,
    (("k",), (("a",), ("b",), (None,), ("none",))),
    (("k", "j"), tuple((k, j) for k in (*KINDS, None) for j in (0, 1, None))),
]


def keys_of(public: Public | None, *, apart: bool) -> tuple[Key, ...]:
    """Returns one key of all columns, or one for each."""
    if public is None:
        return ()
    types = {"k": TEXT, "j": INT64}
    columns, domain = public
    if not apart:
        return (Key(columns=tuple(f"v_{c}" for c in columns), types=tuple(types[c] for c in columns), domain=domain),)
    values = [tuple(dict.fromkeys(row[i] for row in domain)) for i in range(len(columns))]
    return tuple(Key.of(f"v_{c}", types[c], values[i]) for i, c in enumerate(columns))


def planned(case: Case, keys: tuple[Key, ...], *measures: Measure, groups: int | None = None) -> PrivateAggregate:
    selection = "units" if any(key.domain is None for key in keys) else None
    return PrivateAggregate(
        source=case.source(),
        unit="v_u",
        keys=keys,
        weights=case.weights(groups),
        measures=measures,
        selection=selection,
    )


def answered(rows: list[Row], plan: PrivateAggregate, key: int = KEY) -> dict[tuple[Value, ...], tuple[int, ...]]:
    backend = backend_of(rows)
    return groups_of(plan, backend.run(backend.prepare(plan), key))


NARROW = Lattice(grid=Fraction(1), lower=-10, upper=100, offset=3)
WIDE = Lattice(grid=Fraction(1), lower=-(2**52), upper=2**52)
SQUARES = Lattice(grid=Fraction(1), lower=-(2**30), upper=2**30, squared=True)
UNITS = Measure(id="units", label="", count=Count.UNITS)


def summed(id: str, value: str, lattice: Lattice, filter: str | None = None) -> Measure:
    return Measure(id=id, label="", count=Count.SUM, value=f"v_{value}", lattice=lattice, filter=filter)


def t_of(lattice: Lattice, value: int) -> int:
    moved = min(max(value, lattice.lower), lattice.upper) - lattice.offset
    return moved * moved if lattice.squared else moved


LINEAR: list[Measure] = [
    Measure(id="rows", label="", count=Count.ROWS),
    Measure(id="some", label="", count=Count.ROWS, filter="v_f"),
    Measure(id="values", label="", count=Count.VALUES, value="v_x"),
    Measure(id="some_values", label="", count=Count.VALUES, value="v_x", filter="v_f"),
    summed("narrow", "x", NARROW),
    summed("some_narrow", "x", NARROW, "v_f"),
    summed("wide", "wide", WIDE),
    summed("squares", "wide", SQUARES),
]


def linear(measure: Measure, rows: Iterable[tuple[Row, int]]) -> int:
    passing = [(row, w) for row, w in rows if measure.filter is None or row["f"] is True]
    if measure.value is None:
        return sum(w for _, w in passing)
    values = [(row[measure.value[2:]], w) for row, w in passing if row[measure.value[2:]] is not None]
    return sum(w * (1 if measure.lattice is None else t_of(measure.lattice, value)) for value, w in values)


def by_group(case: Case, rows: list[Row], keys: tuple[Key, ...]) -> dict[tuple[Value, ...], list[tuple[Row, int]]]:
    """Returns the weighed rows of each group that is public, or not bound to be."""
    found = defaultdict(list)
    for row, weight in case.rows(rows):
        group = tuple(tuple(row[id[2:]] for id in key.columns) for key in keys)
        if all(key.domain is None or values in key.domain for key, values in zip(keys, group, strict=True)):
            found[tuple(value for values in group for value in values)].append((row, weight))
    return found


@pytest.fixture(params=[False, True], ids=["late", "early"])
def early(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether rows get their codes before they are added up."""
    if request.param:
        monkeypatch.setattr(private_sql, "CODED_FROM", 1)
    return bool(request.param)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_counts_and_sums_are_of_weights(case: Case, public: Public | None, apart: bool) -> None:
    rows, keys = data(400, 1), keys_of(public, apart=apart)
    found = by_group(case, rows, keys) or {}
    expected = {group: tuple(linear(m, given) for m in LINEAR) for group, given in found.items()}
    answer = answered(rows, planned(case, keys, *LINEAR))
    assert answer == {group: numbers for group, numbers in expected.items() if any(numbers)}
    assert answer


@pytest.mark.parametrize("case", CASES)
def test_sums_of_selected_groups_are_of_weights(case: Case) -> None:
    rows = data(400, 2)
    keys = (Key.of("v_k", TEXT, None), Key.of("v_j", INT64, (0, None)))
    found = by_group(case, rows, keys)
    expected = {
        group: (len({row["u"] for row, _ in given}), *(linear(m, given) for m in LINEAR))
        for group, given in found.items()
    }
    assert answered(rows, planned(case, keys, UNITS, *LINEAR, groups=100)) == expected


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_histograms_are_of_weights(case: Case, public: Public | None) -> None:
    rows, keys = data(400, 3), keys_of(public, apart=False)
    half = Measure(id="q", label="", count=Count.QUANTILE, value="v_x", lattice=NARROW, target=Fraction(1, 2))
    most = Measure(id="m", label="", count=Count.MODE, value="v_j", filter="v_f", domain=(1, 5, 0))
    expected: list[dict[tuple[Value, ...], int]] = [{}, {}]
    for group, given in by_group(case, rows, keys).items():
        for row, weight in given:
            if row["x"] is not None:
                place = (*group, t_of(NARROW, row["x"]))
                expected[0][place] = expected[0].get(place, 0) + weight
            if row["f"] is True and row["j"] is not None:
                place = (*group, (1, 5, 0).index(row["j"]))
                expected[1][place] = expected[1].get(place, 0) + weight
    backend = backend_of(rows)
    assert histograms(backend, planned(case, keys, half, most)) == expected
    assert histograms(backend, planned(case, keys, half)) == expected[:1]
    assert histograms(backend, planned(case, keys, most, LINEAR[0])) == expected[1:]
    assert answered(rows, planned(case, keys, half, *LINEAR)).keys() >= {place[:-1] for place in expected[0]}


def test_values_that_weigh_nothing_are_not_there() -> None:
    rows = [{"u": 1, "k": "a", "j": 0, "x": 7, "wide": None, "f": True}] * 2
    case = Case(Weighing.STORED, 1)
    plan = planned(case, (), Measure(id="q", label="", count=Count.MODE, value="v_j", domain=(0,)))
    source = replace(case.source(), weight="v_other")  # type: ignore[arg-type]
    assert histograms(backend_of(rows), plan) == [{(0,): WEIGHT}]
    columns = [Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(source)]
    empty = Project(source=source, columns=(*columns, Computed(id="v_weight", name="", expression=NOTHING)))
    nothing = replace(plan, source=empty, measures=(*plan.measures, *LINEAR, UNITS))
    assert histograms(backend_of(rows), nothing) == [{}]
    assert answered(rows, nothing) == {(): (0, *(0 for _ in LINEAR), 1)}


# Units.


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("groups", [None, 1, 2, 100])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_units_of_public_groups_are_divided(case: Case, public: Public | None, groups: int | None) -> None:
    rows, keys = data(200, 4), keys_of(public, apart=False)
    some = replace(UNITS, id="some", filter="v_f")
    plan = planned(case, keys, UNITS, some, LINEAR[0], groups=groups)
    spread = defaultdict(set)
    columns = () if public is None else public[0]
    for row, _ in case.rows(rows):
        spread[row["u"]].add(tuple(row[c] for c in columns))

    def weight(unit: int) -> int:
        if not plan.divides_units:
            return 1
        return WEIGHT * min(groups or 0, len(spread[unit])) // len(spread[unit])

    def units(given: list[tuple[Row, int]]) -> tuple[int, int]:
        everybody = {row["u"] for row, _ in given}
        passing = {row["u"] for row, _ in given if row["f"] is True}
        return sum(map(weight, everybody)), sum(map(weight, passing))

    expected = {g: (*units(given), linear(LINEAR[0], given)) for g, given in by_group(case, rows, keys).items()}
    assert answered(rows, plan) == expected
    assert plan.divides_units is (groups in (1, 2) and public is not None)


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("case", CASES)
def test_units_count_in_some_of_their_selected_groups(case: Case, groups: int) -> None:
    rows, some = data(300, 5), replace(UNITS, id="some", filter="v_f")
    keys = (Key.of("v_k", TEXT, None), Key.of("v_j", INT64, (0, None)))
    plan = planned(case, keys, some, UNITS, *LINEAR, groups=groups)
    found, sums = by_group(case, rows, keys), dict[tuple[Value, ...], list[int]]()
    places: dict[int, set[tuple[Value, ...]]] = defaultdict(set)
    for group, given in found.items():
        for row, _ in given:
            places[row["u"]].add(group)
    for unit, own in places.items():
        alone = answered([row for row in rows if row["u"] == unit], plan)
        assert len(alone) == min(groups, len(own)) and set(alone) <= own
        for group, (passing, one, *_) in alone.items():
            assert one == 1
            assert passing == any(row["f"] is True for row, _ in found[group] if row["u"] == unit)
            added = sums.setdefault(group, [0, 0])
            added[0] += passing
            added[1] += one
    expected = {g: (*added, *(linear(m, found[g]) for m in LINEAR)) for g, added in sums.items()}
    assert answered(rows, plan) == expected


def test_whole_rows_are_ranked_only_where_units_could_be_in_more_groups() -> None:
    keys, backend = (Key.of("v_k", TEXT, None),), backend_of(data(20, 6))
    for most, groups, ranked in ((1, 1, False), (3, 3, False), (3, 2, True), (1, None, False)):
        plan = planned(Case(Weighing.WHOLE, most), keys, UNITS, groups=groups)
        assert ("row_number" in backend.prepare(plan).text) is ranked
    for most, distinct in ((1, False), (2, True)):
        text = backend.prepare(planned(Case(Weighing.WHOLE, most), (), UNITS)).text
        assert ("DISTINCT unit" in text) is distinct


# Different values.


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("filter", [None, "v_f"])
@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.parametrize("case", CASES)
def test_a_unit_stands_for_so_many_different_values(case: Case, public: Public | None, filter: str | None) -> None:
    rows, keys = data(300, 7), keys_of(public, apart=True)
    measure = Measure(id="d", label="", count=Count.DISTINCT, value="v_x", filter=filter)
    plan = planned(case, keys, measure, LINEAR[0])
    pairs: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
    for group, given in by_group(case, rows, keys).items():
        for row, _ in given:
            if row["x"] is not None and (filter is None or row["f"] is True):
                pairs[row["u"]].add((*group, row["x"]))
    everything: set[tuple[Any, ...]] = set().union(*pairs.values())
    whole = {group: numbers[0] for group, numbers in answered(rows, plan).items()}
    assert set(whole) == set(by_group(case, rows, keys))
    if case.max_rows >= max(map(len, pairs.values())):
        counted = Counter(pair[:-1] for pair in everything)
        assert whole == {group: counted[group] for group in whole}
        return
    for unit, own in pairs.items():
        alone = answered([row for row in rows if row["u"] == unit], plan)
        assert sum(numbers[0] for numbers in alone.values()) == min(case.max_rows, len(own))
        assert all(numbers[0] <= sum(pair[:-1] == group for pair in own) for group, numbers in alone.items())
    counted = Counter(pair[:-1] for pair in everything)
    assert all(number <= counted[group] for group, number in whole.items())
    assert (
        maximal(pairs, case.max_rows) <= sum(whole.values()) <= sum(min(case.max_rows, len(p)) for p in pairs.values())
    )


def maximal(pairs: dict[int, set[tuple[Any, ...]]], most: int) -> int:
    """Returns how many pairs are stood for in any case: a unit stops at `most`, or because its pairs are stood for."""
    return max(min(most, len(own)) for own in pairs.values())


def owners(rows: Iterable[tuple[int, int]]) -> list[Row]:
    """Returns rows of units with values."""
    return [{"u": unit, "k": KINDS[unit % 2], "j": 0, "x": x, "wide": None, "f": True} for unit, x in rows]


DIFFERENT = Measure(id="d", label="", count=Count.DISTINCT, value="v_x")


def test_a_unit_leaves_values_that_others_stand_for() -> None:
    """Units with few values go first, and one with many stands for what nobody else does."""
    shared = [(1, 1), (2, 2), *((3, x) for x in range(1, 5)), *((4, x) for x in range(1, 7))]
    for seed in range(20):
        key = random.Random(seed).getrandbits(128)
        assert answered(owners(shared), planned(Case(Weighing.COUNTED, 1), (), DIFFERENT), key) == {(): (4,)}
        assert answered(owners(shared), planned(Case(Weighing.COUNTED, 2), (), DIFFERENT), key) == {(): (6,)}


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("public", PUBLIC)
def test_one_unit_never_takes_a_value_away_and_adds_few(public: Public | None) -> None:
    """With each unit of random rows, every group has at least as many values, and all together at most M more."""
    moved = Counter[int]()
    for seed in range(12):
        draw = random.Random(f"one more {seed}")
        rows = [
            {"u": draw.randint(1, 6), "k": draw.choice("ab"), "j": 0, "x": draw.randint(0, 9), "wide": None, "f": True}
            for _ in range(draw.randint(5, 60))
        ]
        most = draw.randint(1, 4)
        plan, key = planned(Case(Weighing.COUNTED, most), keys_of(public, apart=True), DIFFERENT), draw.getrandbits(128)
        backend = opened(rows)
        whole = groups_of(plan, backend.run(backend.prepare(plan), key))
        for unit in range(1, 7):
            others = opened([row for row in rows if row["u"] != unit])
            less = groups_of(plan, others.run(others.prepare(plan), key))
            steps = [number - less.get(group, (0,))[0] for group, (number, *_) in whole.items()]
            assert less.keys() <= whole.keys() and min(steps) >= 0 and sum(steps) <= most
            moved[sum(steps) - most] += 1
    assert moved[0] > 5, "reached"


def test_the_key_decides_which_values_are_counted() -> None:
    rows = [{"u": 1, "k": KINDS[i % 5], "j": 0, "x": i, "wide": None, "f": True} for i in range(40)]
    plan = planned(
        Case(Weighing.COUNTED, 3),
        keys_of(PUBLIC[1], apart=True),
        Measure(id="d", label="", count=Count.DISTINCT, value="v_x"),
    )
    keys = [random.Random(f"turns {i}").getrandbits(128) for i in range(30)]
    found = {tuple(sorted((g, n[0]) for g, n in answered(rows, plan, key).items())) for key in keys}
    assert len(found) > 2
    assert {sum(n for _, n in each) for each in found} <= set(range(4))
