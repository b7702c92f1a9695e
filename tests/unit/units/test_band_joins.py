"""How many public rows one private row meets by comparisons: ends, copies, and what engines may compute otherwise."""

from __future__ import annotations

import pytest

from dpquery.plan.expr import Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Join, Relation
from dpquery.plan.types import FLOAT64
from dpquery.units.band_joins import swept
from tests.weighing import Facts, kept, number, of, scan, where

V, C = scan("visits", "v"), scan("places", "c")
LOW, HIGH = of("c_low"), of("c_high")
PLACE = of("v_place")
COST = call("coalesce", (of("v_cost", FLOAT64), Literal(value=0.0, type=FLOAT64)))


def inside(low: str = "ge", high: str = "le", value: Expression = PLACE, *ends: Expression) -> Expression:
    first, last = ends or (LOW, HIGH)
    return call("and", (call(low, (value, first)), call(high, (value, last))))


def met(
    *ends: tuple[int, int], on: Expression, public: Relation = C, equal: tuple[Expression, Expression] | None = None
) -> int | None:
    """Returns the most public rows with these ends that one private row meets."""
    facts = Facts(places=tuple((1, "east", low, high) for low, high in ends))
    joined = Join(left=V, right=public, kind="inner", equalities=(equal,) if equal else (), condition=on)
    return swept(joined, V, public, facts)


@pytest.mark.parametrize(
    ("low", "high", "ends", "most"),
    [
        ("ge", "le", ((0, 5), (5, 9), (20, 30)), 2),
        ("ge", "lt", ((0, 5), (5, 9), (20, 30)), 1),
        ("gt", "le", ((0, 5), (5, 9), (20, 30)), 1),
        ("ge", "le", ((0, 5), (5, 5), (20, 30)), 2),
        ("ge", "lt", ((0, 5), (5, 5), (20, 30)), 1),
        ("ge", "le", ((0, 5), (1, 6), (2, 7)), 3),
        ("ge", "le", ((5, 0), (9, 5)), 0),
    ],
)
def test_ends_belong_to_what_passes_or_not(low: str, high: str, ends: tuple[tuple[int, int], ...], most: int) -> None:
    assert met(*ends, on=inside(low, high)) == most


def test_the_sides_of_a_comparison_may_be_exchanged() -> None:
    turned = call("and", (call("le", (LOW, of("v_place"))), call("gt", (HIGH, of("v_place")))))
    assert met((0, 5), (5, 9), (4, 6), on=turned) == 2


def test_equal_public_rows_are_met_each() -> None:
    """Of rows that are read in some columns, any may be there as often as all the others leave room for."""
    assert met((0, 5), (0, 5), (6, 9), on=inside()) == 2
    assert met((0, 5), (0, 5), (0, 5), on=inside()) == 3


def test_rows_are_apart_where_they_differ_in_what_is_equated() -> None:
    same = of("v_visit"), LOW
    assert met((0, 5), (1, 5), (2, 5), on=inside()) == 3
    assert met((0, 5), (1, 5), (2, 5), on=inside(), equal=same) == 1
    float_of_low = call("exp", (LOW,))
    assert met((0, 5), (1, 5), (2, 5), on=inside(), equal=(COST, float_of_low)) == 3


def test_what_depends_on_the_engine_tells_nothing() -> None:
    """Two engines may differ in the last digit of exp(1)."""
    low, high = call("exp", (LOW,)), call("exp", (HIGH,))
    apart = (0, 5), (6, 9)
    assert met(*apart, on=inside("ge", "lt", COST, low, high)) is None
    made = kept(C, "c_code", low=low, high=high)
    assert met(*apart, public=made, on=inside("ge", "lt", COST, of("low", FLOAT64), of("high", FLOAT64))) is None
    few = where(C, "lt", low, Literal(value=2.0, type=FLOAT64))
    assert met((0, 5), (1, 9), public=few, on=inside()) == 2
    assert met((0, 5), (1, 9), public=where(C, "lt", LOW, number(1)), on=inside()) == 1


def test_one_end_and_a_condition_of_alternatives_tell_nothing() -> None:
    assert met((0, 5), (6, 9), on=call("ge", (of("v_place"), LOW))) is None
    assert met((0, 5), (6, 9), on=call("or", (inside(), call("eq", (of("v_place"), number(1)))))) is None
    two_columns = call("and", (call("ge", (of("v_place"), LOW)), call("le", (of("v_visit"), HIGH))))
    assert met((0, 5), (6, 9), on=two_columns) is None
