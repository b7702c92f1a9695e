"""The gate believes nothing: a plan made by a defect, not by the planner, is refused before it is charged or run."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

import pytest

import dpquery as dp
from dpquery.kernel.plan import (
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Key,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.kernel.release import ExactAggregates, release
from dpquery.kernel.work import Allowed
from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.exact import FIRST
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Call, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Frame,
    Join,
    JoinKind,
    Limit,
    Matched,
    OutputColumn,
    Project,
    Relation,
    Released,
    Scan,
    ScanColumn,
    SetKind,
    SetOperation,
    Sort,
    SortKey,
    Values,
    Window,
    WindowColumn,
)
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, TEXT, TIMESTAMP, Type
from dpquery.units.declarations import Declarations
from tests.properties.neighbours import folder
from tests.properties.worlds import PUBLIC_TABLES, ROW_TABLES, catalog_of, tables_of
from tests.weights import by_hand

CATALOGS = {unit: catalog_of(unit=unit) for unit in ("int64", "row")}
MOMENT = datetime.datetime(2024, 3, 1)
Node = TypeVar("Node", Join, SetOperation, Frame)
TYPES = {"int64": INT64, "unit": INT64, "text": TEXT, "boolean": BOOLEAN}


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


def scan(table: str, alias: str, unit: str = "int64") -> Scan:
    """Returns a scan of the columns with plain types; ids are the alias and the column's name."""
    catalog = CATALOGS[unit]
    known = {name: TYPES[type] for name, type in tables_of(catalog)[table].items() if type in TYPES}
    columns = tuple(ScanColumn(id=f"{alias}_{name}", name=name, type=type) for name, type in known.items())
    owner = catalog.tables[table].ownership
    unit_id = None if owner is None else f"{alias}_{owner.column}" if not owner.path else f"{alias}_owner"
    return Scan(table=table, columns=columns, public=table in PUBLIC_TABLES, ownership=owner, unit=unit_id)


def column(id: str, type: Type = INT64) -> Column:
    return Column(id=id, type=type)


def kept(source: Relation, **columns: Expression) -> Project:
    return Project(source=source, columns=tuple(Computed(id=id, name="", expression=e) for id, e in columns.items()))


def join(
    left: Relation, right: Relation, *pairs: tuple[str, str], kind: JoinKind = "inner", on: Expression | None = None
) -> Join:
    return Join(
        left=left, right=right, kind=kind, equalities=tuple((column(a), column(b)) for a, b in pairs), condition=on
    )


ROWS = Measure(id="n", label="COUNT(*)", count=Count.ROWS)
UNITS = Measure(id="u", label="units", count=Count.UNITS)
VISITS, OTHERS, PEOPLE, PLACES = scan("visits", "v"), scan("visits", "w"), scan("people", "p"), scan("places", "c")
ITEMS, MORE = (replace(scan("items", alias), unit=None) for alias in ("i", "j"))
"""Rows owned by the visit that they name; only a join tells by whom."""
TRUE = Literal(value=True, type=BOOLEAN)
POSITIVE = call("gt", (column("v_score"), Literal(value=0, type=INT64)))
KIND = Key.of("v_kind", TEXT, ("a", "b"))
NOTE = Key.of("v_note", TEXT, None)
PAIRS = Key(columns=("v_kind", "v_ok"), types=(TEXT, BOOLEAN), domain=(("a", True), ("b", False), (None, None)))


def count(source: Relation, unit: str | None = "v_person", **more: object) -> BudgetedAggregate:
    """Returns COUNT(*) over a relation, with noise."""
    aggregate = PrivateAggregate(source=source, unit=unit, keys=(), weights=by_hand(unit, 1, 1), measures=(ROWS,))
    aggregate = replace(aggregate, **{k: v for k, v in more.items() if k != "delta"})  # type: ignore[arg-type]
    noise = Noise(mechanism=Mechanism.GAUSSIAN, loss=dp.PrivacyLoss(rho=Fraction(1)))
    delta = more.get("delta", Fraction(0))
    assert isinstance(delta, Fraction)
    return BudgetedAggregate(aggregate=aggregate, noise=(noise,) * len(aggregate.measures), selection_delta=delta)


def of_kind(node: Node, kind: str) -> Node:
    """Returns the node with a kind, or a frame's mode, that no constructor takes."""
    object.__setattr__(node, "mode" if isinstance(node, Frame) else "kind", kind)
    return node


def unlimited(source: Scan, rows: object) -> Scan:
    """Returns the scan with a row limit that no constructor makes."""
    made = replace(source)
    object.__setattr__(made, "row_limit", rows)
    return made


def sort(source: Relation) -> Sort:
    return Sort(source=source, keys=(SortKey(column="v_score", descending=False, nulls_first=False),))


def grouped(source: Relation, *keys: str) -> Aggregate:
    total = AggregateColumn(id="t", name="sum", function=SUM, argument=column("v_score"), filter=None, type=INT64)
    return Aggregate(source=source, group_by=keys, aggregates=(total,))


def named(function: str) -> AggregateColumn:
    """Returns an aggregate of any name, as no constructor makes it."""
    made = AggregateColumn(id="t", name="t", function=COUNT, argument=None, filter=None, type=INT64)
    object.__setattr__(made, "function", AGGREGATES.get(function, function))
    return made


def exactly(function: str) -> Aggregate:
    """Returns the visits of each person, aggregated by a function."""
    return Aggregate(source=VISITS, group_by=("v_person",), aggregates=(named(function),))


def both(kind: SetKind, left: Relation, right: Relation, *pairs: tuple[str, str], type: Type = INT64) -> SetOperation:
    """Returns a set operation that matches these columns; the first of them is `x0`."""
    columns = tuple(Matched(id=f"x{i}", name="", type=type, left=a, right=b) for i, (a, b) in enumerate(pairs))
    return SetOperation(kind=kind, left=left, right=right, columns=columns)


def windowed(source: Relation, *columns: WindowColumn) -> Window:
    return Window(source=source, columns=columns)


def numbered(id: str, *by: str, order: str = "v_score", function: str = "row_number") -> WindowColumn:
    """Returns a window function without arguments, also one that nobody knows."""
    keys = (SortKey(column=order),)
    made = WindowColumn(
        id=id,
        name=id,
        function="row_number",
        arguments=(),
        filter=None,
        partition_by=by,
        order_by=keys,
        frame=None,
        type=INT64,
    )
    object.__setattr__(made, "function", function)
    return made


def chosen(by: Expression) -> Aggregate:
    """Returns the first score of each person by an expression."""
    first = AggregateColumn(
        id="t", name="first", function=FIRST, argument=column("v_score"), second=by, filter=None, type=INT64
    )
    return Aggregate(source=VISITS, group_by=("v_person",), aggregates=(first,))


def foreign(function: str) -> Call:
    """Returns a call of a function that nobody knows."""
    return Call(function=function, arguments=(column("v_score"),), type=BOOLEAN)


def keyed(by: Expression, kind: JoinKind = "inner", on: Expression | None = None) -> Join:
    """Returns a join of visits and their items where an expression is the items' key."""
    return Join(left=VISITS, right=ITEMS, kind=kind, equalities=((by, column("i_visit")),), condition=on)


SAME_VISIT = call("eq", (column("v_visit"), column("i_visit")))
OWNER = call("coalesce", (column("v_person"), column("p_id")))
FRAME = Frame(mode="rows", start=None, end=0)
ALLOWED = {
    "count": count(VISITS),
    "known aggregate of a unit's rows": count(exactly("count"), unit="v_person"),
    "floats among the public keys": count(
        kept(VISITS, v_person=column("v_person"), share=Literal(value=0.5, type=FLOAT64)),
        keys=(Key.of("share", FLOAT64, (0.5, 1.5)),),
    ),
    "filter": count(Filter(source=VISITS, condition=POSITIVE)),
    "projection": count(kept(VISITS, x=column("v_person")), unit="x"),
    "public join": count(join(VISITS, PLACES, ("v_place", "c_code"))),
    "private join": count(join(VISITS, PEOPLE, ("v_person", "p_id"))),
    "left join": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left")),
    "left join, then a join on what it filled up": count(
        join(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left"), OTHERS, ("p_id", "w_person")), unit="p_id"
    ),
    "full join": count(kept(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"), x=OWNER), unit="x"),
    "private left join": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left")),
    "public semi-join": count(join(VISITS, PLACES, ("v_place", "c_code"), kind="semi")),
    "public anti-join by a condition alone": count(join(VISITS, PLACES, kind="anti", on=TRUE)),
    "private semi-join": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="semi")),
    "private anti-join": count(join(VISITS, PEOPLE, ("v_person", "p_id"), ("v_score", "p_age"), kind="anti")),
    "per unit": count(grouped(VISITS, "v_person", "v_kind")),
    "public join of public tables": count(
        join(VISITS, join(PLACES, scan("tags", "t"), ("c_code", "t_code")), ("v_place", "c_code"))
    ),
    "window over a frame": count(windowed(VISITS, replace(numbered("w", "v_person"), frame=FRAME))),
    "union": count(both("union_all", VISITS, PEOPLE, ("v_person", "p_id"), ("v_score", "p_age")), unit="x0"),
    "intersection": count(both("intersect_all", VISITS, PEOPLE, ("v_person", "p_id")), unit="x0"),
    "difference": count(both("except", VISITS, PEOPLE, ("v_score", "p_age"), ("v_person", "p_id")), unit="x1"),
    "window over the unit": count(
        windowed(VISITS, numbered("w", "v_person"), numbered("x", "v_kind", "v_person", function="rank"))
    ),
    "window over a window": count(
        windowed(windowed(VISITS, numbered("w", "v_person")), numbered("x", "v_person", order="w"))
    ),
    "a row of each unit": count(chosen(column("v_visit"))),
    "child and parent on the key": count(join(ITEMS, VISITS, ("i_visit", "v_visit"))),
    "parent and child on the key": count(join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="cross", on=POSITIVE)),
    "child, and a parent that was filtered and renamed": count(
        join(
            ITEMS,
            kept(Filter(source=VISITS, condition=POSITIVE), x=column("v_person"), y=column("v_visit")),
            ("i_visit", "y"),
        ),
        unit="x",
    ),
    "a parent without or with its children": count(join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="left")),
    "parents that have children": count(join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="semi")),
    "parents that have none": count(join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="anti")),
    "child with a public table, then with its parent": count(
        join(join(ITEMS, PLACES, ("i_visit", "c_code"), kind="left"), VISITS, ("i_visit", "v_visit"))
    ),
    "two children, by one another's key": count(
        join(join(ITEMS, VISITS, ("i_visit", "v_visit")), MORE, ("i_visit", "j_visit"))
    ),
    "a child that finds its owner, and one that finds it there": count(
        join(scan("items", "k"), ITEMS, ("k_visit", "i_visit")), unit="k_owner"
    ),
    "child and a parent that meets others": count(
        join(join(VISITS, OTHERS, ("v_person", "w_person")), ITEMS, ("w_visit", "i_visit"))
    ),
    "public keys": count(VISITS, keys=(KIND,)),
    "keys of two columns": count(VISITS, keys=(PAIRS,)),
    "keys of two columns beside selected ones": count(
        VISITS, keys=(PAIRS, NOTE), measures=(ROWS, UNITS), selection="u", delta=Fraction(1, 10**9)
    ),
    "selected": count(VISITS, keys=(NOTE,), measures=(ROWS, UNITS), selection="u", delta=Fraction(1, 10**9)),
}
UNION = both("union_all", VISITS, PEOPLE, ("v_person", "p_id"))
OF_NO_KNOWN_KIND = {
    "join": count(of_kind(join(VISITS, PLACES, ("v_place", "c_code")), "sideways")),
    "join of public tables": count(
        join(VISITS, of_kind(join(PLACES, scan("tags", "t"), ("c_code", "t_code")), "sideways"), ("v_place", "c_code"))
    ),
    "set operation": count(of_kind(replace(UNION), "minus"), unit="x0"),
    "frame": count(windowed(VISITS, replace(numbered("w", "v_person"), frame=of_kind(replace(FRAME), "rows) ; drop")))),
}
"""Nodes with kinds of which no rule speaks; with a known one each of them runs."""
REFUSED = {
    **{f"a {name} of no known kind": budgeted for name, budgeted in OF_NO_KNOWN_KIND.items()},
    "child without its owner": count(ITEMS, unit="i_visit"),
    "child without its owner, as public": count(ITEMS, unit=None),
    "child and parent, without a unit": count(join(ITEMS, VISITS, ("i_visit", "v_visit")), unit=None),
    "child and parent, the key as the unit": count(join(ITEMS, VISITS, ("i_visit", "v_visit")), unit="i_visit"),
    "child and another column of its parent": count(join(ITEMS, VISITS, ("i_visit", "v_score"))),
    "child and its parent's unit": count(join(ITEMS, VISITS, ("i_visit", "v_person"))),
    "child and another private table": count(join(ITEMS, PEOPLE, ("i_visit", "p_id")), unit="p_id"),
    "child and a public table": count(join(ITEMS, PLACES, ("i_visit", "c_code")), unit="i_visit"),
    "child and a literal table": count(
        join(ITEMS, Values(columns=(OutputColumn(id="v_visit", name="visit", type=INT64),), rows=((1,),))),
        unit="v_visit",
    ),
    "child and a public table that is called as its parent": count(
        join(ITEMS, replace(VISITS, public=True, ownership=None, unit=None), ("i_visit", "v_visit")), unit="v_person"
    ),
    "child and a computed key": count(keyed(call("abs", (column("v_visit"),)))),
    "child and a constant": count(keyed(Literal(value=1, type=INT64))),
    "child and a key that was computed before": count(
        join(ITEMS, kept(VISITS, v_person=column("v_person"), y=call("abs", (column("v_visit"),))), ("i_visit", "y"))
    ),
    "child and parent by a condition alone": count(join(VISITS, ITEMS, on=SAME_VISIT)),
    "child and parent where NULL equals NULL": count(
        join(VISITS, ITEMS, on=call("not", (call("is_distinct_from", (column("v_visit"), column("i_visit"))),)))
    ),
    "child and parent by one condition or another": count(join(VISITS, ITEMS, on=call("or", (SAME_VISIT, TRUE)))),
    "child and parent, all pairs": count(join(VISITS, ITEMS, kind="cross")),
    "child, and its parent where there is one": count(join(ITEMS, VISITS, ("i_visit", "v_visit"), kind="left")),
    "parents and all children": count(join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="right")),
    "children that have parents": count(join(ITEMS, VISITS, ("i_visit", "v_visit"), kind="semi")),
    "children that have parents, the key as the unit": count(
        join(ITEMS, VISITS, ("i_visit", "v_visit"), kind="semi"), unit="i_visit"
    ),
    "children that have none": count(join(ITEMS, VISITS, ("i_visit", "v_visit"), kind="anti"), unit="i_visit"),
    "full join of child and parent": count(
        kept(join(ITEMS, VISITS, ("i_visit", "v_visit"), kind="full"), v_person=column("v_person"))
    ),
    "full join of parent and child, a coalesce": count(
        kept(
            join(VISITS, ITEMS, ("v_visit", "i_visit"), kind="full"),
            x=call("coalesce", (column("v_visit"), column("i_visit"))),
        ),
        unit="x",
    ),
    "parents chosen by another column of their children": count(
        join(VISITS, ITEMS, ("v_score", "i_visit"), kind="semi")
    ),
    "parents not chosen by children": count(join(VISITS, ITEMS, kind="anti", on=SAME_VISIT)),
    "child and parent where the parent was filled up": count(
        join(join(PEOPLE, VISITS, ("p_id", "v_person"), kind="left"), ITEMS, ("v_visit", "i_visit")), unit="p_id"
    ),
    "child and parent after a full join": count(
        join(
            kept(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"), x=OWNER, y=column("v_visit")),
            ITEMS,
            ("y", "i_visit"),
        ),
        unit="x",
    ),
    "child and grouped parents": count(join(grouped(VISITS, "v_person", "v_visit"), ITEMS, ("t", "i_visit"))),
    "child and a union with its parents": count(
        join(both("union_all", VISITS, PEOPLE, ("v_person", "p_id"), ("v_visit", "p_age")), ITEMS, ("x1", "i_visit")),
        unit="x0",
    ),
    "child without its key": count(join(kept(ITEMS, y=column("i_label", TEXT)), VISITS), unit="v_person"),
    "child with another column as its key": count(
        join(
            kept(join(ITEMS, PLACES, kind="cross"), i_visit=column("c_code"), y=column("i_visit")),
            VISITS,
            ("i_visit", "v_visit"),
        )
    ),
    "groups of a child": count(
        join(Aggregate(source=ITEMS, group_by=("i_visit",), aggregates=()), VISITS, ("i_visit", "v_visit"))
    ),
    "window over a child": count(
        join(windowed(ITEMS, numbered("w", "i_visit", order="i_visit")), VISITS, ("i_visit", "v_visit"))
    ),
    "children in a union": count(
        join(both("union_all", ITEMS, MORE, ("i_visit", "j_visit")), VISITS, ("x0", "v_visit"))
    ),
    "limited children": count(
        join(VISITS, Limit(source=ITEMS, count=1, offset=0), ("v_visit", "i_visit"), kind="semi")
    ),
    "two children, neither of which has an owner": count(join(ITEMS, MORE, ("i_visit", "j_visit")), unit="i_visit"),
    "two children, one by its own key": count(
        join(join(ITEMS, VISITS, ("i_visit", "v_visit")), MORE, ("v_score", "j_visit"))
    ),
    "child without its key's column": count(join(replace(ITEMS, columns=ITEMS.columns[1:]), VISITS, kind="cross")),
    "child owned by another path": count(
        join(
            replace(ITEMS, ownership=replace(VISITS.ownership, path=ITEMS.ownership.path, column="score")),  # type: ignore[type-var, union-attr]
            VISITS,
            ("i_visit", "v_visit"),
        )
    ),
    "filter on another table's column": count(Filter(source=VISITS, condition=column("w_ok", BOOLEAN))),
    "filter by an unknown function": count(Filter(source=VISITS, condition=foreign("now_or_never"))),
    "unknown function within": count(Filter(source=VISITS, condition=call("and", (TRUE, foreign("random"))))),
    "projection of an unknown column": count(kept(VISITS, v_person=column("v_person"), x=column("nothing"))),
    "projection by an unknown function": count(kept(VISITS, v_person=column("v_person"), x=foreign("random"))),
    "projection without the unit": count(kept(VISITS, x=column("v_score")), unit="x"),
    "computed unit": count(kept(VISITS, x=call("add", (column("v_person"), Literal(value=0, type=INT64)))), unit="x"),
    "join without the units": count(join(VISITS, PEOPLE, ("v_score", "p_age"))),
    "join of a unit with something else": count(join(VISITS, PEOPLE, ("v_person", "p_age"))),
    "join by a condition alone": count(join(VISITS, PEOPLE, on=TRUE)),
    "cross join": count(join(VISITS, PEOPLE, kind="cross")),
    "join with itself": count(join(VISITS, VISITS, ("v_person", "v_person"))),
    "the filled-up side of a left join as unit": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left"), "p_id"),
    "the filled-up side, kept alone": count(
        kept(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left"), x=column("p_id")), unit="x"
    ),
    "groups by the filled-up side": count(
        grouped(join(PEOPLE, VISITS, ("p_id", "v_person"), kind="left"), "v_person"), unit="v_person"
    ),
    "left join without the units": count(join(VISITS, PEOPLE, ("v_score", "p_age"), kind="left")),
    "left join by a condition alone": count(
        join(VISITS, PEOPLE, kind="left", on=call("eq", (column("v_person"), column("p_id"))))
    ),
    "right join": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="right"), unit="p_id"),
    "full join alone": count(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full")),
    "full join under a filter": count(
        kept(
            Filter(source=join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"), condition=POSITIVE),
            x=OWNER,
        ),
        unit="x",
    ),
    "full join, one side's unit": count(
        kept(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"), x=OWNER, v_person=column("v_person"))
    ),
    "unknown aggregate of a unit's rows": count(exactly("approx_top_k"), unit="v_person"),
    "unknown aggregate of public rows": count(
        join(VISITS, Aggregate(source=PLACES, group_by=("c_code",), aggregates=(named("list"),)), ("v_place", "c_code"))
    ),
    "NaN among the public keys": count(
        kept(VISITS, v_person=column("v_person"), share=Literal(value=0.5, type=FLOAT64)),
        keys=(Key.of("share", FLOAT64, (0.5, math.nan)),),
    ),
    "one moment twice among the public keys": count(
        kept(VISITS, v_person=column("v_person"), at=Literal(value=MOMENT, type=TIMESTAMP)),
        keys=(Key.of("at", TIMESTAMP, (MOMENT, MOMENT.replace(tzinfo=datetime.UTC))),),
    ),
    "full join without its unit": count(
        kept(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"), v_person=column("v_person"))
    ),
    "full join off the units": count(kept(join(VISITS, PEOPLE, ("v_score", "p_age"), kind="full"), x=OWNER), unit="x"),
    "full join, another coalesce": count(
        kept(
            join(VISITS, PEOPLE, ("v_person", "p_id"), kind="full"),
            x=call("coalesce", (column("v_person"), column("p_age"))),
        ),
        unit="x",
    ),
    "full join, units of which one is filled up": count(
        kept(
            join(join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left"), OTHERS, ("p_id", "w_person"), kind="full"),
            x=call("coalesce", (column("p_id"), column("w_person"))),
        ),
        unit="x",
    ),
    "units of the right side of a left join": count(
        join(VISITS, PEOPLE, ("v_person", "p_id"), kind="left"), unit="p_id"
    ),
    "semi-join without the units": count(join(VISITS, PEOPLE, ("v_score", "p_age"), kind="semi")),
    "semi-join by a condition alone": count(join(VISITS, PEOPLE, kind="semi", on=TRUE)),
    "semi-join of a unit with something else": count(join(VISITS, PEOPLE, ("v_person", "p_age"), kind="semi")),
    "anti-join without the units": count(join(VISITS, PEOPLE, ("v_score", "p_age"), kind="anti")),
    "anti-join by a condition alone": count(
        join(VISITS, PEOPLE, kind="anti", on=call("eq", (column("v_person"), column("p_id"))))
    ),
    "anti-join of computed units": count(
        Join(
            left=VISITS,
            right=PEOPLE,
            kind="anti",
            equalities=((call("negate", (column("v_person"),)), call("negate", (column("p_id"),))),),
        )
    ),
    "public rows with private ones": count(join(PLACES, VISITS, ("c_code", "v_place"), kind="semi"), unit="c_code"),
    "public rows with private ones, as public": count(
        join(PLACES, VISITS, ("c_code", "v_place"), kind="semi"), unit=None
    ),
    "public rows without private ones, as public": count(
        join(PLACES, VISITS, ("c_code", "v_place"), kind="anti"), unit=None
    ),
    "units of the right side of a semi-join": count(
        join(VISITS, PEOPLE, ("v_person", "p_id"), kind="semi"), unit="p_id"
    ),
    "semi-join with limited rows": count(
        join(VISITS, Limit(source=PLACES, count=1, offset=0), ("v_place", "c_code"), kind="semi")
    ),
    "anti-join with a released table": count(
        join(
            VISITS,
            Released(index=0, columns=(OutputColumn(id="r", name="", type=INT64),)),
            ("v_score", "r"),
            kind="anti",
        )
    ),
    "semi-join under an unknown function": count(
        join(VISITS, PLACES, ("v_place", "c_code"), kind="semi", on=foreign("random"))
    ),
    "unmatched public rows": count(join(PLACES, VISITS, ("c_code", "v_place"), kind="left")),
    "unmatched public rows on the right": count(join(VISITS, PLACES, ("v_place", "c_code"), kind="right")),
    "full join with a public table": count(join(VISITS, PLACES, ("v_place", "c_code"), kind="full")),
    "full join with a public table, under a projection": count(
        kept(join(VISITS, PLACES, ("v_place", "c_code"), kind="full"), v_person=column("v_person"))
    ),
    "join on an unknown column": count(join(VISITS, PLACES, ("v_place", "c_code"), ("nothing", "c_code"))),
    "join under an unknown function": count(join(VISITS, PLACES, ("v_place", "c_code"), on=foreign("random"))),
    "union that matches no units": count(both("union_all", VISITS, PEOPLE, ("v_score", "p_age")), unit="x0"),
    "union of a unit with something else": count(
        both("union_all", VISITS, PEOPLE, ("v_person", "p_age"), ("v_score", "p_id")), unit="x0"
    ),
    "union of something else with a unit": count(
        both("union_all", VISITS, PEOPLE, ("v_person", "p_age"), ("v_score", "p_id")), unit="x1"
    ),
    "another column as the unit of a union": count(
        both("union_all", VISITS, PEOPLE, ("v_person", "p_id"), ("v_score", "p_age")), unit="x1"
    ),
    "union with public rows": count(both("union_all", VISITS, PLACES, ("v_person", "c_code")), unit="x0"),
    "union with released rows": count(
        both(
            "union_all",
            VISITS,
            Released(index=0, columns=(OutputColumn(id="r", name="", type=INT64),)),
            ("v_person", "r"),
        ),
        unit="x0",
    ),
    "union as public": count(both("union_all", VISITS, PEOPLE, ("v_person", "p_id")), unit=None),
    "union of other types": count(both("union_all", VISITS, PEOPLE, ("v_person", "p_id"), type=TEXT), unit="x0"),
    "union of a column that is not there": count(
        both("union_all", VISITS, PEOPLE, ("v_person", "p_id"), ("nothing", "p_age")), unit="x0"
    ),
    "intersection without the unit": count(both("intersect", VISITS, PEOPLE, ("v_score", "p_age")), unit="x0"),
    "difference without the unit": count(both("except_all", VISITS, PEOPLE, ("v_score", "p_age")), unit="x0"),
    "difference with public rows": count(both("except", VISITS, PLACES, ("v_person", "c_code")), unit="x0"),
    "public rows without private ones": count(both("except", PLACES, VISITS, ("c_code", "v_person")), unit="x0"),
    "union of sorted rows": count(both("union_all", sort(VISITS), PEOPLE, ("v_person", "p_id")), unit="x0"),
    "sorted rows": count(sort(VISITS)),
    "limited rows": count(Limit(source=sort(VISITS), count=3, offset=0)),
    "sorted rows as public": count(sort(VISITS), unit=None),
    "limited rows as public": count(Limit(source=sort(VISITS), count=3, offset=0), unit=None),
    "exact totals of all": count(grouped(VISITS, "v_kind"), unit="v_kind"),
    "exact grand total": count(grouped(VISITS), unit="t"),
    "window without partitions": count(windowed(VISITS, numbered("w"))),
    "window over all units": count(windowed(VISITS, numbered("w", "v_kind"))),
    "one window of two over all units": count(
        windowed(VISITS, numbered("w", "v_person"), numbered("x", "v_kind", function="rank"))
    ),
    "window by an unknown column": count(windowed(VISITS, numbered("w", "v_person", "nothing"))),
    "window in an unknown order": count(windowed(VISITS, numbered("w", "v_person", order="nothing"))),
    "unknown window function": count(windowed(VISITS, numbered("w", "v_person", function="random"))),
    "window of an unknown argument": count(
        windowed(VISITS, replace(numbered("w", "v_person", function="sum"), arguments=(column("nothing"),)))
    ),
    "window under an unknown filter": count(
        windowed(VISITS, replace(numbered("w", "v_person", function="count"), filter=column("w_ok", BOOLEAN)))
    ),
    "places in two orders": count(
        windowed(VISITS, numbered("w", "v_person"), numbered("x", "v_person", order="v_visit"))
    ),
    "a column made by a window as the unit": count(windowed(VISITS, numbered("w", "v_person")), unit="w"),
    "rows chosen by another table's column": count(chosen(column("p_age"))),
    "rows chosen by an unknown function": count(chosen(foreign("random"))),
    "released table": count(Released(index=0, columns=(OutputColumn(id="v_person", name="", type=INT64),))),
    "join with a released table": count(
        join(VISITS, Released(index=0, columns=(OutputColumn(id="r", name="", type=INT64),)), ("v_score", "r"))
    ),
    "a unit that is none": count(VISITS, unit="v_kind"),
    "no unit": count(VISITS, unit=None),
    "a private table as public": count(replace(VISITS, public=True, ownership=None, unit=None), unit=None),
    "another owner": count(replace(VISITS, ownership=scan("people", "p").ownership)),
    "an undeclared table": count(replace(VISITS, table="secrets")),
    "a key that is not there": count(VISITS, keys=(replace(KIND, columns=("nothing",)),)),
    "a key with a column that is not there": count(VISITS, keys=(replace(PAIRS, columns=("v_kind", "nothing")),)),
    "a key with a column of another type": count(VISITS, keys=(replace(PAIRS, types=(TEXT, TEXT)),)),
    "a key with a value of another type": count(VISITS, keys=(replace(PAIRS, domain=(("a", True), ("b", 0))),)),
    "a value that is not there": count(
        VISITS, measures=(Measure(id="n", label="", count=Count.VALUES, value="nothing"),)
    ),
    "a filter that is not there": count(VISITS, measures=(replace(ROWS, filter="nothing"),)),
    "a filter that is not boolean": count(VISITS, measures=(replace(ROWS, filter="v_score"),)),
    "two measures of one id": count(VISITS, measures=(ROWS, replace(UNITS, id="n"))),
    "selection without a measure": count(VISITS, keys=(NOTE,), delta=Fraction(1, 2)),
    "selection by rows": count(VISITS, keys=(NOTE,), selection="n", delta=Fraction(1, 2)),
    "selection by some units": count(
        VISITS, keys=(NOTE,), measures=(ROWS, replace(UNITS, filter="v_ok")), selection="u", delta=Fraction(1, 2)
    ),
    "selection without delta": count(VISITS, keys=(NOTE,), measures=(ROWS, UNITS), selection="u"),
    "selection of public groups": count(VISITS, keys=(KIND,), measures=(ROWS, UNITS), selection="u"),
    "delta for public groups": count(VISITS, keys=(KIND,), delta=Fraction(1, 2)),
    "any number of a unit's rows": count(unlimited(VISITS, 10**18)),
    "no rows of a unit": count(unlimited(VISITS, 0)),
    "a limit that is no number": count(unlimited(VISITS, None)),
    "any number of rows deep in a plan": count(
        join(PEOPLE, unlimited(VISITS, 10**18), ("p_id", "v_person")), unit="p_id"
    ),
    "two limits for one table": count(
        join(VISITS, replace(OTHERS, row_limit=7), ("v_person", "w_person")), unit="v_person"
    ),
    "numbers that overflow": count(
        VISITS,
        measures=(
            Measure(
                id="n",
                label="",
                count=Count.SUM,
                value="v_score",
                lattice=Lattice(grid=Fraction(1), lower=0, upper=2**62),
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_plans_in_the_kernels_language_are_run(name: str, shelf: str) -> None:
    assert run(ALLOWED[name], f"{shelf}/allowed {name}") == "ran"


@pytest.mark.parametrize("name", REFUSED)
def test_other_plans_are_refused_before_they_are_charged(name: str, shelf: str) -> None:
    assert run(REFUSED[name], f"{shelf}/refused {name}") == "refused"


def literal_table(rows: int) -> Values:
    """Returns a table of constants."""
    return Values(columns=(OutputColumn(id="x", name="x", type=INT64),), rows=((1,),) * rows)


def code_is(id: str) -> Expression:
    """Returns the condition that a column is 1."""
    return call("eq", (column(id), Literal(value=1, type=INT64)))


ITSELF = call("eq", (column("c_code"), call("abs", (column("c_code"),))))
ROW_VISITS, ROW_TAGS, ROW_PLACES = scan("visits", "v", "row"), scan("tags", "t", "row"), scan("places", "c", "row")


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        (ROW_VISITS, True),
        (join(ROW_VISITS, ROW_PLACES, ("v_place", "c_code")), True),
        (join(ROW_VISITS, ROW_PLACES, ("v_place", "c_code"), kind="left"), True),
        (join(ROW_VISITS, Filter(source=ROW_PLACES, condition=TRUE), ("v_place", "c_code")), True),
        (join(ROW_VISITS, ROW_TAGS, ("v_place", "t_code")), False),
        (join(ROW_VISITS, ROW_PLACES, kind="cross"), False),
        (join(ROW_VISITS, join(ROW_PLACES, ROW_TAGS, ("c_code", "t_code")), ("v_place", "c_code")), False),
        (join(ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit")), False),
        (grouped(ROW_VISITS, "v_visit"), False),
        (both("union_all", ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit")), False),
        (
            both(
                "union_all",
                Filter(source=ROW_VISITS, condition=TRUE),
                join(scan("visits", "w", "row"), ROW_PLACES, ("w_place", "c_code")),
                ("v_visit", "w_visit"),
            ),
            False,
        ),
        (both("intersect", ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit")), False),
        (both("except_all", ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit")), False),
        (both("union_all", ROW_VISITS, ROW_PLACES, ("v_visit", "c_code")), False),
        (join(ROW_VISITS, ROW_TAGS, ("v_place", "t_code"), kind="semi"), True),
        (join(ROW_VISITS, ROW_TAGS, kind="anti", on=TRUE), True),
        (join(ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit"), kind="semi"), False),
        (join(ROW_VISITS, scan("visits", "w", "row"), ("v_visit", "w_visit"), kind="anti"), False),
        (join(ROW_VISITS, Aggregate(source=ROW_TAGS, group_by=(), aggregates=()), kind="cross"), True),
        (join(ROW_VISITS, literal_table(1), kind="cross"), True),
        (join(ROW_VISITS, literal_table(2), kind="cross"), False),
        (join(ROW_VISITS, join(literal_table(1), ROW_TAGS, kind="cross"), kind="cross"), False),
        (join(ROW_VISITS, Filter(source=ROW_PLACES, condition=code_is("c_code")), kind="left"), True),
        (join(ROW_VISITS, Filter(source=ROW_TAGS, condition=code_is("t_code")), kind="left"), False),
        (join(ROW_VISITS, Filter(source=ROW_PLACES, condition=ITSELF), kind="left"), False),
        (windowed(ROW_VISITS, numbered("w", "v_visit")), False),
    ],
)
def test_where_each_row_is_a_unit_no_row_may_become_several(source: Relation, allowed: bool, shelf: str) -> None:
    assert "visit" in ROW_TABLES["visits"]
    assert run(count(source, unit=None), f"{shelf}/{id(source)}", "row") == ("ran" if allowed else "refused")


def test_another_promise_than_the_ledgers_is_refused(shelf: str) -> None:
    """The plan of a dataset of persons does not pass where each row is a unit, nor the other way round."""
    assert run(count(VISITS), f"{shelf}/persons", "row") == "refused"
    assert run(count(ROW_VISITS, unit=None), f"{shelf}/rows", "int64") == "refused"


class OneOfEach:
    """Sizes with which no join multiplies rows: what is tested here is whose rows they are."""

    def rows(self, table: str) -> int:
        return 1

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        return 1

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        return (frozenset(),)


ANY_WORK = Allowed(steps=10**6, sizes=OneOfEach())  # type: ignore[arg-type]


def run(budgeted: BudgetedAggregate, path: str, unit: str = "int64") -> str:
    """Returns whether the gate ran a plan, or refused it without asking the backend or charging anything."""
    catalog = CATALOGS[unit]
    declared: Declarations = catalog.declarations
    ledger = dp.Ledger.create(path, declared, catalog.budget, catalog.analysts)
    engine = Asked()
    plan = BudgetedPlan(aggregates=(budgeted,))
    mark = ledger.mark
    with pytest.raises((dp.InternalError, dp.BackendError)) as raised:
        release(plan, engine=engine, allowed=ANY_WORK, ledger=ledger, analyst="alice", query="")
    if isinstance(raised.value, dp.BackendError):
        assert engine.steps == ["prepare", "run"]
        assert ledger.spent(None).rho > 0
        return "ran"
    assert not engine.steps
    assert ledger.mark == mark
    return "refused"


class Asked:
    """A backend that notes what it is asked for, and fails when it is to run."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def prepare(self, aggregate: PrivateAggregate) -> PrivateAggregate:
        self.steps.append("prepare")
        return aggregate

    def run(self, statement: PrivateAggregate, key: int) -> ExactAggregates:
        self.steps.append("run")
        raise ValueError
