"""Projections of many columns over DuckDB: shared parts are computed once, and no value changes."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest

from dpquery.backends.duckdb.private_statements import no_released
from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.sql.shared_parts import MANY, shared
from dpquery.plan import functions
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import Computed, OutputColumn, Project, Relation, Values
from dpquery.plan.types import FLOAT64, INT64, Value

X, Y = Column(id="x", type=INT64), Column(id="y", type=FLOAT64)
GIVEN = Values(
    columns=(OutputColumn(id="x", name="x", type=INT64), OutputColumn(id="y", name="y", type=FLOAT64)),
    rows=((3, 0.5), (None, 2.0), (2**62, None), (-1, -4.0)),
)


def literal(value: Value) -> Expression:
    return Literal(value=value, type=FLOAT64 if isinstance(value, float) else INT64)


def projected(parts: Sequence[Expression]) -> Project:
    columns = tuple(Computed(id=f"c{i}", name="", expression=part) for i, part in enumerate(parts))
    return Project(source=GIVEN, columns=columns)


def written(relation: Relation) -> str:
    return RelationWriter(scan=lambda scan, number: "", released=no_released).select(relation)


SUM = functions.call("multiply", (functions.call("add", (X, literal(77))), functions.call("add", (X, literal(77)))))
QUOTIENTS = [functions.call("divide", (functions.call("multiply", (Y, Y)), literal(float(i - 3)))) for i in range(MANY)]
PROJECTIONS: dict[str, Sequence[Expression]] = {
    "a part of all": [functions.call("add", (SUM, literal(i))) for i in range(MANY)],
    "what may be NaN": QUOTIENTS,
    "nothing": [X] * MANY,
}


@pytest.mark.parametrize("parts", PROJECTIONS.values(), ids=PROJECTIONS)
def test_shared_parts_change_no_value(parts: Sequence[Expression]) -> None:
    project = projected(parts)
    with duckdb.connect() as engine:
        plainly = engine.execute(
            " UNION ALL BY NAME ".join(
                f"SELECT * FROM ({written(projected(parts[i : i + 1]))})" for i in range(len(parts))
            )
        ).fetchall()
        assert sorted(map(repr, plainly)) == sorted(
            repr((value,)) for row in engine.execute(written(project)).fetchall() for value in row
        )


def test_a_shared_part_is_written_once() -> None:
    text = written(projected(PROJECTIONS["a part of all"]))
    assert text.count("'77'") == 2
    assert shared(projected(PROJECTIONS["nothing"])) == projected(PROJECTIONS["nothing"])


def test_zeros_of_both_signs_are_not_shared() -> None:
    """They are equal, and 1 / x tells them apart."""
    parts = [functions.call("add", (Y, literal(zero))) for zero in (0.0, -0.0)] * MANY
    assert shared(projected(parts)) == projected(parts)
