"""Exact aggregates of pairs, of chosen rows, of bits and of texts: the same on every backend and in every order."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from dpquery.errors import InternalError
from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.aggregates.exact import Bitwise, Pick
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, AggregateColumn, Relation, column
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Type, Value
from tests.attacks.clinic import Clinic
from tests.backends.engines import Engine, catalog_of, rows_of
from tests.backends.plans import scan
from tests.reference.backend import ReferenceBackend

INF = math.inf
TYPES = {"y": "float64", "x": "float64", "n": "int64", "s": "text", "b": "boolean", "d": "date"}
DAY = datetime.date


PAIRS = [name for name, found in AGGREGATES.items() if isinstance(found, PairAggregate)]


def frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Returns rows of (y, x, n, s, b, d)."""
    columns = dict(zip(TYPES, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(TYPES, ())
    kinds = {"y": "float64", "x": "float64", "n": "Int64", "s": "str", "b": "boolean", "d": "object"}
    return pd.DataFrame({name: pd.Series(list(values), dtype=kinds[name]) for name, values in columns.items()})


def asked(engine: Engine, rows: list[tuple[Any, ...]], *made: AggregateColumn) -> tuple[Value, ...]:
    catalog = catalog_of({"t": {"public": True, "columns": {name: {"type": type} for name, type in TYPES.items()}}})
    relation: Relation = Aggregate(source=scan(catalog, "t"), group_by=(), aggregates=made)
    (found,) = rows_of(engine(catalog, {"t": frame(rows)}), relation)
    return found


def asked_at_once(
    engine: Engine, groups: list[list[tuple[Any, ...]]], *made: AggregateColumn
) -> list[tuple[Value, ...]]:
    """Returns what each group of rows gives, all of one table."""
    columns = {name: {"type": type} for name, type in {**TYPES, "place": "int64"}.items()}
    catalog = catalog_of({"t": {"public": True, "columns": columns}})
    stored = pd.concat([frame(rows).assign(place=place) for place, rows in enumerate(groups)], ignore_index=True)
    relation: Relation = Aggregate(source=scan(catalog, "t"), group_by=("t_place",), aggregates=made)
    found = {place: values for place, *values in rows_of(engine(catalog, {"t": stored}), relation)}
    return [tuple(found[place]) for place in range(len(groups))]


def one(function: str, argument: str, second: str | Expression | None, type: Type, id: str = "a") -> AggregateColumn:
    catalog = catalog_of({"t": {"public": True, "columns": {name: {"type": type} for name, type in TYPES.items()}}})
    table = scan(catalog, "t")
    other = column(table, f"t_{second}") if isinstance(second, str) else second
    return AggregateColumn(
        id=id,
        name=id,
        function=function,  # type: ignore[arg-type]
        argument=column(table, f"t_{argument}"),
        second=other,
        filter=None,
        type=type,
    )


def pairs() -> list[AggregateColumn]:
    return [one(name, "y", "x", INT64 if name == "regr_count" else FLOAT64, f"a{i}") for i, name in enumerate(PAIRS)]


def xy(*given: tuple[float | None, float | None]) -> list[tuple[Any, ...]]:
    return [(y, x, None, None, None, None) for y, x in given]


LINES: dict[str, tuple[list[tuple[Any, ...]], dict[str, Value]]] = {
    "a line": (
        xy((1.0, 1.0), (3.0, 2.0), (5.0, 3.0), (None, 9.0), (9.0, None)),
        {
            "covar_pop": 4 / 3,
            "covar_samp": 2.0,
            "corr": 1.0,
            "regr_slope": 2.0,
            "regr_intercept": -1.0,
            "regr_r2": 1.0,
            "regr_count": 3,
            "regr_avgx": 2.0,
            "regr_avgy": 3.0,
            "regr_sxx": 2.0,
            "regr_syy": 8.0,
            "regr_sxy": 4.0,
        },
    ),
    "nothing": (xy((None, 1.0), (math.nan, 2.0)), dict.fromkeys(PAIRS, None) | {"regr_count": 0}),
    "one pair": (
        xy((4.0, 2.0)),
        dict.fromkeys(PAIRS, None)
        | {"covar_pop": 0.0, "regr_count": 1, "regr_avgx": 2.0, "regr_avgy": 4.0}
        | {"regr_sxx": 0.0, "regr_syy": 0.0, "regr_sxy": 0.0},
    ),
    "x does not move": (
        xy((4.0, 2.0), (6.0, 2.0)),
        dict.fromkeys(PAIRS, None)
        | {"covar_pop": 0.0, "covar_samp": 0.0, "regr_count": 2, "regr_avgx": 2.0, "regr_avgy": 5.0}
        | {"regr_sxx": 0.0, "regr_syy": 2.0, "regr_sxy": 0.0},
    ),
    "y does not move": (
        xy((4.0, 1.0), (4.0, 3.0)),
        dict.fromkeys(PAIRS, None)
        | {"covar_pop": 0.0, "covar_samp": 0.0, "regr_count": 2, "regr_avgx": 2.0, "regr_avgy": 4.0}
        | {"regr_slope": 0.0, "regr_intercept": 4.0, "regr_r2": 1.0, "regr_sxx": 2.0, "regr_syy": 0.0, "regr_sxy": 0.0},
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_pairs(engine: Engine, case: str) -> None:
    rows, expected = LINES[case]
    found = dict(zip(PAIRS, asked(engine, rows, *pairs()), strict=True))
    for name, value in expected.items():
        assert found[name] == (pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value), name


def test_no_pair_makes_an_engine_fail(engine: Engine) -> None:
    """Infinities, the largest and the least floats, in every combination of up to three pairs."""
    values = [0.0, -0.0, 1.0, 1e140, 1.7e308, -1.7e308, 5e-324, 1e-170, INF, -INF, math.nan, None]
    random = Random(1)
    drawn = [xy(*((random.choice(values), random.choice(values)) for _ in range(count))) for count in [1, 2, 3] * 8]
    for rows, found in zip(drawn, asked_at_once(engine, drawn, *pairs()), strict=True):
        for name, value in zip(PAIRS, found, strict=True):
            assert value is None or not math.isnan(float(str(value))), (name, rows)


def test_pairs_agree_with_the_reference(engine: Engine) -> None:
    random = Random(2)
    drawn = []
    for _ in range(20):
        numbers = [random.choice([None, 0.5, 3.0, random.gauss(0, 1), 1e9 + random.random()]) for _ in range(30)]
        drawn.append(xy(*zip(numbers[:15], numbers[15:], strict=True)))
    each, all_expected = (asked_at_once(one, drawn, *pairs()) for one in (engine, ReferenceBackend))
    for found, expected in zip(each, all_expected, strict=True):
        for name, a, b in zip(PAIRS, found, expected, strict=True):
            assert a == (pytest.approx(b, rel=1e-6, abs=1e-6) if isinstance(b, float) else b), name


def test_the_order_of_rows_decides_no_digit(engine: Engine) -> None:
    """0.1 and its like add up to different floats in different orders; equal keys leave only equal values to choose."""
    random = Random(3)
    days = [DAY(2020, 1, 1), DAY(2020, 1, 2), None]
    rows = [
        (random.choice([0.1, 0.7, 1e15, -1e15, 3.3]), random.choice([0.1, 0.3, 1e8]), i % 4, f"s{i % 7}", i % 2 == 0)
        for i in range(60)
    ]
    whole = [(*row, random.choice(days)) for row in rows]
    separator = Literal(value="+", type=TEXT)
    made = [
        *pairs(),
        one("first", "y", "d", FLOAT64, "b1"),
        one("last", "s", "d", TEXT, "b2"),
        one("arg_min", "s", "n", TEXT, "b3"),
        one("arg_max", "y", "n", FLOAT64, "b4"),
        one("any_value", "s", None, TEXT, "b5"),
        one("string_agg", "s", separator, TEXT, "b6"),
        one("sum_distinct", "y", None, FLOAT64, "b7"),
        one("avg_distinct", "y", None, FLOAT64, "b8"),
    ]
    first = asked(engine, whole, *made)
    for _ in range(6):
        random.shuffle(whole)
        assert asked(engine, whole, *made) == first


A, B, C = DAY(2020, 1, 1), DAY(2020, 1, 2), DAY(2020, 1, 3)


def ns(*given: tuple[int | None, DAY | None]) -> list[tuple[Any, ...]]:
    return [(None, None, n, None, None, d) for n, d in given]


CHOICES = [
    ("first", ns((5, B), (3, A), (2, A), (9, None)), 2),
    ("first", ns((5, B), (None, A)), None),
    ("first", ns((7, None), (4, None), (None, None)), 4),
    ("first", [], None),
    ("last", ns((5, B), (3, C), (8, C), (1, None)), 3),
    ("last", ns((7, None), (5, B)), 5),
    ("arg_min", ns((None, A), (5, B), (4, B), (1, C)), 4),
    ("arg_max", ns((None, C), (5, B), (4, B), (1, A)), 4),
    ("arg_max", ns((None, C), (4, None)), None),
]


@pytest.mark.parametrize(("function", "rows", "expected"), CHOICES)
def test_rows_are_chosen_by_their_values(
    engine: Engine, function: str, rows: list[tuple[Any, ...]], expected: Value
) -> None:
    assert isinstance(AGGREGATES[function], Pick)
    for given in (rows, rows[::-1]):
        assert asked(engine, given, one(function, "n", "d", INT64)) == (expected,)


OTHERS: list[tuple[str, str, list[Any], Type, Value]] = [
    ("bit_and", "n", [12, 10, None], INT64, 8),
    ("bit_or", "n", [12, 10, None], INT64, 14),
    ("bit_xor", "n", [12, 10, None], INT64, 6),
    ("bit_and", "n", [-1, 2**63 - 1, -(2**63)], INT64, 0),
    ("bit_or", "n", [], INT64, None),
    ("bool_and", "b", [True, None], BOOLEAN, True),
    ("bool_and", "b", [True, False], BOOLEAN, False),
    ("bool_and", "b", [None], BOOLEAN, None),
    ("bool_or", "b", [False, None, True], BOOLEAN, True),
    ("bool_or", "b", [None, False], BOOLEAN, False),
    ("any_value", "s", ["b", "a", None], TEXT, "a"),
    ("sum_distinct", "n", [2, 2, 3, None], INT64, 5),
    ("sum_distinct", "n", [2**63 - 1, 2**63 - 1], INT64, 2**63 - 1),
    ("sum_distinct", "n", [2**63 - 1, 1], INT64, None),
    ("sum_distinct", "y", [0.5, 0.5, -0.0, 0.0, math.nan], FLOAT64, 0.5),
    ("sum_distinct", "y", [INF, 1.7e308], FLOAT64, 1e290),
    ("avg_distinct", "y", [1.0, 1.0, 4.0], FLOAT64, 2.5),
    ("avg_distinct", "n", [1, 1, 4], FLOAT64, 2.5),
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("function", "argument", "values", "type", "expected"), OTHERS)
def test_other_exact_aggregates(
    engine: Engine, function: str, argument: str, values: list[Any], type: Type, expected: Value
) -> None:
    place = list(TYPES).index(argument)
    rows = [tuple(value if i == place else None for i in range(len(TYPES))) for value in values]
    for given in (rows, rows[::-1]):
        assert asked(engine, given, one(function, argument, None, type)) == (expected,)


def test_texts_are_joined_in_order_and_cut(engine: Engine) -> None:
    separator = Literal(value="; ", type=TEXT)
    rows = [(None, None, None, s, None, None) for s in ("b", None, "a", "b", "ä", "Z")]
    assert asked(engine, rows, one("string_agg", "s", separator, TEXT)) == ("Z; a; b; b; ä",)
    long = [(None, None, None, "x" * 999, None, None)] * 12
    (found,) = asked(engine, long, one("string_agg", "s", separator, TEXT))
    assert isinstance(found, str)
    assert len(found) == 10_000


def test_what_is_not_known_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="product"):
        one("product", "y", None, FLOAT64)
    for made in (one("first", "y", None, FLOAT64), one("corr", "y", None, FLOAT64)):
        with pytest.raises((InternalError, AssertionError)):
            asked(engine, xy((1.0, 2.0)), made)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("value", [1, 1.5, "a", True, DAY(2024, 2, 29), None])
@pytest.mark.parametrize(
    "function", ["mode", "any_value", "min", "max", "count", "first", "last", "arg_min", "arg_max"]
)
def test_a_constant_is_aggregated(engine: Engine, function: str, value: Value) -> None:
    """The engine takes no ORDER BY of a constant, so none is written."""
    types: dict[type, Type] = {int: INT64, float: FLOAT64, str: TEXT, bool: BOOLEAN, DAY: DATE}
    constant = Literal(value=value, type=types.get(type(value), INT64))
    second = constant if function in ("first", "last", "arg_min", "arg_max") else None
    result = INT64 if function == "count" else constant.type
    made = replace(one(function, "y", None, result), argument=constant, second=second)
    expected = (0 if value is None else 2) if function == "count" else value
    assert asked(engine, xy((1.0, 2.0), (3.0, 4.0)), made) == (expected,)


def test_a_mode_of_a_constant_within_a_unit_is_answered(tmp_path: Path) -> None:
    ward = Clinic(tmp_path)
    inner = "SELECT id, MODE('a') AS m, MODE(DATE '2024-01-01') AS d FROM visits GROUP BY id"
    assert ward.rows(f"SELECT COUNT(m), COUNT(d) FROM ({inner}) AS each_unit")


def test_a_filter_holds_for_pairs_and_chosen_rows(engine: Engine) -> None:
    rows = [(1.0, 1.0, 1, None, True, None), (9.0, 2.0, 0, None, False, None), (3.0, 2.0, 2, None, True, None)]
    catalog = catalog_of({"t": {"public": True, "columns": {name: {"type": type} for name, type in TYPES.items()}}})
    kept = call("is_true", (column(scan(catalog, "t"), "t_b"),))
    made = [one("regr_slope", "y", "x", FLOAT64, "a1"), one("arg_min", "y", "n", FLOAT64, "a2")]
    filtered = [
        AggregateColumn(
            id=a.id, name="", function=a.function, argument=a.argument, second=a.second, filter=kept, type=a.type
        )
        for a in made
    ]
    assert asked(engine, rows, *filtered) == (2.0, 1.0)


def test_bits_are_all_there() -> None:
    bitwise = {name for name, found in AGGREGATES.items() if isinstance(found, Bitwise)}
    assert bitwise == {function for function, *_ in OTHERS if function.startswith("bit")}
