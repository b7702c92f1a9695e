"""Relations over public tables: what each node gives, on every backend."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Join,
    Limit,
    OutputColumn,
    Relation,
    Released,
    Sort,
    SortKey,
    column,
)
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type, Value, decimal
from tests.backends.engines import Engine, catalog_of, rows_of, sorted_rows
from tests.backends.plans import extended, grouped, joined, literal, scan, where

LARGEST, LEAST = 2**63 - 1, -(2**63)
INF = math.inf


def opened(engine: Engine, types: dict[str, str], values: dict[str, Any], name: str = "t") -> tuple[Catalog, Backend]:
    """Returns a backend that holds one public table."""
    columns = {column: {"type": type} for column, type in types.items()}
    catalog = catalog_of({name: {"public": True, "columns": columns}})
    return catalog, engine(catalog, {name: pd.DataFrame(values)})


def two_tables(engine: Engine) -> tuple[Catalog, Backend]:
    columns = {"k": {"type": "text"}, "n": {"type": "int64"}}
    catalog = catalog_of({"a": {"public": True, "columns": columns}, "b": {"public": True, "columns": columns}})
    left = pd.DataFrame({"k": ["x", "x", "y", None, "X", "z "], "n": pd.array([1, 2, None, 4, 5, 6], dtype="Int64")})
    right = pd.DataFrame({"k": ["x", "y", "y", None, "z"], "n": pd.array([2, None, 3, 4, 6], dtype="Int64")})
    return catalog, engine(catalog, {"a": left, "b": right})


# Joins.


def test_null_joins_nothing_and_texts_join_exactly(engine: Engine) -> None:
    catalog, backend = two_tables(engine)
    relation = joined(scan(catalog, "a"), scan(catalog, "b"), ("a_k", "b_k"))
    expected: list[tuple[Value, ...]] = [
        ("x", 1, "x", 2),
        ("x", 2, "x", 2),
        ("y", None, "y", None),
        ("y", None, "y", 3),
    ]
    assert sorted_rows(rows_of(backend, relation)) == sorted_rows(expected)


def test_a_left_join_keeps_every_left_row_once_or_with_its_matches(engine: Engine) -> None:
    catalog, backend = two_tables(engine)
    relation = joined(scan(catalog, "a"), scan(catalog, "b"), ("a_k", "b_k"), ("a_n", "b_n"), kind="left")
    expected: list[tuple[Value, ...]] = [
        ("x", 1, None, None),
        ("x", 2, "x", 2),
        ("y", None, None, None),
        (None, 4, None, None),
        ("X", 5, None, None),
        ("z ", 6, None, None),
    ]
    assert sorted_rows(rows_of(backend, relation)) == sorted_rows(expected)


def test_the_condition_of_a_left_join_decides_about_matches_not_about_rows(engine: Engine) -> None:
    catalog, backend = two_tables(engine)
    left, right = scan(catalog, "a"), scan(catalog, "b")
    condition = call("lt", (column(left, "a_n"), column(right, "b_n")))
    equalities = ((column(left, "a_k"), column(right, "b_k")),)
    relation = Join(left=left, right=right, kind="left", equalities=equalities, condition=condition)
    matched = [row for row in rows_of(backend, relation) if row[2] is not None]
    assert matched == [("x", 1, "x", 2)]
    assert len(rows_of(backend, relation)) == 6


def test_a_cross_join_pairs_everything(engine: Engine) -> None:
    catalog, backend = two_tables(engine)
    relation = joined(scan(catalog, "a"), scan(catalog, "b"), kind="cross")
    assert len(rows_of(backend, relation)) == 30
    condition = call("eq", (column(scan(catalog, "a"), "a_n"), column(scan(catalog, "b"), "b_n")))
    narrowed = Join(left=relation.left, right=relation.right, kind="cross", equalities=(), condition=condition)
    assert len(rows_of(backend, narrowed)) == 3


def test_a_table_joins_itself_under_other_ids(engine: Engine) -> None:
    catalog, backend = two_tables(engine)
    relation = joined(scan(catalog, "a", "one"), scan(catalog, "a", "two"), ("one_k", "two_k"))
    assert len(rows_of(backend, relation)) == 4 + 1 + 1 + 1


# Filters and projections.


def test_only_true_passes_a_filter(engine: Engine) -> None:
    values = {"b": pd.array([True, False, None], dtype="boolean"), "n": [1, 2, 3]}
    catalog, backend = opened(engine, {"b": "boolean", "n": "int64"}, values)
    assert [row[1] for row in rows_of(backend, where(scan(catalog, "t"), "t_b", "is_not_null"))] == [1, 2]
    negated = where(extended(scan(catalog, "t"), c=call("not", (column(scan(catalog, "t"), "t_b"),))), "c", "is_true")
    assert [row[1] for row in rows_of(backend, negated)] == [2]


def test_computed_columns_are_total(engine: Engine) -> None:
    catalog, backend = opened(engine, {"n": "int64"}, {"n": [LARGEST, LEAST, 0, 7]})
    source = scan(catalog, "t")
    n = column(source, "t_n")
    relation = extended(
        source,
        more=call("add", (n, literal(1))),
        squared=call("multiply", (n, n)),
        ratio=call("divide", (literal(1), n)),
        positive=call("abs", (n,)),
    )
    assert rows_of(backend, relation) == [
        (LARGEST, None, None, 1 / LARGEST, LARGEST),
        (LEAST, LEAST + 1, None, 1 / LEAST, None),
        (0, 1, 0, None, 0),
        (7, 8, 49, 1 / 7, 7),
    ]


# Aggregates.


def test_null_is_a_key_like_others_and_keys_are_exact(engine: Engine) -> None:
    keys = ["a", "A", "a ", None, "", "ä", "a\u0308", None, "a"]
    catalog, backend = opened(engine, {"k": "text"}, {"k": keys})
    found = rows_of(backend, grouped(scan(catalog, "t"), ["t_k"], n=("count", None, INT64)))
    expected = {("a", 2), ("A", 1), ("a ", 1), (None, 2), ("", 1), ("ä", 1), ("a\u0308", 1)}
    assert set(found) == expected
    assert len(found) == len(expected)


def test_float_keys_know_one_zero_and_null_for_nan(engine: Engine) -> None:
    catalog, backend = opened(engine, {"x": "float64"}, {"x": [0.0, -0.0, math.nan, None, INF, INF, -INF]})
    found = rows_of(backend, grouped(scan(catalog, "t"), ["t_x"], n=("count", None, INT64)))
    assert sorted_rows(found) == sorted_rows([(0.0, 2), (None, 2), (INF, 2), (-INF, 1)])


def test_no_keys_give_one_row_even_without_rows(engine: Engine) -> None:
    catalog, backend = opened(engine, {"n": "int64"}, {"n": pd.Series([], dtype="int64")})
    aggregates: dict[str, tuple[str, str | None, Type]] = {
        "rows": ("count", None, INT64),
        "n": ("count", "t_n", INT64),
        "d": ("count_distinct", "t_n", INT64),
        "s": ("sum", "t_n", INT64),
        "a": ("avg", "t_n", FLOAT64),
        "low": ("min", "t_n", INT64),
        "v": ("var_pop", "t_n", FLOAT64),
    }
    assert rows_of(backend, grouped(scan(catalog, "t"), [], **aggregates)) == [(0, 0, 0, None, None, None, None)]
    assert rows_of(backend, grouped(scan(catalog, "t"), ["t_n"], **aggregates)) == []


def test_without_aggregates_it_is_distinct(engine: Engine) -> None:
    values = {"k": ["a", "a", None, None, "b"], "n": [1, 1, 2, 2, 1]}
    catalog, backend = opened(engine, {"k": "text", "n": "int64"}, values)
    found = rows_of(backend, Aggregate(source=scan(catalog, "t"), group_by=("t_n", "t_k"), aggregates=()))
    assert sorted_rows(found) == sorted_rows([(1, "a"), (2, None), (1, "b")])


AGGREGATES: list[tuple[str, str, str, list[Any], Type, Value]] = [
    ("sum", "int64", "beyond int64", [LARGEST, 1], INT64, None),
    ("sum", "int64", "back within int64", [LARGEST, LARGEST, LEAST, LEAST], INT64, -2),
    ("sum", "int64", "at the end of int64", [LARGEST - 1, 1], INT64, LARGEST),
    ("sum", "float64", "of infinities", [INF, 1.0], FLOAT64, 1e290),
    ("sum", "float64", "of opposite infinities", [INF, -INF, 1.0], FLOAT64, 0.0),
    ("sum", "float64", "in order of value", [1e16, 1.0, -1e16, 1.0], FLOAT64, 0.0),
    ("sum", "float64", "of NaN", [math.nan, 2.0], FLOAT64, 2.0),
    ("sum", "float64", "of nothing", [math.nan], FLOAT64, None),
    ("sum", "decimal(6,2)", "exact", [Decimal("0.10")] * 3, decimal(38, 2), Decimal("0.30")),
    (
        "sum",
        "decimal(18,2)",
        "of many digits",
        [Decimal("9999999999999999.99")] * 3,
        decimal(38, 2),
        Decimal("29999999999999999.97"),
    ),
    ("avg", "int64", "of large integers", [LARGEST, LARGEST], FLOAT64, 2.0**63),
    ("avg", "float64", "of huge floats", [1.7e308, 1.7e308], FLOAT64, 1e290),
    ("avg", "float64", "with NULL", [1.0, math.nan, 2.0], FLOAT64, 1.5),
    ("avg", "decimal(6,2)", "of decimals", [Decimal("1.25"), Decimal("1.75")], FLOAT64, 1.5),
    ("var_pop", "float64", "of one", [3.0], FLOAT64, 0.0),
    ("var_samp", "float64", "of one", [3.0], FLOAT64, None),
    ("var_pop", "float64", "of three", [1.0, 2.0, 6.0], FLOAT64, 14 / 3),
    ("var_samp", "int64", "of integers", [1, 2, 6], FLOAT64, 7.0),
    ("var_pop", "float64", "of infinities", [INF, -INF], FLOAT64, 1e280),
    ("stddev_pop", "int64", "of equals", [5, 5], FLOAT64, 0.0),
    ("stddev_samp", "int64", "of integers", [1, 2, 6], FLOAT64, math.sqrt(7.0)),
    ("min", "text", "by code points", ["b", "ä", "Z", "", "😀"], TEXT, ""),
    ("max", "text", "by code points", ["b", "ä", "Z", "\uffff", "😀"], TEXT, "😀"),
    ("min", "float64", "of infinities", [INF, -INF, math.nan], FLOAT64, -INF),
    ("max", "float64", "without NaN", [1.0, math.nan], FLOAT64, 1.0),
    ("max", "boolean", "of booleans", [True, False], BOOLEAN, True),
    (
        "min",
        "timestamp",
        "of moments",
        [datetime.datetime(2020, 1, 1, 5), datetime.datetime(2020, 1, 1, 4)],
        TIMESTAMP,
        datetime.datetime(2020, 1, 1, 4),
    ),
    ("count_distinct", "float64", "of zeros and NaN", [0.0, -0.0, math.nan, math.nan, 1.0], INT64, 2),
    ("count_distinct", "text", "of similar texts", ["a", "A", "a ", "a", None], INT64, 3),
    ("mode", "text", "with ties, the least", ["b", "a", "c", "b", "a", None, None, None], TEXT, "a"),
    ("mode", "int64", "of nothing", [None], INT64, None),
    ("mode", "boolean", "of booleans", [True, False, True], BOOLEAN, True),
]
QUANTILES = [
    ("quantile_disc", "1/2", "int64", [4, 1, 3, 2, None], INT64, 2),
    ("quantile_disc", "7/100", "int64", list(range(1, 101)), INT64, 7),
    ("quantile_disc", "0", "float64", [INF, -INF, math.nan], FLOAT64, -INF),
    ("quantile_disc", "1", "text", ["b", "a"], TEXT, "b"),
    (
        "quantile_disc",
        "1/4",
        "date",
        [datetime.date(2020, 1, day) for day in range(1, 6)],
        DATE,
        datetime.date(2020, 1, 2),
    ),
    ("quantile_disc", "1/2", "int64", [None], INT64, None),
    ("quantile_cont", "1/2", "int64", [4, 1, 3, 2, None], FLOAT64, 2.5),
    ("quantile_cont", "1/3", "float64", [1.0, 2.0, 4.0, 8.0], FLOAT64, 2.0),
    ("quantile_cont", "9/10", "float64", [0.0, 10.0], FLOAT64, 9.0),
    ("quantile_cont", "1/2", "float64", [-INF, INF], FLOAT64, 0.0),
    ("quantile_cont", "1/2", "float64", [None], FLOAT64, None),
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("function", "type", "case", "values", "result", "expected"), AGGREGATES)
def test_exact_aggregates(
    engine: Engine, function: str, type: str, case: str, values: list[Any], result: Type, expected: Value
) -> None:
    catalog, backend = opened(engine, {"x": type, "back": type}, {"x": values, "back": values[::-1]})
    rounded = function.startswith(("var", "stddev")) and expected is not None
    for stored in ("t_x", "t_back"):
        relation = grouped(scan(catalog, "t"), [], found=(function, stored, result))
        ((found,),) = rows_of(backend, relation)
        assert found == (pytest.approx(expected, rel=1e-12) if rounded else expected)


@pytest.mark.parametrize(("function", "fraction", "type", "values", "result", "expected"), QUANTILES)
def test_exact_quantiles(
    engine: Engine, function: str, fraction: str, type: str, values: list[Any], result: Type, expected: Value
) -> None:
    """All rows, and those that pass a filter among others."""
    keep = [True] * len(values) + [False, None] * len(values)
    catalog, backend = opened(engine, {"x": type, "keep": "boolean"}, {"x": values + 2 * values[::-1], "keep": keep})
    source = scan(catalog, "t")
    found = AggregateColumn(
        id="found",
        name="found",
        function=function,  # type: ignore[arg-type]
        argument=column(source, "t_x"),
        filter=column(source, "t_keep"),
        type=result,
        fraction=Fraction(fraction),
    )
    ((given,),) = rows_of(backend, Aggregate(source=source, group_by=(), aggregates=(found,)))
    assert given == expected


def test_a_filter_holds_for_its_aggregate_alone(engine: Engine) -> None:
    values = {"x": [1, 2, 3], "b": pd.array([True, False, None], dtype="boolean")}
    catalog, backend = opened(engine, {"x": "int64", "b": "boolean"}, values)
    source = scan(catalog, "t")
    kept = column(source, "t_b")

    def one(id: str, function: str, argument: str | None) -> AggregateColumn:
        read = None if argument is None else column(source, argument)
        return AggregateColumn(id=id, name=id, function=function, argument=read, filter=kept, type=INT64)  # type: ignore[arg-type]

    aggregates = (one("n", "count", None), one("s", "sum", "t_x"), one("d", "count_distinct", "t_x"))
    everything = AggregateColumn(id="all_", name="", function="count", argument=None, filter=None, type=INT64)  # type: ignore[arg-type]
    relation = Aggregate(source=source, group_by=(), aggregates=(*aggregates, everything))
    assert rows_of(backend, relation) == [(1, 1, 1, 3)]


# Order.


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_sort_puts_null_where_it_is_told(engine: Engine, descending: bool, nulls_first: bool) -> None:
    values = {"x": [2.0, None, INF, -INF, -0.0], "s": ["b", None, "B", "a", "ä"]}
    catalog, backend = opened(engine, {"x": "float64", "s": "text"}, values)
    for place, expected in ((0, [-INF, 0.0, 2.0, INF]), (1, ["B", "a", "b", "ä"])):
        id = ("t_x", "t_s")[place]
        key = SortKey(column=id, descending=descending, nulls_first=nulls_first)
        found = [row[place] for row in rows_of(backend, Sort(source=scan(catalog, "t"), keys=(key,)))]
        ordered: list[Any] = list(reversed(expected)) if descending else list(expected)
        assert found == ([None, *ordered] if nulls_first else [*ordered, None])


def test_limit_counts_after_the_offset(engine: Engine) -> None:
    catalog, backend = opened(engine, {"n": "int64"}, {"n": [5, 3, 1, 4, 2]})
    ordered = Sort(source=scan(catalog, "t"), keys=(SortKey(column="t_n"),))
    limits: list[tuple[int | None, int, list[int]]] = [
        (2, 0, [1, 2]),
        (2, 4, [5]),
        (None, 3, [4, 5]),
        (0, 0, []),
        (9, 9, []),
    ]
    for count, offset, expected in limits:
        found = rows_of(backend, Limit(source=ordered, count=count, offset=offset))
        assert [row[0] for row in found] == expected


def test_ties_are_broken_by_the_next_key(engine: Engine) -> None:
    catalog, backend = opened(engine, {"a": "int64", "b": "text"}, {"a": [1, 2, 1, 2], "b": ["x", "x", "y", "y"]})
    keys = (SortKey(column="t_a", descending=True), SortKey(column="t_b"))
    found = rows_of(backend, Sort(source=scan(catalog, "t"), keys=keys))
    assert found == [(2, "x"), (2, "y"), (1, "x"), (1, "y")]


# Released tables.


def test_released_tables_are_read_by_number(engine: Engine) -> None:
    catalog, backend = opened(engine, {"k": "text", "w": "int64"}, {"k": ["a", "b"], "w": [10, 20]})
    first = pa.table({"m1": pa.array([1, None], pa.int64()), "k1": pa.array(["a", "c"])})
    second = pa.table(
        {"m2": pa.array([math.nan, -0.0, 2.5]), "d": pa.array([None, Decimal("1.50"), None], pa.decimal128(38, 2))}
    )
    nothing = pa.table({"nothing": pa.nulls(1, pa.int64())})
    released = (first, second, nothing)
    columns = (OutputColumn(id="k1", name="", type=TEXT), OutputColumn(id="m1", name="", type=INT64))
    zero = Released(index=0, columns=columns)
    assert rows_of(backend, zero, released) == [("a", 1), ("c", None)]
    relation: Relation = joined(zero, scan(catalog, "t"), ("k1", "t_k"))
    assert rows_of(backend, relation, released) == [("a", 1, "a", 10)]
    numbers = (OutputColumn(id="d", name="", type=decimal(38, 2)), OutputColumn(id="m2", name="", type=FLOAT64))
    one = Released(index=1, columns=numbers)
    doubled = extended(one, twice=call("add", (column(one, "m2"), column(one, "m2"))))
    assert [row[2] for row in rows_of(backend, doubled, released)] == [None, 0.0, 5.0]
    assert [row[0] for row in rows_of(backend, doubled, released)] == [None, Decimal("1.50"), None]
