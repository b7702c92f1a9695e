# mypy: disable-error-code="arg-type, return"
"""Random small tables, and random unit-local relations and private aggregates over them; the same for the same seed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pandas as pd

from dpquery.catalog import Catalog
from dpquery.kernel.plan import Count, Key, Lattice, Measure, PrivateAggregate
from dpquery.plan.expr import Case, Cast, Column, Expression, Literal
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
    SetKind,
    SetOperation,
    output,
)
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, Value, decimal
from dpquery.units.locality import locality
from tests.backends.engines import catalog_of
from tests.backends.plans import MANY, UNITS, aggregate, scan
from tests.backends.windows import Windows

PRICE, WIDE = decimal(8, 2), decimal(38, 10)
DAY, MOMENT = datetime.date, datetime.datetime
INF = math.inf
POOLS: dict[Type, list[Any]] = {
    BOOLEAN: [True, False],
    INT64: [0, 1, 2, 3, 5, -1, -7, 12, 100, 2**53 + 1, 2**63 - 1, -(2**63)],
    FLOAT64: [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 0.1, 7.25, 1e9, -1e300, 1.7e308, 5e-324, INF, -INF, math.nan],
    PRICE: [Decimal(x) for x in ("0.00", "0.01", "-0.05", "1.15", "2.50", "99.99", "-999999.99")],
    WIDE: [Decimal(x) for x in ("0", "0.0000000001", "-1234567890123456789012345678.0123456789", "5.5", "1e27")],
    TEXT: ["a", "A", "a ", " a", "b", "", "ä", "a\u0308", "😀", "%", "it's", "aa", "ab\n"],
    DATE: [DAY(1, 1, 1), DAY(1969, 12, 31), DAY(2020, 2, 29), DAY(2020, 3, 1), DAY(9999, 12, 31)],
    TIMESTAMP: [MOMENT(1969, 12, 31, 23, 59, 59, 999999), MOMENT(2020, 2, 29), MOMENT(2020, 3, 1, 12, 30, 0, 1)],
}
KINDS: tuple[JoinKind, ...] = ("semi", "anti")
COLUMNS = {
    "flag": BOOLEAN,
    "n": INT64,
    "x": FLOAT64,
    "price": PRICE,
    "wide": WIDE,
    "kind": TEXT,
    "day": DATE,
    "at": TIMESTAMP,
}


@dataclass(slots=True, kw_only=True)
class Database:
    """A catalog and rows for its tables."""

    catalog: Catalog
    frames: dict[str, pd.DataFrame]

    def without(self, unit: Value) -> Database:
        """Returns the database without what one person owns: here, their rows of the root table and of `parts`."""
        kept = {
            name: frame[frame["person"] != unit] if "person" in frame else frame for name, frame in self.frames.items()
        }
        return Database(catalog=self.catalog, frames=kept)


def database(random: Random) -> Database:
    """Returns tables of people's rows, of rows owned through them, and public ones; or of rows that are units."""
    by_row = random.random() < 0.2
    columns: dict[str, object] = {name: {"type": str(type)} for name, type in COLUMNS.items()}
    public = {
        "public": True,
        "unique": [["kind"]],
        "columns": {"kind": {"type": "text"}, "panel": {"type": "text"}, "rank": {"type": "int64"}},
    }
    kinds = random.sample(POOLS[TEXT], 8)
    frames = {
        "codes": pd.DataFrame(
            {
                "kind": pd.Series([*kinds, None], dtype="str"),
                "panel": pd.Series([random.choice(["one", "two", None]) for _ in range(9)], dtype="str"),
                "rank": pd.array([random.choice([1, 2, 3, None]) for _ in range(9)], dtype="Int64"),
            }
        ),
        "visits": rows(random, random.choice([0, 1, 20, 40, *[60] * 10])),
    }
    if by_row:
        catalog = catalog_of({"visits": {"columns": columns}, "codes": public}, unit="row")
        return Database(catalog=catalog, frames=frames)
    people = people_of(random)
    count = len(frames["visits"])
    frames["visits"]["person"] = pd.Series([random.choice(people) for _ in range(count)], dtype="str")
    frames["visits"]["id"] = pd.array([i if random.random() < 0.9 else None for i in range(count)], dtype="Int64")
    frames["parts"] = rows(random, random.choice([0, 5, *[60] * 8]))
    frames["parts"]["of"] = pd.array([random.randrange(70) for _ in range(len(frames["parts"]))], dtype="Int64")
    tables = {
        "visits": {
            "unit": "person",
            "max_rows": 8,
            "columns": {"person": {"type": "text"}, "id": {"type": "int64"}, **columns},
        },
        "parts": {
            "unit": {"via": "visits", "on": {"of": "id"}},
            "max_rows": 8,
            "columns": {"of": {"type": "int64"}, **columns},
        },
        "codes": public,
    }
    return Database(catalog=catalog_of(tables), frames=frames)


def people_of(random: Random) -> list[str | None]:
    """Returns names of people, similar and absurd ones, some of them far more frequent than others; or only NULL."""
    if random.random() < 0.05:
        return [None]
    names = random.sample([*POOLS[TEXT], *(f"p{i}" for i in range(12))], random.choice([1, 3, 12]))
    return [*names, *names[:1] * random.choice([0, 20]), None]


def rows(random: Random, count: int) -> pd.DataFrame:
    """Returns random rows, each column stored in one of the forms from which its type is read."""
    return pd.DataFrame({name: stored(random, type, count) for name, type in COLUMNS.items()})


def stored(random: Random, type: Type, count: int) -> Any:
    """Returns a column of random values, a part of them NULL."""
    gaps = random.choice([0.0, 0.1, 0.5])
    few = random.sample(POOLS[type], min(len(POOLS[type]), random.choice([1, 3, 20])))
    values = [None if random.random() < gaps else random.choice(few) for _ in range(count)]
    match type.kind:
        case Kind.INT64:
            return pd.array(values, dtype="Int64") if random.random() < 0.8 else pd.Series(texts(values), dtype="str")
        case Kind.BOOLEAN:
            if random.random() < 0.7:
                return pd.array(values, dtype="boolean")
            return pd.array([None if v is None else int(v) for v in values], dtype="Int64")
        case Kind.FLOAT64:
            return pd.Series(values, dtype="float64")
        case Kind.TEXT:
            return pd.Series(values, dtype=random.choice(["str", "category", "object"]) if any(values) else "str")
        case Kind.DATE if random.random() < 0.3:
            return pd.Series(texts(values), dtype="str")
        case Kind.TIMESTAMP:
            return pd.Series(values, dtype="datetime64[us]")
        case _:
            return pd.Series(values, dtype="object")


def texts(values: Sequence[Any]) -> list[str | None]:
    """Returns values as texts, as a CSV file would hold them."""
    return [None if value is None else str(value) for value in values]


@dataclass(slots=True, kw_only=True)
class Generator:
    """Makes plans over a database. Ids are numbered, so that they are unique in a plan."""

    random: Random
    catalog: Catalog
    count: int = field(default=0)

    def fresh(self) -> str:
        """Returns a new id."""
        self.count += 1
        return f"c{self.count}"

    # Relations.

    def relation(self, depth: int) -> Relation:
        """Returns a unit-local relation over private rows."""
        if depth == 0:
            tables = [name for name, table in self.catalog.tables.items() if not table.public]
            return scan(self.catalog, self.random.choice(tables), self.fresh())
        makers: list[Callable[[int], Relation]] = [self.filter, self.project, self.join_public, self.semi_join]
        if not self.catalog.declarations.unit_is_row:
            makers += [self.join_private, self.per_unit, self.window, self.both, self.both]
        return self.random.choice(makers)(depth)

    def filter(self, depth: int) -> Relation:
        """Keeps some rows."""
        source = self.relation(depth - 1)
        condition = self.expression(source, BOOLEAN, 2)
        if self.random.random() < 0.7:
            condition = call("is_not_true", (condition,))
        return Filter(source=source, condition=condition)

    def project(self, depth: int) -> Relation:
        """Keeps the unit and most columns, and computes new ones."""
        source = self.relation(depth - 1)
        units = locality(source, self.catalog.declarations).units
        kept = [
            Computed(id=c.id if c.id in units else self.fresh(), name="", expression=Column(id=c.id, type=c.type))
            for c in output(source)
            if c.id in units or self.random.random() < 0.7
        ]
        types = self.random.choices(
            [BOOLEAN, INT64, FLOAT64, PRICE, TEXT, DATE, TIMESTAMP], k=self.random.randint(1, 3)
        )
        made = [Computed(id=self.fresh(), name="", expression=self.expression(source, type, 2)) for type in types]
        return Project(source=source, columns=(*kept, *made))

    def join_public(self, depth: int) -> Relation:
        """Joins a public table on its unique column, or pairs everything with it."""
        private, codes = self.relation(depth - 1), scan(self.catalog, "codes", self.fresh())
        key = Column(id=codes.columns[0].id, type=TEXT)
        own = self.column_of(private, TEXT)
        if own is None:
            return private
        kind = self.random.choice(["inner", "left", "cross"])
        if kind == "cross" and not self.catalog.declarations.unit_is_row:
            return Join(left=codes, right=private, kind="cross", equalities=())
        condition = None
        if self.random.random() < 0.3:
            rank = Column(id=codes.columns[2].id, type=INT64)
            condition = call("gt", (rank, Literal(value=1, type=INT64)))
        if kind == "left":
            return Join(left=private, right=codes, kind="left", equalities=((own, key),), condition=condition)
        return Join(left=private, right=codes, kind="inner", equalities=((own, key),), condition=condition)

    def join_private(self, depth: int) -> Relation:
        """Joins two relations of the same people."""
        left, right = self.relation(depth - 1), self.relation(0)
        kind = self.random.choice(["inner", "inner", "left", "full"])
        unit = self.unit_of(left) if kind == "full" else self.telling(left)
        equalities: list[tuple[Expression, Expression]] = [(unit, self.unit_of(right))]
        for type in (INT64, TEXT, FLOAT64):
            a, b = self.column_of(left, type), self.column_of(right, type)
            if a is not None and b is not None and self.random.random() < 0.3:
                equalities.append((a, b))
        condition = None
        if kind != "inner" and self.random.random() < 0.3:
            condition = self.expression(Join(left=left, right=right, kind="cross", equalities=()), BOOLEAN, 1)
        join = Join(left=left, right=right, kind=kind, equalities=tuple(equalities), condition=condition)
        if kind != "full":
            return join
        kept = [Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(join)]
        owner = Computed(id=self.fresh(), name="", expression=call("coalesce", equalities[0]))
        return Project(source=join, columns=(*kept, owner))

    def semi_join(self, depth: int) -> Relation:
        """Keeps the rows that have, or have not, a counterpart in a public table or among the same people's rows."""
        left, kind = self.relation(depth - 1), self.random.choice(KINDS)
        equalities: list[tuple[Expression, Expression]] = []
        if self.catalog.declarations.unit_is_row or self.random.random() < 0.5:
            right: Relation = scan(self.catalog, "codes", self.fresh())
        else:
            right = self.relation(self.random.choice([0, 0, 1]))
            equalities.append((self.unit_of(left), self.unit_of(right)))
        for type in (TEXT, INT64):
            a, b = self.column_of(left, type), self.column_of(right, type)
            if a is not None and b is not None and self.random.random() < 0.5:
                equalities.append((a, b))
        condition = None
        if self.random.random() < 0.4:
            condition = call("or", (self.expression(left, BOOLEAN, 1), self.expression(right, BOOLEAN, 1)))
        return Join(left=left, right=right, kind=kind, equalities=tuple(equalities), condition=condition)

    def per_unit(self, depth: int) -> Relation:
        """Aggregates each person's rows, exactly."""
        source = self.relation(depth - 1)
        units = locality(source, self.catalog.declarations).units
        others = [c.id for c in output(source) if c.id not in units and self.random.random() < 0.15]
        made = tuple(self.exact(source) for _ in range(self.random.randint(0, 4)))
        return Aggregate(source=source, group_by=(self.random.choice(sorted(units)), *others[:2]), aggregates=made)

    def window(self, depth: int) -> Relation:
        """Gives each person's rows columns of window functions."""
        source = self.relation(depth - 1)
        unit = self.random.choice(sorted(locality(source, self.catalog.declarations).units))
        return Windows(random=self.random, fresh=self.fresh, expression=self.expression).over(source, (unit,))

    def both(self, depth: int) -> Relation:
        """Puts together two relations of the same people: columns of equal types, the unit's among them."""
        left, right = self.relation(depth - 1), self.relation(self.random.randrange(depth))
        pairs = [(self.unit_of(left), self.unit_of(right))]
        for type in self.random.choices(
            [INT64, TEXT, FLOAT64, PRICE, DATE, BOOLEAN], k=self.random.choice([0, 1, 1, 4])
        ):
            a, b = self.column_of(left, type), self.column_of(right, type)
            if a is not None and b is not None:
                pairs.append((a, b))
        self.random.shuffle(pairs)
        columns = tuple(Matched(id=self.fresh(), name="", type=a.type, left=a.id, right=b.id) for a, b in pairs)
        kind: SetKind = self.random.choice(
            ["union_all", "union_all", "intersect", "intersect_all", "except", "except_all"]
        )
        return SetOperation(kind=kind, left=left, right=right, columns=columns)

    def exact(self, source: Relation) -> AggregateColumn:
        """Returns one exact aggregate. Averages and variances are left to other tests: their last digits are free."""
        if self.random.random() < 0.3:
            return self.chosen(source)
        function = self.random.choice(["count", "count_all", "count_distinct", "sum", "min", "max"])
        kept = self.expression(source, BOOLEAN, 1) if self.random.random() < 0.3 else None
        type = self.random.choice([INT64, PRICE] if function == "sum" else [INT64, FLOAT64, PRICE, TEXT, DATE, BOOLEAN])
        argument = None if function == "count_all" else self.expression(source, type, 1)
        result = INT64
        if function in ("min", "max"):
            result = type
        if function == "sum":
            result = decimal(38, type.scale) if type.kind is Kind.DECIMAL else type
        name = "count" if function == "count_all" else function
        return AggregateColumn(id=self.fresh(), name="", function=name, argument=argument, filter=kept, type=result)

    def chosen(self, source: Relation) -> AggregateColumn:
        """Returns one exact aggregate of logic, bits, distinct values, texts or chosen rows."""
        kinds = {"bool_and": BOOLEAN, "bool_or": BOOLEAN, "bit_or": INT64, "bit_and": INT64, "sum_distinct": INT64}
        function = self.random.choice([*kinds, "any_value", "first", "last", "arg_min", "arg_max", "regr_count"])
        type = kinds.get(function) or self.random.choice([INT64, FLOAT64, PRICE, TEXT, DATE, BOOLEAN])
        type = INT64 if function == "regr_count" else type
        second = None
        if function in ("first", "last", "arg_min", "arg_max", "regr_count"):
            by = INT64 if function == "regr_count" else self.random.choice([INT64, FLOAT64, TEXT, DATE])
            second = self.expression(source, by, 1)
        kept = self.expression(source, BOOLEAN, 1) if self.random.random() < 0.3 else None
        argument = self.expression(source, type, 1)
        return AggregateColumn(
            id=self.fresh(), name="", function=function, argument=argument, second=second, filter=kept, type=type
        )

    def unit_of(self, relation: Relation) -> Column:
        """Returns a column that holds the privacy unit."""
        id = self.random.choice(sorted(locality(relation, self.catalog.declarations).units))
        return Column(id=id, type=TEXT)

    def telling(self, relation: Relation) -> Column:
        """Returns a column that holds the privacy unit or, where an outer join has filled it up, NULL."""
        return Column(id=self.random.choice(sorted(locality(relation, self.catalog.declarations).telling)), type=TEXT)

    def column_of(self, relation: Relation, type: Type) -> Column | None:
        """Returns a random column of a type, or None."""
        found = [c.id for c in output(relation) if c.type == type]
        return Column(id=self.random.choice(found), type=type) if found else None

    # Expressions, of operations whose results do not depend on an engine's last digit.

    def expression(self, source: Relation, type: Type, depth: int) -> Expression:
        """Returns a random expression of a type over a relation."""
        column = self.column_of(source, type)
        if depth == 0 or self.random.random() < 0.3:
            return column if column is not None and self.random.random() < 0.85 else self.constant(type)
        if self.random.random() < 0.1:
            condition = self.expression(source, BOOLEAN, depth - 1)
            first, second = self.expression(source, type, depth - 1), self.expression(source, type, depth - 1)
            return Case(branches=((condition, first),), otherwise=second, type=type)
        made = self.operation(source, type, depth - 1)
        if made.type == type:
            return made
        return Cast(argument=made, type=type)

    def operation(self, source: Relation, type: Type, depth: int) -> Expression:
        """Returns an operation whose result is of the type, or of one that casts to it."""

        def some(of: Type) -> Expression:
            return self.expression(source, of, depth)

        pick = self.random.choice
        match type.kind:
            case Kind.BOOLEAN:
                return self.condition(some)
            case Kind.INT64:
                name = pick(
                    ["add", "subtract", "multiply", "int_divide", "modulo", "abs", "length", "extract_year", "coalesce"]
                )
                if name in ("abs", "negate"):
                    return call(name, (some(INT64),))
                if name in ("length", "extract_year"):
                    return call(name, (some(TEXT if name == "length" else DATE),))
                return call(name, (some(INT64), some(INT64)))
            case Kind.FLOAT64:
                name = pick(["add", "subtract", "multiply", "divide", "sqrt", "floor", "greatest", "least", "nullif"])
                return call(name, (some(FLOAT64),) if name in ("sqrt", "floor") else (some(FLOAT64), some(FLOAT64)))
            case Kind.DECIMAL:
                return call(pick(["add", "subtract", "coalesce", "nullif", "greatest"]), (some(PRICE), some(PRICE)))
            case Kind.TEXT:
                name = pick(["upper", "concat", "trim", "left", "nullif", "cast"])
                if name == "cast":
                    return Cast(argument=some(pick([INT64, BOOLEAN, PRICE, DATE])), type=TEXT)
                if name in ("upper", "trim"):
                    return call(name, (some(TEXT),))
                return call(name, (some(TEXT), Literal(value=1, type=INT64) if name == "left" else some(TEXT)))
            case Kind.DATE:
                return Cast(argument=some(pick([TIMESTAMP, TEXT])), type=DATE)
            case Kind.TIMESTAMP:
                unit = Literal(value=pick(["day", "month", "year"]), type=TEXT)
                return call("date_trunc", (unit, some(TIMESTAMP)))

    def condition(self, some: Callable[[Type], Expression]) -> Expression:
        """Returns a condition."""
        name = self.random.choice(["eq", "ne", "lt", "le", "is_null", "and", "or", "not", "in", "is_distinct_from"])
        type = self.random.choice(list(POOLS))
        if name in ("and", "or"):
            return call(name, (some(BOOLEAN), some(BOOLEAN)))
        if name == "not":
            return call(name, (some(BOOLEAN),))
        if name == "is_null":
            return call(name, (some(type),))
        if name == "in":
            return call(name, (some(TEXT), *(Literal(value=v, type=TEXT) for v in ("a", "b", ""))))
        return call(name, (some(type), some(type)))

    def constant(self, type: Type) -> Literal:
        """Returns a finite constant of a type."""
        finite = [v for v in POOLS.get(type, [None]) if not (isinstance(v, float) and not math.isfinite(v))]
        return Literal(value=self.random.choice([*finite, None]), type=type)

    # Private aggregates.

    def aggregate(self) -> PrivateAggregate:
        """Returns a private aggregate under bounds that do not bind; its first measure counts units."""
        source = self.relation(self.random.choice([0, 0, 1, 1, 2, 2, 3, 4]))
        units = locality(source, self.catalog.declarations).units
        given = [c for c in output(source) if c.id not in units]
        wanted = min(len(given), self.random.choice([0, 1, 1, 1, 2, 2, 3]))
        keys = {c.id: self.domain(c.type) for c in self.random.sample(given, wanted)}
        measures = [UNITS, *(self.measure(source) for _ in range(self.random.randint(0, 5)))]
        unit = self.random.choice(sorted(units)) if units else None
        most = 1 if unit is None else MANY
        made = aggregate(source, *measures, unit=unit, keys=keys, groups=most, rows=most)
        return replace(made, keys=self.together(made.keys))

    def together(self, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        """Returns the keys, at times two public ones as one key with some of their combinations."""
        if len(keys) < 2 or self.random.random() < 0.3:
            return keys
        (one, other), rest = self.random.sample(keys, 2), list(keys)
        if one.domain is None or other.domain is None:
            return keys
        pairs = [(*a, *b) for a in one.domain for b in other.domain]
        rest.remove(one)
        rest.remove(other)
        chosen = tuple(self.random.sample(pairs, self.random.randint(1, len(pairs))))
        return (
            Key(columns=(*one.columns, *other.columns), types=(*one.types, *other.types), domain=chosen),
            *rest,
        )

    def domain(self, type: Type) -> tuple[Value, ...] | None:
        """Returns public values, or None where they are selected."""
        pool = [v for v in dict.fromkeys(POOLS.get(type, [])) if v == v]
        if not pool or self.random.random() < 0.5:
            return None
        values = self.random.sample(pool, self.random.choice([1, len(pool), len(pool)]))
        return (*values, None) if self.random.random() < 0.4 else tuple(values)

    def measure(self, source: Relation) -> Measure:
        """Returns a measure with an id of its own."""
        flag = self.column_of(source, BOOLEAN)
        kept = flag.id if flag is not None and self.random.random() < 0.4 else None
        count = self.random.choice([each for each in Count if each is not Count.DECIDING])
        if count in (Count.UNITS, Count.ROWS):
            return Measure(id=self.fresh(), label="", count=count, filter=kept)
        numeric = [c for c in output(source) if c.type.is_numeric]
        if count is Count.SUM and not numeric:
            return Measure(id=self.fresh(), label="", count=Count.ROWS, filter=kept)
        if count is Count.QUANTILE:
            return self.quantile(source, kept)
        if count is Count.MODE:
            return self.mode(source, kept)
        value = self.random.choice(numeric if count is Count.SUM else output(source))
        on = self.lattice(value.type) if count is Count.SUM else None
        return Measure(id=self.fresh(), label="", count=count, value=value.id, filter=kept, lattice=on)

    def quantile(self, source: Relation, kept: str | None) -> Measure:
        """Returns a quantile of numbers or moments, or a number of rows where there are none."""
        ordered = [c for c in output(source) if c.type.is_numeric or c.type in (DATE, TIMESTAMP)]
        if not ordered:
            return Measure(id=self.fresh(), label="", count=Count.ROWS, filter=kept)
        value = self.random.choice(ordered)
        on = replace(self.lattice(value.type), offset=0, squared=False, offset_of_square=0)
        target = Fraction(self.random.choice([0, 1, 2, 3, 4]), 4)
        return Measure(
            id=self.fresh(), label="", count=Count.QUANTILE, value=value.id, filter=kept, lattice=on, target=target
        )

    def mode(self, source: Relation, kept: str | None) -> Measure:
        """Returns a mode over some values, or a number of rows where there are none to choose from."""
        value = self.random.choice(output(source))
        pool = [v for v in dict.fromkeys(POOLS.get(value.type, [])) if v == v and v is not None]
        if not pool:
            return Measure(id=self.fresh(), label="", count=Count.ROWS, filter=kept)
        domain = tuple(self.random.sample(pool, self.random.choice([1, len(pool)])))
        return Measure(id=self.fresh(), label="", count=Count.MODE, value=value.id, filter=kept, domain=domain)

    def lattice(self, type: Type) -> Lattice:
        """Returns a lattice for a type, as the planner chooses them: at most 2^40 steps wide."""
        pick = self.random.choice
        match type.kind:
            case Kind.FLOAT64:
                grid = pick([Fraction(1), Fraction(1, 2**20), Fraction(1, 2), Fraction(2**30), Fraction(2**500)])
            case Kind.DECIMAL:
                grid = Fraction(1, 10**type.scale) * pick([1, 10, 100, 10**20 if type == WIDE else 1])
            case _:
                grid = Fraction(pick([1, 1, 2, 2**24]))
        lower = pick([0, -1, -1000, -(2**40)])
        upper = pick([lower, 1, 7, 1000, 2**40])
        offset = pick([0, lower, upper, (lower + upper) // 2])
        largest = max(abs(lower - offset), abs(upper - offset))
        if self.random.random() < 0.5 and largest <= 2000:
            middle = pick([0, largest * largest // 2])
            return Lattice(
                grid=grid, lower=lower, upper=max(lower, upper), offset=offset, squared=True, offset_of_square=middle
            )
        return Lattice(grid=grid, lower=lower, upper=max(lower, upper), offset=offset)
