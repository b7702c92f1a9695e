"""Rewrites of private relations keep the rows of random relations over random tables that are as declared.

Those of `equivalent_relations.py`, `existence.py` and `carrying.py`; `test_key_joins.py` does the same for
`joined_owners.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from dpquery.catalog import Catalog
from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.keys import Key
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    JoinKind,
    Matched,
    Project,
    Relation,
    Released,
    Scan,
    ScanColumn,
    SetOperation,
    SortKey,
    Window,
    WindowColumn,
    is_private,
    output,
    sources,
)
from dpquery.plan.types import INT64, Value
from dpquery.planner.protect import equivalent_relations as rules
from dpquery.planner.protect.carrying import carry
from dpquery.planner.protect.equivalent_relations import simpler
from dpquery.planner.protect.existence import asking_existence
from dpquery.planner.protect.weighing import _within_keys
from dpquery.units.unit_local import NotUnitLocal
from tests.reference.relations import Interpreter, Row

Tables = Mapping[str, Sequence[Mapping[str, Value]]]

NUMBER = {"type": "int64", "lower": 0, "upper": 2}
COLUMNS: dict[str, object] = {"id": NUMBER, "a": NUMBER, "b": {**NUMBER, "nullable": True}}
CATALOG = Catalog(
    dataset="rewrites",
    privacy_unit="person",
    tables={
        "people": {"unit": "id", "unique": [["id"]], "columns": COLUMNS},
        "visits": {"unit": "id", "max_rows": 3, "columns": COLUMNS},
        "places": {"public": True, "columns": COLUMNS},
    },
    budget={"epsilon": 1},
)
PEOPLE, DATABASES = 3, 4
KINDS: tuple[JoinKind, ...] = ("inner", "inner", "inner", "cross", "left", "left", "left", "semi", "anti")
COMPARED = ("le", "ge", "eq", "ne")
RULES = ("_tested", "_numbered", "_anti", "_compared", "one_table")
"""Functions of `equivalent_relations.py`: another relation where their rule applies, else their argument or None."""
RELATIONS, LEAST = 500, 5
"""How many relations are drawn, and how often each rule applies at least."""


class Drawn:
    """Random relations, most of them of private rows, over tables of a few rows."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.names = chance, map(str, itertools.count())
        self.databases = [{name: self.rows(name) for name in CATALOG.tables} for _ in range(DATABASES)]

    def rows(self, name: str) -> list[dict[str, Value]]:
        persons = range(PEOPLE) if name == "people" else [self.chance.randrange(PEOPLE) for _ in range(6)]
        return [{"id": n, "a": self.chance.randrange(3), "b": self.chance.choice((None, 0, 1, 2))} for n in persons]

    def scan(self, table: str | None = None) -> Scan:
        name, number = table or self.chance.choice(["people", "visits", "places"]), next(self.names)
        columns = tuple(ScanColumn(id=f"{column}_{number}", name=column, type=INT64) for column in ("id", "a", "b"))
        declared = CATALOG.tables[name]
        unit = None if declared.public else f"id_{number}"
        return Scan(table=name, columns=columns, public=declared.public, unit=unit, ownership=declared.ownership)

    def column(self, *given: Relation) -> Column:
        return Column(id=self.chance.choice([c.id for source in given for c in output(source)]), type=INT64)

    def test(self, *given: Relation) -> Expression:
        """Returns a comparison, a test for NULL, or two of them either of which may be true."""
        form, column = self.chance.random(), self.column(*given)
        if form < 0.3:
            return call("is_null", (column,))
        if form < 0.4:
            return call("or", (self.test(*given), self.test(*given)))
        other: Expression = Literal(value=self.chance.randrange(3), type=INT64)
        if form < 0.7:
            column, other = self.column(given[0]), self.column(given[-1])
        return call(self.chance.choice(COMPARED), (column, other))

    def condition(self, *given: Relation) -> Expression:
        """Returns one test or two, and half the time that of a row number, where there is one."""
        tests = [self.test(*given) for _ in range(self.chance.choice([1, 1, 1, 2]))]
        numbers = [c.id for source in given for c in output(source) if c.id.startswith("number_")]
        if numbers and self.chance.random() < 0.5:
            first = Literal(value=self.chance.choice([1, 2]), type=INT64)
            tests += (call("le", (Column(id=self.chance.choice(numbers), type=INT64), first)),)
        return tests[0] if len(tests) == 1 else call("and", tuple(tests))

    def relation(self, depth: int) -> Relation:
        """Returns a relation that the rules of units accept, as those that the planner rewrites."""
        if not depth:
            return self.scan()
        forms = [*[self.filter] * 5, self.join, self.full, self.numbered, self.union]
        while True:
            drawn = self.chance.choice(forms)(depth - 1)
            if is_unit_local(drawn):
                return drawn

    def filter(self, depth: int) -> Relation:
        """Returns a filter, mostly of a join or of what is computed of its rows."""
        source = self.chance.choice([self.join, self.join, self.full, self.relation])(depth)
        source = self.projected(source) if is_unit_local(source) and self.chance.random() < 0.3 else source
        two = isinstance(source, Join) and source.kind not in ("semi", "anti")
        return Filter(source=source, condition=self.condition(*(sources(source) if two else (source,))))

    def join(self, depth: int, kinds: tuple[JoinKind, ...] = KINDS) -> Join:
        left, right = self.relation(depth), self.relation(depth)
        kind = self.chance.choice(kinds)
        equalities = [(self.unit(left), self.unit(right))] if is_private(left) and is_private(right) else []
        if not equalities or self.chance.random() < 0.3:
            equalities += [(self.column(left), self.column(right))]
        equalities = [] if kind == "cross" and len(equalities) == 1 else equalities
        condition = self.condition(left, right) if self.chance.random() < 0.5 else None
        return Join(left=left, right=right, kind=kind, equalities=tuple(equalities), condition=condition)

    def full(self, depth: int) -> Relation:
        """Returns the columns of a full join of private relations with the unit of either side."""
        join = self.join(depth, ("full",))
        both = call("coalesce", join.equalities[0])
        return self.projected(join, both)

    def unit(self, source: Relation) -> Column:
        """Returns a column that holds the unit of every row of a private relation."""
        units = cached_locality(source, CATALOG.declarations).units
        return Column(id=self.chance.choice(sorted(units)), type=INT64)

    def projected(self, source: Relation, *shown: Expression) -> Relation:
        """Returns most columns of a relation under other names, its unit among them, and a number computed of two."""
        shown += () if shown or not is_private(source) else (self.unit(source),)
        shown += tuple(Column(id=c.id, type=c.type) for c in output(source) if self.chance.random() < 0.7)
        shown += (call("add", (self.column(source), self.column(source))),)
        number = next(self.names)
        columns = [Computed(id=f"{named_for(e)}_{number}_{i}", name="", expression=e) for i, e in enumerate(shown)]
        return Project(source=source, columns=tuple(columns))

    def numbered(self, depth: int) -> Relation:
        source = self.relation(depth)
        number = WindowColumn(
            id=f"number_{next(self.names)}",
            name="",
            function="row_number",
            arguments=(),
            filter=None,
            partition_by=((self.unit if is_private(source) else self.column)(source).id,),
            order_by=(SortKey(column=self.column(source).id),),
            frame=None,
            type=INT64,
        )
        return Window(source=source, columns=(number,))

    def ranked(self, source: Relation, key: str) -> WindowColumn:
        """Returns how many rows are in the partition of a column's value."""
        return WindowColumn(
            id=f"n_{next(self.names)}",
            name="",
            function="count",
            arguments=(),
            filter=None,
            partition_by=(key,),
            order_by=(),
            frame=None,
            type=INT64,
        )

    def union(self, depth: int) -> Relation:
        """Returns UNION ALL of relations, or of rows of one table that no row is in twice, or perhaps is."""
        sides = (self.relation(depth), self.relation(depth))
        if self.chance.random() < 0.7:
            table, place, split = self.chance.choice(["people", "visits"]), self.chance.randrange(3), 1
            first, second = self.scan(table), self.scan(table)
            sides = (
                self.part(first, place, "lt", split),
                self.part(second, place, "ge", self.chance.choice([0, 1, 1, 2])),
            )
        if not all(map(is_private, sides)):
            return sides[0]
        pairs = [
            (self.unit(sides[0]), self.unit(sides[1])),
            *((self.column(sides[0]), self.column(sides[1])) for _ in "12"),
        ]
        columns = [Matched(id=f"u_{next(self.names)}", name="", type=INT64, left=a.id, right=b.id) for a, b in pairs]
        return SetOperation(kind="union_all", left=sides[0], right=sides[1], columns=tuple(columns))

    def part(self, scan: Scan, place: int, function: str, value: int) -> Relation:
        """Returns the rows of a table whose column in a place compares so with a number."""
        compared = (Column(id=scan.columns[place].id, type=INT64), Literal(value=value, type=INT64))
        kept = Filter(source=scan, condition=call(function, compared))
        return self.projected(kept) if self.chance.random() < 0.3 else kept

    def answers(self, relation: Relation, ids: Collection[str]) -> list[Counter[str]]:
        """Returns how often each row occurs in these columns, in each of the databases."""
        return [self.answer(relation, ids, tables) for tables in self.databases]

    def answer(self, relation: Relation, ids: Collection[str], tables: Tables) -> Counter[str]:
        def read(scan: Scan) -> list[Row]:
            weight: Row = {} if scan.weight is None else {scan.weight: 1}
            return [{column.id: row[column.name] for column in scan.columns} | weight for row in tables[scan.table]]

        rows = Interpreter(scan=read, released=no_released).rows(relation)
        return Counter(repr([row[id] for id in ids]) for row in rows)


def no_released(relation: Released) -> list[Row]:
    raise AssertionError(relation)


def is_unit_local(relation: Relation) -> bool:
    try:
        cached_locality(relation, CATALOG.declarations)
    except NotUnitLocal:
        return False
    return True


def named_for(expression: Expression) -> str:
    """Returns what the id of a column begins with, so that conditions find the numbers of rows."""
    return "number" if isinstance(expression, Column) and expression.id.startswith("number_") else "c"


def ids_of(relation: Relation) -> list[str]:
    return [column.id for column in output(relation)]


def test_simpler_relations_have_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    applied, chance = Counter[str](), Random(61)

    def counting(name: str, rule: Callable[..., Relation | None]) -> Callable[..., Relation | None]:
        def run(relation: Relation, *rest: Any) -> Relation | None:
            made = rule(relation, *rest)
            applied[name] += made is not None and made is not relation
            return made

        return run

    for name in RULES:
        monkeypatch.setattr(rules, name, counting(name, getattr(rules, name)))
    for _ in range(RELATIONS):
        drawn = Drawn(chance)
        relation = drawn.relation(3)
        made = simpler(relation, CATALOG)
        if made != relation:
            assert ids_of(made) == ids_of(relation)
            assert drawn.answers(made, ids_of(made)) == drawn.answers(relation, ids_of(made))
    assert all(applied[name] >= LEAST for name in RULES), applied


def test_joins_that_ask_for_existence_have_the_same_distinct_rows() -> None:
    applied, chance = 0, Random(32)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        relation = drawn.relation(2)
        read = chance.sample(ids_of(relation), chance.choice([1, 1, 2]))
        made = asking_existence(relation, read)
        if made is not relation:
            applied += 1
            assert ids_of(made) == ids_of(relation)
            before, after = drawn.answers(relation, read), drawn.answers(made, read)
            assert [*map(set, after)] == [*map(set, before)]
    assert applied >= LEAST


def test_inner_groups_within_public_keys_have_the_same_rows() -> None:
    applied, chance = Counter[str](), Random(34)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        source = drawn.relation(2)
        key, listed = drawn.column(source).id, tuple((value,) for value in chance.sample(range(3), 2))
        inner: Relation = Aggregate(source=source, group_by=(key,), aggregates=(counted(next(drawn.names)),))
        if chance.random() < 0.3:
            inner = Window(source=source, columns=(drawn.ranked(source, key),))
        read = Column(id=key, type=INT64)
        if chance.random() < 0.5:
            renamed = Computed(id=f"k_{next(drawn.names)}", name="", expression=read)
            others = (Column(id=id, type=INT64) for id in ids_of(inner) if id != key)
            shown = (Computed(id=each.id, name="", expression=each) for each in others)
            inner, read = Project(source=inner, columns=(renamed, *shown)), Column(id=renamed.id, type=INT64)
        made = _within_keys(inner, (Key(columns=(read.id,), types=(INT64,), domain=listed),))
        applied[type(inner).__name__] += made is not inner
        kept = [call("in", (read, *(Literal(value=value, type=INT64) for (value,) in listed)))] * 2
        before, after = (Filter(source=each, condition=test) for each, test in zip((inner, made), kept, strict=True))
        assert drawn.answers(after, ids_of(inner)) == drawn.answers(before, ids_of(inner))
    assert all(applied[name] >= LEAST for name in ("Aggregate", "Window", "Project")), applied


def counted(number: str) -> AggregateColumn:
    return AggregateColumn(id=f"n_{number}", name="", function=COUNT, argument=None, filter=None, type=INT64)


def test_carried_weights_change_no_row() -> None:
    applied, chance = Counter[str](), Random(33)
    for _ in range(RELATIONS // 3):
        drawn = Drawn(chance)
        relation = drawn.relation(2)
        carried = carry(relation, CATALOG)
        if carried.ids:
            assert carried.ids <= {*ids_of(carried.relation)}
            assert drawn.answers(carried.relation, ids_of(relation)) == drawn.answers(relation, ids_of(relation))
            forms = {form for form in ("_or_", "_and_") for id in carried.ids if form in id} or {"as it is"}
            applied.update(forms)
    assert all(applied[form] >= LEAST for form in ("_or_", "_and_", "as it is")), applied
