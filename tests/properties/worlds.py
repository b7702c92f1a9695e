"""Random worlds: a catalog, the rows of a crowd, and guests.

A guest is one privacy unit with all its rows in all private tables. Neighbouring databases are the crowd with a guest
and without, or, under replace_one, the crowd with one guest and with another.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

import pyarrow as pa

from dpquery.catalog import Catalog

Row = dict[str, object]
Rows = dict[str, list[Row]]
"""Rows by table, in plain Python values; None is NULL."""

KINDS = ("a", "b", "c", "d")
REGIONS = ("east", "north", "west")
CODES = (1, 2, 3, 4)
FIRST_DAY, LAST_DAY = datetime.date(2000, 1, 1), datetime.date(2000, 12, 31)
ABSURD = ("", " ", "NaN", "inf", "-0", "1e400", "0x1F", "'; DROP TABLE visits; --", '"', "\\", "\u202e", "é", "a" * 500)

NUMBERS: dict[str, tuple[object, ...]] = {
    "score": (-20, 40),
    "cost": (0.0, 500.0),
    "rate": (Decimal("-5.00"), Decimal("5.00")),
    "age": (0, 100),
    "income": (-50.0, 200.0),
    "weight": (-1.0, 1.0),
}
"""Declared bounds of the numeric columns; the data do not keep to them."""

PERSON_TABLES: dict[str, dict[str, str]] = {
    "people": {"id": "unit", "age": "int64", "income": "float64", "sex": "text", "town": "text"},
    "visits": {
        "person": "unit",
        "visit": "int64",
        "kind": "text",
        "cell": "int64",
        "place": "int64",
        "score": "int64",
        "cost": "float64",
        "rate": "decimal(8,2)",
        "note": "text",
        "day": "date",
        "ok": "boolean",
    },
    "items": {"visit": "int64", "label": "text", "weight": "float64"},
}
ROW_TABLES = {"visits": {name: type for name, type in PERSON_TABLES["visits"].items() if type != "unit"}}
PUBLIC_TABLES: dict[str, dict[str, str]] = {
    "places": {"code": "int64", "region": "text", "factor": "float64"},
    "tags": {"code": "int64", "tag": "text"},
}
CELLS = tuple(range(130))
KEYS = {
    "kind": KINDS,
    "cell": CELLS,
    "sex": ("F", "M"),
    "label": ("x", "y", "z"),
    "region": REGIONS,
    "tag": ("p", "q", "r", "s"),
}

STYLES = (
    "ordinary",
    "single",
    "low",
    "high",
    "far below",
    "far above",
    "broken",
    "absurd",
    "everywhere",
    "alone",
    "partial",
    "many",
)


@dataclass(frozen=True, kw_only=True)
class World:
    """One catalog with a crowd and guests, and how each column is stored."""

    catalog: Catalog
    crowd: Rows
    guests: tuple[Rows, ...]
    styles: tuple[str, ...]
    stored_as_text: frozenset[tuple[str, str]]

    def sources(self, *guests: Rows) -> dict[str, pa.Table]:
        """Returns the tables of the database that holds the crowd and these guests."""
        found = {}
        for name, columns in tables_of(self.catalog).items():
            rows = [row for part in (self.crowd, *guests) for row in part.get(name, [])]
            types = {column: self._stored_type(name, column, type) for column, type in columns.items()}
            found[name] = pa.table({c: pa.array([_stored(row[c], t) for row in rows], t) for c, t in types.items()})
        return found

    def _stored_type(self, table: str, column: str, type: str) -> pa.DataType:
        return pa.string() if (table, column) in self.stored_as_text else arrow_type(self.catalog, type)


def tables_of(catalog: Catalog) -> dict[str, dict[str, str]]:
    """Returns the columns of each table, with `unit` for the type of the privacy unit."""
    private = ROW_TABLES if catalog.declarations.unit_is_row else PERSON_TABLES
    return private | PUBLIC_TABLES


def arrow_type(catalog: Catalog, type: str) -> pa.DataType:
    """Returns how a declared type is stored natively."""
    if type == "unit":
        type = str(catalog.tables["people"].columns["id"].type)
    plain = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "text": pa.string(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
    }
    return plain.get(type) or pa.decimal128(*map(int, type[8:-1].split(",")))


def _stored(value: object, type: pa.DataType) -> object:
    return str(value) if value is not None and pa.types.is_string(type) and not isinstance(value, str) else value


def catalog_of(
    *,
    unit: str = "int64",
    neighbours: str = "add_remove",
    unique: bool = True,
    budget: Mapping[str, object] | None = None,
) -> Catalog:
    """Returns the catalog of persons with a unit of this type, or of rows where `unit` is "row"."""
    tables: dict[str, object] = {}
    for name, columns in (ROW_TABLES if unit == "row" else PERSON_TABLES).items():
        tables[name] = {"columns": {c: _column(c, unit if type == "unit" else type) for c, type in columns.items()}}
    if unit != "row":
        tables["people"] = {
            "unit": "id",
            **({"unique": [["id"]]} if unique else {"max_rows": 8}),
            **_dict(tables["people"]),
        }
        tables["visits"] = {"unit": "person", "max_rows": 3, "max_groups": 2, **_dict(tables["visits"])}
        tables["items"] = {"unit": {"via": "visits", "on": {"visit": "visit"}}, "max_rows": 8, **_dict(tables["items"])}
    for name, columns in PUBLIC_TABLES.items():
        tables[name] = {"public": True, "columns": {c: _column(c, type) for c, type in columns.items()}}
    tables["places"] = {"unique": [["code"]], **_dict(tables["places"])}
    return Catalog(
        dataset="world",
        privacy_unit="row" if unit == "row" else "person",
        neighbours=neighbours,
        tables=tables,
        budget=budget or {"epsilon": 100_000, "delta": "1/10"},
        defaults={"least_charge": "1e-12"},
    )


def _column(name: str, type: str) -> dict[str, object]:
    declared: dict[str, object] = {"type": type}
    if name in NUMBERS:
        declared |= {"lower": NUMBERS[name][0], "upper": NUMBERS[name][1], "nullable": True}
    if name == "factor":
        declared |= {"lower": -2, "upper": 2}
    if name == "note":
        declared |= {"max_length": 8}
    if name == "day":
        declared |= {"lower": FIRST_DAY, "upper": LAST_DAY}
    if name in KEYS and name not in ("region", "tag"):
        declared |= {"keys": list(KEYS[name]), "nullable": name == "label"}
    return declared


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def world(random: Random, *, guests: int = 5, size: int = 40) -> World:
    """Returns a random world with a crowd of at most `size` units."""
    unit = random.choice(["int64", "int64", "text", "decimal(12,1)", "row"])
    neighbours = random.choice(["add_remove", "replace_one"])
    unique = random.random() < 0.5
    catalog = catalog_of(unit=unit, neighbours=neighbours, unique=unique)
    maker = Maker(random=random, unit=unit, unique=unique)
    crowd: Rows = {name: [] for name in tables_of(catalog)}
    for _ in range(random.choice([0, 1, 3, size])):
        _extend(crowd, maker.unit_rows(random.choice(["ordinary", "ordinary", "single", "broken", "absurd"])))
    _extend(crowd, maker.public_rows())
    if unit != "row" and random.random() < 0.7:
        _extend(crowd, maker.owned_by_nobody())
    styles = random.sample(STYLES, guests)
    stored = frozenset(
        (table, column)
        for table, columns in tables_of(catalog).items()
        for column, type in columns.items()
        if type in ("int64", "float64", "decimal(8,2)", "unit") and random.random() < 0.15
    )
    made = tuple(maker.unit_rows(style) for style in styles)
    return World(catalog=catalog, crowd=crowd, guests=made, styles=tuple(styles), stored_as_text=stored)


def _extend(rows: Rows, more: Rows) -> None:
    for table, added in more.items():
        rows.setdefault(table, []).extend(added)


@dataclass(kw_only=True)
class Maker:
    """Makes units with all their rows. Each unit and each visit has a number of its own."""

    random: Random
    unit: str = "int64"
    unique: bool = True
    """Whether a unit has one row at most in the table of people, as the catalog may declare."""
    units: int = 0
    visits: int = 0
    choices: dict[str, Callable[[str], object]] = field(init=False)

    def __post_init__(self) -> None:
        self.choices = dict.fromkeys(NUMBERS, self._number) | {
            "kind": self._key,
            "sex": self._key,
            "label": self._key,
            "cell": lambda _: self.random.choice([self.random.randint(-1, len(CELLS)), None]),
            "place": lambda _: self.random.choice([*CODES, 99, None]),
            "day": lambda _: self.random.choice([FIRST_DAY, datetime.date(2000, 6, 15), LAST_DAY]),
            "ok": lambda _: self.random.choice([True, False, None]),
            "note": lambda _: self.random.choice(["n1", "n2", "n3", "n4"]),
            "town": lambda _: self.random.choice(["t1", "t2", None]),
        }

    def unit_rows(self, style: str) -> Rows:
        """Returns all rows of a new unit."""
        self.units += 1
        if self.unit == "row":
            return {"visits": [self._row("visits", style, None)]}
        owner = self._owner()
        count = {"single": 1, "many": 1000, "everywhere": 60, "alone": 6}.get(style, self.random.randint(0, 9))
        visits = [self._row("visits", style, owner) for _ in range(count)]
        people = [
            self._row("people", style, owner) for _ in range(self.random.choice([0, 1, 1, 1, 1 if self.unique else 3]))
        ]
        items = [
            self._row("items", style, owner, visit=self.random.choice(visits)["visit"])
            for _ in range(self.random.randint(0, 20) if visits else 0)
        ]
        rows: Rows = {"people": people, "visits": visits, "items": items}
        if style == "partial":
            rows["people" if self.random.random() < 0.5 else "items"] = []
        return rows

    def public_rows(self) -> Rows:
        """Returns the rows of the public tables; several tags have the same code."""
        places = [{"code": c, "region": REGIONS[c % 3], "factor": self.random.uniform(-3, 3)} for c in CODES]
        tags = [{"code": c, "tag": tag} for c in CODES for tag in self.random.sample(KEYS["tag"], c % 4)]
        return {"places": [dict(row) for row in places], "tags": [dict(row) for row in tags]}

    def owned_by_nobody(self) -> Rows:
        """Returns rows whose unit is NULL, or whose foreign key leads nowhere."""
        orphans = [self._row("items", "ordinary", None, visit=visit) for visit in (None, -1)]
        visits = [self._row("visits", "ordinary", None) for _ in range(5)]
        return {"people": [self._row("people", "ordinary", None)], "visits": visits, "items": orphans}

    def _owner(self) -> object:
        return {"int64": self.units, "text": f"Unit {self.units}"}.get(self.unit, Decimal(self.units) / 2)

    def _row(self, table: str, style: str, owner: object, **fixed: object) -> Row:
        row: Row = {}
        for name, type in (ROW_TABLES if self.unit == "row" else PERSON_TABLES)[table].items():
            if name in fixed:
                row[name] = fixed[name]
            elif type == "unit":
                row[name] = owner
            elif name == "visit":
                self.visits += 1
                row[name] = self.visits
            else:
                row[name] = self._value(name, style)
        return row

    def _value(self, name: str, style: str) -> object:
        if style == "alone" and name in ("note", "town"):
            return f"alone {self.units} {self.random.randint(0, 4)}"
        if style == "everywhere" and name == "note":
            return f"n{self.random.randint(1, 30)}"
        if style == "absurd" and name in ("kind", "sex", "label", "note", "town"):
            return self.random.choice(ABSURD)
        if style == "broken" and name in ("day", "ok", "note", "kind"):
            return None
        if style == "far below" and name == "day":
            return datetime.date(1, 1, 1)
        if style == "far above" and name == "day":
            return datetime.date(9999, 12, 31)
        if name in NUMBERS:
            return self._number(name, style)
        return self.choices[name](name)

    def _number(self, name: str, style: str = "ordinary") -> object:
        low, high = NUMBERS[name]
        kind = type(low)
        match style:
            case "low":
                return low
            case "high":
                return high
            case "far below" | "far above":
                sign = -1 if style == "far below" else 1
                far = {int: 2**63 - 1, float: self.random.choice([1e300, math.inf]), Decimal: Decimal("999999.99")}
                return sign * far[kind]  # type: ignore[operator]
            case "broken":
                odd = {int: [None, 0], float: [math.nan, math.inf, -math.inf, -0.0, None, 5e-324], Decimal: [None, 0]}
                return self.random.choice(odd[kind])  # type: ignore[arg-type]
        if self.random.random() < 0.1:
            return None
        if kind is int:
            return self.random.randint(int(low) - 3, int(high) + 3)  # type: ignore[call-overload]
        inside = self.random.uniform(float(low) - 1, float(high) + 1)  # type: ignore[arg-type]
        return inside if kind is float else Decimal(f"{inside:.2f}")

    def _key(self, name: str) -> object:
        return self.random.choice([*KEYS[name], *KEYS[name], "other", None])
