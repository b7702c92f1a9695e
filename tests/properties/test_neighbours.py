"""For neighbouring databases the inputs of every mechanism stay within the declared norms, and all else is equal.

Random catalogs, crowds, guests and queries, and pairs made by hand that reach the declared norms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from random import Random

import pandas as pd
import pytest

import dpquery as dp
from tests.properties import queries
from tests.properties.neighbours import (
    ENGINES,
    AuditedPlan,
    Database,
    Groups,
    Hall,
    Norms,
    changes,
    check_inputs,
    claimed,
    norms_of,
    visible,
)
from tests.properties.queries import Query
from tests.properties.worlds import (
    CELLS,
    CODES,
    PERSON_TABLES,
    PUBLIC_TABLES,
    ROW_TABLES,
    Row,
    Rows,
    World,
    catalog_of,
    world,
)
from tests.scripted import zero_noise

SLOW_PAIRS = 100_000


# Random worlds.


def databases(hall: Hall, made: World) -> tuple[list[tuple[str, Database]], list[tuple[int, int]]]:
    """Returns the databases of a world and the pairs of them that are neighbours."""
    crowd = ("nobody", hall.open(made.sources()))
    visited = [(style, hall.open(made.sources(guest))) for style, guest in zip(made.styles, made.guests, strict=True)]
    if made.catalog.neighbours.value == "add_remove":
        return [crowd, *visited], [(0, i) for i in range(1, len(visited) + 1)]
    return visited, list(itertools.combinations(range(len(visited)), 2))


def check_world(made: World, random: Random, shelf: str, *, count: int, engine: str = "duckdb") -> tuple[int, int]:
    """Checks `count` random queries on all neighbours of a world; returns how many pairs there were, and moved."""
    hall = Hall(made.catalog, shelf, engine)
    opened, pairs = databases(hall, made)
    checked = moved = 0
    for _ in range(count):
        query = queries.query(random, row_unit=made.catalog.declarations.unit_is_row)
        (_, first), (_, other) = opened[0], random.choice(opened[1:])
        assert first.preview(query) == other.preview(query), query.text
        try:
            prepared = first.prepare(query)
        except dp.QueryError:
            continue
        key = random.getrandbits(128)
        inputs = [database.inputs(prepared, key) for _, database in opened]
        for a, b in pairs:
            label = f"{query} ({opened[a][0]} against {opened[b][0]})"
            moved += check_inputs(prepared, inputs[a], inputs[b], label)
            checked += 1
    return checked, moved


@pytest.mark.parametrize("engine", ENGINES)
def test_random_queries_move_no_more_than_is_declared(shelf: str, engine: str) -> None:
    checked = moved = 0
    for seed in range(3):
        random = Random(seed)
        found = check_world(world(random, guests=4), random, shelf, count=3, engine=engine)
        checked, moved = checked + found[0], moved + found[1]
    assert checked >= 30
    assert moved >= checked / 3, f"only {moved} of {checked} pairs differ at all"


@pytest.mark.slow
def test_very_many_random_queries_move_no_more_than_is_declared(shelf: str, capsys: pytest.CaptureFixture[str]) -> None:
    checked = moved = 0
    for seed in itertools.count(1000):
        random = Random(seed)
        found = check_world(world(random, guests=8), random, shelf, count=60)
        checked, moved = checked + found[0], moved + found[1]
        if checked >= SLOW_PAIRS:
            break
    with capsys.disabled():
        print(f"\n{checked} neighbouring pairs checked, {moved} of them with different inputs, 0 violations")
    assert moved >= checked / 3


def test_random_answers_have_equal_shapes(shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, types, charges and, for public keys, rows and their order; without noise only the numbers may differ."""
    zero_noise(monkeypatch)
    compared = 0
    for seed in range(100, 102):
        random = Random(seed)
        made = world(random, guests=2)
        opened, pairs = databases(Hall(made.catalog, shelf), made)
        for _ in range(8):
            query = queries.query(random, row_unit=made.catalog.declarations.unit_is_row)
            left, right = (opened[place][1] for place in pairs[0])
            try:
                prepared = left.prepare(query)
            except dp.QueryError:
                continue
            public = all(not aggregate.is_selected for aggregate in prepared.aggregates)
            keys = len({id for aggregate in prepared.aggregates for key in aggregate.keys for id in key.columns})
            here, there = (visible(database.answer(query), keys) for database in (left, right))
            assert here[0] == there[0], query
            assert here[3:] == there[3:], query
            if public:
                assert here == there, query
                compared += 1
    assert compared >= 7


# Pairs made by hand. The declared norms are worked out by hand too, and the pairs must reach them.


def visits(person: int, *rows: Mapping[str, object]) -> Rows:
    """Returns the visits of a person."""
    made = [row("visits", person=person, **given) for given in rows]
    return {"visits": made}


def people(person: int, *rows: Mapping[str, object]) -> Rows:
    """Returns a person's rows in the table of people."""
    return {"people": [row("people", id=person, **given) for given in rows]}


def row(table: str, **given: object) -> Row:
    """Returns a row with NULL in the columns that are not given."""
    columns = PERSON_TABLES[table]
    assert given.keys() <= columns.keys()
    return {name: given.get(name) for name in columns}


def in_kinds(kinds: str, times: int = 20, **given: object) -> list[Row]:
    """Returns `times` rows in each of the kinds; notes differ."""
    return [{"kind": kind, "note": f"{kind}{i}", **given} for kind in kinds for i in range(times)]


def in_all_cells(**given: object) -> list[Row]:
    """Returns four rows in each of many groups: so many that rows are left out before they are aggregated."""
    return [{"cell": cell, "note": f"{cell} {i}", **given} for cell in CELLS for i in range(4)]


def N(linf: int, l1: int, l2_squared: int) -> Norms:
    """Returns norms in the unit of the released number."""
    return Norms(linf=Fraction(linf), l1=Fraction(l1), l2_squared=Fraction(l2_squared))


NOBODY: Rows = {}


def many(*more: Row) -> Rows:
    """Returns forty people with a row in each kind, and the rows of one more."""
    rows = [r for p in range(40) for r in visits(100 + p, *in_kinds("abcd", times=1, score=p - 10, ok=True))["visits"]]
    return {"visits": rows + visits(9, *more)["visits"]}


ADD, REPLACE, ROW = "add_remove", "replace_one", "row"
LOW, HIGH = {"score": -(10**15)}, {"score": 10**15}

HEAVY = visits(9, *in_kinds("a"))
SHARED = [{"kind": "a", "note": "shared", **HIGH}] * 20
OLD = people(9, *[{"sex": "F", "age": 10**9}] * 5)

WORST_CASES = {
    # add or remove a person: all rows of a unit weigh M together, and M B in all norms
    "count": (ADD, "COUNT(*)", "kind", None, 3, [(NOBODY, HEAVY)], [N(3, 3, 9)]),
    "grand total": (ADD, "COUNT(*)", None, 5, 4, [(NOBODY, visits(9, *in_kinds("abcd")))], [N(4, 4, 16)]),
    "values": (ADD, "COUNT(score)", "kind", None, 2, [(NOBODY, visits(9, *in_kinds("a", score=0)))], [N(2, 2, 4)]),
    "units": (ADD, "COUNT(DISTINCT person)", "kind", 2, 3, [(NOBODY, visits(9, *in_kinds("ab")))], [N(1, 2, 2)]),
    "distinct": (ADD, "COUNT(DISTINCT note)", "kind", None, 3, [(NOBODY, HEAVY)], [N(3, 3, 9)]),
    "distinct, grand total": (ADD, "COUNT(DISTINCT note)", None, None, 7, [(NOBODY, HEAVY)], [N(7, 7, 49)]),
    "positive sum": (ADD, "SUM(age)", "sex", None, 3, [(NOBODY, OLD)], [N(300, 300, 90_000)]),
    "negative sum": (ADD, "SUM(-age)", "sex", None, 2, [(NOBODY, OLD)], [N(200, 200, 40_000)]),
    "sum far above zero": (ADD, "SUM(age + 20)", "sex", None, 2, [(NOBODY, OLD)], [N(240, 240, 57_600)]),
    "sum far below zero": (ADD, "SUM(-20 - age)", "sex", None, 2, [(NOBODY, OLD)], [N(240, 240, 57_600)]),
    "sum of a constant": (ADD, "SUM(5)", "kind", None, 2, [(NOBODY, HEAVY)], [N(2, 2, 4)]),
    "sum across zero": (
        *(ADD, "SUM(score)", "kind", None, 2),
        [(NOBODY, visits(9, *in_kinds("a", **HIGH)))],
        [N(80, 80, 6400)],
    ),
    "sum of floats": (
        *(ADD, "SUM(cost)", "kind", None, 2),
        [(NOBODY, visits(9, *in_kinds("a", cost=float("inf"))))],
        [N(1000, 1000, 1_000_000)],
    ),
    "deviations": (
        *(ADD, "AVG(score)", "kind", None, 2),
        [(NOBODY, visits(9, *in_kinds("a", **extreme))) for extreme in (LOW, HIGH)],
        [N(120, 120, 14_400), N(120, 120, 14_400)],
    ),
    "squares": (
        *(ADD, "VAR_POP(score)", "kind", None, 2),
        [(NOBODY, visits(9, *in_kinds("a", **extreme))) for extreme in (LOW, HIGH)],
        [N(7200, 7200, 51_840_000)] * 3,
    ),
    "filtered": (
        *(ADD, "SUM(score) FILTER (WHERE ok)", "kind", None, 2),
        [(NOBODY, visits(9, *in_kinds("a", ok=True, **HIGH)))],
        [N(80, 80, 6400)],
    ),
    "selected": (
        *(ADD, "SUM(score) AS s, COUNT(DISTINCT person)", "note", 5, 2),
        [(NOBODY, visits(9, *SHARED)), (NOBODY, visits(9, *in_kinds("abcd")))],
        [N(80, 80, 6400), N(1, 5, 5)],
    ),
    "keys that follow from each other": (
        *(ADD, "COUNT(*)", "kind, UPPER(kind)", None, 5),
        [(NOBODY, HEAVY)],
        [N(5, 5, 25)],
    ),
    "many groups": (ADD, "COUNT(*)", "cell", None, 3, [(NOBODY, visits(9, *[{"cell": 4}] * 30))], [N(3, 3, 9)]),
    "units in many groups": (
        *(ADD, "COUNT(DISTINCT person)", "cell", 5, 3),
        [(NOBODY, visits(9, *({"cell": cell} for cell in CELLS[:5]))), (NOBODY, visits(9, *in_all_cells()))],
        [N(1, 5, 5)],
    ),
    # replace a person: L1 and L2 of two vectors, in one group the width W
    "many groups, replaced": (
        *(REPLACE, "COUNT(*)", "cell", None, 3),
        [(visits(8, *[{"cell": 4}] * 30), visits(9, *[{"cell": 5}] * 30))],
        [N(3, 6, 18)],
    ),
    "count, replaced": (
        *(REPLACE, "COUNT(*)", "kind", None, 3),
        [(visits(8, *in_kinds("a")), visits(9, *in_kinds("b")))],
        [N(3, 6, 18)],
    ),
    "grand total, replaced": (REPLACE, "COUNT(*)", None, 1, 3, [(NOBODY, HEAVY)], [N(3, 3, 9)]),
    "units, replaced": (
        *(REPLACE, "COUNT(DISTINCT person)", "kind", 2, 3),
        [(visits(8, *in_kinds("ab")), visits(9, *in_kinds("cd")))],
        [N(1, 4, 4)],
    ),
    "distinct, replaced": (
        *(REPLACE, "COUNT(DISTINCT note)", "kind", None, 3),
        [(visits(8, *in_kinds("a")), visits(9, *in_kinds("b")))],
        [N(3, 6, 18)],
    ),
    "sum across zero, replaced": (
        *(REPLACE, "SUM(score)", "kind", None, 1),
        [
            (visits(8, *in_kinds("a", **HIGH)), visits(9, *in_kinds("c", **HIGH))),
            (visits(8, *in_kinds("a", **LOW)), visits(9, *in_kinds("a", **HIGH))),
        ],
        [N(60, 80, 3600)],
    ),
    "positive sum, replaced": (
        *(REPLACE, "SUM(age)", "sex", None, 2),
        [(people(8, *[{"sex": "F", "age": 200}] * 5), people(9, *[{"sex": "M", "age": 200}] * 5))],
        [N(200, 400, 80_000)],
    ),
    "grand total across zero, replaced": (
        *(REPLACE, "SUM(score)", None, 1, 2),
        [(visits(8, *in_kinds("a", **LOW)), visits(9, *in_kinds("a", **HIGH)))],
        [N(120, 120, 14_400)],
    ),
    "deviations, replaced": (
        *(REPLACE, "AVG(score)", None, 1, 2),
        [
            (visits(8, *in_kinds("a", **LOW)), visits(9, *in_kinds("a", **HIGH))),
            (NOBODY, visits(9, *in_kinds("a", **HIGH))),
        ],
        [N(120, 240, 28_800)] * 2,
    ),
    # choices: how far a unit moves the utilities of a group apart, in ranks
    "median": (ADD, "MEDIAN(score)", "kind", None, 3, [(many(), many(*in_kinds("a", **LOW)))], [N(3, 3, 9)]),
    "last decile": (
        *(ADD, "QUANTILE_DISC(score, 0.9)", None, 1, 5),
        [(many(), many(*in_kinds("abcd", **HIGH)))],
        [N(9, 9, 81)],
    ),
    "minimum": (ADD, "MIN(score)", "kind", None, 2, [(many(), many(*in_kinds("a", **LOW)))], [N(4, 4, 16)]),
    "maximum": (ADD, "MAX(score)", "kind", None, 2, [(many(), many(*in_kinds("a", **HIGH)))], [N(4, 4, 16)]),
    "mode": (ADD, "MODE(kind)", None, 1, 3, [(many(), many(*in_kinds("b")))], [N(3, 3, 9)]),
    "mode in groups": (ADD, "MODE(ok)", "kind", None, 3, [(many(), many(*in_kinds("a", ok=True)))], [N(3, 3, 9)]),
    "median, replaced": (
        *(REPLACE, "MEDIAN(score)", "kind", None, 1),
        [(visits(8, *in_kinds("a", **LOW)), visits(9, *in_kinds("a", **HIGH)))],
        [N(2, 2, 4)],
    ),
    "minimum, replaced": (
        *(REPLACE, "MIN(score)", None, 1, 2),
        [(visits(8, *in_kinds("a", **LOW)), visits(9, *in_kinds("a", **HIGH)))],
        [N(4, 4, 16)],
    ),
    "mode, replaced": (
        *(REPLACE, "MODE(kind)", None, 1, 2),
        [(visits(8, *in_kinds("a")), visits(9, *in_kinds("b")))],
        [N(4, 4, 16)],
    ),
    # each row is a unit
    "median of rows": (
        *(ROW, "MEDIAN(score)", "kind", None, None),
        [(NOBODY, visits(0, {"kind": "a", **LOW}))],
        [N(1, 1, 1)],
    ),
    "row": (ROW, "COUNT(*)", "kind", None, None, [(NOBODY, visits(0, {"kind": "a"}))], [N(1, 1, 1)]),
    "sum of rows": (
        *(ROW, "SUM(score)", "kind", None, None),
        [(NOBODY, visits(0, {"kind": "a", **HIGH}))],
        [N(40, 40, 1600)],
    ),
    "row, replaced": (
        *(f"{ROW} {REPLACE}", "COUNT(*)", "kind", None, None),
        [(visits(0, {"kind": "a"}), visits(0, {"kind": "b"}))],
        [N(1, 2, 2)],
    ),
    "sum of rows, replaced": (
        *(f"{ROW} {REPLACE}", "SUM(score)", "kind", None, None),
        [
            (visits(0, {"kind": "a", **HIGH}), visits(0, {"kind": "b", **HIGH})),
            (visits(0, {"kind": "a", **LOW}), visits(0, {"kind": "a", **HIGH})),
        ],
        [N(60, 80, 3600)],
    ),
}


def crowd(unit: str) -> Rows:
    """Returns some people who differ from each other."""
    rows: Rows = {name: [] for name in (ROW_TABLES if unit == ROW else PERSON_TABLES) | PUBLIC_TABLES}
    for person in range(5):
        given = [{"kind": kind, "score": person, "note": "shared", "ok": True, "cost": 1.5} for kind in "abcdz"]
        rows["visits"] += visits(person, *given)["visits"]
        if unit != ROW:
            rows["people"] += people(person, {"sex": "F", "age": 30 + person})["people"]
    return rows


def hand_made(hall: Hall, neighbours: str, *guests: Rows) -> Database:
    """Returns the database of the crowd and these guests."""
    unit = ROW if neighbours.startswith(ROW) else "int64"
    made = World(catalog=hall.catalog, crowd=crowd(unit), guests=(), styles=(), stored_as_text=frozenset())
    return hall.open(made.sources(*guests))


@pytest.fixture(scope="module")
def nobody(shelf: str) -> Callable[[str], tuple[Hall, Database]]:
    """Returns a hall and the database of the crowd there, the same for all cases of such neighbours."""

    @functools.cache
    def opened(neighbours: str) -> tuple[Hall, Database]:
        kind = "add_remove" if neighbours in (ADD, ROW) else "replace_one"
        unit = ROW if neighbours.startswith(ROW) else "int64"
        hall = Hall(catalog_of(unit=unit, neighbours=kind, unique=False), shelf)
        return hall, hand_made(hall, neighbours, NOBODY)

    return opened


@pytest.mark.parametrize("case", WORST_CASES)
def test_worst_cases_reach_what_is_declared_and_no_more(
    case: str, nobody: Callable[[str], tuple[Hall, Database]]
) -> None:
    neighbours, aggregate, key, groups, rows, pairs, by_hand = WORST_CASES[case]
    table = "people" if key == "sex" else "visits"
    grouped = ("", "") if key is None else (f"{key} AS k, ", " GROUP BY ALL")
    query = Query(
        text=f"SELECT {grouped[0]}{aggregate} AS a FROM {table}{grouped[1]}", max_groups=groups, max_rows=rows
    )
    hall, crowd_alone = nobody(neighbours)
    reached = [Norms()] * len(by_hand)
    for pair in pairs:
        left, right = (crowd_alone if guest is NOBODY else hand_made(hall, neighbours, guest) for guest in pair)
        prepared = left.prepare(query)
        declared = [claimed(made) for made in prepared.plan.measurements]
        assert [N(*map(round, norms.parts)) for norms in declared] == by_hand
        for hash_key in (0, 2**100 + 7):
            here, there = left.inputs(prepared, hash_key), right.inputs(prepared, hash_key)
            check_inputs(prepared, here, there, case)
            moved = changes(prepared, here, there)
            families = [measure.family or i for i, measure in enumerate(prepared.measures)]
            for i, step in enumerate(prepared.steps):  # the terms of a vector move together by what is declared of each
                change = [
                    one for family, own in zip(families, moved, strict=True) if family == families[i] for one in own
                ]
                reached[i] = reached[i].largest(norms_of(change, step))
    for norms, most in zip(reached, by_hand, strict=True):
        assert all(norm >= Fraction(9, 10) * limit for norm, limit in zip(norms.parts, most.parts, strict=True)), norms


def one_row(unit: str = "int64") -> Rows:
    """Returns no people at all, and the public tables of the worlds."""
    return {name: [] for name in (ROW_TABLES if unit == ROW else PERSON_TABLES) | PUBLIC_TABLES}


def empty(hall: Hall, *guests: Rows) -> Database:
    """Returns a database with these guests and nobody else."""
    made = World(catalog=hall.catalog, crowd=one_row(), guests=(), styles=(), stored_as_text=frozenset())
    return hall.open(made.sources(*guests))


@pytest.mark.parametrize("key", ["kind", "note", "day", "place", "CASE WHEN score > 0 THEN 'plus' ELSE 'other' END"])
def test_an_empty_database_looks_like_one_with_a_single_person(
    key: str, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only person's groups stay hidden, public groups are all there, and no group says that it had no rows."""
    zero_noise(monkeypatch)
    hall = Hall(catalog_of(), shelf)
    nobody, somebody = empty(hall), empty(hall, visits(9, *in_kinds("ab", day=None, place=1, **HIGH)))
    text = "SELECT {} AS k, COUNT(*) AS n, SUM(score) AS s, COUNT(DISTINCT note) AS d FROM visits GROUP BY 1"
    query = Query(text=text.format(key))
    prepared = nobody.prepare(query)
    check_inputs(prepared, nobody.inputs(prepared, 5), somebody.inputs(prepared, 5), key)
    assert visible(nobody.answer(query), 1) == visible(somebody.answer(query), 1)
    zeros = nobody.answer(query).to_arrow().select(["n", "s", "d"])
    assert all(column.to_pylist() == [0] * len(zeros) for column in zeros.columns)


@pytest.mark.parametrize("people_in_it", [1, 2, 1000])
def test_grand_totals_always_have_one_row(people_in_it: int, shelf: str) -> None:
    hall = Hall(catalog_of(), shelf)
    guests = [visits(100 + i, {"kind": "a"}) for i in range(people_in_it - 1)]
    for database in (empty(hall, *guests), empty(hall, *guests, visits(9, {"kind": "a"}))):
        answer = database.answer(Query(text="SELECT COUNT(*) AS n, SUM(score) AS s, AVG(cost) AS m FROM visits"))
        assert answer.to_arrow().num_rows == 1


def test_a_unit_of_very_many_rows_weighs_as_much_as_is_declared(shelf: str) -> None:
    """A thousand rows everywhere, at the bounds and far beyond, beside NULL, NaN and infinity."""
    values = (10**18, -(10**18), 40, -20, None)
    costs = (float("nan"), float("inf"), float("-inf"), -0.0, None, 1e308)
    made = [
        {
            "kind": "abcdz"[i % 5],
            "note": f"n{i % 50}",
            "score": values[i % 5],
            "cost": costs[i % 6],
            "place": CODES[i % 4],
        }
        for i in range(1000)
    ]
    hall = Hall(catalog_of(), shelf)
    left, right = hand_made(hall, ADD), hand_made(hall, ADD, visits(9, *made))
    for key, rows in itertools.product(("kind", "note", "place", "score"), (1, 5, 1000)):
        text = (
            f"SELECT {key} AS k, COUNT(*) AS n, SUM(score) AS s, AVG(cost) AS m, VAR_POP(cost) AS v,"
            " COUNT(DISTINCT note) AS d, COUNT(DISTINCT cost) AS e FROM visits GROUP BY 1"
        )
        query = Query(text=text, max_groups=3, max_rows=rows)
        prepared = left.prepare(query)
        assert check_inputs(prepared, left.inputs(prepared, 11), right.inputs(prepared, 11), str(query))


def test_rows_of_nobody_count_for_nothing(shelf: str) -> None:
    hall = Hall(catalog_of(), shelf)
    nobody = {"visits": [row("visits", kind="a", score=40, note="x") for _ in range(50)]}
    left, right = hand_made(hall, ADD), hand_made(hall, ADD, nobody)
    for key in ("kind", "note"):
        text = f"SELECT {key} AS k, COUNT(*) AS n, SUM(score) AS s, COUNT(DISTINCT note) AS d FROM visits GROUP BY 1"
        prepared = left.prepare(Query(text=text))
        assert left.inputs(prepared, 3) == right.inputs(prepared, 3)


def test_rows_that_a_query_leaves_out_take_no_weight_from_others(shelf: str) -> None:
    """What a query says of its rows is counted after its WHERE."""
    hall = Hall(catalog_of(), shelf)
    guest = visits(9, *in_kinds("abcd", times=3, ok=False), {"kind": "a", "ok": True})
    left, right = empty(hall), empty(hall, guest)
    query = Query(text="SELECT kind, COUNT(*) AS n FROM visits WHERE ok GROUP BY kind", max_rows=1)
    prepared = left.prepare(query)
    for key in range(5):
        moved = changes(prepared, left.inputs(prepared, key), right.inputs(prepared, key))
        assert norms_of(moved[0]) == N(1, 1, 1)


def test_a_value_that_people_share_is_counted_once_and_stays_when_one_leaves(shelf: str) -> None:
    hall = Hall(catalog_of(), shelf)
    shared = visits(8, *({"kind": "a", "note": f"n{i}"} for i in range(3)))
    guest = visits(9, *({"kind": "a", "note": f"n{i}"} for i in range(3)))
    left, right = empty(hall, shared), empty(hall, shared, guest)
    query = Query(text="SELECT COUNT(DISTINCT note) AS d FROM visits", max_rows=3)
    prepared = left.prepare(query)
    for key in range(10):
        assert left.inputs(prepared, key) == right.inputs(prepared, key) == ({(): (3,)},)


def test_nan_is_null_everywhere(shelf: str) -> None:
    """A person with NaN alone is one without values: no sum, no count, no condition and no maximum sees them."""
    hall = Hall(catalog_of(), shelf)
    others = [visits(i, {"kind": "a", "cost": 1.0}) for i in range(3)]
    left = empty(hall, *others, visits(9, *({"kind": "a", "cost": None} for _ in range(5))))
    right = empty(hall, *others, visits(9, *({"kind": "a", "cost": float("nan")} for _ in range(5))))
    texts = [
        "SELECT COUNT(cost) AS n, SUM(cost) AS s, COUNT(DISTINCT cost) AS d, VAR_POP(cost) AS v FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE cost > 100",
        "SELECT COUNT(*) AS n FROM visits WHERE cost IS NOT NULL",
        "SELECT cost, COUNT(*) AS n FROM visits GROUP BY cost",
        "SELECT SUM(m) AS s, COUNT(m) AS n FROM (SELECT person, MAX(cost) AS m FROM visits GROUP BY person) u",
    ]
    for text in texts:
        prepared = left.prepare(Query(text=text))
        assert left.inputs(prepared, 1) == right.inputs(prepared, 1), text


@pytest.mark.parametrize("guest", [-1, 99])
def test_nobody_can_take_over_the_values_of_others(guest: int, shelf: str) -> None:
    """Values belong to each person who has them: a newcomer with all of them hides none."""
    hall = Hall(catalog_of(), shelf)
    others = [visits(i, {"kind": "a", "note": f"n{i}"}) for i in range(6)]
    newcomer = visits(guest, *({"kind": "a", "note": f"n{i}"} for i in range(6)))
    left, right = empty(hall, *others), empty(hall, *others, newcomer)
    prepared = left.prepare(Query(text="SELECT COUNT(DISTINCT note) AS d FROM visits", max_rows=1))
    for key in range(10):
        assert left.inputs(prepared, key) == right.inputs(prepared, key) == ({(): (6,)},)


def test_declarations_that_the_promise_rests_on_are_checked(shelf: str) -> None:
    """Public keys that repeat, and foreign keys that lead to two people, are refused when the tables are opened."""
    hall = Hall(catalog_of(), shelf)
    public: Rows = {
        "places": [{"code": 1, "region": "east", "factor": 1.0}, {"code": 1, "region": "west", "factor": 1.0}]
    }
    shared: Rows = {"visits": [row("visits", person=1, visit=5), row("visits", person=2, visit=5)]}
    for wrong in (public, shared):
        with pytest.raises(dp.CatalogError):
            empty(hall, wrong)


# How rows are read never depends on other rows.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("odd", ["abc", "", "1e999", True, 2.5, 10**30, b"bytes"])
@pytest.mark.parametrize("column", ["score", "cost", "ok", "day", "rate"])
def test_a_misfit_in_a_frame_changes_how_no_other_row_is_read(column: str, odd: object, shelf: str) -> None:
    """A frame's column of one type becomes one of objects when a single unit's value is of another."""
    values = {
        "score": [1.0, 2.0, 3.0, 2**53],
        "cost": [float("inf"), 1e22, float("-inf"), 0.1],
        "ok": [True, False, True, True],
        "day": pd.to_datetime(["2000-01-01", "2000-06-01", "2000-12-31", "1999-01-01"]),
        "rate": [1, 2.5, 3.25, -4],
    }[column]
    hall = Hall(catalog_of(), shelf)
    tables = World(catalog=hall.catalog, crowd=one_row(), guests=(), styles=(), stored_as_text=frozenset()).sources()
    frame = tables["visits"].to_pandas().reindex(range(4))
    frame["person"], frame["kind"], frame[column] = [1, 2, 3, 4], "a", values
    other = frame.iloc[[0]].assign(person=9).astype(object)
    other[column] = [odd]
    left = hall.open({**tables, "visits": frame})
    right = hall.open({**tables, "visits": pd.concat([frame.astype({column: object}), other], ignore_index=True)})
    of_all = f"SUM(CASE WHEN {column} THEN 1 ELSE 0 END)" if column == "ok" else f"SUM({column})"
    if column == "day":
        of_all = "SUM(EXTRACT(MONTH FROM day))"
    query = Query(text=f"SELECT {of_all} AS s, COUNT({column}) AS n FROM visits WHERE person < 9")
    prepared = left.prepare(query)
    assert left.inputs(prepared, 1) == right.inputs(prepared, 1)


# Queries in which one person could reach another's rows are refused.


MIXING = [
    "SELECT COUNT(*) FROM people p, visits v",
    "SELECT COUNT(*) FROM people p JOIN visits v ON p.age = v.score",
    "SELECT COUNT(*) FROM people p JOIN visits v ON p.id = v.visit",
    "SELECT COUNT(*) FROM people p JOIN visits v ON p.id = v.person + 0",
    "SELECT COUNT(*) FROM people p JOIN visits v ON p.id >= v.person",
    "SELECT COUNT(*) FROM people p JOIN visits v ON p.id = v.person OR TRUE",
    "SELECT COUNT(*) FROM visits v JOIN visits w ON v.kind = w.kind",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT person + 0 AS person FROM visits) w ON v.person = w.person",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT visit AS person FROM visits) w ON v.person = w.person",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.age = v.score",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.id = v.visit",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.id = v.person OR TRUE",
    "SELECT COUNT(*) FROM people p FULL JOIN visits v ON p.age = v.score",
    "SELECT COUNT(*) FROM people p FULL JOIN places c ON p.age = c.code",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.id = v.person FULL JOIN visits w ON w.person = v.person",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.id = v.person JOIN visits w ON w.kind = v.kind",
    "SELECT COUNT(*) FROM places c LEFT JOIN visits v ON v.place = c.code",
    "SELECT c.code, v.score FROM places c LEFT JOIN visits v ON v.place = c.code",
    "SELECT COUNT(*) FROM (SELECT c.code FROM places c LEFT JOIN visits v ON v.place = c.code) u",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v)",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.score = p.age)",
    "SELECT COUNT(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.visit = p.id)",
    "SELECT COUNT(*) FROM people p WHERE id IN (SELECT visit FROM visits)",
    "SELECT COUNT(*) FROM people p WHERE id NOT IN (SELECT person + 0 FROM visits)",
    "SELECT COUNT(*) FROM people p WHERE age > ALL (SELECT score FROM visits)",
    "SELECT COUNT(*) FROM people p WHERE age > 30 OR EXISTS (SELECT 1 FROM visits v)",
    "SELECT COUNT(*) FROM people p WHERE age > 30 OR EXISTS (SELECT 1 FROM visits v WHERE v.score = p.age)",
    "SELECT COUNT(*) FROM people p WHERE age > 30 OR EXISTS (SELECT 1 FROM visits v WHERE v.score > p.age)",
    "SELECT COUNT(*) FROM people p WHERE age > 30 OR id IN (SELECT visit FROM visits)",
    "SELECT COUNT(*) FROM people p WHERE age > 30 OR id NOT IN (SELECT person + 0 FROM visits)",
    "SELECT COUNT(*) FROM people p WHERE NOT (age > ALL (SELECT score FROM visits))",
    "SELECT AVG(CASE WHEN age IN (SELECT score FROM visits) THEN 1 ELSE 0 END) FROM people p",
    "SELECT code, code IN (SELECT place FROM visits) FROM places",
    "SELECT code, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM visits v WHERE v.place = code)) FROM places GROUP BY 1",
    "SELECT COUNT(*) FROM places c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.place = c.code)",
    "SELECT COUNT(*) FROM places c WHERE code NOT IN (SELECT place FROM visits)",
    "SELECT COUNT(*) FROM (SELECT kind FROM visits LIMIT 3) u",
    "SELECT SUM(u.n) FROM (SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind) u JOIN visits v ON u.kind = v.kind",
    "SELECT person, COUNT(*) FROM visits GROUP BY person",
    "SELECT * FROM visits",
    "WITH places AS (SELECT person AS code, note AS region FROM visits) SELECT code, region FROM places",
    "WITH places AS (SELECT note AS region FROM visits) SELECT region FROM places ORDER BY region LIMIT 1",
    "SELECT region FROM (SELECT note AS region FROM visits) places",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY day) AS r FROM visits) u",
    "SELECT COUNT(*) FROM (SELECT SUM(score) OVER (PARTITION BY kind ORDER BY day) AS s FROM visits) u",
    "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY kind ORDER BY score) AS s FROM visits) u",
    "SELECT person, NTILE(4) OVER (ORDER BY score) AS s FROM visits",
    "SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY kind ORDER BY day) = 1",
    "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY visit ORDER BY day) = 1) u",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ON (kind) * FROM visits ORDER BY kind, day) u",
    "SELECT MAX(n) OVER () FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) u",
    "SELECT person, ROW_NUMBER() OVER (PARTITION BY person) FROM visits",
]


@pytest.fixture(scope="module")
def one_person(shelf: str) -> Database:
    """A database that refused queries leave as it is."""
    return empty(Hall(catalog_of(unique=False), shelf))


@pytest.mark.parametrize("text", MIXING)
def test_queries_that_mix_people_are_refused(text: str, one_person: Database) -> None:
    before = one_person.hall.ledger.spent(None)
    with pytest.raises(dp.QueryError):
        one_person.answer(Query(text=text))
    assert one_person.hall.ledger.spent(None) == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits v JOIN tags t ON v.place = t.code",
        "SELECT COUNT(*) FROM visits v JOIN places c ON v.place < c.code",
        "SELECT COUNT(*) FROM visits v, places c",
        "SELECT COUNT(*) FROM visits v JOIN places c ON v.note = c.region",
        "SELECT COUNT(*) FROM visits v JOIN places c ON v.cost = c.code",
        "SELECT COUNT(*) FROM visits v JOIN visits w ON v.visit = w.visit",
        "SELECT COUNT(*) FROM (SELECT DISTINCT kind, note FROM visits) u",
        "SELECT COUNT(*) FROM (SELECT COUNT(*) OVER (PARTITION BY visit) AS n FROM visits) u",
        "SELECT COUNT(*) FROM (SELECT DISTINCT ON (visit) kind FROM visits) u",
    ],
)
def test_where_each_row_is_a_unit_no_join_may_turn_one_into_several(text: str, shelf: str) -> None:
    hall = Hall(catalog_of(unit=ROW), shelf)
    made = World(catalog=hall.catalog, crowd=one_row(ROW), guests=(), styles=(), stored_as_text=frozenset())
    database = hall.open(made.sources())
    try:
        plan = database.explain(Query(text=text))
    except dp.QueryError:
        return
    # One level of aggregation over DISTINCT rows is itself a release, and so is what a window reads of other rows: each
    # is as good as a refusal.
    assert all(made.l1 == 1 for made in plan.measurements)
    assert "DISTINCT" in text or "OVER" in text


def test_which_row_is_the_first_depends_on_no_other_person(shelf: str) -> None:
    """Rows that the query's order leaves equal are told apart by all their columns, and equal rows do not matter.

    Two window functions of different orders stand over rows of which many are equal.
    """
    random = Random(11)

    def of(person: int) -> Rows:
        few = [{"kind": random.choice("abcd"), "score": random.randrange(3), "cost": random.random()} for _ in range(4)]
        return visits(person, *(random.choice(few) for _ in range(40)))

    text = (
        "SELECT kind, SUM(a) AS a, SUM(b * a) AS b, SUM(c) AS c, SUM(d) AS d, COUNT_IF(a = b) AS e FROM (SELECT kind,"
        " ROW_NUMBER() OVER (PARTITION BY person ORDER BY score) AS a,"
        " ROW_NUMBER() OVER (PARTITION BY person ORDER BY score % 2 DESC) AS b,"
        " CLAMP(LAG(cost) OVER (PARTITION BY person ORDER BY kind), 0, 1) AS c,"
        " SUM(cost) OVER (PARTITION BY person ORDER BY kind ROWS 3 PRECEDING) AS d FROM visits) u GROUP BY kind"
    )
    hall = Hall(catalog_of(), shelf)
    mine, others = of(7), [of(person) for person in range(20, 40)]
    found = []
    for guests in ((), others[:3], others, others[::-1]):
        rows = {table: [*mine.get(table, []), *(r for guest in guests for r in guest.get(table, []))] for table in mine}
        for order in (rows["visits"], rows["visits"][::-1], random.sample(rows["visits"], len(rows["visits"]))):
            database = empty(hall, {"visits": order})
            prepared = database.prepare(Query(text=text, max_groups=4, max_rows=100))
            whole = database.inputs(prepared, 5)[0]
            rest = empty(hall, {"visits": [r for r in order if r["person"] != 7]}).inputs(prepared, 5)[0]
            zeros = (0,) * len(prepared.measures)
            own = {g: [a - b for a, b in zip(n, rest.get(g, zeros), strict=True)] for g, n in whole.items()}  # type: ignore[operator]
            found.append({group: numbers for group, numbers in own.items() if any(numbers)})
    assert found[0]
    assert all(own == found[0] for own in found)


def test_a_common_table_hides_the_table_of_its_name(shelf: str) -> None:
    """A name of a public table that a query gives to private rows makes them no more public."""
    database = empty(Hall(catalog_of(), shelf), visits(9, {"kind": "a", "note": "canary"}))
    text = "WITH places AS (SELECT note AS region FROM visits) SELECT region, COUNT(*) AS n FROM places GROUP BY region"
    plan = database.explain(Query(text=text))
    assert len(plan.measurements) == 2
    assert "canary" not in str(plan)
    assert all(made.tau for made in plan.measurements)


def test_all_public_groups_are_there_in_their_order_whatever_the_rows(shelf: str) -> None:
    hall = Hall(catalog_of(), shelf)
    orders = [visits(9, *({"kind": kind} for kind in kinds)) for kinds in ("dcba", "a", "zq", "")]
    for guest in orders:
        answer = empty(hall, guest).answer(Query(text="SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"))
        assert answer.to_arrow()["kind"].to_pylist() == ["a", "b", "c", "d"]


def test_selected_groups_are_sorted_whatever_the_order_of_rows(shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    hall = Hall(catalog_of(), shelf)
    notes = ["zed", "amy", "bob", "É", "a"]
    for order in (notes, notes[::-1]):
        guests = [visits(i, *({"kind": "a", "note": note} for note in order)) for i in range(200)]
        query = Query(text="SELECT note, COUNT(*) AS n FROM visits GROUP BY note", max_groups=5)
        assert empty(hall, *guests).answer(query).to_arrow()["note"].to_pylist() == sorted(notes)


def test_the_norms_refuse_a_plan_that_declares_too_little(shelf: str) -> None:
    """The check itself: a declared norm that is a little too small is found."""
    hall = Hall(catalog_of(unique=False), shelf)
    left, right = empty(hall), empty(hall, visits(9, *in_kinds("a", times=2, **HIGH)))
    query = Query(text="SELECT kind, SUM(score) AS s FROM visits GROUP BY kind", max_rows=2)
    prepared: AuditedPlan = left.prepare(query)
    here, there = left.inputs(prepared, 1), right.inputs(prepared, 1)
    assert check_inputs(prepared, here, there, "")
    (made,) = prepared.plan.measurements
    for less in ({"linf": made.linf - 1}, {"l1": made.l1 - 1}, {"l2": float(made.l2) - 0.01}):
        prepared.plan.measurements = (replace(made, **less),)
        with pytest.raises(AssertionError):
            check_inputs(prepared, here, there, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_counts_in_no_more_selected_groups_than_is_said(shelf: str, engine: str) -> None:
    """Of a lone unit's many groups it counts in some, as the key says, and has weight in all."""
    hall = Hall(catalog_of(), shelf, engine)
    database = empty(hall, visits(9, *in_kinds("abcd")))
    prepared = database.prepare(
        Query(text="SELECT note, COUNT(*) AS n, COUNT(DISTINCT person) AS u FROM visits GROUP BY note", max_groups=3)
    )
    chosen = set()
    for key in range(10):
        groups: Groups
        (groups,) = database.inputs(prepared, key)
        counting = {group for group, numbers in groups.items() if numbers[1]}
        assert len(counting) == 3 and all(groups[group][1] == 1 for group in counting)
        chosen |= counting
    assert len(chosen) > 3, "the key decides which"
