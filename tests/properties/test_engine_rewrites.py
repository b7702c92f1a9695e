"""Rewrites that DuckDB's SQL is made with keep the rows: of random semi- and anti-joins with groups, of projections."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import duckdb
import pytest

from dpquery.backends.duckdb.sql.relations import RelationWriter
from dpquery.backends.duckdb.sql.semijoin_reduction import is_looked_for, matched
from dpquery.backends.duckdb.sql.shared_parts import MANY, shared
from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.backends.duckdb.sql.values_sql import name
from dpquery.plan.evaluate import normal
from dpquery.plan.expr import Expression, parts_of
from dpquery.plan.functions import SignatureError, call
from dpquery.plan.logical import Computed, OutputColumn, Project, Relation, Released, Scan
from dpquery.plan.types import Value
from tests.properties.drawn_relations import Drawn, ids_of
from tests.properties.expressions import draw
from tests.unit.plan.engine import stored

JOINS, PROJECTIONS, LEAST = 120, 40, 10
"""How many are drawn, and how often a rewrite applies at least; of joins, of each kind and where a row is left."""


def rows_of(tables: Mapping[str, Sequence[Mapping[str, Value]]]) -> Callable[[Scan, Callable[[int], str]], str]:
    """Returns what writes a scan: as its rows, which the engine then has from nowhere else."""

    def written(scan: Scan, number: Callable[[int], str]) -> str:
        read = ", ".join(f"{c.name}::BIGINT AS {name(c.id)}" for c in scan.columns)
        names = [*tables[scan.table][0]]
        rows = ", ".join(
            f"({', '.join('NULL' if row[column] is None else str(row[column]) for column in names)})"
            for row in tables[scan.table]
        )
        return f"SELECT {read} FROM (VALUES {rows}) AS given({', '.join(names)})"

    return written


def by_engine(engine: duckdb.DuckDBPyConnection, relation: Relation, drawn: Drawn) -> list[Counter[str]]:
    """Returns how often each row occurs in each of the databases, as the engine answers."""
    columns = ", ".join(map(name, ids_of(relation)))
    found = []
    for tables in drawn.databases:
        text = RelationWriter(scan=rows_of(tables), released=no_released).select(relation)
        found.append(Counter(repr([*row]) for row in engine.execute(f"SELECT {columns} FROM ({text})").fetchall()))
    return found


def no_released(index: int) -> str:
    raise AssertionError(index)


def looked_for(chance: Random, count: int) -> None:
    applied, kept = Counter[str](), Counter[str]()
    with duckdb.connect(config={"threads": 1}) as engine:
        for _ in range(count):
            drawn = Drawn(chance)
            join, groups = drawn.with_groups()
            if not is_looked_for(join, groups) and chance.random() < 0.8:
                continue
            ids, expected = ids_of(join), drawn.answers(join, ids_of(join))
            if is_looked_for(join, groups):
                applied[join.kind] += 1
                kept[join.kind] += any(map(len, expected))
                within = replace(groups, source=matched(join, groups))
                assert drawn.answers(replace(join, right=within), ids) == expected
            assert by_engine(engine, join, drawn) == expected
    assert {*applied} == {"semi", "anti"}
    assert all(kept[kind] >= LEAST * count // JOINS for kind in applied), (applied, kept)


def test_rows_that_are_looked_for_before_they_are_grouped_are_the_same() -> None:
    looked_for(Random(35), JOINS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_looked_for_before_they_are_grouped_are_the_same_at_length(seed: int) -> None:
    looked_for(Random(seed), 20 * JOINS)


def projection(chance: Random, source: Released, drawn: Expression) -> Project:
    """Returns many columns made of the parts of an expression, so that several have parts in common."""
    parts = [*parts_of(drawn)]
    columns: list[Expression] = []
    while len(columns) < MANY:
        made: Expression = chance.choice(parts)
        with contextlib.suppress(SignatureError):
            made = call(chance.choice(["add", "coalesce", "least", "eq", "multiply"]), chance.choices(parts, k=2))
        columns.append(made)
    shown = [Computed(id=f"shown{i}", name="", expression=each) for i, each in enumerate(columns)]
    return Project(source=source, columns=tuple(shown))


def test_parts_that_several_columns_share_are_computed_once_and_change_no_value() -> None:
    chance, applied = Random(36), 0
    with duckdb.connect(config={"threads": 1}) as engine:
        for _ in range(PROJECTIONS):
            drawn = draw(chance, 12)
            given = ", ".join(f"CAST(? AS {type_name(c.type)}) AS {name(c.id)}" for c in drawn.columns)
            values = [stored(normal(row[c.id])) for row in drawn.rows for c in drawn.columns]
            rows = " UNION ALL ".join([f"SELECT {given}"] * len(drawn.rows))
            engine.execute(f"CREATE OR REPLACE TABLE given AS {rows}", values)
            source = Released(
                index=0, columns=tuple(OutputColumn(id=c.id, name=c.id, type=c.type) for c in drawn.columns)
            )
            project = projection(chance, source, drawn.expression)
            applied += shared(project) != project
            written = RelationWriter(scan=rows_of({}), released=lambda index: "given").select(project)
            alone = [
                engine.execute(f"SELECT {lower(c.expression, names=name)} FROM given").fetchall()
                for c in project.columns
            ]
            together = engine.execute(written).fetchall()
            assert [repr(row) for row in together] == [
                repr(tuple(value for (value,) in row)) for row in zip(*alone, strict=True)
            ]
    assert applied >= 2 * LEAST, applied
