"""Random relations over random tables that are as declared, and their rows by the reference interpreter.

For tests that a rewrite keeps the rows: those of the planner, and those of the engine's SQL.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random

from dpquery.catalog import Catalog
from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
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

    def with_groups(self) -> tuple[Join, Aggregate]:
        """Returns a join with groups of private rows, mostly a semi- or anti-join that looks for few rows' keys."""
        while True:
            left, source = self.relation(self.chance.choice([0, 1])), self.relation(self.chance.choice([0, 1]))
            if is_private(left) and is_private(source):
                break
        if self.chance.random() < 0.9:
            asked = (self.column(left), Literal(value=self.chance.randrange(3), type=INT64))
            left = Filter(source=left, condition=call("eq", asked))
        unit, other = self.unit(source), self.column(source)
        keys = tuple(dict.fromkeys((unit.id, other.id)))
        groups = Aggregate(source=source, group_by=keys, aggregates=(counted(next(self.names)),))
        equalities = [(self.unit(left), unit)]
        if self.chance.random() < 0.5:
            equalities.append((self.column(left), Column(id=self.chance.choice(ids_of(groups)), type=INT64)))
        kinds: tuple[JoinKind, ...] = ("semi", "anti", "semi", "anti", "semi", "anti", "inner", "left")
        kind = self.chance.choice(kinds)
        condition = self.condition(left, groups) if self.chance.random() < 0.5 else None
        return Join(left=left, right=groups, kind=kind, equalities=tuple(equalities), condition=condition), groups

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


def counted(number: str) -> AggregateColumn:
    return AggregateColumn(id=f"n_{number}", name="", function=COUNT, argument=None, filter=None, type=INT64)
