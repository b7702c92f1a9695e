"""How many rows a unit has, and how many values in a column: each rule, and what it must not be used for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Call, Case, Cast, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.keys import Key
from dpquery.plan.logical import Aggregate, AggregateColumn, Filter, Project, Relation
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT
from dpquery.units.row_counts import different_values
from dpquery.units.unit_local import NotUnitLocal
from dpquery.units.weights import distinct_groups, pairs_of_unit, weighed
from tests.weighing import Facts, both, declarations, join, kept, listed, number, numbered, of, scan, where

MANY = 10**9
V, W = scan("visits", "v", limit=MANY), scan("visits", "w", limit=MANY)
P = scan("people", "p", limit=MANY)
NOT_UNIQUE = Facts(known={})
UNITS = ("v_person", "w_person")
OK, COST, DAY = of("v_ok", BOOLEAN), of("v_cost", FLOAT64), of("v_day", DATE)
TOTAL = AggregateColumn(id="t", name="", function=SUM, argument=of("v_place"), filter=None, type=INT64)


def rows(relation: Relation, *, facts: Facts | None = None, dated: bool = False) -> int | None:
    """Returns the most rows of a unit; what the limit of a scan alone says is left out, as None."""
    found = weighed(relation, declarations(dated=dated), facts or Facts()).rows
    return None if found is None or found >= MANY else found


def values(relation: Relation, *ids: str) -> int | None:
    found = distinct_groups(relation, frozenset(ids), declarations(), Facts())
    return None if found is None or found >= MANY else found


def grouped(source: Relation, *keys: str) -> Aggregate:
    return Aggregate(source=source, group_by=keys, aggregates=(TOTAL,))


def projected(**made: Expression) -> Project:
    return kept(V, "v_person", **made)


# Rows.


def test_a_column_that_is_unique_makes_one_row_of_a_unit() -> None:
    assert rows(P) == 1
    assert rows(P, facts=NOT_UNIQUE) is None
    assert rows(V) is None, "unique visits are many of a person"
    assert rows(where(V, "eq", of("v_visit"), number(7))) == 1
    assert rows(where(V, "ge", of("v_visit"), number(7))) is None
    assert rows(kept(P, "p_person")) == 1


def test_limits_of_scans_bound_rows() -> None:
    assert weighed(scan("visits", "v", limit=12), declarations(), Facts()).rows == 12
    assert weighed(scan("items", "i", limit=12), declarations(), Facts()).rows == 12


GROUPED = {
    ("v_person",): 1,
    ("v_person", "v_ok"): 3,
    ("v_ok", "v_person", "half"): 9,
    ("v_person", "month"): 13,
    ("v_person", "month", "v_ok"): 39,
    ("v_person", "v_place"): None,
    ("v_person", "constant"): 1,
    ("v_person", "either"): 2,
    ("v_person", "listed"): 2,
    ("v_person", "cost"): None,
}


@pytest.mark.parametrize("keys", GROUPED)
def test_rows_of_one_unit_and_few_values(keys: tuple[str, ...]) -> None:
    case = Case(branches=((OK, number(1)),), otherwise=number(2), type=INT64)
    source = kept(
        V,
        *("v_person", "v_ok", "v_place"),
        half=call("gt", (COST, Literal(value=1.5, type=FLOAT64))),
        month=call("extract_month", (DAY,)),
        constant=number(3),
        either=case,
        listed=case,
        cost=COST,
    )
    assert rows(grouped(source, *keys)) == GROUPED[keys]
    distinct = Aggregate(source=source, group_by=keys, aggregates=())
    assert rows(distinct) == GROUPED[keys]


def test_an_aggregate_has_no_more_rows_than_its_source() -> None:
    first = where(numbered(V, "v_day", "v_person"), "le", of("rn"), number(4))
    assert rows(grouped(first, "v_person", "v_place")) == 4
    assert rows(grouped(first, "v_person", "v_ok")) == 3


NUMBERED = [
    ("eq", number(1), 1),
    ("eq", number(5), 1),
    ("le", number(5), 5),
    ("lt", number(5), 4),
    ("lt", number(1), 1),
    ("lt", number(-3), 1),
    ("ge", number(5), None),
    ("gt", number(5), None),
    ("ne", number(5), None),
    ("le", of("v_place"), None),
    ("le", Literal(value=None, type=INT64), None),
]


@pytest.mark.parametrize(("function", "limit", "most"), NUMBERED)
def test_the_first_rows_of_each_unit(function: str, limit: Expression, most: int | None) -> None:
    """At least 1 is said, of none as well."""
    source = numbered(V, "v_day", "v_person")
    assert rows(where(source, function, of("rn"), limit)) == most
    flipped = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}.get(function, function)
    assert rows(where(source, flipped, limit, of("rn"))) == most


def test_numbers_are_those_of_rows_of_one_unit() -> None:
    few = of("rn"), number(2)
    assert rows(where(numbered(V, "v_day", "v_person", "v_place"), "le", *few)) is None
    assert rows(where(numbered(V, "v_day", "v_person", function="rank"), "le", *few)) is None
    assert rows(where(numbered(V, "v_day", "v_person", function="dense_rank"), "le", *few)) is None
    by_kind = where(numbered(V, "v_day", "v_person", "v_ok"), "le", *few)
    assert rows(by_kind) == 6, "two of each of true, false and NULL"
    assert rows(grouped(where(numbered(V, "v_day", "v_person"), "le", *few), "v_person", "v_cost")) == 2


def test_numbers_stay_numbers_through_projections_and_filters() -> None:
    source = numbered(V, "v_day", "v_person")
    kept_as = kept(source, "v_person", number=of("rn"))
    assert rows(where(kept_as, "le", of("number"), number(2))) == 2
    assert rows(where(where(kept_as, "gt", of("v_person"), number(0)), "le", of("number"), number(2))) == 2
    half = kept(source, "v_person", number=call("int_divide", (of("rn"), number(2))))
    assert rows(where(half, "le", of("number"), number(2))) is None
    second = numbered(source, "rn", "v_person", id="again")
    assert rows(where(second, "le", of("rn"), number(2))) == 2
    doubled = join(source, listed(x=(1, 2, 3)), kind="cross")
    assert rows(where(doubled, "le", of("rn"), number(2))) is None, "three rows have each number"
    either = where(source, "or", call("le", (of("rn"), number(2))), OK)
    assert rows(either) is None
    both_hold = where(source, "and", call("le", (of("rn"), number(4))), call("lt", (of("rn"), number(3))), OK)
    assert rows(both_hold) == 2
    assert rows(join(where(source, "le", of("rn"), number(2)), listed(x=(1, 2, 3)), kind="cross")) == 6


# Joins and set operations.


def test_rows_of_joins() -> None:
    first = where(numbered(V, "v_day", "v_person"), "le", of("rn"), number(2))
    third = where(numbered(W, "w_day", "w_person", id="rw"), "le", of("rw"), number(3))
    assert rows(join(first, third, UNITS)) == 6
    assert rows(join(first, third, UNITS, kind="left")) == 6
    assert rows(join(first, W, UNITS)) is None
    assert rows(join(first, W, UNITS, kind="semi")) == rows(join(first, W, UNITS, kind="anti")) == 2
    assert rows(join(P, W, ("p_person", "w_person"), kind="semi")) == 1
    assert rows(join(first, P, ("v_person", "p_person"))) == 2
    assert rows(join(first, P, ("v_person", "p_person"), kind="left")) == 2
    assert rows(join(P, first, ("p_person", "v_person"), kind="left")) == 2
    full = join(first, third, UNITS, kind="full")
    who = call("coalesce", (of("v_person"), of("w_person")))
    assert rows(kept(full, who=who)) == 6 + 2 + 3


def test_rows_that_stay_unmatched_are_rows() -> None:
    none = where(numbered(W, "w_day", "w_person", id="rw"), "lt", of("rw"), number(1))
    first = where(numbered(V, "v_day", "v_person"), "le", of("rn"), number(2))
    assert rows(join(first, none, UNITS, kind="left")) == 2
    missing = where(join(P, W, ("p_person", "w_person"), kind="left"), "is_null", of("w_visit"))
    assert rows(missing) is None, "no rule for a left join that is an anti-join"


def test_rows_of_unions() -> None:
    first = where(numbered(V, "v_day", "v_person"), "le", of("rn"), number(2))
    third = where(numbered(W, "w_day", "w_person", id="rw"), "le", of("rw"), number(3))
    assert rows(both("union_all", first, third, p=UNITS)) == 5
    assert rows(both("union_all", first, W, p=UNITS)) is None


def test_rows_that_both_sides_have_are_as_few_as_in_the_smaller() -> None:
    """With as many copies as the smaller number of them; what one side lacks is left out of its own."""
    third = where(numbered(W, "w_day", "w_person", id="rw"), "le", of("rw"), number(3))
    assert rows(both("intersect_all", V, third, p=UNITS)) == rows(both("intersect_all", third, V, p=UNITS[::-1])) == 3
    assert rows(both("except_all", V, third, p=UNITS)) is None
    assert rows(both("except_all", third, V, p=UNITS[::-1])) == 3


@pytest.mark.parametrize(
    ("kind", "pairs", "most"),
    [
        ("intersect", {"p": UNITS}, 1),
        ("except", {"p": UNITS}, 1),
        ("intersect", {"p": UNITS, "k": ("v_ok", "w_ok")}, 3),
        ("except", {"p": UNITS, "k": ("v_ok", "w_ok")}, 3),
        ("intersect", {"p": UNITS, "k": ("v_place", "w_place")}, None),
        ("intersect_all", {"p": UNITS, "k": ("v_ok", "w_ok")}, None),
        ("except_all", {"p": UNITS}, None),
    ],
)
def test_different_rows_of_two_sides(kind: str, pairs: dict[str, tuple[str, str]], most: int | None) -> None:
    assert rows(both(kind, V, W, **pairs)) == most  # type: ignore[arg-type]


def test_what_both_sides_have_is_in_the_smaller() -> None:
    few = where(W, "in", of("w_place"), number(1), number(2))
    pairs = {"p": UNITS, "k": ("v_place", "w_place")}
    swapped = {"p": UNITS[::-1], "k": ("w_place", "v_place")}
    assert rows(both("intersect", V, few, **pairs)) == 2
    assert rows(both("intersect", few, V, **swapped)) == 2
    assert rows(both("except", V, few, **pairs)) is None
    assert rows(both("except", few, V, **swapped)) == 2


# Values.


def listed_in(function: str, *parts: Expression) -> int | None:
    return values(where(V, function, *parts), "v_place")


def test_values_that_a_condition_lists() -> None:
    place = of("v_place")
    assert listed_in("eq", place, number(1)) == 1
    assert listed_in("in", place, number(1), number(2), number(2)) == 3
    read = Call(function="in", arguments=(place, number(1), of("v_visit")), type=BOOLEAN)
    assert values(Filter(source=V, condition=read), "v_place") is None
    other = Call(function="eq", arguments=(place, Literal(value=1.0, type=FLOAT64)), type=BOOLEAN)
    with pytest.raises(NotUnitLocal, match="does not return"):  # it compares other kinds than any function does
        values(Filter(source=V, condition=other), "v_place")
    assert listed_in("ne", place, number(1)) is None
    assert listed_in("not", call("in", (place, number(1)))) is None
    assert listed_in("or", call("eq", (place, number(1))), OK) is None
    assert listed_in("and", call("in", (place, number(1), number(2))), call("eq", (place, number(2)))) == 1
    assert listed_in("in", call("add", (place, number(1))), number(1)) is None
    assert values(where(V, "eq", of("v_visit"), number(1)), "v_place") == 1, "it is one row"


FUNCTIONS: list[tuple[Expression, int | None]] = [
    (OK, 3),
    (call("not", (OK,)), 3),
    (call("is_null", (COST,)), 3),
    (call("gt", (COST, Literal(value=0.0, type=FLOAT64))), 3),
    (call("extract_month", (DAY,)), 13),
    (call("extract_quarter", (DAY,)), 5),
    (call("extract_dow", (DAY,)), 8),
    (call("extract_isodow", (DAY,)), 8),
    (call("extract_hour", (DAY,)), 25),
    (call("extract_year", (DAY,)), None),
    (call("extract_day", (DAY,)), None),
    (Literal(value="x", type=TEXT), 1),
    (Cast(argument=OK, type=TEXT), 3),
    (call("add", (Cast(argument=OK, type=INT64), number(2))), 3),
    (call("add", (Cast(argument=OK, type=INT64), of("v_place"))), None),
    (of("v_person"), 1),
    (call("add", (of("v_person"), number(1))), 1),
    (of("v_place"), None),
    (call("sign", (of("v_place"),)), None),
]


@pytest.mark.parametrize(("made", "most"), FUNCTIONS)
def test_values_of_functions(made: Expression, most: int | None) -> None:
    assert values(projected(made=made), "made") == most


def test_a_float_may_be_two_values_to_a_function_and_one_to_a_group() -> None:
    """0.0 and -0.0 are equal, and 1 / x or a text tells them apart."""
    one = where(V, "eq", COST, Literal(value=0.0, type=FLOAT64))
    assert values(one, "v_cost") == 1
    assert values(kept(one, "v_person", same=COST), "same") == 1
    assert values(kept(one, "v_person", text=Cast(argument=COST, type=TEXT)), "text") is None
    assert values(kept(one, "v_person", other=call("divide", (number(1), COST))), "other") is None
    passed = kept(one, "v_person", same=COST)
    again = kept(passed, "v_person", text=Cast(argument=of("same", FLOAT64), type=TEXT))
    assert values(again, "text") is None
    assert rows(Aggregate(source=again, group_by=("v_person", "text"), aggregates=())) is None
    assert rows(Aggregate(source=again, group_by=("v_person",), aggregates=())) == 1


def test_values_of_joins() -> None:
    codes = listed(x=(1, 2, 2), y=("a", "b", "c"))
    crossed = join(V, codes, kind="cross")
    assert values(crossed, "x") == 3
    assert values(crossed, "x", "y") == 9
    assert values(join(V, codes, ("v_place", "x"), kind="left"), "y") == 4, "NULL beside its own values"
    assert values(join(V, codes, ("v_place", "x"), kind="left"), "v_ok") == 3
    assert values(join(V, W, UNITS, kind="left"), "w_ok") == 4
    assert values(join(V, W, UNITS), "w_ok") == 3
    full = join(V, W, UNITS, kind="full")
    who = call("coalesce", (of("v_person"), of("w_person")))
    made = kept(full, who=who, a=OK, b=of("w_ok", BOOLEAN))
    assert values(made, "a") == values(made, "b") == 3, "of that type there are no more"
    assert values(join(V, W, UNITS, kind="semi"), "v_ok") == 3


def test_values_of_other_operators() -> None:
    few = where(V, "in", of("v_place"), number(1), number(2))
    more = where(W, "in", of("w_place"), number(3), number(4), number(5))
    assert values(both("union_all", few, more, p=UNITS, k=("v_place", "w_place")), "k") == 5
    assert values(both("union_all", few, W, p=UNITS, k=("v_place", "w_place")), "k") is None
    assert values(grouped(few, "v_person", "v_place"), "v_place") == 2
    assert values(grouped(few, "v_person", "v_place"), "t") == 2, "no more than there are rows"
    assert values(numbered(few, "v_day", "v_person"), "v_place") == 2
    assert values(numbered(few, "v_day", "v_person"), "rn") is None
    assert values(V, "v_ok", "v_person") == 3
    assert values(P, "p_sex", "p_cost") == 1


def test_values_of_all_units_together() -> None:
    """What bounds those of one unit by its own rows says nothing of all."""

    def of_all(relation: Relation, id: str) -> int | None:
        return different_values(relation, id, Facts())

    assert of_all(V, "v_ok") == 2, "NULL is left out"
    assert of_all(V, "v_person") is None and of_all(P, "p_sex") is None
    assert of_all(scan("visits", "v", limit=3), "v_place") is None
    assert of_all(grouped(V, "v_person", "v_place"), "t") is None
    assert of_all(where(V, "in", of("v_place"), number(1), number(2)), "v_place") == 2
    assert of_all(projected(m=call("extract_month", (DAY,))), "m") == 12
    assert of_all(projected(b=call("gt", (COST, COST))), "b") == 2
    arms = Case(branches=((OK, Literal(value="a", type=TEXT)),), otherwise=Literal(value="b", type=TEXT), type=TEXT)
    assert of_all(projected(c=arms), "c") == 2
    other = replace(arms, branches=((call("gt", (COST, COST)), of("v_kind", TEXT)),))
    assert of_all(projected(c=other), "c") is None


def test_pairs_of_group_and_value_of_one_unit() -> None:
    def pairs(relation: Relation, value: str, *keys: Key) -> int | None:
        found = pairs_of_unit(relation, keys, value, declarations(), Facts())
        return None if found is None or found >= MANY else found

    public = Key.of("v_place", INT64, [1, 2, 3])
    assert pairs(V, "v_ok") == 2
    assert pairs(V, "v_ok", public) == 6
    assert pairs(V, "v_ok", Key.of("v_place", INT64, None)) is None
    assert pairs(where(V, "in", of("v_place"), number(1), number(2)), "v_ok", public) == 4
    assert pairs(join(V, P, ("v_person", "p_person")), "p_sex") == 1
    assert pairs(join(V, P, ("v_person", "p_person")), "p_sex", public) == 3
    assert pairs(scan("visits", "v", limit=5), "v_kind", public) == 5


def test_with_blocks_rows_of_one_are_not_those_of_all() -> None:
    """Limits of a scan are by block; the rules of a unit's own rows are of all of them."""
    cut = scan("visits", "v", limit=12)
    assert weighed(cut, declarations(dated=True), Facts()).rows == 12
    assert weighed(cut, declarations(dated=True), Facts()).rows_in_all is None
    by_place = grouped(cut, "v_person", "v_place")
    assert weighed(by_place, declarations(), Facts()).rows == 12
    assert weighed(by_place, declarations(dated=True), Facts()).rows is None
    assert rows(grouped(cut, "v_person", "v_ok"), dated=True) == 3
    assert rows(where(numbered(cut, "v_day", "v_person"), "le", of("rn"), number(2)), dated=True) == 2
    assert weighed(numbered(cut, "v_day", "v_person"), declarations(dated=True), Facts()).rows is None
