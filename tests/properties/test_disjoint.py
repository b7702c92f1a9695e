"""For neighbouring databases all measures together lose no more than is charged, those of disjoint filters in parallel.

Each measure's change is weighed with its own scale: what `check_inputs` adds up over measures is the loss of the pair.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest

import dpquery as dp
from tests.properties import queries
from tests.properties.neighbours import AuditedPlan, Database, Hall, check_inputs, realised_loss
from tests.properties.queries import Query
from tests.properties.test_neighbours import NOBODY, databases, people, visits
from tests.properties.worlds import PUBLIC_TABLES, ROW_TABLES, Rows, World, catalog_of, world

BUDGETS: dict[str, dict[str, object]] = {
    "pure": {"epsilon": 100_000},
    "approximate": {"epsilon": 100_000, "delta": "1/10"},
}


def is_parallel(prepared: AuditedPlan) -> bool:
    """Whether some measures of a plan are in parallel."""
    return any(made.parallel for made in prepared.plan.measurements)


def check_world(made: World, random: Random, shelf: str, *, count: int) -> tuple[int, int]:
    """Checks random queries on all neighbours of a world; returns how many pairs were in parallel, and how many of
    these moved."""
    opened, pairs = databases(Hall(made.catalog, shelf), made)
    checked = moved = 0
    for _ in range(count):
        query = queries.split_query(random, row_unit=made.catalog.declarations.unit_is_row)
        try:
            prepared = opened[0][1].prepare(query)
        except dp.QueryError:
            continue
        key = random.getrandbits(128)
        inputs = [database.inputs(prepared, key) for _, database in opened]
        for a, b in pairs:
            differs = check_inputs(prepared, inputs[a], inputs[b], f"{query} ({opened[a][0]} against {opened[b][0]})")
            checked += is_parallel(prepared)
            moved += differs and is_parallel(prepared)
    return checked, moved


@pytest.mark.parametrize("worlds", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_random_queries_lose_no_more_than_is_charged(worlds: int, shelf: str) -> None:
    checked = moved = 0
    for seed in worlds_with_parallel(worlds):
        random = Random(seed)
        found = check_world(world(random), random, shelf, count=10)
        checked, moved = checked + found[0], moved + found[1]
    assert checked >= 10 * worlds
    assert moved >= checked / 3, f"only {moved} of {checked} pairs differ at all"


def worlds_with_parallel(count: int) -> list[int]:
    """Returns seeds of worlds where units come and go, in every other of which a row is a unit."""
    found: dict[bool, list[int]] = {True: [], False: []}
    for seed in itertools.count(5000):
        made = world(Random(seed)).catalog
        if made.neighbours.value == "add_remove":
            found[made.declarations.unit_is_row].append(seed)
        if min(map(len, found.values())) >= count // 2:
            return found[True][: count // 2] + found[False][: count // 2]
    raise AssertionError


BY_SEX = "COUNT(*) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE sex = 'M')"
BY_OK = "COUNT(*) FILTER (WHERE ok), COUNT(*) FILTER (WHERE NOT ok)"
OK_APART = "SELECT (SELECT COUNT(*) FROM visits WHERE ok) AS a, (SELECT COUNT(*) FROM visits WHERE NOT ok) AS b"
YES, NO = {"ok": True, "kind": "a", "score": 40}, {"ok": False, "kind": "a", "score": 40}

WORST_CASES: dict[str, tuple[str, str, Query, Rows, str]] = {
    # of one privacy unit, what it loses of the query's epsilon of 1; subqueries of a person pay for themselves, though
    # all rows of a unit weigh M together
    "one row": ("row", "add_remove", Query(text=f"SELECT {BY_OK} FROM visits"), visits(9, YES), "1"),
    "one row, and all rows": (
        "row",
        "add_remove",
        Query(text=f"SELECT COUNT(*), {BY_OK} FROM visits"),
        visits(9, YES),
        "1",
    ),
    "one row, medians of nothing, which move half as far as others": (
        "row",
        "add_remove",
        Query(text="SELECT MEDIAN(score) FILTER (WHERE ok), MEDIAN(score) FILTER (WHERE NOT ok) FROM visits"),
        visits(9, YES),
        "1/2",
    ),
    "two subqueries": (
        "row",
        "add_remove",
        Query(
            text="SELECT (SELECT COUNT(*) FROM visits WHERE ok) AS a, (SELECT COUNT(*) FROM visits WHERE NOT ok) AS b"
        ),
        visits(9, YES),
        "1",
    ),
    "two subqueries of one person": (
        "int64",
        "add_remove",
        Query(
            text="SELECT (SELECT COUNT(*) FROM visits WHERE ok) AS a, (SELECT COUNT(*) FROM visits WHERE NOT ok) AS b"
        ),
        visits(9, *[YES] * 3, *[NO] * 3),
        "1/2",
    ),
    "filters of two subqueries of one person": (
        "int64",
        "add_remove",
        Query(
            text="SELECT (SELECT COUNT(*) FILTER (WHERE ok) - COUNT(*) FILTER (WHERE NOT ok) FROM visits"
            " WHERE kind = 'a') AS a, (SELECT COUNT(*) FILTER (WHERE ok) - COUNT(*) FILTER (WHERE NOT ok) FROM visits"
            " WHERE kind = 'b') AS b"
        ),
        visits(9, *[YES] * 3, *[{**NO, "kind": "b"}] * 3),
        "1/2",
    ),
    "a row of neither": ("row", "add_remove", Query(text=f"SELECT {BY_OK} FROM visits"), visits(9, {"score": 1}), "0"),
    "filters that meet": (
        "row",
        "add_remove",
        Query(text="SELECT COUNT(*) FILTER (WHERE score >= 40), COUNT(*) FILTER (WHERE score <= 40) FROM visits"),
        visits(9, YES),
        "1",
    ),
    "three filters, of which two meet": (
        "row",
        "add_remove",
        Query(text=f"SELECT {BY_OK}, COUNT(*) FILTER (WHERE kind = 'a') FROM visits"),
        visits(9, YES),
        "1",
    ),
    "replaced": ("row", "replace_one", Query(text=f"SELECT {BY_OK} FROM visits"), visits(9, YES), "1/2"),
    "one person": ("int64", "add_remove", Query(text=f"SELECT {BY_SEX} FROM people"), people(9, {"sex": "F"}), "1"),
    "three rows of one kind": (
        "int64",
        "add_remove",
        Query(text=f"SELECT {BY_OK} FROM visits"),
        visits(9, *[YES] * 3),
        "1",
    ),
    "of both": ("int64", "add_remove", Query(text=f"SELECT {BY_OK} FROM visits"), visits(9, YES, YES, NO), "1"),
    "more than allowed": (
        "int64",
        "add_remove",
        Query(text=f"SELECT {BY_OK} FROM visits"),
        visits(9, *[YES] * 4, *[NO] * 2),
        "1",
    ),
    "more than allowed, cut": (
        "int64",
        "add_remove",
        Query(text=f"SELECT {BY_OK} FROM visits"),
        visits(9, *[YES] * 4, *[NO] * 4),
        "1",
    ),
    "more than allowed, sums": (
        "int64",
        "add_remove",
        Query(text="SELECT SUM(score) FILTER (WHERE ok), SUM(CASE WHEN NOT ok THEN score ELSE 0 END) FROM visits"),
        visits(9, *[YES] * 4, *[NO] * 4),
        "1",
    ),
    "bounded apart, for fewer rows count than there may be": (
        "int64",
        "add_remove",
        Query(text=f"SELECT {BY_OK} FROM visits", max_rows=2),
        visits(9, *[YES] * 2, *[NO] * 2),
        "1",
    ),
    "several groups": (
        "int64",
        "add_remove",
        Query(text=f"SELECT kind, {BY_OK} FROM visits GROUP BY kind"),
        visits(9, *[YES] * 3, *[{**NO, "kind": "b"}] * 3),
        "1",
    ),
}


@pytest.fixture(scope="module")
def without_guest(shelf: str) -> Callable[[str, str, str], tuple[World, Hall, Database]]:
    """Returns a world without guests, a hall, and its database there: the same for all cases of such units."""

    @functools.cache
    def opened(unit: str, neighbours: str, budget: str) -> tuple[World, Hall, Database]:
        catalog = catalog_of(unit=unit, neighbours=neighbours, unique=True, budget=BUDGETS[budget])
        made = World(catalog=catalog, crowd=_crowd(unit), guests=(), styles=(), stored_as_text=frozenset())
        hall = Hall(catalog, shelf)
        return made, hall, hall.open(made.sources())

    return opened


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("case", WORST_CASES.values(), ids=WORST_CASES.keys())
def test_the_charge_is_reached(
    case: tuple[str, str, Query, Rows, str],
    budget: str,
    without_guest: Callable[[str, str, str], tuple[World, Hall, Database]],
) -> None:
    unit, neighbours, query, rows, expected = case
    made = {"visits": [{c: r.get(c) for c in ROW_TABLES["visits"]} for r in rows["visits"]]} if unit == "row" else rows
    empty, hall, nobody = without_guest(unit, neighbours, budget)
    there = hall.open(empty.sources(made))
    prepared = nobody.prepare(query)
    inputs = [database.inputs(prepared, 1) for database in (nobody, there)]
    check_inputs(prepared, *inputs, str(query))  # type: ignore[arg-type, call-arg]
    guarantee = prepared.plan.guarantee
    if guarantee.epsilon:
        assert guarantee.epsilon == 1
        assert realised_loss(prepared, *inputs) == Fraction(expected)


def _crowd(unit: str) -> Rows:
    assert NOBODY == {}
    tables = {"visits": []} if unit == "row" else {"people": [], "visits": [], "items": []}  # type: ignore[var-annotated]
    return {**tables, **{name: [] for name in PUBLIC_TABLES}}
