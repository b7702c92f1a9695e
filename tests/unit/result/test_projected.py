"""Projections without an engine give what the engine gives, to the last digit, or nothing at all."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.plan.expr import Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Limit,
    OutputColumn,
    Project,
    Relation,
    Released,
    Sort,
    SortKey,
)
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT
from dpquery.result.released_tables import MOST_SORTED, projected
from tests.backends.plans import literal

KEY, COUNT, SUM = Column(id="c1", type=TEXT), Column(id="m1", type=INT64), Column(id="m2", type=FLOAT64)
RELEASED = Released(index=0, columns=tuple(OutputColumn(id=c.id, name="", type=c.type) for c in (KEY, COUNT, SUM)))
TABLE = pa.table(
    {
        "c1": pa.array(["a", None, "b", "c", "ß"]),
        "m1": pa.array([0, -3, 2**53 - 2, 7, 3], pa.int64()),
        "m2": pa.array([0.1, 1e308, -1e308, 5.5, 0.0], pa.float64()),
    }
)


def project(source: Relation, **computed: Expression) -> Project:
    """Returns a projection under these ids."""
    columns = tuple(Computed(id=id, name="", expression=expression) for id, expression in computed.items())
    return Project(source=source, columns=columns)


@pytest.fixture(scope="module")
def engine() -> DuckDBBackend:
    catalog = dp.Catalog(
        dataset="d", privacy_unit="row", budget={"epsilon": 1}, tables={"t": {"columns": {"x": {"type": "int64"}}}}
    )
    return DuckDBBackend(catalog, {"t": pa.table({"x": [1]})})


@pytest.mark.parametrize(
    "expression",
    [
        KEY,
        SUM,
        literal(5),
        call("divide", (SUM, COUNT)),
        call("add", (COUNT, literal(1))),
        call("multiply", (SUM, literal(7.25))),
        call("sqrt", (SUM,)),
        call("clamp", (SUM, literal(0.0), literal(4.0))),
        call("gt", (COUNT, literal(2))),
    ],
)
def test_projections_are_those_of_the_engine(engine: DuckDBBackend, expression: Expression) -> None:
    inner = project(RELEASED, c1=KEY, m1=COUNT, m2=SUM, x=expression)
    relation = project(inner, y=Column(id="x", type=expression.type), c1=KEY)
    made = projected(relation, [TABLE])
    assert made is not None
    assert made.equals(engine.evaluate(relation, [TABLE]))


def test_what_is_no_arithmetic_is_left_to_the_engine() -> None:
    condition = call("gt", (call("upper", (KEY,)), literal("A")))
    longer = pa.table({"c1": ["a"] * MOST_SORTED, "m1": [1] * MOST_SORTED, "m2": [1.0] * MOST_SORTED})
    added = project(RELEASED, x=call("add", (COUNT, literal(1))))
    assert projected(Filter(source=RELEASED, condition=condition), [TABLE]) is None
    assert projected(project(Filter(source=RELEASED, condition=condition), x=COUNT), [TABLE]) is None
    assert projected(project(RELEASED, x=call("exp", (SUM,))), [TABLE]) is None
    assert projected(project(RELEASED, x=call("upper", (KEY,))), [TABLE]) is None
    assert projected(added, [longer]) is not None
    large = pa.table({"c1": ["a"], "m1": [2**53 - 1], "m2": [1.0]})
    assert projected(added, [large]) is None
    assert projected(project(RELEASED, x=COUNT), [large]) is not None
    assert projected(project(RELEASED, x=COUNT), [longer]) is not None
    assert projected(Sort(source=RELEASED, keys=(SortKey(column="m1"), SortKey(column="c1"))), [longer]) is None
    aggregate = Aggregate(source=RELEASED, group_by=("c1",), aggregates=())
    assert projected(Sort(source=aggregate, keys=(SortKey(column="c1"),)), [TABLE]) is None


@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("columns", ["c1", "m1", "m2", "b c1", "b m2", "d m1", "t b m2"])
def test_orders_are_those_of_the_engine(
    engine: DuckDBBackend, columns: str, descending: bool, nulls_first: bool
) -> None:
    day = datetime.date(2024, 2, 29)
    known = TABLE.append_column("b", pa.array([True, None, False, True, False]))
    known = known.append_column("d", pa.array([day, None, day, None, datetime.date(1, 1, 1)]))
    known = known.append_column("t", pa.array(["", "\U0001f600", "\uffff", "a", "A"]))
    first, *rest = columns.split()
    keys = (SortKey(column=first, descending=descending, nulls_first=nulls_first), *(SortKey(column=c) for c in rest))
    given = Released(index=0, columns=())
    for relation in (Sort(source=given, keys=keys), Limit(source=Sort(source=given, keys=keys), count=2, offset=1)):
        made = projected(relation, [known])
        assert made is not None
        assert made.equals(_evaluated(engine, relation, known))


def test_what_is_equal_in_all_keys_keeps_its_order() -> None:
    table = pa.table({"c1": ["b", "a", "b", "a"], "m1": [1, 2, 3, 4]})
    relation = Sort(source=RELEASED, keys=(SortKey(column="c1", descending=True),))
    made = projected(relation, [table])
    assert made is not None
    assert made["m1"].to_pylist() == [1, 3, 2, 4]


@pytest.mark.parametrize(("count", "offset"), [(0, 0), (2, 0), (None, 3), (9, 4), (3, 9)])
def test_limits_are_those_of_the_engine(engine: DuckDBBackend, count: int | None, offset: int) -> None:
    relation = Limit(source=project(RELEASED, m1=COUNT), count=count, offset=offset)
    made = projected(relation, [TABLE])
    assert made is not None
    assert made.equals(engine.evaluate(relation, [TABLE]))


@pytest.mark.parametrize(
    "condition",
    [
        call("gt", (COUNT, literal(0))),
        call("not", (call("lt", (SUM, literal(0.1))),)),
        call("and", (call("ge", (SUM, literal(0.0))), call("is_not_null", (COUNT,)))),
        call("gt", (call("divide", (SUM, COUNT)), literal(0.0))),
    ],
)
def test_filters_are_those_of_the_engine(engine: DuckDBBackend, condition: Expression) -> None:
    relation = project(Filter(source=RELEASED, condition=condition), x=SUM, c1=KEY)
    made = projected(relation, [TABLE])
    assert made is not None
    assert made.equals(engine.evaluate(relation, [TABLE]))


def _evaluated(engine: DuckDBBackend, relation: Relation, table: pa.Table) -> pa.Table:
    columns = {"b": BOOLEAN, "d": DATE, "t": TEXT}
    known = (*RELEASED.columns, *(OutputColumn(id=id, name="", type=type) for id, type in columns.items()))
    return engine.evaluate(_over(relation, Released(index=0, columns=known)), [table])


def _over(relation: Relation, released: Released) -> Relation:
    if isinstance(relation, Sort | Limit):
        return replace(relation, source=_over(relation.source, released))
    return released
