"""Random relations by hand, over a small world: what SQL would hardly write, and the gate has to judge all the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from random import Random

import pandas as pd

import dpquery as dp
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.calendar import By
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    Matched,
    OutputColumn,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetOperation,
    SortKey,
    Values,
    Window,
    WindowColumn,
    output,
)
from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.strata import Strata
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Type, Value
from dpquery.units.locality import NotUnitLocal, locality

PEOPLE = 4
Rows = dict[str, list[dict[str, object]]]
PRIVATE = {
    "orders": {"id": INT64, "key": INT64, "k": INT64, "x": FLOAT64, "day": DATE},
    "people": {"id": INT64, "age": INT64, "good": BOOLEAN},
    "lines": {"key": INT64, "k": INT64},
}
PUBLIC = {"bands": {"k": INT64, "low": INT64, "high": INT64}}
DAYS = [pd.Timestamp(f"2024-0{month}-1{day}").date() for month in (1, 2, 3) for day in (1, 5)]


def catalog_of(*, blocks: bool = False, neighbours: str = "add_remove") -> dp.Catalog:
    """Returns the catalog; with blocks, orders are in months."""
    whole = {"type": "int64", "lower": -3, "upper": 5}
    dated = {"blocks": {"column": "day", "by": "month"}} if blocks else {}
    day = {"type": "date", "lower": "2024-01-01", "upper": "2024-03-31"}
    tables = {
        "orders": {
            "unit": "id",
            "max_rows": 2,
            "columns": {
                "id": {"type": "int64"},
                "key": {"type": "int64"},
                "k": whole,
                "x": {"type": "float64", "lower": -3, "upper": 5},
                "day": day,
            },
        }
        | dated,
        "people": {
            "unit": "id",
            "unique": [["id"]],
            "columns": {"id": {"type": "int64"}, "age": whole, "good": {"type": "boolean"}},
        },
        "lines": {
            "unit": {"via": "orders", "on": {"key": "key"}},
            "max_rows": 2,
            "columns": {"key": {"type": "int64"}, "k": whole},
        },
        "bands": {"public": True, "columns": {"k": whole, "low": whole, "high": whole}},
    }
    return dp.Catalog(
        dataset="shop",
        privacy_unit="person",
        neighbours="replace_one" if blocks else neighbours,
        budget={"epsilon": 1000, "delta": "0.1"},
        tables=tables,
    )


def a_number(random: Random) -> int | None:
    """Returns a small number, or none."""
    return None if random.random() < 0.15 else random.randint(-1, 3)


def of_person(random: Random, id: int, first_key: int, most: int = 5) -> Rows:
    """Returns rows of one person."""
    orders: list[dict[str, object]] = [
        {
            "id": id,
            "key": first_key + i,
            "k": a_number(random),
            "x": random.choice([0.0, -0.0, 1.5, -2.0, None]),
            "day": random.choice([*DAYS, None]),
        }
        for i in range(random.randint(0, most))
    ]
    people: list[dict[str, object]] = [
        {"id": id, "age": a_number(random), "good": random.choice([True, False, None])}
    ] * random.randint(0, 1)
    lines: list[dict[str, object]] = [
        {"key": order["key"], "k": a_number(random)} for order in orders for _ in range(random.randint(0, 2))
    ]
    return {"orders": orders, "people": people, "lines": lines}


def world(random: Random, people: int = PEOPLE, first: int = 0) -> Rows:
    """Returns rows of people, numbered from `first`, and of the public table, in which rows are there twice."""
    found: Rows = {"orders": [], "people": [], "lines": []}
    for id in range(first, first + people):
        for table, rows in of_person(random, id, 100 * id).items():
            found[table] += rows
    bands: list[dict[str, object]] = []
    for _ in range(random.randint(0, 5)):
        low = random.randint(-2, 3)
        bands.append({"k": a_number(random), "low": low, "high": low + random.randint(-1, 2)})
    return found | {"bands": bands + bands[: random.randint(0, 2)]}


def frames_of(rows: Rows) -> dict[str, pd.DataFrame]:
    """Returns frames of Python objects."""
    return {
        table: pd.DataFrame({c: pd.Series([row[c] for row in rows[table]], dtype=object) for c in columns})
        for table, columns in (PRIVATE | PUBLIC).items()
    }


class Maker:
    """Makes relations that `locality` accepts, each with its weights among its columns."""

    def __init__(self, random: Random, catalog: dp.Catalog) -> None:
        self.random, self.catalog, self.declared = random, catalog, catalog.declarations
        self._numbers = itertools.count()
        self._limits = {table: random.choice([1, 2, 3, 1000]) for table in PRIVATE}

    def id(self, word: str = "c") -> str:
        """Returns an id that no other column has."""
        return f"{word}{next(self._numbers)}"

    def scan(self, table: str) -> Relation:
        """Returns a scan of a table with all its columns, a weight, and weights scaled to totals of its numbers."""
        types = (PRIVATE | PUBLIC)[table]
        columns = tuple(
            ScanColumn(id=self.id("k" if name == "key" else "c"), name=name, type=type) for name, type in types.items()
        )
        if table in PUBLIC:
            return Scan(table=table, columns=columns, public=True)
        owner = self.catalog.declarations.tables[table].ownership
        is_own = owner is not None and not owner.path and (table == "people" or self.random.random() < 0.9)
        unit = columns[0].id if is_own else self.id("u")
        return Scan(
            table=table,
            columns=columns,
            public=False,
            ownership=owner,
            unit=unit,
            row_limit=self._limits[table],
            weight=self.id("w"),
            max_rows=self.random.randint(1, 4),
            scaled=tuple(self.scaled(name) for name in types if name in ("k", "x", "age")),
            strata=self.strata(types) if self.random.random() < 0.6 else None,
        )

    def strata(self, types: dict[str, Type]) -> Strata:
        """Returns strata by a column, or by periods of a date."""
        column = self.random.choice([name for name, type in types.items() if type != FLOAT64])
        column = "day" if "day" in types and self.random.random() < 0.8 else column
        by = self.random.choice([*By, None]) if types[column] == DATE else None
        return Strata(column=column, by=by, max_rows=self.random.randint(1, 2))

    def scaled(self, column: str) -> Scaled:
        """Returns weights scaled to a total of a column."""
        grid = Fraction(1, 2) if column == "x" else Fraction(1)
        rows = self.random.randint(1, 4)
        return Scaled(
            id=self.id("w"),
            column=column,
            grid=grid,
            lower=self.random.choice([-1, 0]),
            upper=3,
            most=self.random.choice([self.random.randint(1, rows), self.random.randint(1, rows), 3 * rows]),
            max_rows=rows,
        )

    def relation(self, depth: int) -> Relation:
        """Returns a private relation of at most so many operators one on the other."""
        if depth == 0:
            return self.scan(self.random.choice(list(PRIVATE)))
        makers: list[Callable[[int], Relation]] = [
            self.filter, self.filter, self.project, self.project, self.window, self.aggregate,
            self.public_join, self.public_join, self.private_join, self.private_join,
            self.union, self.other_set, self.semi,
        ]  # fmt: skip
        for _ in range(20):
            made = self.random.choice(makers)(depth - 1)
            try:
                if locality(made, self.declared).private:
                    return made
            except NotUnitLocal:
                continue
        return self.relation(depth - 1)

    def units(self, relation: Relation) -> list[str]:
        """Returns the columns that hold the unit, in a fixed order."""
        return sorted(locality(relation, self.declared).units)

    def columns(self, relation: Relation, *types: Type) -> list[Column]:
        """Returns the columns of these types, none of which is a weight by its name."""
        return [Column(id=c.id, type=c.type) for c in output(relation) if c.type in types and c.id[0] != "w"]

    def one(self, relation: Relation, *types: Type) -> Column | None:
        """Returns some column of these types."""
        found = self.columns(relation, *types)
        return self.random.choice(found) if found else None

    def literal(self, type: Type) -> Literal:
        """Returns a constant."""
        values: dict[Type, list[Value]] = {
            INT64: [-1, 0, 1, 2],
            FLOAT64: [0.0, 1.5],
            BOOLEAN: [True, False],
            DATE: list(DAYS),
            TEXT: ["a"],
        }
        return Literal(value=self.random.choice(values[type]), type=type)

    def condition(self, relation: Relation) -> Expression:
        """Returns a condition on some column."""
        column = self.one(relation, INT64, FLOAT64, BOOLEAN, DATE)
        if column is None:
            return Literal(value=True, type=BOOLEAN)
        kind = self.random.choice(["eq", "in", "le", "lt", "is_null", "and", "eq_flipped"])
        match kind:
            case "in":
                return call("in", (column, self.literal(column.type), self.literal(column.type)))
            case "is_null":
                return call("is_null", (column,))
            case "and":
                return call("and", (self.condition(relation), self.condition(relation)))
            case "eq_flipped":
                return call("eq", (self.literal(column.type), column))
            case _ if column.type != BOOLEAN or kind == "eq":
                return call(kind, (column, self.literal(column.type)))
            case _:
                return column

    def filter(self, depth: int) -> Relation:
        """Returns some of the rows."""
        source = self.relation(depth)
        return Filter(source=source, condition=self.condition(source))

    def expression(self, relation: Relation) -> Expression:
        """Returns a function of few or many values."""
        whole, day, real = self.one(relation, INT64), self.one(relation, DATE), self.one(relation, FLOAT64)
        offered: list[Expression] = [Literal(value=7, type=INT64)]
        if whole is not None:
            offered += [
                call("add", (whole, Literal(value=1, type=INT64))),
                call("eq", (whole, Literal(value=1, type=INT64))),
            ]
        if day is not None:
            offered += [call("extract_month", (day,)), call("extract_isodow", (day,))]
            offered += [self.period(day), self.period(day), self.period(day)]
        if real is not None:
            offered += [Cast(argument=real, type=TEXT), call("divide", (Literal(value=1.0, type=FLOAT64), real))]
        return self.random.choice(offered)

    def period(self, day: Expression) -> Expression:
        """Returns what tells the period of the calendar in which a date is."""
        names = ["second", "day", "week", "month", "quarter", "year"]
        word, other = (Literal(value=self.random.choice(names), type=TEXT) for _ in range(2))
        form = Literal(value=self.random.choice(["%Y-%m", "%m/%Y", "%Y%j", "%Y", "%m-%d"]), type=TEXT)
        cut = call("date_trunc", (word, day))
        offered: list[Expression] = [cut, cut, Cast(argument=cut, type=DATE), call("date_trunc", (other, cut))]
        offered += [call("format_date", (day, form)), call("extract_year", (day,)), call("extract_quarter", (cut,))]
        return self.random.choice(offered)

    def project(self, depth: int) -> Relation:
        """Returns columns under other ids, weights too, with one or two that are computed."""
        source = self.relation(depth)
        kept = [c for c in output(source) if c.id[0] in "uw" or self.random.random() < 0.7]
        kept += [c for c in output(source) if c.id in self.units(source) and c not in kept]
        columns = [
            Computed(id=self.id(c.id[0] if c.id[0] in "kw" else "c"), name="", expression=Column(id=c.id, type=c.type))
            for c in kept
        ]
        columns += [Computed(id=self.id(), name="", expression=self.expression(source)) for _ in range(2)]
        return Project(source=source, columns=tuple(columns))

    def window(self, depth: int) -> Relation:
        """Returns the rows with their numbers, or the first of them."""
        source = self.relation(depth)
        by, order = self.one(source, INT64, BOOLEAN, FLOAT64), self.one(source, INT64, DATE)
        parts = (self.units(source)[0], *((by.id,) if by is not None and self.random.random() < 0.5 else ()))
        number = WindowColumn(
            id=self.id(),
            name="",
            function=self.random.choice(["row_number", "row_number", "rank"]),
            arguments=(),
            filter=None,
            partition_by=tuple(dict.fromkeys(parts)),
            order_by=(SortKey(column=order.id),) if order is not None else (),
            frame=None,
            type=INT64,
        )
        made = Window(source=source, columns=(number,))
        if self.random.random() < 0.3:
            return made
        limit = Literal(value=self.random.randint(0, 2), type=INT64)
        function = self.random.choice(["eq", "le", "lt"])
        return Filter(source=made, condition=call(function, (Column(id=number.id, type=INT64), limit)))

    def aggregate(self, depth: int) -> Relation:
        """Returns one row for each unit and perhaps another column."""
        source = self.relation(depth)
        others = self.columns(source, INT64, FLOAT64, BOOLEAN, DATE, TEXT)
        keys = [self.units(source)[0], *(c.id for c in self.random.sample(others, min(len(others), 1)))]
        counted = AggregateColumn(id=self.id(), name="", function=COUNT, argument=None, filter=None, type=INT64)
        kept = self.random.choice([1, 2, 2])
        return Aggregate(source=source, group_by=tuple(dict.fromkeys(keys[:kept])), aggregates=(counted,))

    def public(self) -> Relation:
        """Returns a public relation: bands, some of them, or a literal table."""
        if self.random.random() < 0.3:
            ids = self.id(), self.id(), self.id()
            rows = tuple((self.random.randint(0, 1), self.random.choice([0, 1, None]), 2) for _ in range(3))
            return Values(columns=tuple(OutputColumn(id=id, name="", type=INT64) for id in ids), rows=rows)
        scan = self.scan("bands")
        return Filter(source=scan, condition=self.condition(scan)) if self.random.random() < 0.3 else scan

    def public_join(self, depth: int) -> Relation:
        """Returns a join on a key, by a range, or both, or of all with all."""
        left, right = self.relation(depth), self.public()
        own = self.one(left, INT64)
        k, low, high = (Column(id=c.id, type=c.type) for c in output(right))
        if own is None:
            return Join(left=left, right=right, kind="cross", equalities=())
        kind = self.random.choice(["inner", "left", "semi", "anti"])
        equal: tuple[tuple[Column, Column], ...] = ((own, k),) if self.random.random() < 0.5 else ()
        between = call("and", (call("ge", (own, low)), call(self.random.choice(["le", "lt"]), (own, high))))
        condition = between if not equal or self.random.random() < 0.4 else None
        if kind == "inner" and self.random.random() < 0.3:
            left, right, equal = right, left, tuple((b, a) for a, b in equal)
        return Join(left=left, right=right, kind=kind, equalities=equal, condition=condition)  # type: ignore[arg-type]

    def private_join(self, depth: int) -> Relation:
        """Returns a join of two private relations on the unit; over outer ones weights of either side."""
        left, right = self.relation(depth), self.relation(self.random.randint(0, depth))
        a, b = self.units(left)[0], self.units(right)[0]
        equal = [(Column(id=a, type=INT64), Column(id=b, type=INT64))]
        more = self.one(left, INT64), self.one(right, INT64)
        if more[0] is not None and more[1] is not None and self.random.random() < 0.4:
            equal.append((more[0], more[1]))
        kind = self.random.choice(["inner", "left", "full"])
        join = Join(left=left, right=right, kind=kind, equalities=tuple(equal))  # type: ignore[arg-type]
        if kind == "inner":
            return join
        columns = [
            Computed(id=self.id("k" if c.id[0] == "k" else "c"), name="", expression=Column(id=c.id, type=c.type))
            for c in output(join)
        ]
        if kind == "full":
            columns.append(Computed(id=self.id("u"), name="", expression=call("coalesce", equal[0])))
        weights = [[Column(id=c.id, type=INT64) for c in output(side) if c.id[0] == "w"] for side in (right, left)]
        columns += [
            Computed(id=self.id("w"), name="", expression=Call(function="coalesce", arguments=pair, type=INT64))
            for pair in itertools.product(*weights)
        ]
        return Project(source=join, columns=tuple(columns))

    def semi(self, depth: int) -> Relation:
        """Returns rows of units that have, or have not, rows elsewhere."""
        left, right = self.relation(depth), self.relation(0)
        pair = Column(id=self.units(left)[0], type=INT64), Column(id=self.units(right)[0], type=INT64)
        kind = self.random.choice(["semi", "anti"])
        return Join(left=left, right=right, kind=kind, equalities=(pair,))  # type: ignore[arg-type]

    def _set(self, kind: str, left: Relation, right: Relation) -> Relation:
        pairs = [(self.units(left)[0], self.units(right)[0], INT64)]
        for type in (INT64, BOOLEAN, FLOAT64, DATE):
            given = [[c.id for c in self.columns(side, type)] for side in (left, right)]
            pairs += [(a, b, type) for a, b in zip(*given, strict=False)][:2]
        if kind == "union_all":
            weights = [[c.id for c in output(side) if c.id[0] == "w"] for side in (left, right)]
            pairs += [(a, b, INT64) for a, b in zip(*weights, strict=False)]
        columns = tuple(
            Matched(
                id=self.id("w" if a[0] == "w" else "k" if "k" in a[0] + b[0] else "c"),
                name="",
                type=type,
                left=a,
                right=b,
            )
            for a, b, type in dict.fromkeys(pairs)
        )
        return SetOperation(kind=kind, left=left, right=right, columns=columns)  # type: ignore[arg-type]

    def union(self, depth: int) -> Relation:
        """Returns the rows of two relations, or of one twice."""
        left = self.relation(depth)
        return self._set("union_all", left, left if self.random.random() < 0.3 else self.relation(depth))

    def other_set(self, depth: int) -> Relation:
        """Returns an intersection or a difference, of rows or of different rows."""
        kind = self.random.choice(["intersect", "except", "intersect_all", "except_all"])
        return self._set(kind, self.relation(depth), self.relation(0))
