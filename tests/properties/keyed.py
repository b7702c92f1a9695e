"""Random plans over tables that foreign keys chain together, and small databases for them.

Values are few, so that columns which have nothing to do with each other are often equal.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from dpquery.catalog import Catalog
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    JoinKind,
    OutputColumn,
    Project,
    Relation,
    Released,
    Scan,
    ScanColumn,
    Values,
    output,
    sources,
)
from dpquery.plan.types import INT64
from tests.reference.relations import Interpreter, Row

Tables = dict[str, list[dict[str, int | None]]]

COLUMNS = {
    "shops": ("person", "a", "b", "shop"),
    "visits": ("visit", "a", "b", "score"),
    "items": ("visit", "item", "score"),
    "parts": ("item", "score"),
    "notes": ("shop", "visit"),
    "boxes": ("person", "visit"),
    "lids": ("visit", "score"),
    "codes": ("visit", "a", "b", "shop"),
}
CATALOG = Catalog(
    dataset="keyed",
    privacy_unit="person",
    tables={
        "shops": {"unit": "person", "max_rows": 8, "columns": {name: {"type": "int64"} for name in COLUMNS["shops"]}},
        "visits": {
            "unit": {"via": "shops", "on": {"a": "a", "b": "b"}},
            "max_rows": 8,
            "columns": {name: {"type": "int64"} for name in COLUMNS["visits"]},
        },
        "items": {
            "unit": {"via": "visits", "on": {"visit": "visit"}},
            "max_rows": 8,
            "columns": {name: {"type": "int64"} for name in COLUMNS["items"]},
        },
        "parts": {
            "unit": {"via": "items", "on": {"item": "item"}},
            "max_rows": 8,
            "columns": {name: {"type": "int64"} for name in COLUMNS["parts"]},
        },
        "notes": {
            "unit": {"via": "shops", "on": {"shop": "shop"}},
            "max_rows": 8,
            "columns": {name: {"type": "int64"} for name in COLUMNS["notes"]},
        },
        "boxes": {"unit": "person", "max_rows": 8, "columns": {name: {"type": "int64"} for name in COLUMNS["boxes"]}},
        "lids": {
            "unit": {"via": "boxes", "on": {"visit": "visit"}},
            "max_rows": 8,
            "columns": {name: {"type": "int64"} for name in COLUMNS["lids"]},
        },
        "codes": {"public": True, "columns": {name: {"type": "int64"} for name in COLUMNS["codes"]}},
    },
    budget={"epsilon": 1000},
    defaults={"least_charge": "1e-12"},
)
DECLARED = CATALOG.declarations
UNITS = (1, 2, 3)
LEAVES = (
    "shops",
    "shops",
    "visits",
    "visits",
    "visits",
    "items",
    "items",
    "parts",
    "notes",
    "boxes",
    "lids",
    "codes",
    "",
)
KINDS: tuple[JoinKind, ...] = ("inner", "inner", "inner", "inner", "cross", "left", "semi", "anti", "full")


def database(random: Random) -> Tables:
    """Returns random rows, whose keys are unique as declared; some rows belong to nobody."""

    def few(most: int = 4) -> int | None:
        return random.choice([None, *range(most), *range(most)])  # type: ignore[no-any-return]

    grid = [(a, b) for a in range(3) for b in range(3)]
    shops = random.sample(grid, random.randint(2, 6))
    numbers = random.sample(range(6), len(shops))
    return {
        "shops": [
            {"person": random.choice([None, *UNITS, *UNITS]), "a": a, "b": b, "shop": n}
            for (a, b), n in zip(shops, numbers, strict=True)
        ],
        "visits": [
            {"visit": n, "a": a, "b": b, "score": few()}
            for n in random.sample(range(6), random.randint(0, 6))
            for a, b in [random.choice([*shops, *shops, *grid, (None, 1)])]
        ],
        "items": [{"visit": few(6), "item": n, "score": few()} for n in random.sample(range(8), random.randint(0, 8))],
        "parts": [{"item": few(8), "score": few()} for _ in range(random.randint(0, 8))],
        "notes": [{"shop": few(6), "visit": few(6)} for _ in range(random.randint(0, 6))],
        "boxes": [
            {"person": random.choice([None, *UNITS, *UNITS]), "visit": n}
            for n in random.sample(range(6), random.randint(0, 5))
        ],
        "lids": [{"visit": few(6), "score": few()} for _ in range(random.randint(0, 6))],
        "codes": [{"visit": few(), "a": few(3), "b": few(3), "shop": few()} for _ in range(3)],
    }


def owner(tables: Tables, table: str, row: dict[str, int | None]) -> int | None:
    """Returns the unit that a stored row belongs to, step by step."""
    ownership = DECLARED.tables[table].ownership
    assert ownership is not None
    for step in ownership.path:
        key = {parent: row[child] for child, parent, _ in step.on}
        if None in key.values():
            return None
        found = [one for one in tables[step.parent] if key.items() <= one.items()]
        if len(found) != 1:
            return None
        row = found[0]
    return row[ownership.column]


def only(tables: Tables, unit: int) -> Tables:
    """Returns the rows of one unit, and the public tables."""
    return {
        name: [row for row in rows if DECLARED.tables[name].public or owner(tables, name, row) == unit]
        for name, rows in tables.items()
    }


def rows(relation: Relation, tables: Tables) -> list[Row]:
    """Returns the rows of a relation."""

    def scanned(scan: Scan) -> list[Row]:
        found = []
        for row in tables[scan.table]:
            read: Row = {column.id: row[column.name] for column in scan.columns}
            if scan.unit is not None and scan.unit not in read:
                read[scan.unit] = owner(tables, scan.table, row)
            found.append(read)
        return found

    def released(_: Released) -> list[Row]:
        raise AssertionError

    return Interpreter(scan=scanned, released=released).rows(relation)


def counted(found: list[Row]) -> Counter[tuple[tuple[str, object], ...]]:
    """Returns rows as a multiset."""
    return Counter(tuple(sorted(row.items())) for row in found)


@dataclass
class Plans:
    """Makes random relations.

    Attributes:
        lacking: How often a scan of a child leaves its owner out.
    """

    random: Random
    lacking: float = 0.8
    made: int = 0
    roles: dict[str, str] = field(default_factory=dict)
    """What a column was called where it was stored, and `unit`; of computed columns nothing."""

    def relation(self, depth: int) -> Relation:
        """Returns a relation of about so many joins."""
        if depth <= 0:
            return self._dressed(self._leaf())
        left = self.random.randint(0, depth - 1)
        return self._dressed(self._join(self.relation(left), self.relation(depth - 1 - left)))

    def _fresh(self, role: str) -> str:
        self.made += 1
        self.roles[f"c{self.made}"] = role
        return f"c{self.made}"

    def _leaf(self) -> Relation:
        table = self.random.choice(LEAVES)
        if not table:
            columns = tuple(OutputColumn(id=self._fresh(name), name=name, type=INT64) for name in ("a", "b", "visit"))
            return Values(columns=columns, rows=((0, 1, 1), (1, 1, 2), (2, 0, 3)))
        names = [n for n in COLUMNS[table] if self.random.random() < 0.95]
        columns_read = tuple(ScanColumn(id=self._fresh(name), name=name, type=INT64) for name in names)
        ownership = DECLARED.tables[table].ownership
        unit = None
        if ownership is not None and not ownership.path:
            own = [c.id for c in columns_read if c.name == ownership.column]
            unit = own[0] if own else self._fresh("person")
        elif ownership is not None and self.random.random() >= self.lacking:
            unit = self._fresh("person")
        return Scan(table=table, columns=columns_read, public=ownership is None, ownership=ownership, unit=unit)

    def _dressed(self, relation: Relation) -> Relation:
        """Returns the relation, perhaps filtered, projected or grouped."""
        given = [c.id for c in output(relation)]
        if given and self.random.random() < 0.25:
            read, limit = Column(id=self.random.choice(given), type=INT64), Literal(value=2, type=INT64)
            condition = call(self.random.choice(["lt", "ge", "is_distinct_from"]), (read, limit))
            relation = Filter(source=relation, condition=condition)
        if self.random.random() < 0.25:
            kept = tuple(self._computed(id) for id in given if self.random.random() < 0.9)
            relation = Project(source=relation, columns=kept)
        if self.random.random() < 0.05:
            given = [c.id for c in output(relation)]
            keys = tuple(id for id in given if self.random.random() < 0.8)
            relation = Aggregate(source=relation, group_by=keys, aggregates=())
        return relation

    def _computed(self, id: str) -> Computed:
        expression: Expression = Column(id=id, type=INT64)
        if self.random.random() < 0.05:
            expression = call("add", (expression, Literal(value=self.random.choice([0, 1]), type=INT64)))
            return Computed(id=self._fresh(self.roles[id]), name="", expression=expression)
        same = self.random.random() < 0.5
        return Computed(id=id if same else self._fresh(self.roles[id]), name="", expression=expression)

    def _join(self, left: Relation, right: Relation) -> Join:
        """Returns a join on some of the columns that have one name, and now and then on others."""
        kind = self.random.choice(KINDS)
        sides = [[c.id for c in output(side)] for side in (left, right)]
        alike = [(a, b) for a in sides[0] for b in sides[1] if self.roles[a] == self.roles[b]]
        pairs = [pair for pair in alike if self.random.random() < 0.75]
        if self.random.random() < 0.1 and sides[0] and sides[1]:
            pairs.append((self.random.choice(sides[0]), self.random.choice(sides[1])))
        equalities = [(self._side(a), self._side(b)) for a, b in pairs]
        condition = None
        if pairs and self.random.random() < 0.15:
            a, b = self.random.choice(alike or pairs)
            equal = call("eq", (Column(id=a, type=INT64), Column(id=b, type=INT64)))
            condition = call("or", (equal, call("lt", (Column(id=b, type=INT64), Literal(value=1, type=INT64)))))
        return Join(left=left, right=right, kind=kind, equalities=tuple(equalities), condition=condition)

    def _side(self, id: str) -> Expression:
        read = Column(id=id, type=INT64)
        return call("abs", (read,)) if self.random.random() < 0.03 else read


def lacking(relation: Relation) -> int:
    """Returns how many scans of children do without their owner."""
    if isinstance(relation, Scan):
        return int(relation.ownership is not None and relation.unit is None)
    return sum(lacking(source) for source in sources(relation))
