"""Small tables of visits and of public places, and plans over them by hand, for tests of weights."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.kernel.plan import WHOLE_ROW, Count, Key, Lattice, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.calendar import By
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    JoinKind,
    Matched,
    OutputColumn,
    Ownership,
    OwnerStep,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetKind,
    SetOperation,
    SortKey,
    Window,
    WindowColumn,
    output,
)
from dpquery.plan.logical import Values as Listed
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Type, Value
from dpquery.units.blocks import BlockRange
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

COLUMNS: dict[str, dict[str, Type]] = {
    "visits": {
        "person": INT64,
        "visit": INT64,
        "kind": TEXT,
        "ok": BOOLEAN,
        "cost": FLOAT64,
        "place": INT64,
        "day": DATE,
    },
    "people": {"person": INT64, "sex": TEXT, "cost": FLOAT64},
    "items": {"visit": INT64, "label": TEXT},
    "places": {"code": INT64, "region": TEXT, "low": INT64, "high": INT64},
}
OWN = Ownership(path=(), column="person", type=INT64)
VIA = Ownership(path=(OwnerStep(parent="visits", on=(("visit", "visit", INT64),)),), column="person", type=INT64)
OWNERS = {"visits": OWN, "people": OWN, "items": VIA}
AXIS = BlockRange(by=By.MONTH, first=2024 * 12, last=2024 * 12 + 11)


def declarations(
    *, neighbours: Neighbours = Neighbours.ADD_REMOVE, dated: bool = False, unit: str = "person"
) -> Declarations:
    """Returns what is declared: visits in blocks of months, if `dated`, and the rest in none."""
    tables = {
        name: TableDeclaration(
            name=name,
            public=name == "places",
            ownership=None if unit == "row" else OWNERS.get(name),
            dated=("day", DATE, "") if dated and name == "visits" else None,
        )
        for name in COLUMNS
    }
    return Declarations(
        dataset="test",
        privacy_unit=unit,
        neighbours=Neighbours.REPLACE_ONE if dated else neighbours,
        tables=tables,
        blocks=AXIS if dated else None,
    )


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of stored tables: the rows of `places`, and unique columns of private tables."""

    places: Sequence[tuple[Value, ...]] = ((1, "east", 0, 5), (2, "west", 3, 9), (2, "west", 20, 30))
    known: dict[str, tuple[frozenset[str], ...]] = field(
        default_factory=lambda: {"people": (frozenset({"person"}),), "visits": (frozenset({"visit"}),)}
    )

    def rows(self, table: str) -> int:
        return len(self.places)

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        rows = [row for row in self._of(columns) if None not in row]
        return max((rows.count(row) for row in rows), default=0)

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[tuple[Value, ...], ...]:
        names = list(COLUMNS["places"])
        return tuple(dict.fromkeys(tuple(row[names.index(column)] for column in columns) for row in self.places))

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        return self.known.get(table, ())

    def _of(self, columns: frozenset[str]) -> list[tuple[Value, ...]]:
        names = list(COLUMNS["places"])
        return [tuple(row[names.index(column)] for column in sorted(columns)) for row in self.places]


def scan(
    table: str, alias: str, *, max_rows: int | None = None, limit: int = 1000, unit: bool = True, by_row: bool = False
) -> Scan:
    """Returns a scan of all columns, whose ids are the alias and the name; with a weight `<alias>_w` for `max_rows`."""
    owner = None if by_row else OWNERS.get(table)
    told = f"{alias}_person" if owner is not None and unit else None
    return Scan(
        table=table,
        columns=tuple(ScanColumn(id=f"{alias}_{name}", name=name, type=t) for name, t in COLUMNS[table].items()),
        public=table == "places",
        ownership=owner,
        unit=told,
        row_limit=limit,
        weight=None if max_rows is None else f"{alias}_w",
        max_rows=max_rows,
    )


def of(id: str, type: Type = INT64) -> Column:
    """Returns a column by its id."""
    return Column(id=id, type=type)


def number(value: int) -> Literal:
    """Returns a whole number."""
    return Literal(value=value, type=INT64)


def day(text: str) -> Literal:
    """Returns a date."""
    return Literal(value=datetime.date.fromisoformat(text), type=DATE)


def where(source: Relation, function: str, *parts: Expression) -> Filter:
    """Returns the rows for which an operation is true."""
    return Filter(source=source, condition=call(function, parts))


def kept(source: Relation, *ids: str, **made: Expression) -> Project:
    """Returns some columns under their ids, and computed ones."""
    types = {column.id: column.type for column in output(source)}
    columns = [Computed(id=id, name="", expression=Column(id=id, type=types[id])) for id in ids]
    columns += [Computed(id=id, name="", expression=expression) for id, expression in made.items()]
    return Project(source=source, columns=tuple(columns))


def join(
    left: Relation, right: Relation, *pairs: tuple[str, str], kind: JoinKind = "inner", on: Expression | None = None
) -> Join:
    """Returns a join on equal columns."""
    types = {column.id: column.type for side in (left, right) for column in output(side)}
    equalities = tuple((Column(id=a, type=types[a]), Column(id=b, type=types[b])) for a, b in pairs)
    return Join(left=left, right=right, kind=kind, equalities=equalities, condition=on)


def both(kind: SetKind, left: Relation, right: Relation, **pairs: tuple[str, str]) -> SetOperation:
    """Returns a set operation of the columns that are named, each from a column of either side."""
    types = {column.id: column.type for column in output(left)}
    columns = tuple(Matched(id=id, name="", type=types[a], left=a, right=b) for id, (a, b) in pairs.items())
    return SetOperation(kind=kind, left=left, right=right, columns=columns)


def numbered(source: Relation, order: str, *by: str, id: str = "rn", function: str = "row_number") -> Window:
    """Returns the rows with their number among those that agree."""
    column = WindowColumn(
        id=id,
        name=id,
        function=function,
        arguments=(),
        filter=None,
        partition_by=by,
        order_by=(SortKey(column=order),),
        frame=None,
        type=INT64,
    )
    return Window(source=source, columns=(column,))


def listed(**columns: tuple[Value, ...]) -> Listed:
    """Returns a literal table of whole numbers or texts."""
    types = {id: TEXT if any(isinstance(v, str) for v in values) else INT64 for id, values in columns.items()}
    made = tuple(OutputColumn(id=id, name=id, type=type) for id, type in types.items())
    return Listed(columns=made, rows=tuple(zip(*columns.values(), strict=True)))


VISITS = scan("visits", "v")
ROWS = Measure(id="n", label="", count=Count.ROWS)
UNITS = Measure(id="u", label="", count=Count.UNITS)


def total(lower: int, upper: int, *, value: str = "v_visit", filter: str | None = None, offset: int = 0) -> Measure:
    """Returns a sum of lattice values."""
    lattice = Lattice(grid=Fraction(1), lower=lower, upper=upper, offset=offset)
    return Measure(id="s", label="", count=Count.SUM, value=value, filter=filter, lattice=lattice)


def weights(
    weighing: Weighing = Weighing.COUNTED,
    max_rows: int = 1,
    *,
    column: str | None = None,
    groups: int | None = None,
    most: int | None = None,
) -> Weights:
    """Returns weights."""
    return Weights(weighing=weighing, max_rows=max_rows, column=column, max_groups=groups, most_rows=most)


def aggregate(
    *measures: Measure,
    weights: Weights = WHOLE_ROW,
    keys: int | None = 0,
    source: Relation = VISITS,
    unit: str | None = "v_person",
    selection: str | None = None,
) -> PrivateAggregate:
    """Returns a private aggregate by no key, by one with so many public values, or by one that is selected (None)."""
    made: tuple[Key, ...] = ()
    if keys is None:
        made = (Key.of("v_place", INT64, None),)
    elif keys:
        made = (Key.of("v_place", INT64, range(1, keys + 1)),)
    return PrivateAggregate(
        source=source, unit=unit, keys=made, weights=weights, measures=measures, selection=selection
    )
