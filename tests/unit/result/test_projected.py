"""Projections without an engine give what the engine gives, to the last digit, or nothing at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.backends.duckdb import DuckDBBackend
from dpquery.plan.expr import Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, OutputColumn, Project, Relation, Released
from dpquery.plan.types import FLOAT64, INT64, TEXT
from dpquery.result.projected import MOST_STEPS, projected
from tests.backends.plans import literal

KEY, COUNT, SUM = Column(id="c1", type=TEXT), Column(id="m1", type=INT64), Column(id="m2", type=FLOAT64)
RELEASED = Released(index=0, columns=tuple(OutputColumn(id=c.id, name="", type=c.type) for c in (KEY, COUNT, SUM)))
TABLE = pa.table(
    {
        "c1": pa.array(["a", None, "b", "c", "ß"]),
        "m1": pa.array([0, -3, 2**63 - 1, 7, 3], pa.int64()),
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


def test_what_is_no_short_arithmetic_is_left_to_the_engine() -> None:
    condition = call("gt", (COUNT, literal(0)))
    longer = pa.table({"c1": ["a"] * MOST_STEPS, "m1": [1] * MOST_STEPS, "m2": [1.0] * MOST_STEPS})
    added = project(RELEASED, x=call("add", (COUNT, literal(1))))
    assert projected(Filter(source=RELEASED, condition=condition), [TABLE]) is None
    assert projected(project(Filter(source=RELEASED, condition=condition), x=COUNT), [TABLE]) is None
    assert projected(project(RELEASED, x=call("exp", (SUM,))), [TABLE]) is None
    assert projected(project(RELEASED, x=call("upper", (KEY,))), [TABLE]) is None
    assert projected(added, [longer]) is None
    assert projected(project(RELEASED, x=COUNT), [longer]) is not None
