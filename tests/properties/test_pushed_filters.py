"""Filters and joins moved below joins keep the rows of random relations, and filters that follow are of public rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

from dpquery.backends.duckdb.join_order import early
from dpquery.backends.duckdb.used_columns import pushed
from dpquery.plan.expr import Column, Expression, Literal, conjuncts
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Released,
    Scan,
    ScanColumn,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import INT64, Value
from tests.reference.relations import Interpreter, Row

KINDS: tuple[JoinKind, ...] = ("inner", "inner", "inner", "cross", "left", "full", "semi", "anti")
GIVEN: tuple[Value, ...] = (None, 0, 1, 2)
RELATIONS = 1_500
UNIQUE = "unique"
"""A table with a column of which no two rows agree."""
DECLARED: Any = SimpleNamespace(
    tables={
        name: SimpleNamespace(unique=(frozenset("a"),) if name == UNIQUE else ())
        for name in ("first", "second", UNIQUE)
    }
)


class Drawn:
    """Random relations over tables of four rows, of which some are public."""

    def __init__(self, chance: Random, *, projects: bool) -> None:
        self.chance, self.projects, self.names = chance, projects, map(str, itertools.count())
        self.tables = {name: self.rows() for name in ("first", "second", UNIQUE)}
        for row, value in zip(self.tables[UNIQUE], chance.sample(GIVEN, 4), strict=True):
            row["a"] = value

    def rows(self) -> list[dict[str, Value]]:
        return [{column: self.chance.choice(GIVEN) for column in "ab"} for _ in range(4)]

    def scan(self) -> Scan:
        name, number = self.chance.choice([*self.tables]), next(self.names)
        columns = tuple(ScanColumn(id=f"{column}_{number}", name=column, type=INT64) for column in "ab")
        return Scan(table=name, columns=columns, public=self.chance.random() < 0.5)

    def condition(self, ids: list[str], depth: int = 2) -> Expression:
        if depth and self.chance.random() < 0.8:
            function = self.chance.choice(["and", "or", "or", "not"])
            parts = [self.condition(ids, depth - 1) for _ in range(1 if function == "not" else 2)]
            return call(function, tuple(parts))
        other: Expression = Literal(value=self.chance.choice((0, 1, 2)), type=INT64)
        if self.chance.random() < 0.2:
            other = Column(id=self.chance.choice(ids), type=INT64)
        return call(self.chance.choice(["eq", "ne", "lt"]), (Column(id=self.chance.choice(ids), type=INT64), other))

    def relation(self, depth: int) -> Relation:
        if not depth:
            return self.scan()
        if self.chance.random() < 0.4:
            source = self.relation(depth - 1)
            return Filter(source=source, condition=self.condition([column.id for column in output(source)]))
        if self.projects and self.chance.random() < 0.2:
            return self.project(self.relation(depth - 1))
        left, right, kind = self.relation(depth - 1), self.relation(depth - 1), self.chance.choice(KINDS)
        ids = [column.id for side in (left, right) for column in output(side)]
        condition = self.condition(ids) if self.chance.random() < 0.5 else None
        pair = (self.column(left), self.column(right))
        return Join(
            left=left, right=right, kind=kind, equalities=() if kind == "cross" else (pair,), condition=condition
        )

    def project(self, source: Relation) -> Project:
        shown = [self.column(source), call("add", (self.column(source), self.column(source)))]
        made = [(next(self.names), each) for each in shown]
        return Project(source=source, columns=tuple(Computed(id=f"p{n}", name=n, expression=e) for n, e in made))

    def column(self, source: Relation) -> Expression:
        return Column(id=self.chance.choice(output(source)).id, type=INT64)

    def kept(self, relation: Relation) -> Counter[str]:
        rows = Interpreter(scan=self.read, released=no_released).rows(relation)
        return Counter(repr(sorted(row.items())) for row in rows)

    def sizes(self, relation: Relation) -> Iterator[int]:
        """Yields how many rows each part of a relation has."""
        yield self.kept(relation).total()
        for source in sources(relation):
            yield from self.sizes(source)

    def read(self, scan: Scan) -> list[Row]:
        return [{column.id: row[column.name] for column in scan.columns} for row in self.tables[scan.table]]


def no_released(relation: Released) -> list[Row]:
    raise AssertionError(relation)


def conditions(relation: Relation, *, of_private: bool) -> Iterator[Expression]:
    """Yields the parts of all conditions, of private relations or of public ones."""
    if isinstance(relation, Filter | Join) and relation.condition is not None and is_private(relation) is of_private:
        yield from conjuncts(relation.condition)
    for source in sources(relation):
        yield from conditions(source, of_private=of_private)


def ordered(relation: Relation) -> Relation:
    """Returns a relation with each join with public rows as early as may be."""
    made = with_sources(relation, tuple(map(ordered, sources(relation)))) if sources(relation) else relation
    return early(made, DECLARED) if isinstance(made, Join) else made


def test_joins_made_early_keep_the_rows_and_make_no_more_of_them() -> None:
    chance, moved = Random(18), 0
    for _ in range(4 * RELATIONS):
        drawn = Drawn(chance, projects=False)
        relation = drawn.relation(3)
        made = ordered(relation)
        if made == relation:
            continue
        assert drawn.kept(made) == drawn.kept(relation)
        assert max(drawn.sizes(made)) <= max(drawn.sizes(relation))
        moved += 1
    assert moved > 50


def test_moved_and_following_filters_keep_the_rows() -> None:
    chance = Random(16)
    for _ in range(RELATIONS):
        drawn = Drawn(chance, projects=True)
        relation = drawn.relation(3)
        made = pushed(relation, [], DECLARED)
        if made != relation:
            assert drawn.kept(made) == drawn.kept(relation)


def test_what_follows_filters_public_rows_only() -> None:
    chance, following = Random(17), 0
    for _ in range(RELATIONS):
        relation = Drawn(chance, projects=False).relation(3)
        given = {*conditions(relation, of_private=True), *conditions(relation, of_private=False)}
        moved = pushed(relation, [], DECLARED)
        assert {*conditions(moved, of_private=True)} <= given
        following += not {*conditions(moved, of_private=False)} <= given
    assert following > 50
