"""Window functions: against the reference, and against the order in which rows are stored."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import pytest

from dpquery.catalog import Catalog
from dpquery.plan.expr import Column, Literal
from dpquery.plan.logical import Frame, Relation, SortKey, Window, WindowColumn
from dpquery.plan.types import FLOAT64, INT64, Type, Value, decimal
from tests.backends.engines import Engine, catalog_of, rows_of, sorted_rows
from tests.backends.generator import COLUMNS, Generator, stored
from tests.backends.plans import scan
from tests.backends.windows import Windows
from tests.reference.backend import ReferenceBackend


def over(
    function: str,
    *arguments: Column | Literal,
    by: tuple[str, ...] = (),
    order: tuple[str, ...] = (),
    frame: Frame | None = None,
    type: Type = INT64,
    id: str = "w",
) -> WindowColumn:
    keys = tuple(SortKey(column=name.lstrip("-"), descending=name.startswith("-")) for name in order)
    return WindowColumn(
        id=id,
        name=id,
        function=function,
        arguments=arguments,
        filter=None,
        partition_by=by,
        order_by=keys,
        frame=frame,
        type=type,
    )


def number(value: int) -> Literal:
    return Literal(value=value, type=INT64)


def table(engine: Engine, types: dict[str, str], values: dict[str, Any]) -> tuple[Catalog, Any]:
    columns = {name: {"type": type} for name, type in types.items()}
    catalog = catalog_of({"t": {"public": True, "columns": columns}})
    return catalog, engine(catalog, {"t": pd.DataFrame(values)})


def made(engine: Engine, source_values: dict[str, Any], types: dict[str, str], *columns: WindowColumn) -> list[Any]:
    """Returns the window columns' values, row by row in the order of the source."""
    catalog, backend = table(engine, types, source_values)
    rows = rows_of(backend, Window(source=scan(catalog, "t"), columns=columns))
    return [row[len(types) :] if len(columns) > 1 else row[-1] for row in rows]


VALUES = {"k": ["a", "a", "a", "a", "b", "b"], "n": [3, 1, 1, 2, 5, 5], "m": [1, 2, 3, 4, 5, 6]}
TYPES = {"k": "text", "n": "int64", "m": "int64"}
K = ("t_k",)
BEFORE = Frame(mode="groups", start=-1, end=-1)
N, M = Column(id="t_n", type=INT64), Column(id="t_m", type=INT64)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (over("row_number", by=K, order=("t_n",)), [4, 1, 2, 3, 1, 2]),
        (over("row_number", by=K, order=("-t_n", "-t_m")), [1, 4, 3, 2, 2, 1]),
        (over("rank", by=K, order=("t_n",)), [4, 1, 1, 3, 1, 1]),
        (over("dense_rank", by=K, order=("t_n",)), [3, 1, 1, 2, 1, 1]),
        (over("percent_rank", by=K, order=("t_n",), type=FLOAT64), [1.0, 0.0, 0.0, 2 / 3, 0.0, 0.0]),
        (over("cume_dist", by=K, order=("t_n",), type=FLOAT64), [1.0, 0.5, 0.5, 0.75, 1.0, 1.0]),
        (over("ntile", number(3), by=K, order=("t_n",)), [3, 1, 1, 2, 1, 2]),
        (over("lag", M, number(1), by=K, order=("t_n",)), [4, None, 2, 3, None, 5]),
        (over("lag", M, number(0), by=K, order=("t_n",)), [1, 2, 3, 4, 5, 6]),
        (over("lead", M, number(2), number(-1), by=K, order=("t_n",)), [-1, 4, 1, -1, -1, -1]),
        (over("first_value", M, by=K, order=("t_n",)), [2, 2, 2, 2, 5, 5]),
        (over("last_value", M, by=K, order=("t_n",)), [1, 3, 3, 4, 6, 6]),
        (over("last_value", M, by=K, order=("t_n",), frame=Frame(mode="rows", start=None, end=0)), [1, 2, 3, 4, 5, 6]),
        (over("nth_value", M, number(3), by=K, order=("t_n",)), [4, None, None, 4, None, None]),
        (over("count", by=K, order=("t_n",)), [4, 2, 2, 3, 2, 2]),
        (over("sum", M, by=K), [10, 10, 10, 10, 11, 11]),
        (over("sum", M, by=K, order=("t_n",)), [10, 5, 5, 9, 11, 11]),
        (over("sum", M, by=K, order=("t_n",), frame=Frame(mode="rows", start=-1, end=0)), [5, 2, 5, 7, 5, 11]),
        (over("sum", M, by=K, order=("t_n",), frame=BEFORE), [4, None, None, 5, None, None]),
        (over("max", M, by=K, order=("t_n",), frame=Frame(mode="rows", start=1, end=2)), [None, 4, 4, 1, 6, None]),
        (over("avg", N, by=K, type=FLOAT64), [1.75, 1.75, 1.75, 1.75, 5.0, 5.0]),
        (over("min", N), [1] * 6),
        (over("row_number"), [4, 1, 2, 3, 5, 6]),
    ],
)  # fmt: skip
def test_what_each_function_gives(engine: Engine, window: WindowColumn, expected: list[Value]) -> None:
    assert made(engine, VALUES, TYPES, window) == expected


def test_sums_are_exact_and_overflow_to_null(engine: Engine) -> None:
    x = Column(id="t_x", type=FLOAT64)
    values = {"x": [1e300, -1e300, 0.1, 0.2, 1e-12, float("inf")], "m": [2**63 - 1, 1, -1, 1, 5, 6]}
    types = {"x": "float64", "m": "int64"}
    running = Frame(mode="rows", start=None, end=0)
    found = made(engine, values, types, over("sum", x, order=("t_m",), frame=running, type=FLOAT64))
    assert found == [1e17, -1e17, 0.1, -1e17, -1e17, 0.3]
    whole = made(engine, values, types, over("sum", x, type=FLOAT64))
    assert whole == [1e17] * 6
    assert made(engine, values, types, over("sum", M)) == [None] * 6


def test_wide_decimals_are_clamped_and_others_exact(engine: Engine) -> None:
    price, wide = Column(id="t_p", type=decimal(8, 2)), Column(id="t_w", type=decimal(38, 10))
    values = {
        "p": [Decimal("999999.99"), Decimal("0.01"), None],
        "w": [Decimal("1234567890123456789012345678.0123456789"), Decimal("0.0000000001"), Decimal(-1)],
    }
    types = {"p": "decimal(8,2)", "w": "decimal(38,10)"}
    sums = over("sum", price, type=decimal(38, 2)), over("sum", wide, type=decimal(38, 10), id="v")
    expected = (Decimal("1000000.00"), Decimal(10**18) - 1)
    assert made(engine, values, types, *sums) == [expected] * 3


def test_both_zeros_are_one_value(engine: Engine) -> None:
    x = Column(id="t_x", type=FLOAT64)
    values, types = {"x": [0.0, -0.0, 0.0], "m": [3, 2, 1]}, {"x": "float64", "m": "int64"}
    assert made(engine, values, types, over("count", by=("t_x",))) == [3, 3, 3]
    assert made(engine, values, types, over("row_number", order=("t_x",))) == [3, 2, 1]
    assert [str(v) for v in made(engine, values, types, over("first_value", x, order=("-t_m",), type=FLOAT64))] == [
        "0.0"
    ] * 3


def test_texts_are_ordered_by_code_points(engine: Engine) -> None:
    values = {"k": ["b", "B", "ä", "a", "", "😀", "z"], "m": list(range(7))}
    found = made(engine, values, {"k": "text", "m": "int64"}, over("row_number", order=("t_k",)))
    assert found == [4, 2, 6, 3, 1, 7, 5]


def frames(random: Random) -> pd.DataFrame:
    """Returns rows of which many are equal in all columns."""
    few = pd.DataFrame({name: stored(random, type, 6) for name, type in COLUMNS.items()})
    return few.iloc[[random.randrange(6) for _ in range(random.randint(1, 18))]].reset_index(drop=True)


def drawn(seed: int) -> tuple[Catalog, pd.DataFrame, Relation]:
    """Returns a table and windows over windows over it."""
    random = Random(seed)
    columns = {name: {"type": str(type)} for name, type in COLUMNS.items()}
    catalog = catalog_of({"t": {"public": True, "columns": columns}})
    generator = Generator(random=random, catalog=catalog)
    windows = Windows(random=random, fresh=generator.fresh, expression=generator.expression)
    relation: Relation = scan(catalog, "t")
    for _ in range(random.choice([1, 1, 2, 3])):
        relation = windows.over(relation, tuple(random.sample(["t_kind", "t_flag", "t_day"], random.choice([0, 1, 2]))))
    return catalog, frames(random), relation


def compare(engine: Engine, seeds: range) -> None:
    for seed in seeds:
        catalog, frame, relation = drawn(seed)
        expected = sorted_rows(rows_of(ReferenceBackend(catalog, {"t": frame}), relation))
        for order in (frame.index[::-1], Random(seed).sample(list(frame.index), len(frame))):
            shuffled = frame.loc[order].reset_index(drop=True)
            found = sorted_rows(rows_of(engine(catalog, {"t": shuffled}), relation))
            assert [list(map(repr, row)) for row in found] == [list(map(repr, row)) for row in expected], seed


def test_random_windows_give_the_same_rows_whatever_the_order_in_which_they_are_stored(engine: Engine) -> None:
    compare(engine, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 100))
def test_very_many_random_windows(engine: Engine, start: int) -> None:
    compare(engine, range(start, start + 100))


def test_many_partitions_at_once_give_what_each_gives_alone(engine: Engine, request: pytest.FixtureRequest) -> None:
    """How an engine batches its additions, or sorts, must not let one person's rows touch another's. The reference
    batches nothing, and compares each row with each: it has fewer."""
    random = Random(5)
    is_reference = request.node.callspec.params["engine"] == "reference"
    count, people = (240, 8) if is_reference else (12_000, 90)
    frame = pd.DataFrame(
        {
            "k": [random.randrange(people) for _ in range(count)],
            "x": [random.choice([random.random() * 10**e for e in range(-3, 20, 3)]) for _ in range(count)],
            "n": [random.randrange(3) for _ in range(count)],
            "day": [datetime.date(2020, 1, 1 + random.randrange(5)) for _ in range(count)],
        }
    )
    types = {"k": "int64", "x": "float64", "n": "int64", "day": "date"}
    x = Column(id="t_x", type=FLOAT64)
    running = Frame(mode="rows", start=-7, end=3)
    columns = (
        over("sum", x, by=("t_k",), order=("t_day",), frame=running, type=FLOAT64, id="a"),
        over("avg", x, by=("t_k",), type=FLOAT64, id="b"),
        over("lag", x, number(1), by=("t_k",), order=("t_day",), type=FLOAT64, id="c"),
        over("last_value", x, by=("t_k",), order=("t_n",), type=FLOAT64, id="d"),
        over("sum", x, by=("t_k",), order=("t_n",), type=FLOAT64, id="e"),
    )

    def rows(given: pd.DataFrame) -> list[tuple[Value, ...]]:
        catalog, backend = table(engine, types, {name: given[name].tolist() for name in types})
        found = rows_of(backend, Window(source=scan(catalog, "t"), columns=columns))
        return sorted(row for row in found if row[0] in (0, 7))

    expected = rows(frame)
    assert len(expected) > 50
    alone = frame[frame.k.isin([0, 7])]
    assert rows(alone) == expected
    assert rows(frame.sample(frac=1, random_state=3)) == expected
    assert rows(alone.iloc[::-1]) == expected
