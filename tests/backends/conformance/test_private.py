"""The three steps that every backend owes the kernel, on tables made to break them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError
from dpquery.kernel.plan import WEIGHT, Lattice, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.functions import call
from dpquery.plan.logical import Relation, column
from dpquery.plan.types import FLOAT64, INT64, Value
from tests.backends.engines import Engine, Groups, catalog_of, run
from tests.backends.plans import (
    MANY,
    ROWS,
    UNITS,
    aggregate,
    distinct,
    extended,
    grouped,
    joined,
    lattice,
    literal,
    scan,
    squares,
    total,
    values_of,
    where,
)

LARGEST, LEAST = 2**63 - 1, -(2**63)
INF, NAN = math.inf, math.nan


def visits(
    engine: Engine, types: dict[str, str], values: dict[str, Any], unit: str = "text"
) -> tuple[Backend, Relation]:
    """Returns a backend that holds one private table with a unit `u`, and a scan of it."""
    columns: dict[str, object] = {"u": {"type": unit}, **{name: {"type": type} for name, type in types.items()}}
    catalog = catalog_of({"v": {"unit": "u", "max_rows": 8, "columns": columns}})
    return engine(catalog, {"v": pd.DataFrame(values)}), scan(catalog, "v")


def rows_as_units(engine: Engine, types: dict[str, str], values: dict[str, Any]) -> tuple[Backend, Relation]:
    """Returns a backend whose privacy unit is the row, and a scan of its table."""
    catalog = catalog_of({"v": {"columns": {name: {"type": type} for name, type in types.items()}}}, unit="row")
    return engine(catalog, {"v": pd.DataFrame(values)}), scan(catalog, "v")


def one_total(engine: Engine, type: str, stored: Any, on: Lattice, *, rows: int = MANY) -> int:
    """Returns the sum over one unit's values, in steps of weight if `rows` says how many may weigh 1."""
    backend, source = visits(engine, {"x": type}, {"u": ["a"] * len(stored), "x": stored})
    return run(backend, aggregate(source, total("v_x", on), unit="v_u", rows=rows))[()][0]


# Units and groups.


def test_rows_without_a_unit_are_dropped(engine: Engine) -> None:
    values = {"u": ["a", None, "b", None, ""], "x": [1, 10, 100, 1000, 10000]}
    backend, source = visits(engine, {"x": "int64"}, values)
    plan = aggregate(source, UNITS, ROWS, total("v_x", lattice(0, 10**6)), distinct("v_x"), unit="v_u")
    assert run(backend, plan) == {(): (3, 3, 10101, 3)}


@pytest.mark.parametrize("domain", [("x", "y"), None])
@pytest.mark.parametrize("units", [[], [None, None]])
def test_tables_without_units_give_nothing(engine: Engine, domain: tuple[Value, ...] | None, units: list[None]) -> None:
    values = {"u": pd.Series(units, dtype="str"), "k": pd.Series(["x"] * len(units), dtype="str")}
    backend, source = visits(engine, {"k": "text"}, values)
    measures = (UNITS, ROWS, values_of("v_k"), distinct("v_k"))
    assert run(backend, aggregate(source, *measures, unit="v_u")) == {(): (0, 0, 0, 0)}
    for groups, rows in ((1, 1), (10, 10)):
        plan = aggregate(source, *measures, unit="v_u", keys={"v_k": domain}, groups=groups, rows=rows)
        assert run(backend, plan) == {}


def test_rows_outside_the_domain_are_dropped_after_rows_and_groups_were_counted(engine: Engine) -> None:
    outside = [f"other{i}" for i in range(50)] + [None]
    values = {"u": ["a"] * 52, "k": [*outside, "x"]}
    backend, source = visits(engine, {"k": "text"}, values)
    for key in range(3):
        plan = aggregate(source, UNITS, ROWS, unit="v_u", keys={"v_k": ("x", "y", "z")}, groups=1, rows=1)
        assert run(backend, plan, key) == {("x",): (WEIGHT // 52, WEIGHT // 52)}


def test_keys_are_compared_exactly(engine: Engine) -> None:
    keys = ["a", "A", "a ", " a", "ä", "a\u0308", "", "😀", "a\n", "%", "'", None]
    values = {"u": [str(i) for i in range(len(keys))], "k": keys}
    backend, source = visits(engine, {"k": "text"}, values)
    known = tuple(key for key in keys if key is not None)
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": known})
    assert run(backend, plan) == {(key,): (1,) for key in known}
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": ("a", "x")})
    assert run(backend, plan) == {("a",): (1,)}
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": None})
    assert run(backend, plan) == {(key,): (1,) for key in keys}


KEYS: dict[str, tuple[str, list[Any], list[Value]]] = {
    "int64": ("int64", [LARGEST, LEAST, 0, 2**53 + 1, 2**53], [LARGEST, LEAST, 0, 2**53 + 1, 2**53]),
    "boolean": ("boolean", [True, False], [True, False]),
    "float64": ("float64", [0.5, INF, -INF, 1e308, 5e-324], [0.5, INF, -INF, 1e308, 5e-324]),
    "decimal": (
        "decimal(38,10)",
        [Decimal("1.0000000001"), Decimal("1.0000000002")],
        [Decimal("1.0000000001"), Decimal("1.0000000002")],
    ),
    "date": (
        "date",
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    ),
    "timestamp": (
        "timestamp",
        [datetime.datetime(2020, 1, 1, 0, 0, 0, 1), datetime.datetime(2020, 1, 1)],
        [datetime.datetime(2020, 1, 1, 0, 0, 0, 1), datetime.datetime(2020, 1, 1)],
    ),
}


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("public", [True, False])
def test_keys_of_every_type(engine: Engine, case: str, public: bool) -> None:
    type, stored, keys = KEYS[case]
    backend, source = visits(engine, {"k": type}, {"u": [str(i) for i in range(len(stored))], "k": stored})
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": tuple(keys) if public else None})
    assert run(backend, plan) == {(key,): (1,) for key in keys}
    if public:
        plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": tuple(keys[1:])})
        assert run(backend, plan) == {(key,): (1,) for key in keys[1:]}


def test_negative_zero_and_nan_are_no_keys_of_their_own(engine: Engine) -> None:
    values = {"u": ["a", "b", "c", "d"], "k": [0.0, -0.0, NAN, None]}
    backend, source = visits(engine, {"k": "float64"}, values)
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": None})
    assert run(backend, plan) == {(0.0,): (2,), (None,): (2,)}
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": (0.0, 1.0)})
    assert run(backend, plan) == {(0.0,): (2,)}


def test_public_and_selected_keys_mix(engine: Engine) -> None:
    values = {
        "u": ["a", "a", "b", "b", "c", "d", "e", None],
        "p": ["x", "y", "x", "out", None, "y", "y", "x"],
        "s": ["1", "2", "1", "1", "1", None, None, "1"],
        "n": [1, 2, 3, 4, 5, 6, None, 8],
    }
    backend, source = visits(engine, {"p": "text", "s": "text", "n": "int64"}, values)
    for keys in ({"v_p": ("z", "y", "x"), "v_s": None}, {"v_s": None, "v_p": ("z", "y", "x")}):
        plan = aggregate(source, UNITS, total("v_n", lattice(0, 100)), unit="v_u", keys=keys)  # type: ignore[arg-type]
        expected: Groups = {("x", "1"): (2, 4), ("y", "2"): (1, 2), ("y", None): (2, 6)}
        if next(iter(keys)) != "v_p":
            expected = {(s, p): numbers for (p, s), numbers in expected.items()}
        assert run(backend, plan) == expected


def test_units_are_told_apart_exactly(engine: Engine) -> None:
    """Two people who looked like one would share one person's bound; one who looked like two would have twice it."""
    cases: list[tuple[str, list[Any], int]] = [
        ("text", ["a", "A", "a ", "a\n", "ä", "a\u0308", "", None], 7),
        ("int64", pd.array([2**53, 2**53 + 1, LARGEST, LEAST, None], dtype="Int64"), 4),  # type: ignore[list-item]
        ("decimal(38,10)", [Decimal("1.0000000001"), Decimal("1.0000000002"), Decimal("1"), Decimal("1.00")], 3),
        ("int64", ["1", "01", "+1", "x", None], 1),
    ]
    for type, units, expected in cases:
        backend, source = visits(engine, {}, {"u": units}, unit=type)
        assert run(backend, aggregate(source, UNITS, unit="v_u", rows=1)) == {(): (expected,)}


# Bounds.


def test_a_unit_with_ten_thousand_rows_weighs_max_rows(engine: Engine) -> None:
    values = {"u": ["big"] * 10_000 + ["small"], "k": ["x"] * 10_001, "n": [*range(10_000), 5]}
    backend, source = visits(engine, {"k": "text", "n": "int64"}, values)
    on = lattice(0, 100)
    measures = (UNITS, ROWS, values_of("v_n"), total("v_n", on), distinct("v_n"), distinct("v_k"))
    exact = sum(min(n, 100) for n in range(10_000))
    for keys in ({}, {"v_k": ("x",)}, {"v_k": None}):
        for rows in (1, 7, 10_000, 20_000) if not keys else (7,):
            plan = aggregate(source, *measures, unit="v_u", keys=keys, rows=rows)  # type: ignore[arg-type]
            ((units, count, known, summed, different, one),) = run(backend, plan).values()
            weight = min(WEIGHT, rows * WEIGHT // 10_000)
            assert (units, one) == (2, 1)
            assert count == known == 10_000 * weight + WEIGHT <= (rows + 1) * WEIGHT
            assert summed == exact * weight + 5 * WEIGHT
            assert min(rows, 10_000) <= different <= min(rows + 1, 10_000)


def test_a_unit_in_ten_thousand_groups_keeps_max_groups(engine: Engine) -> None:
    values = {"u": ["big"] * 10_000 + ["small"], "k": [*range(10_000), 3]}
    backend, source = visits(engine, {"k": "int64"}, values)
    plan = aggregate(source, UNITS, ROWS, unit="v_u", keys={"v_k": None}, groups=3, rows=1)
    found = run(backend, plan)
    assert sum(units for units, _ in found.values()) == 4
    light = WEIGHT // 10_000
    assert all(rows == light + (WEIGHT if group == (3,) else 0) for group, (_, rows) in found.items())


@pytest.mark.parametrize(
    ("values", "rows"),
    [([7, 7, 7], 2), ([5, 5, 6], 2), ([-5, -5, -6], 2), ([100, -100, 1], 1), ([1], 5), ([3, None, None], 1)],
)
def test_sums_are_of_weights_and_not_rounded(engine: Engine, values: list[Any], rows: int) -> None:
    weight = min(WEIGHT, rows * WEIGHT // len(values))
    stored = pd.array(values, dtype="Int64")
    expected = weight * sum(value or 0 for value in values)
    assert one_total(engine, "int64", stored, lattice(-100, 100), rows=rows) == expected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rows", [2, 3, 4, 20])
def test_weighed_sums_are_exact_beyond_64_bits(engine: Engine, sign: int, rows: int) -> None:
    stored = {f"x{bits}": [sign * (2**bits - 1 - i) for i in range(rows)] for bits in (37, 38, 39, 52, 60)}
    backend, source = visits(engine, dict.fromkeys(stored, "int64"), {"u": ["a"] * rows, **stored})
    sums = [total(f"v_x{bits}", lattice(-(2**bits), 2**bits, 1)) for bits in (37, 38, 39, 52, 60)]
    found = run(backend, aggregate(source, *sums, unit="v_u", rows=2))
    assert found == {(): tuple(sum(values) * (2 * WEIGHT // rows) for values in stored.values())}


def test_a_filter_that_nothing_passes_leaves_the_group(engine: Engine) -> None:
    backend, source = visits(
        engine, {"f": "boolean", "k": "text"}, {"u": ["a", "b"], "f": [False, None], "k": ["x", "y"]}
    )
    who = Measure(id="who", label="", count=UNITS.count, filter="v_f")
    plan = aggregate(source, UNITS, who, distinct("v_k", filter="v_f"), unit="v_u", keys={"v_k": None})
    assert run(backend, plan) == {("x",): (1, 0, 0), ("y",): (1, 0, 0)}


def test_which_groups_are_kept_depends_on_the_key_alone(engine: Engine) -> None:
    values = {"u": [f"u{i}" for i in range(100) for _ in range(5)], "k": [*range(5)] * 100}
    backend, source = visits(engine, {"k": "int64"}, values)
    plan = aggregate(source, UNITS, unit="v_u", keys={"v_k": None}, groups=1)
    found = [run(backend, plan, key) for key in (1, 1, 2, 2**127 + 1, 2**64)]
    assert found[0] == found[1]
    assert len({tuple(sorted(one.items())) for one in found}) == 4
    for one in found:
        assert sum(units for (units,) in one.values()) == 100
        assert all(units < 50 for (units,) in one.values()), "the choice is spread over the groups"


# Lattices.


INTEGERS: list[tuple[str, list[Any], Lattice, int]] = [
    ("clamped", [LARGEST, LEAST, 5], lattice(-100, 100), 5),
    ("near 2^62", [LARGEST] * 5, lattice(-(2**59), 2**59), 5 * 2**59),
    ("the ends of int64", [LARGEST, LEAST, LARGEST], lattice(-(2**59), 2**59), 2**59),
    ("half to even", [5, 15, 25, -5, -15], lattice(-100, 100, 10), 0 + 2 + 2 + 0 - 2),
    ("beyond floats", [2**53 + 1, -(2**53)], lattice(-(2**59), 2**59), 1),
    (
        "beyond floats on a grid",
        [2**60 + 2**19, 2**60 + 2**20, 2**60 - 2**20],
        lattice(0, 2**60, 2**20),
        3 * 2**40,
    ),
    ("deviations", [1, 2, 3, None], lattice(0, 10, offset=5), -4 - 3 - 2),
    ("deviations of what is clamped", [1000, -1000], lattice(0, 10, offset=3), 7 - 3),
    ("squares", [0, 1, 10, 11], squares(0, 10, offset=4), 16 + 9 + 36 + 36),
    ("squares less their middle", [0, 1, 10, None], squares(0, 10, offset=4, shift=18), -2 - 9 + 18),
    ("squares of large deviations", [LARGEST, LEAST], squares(-(2**29), 2**29), 2**59),
    ("one value only", [1, 2, 3], lattice(7, 7), 21),
]


@pytest.mark.parametrize(("case", "values", "on", "expected"), INTEGERS)
def test_integers_on_a_lattice_are_exact(
    engine: Engine, case: str, values: list[Any], on: Lattice, expected: int
) -> None:
    assert one_total(engine, "int64", pd.array(values, dtype="Int64"), on) == expected


FLOATS: list[tuple[str, list[float], Lattice, int]] = [
    ("NaN and NULL are not there", [NAN, 1.0, None], lattice(0, 10, offset=5), -4),  # type: ignore[list-item]
    ("infinities are clamped", [INF, -INF, INF], lattice(-7, 10), 13),
    ("half to even", [0.5, 1.5, 2.5, -0.5, -1.5, -2.5], lattice(-10, 10), 0 + 2 + 2 + 0 - 2 - 2),
    (
        "next to a half",
        [math.nextafter(0.5, 0), math.nextafter(0.5, 1), math.nextafter(2.5, 3)],
        lattice(0, 10),
        0 + 1 + 3,
    ),
    ("a fine grid", [0.1, 0.2], lattice(0, 2**32, Fraction(1, 2**32)), round(0.1 * 2**32) + round(0.2 * 2**32)),
    ("a coarse grid", [3.0 * 2**40, 2.0**40], lattice(0, 100, 2**41), 2 + 0),
    ("overflow of the quotient", [1.7e308, -1.7e308, 1.7e308], lattice(-5, 9, Fraction(1, 2**40)), 13),
    ("underflow of the quotient", [5e-324, -5e-324], lattice(-5, 5, 2**40), 0),
    (
        "tiny grids",
        [1e-300, 3e-300],
        lattice(0, 2**36, Fraction(1, 2**1029)),
        round(Fraction(1e-300) * 2**1029) + round(Fraction(3e-300) * 2**1029),
    ),
    (
        "huge grids",
        [1e308, 1.5e308],
        lattice(0, 2**34, 2**992),
        round(Fraction(1e308) / 2**992) + round(Fraction(1.5e308) / 2**992),
    ),
    ("clamped before it is rounded", [10.4, 10.5, 11.0], lattice(0, 10), 30),
    ("the widest bounds", [2.0**53 + 4, -(2.0**53) - 2], lattice(-(2**53) + 1, 2**53), 1),
    ("negative zero", [-0.0, -0.25], lattice(-1, 1), 0),
    ("squares", [0.5, 1.5, INF], squares(0, 6, Fraction(1, 2), offset=2, shift=3), 1 + 1 + 16 - 9),
]


@pytest.mark.parametrize(("case", "values", "on", "expected"), FLOATS)
def test_floats_on_a_lattice(engine: Engine, case: str, values: list[float], on: Lattice, expected: int) -> None:
    assert one_total(engine, "float64", values, on) == expected


DECIMALS: list[tuple[str, str, list[Any], Lattice, int]] = [
    ("cents", "decimal(12,2)", [Decimal("1.15"), Decimal("-0.01")], lattice(-1000, 1000, Fraction(1, 100)), 114),
    (
        "half to even",
        "decimal(12,2)",
        [Decimal("0.05"), Decimal("0.15"), Decimal("1.15")],
        lattice(0, 100, Fraction(1, 10)),
        0 + 2 + 12,
    ),
    ("tens", "decimal(12,2)", [Decimal("25.00"), Decimal("25.01"), Decimal("35.00")], lattice(0, 100, 10), 2 + 3 + 4),
    ("nearly a half", "decimal(38,30)", [Decimal("0.499999999999999999999999999999")], lattice(0, 5), 0),
    ("just over a half", "decimal(38,30)", [Decimal("0.500000000000001000000000000000")], lattice(0, 5), 1),
    (
        "wide",
        "decimal(38,10)",
        [Decimal("100000.0000000001"), Decimal("-100000.0000000003")],
        lattice(-(2**52), 2**52, Fraction(1, 10**10)),
        -2,
    ),
    ("wide and clamped", "decimal(38,0)", [Decimal(10**37), Decimal(-(10**37)), Decimal(7)], lattice(-5, 9), 5 + 6),
    (
        "wide on a coarse grid",
        "decimal(38,0)",
        [Decimal(5 * 10**29), Decimal(5 * 10**29 + 10**15)],
        lattice(0, 9, 10**30),
        1,
    ),
    ("the widest", "decimal(38,38)", [Decimal("0." + "9" * 38)], lattice(0, 10**18, Fraction(1, 10**18)), 10**18),
    ("the largest", "decimal(38,10)", [Decimal("9" * 28 + "." + "9" * 10)], lattice(0, 10), 10),
    ("deviations", "decimal(12,2)", [Decimal("1.25"), None], lattice(0, 500, Fraction(1, 100), offset=250), -125),
]


@pytest.mark.parametrize(("case", "type", "values", "on", "expected"), DECIMALS)
def test_decimals_on_a_lattice_are_exact(
    engine: Engine, case: str, type: str, values: list[Any], on: Lattice, expected: int
) -> None:
    assert one_total(engine, type, values, on) == expected


def test_sums_beyond_64_bits_are_exact(engine: Engine) -> None:
    values = {"u": [f"u{i}" for i in range(9)], "k": ["x"] * 8 + ["y"], "n": [LARGEST] * 9}
    backend, source = visits(engine, {"k": "text", "n": "int64"}, values)
    plan = aggregate(source, UNITS, total("v_n", lattice(0, 2**61)), unit="v_u", keys={"v_k": None})
    assert run(backend, plan) == {("x",): (8, 2**64), ("y",): (1, 2**61)}


# The row as unit.


def test_each_row_is_a_unit(engine: Engine) -> None:
    values = {
        "k": ["x", "x", "y", None, "out"],
        "n": [1.0, NAN, 300.0, 4.0, 5.0],
        "f": pd.array([True, None, True, True, True], dtype="boolean"),
    }
    backend, source = rows_as_units(engine, {"k": "text", "n": "float64", "f": "boolean"}, values)
    some = Measure(id="some", label="", count=UNITS.count, filter="v_f")
    measures = (UNITS, some, ROWS, values_of("v_n"), total("v_n", lattice(0, 100, offset=50)), distinct("v_n"))
    expected: Groups = {("x",): (2, 1, 2, 1, -49, 1), ("y",): (1, 1, 1, 1, 50, 1)}
    for rows in (1, 5):
        public = aggregate(source, *measures, unit=None, keys={"v_k": ("y", "x", "z")}, groups=1, rows=rows)
        assert run(backend, public) == expected
        selected = aggregate(source, *measures, unit=None, keys={"v_k": None}, groups=1, rows=rows)
        more: Groups = {(None,): (1, 1, 1, 1, -46, 1), ("out",): (1, 1, 1, 1, -45, 1)}
        assert run(backend, selected) == expected | more
        everything = aggregate(source, *measures, unit=None, rows=rows)
        assert run(backend, everything) == {(): (5, 4, 5, 4, -49 + 50 - 46 - 45, 4)}


def test_rows_as_units_have_sums_beyond_64_bits(engine: Engine) -> None:
    backend, source = rows_as_units(engine, {"n": "int64"}, {"n": [LARGEST] * 9})
    assert run(backend, aggregate(source, total("v_n", lattice(0, 2**61)), unit=None, rows=1)) == {(): (9 * 2**61,)}
    backend, source = rows_as_units(engine, {"n": "int64"}, {"n": pd.Series([], dtype="int64")})
    assert run(backend, aggregate(source, UNITS, total("v_n", lattice(0, 5)), distinct("v_n"), unit=None)) == {
        (): (0, 0, 0)
    }
    assert run(backend, aggregate(source, UNITS, unit=None, keys={"v_n": None})) == {}


# Ownership by foreign keys.


def owned(
    parents: dict[str, Any], children: dict[str, Any], leaves: dict[str, Any]
) -> tuple[Catalog, dict[str, pd.DataFrame]]:
    """Returns three tables: orders of people, items of orders, notes on items by two columns."""
    catalog = catalog_of(
        {
            "orders": {
                "unit": "person",
                "max_rows": 8,
                "columns": {"person": {"type": "text"}, "order": {"type": "int64"}},
            },
            "items": {
                "unit": {"via": "orders", "on": {"of": "order"}},
                "max_rows": 8,
                "columns": {"of": {"type": "int64"}, "line": {"type": "text"}, "price": {"type": "int64"}},
            },
            "notes": {
                "unit": {"via": "items", "on": {"o": "of", "l": "line"}},
                "max_rows": 8,
                "columns": {"o": {"type": "int64"}, "l": {"type": "text"}, "word": {"type": "text"}},
            },
        }
    )
    frames = {"orders": pd.DataFrame(parents), "items": pd.DataFrame(children), "notes": pd.DataFrame(leaves)}
    return catalog, frames


ORDERS = {"person": ["ann", "bob", "ann", None, "cat"], "order": pd.array([1, 2, 3, 4, None], dtype="Int64")}
ITEMS = {
    "of": pd.array([1, 1, 2, 3, 4, None, 99], dtype="Int64"),
    "line": ["a", "A", "a", None, "a", "a", "a"],
    "price": [1, 2, 4, 8, 16, 32, 64],
}
NOTES = {
    "o": pd.array([1, 1, 1, 2, 3, 4, 2, None], dtype="Int64"),
    "l": ["a", "a ", "A", "a", None, "a", "b", None],
    "word": ["x", "lost", "x", "y", "lost", "lost", "lost", "lost"],
}


def test_rows_are_owned_through_one_foreign_key(engine: Engine) -> None:
    catalog, frames = owned(ORDERS, ITEMS, NOTES)
    backend, source = engine(catalog, frames), scan(catalog, "items")
    plan = aggregate(source, UNITS, ROWS, total("items_price", lattice(0, 100)), unit="items_unit")
    assert run(backend, plan) == {(): (2, 4, 1 + 2 + 4 + 8)}
    plan = aggregate(source, ROWS, total("items_price", lattice(0, 100)), unit="items_unit", rows=1)
    assert run(backend, plan) == {(): (3 * (WEIGHT // 3) + WEIGHT, 11 * (WEIGHT // 3) + 4 * WEIGHT)}  # ann has 3 items


def test_rows_are_owned_through_two_foreign_keys(engine: Engine) -> None:
    catalog, frames = owned(ORDERS, ITEMS, NOTES)
    backend, source = engine(catalog, frames), scan(catalog, "notes")
    plan = aggregate(source, UNITS, ROWS, unit="notes_unit", keys={"notes_word": None})
    assert run(backend, plan) == {("x",): (1, 2), ("y",): (1, 1)}


def test_a_foreign_key_that_names_several_owners_is_refused(engine: Engine) -> None:
    people = {"person": ["ann", "bob"], "order": [1, 1]}
    catalog, frames = owned(people, ITEMS, NOTES)
    with pytest.raises(CatalogError, match="orders"):
        engine(catalog, frames)


def test_private_tables_join_on_their_unit(engine: Engine) -> None:
    catalog, frames = owned(ORDERS, ITEMS, NOTES)
    backend = engine(catalog, frames)
    orders, items = scan(catalog, "orders"), scan(catalog, "items")
    source = joined(orders, items, ("orders_person", "items_unit"), ("orders_order", "items_of"))
    plan = aggregate(source, UNITS, ROWS, unit="orders_person", keys={"orders_order": (1, 2, 3, 4)})
    assert run(backend, plan) == {(1,): (1, 2), (2,): (1, 1), (3,): (1, 1)}
    twice = joined(scan(catalog, "items", "one"), scan(catalog, "items", "two"), ("one_unit", "two_unit"))
    assert run(backend, aggregate(twice, UNITS, ROWS, unit="two_unit")) == {(): (2, 9 + 1)}


# Relations under the private aggregate.


def people(engine: Engine) -> tuple[Backend, Relation, Relation]:
    columns = {"u": {"type": "int64"}, "code": {"type": "text"}, "x": {"type": "float64"}}
    codes = {"code": {"type": "text"}, "panel": {"type": "text"}}
    catalog = catalog_of(
        {
            "v": {"unit": "u", "max_rows": 8, "columns": columns},
            "codes": {"public": True, "unique": [["code"]], "columns": codes},
        }
    )
    frame = pd.DataFrame(
        {
            "u": pd.array([1, 1, 1, 2, 2, 3, None, 4], dtype="Int64"),
            "code": ["a", "a", "b", "a", None, "A", "a", "c"],
            "x": [1.0, 2.0, NAN, 4.0, 8.0, 16.0, 32.0, -0.0],
        }
    )
    public = pd.DataFrame({"code": ["a", "b", "c", None, "d"], "panel": ["one", "one", None, "two", "two"]})
    return engine(catalog, {"v": frame, "codes": public}), scan(catalog, "v"), scan(catalog, "codes")


def test_private_rows_join_public_ones(engine: Engine) -> None:
    backend, source, codes = people(engine)
    keys: dict[str, tuple[Value, ...] | None] = {"codes_panel": None}
    inner = joined(source, codes, ("v_code", "codes_code"))
    assert run(backend, aggregate(inner, UNITS, ROWS, unit="v_u", keys=keys)) == {("one",): (2, 4), (None,): (1, 1)}
    left = joined(source, codes, ("v_code", "codes_code"), kind="left")
    assert run(backend, aggregate(left, UNITS, ROWS, unit="v_u", keys=keys)) == {("one",): (2, 4), (None,): (3, 3)}
    cross = joined(codes, source, kind="cross")
    plan = aggregate(cross, UNITS, ROWS, unit="v_u", keys={"codes_code": ("d", "x")}, rows=2)
    weights = 3 * (2 * WEIGHT // 15) + 2 * (2 * WEIGHT // 10) + 2 * (2 * WEIGHT // 5)
    assert run(backend, plan) == {("d",): (4, weights)}


def test_bounds_hold_after_joins_and_filters(engine: Engine) -> None:
    """Each of three rows of person 1 meets four public rows; the bound is on what comes out."""
    backend, source, codes = people(engine)
    cross = where(joined(source, codes, kind="cross"), "codes_code", "is_not_null")
    plan = aggregate(cross, UNITS, ROWS, values_of("v_x"), distinct("codes_code"), unit="v_u", rows=3)
    ones = {count: count * (3 * WEIGHT // count) for count in (12, 8, 4)}
    known = ones[12] // 12 * 8 + ones[8] + 2 * ones[4]
    assert run(backend, plan)[()][:3] == (4, ones[12] + ones[8] + 2 * ones[4], known)


def test_totals_per_person_are_exact_before_they_are_bounded(engine: Engine) -> None:
    backend, source, _ = people(engine)
    totals = grouped(source, ["v_u"], n=("count", None, INT64), s=("sum", "v_x", FLOAT64), m=("avg", "v_x", FLOAT64))
    measures = (UNITS, total("n", lattice(0, 2)), total("s", lattice(0, 100)), total("m", lattice(0, 100)))
    plan = aggregate(totals, *measures, unit="v_u", keys={"n": (1, 2, 3)})
    assert run(backend, plan) == {(1,): (2, 2, 16, 16), (2,): (1, 2, 12, 6), (3,): (1, 2, 3, 2)}


def test_expressions_are_computed_below_the_bounds(engine: Engine) -> None:
    backend, source, _ = people(engine)
    x = column(source, "v_x")
    computed = extended(source, half=call("divide", (x, literal(2.0))), large=call("ge", (x, literal(2.0))))
    measures = (values_of("half"), total("half", lattice(0, 100, Fraction(1, 4))), values_of("v_x", filter="large"))
    plan = aggregate(where(computed, "v_code", "eq", "a"), *measures, unit="v_u")
    assert run(backend, plan) == {(): (3, 4 * 1 // 2 + 4 * 1 + 4 * 2, 2)}


def test_what_comes_back_does_not_show_itself(engine: Engine) -> None:
    backend, source, _ = people(engine)
    plan: PrivateAggregate = aggregate(source, UNITS, unit="v_u", keys={"v_code": None})
    exact = backend.run(backend.prepare(plan), 1)
    assert repr(exact) == f"{ExactAggregates.__qualname__}()"
