"""The work bound against counted steps: random plans, run by the reference interpreter over units with several rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from dpquery.catalog import Catalog
from dpquery.plan.aggregates.choices import MAX, MIN
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.functions import FUNCTIONS, call, cast_value
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    Matched,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetOperation,
    output,
    sources,
)
from dpquery.plan.types import INT64, TEXT, Value
from dpquery.units.costs import STEP
from dpquery.units.locality import NotUnitLocal
from dpquery.units.sizes import Unbounded
from dpquery.units.work import Work
from tests.reference import aggregates as reference_aggregates
from tests.reference import relations as reference_relations
from tests.reference.backend import ReferenceBackend
from tests.reference.relations import Interpreter, Row

CATALOG = Catalog.from_yaml("""
version: 2
dataset: d
privacy_unit: person
budget: {epsilon: 1}
tables:
  p:
    unit: id
    unique: [[id]]
    columns: {id: {type: int64}, x: {type: int64}, t: {type: text, max_length: 40}}
  v:
    unit: id
    max_rows: 8
    columns: {id: {type: int64}, x: {type: int64}, t: {type: text, max_length: 40}}
  c:
    public: true
    columns: {x: {type: int64}, t: {type: text, max_length: 40}}
""")
DECLARED = CATALOG.declarations
ROWS = 3
"""The most rows of a unit in a table."""


def backend(draw: random.Random) -> ReferenceBackend:
    """Returns small tables: one unit, so that all private rows are its own."""

    def texts(count: int) -> list[str]:
        return ["".join(draw.choices("aß%b", k=draw.choice([0, 3, 60]))) for _ in range(count)]

    public = draw.randrange(0, 5)
    tables = {
        "p": pd.DataFrame({"id": [1], "x": [draw.randrange(3)], "t": texts(1)}),
        "v": pd.DataFrame({"id": [1] * ROWS, "x": [draw.randrange(3) for _ in range(ROWS)], "t": texts(ROWS)}),
        "c": pd.DataFrame({"x": [draw.randrange(3) for _ in range(public)], "t": texts(public)}),
    }
    return ReferenceBackend(CATALOG, tables)


class Plans:
    """Draws relations of a few operators."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.count = draw, 0

    def fresh(self) -> str:
        self.count += 1
        return f"i{self.count}"

    def scan(self, table: str) -> Scan:
        declared = CATALOG.tables[table]
        columns = tuple(
            ScanColumn(id=self.fresh(), name=c.name, type=c.type, max_length=c.max_length)
            for c in declared.columns.values()
        )
        unit = None if declared.public else columns[0].id
        return Scan(table=table, columns=columns, public=declared.public, ownership=declared.ownership, unit=unit)

    def relation(self, depth: int) -> Relation:
        """Returns a private relation whose first column tells the unit."""
        if depth == 0:
            return self.scan(self.draw.choice("pv"))
        source = self.relation(depth - 1)
        match self.draw.choice(["filter", "project", "public", "private", "semi", "group", "union"]):
            case "filter":
                return Filter(source=source, condition=self.truth(source))
            case "project":
                return self.projected(source)
            case "public":
                kind: Any = self.draw.choice(["inner", "left", "cross"])
                public = self.scan("c")
                equal = () if kind == "cross" else ((self.number(source), self.read(public, INT64)),)
                condition = self.truth(source) if self.draw.random() < 0.3 else None
                return Join(left=source, right=public, kind=kind, equalities=equal, condition=condition)
            case "private":
                other = self.relation(self.draw.randrange(depth))
                kind = self.draw.choice(["inner", "left"])
                return Join(left=source, right=other, kind=kind, equalities=(self.units(source, other),))
            case "semi":
                other = self.relation(self.draw.randrange(depth))
                kind = self.draw.choice(["semi", "anti"])
                return Join(left=source, right=other, kind=kind, equalities=(self.units(source, other),))
            case "group":
                return self.grouped(source)
            case _:
                return self.union(source, self.relation(self.draw.randrange(depth)))

    def units(self, left: Relation, right: Relation) -> tuple[Column, Column]:
        return tuple(Column(id=output(side)[0].id, type=INT64) for side in (left, right))  # type: ignore[return-value]

    def grouped(self, source: Relation) -> Aggregate:
        keys = [output(source)[0].id, *(c.id for c in output(source)[1:] if self.draw.random() < 0.3)]
        made = [
            (COUNT, None, INT64),
            (MAX, self.text(source, 1), TEXT),
            (MIN, self.number(source), INT64),
        ]
        aggregates = tuple(
            AggregateColumn(id=self.fresh(), name="", function=function, argument=argument, filter=None, type=type)
            for function, argument, type in made
        )
        return Aggregate(source=source, group_by=tuple(keys), aggregates=aggregates)

    def union(self, left: Relation, right: Relation) -> SetOperation:
        ids = output(left)[0].id, output(right)[0].id
        return SetOperation(
            kind=self.draw.choice(["union_all", "except", "intersect"]),
            left=left,
            right=right,
            columns=(Matched(id=self.fresh(), name="", type=INT64, left=ids[0], right=ids[1]),),
        )

    def projected(self, source: Relation) -> Project:
        first = output(source)[0]
        made = [self.number(source), self.text(source, 2), self.text(source, 2)]
        columns = [Computed(id=self.fresh(), name="", expression=Column(id=first.id, type=first.type))]
        columns += [Computed(id=self.fresh(), name="", expression=expression) for expression in made]
        return Project(source=source, columns=tuple(columns))

    def read(self, source: Relation, type: Any) -> Expression:
        given = [c for c in output(source) if c.type == type]
        return Column(id=self.draw.choice(given).id, type=type) if given else Literal(value=None, type=type)

    def number(self, source: Relation) -> Expression:
        made = self.read(source, INT64)
        return call("length", (self.text(source, 1),)) if self.draw.random() < 0.3 else made

    def text(self, source: Relation, depth: int) -> Expression:
        if depth == 0 or self.draw.random() < 0.3:
            return self.read(source, TEXT)
        x = self.text(source, depth - 1)
        constant = Literal(value=self.draw.choice(["", "a", "bbbbb"]), type=TEXT)
        match self.draw.choice(["replace", "concat", "lpad", "upper", "left", "cast", "case", "reverse", "coalesce"]):
            case "replace":
                return call("replace", (x, Literal(value="a", type=TEXT), Literal(value="a" * 200, type=TEXT)))
            case "concat":
                return call("concat", (x, self.text(source, depth - 1), constant))
            case "lpad":
                return call("lpad", (x, Literal(value=self.draw.choice([5, 10_000]), type=INT64)))
            case "left":
                return call("left", (x, Literal(value=7, type=INT64)))
            case "cast":
                return Cast(argument=self.read(source, INT64), type=TEXT)
            case "case":
                return Case(branches=((self.truth(source), x),), otherwise=constant, type=TEXT)
            case "coalesce":
                return call("coalesce", (x, constant))
            case name:
                return call(name, (x,))

    def truth(self, source: Relation) -> Expression:
        if self.draw.random() < 0.5:
            return call("like", (self.text(source, 2), Literal(value="%a_b%", type=TEXT)))
        return call("le", (self.number(source), Literal(value=2, type=INT64)))


class Counted:
    """Counts what the interpreter does: a step for each operation, each row and each 64 characters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.characters, self.rows, self.longest = 0, Counter[int](), 0
        for module in (reference_relations, reference_aggregates):
            monkeypatch.setattr(module, "evaluate", self.evaluate)
        rows = Interpreter.rows

        def counted(interpreter: Interpreter, relation: Relation) -> list[Row]:
            made = rows(interpreter, relation)
            self.rows[id(relation)] = len(made)
            return made

        monkeypatch.setattr(Interpreter, "rows", counted)

    def evaluate(self, expression: Expression, row: Any) -> Value:
        """Evaluates an expression as `plan/evaluate` does, and counts."""
        match expression:
            case Column():
                value: Value = row[expression.id]
                self.characters += STEP + size(value)
            case Literal():
                value = expression.value
            case Cast():
                value = self.evaluate(expression.argument, row)
                value = cast_value(value, expression.argument.type, expression.type)
                self.characters += STEP + size(value)
            case Case():
                value = self.evaluate(expression.otherwise, row)
                self.characters += STEP
                for condition, result in reversed(expression.branches):
                    taken, other = self.evaluate(condition, row), self.evaluate(result, row)
                    value = other if taken is True else value
            case Call():
                values = [self.evaluate(argument, row) for argument in expression.arguments]
                value = FUNCTIONS[expression.function].meaning(*values)
                self.characters += STEP + sum(size(v) for v in values) + size(value)
        self.longest = max(self.longest, size(value))
        return value


def size(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def nodes(relation: Relation) -> Iterator[Relation]:
    yield relation
    for source in sources(relation):
        yield from nodes(source)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(300))
def test_the_bound_holds_for_counted_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    engine, plans = backend(draw), Plans(draw)
    relation = plans.relation(draw.randrange(1, 5))
    work = Work(declared=DECLARED, sizes=engine)
    try:
        work._units(relation)
        bound = work.add(relation, frozenset(c.id for c in output(relation)))
    except (Unbounded, NotUnitLocal):
        return
    counted = Counted(monkeypatch)
    made = Interpreter(scan=engine._scan, released=lambda node: []).rows(relation)
    assert len(made) <= bound * ROWS
    assert counted.longest <= 10_000
    for node in nodes(relation):
        own = Work(declared=DECLARED, sizes=engine)
        most = own.add(node, frozenset(c.id for c in output(node)))
        assert most == 0 or counted.rows[id(node)] <= most * ROWS
    # The interpreter compares every pair of rows of a join, so that only plans without one take as few steps.
    if not any(isinstance(node, Join) for node in nodes(relation)):
        assert counted.characters <= sum(part.characters for part in work.parts) * ROWS


def test_enough_plans_are_bounded() -> None:
    """What is refused proves nothing."""
    bounded = joins = 0
    for seed in range(300):
        draw = random.Random(seed)
        engine, plans = backend(draw), Plans(draw)
        relation = plans.relation(draw.randrange(1, 5))
        work = Work(declared=DECLARED, sizes=engine)
        try:
            work._units(relation)
            work.add(relation, frozenset(c.id for c in output(relation)))
        except (Unbounded, NotUnitLocal):
            continue
        bounded += 1
        joins += any(isinstance(node, Join) for node in nodes(relation))
    assert bounded > 150
    assert joins > 60
