"""Which block a date is in, and which blocks a condition or a plan can touch."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.plan.calendar import By, first_day, name_of, number_named, number_of
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    Ownership,
    OwnerStep,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetOperation,
)
from dpquery.plan.types import BOOLEAN, DATE, INT64, TIMESTAMP, Type
from dpquery.units.blocks import ALL, NONE, BlockRange, Touched, may_hold, touched
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

DAYS = st.dates(datetime.date(2023, 11, 1), datetime.date(2025, 2, 28)) | st.sampled_from(
    [datetime.date(2024, m, 1) for m in range(1, 13)] + [datetime.date.min, datetime.date.max]
)
MOMENTS = st.datetimes(datetime.datetime(2023, 11, 1), datetime.datetime(2025, 2, 28)) | st.sampled_from(
    [
        datetime.datetime(2024, 3, 1),
        datetime.datetime(2024, 3, 1) - datetime.timedelta(microseconds=1),
        datetime.datetime.min,
        datetime.datetime.max,
    ]
)
Row = dict[str, Any]
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "is_distinct_from", "is_not_distinct_from")


@pytest.mark.parametrize("by", By)
@settings(max_examples=50, deadline=None)
@given(day=st.dates())
def test_a_block_holds_the_days_from_its_first_to_the_next_ones(by: By, day: datetime.date) -> None:
    number = number_of(day, by)
    assert first_day(number, by) <= day
    assert day == datetime.date.max or number_of(day + datetime.timedelta(days=1), by) in (number, number + 1)
    assert number_named(name_of(number, by), by) == number
    assert number_of(datetime.datetime.combine(day, datetime.time.max), by) == number


@pytest.mark.parametrize(
    ("by", "name"),
    [(By.DAY, "2024-02-29"), (By.WEEK, "2024-W09"), (By.MONTH, "2024-02"), (By.QUARTER, "2024-Q1"), (By.YEAR, "2024")],
)
def test_names(by: By, name: str) -> None:
    assert name_of(number_of(datetime.date(2024, 2, 29), by), by) == name
    for other in By:
        if other is not by:
            with pytest.raises(ValueError):
                number_named(name, other)


@pytest.mark.parametrize(
    "name", ["", "2024-2", "2024-13", "2024-Q5", "2024-W54", "0000-01", "2024-02 ", "٢٠٢٤-02", "x"]
)
def test_other_texts_name_no_block(name: str) -> None:
    for by in By:
        with pytest.raises(ValueError):
            number_named(name, by)


@pytest.mark.parametrize("ends", [(2, 1), (1, 1_201), (True, 2), (-(10**9), 1), (1.0, 2)])
def test_an_axis_is_short_and_goes_forward(ends: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        BlockRange(by=By.MONTH, first=ends[0], last=ends[1])


def conditions(type: Type, values: st.SearchStrategy[datetime.date]) -> st.SearchStrategy[Expression]:
    """Conditions over a date x, another date y and a number n, of all forms that might mislead."""
    x: Expression = Column(id="x", type=type)
    y: Expression = Column(id="y", type=type)
    constants = st.one_of(values, st.none()).map(lambda v: Literal(value=v, type=type))
    sides = st.one_of(st.just(x), constants, st.just(y))
    compared = st.tuples(st.sampled_from(COMPARISONS), sides, sides).map(lambda p: call(p[0], p[1:]))
    listed = st.lists(constants, min_size=1, max_size=3).map(lambda some: call("in", [x, *some]))
    tests = st.sampled_from([call("is_null", [x]), call("is_not_null", [x]), call("is_null", [y])])
    number = call("gt", [Column(id="n", type=INT64), Literal(value=0, type=INT64)])

    def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        pairs = st.tuples(st.sampled_from(["and", "or"]), inner, inner)
        return st.one_of(
            pairs.map(lambda p: call(p[0], p[1:])),
            inner.map(lambda c: call("not", [c])),
            inner.map(lambda c: call("is_not_true", [c])),
            inner.map(lambda c: call("is_true", [c])),
            inner.map(
                lambda c: Case(branches=((number, c),), otherwise=Literal(value=True, type=BOOLEAN), type=BOOLEAN)
            ),
        )

    return st.recursive(st.one_of(compared, listed, tests, st.just(number)), grown, max_leaves=5)


def holds(found: Touched, value: datetime.date | None, by: By) -> bool:
    if value is None:
        return found.undated
    return any(first <= number_of(value, by) <= last for first, last in found.spans)


def asked(
    type: Type, values: st.SearchStrategy[datetime.date]
) -> st.SearchStrategy[tuple[Type, Expression, list[Row]]]:
    """Conditions, and rows to ask them of."""
    dates = st.one_of(values, st.none())
    row = st.fixed_dictionaries({"x": dates, "y": dates, "n": st.sampled_from([0, 1, None])})
    return st.tuples(st.just(type), conditions(type, values), st.lists(row, min_size=8, max_size=8))


@settings(max_examples=150, deadline=None)
@given(made=st.one_of(asked(TIMESTAMP, MOMENTS), asked(DATE, DAYS)), by=st.sampled_from(By))
def test_a_condition_is_true_in_the_blocks_it_may_hold_in(made: tuple[Type, Expression, list[Row]], by: By) -> None:
    """docs/proofs/blocks.md, Lemma 1."""
    type, condition, rows = made
    found = may_hold(condition, frozenset({"x"}), type, by)
    for row in rows:
        if evaluate(condition, row) is True:
            assert holds(found, row["x"], by), (condition, row["x"])


@pytest.mark.parametrize(
    ("function", "day", "expected"),
    [
        ("lt", "2024-03-01", (-(10**9), "2024-02")),
        ("lt", "2024-03-02", (-(10**9), "2024-03")),
        ("le", "2024-03-01", (-(10**9), "2024-03")),
        ("gt", "2024-03-31", ("2024-04", 10**9)),
        ("gt", "2024-03-30", ("2024-03", 10**9)),
        ("ge", "2024-03-31", ("2024-03", 10**9)),
        ("eq", "2024-03-31", ("2024-03", "2024-03")),
    ],
)
def test_comparisons_are_read_as_narrow_as_they_are(function: str, day: str, expected: tuple[int | str, ...]) -> None:
    first, last = (number_named(end, By.MONTH) if isinstance(end, str) else end for end in expected)
    constant = Literal(value=datetime.date.fromisoformat(day), type=DATE)
    condition = call(function, [Column(id="x", type=DATE), constant])
    assert may_hold(condition, frozenset({"x"}), DATE, By.MONTH) == Touched(((first, last),), False)


@pytest.mark.parametrize("function", ["lt", "gt"])
def test_beyond_the_calendar_there_is_nothing(function: str) -> None:
    end = datetime.date.min if function == "lt" else datetime.date.max
    condition = call(function, [Column(id="x", type=DATE), Literal(value=end, type=DATE)])
    assert may_hold(condition, frozenset({"x"}), DATE, By.MONTH) == NONE


def test_a_moment_with_a_zone_is_no_constant() -> None:
    """The engine reads it in UTC: 0:30 of February 1 at +05:00 is in January."""
    moment = datetime.datetime(2024, 2, 1, 0, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))
    condition = call("gt", [Column(id="x", type=TIMESTAMP), Literal(value=moment, type=TIMESTAMP)])
    assert may_hold(condition, frozenset({"x"}), TIMESTAMP, By.MONTH) == ALL


AXIS = BlockRange(by=By.MONTH, first=number_named("2024-01", By.MONTH), last=number_named("2024-12", By.MONTH))
OWN, BY_PATH = (
    Ownership(path=(), column="id", type=INT64),
    Ownership(path=(OwnerStep(parent="visits", on=(("visit", "visit", INT64),)),), column="id", type=INT64),
)
DECLARED = Declarations(
    dataset="clinic",
    privacy_unit="patient",
    neighbours=Neighbours.REPLACE_ONE,
    tables={
        "visits": TableDeclaration(name="visits", public=False, ownership=OWN, dated=("day", DATE, "")),
        "items": TableDeclaration(name="items", public=False, ownership=BY_PATH, dated=("day", DATE, "")),
        "people": TableDeclaration(name="people", public=False, ownership=OWN),
        "tests": TableDeclaration(name="tests", public=True),
    },
    blocks=AXIS,
)


def scan(table: str = "visits", prefix: str = "", day: str = "day", type: Type = DATE) -> Scan:
    columns = [("id", "id", INT64), ("day", day, type), ("seen", "seen", DATE)]
    owner = DECLARED.tables[table].ownership
    return Scan(
        table=table,
        columns=tuple(ScanColumn(id=prefix + id, name=name, type=type) for id, name, type in columns),
        public=DECLARED.tables[table].public,
        ownership=owner,
        unit=None if owner is None else f"{prefix}id" if not owner.path else f"{prefix}unit",
    )


def in_march(source: Relation, column: str = "day", type: Type = DATE) -> Filter:
    march = datetime.datetime(2024, 3, 5) if type == TIMESTAMP else datetime.date(2024, 3, 5)
    condition = call("eq", [Column(id=column, type=type), Literal(value=march, type=type)])
    return Filter(source=source, condition=condition)


MARCH = Touched(((number_named("2024-03", By.MONTH),) * 2,), False)
DAY = Column(id="day", type=DATE)
WITHOUT_OWNER = in_march(replace(scan("items", prefix="b_"), unit=None), "b_day")
MARCH_OF_B = in_march(scan(prefix="b_"), "b_day")
JOINED = ((Column(id="id", type=INT64), Column(id="b_id", type=INT64)),)


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (in_march(scan()), MARCH),
        (in_march(in_march(scan()), "seen"), MARCH),
        (scan(), ALL),
        (in_march(scan(), "seen"), ALL),
        (in_march(scan(day="seen2")), ALL),
        (in_march(scan(type=TIMESTAMP), type=TIMESTAMP), ALL),
        (in_march(scan("people")), ALL),
        (in_march(scan("items")), ALL),
        (in_march(replace(scan("items"), unit=None)), ALL),
        (Join(left=in_march(scan()), right=WITHOUT_OWNER, kind="semi", equalities=JOINED), ALL),
        (in_march(scan("tests")), NONE),
        (scan("tests"), NONE),
        (Join(left=in_march(scan()), right=scan(prefix="b_"), kind="inner", equalities=JOINED), ALL),
        (Join(left=in_march(scan()), right=MARCH_OF_B, kind="left", equalities=JOINED), MARCH),
        (Join(left=in_march(scan()), right=scan("people", "b_"), kind="semi", equalities=JOINED), ALL),
        (in_march(Join(left=scan(), right=scan("tests", "b_"), kind="left", equalities=JOINED)), ALL),
        (in_march(Project(source=scan(), columns=(Computed(id="day", name="", expression=DAY),))), ALL),
        (SetOperation(kind="union_all", left=in_march(scan()), right=MARCH_OF_B, columns=()), MARCH),
        (SetOperation(kind="except", left=in_march(scan()), right=scan("visits", "b_"), columns=()), ALL),
    ],
)  # fmt: skip
def test_only_filters_that_stand_on_a_scan_count(relation: Relation, expected: Touched) -> None:
    """docs/proofs/blocks.md, Lemma 2."""
    assert touched(relation, DECLARED) == expected


def test_constants_of_another_type_are_not_compared() -> None:
    column = Column(id="x", type=DATE)
    moment = Literal(value=datetime.datetime(2024, 3, 1), type=TIMESTAMP)
    wrong = Literal(value=datetime.date(2024, 3, 1), type=DATE)
    object.__setattr__(wrong, "value", datetime.datetime(2024, 3, 1))
    for constant in (moment, wrong, Cast(argument=moment, type=DATE)):
        condition = Call(function="lt", arguments=(column, constant), type=BOOLEAN)
        assert may_hold(condition, frozenset({"x"}), DATE, By.MONTH) == ALL
    assert (
        may_hold(call("lt", [Cast(argument=column, type=TIMESTAMP), moment]), frozenset({"x"}), DATE, By.MONTH) == ALL
    )


@given(
    spans=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=4), min_size=2, max_size=2),
    undated=st.tuples(st.booleans(), st.booleans()),
)
def test_sets_of_blocks_are_sets(spans: list[list[tuple[int, int]]], undated: tuple[bool, bool]) -> None:
    sets = [
        NONE | Touched(tuple((first, first + length) for first, length in some), flag)
        for some, flag in zip(spans, undated, strict=True)
    ]
    members = [{n for first, last in one.spans for n in range(first, last + 1)} for one in sets]
    for made, expected, flag in (
        (sets[0] | sets[1], members[0] | members[1], any(undated)),
        (sets[0] & sets[1], members[0] & members[1], all(undated)),
    ):
        assert [n for first, last in made.spans for n in range(first, last + 1)] == sorted(expected)
        assert made.undated is flag


def test_either_side_of_an_or_may_hold_and_both_of_an_and() -> None:
    x, number = Column(id="x", type=DATE), call("gt", [Column(id="n", type=INT64), Literal(value=0, type=INT64)])
    one, two = (call("eq", [x, Literal(value=datetime.date(2024, m, 5), type=DATE)]) for m in (1, 4))
    first, second = (Touched(((number_named(name, By.MONTH),) * 2,), False) for name in ("2024-01", "2024-04"))
    for parts in ([one, two], [two, one]):
        assert may_hold(call("or", parts), frozenset({"x"}), DATE, By.MONTH) == first | second
        assert may_hold(call("and", parts), frozenset({"x"}), DATE, By.MONTH) == NONE
    for parts in ([one, number], [number, one]):
        assert may_hold(call("or", parts), frozenset({"x"}), DATE, By.MONTH) == ALL
        assert may_hold(call("and", parts), frozenset({"x"}), DATE, By.MONTH) == first
