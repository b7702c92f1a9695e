"""The person in whom neighbours differ: rows made at random or by a recipe that can be changed step by step.

A recipe has a few kinds of orders, each kind many times, with as many lines: equal rows are what reaches a bound, and
rows of several kinds are what fills several groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

import pyarrow as pa

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend, RowLimits
from dpquery.backends.duckdb.engine import PRIVATE_SETTINGS, DuckDBEngine
from dpquery.backends.duckdb.row_weights import RowWeights
from dpquery.data.arrow import arrow_type
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation, Released
from dpquery.plan.types import Type, Value
from tests.properties.weighed_plans import DAYS, PRIVATE, PUBLIC, Rows, of_person
from tests.reference.backend import ReferenceBackend
from tests.reference.relations import Interpreter, Row
from tests.reference.sums import added_up

IDS = (-1, 0, 1, 2, 3, 7, -7)
"""Of the guest: among them numbers that conditions of plans ask for."""
FIRST_ID = 10
"""Of the crowd."""
FIRST_KEY = -1
"""Of the guest's orders."""
NUMBERS: tuple[Value, ...] = (-1, 0, 1, 2, 3, 7, -7)
REALS: tuple[Value, ...] = (0.0, -0.0, 1.5, -2.0, 9.0, -9.0)
MOST_ORDERS, MOST_LINES, MOST_KINDS = 10, 24, 5
OTHER_KEY = 50
"""Of the orders that the guest has in other blocks."""

Several = tuple[Value, ...]
"""Values that rows take in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Orders with the same in them, or each with the next of several values, and lines of each.

    Their keys are the next free ones from `at` on.
    """

    count: int
    at: int
    k: Several
    x: Several
    day: Several
    lines: int
    line_k: Several


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A guest. `person` is None, or age and whether good; `own` are rows in place of those of kinds."""

    id: int
    person: tuple[Value, Value] | None
    kinds: tuple[Kind, ...]
    own: Rows | None = None


@dataclass(frozen=True, slots=True)
class Guests:
    """Makes recipes of one person; rows of a month alone, where neighbours differ in a block.

    Attributes:
        month: The month, or None.
        fixed: Orders of other months, which all of these guests have.
        id: The guest's, where it is one person who has other rows.
    """

    random: Random
    month: int | None = None
    fixed: tuple[dict[str, object], ...] = ()
    id: int | None = None

    @property
    def days(self) -> tuple[Value, ...]:
        """The dates that orders may have here."""
        return tuple(day for day in DAYS if self.month in (None, day.month))

    def first(self) -> Recipe:
        """Returns a guest of any rows, or of many that are equal."""
        id, random = self._id(), self.random
        person = None if random.random() < 0.1 else (self._one(NUMBERS)[0], random.random() < 0.8)
        if random.random() < 0.15:
            return Recipe(id=id, person=person, kinds=(), own=of_person(random, id, FIRST_KEY, most=8))
        kinds = tuple(self._kind() for _ in range(random.choice([0, 1, 1, 1, 2, 3])))
        return Recipe(id=id, person=person, kinds=kinds)

    def changed(self, recipe: Recipe) -> Recipe:
        """Returns the guest with one or two things changed."""
        for _ in range(self.random.choice([1, 1, 1, 2])):
            recipe = self._changed(recipe)
        return recipe

    def crossed(self, recipe: Recipe, other: Recipe) -> Recipe:
        """Returns a guest with orders of both: what fills some groups, and what fills others."""
        if recipe.own is not None or other.own is not None or not recipe.kinds or not other.kinds:
            return self.changed(recipe)
        one, another = self.random.choice(recipe.kinds), self.random.choice(other.kinds)
        parts = [f.name for f in fields(Kind)]
        mixed = replace(one, **{name: getattr(another, name) for name in self.random.sample(parts, 2)})
        kinds = self.random.choice([(*recipe.kinds, another), (one, another), (mixed,), (mixed, *recipe.kinds[1:])])
        return replace(recipe, kinds=kinds[:MOST_KINDS])

    def _changed(self, recipe: Recipe) -> Recipe:
        random = self.random
        if recipe.own is not None or not recipe.kinds:
            return replace(recipe, own=None, kinds=(self._kind(),))
        match random.choice(["kind"] * 8 + ["person", "person", "id", "more", "fewer", "all"]):
            case "person":
                age, good = recipe.person or (0, True)
                return replace(
                    recipe, person=random.choice([None, (self._one(NUMBERS)[0], good), (age, not good), (None, good)])
                )
            case "id":
                return replace(recipe, id=self._id())
            case "more" if len(recipe.kinds) < MOST_KINDS:
                return replace(recipe, kinds=(*recipe.kinds, self._other(random.choice(recipe.kinds))))
            case "fewer" if len(recipe.kinds) > 1:
                place = random.randrange(len(recipe.kinds))
                return replace(recipe, kinds=recipe.kinds[:place] + recipe.kinds[place + 1 :])
            case "all":
                name, value = self._field()
                return replace(recipe, kinds=tuple(replace(kind, **{name: value}) for kind in recipe.kinds))
        place = random.randrange(len(recipe.kinds))
        made = self._other(recipe.kinds[place])
        return replace(recipe, kinds=(*recipe.kinds[:place], made, *recipe.kinds[place + 1 :]))

    def _kind(self) -> Kind:
        k = self._one(NUMBERS)
        return Kind(
            count=self.random.choice([1, 2, 3, 4, 8]),
            at=self.random.choice([0, self.random.randrange(MOST_ORDERS)]),
            k=k,
            x=self._one(REALS),
            day=self._one(self.days),
            lines=self.random.choice([0, 1, 4]),
            line_k=k if self.random.random() < 0.5 else self._one(NUMBERS),
        )

    def _other(self, kind: Kind) -> Kind:
        name, value = self._field()
        return replace(kind, **{name: value})

    def _field(self) -> tuple[str, Any]:
        numbers = range(MOST_ORDERS + 1)
        match self.random.choice(["count", "count", "at", "k", "k", "x", "day", "lines", "line_k"]):
            case "at":
                return "at", self.random.randrange(MOST_ORDERS)
            case "count":
                return "count", self.random.choice([*numbers, 1, MOST_ORDERS])
            case "lines":
                return "lines", self.random.choice([0, 1, 2, 4, 8])
            case "x":
                return "x", self._one(REALS)
            case "day":
                return "day", self._one(self.days)
            case name:
                return name, self._one(NUMBERS)

    def _one(self, pool: Several) -> Several:
        """Returns a value for all, NULL, or all values in turn."""
        match self.random.random():
            case draw if draw < 0.1:
                return (None,)
            case draw if draw < 0.2:
                return tuple(self.random.sample(pool, len(pool)))
            case _:
                return (self.random.choice(pool),)

    def _id(self) -> int:
        return self.random.choice(IDS) if self.id is None else self.id

    def rows(self, recipe: Recipe | None) -> Rows:
        """Returns all rows of the guest; of nobody those in other blocks alone."""
        if recipe is None:
            return {"orders": list(self.fixed), "people": [], "lines": []}
        made = self._made(recipe) if recipe.own is None else recipe.own
        orders = [order | {"id": recipe.id} | self._moved(order) for order in made["orders"]]
        return made | {"orders": [*self.fixed, *orders]}

    def _moved(self, order: Mapping[str, object]) -> dict[str, object]:
        is_there = self.month is None or getattr(order["day"], "month", None) == self.month
        return {} if is_there else {"day": self.days[0]}

    def _made(self, recipe: Recipe) -> Rows:
        orders: list[dict[str, object]] = []
        lines: list[dict[str, object]] = []
        owners = [row["key"] for row in self.fixed]
        for kind in recipe.kinds:
            free = [*range(kind.at, MOST_ORDERS), *range(kind.at)]
            free = [place for place in free if FIRST_KEY + place not in owners]
            for i, place in enumerate(free[: kind.count]):
                key: object = FIRST_KEY + place
                given = {"k": kind.k[i % len(kind.k)], "x": kind.x[i % len(kind.x)], "day": kind.day[i % len(kind.day)]}
                orders.append({"id": recipe.id, "key": key} | given)
                owners.append(key)
                lines += [{"key": key, "k": kind.line_k[(i + j) % len(kind.line_k)]} for j in range(kind.lines)]
            if not kind.count:  # lines of orders in other blocks
                lines += [{"key": key, "k": kind.line_k[0]} for key in owners for _ in range(kind.lines)]
        people: list[dict[str, object]] = []
        if recipe.person is not None:
            people.append({"id": recipe.id, "age": recipe.person[0], "good": recipe.person[1]})
        return {"orders": orders, "people": people, "lines": lines[-MOST_LINES:]}


def guests_of(random: Random, kind: str) -> Guests:
    """Returns a maker of guests whose databases are neighbours of this kind."""
    if kind != "blocks":
        return Guests(random)
    month, id = random.choice([1, 2, 3]), random.choice(IDS)
    made = of_person(random, id, OTHER_KEY, most=4)["orders"]
    return Guests(random, month, tuple(order for order in made if getattr(order["day"], "month", None) != month), id)


class _Table:
    """What the reference reads of a frame."""

    def __init__(self, rows: list[dict[str, object]], columns: Mapping[str, Type]) -> None:
        self._rows, self.columns = rows, list(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> _Column:
        return _Column([row[column] for row in self._rows])


@dataclass(frozen=True, slots=True)
class _Column:
    values: list[object]

    def tolist(self) -> list[object]:
        return self.values


class Reader(ReferenceBackend):
    """The reference, which here reads a column once, and the rows of a relation once for each key."""

    def __init__(self, catalog: dp.Catalog, rows: Rows) -> None:
        self._columns: dict[tuple[str, str, Type], list[Value]] = {}
        self._rows: dict[tuple[int, int], list[Row]] = {}
        tables: Any = {name: _Table(rows[name], columns) for name, columns in (PRIVATE | PUBLIC).items()}
        super().__init__(catalog, tables)

    def _read(self, table: str, column: str, type: Type) -> list[Value]:
        known = table, column, type
        if known not in self._columns:
            self._columns[known] = super()._read(table, column, type)
        return self._columns[known]

    def rows_of(self, relation: Relation, key: int) -> list[Row]:
        """Returns the rows of a relation, which the caller keeps."""
        known = id(relation), key
        if known not in self._rows:
            read = Interpreter(scan=lambda scan: self._scan_owned(scan, key), released=_none)
            self._rows[known] = read.rows(relation)
        return self._rows[known]

    def run(self, aggregate: PrivateAggregate, key: int) -> ExactAggregates:
        return added_up(aggregate, self.rows_of(aggregate.source, key), key)


def _none(node: Released) -> list[Row]:
    raise AssertionError(node)


class Exchanged(DuckDBBackend):
    """An engine over other private rows; statements are bound, and public rows read, once for all of these."""

    def __init__(self, first: DuckDBBackend, rows: Rows) -> None:
        self.__dict__.update(first.__dict__)
        tables = _tables(rows)
        self._opened = {name: replace(source, data=tables[name]) for name, source in first._opened.items()}
        self._tables, self._named = (replace(one, opened=self._opened) for one in (first._tables, first._named))
        self._private = DuckDBEngine(self._opened, keep_order=False, memory=PRIVATE_SETTINGS)
        self._private._domains, self._private._counter = first._private._domains, first._private._counter
        self._limits = RowLimits(self._tables, self._opened, self._number)
        self._weights = RowWeights(self._tables, self._opened, self._private, self._rows_of)
        self._limited = self._found_limits()

    def close(self) -> None:
        self._private.close()


def _tables(rows: Rows) -> dict[str, pa.Table]:
    columns = {name: {c: arrow_type(t) for c, t in given.items()} for name, given in (PRIVATE | PUBLIC).items()}
    return {
        name: pa.table({c: pa.array([row[c] for row in rows[name]], type) for c, type in types.items()})
        for name, types in columns.items()
    }


def opened(engine: str, catalog: dp.Catalog, rows: Rows) -> Backend:
    """Returns a database in an engine."""
    return Reader(catalog, rows) if engine == "reference" else in_duckdb(catalog, rows)


def in_duckdb(catalog: dp.Catalog, rows: Rows) -> DuckDBBackend:
    """Returns a database in the embedded engine."""
    return DuckDBBackend(catalog, _tables(rows))
