"""Two filters are disjoint only where no row makes both true."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of, in_parallel
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import (
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Weighing,
)
from dpquery.kernel.sensitivity import weighs_together
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.logical import (
    Computed,
    Filter,
    Matched,
    OutputColumn,
    Project,
    Relation,
    Scan,
    ScanColumn,
    SetOperation,
    Values,
)
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type, Value, decimal
from dpquery.units.declarations import Neighbours
from dpquery.units.disjoint import MOST_PAIRS, disjoint
from tests.weights import by_hand

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
MONEY = decimal(9, 2)
X, Y = Column(id="x", type=INT64), Column(id="y", type=INT64)
S, F = Column(id="s", type=TEXT), Column(id="f", type=FLOAT64)
B = Column(id="b", type=BOOLEAN)
D, T, M = Column(id="d", type=DATE), Column(id="t", type=TIMESTAMP), Column(id="m", type=MONEY)


def of(value: Value, type: Type = INT64) -> Literal:
    return Literal(value=value, type=type)


def truth(function: str, *arguments: Expression) -> Call:
    return Call(function=function, arguments=arguments, type=BOOLEAN)


def x(function: str, *values: int | None) -> Call:
    return truth(function, X, *map(of, values))


def s(function: str, *values: str | None) -> Call:
    return truth(function, S, *(of(value, TEXT) for value in values))


def f(function: str, value: float) -> Call:
    return truth(function, F, of(value, FLOAT64))


def both(*parts: Expression) -> Call:
    return truth("and", *parts)


def either(*parts: Expression) -> Call:
    return truth("or", *parts)


def negated(part: Expression) -> Call:
    return truth("not", part)


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12)
PLUS_ZERO = truth("eq", Call(function="divide", arguments=(F, of(0.0, FLOAT64)), type=FLOAT64), of(1.0, FLOAT64))
MINUS_ZERO = truth("eq", Call(function="divide", arguments=(F, of(-0.0, FLOAT64)), type=FLOAT64), of(2.0, FLOAT64))
WORD = Case(branches=((x("lt", 5), of("low", TEXT)),), otherwise=of("high", TEXT), type=TEXT)

DISJOINT = [
    ("other constants", x("eq", 1), x("eq", 2)),
    ("other texts", s("eq", "F"), s("eq", "M")),
    ("case matters", s("eq", "f"), s("eq", "F")),
    ("padding matters", s("eq", "F"), s("eq", "F ")),
    ("a constant first", truth("eq", of(1), X), x("eq", 2)),
    ("lists", x("in", 1, 2), x("in", 3, 4)),
    ("a list with NULL", x("in", 1, None), x("in", 2, None)),
    ("a list and a constant", x("in", 1, 2), x("eq", 3)),
    ("not equal", x("ne", 3), x("eq", 3)),
    ("not equal to the whole list", x("ne", 3), x("in", 3, None)),
    ("half-open", x("lt", 5), x("ge", 5)),
    ("half-open, the other way", x("le", 5), x("gt", 5)),
    ("both open", x("lt", 5), x("gt", 5)),
    ("apart", x("le", 4), x("ge", 5)),
    ("flipped", truth("gt", of(5), X), truth("le", of(5), X)),
    ("a list outside a range", x("in", 7, 9), x("lt", 7)),
    ("between", both(x("ge", 0), x("lt", 5)), both(x("ge", 5), x("lt", 9))),
    ("one part of many", both(s("eq", "F"), x("lt", 3)), both(x("lt", 9), s("eq", "M"))),
    ("every part of an OR", either(x("eq", 1), x("eq", 2)), either(x("eq", 3), both(x("gt", 2), s("eq", "F")))),
    ("opposites", both(s("eq", "F"), truth("lt", X, Y)), negated(truth("lt", X, Y))),
    ("a flag", B, negated(B)),
    ("the opposite of a pattern", s("like", "a%"), negated(s("like", "a%"))),
    ("is false", B, truth("is_false", B)),
    ("is not true", x("lt", 5), truth("is_not_true", x("lt", 5))),
    ("the opposite of an OR", either(x("eq", 1), B), negated(either(x("eq", 1), B))),
    ("NULL and a comparison", truth("is_null", X), x("ne", 5)),
    ("NULL and a list", truth("is_null", S), s("in", "F", None)),
    ("NULL and not NULL", truth("is_null", X), truth("is_not_null", X)),
    ("a flag and NULL", B, truth("is_null", B)),
    ("what is false and NULL", negated(B), truth("is_null", B)),
    ("a flag and a constant", truth("is_false", B), truth("eq", B, of(True, BOOLEAN))),
    ("a pattern that is NULL", s("like", "a%"), truth("is_null", s("like", "a%"))),
    ("floats", f("lt", 0.5), f("ge", 0.5)),
    ("decimals", truth("lt", M, of(Decimal("1.50"), MONEY)), truth("ge", M, of(Decimal("1.5"), MONEY))),
    ("days", truth("lt", D, of(DAY, DATE)), truth("eq", D, of(DAY, DATE))),
    ("moments", truth("le", T, of(NOON, TIMESTAMP)), truth("gt", T, of(NOON, TIMESTAMP))),
    ("booleans", truth("eq", B, of(True, BOOLEAN)), truth("eq", B, of(False, BOOLEAN))),
    ("one expression", truth("eq", WORD, of("low", TEXT)), truth("eq", WORD, of("high", TEXT))),
]
OVERLAPPING = [
    ("the same", x("eq", 1), x("eq", 1)),
    ("other columns", x("eq", 1), truth("eq", Y, of(2))),
    ("both ends belong", x("le", 5), x("ge", 5)),
    ("an end that is in the list", x("le", 5), x("in", 5, 6)),
    ("ranges that meet inside", x("gt", 4), x("lt", 6)),
    ("the same direction", x("lt", 4), x("lt", 9)),
    ("two that are not equal", x("ne", 1), x("ne", 2)),
    ("a list with one in common", x("in", 1, 2), x("in", 2, 3)),
    ("not equal to one of a list", x("ne", 3), x("in", 3, 4)),
    ("two NULLs", truth("is_null", X), truth("is_null", X)),
    ("NULL of another column", truth("is_null", X), truth("is_not_null", Y)),
    ("NULL or a constant", either(truth("is_null", X), x("eq", 1)), either(truth("is_null", X), x("eq", 2))),
    ("one part of an OR", either(x("eq", 1), B), x("eq", 2)),
    ("not true, and NULL", truth("is_not_true", x("lt", 5)), truth("is_null", X)),
    ("not true of either", truth("is_not_true", x("lt", 5)), truth("is_not_true", x("ge", 5))),
    ("not false", truth("is_not_false", B), truth("is_false", truth("is_null", B))),
    ("the opposite of one part", either(x("eq", 1), B), negated(x("eq", 1))),
    ("the opposite of more", both(x("eq", 1), B), negated(both(x("eq", 1), B, x("lt", 9)))),
    ("NOT of what is NaN", negated(f("lt", 5.0)), negated(f("ge", 3.0))),
    ("order of texts", s("lt", "b"), s("ge", "b")),
    ("order of texts and a constant", s("lt", "b"), s("eq", "c")),
    ("patterns", s("like", "a%"), s("like", "b%")),
    ("distinct from", truth("is_distinct_from", X, of(1)), truth("is_distinct_from", X, of(2))),
    ("constants of another type", truth("eq", X, of(1.0, FLOAT64)), truth("eq", X, of(2.0, FLOAT64))),
    ("read as another type", truth("eq", Cast(argument=F, type=INT64), of(1)), f("eq", 2.0)),
    ("NaN", f("eq", math.nan), f("eq", 1.0)),
    ("zero and minus zero", f("eq", 0.0), f("eq", -0.0)),
    ("of zero, and of minus zero", PLUS_ZERO, MINUS_ZERO),
    ("decimals of another form", truth("eq", M, of(Decimal("1.5"), MONEY)), truth("eq", M, of(Decimal("1.50"), MONEY))),
    ("no constants", truth("lt", X, Y), truth("ge", X, Y)),
    ("no comparison", B, x("eq", 1)),
    ("not true, of a flag", truth("is_not_true", B), truth("is_null", B)),
    ("a comparison with NULL, which is NULL", truth("is_null", x("eq", None)), truth("is_null", X)),
]


@pytest.mark.parametrize(("a", "b"), [case[1:] for case in DISJOINT], ids=[case[0] for case in DISJOINT])
def test_no_row_passes_both(a: Expression, b: Expression) -> None:
    assert disjoint(a, b) and disjoint(b, a)


@pytest.mark.parametrize(("a", "b"), [case[1:] for case in OVERLAPPING], ids=[case[0] for case in OVERLAPPING])
def test_a_row_may_pass_both(a: Expression, b: Expression) -> None:
    assert not disjoint(a, b) and not disjoint(b, a)


def test_a_comparison_with_null_is_never_true_and_nothing_is_made_of_it() -> None:
    assert not disjoint(x("eq", None), x("eq", 1))
    assert disjoint(x("in", None), x("eq", 1))


def test_filters_too_large_to_compare_are_not_disjoint() -> None:
    many = range(math.isqrt(MOST_PAIRS))
    wide, other = x("in", *many), x("in", *(-1 - i for i in many))
    assert not disjoint(wide, other)
    assert disjoint(x("in", *many[:190]), x("in", *(-1 - i for i in many[:190])))


# Random filters over random rows.

_INTEGERS = st.integers(min_value=-1, max_value=3)
_COMPARED = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])
_FLOATS = st.sampled_from([-0.0, 0.0, 1.0, 2.5, math.inf])
_TEXTS = st.sampled_from(["", "a", "A", "a ", "b"])


def _atoms() -> st.SearchStrategy[Expression]:
    number = st.one_of(st.none(), _INTEGERS)
    plus = Call(function="add", arguments=(X, of(1)), type=INT64)
    return st.one_of(
        st.builds(lambda g, c, v: truth(g, c, of(v)), _COMPARED, st.sampled_from([X, Y, plus]), number),
        st.builds(lambda g, c, v: truth(g, of(v), c), _COMPARED, st.sampled_from([X, Y]), number),
        st.builds(lambda c, v: truth("in", c, *map(of, v)), st.sampled_from([X, Y]), st.lists(number, min_size=1)),
        st.builds(lambda g, v: truth(g, F, of(v, FLOAT64)), _COMPARED, _FLOATS),
        st.builds(lambda g, v: truth(g, S, of(v, TEXT)), _COMPARED, _TEXTS),
        st.builds(lambda v: truth("in", S, *(of(w, TEXT) for w in v)), st.lists(_TEXTS, min_size=1)),
        st.builds(lambda g, c: truth(g, c), st.sampled_from(["is_null", "is_not_null"]), st.sampled_from([X, S, F, B])),
        st.just(B),
    )


def _grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    one = st.sampled_from(["not", "is_true", "is_false", "is_not_true", "is_not_false"])
    some = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        st.builds(lambda g, p: truth(g, p), one, parts),
        st.builds(lambda g, p: truth(g, *p), st.sampled_from(["and", "or"]), some),
    )


CONDITIONS = st.recursive(_atoms(), _grown, max_leaves=6)
ROWS = [
    {"x": a, "y": b, "f": c, "s": d, "b": e}
    for a in (None, -2, -1, 0, 1, 2, 3, 4)
    for b in (None, 0, 2)
    for c in (None, math.nan, -0.0, 1.0, 3.0)
    for d in (None, "a", "A", "b")
    for e in (None, True, False)
]


@settings(max_examples=150, deadline=None)
@given(CONDITIONS, CONDITIONS, st.booleans())
def test_random_filters(a: Expression, b: Expression, opposite: bool) -> None:
    check_filters(a, b, opposite)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(CONDITIONS, CONDITIONS, st.booleans())
def test_very_many_random_filters(a: Expression, b: Expression, opposite: bool) -> None:
    check_filters(a, b, opposite)


def check_filters(a: Expression, b: Expression, opposite: bool) -> None:
    """No row passes two filters that are told to be disjoint, and a filter and its opposite are."""
    if opposite:
        b = both(negated(a), b)
        assert disjoint(a, b)
    if disjoint(a, b):
        assert not any(evaluate(a, row) is True and evaluate(b, row) is True for row in ROWS)


# Chains, and what is charged for them.


def counted(id: str, kept: str | None, count: Count = Count.ROWS) -> Measure:
    value = "v" if count not in (Count.ROWS, Count.UNITS) else None
    lattice = Lattice(grid=Fraction(1), lower=0, upper=9) if count in (Count.SUM, Count.QUANTILE) else None
    target = Fraction(int(id[1:]), 10) if count is Count.QUANTILE else None
    return Measure(id=id, label=id, count=count, value=value, filter=kept, lattice=lattice, target=target)


FILTERS = {
    "low": x("lt", 5),
    "high": x("ge", 5),
    "odd": s("eq", "odd"),
    "even": s("eq", "even"),
    "low again": x("lt", 5),
    "lowest": x("lt", 1),
}


def aggregate(*measures: Measure, unit: str | None = None, rows: int = 1) -> PrivateAggregate:
    given = tuple(OutputColumn(id=c.id, name=c.id, type=c.type) for c in (X, S, Y))
    columns = [Computed(id=id, name="", expression=kept) for id, kept in FILTERS.items()]
    columns += [Computed(id=id, name="", expression=Y) for id in ("u", "v")]
    return PrivateAggregate(
        source=Project(source=Values(columns=given, rows=()), columns=tuple(columns)),
        unit=unit,
        keys=(),
        weights=by_hand(unit, rows, 3, Weighing.WHOLE),
        measures=measures,
    )


def plan(given: PrivateAggregate, *amounts: int) -> BudgetedPlan:
    """Returns a plan with these losses: of epsilon, for Laplace noise and choices."""
    noise = tuple(
        Noise(
            mechanism=Mechanism.EXPONENTIAL if m.count is Count.QUANTILE else Mechanism.LAPLACE,
            loss=PrivacyLoss(epsilon=Fraction(amount)),
        )
        for m, amount in zip(given.measures, amounts, strict=True)
    )
    return BudgetedPlan(aggregates=(BudgetedAggregate(aggregate=given, noise=noise),))


def test_measures_are_sorted_into_chains_of_disjoint_classes() -> None:
    kept = ["low", "odd", "high", None, "even", "low again", "lowest", None]
    made = aggregate(*(counted(f"m{i}", name) for i, name in enumerate(kept)))
    assert chains((made,), ADD) == (((0, 5), (2,)), ((1,), (4,)), ((3, 7),), ((6,),))
    made_anew = aggregate(*(counted(f"m{i}", name) for i, name in enumerate(["high", "low", "lowest"])))
    assert chains((made_anew,), ADD) == (((0,), (1,)), ((2,),))
    assert chains((made,), REPLACE) == ((tuple(range(8)),),)


def test_the_dearest_class_of_each_chain_is_charged() -> None:
    kept = ["low", "odd", "high", None, "even", "low again"]
    made = plan(aggregate(*(counted(f"m{i}", name) for i, name in enumerate(kept))), 1, 10, 4, 100, 30, 5)
    assert guarantee_of(made, ADD) == PrivacyLoss(epsilon=Fraction(6 + 30 + 100))
    assert charge_of(made, BudgetKind.PURE, ADD) == PrivacyLoss(epsilon=Fraction(136))
    assert charge_of(made, BudgetKind.PURE, REPLACE) == PrivacyLoss(epsilon=Fraction(150))
    in_rho = Fraction(max(1 + 25, 16) + 900 + 10_000, 2)
    assert charge_of(made, BudgetKind.ZCDP, ADD) == PrivacyLoss(rho=in_rho)


def test_parts_of_a_loss_are_compared_one_by_one() -> None:
    losses = [PrivacyLoss(epsilon=Fraction(1), rho=Fraction(3)), PrivacyLoss(epsilon=Fraction(2), delta=Fraction(1, 9))]
    assert in_parallel(losses) == PrivacyLoss(epsilon=Fraction(2), delta=Fraction(1, 9), rho=Fraction(3))
    assert in_parallel([]) == PrivacyLoss()


@pytest.mark.parametrize("count", [Count.UNITS, Count.ROWS, Count.VALUES, Count.SUM, Count.DISTINCT, Count.QUANTILE])
def test_of_rows_that_are_units_each_is_counted_once_whatever_is_counted(count: Count) -> None:
    made = plan(aggregate(counted("m1", "low", count), counted("m2", "high", count)), 2, 3)
    assert charge_of(made, BudgetKind.PURE, ADD) == PrivacyLoss(epsilon=Fraction(3))


@pytest.mark.parametrize("count", [Count.UNITS, Count.ROWS, Count.VALUES, Count.SUM, Count.DISTINCT, Count.QUANTILE])
@pytest.mark.parametrize("rows", [1, 2])
def test_weights_of_rows_add_up_over_disjoint_filters_and_nothing_else_does(count: Count, rows: int) -> None:
    measures = counted("m1", "low", count), counted("m2", "high", count)
    bounded = count in (Count.ROWS, Count.VALUES, Count.SUM) or (count is Count.UNITS and rows == 1)
    made = aggregate(*measures, unit="u", rows=rows)
    assert all(weighs_together(made, measure) is bounded for measure in measures)
    assert charge_of(plan(made, 2, 3), BudgetKind.PURE, ADD) == PrivacyLoss(epsilon=Fraction(3 if bounded else 5))
    assert charge_of(plan(made, 2, 3), BudgetKind.PURE, REPLACE) == PrivacyLoss(epsilon=Fraction(5))


def test_what_has_no_filter_is_bounded_alone() -> None:
    assert not weighs_together(aggregate(unit="u"), counted("m1", None))


def test_quantiles_chosen_together_stay_together() -> None:
    """Three of one value cost two levels of half of all they pay: in rho 2 (9/2)^2 / 8, and not 3 times 9 / 8."""
    low = [counted(f"q{i}", "low", Count.QUANTILE) for i in (2, 5, 8)]
    high = [counted(f"q{i}", "high", Count.QUANTILE) for i in (3,)]
    made = plan(aggregate(*low, *high), 3, 3, 3, 1)
    assert charge_of(made, BudgetKind.PURE, ADD) == PrivacyLoss(epsilon=Fraction(9))
    assert charge_of(made, BudgetKind.ZCDP, ADD) == PrivacyLoss(rho=2 * Fraction(9, 2) ** 2 / 8)
    plain = plan(aggregate(*(replace(m, filter=None) for m in low)), 3, 3, 3)
    assert charge_of(plain, BudgetKind.ZCDP, ADD) == PrivacyLoss(rho=2 * Fraction(9, 2) ** 2 / 8)


def test_a_filter_that_the_plan_does_not_compute_is_disjoint_from_nothing() -> None:
    made = aggregate(counted("m1", "low"), counted("m2", "high"))
    bare = replace(made, source=made.source.source)  # type: ignore[union-attr]
    assert charge_of(plan(bare, 2, 3), BudgetKind.PURE, ADD) == PrivacyLoss(epsilon=Fraction(5))


# Several aggregates.


def scan(table: str, suffix: str) -> Scan:
    """Returns a scan of a table whose rows are units, under ids of its own."""
    columns = tuple(ScanColumn(id=f"{name}{suffix}", name=name, type=INT64) for name in ("x", "y"))
    return Scan(table=table, columns=columns, public=False)


def over(source: Relation, kept: Expression, *, unit: str | None = None) -> PrivateAggregate:
    """Returns the number of rows of a source for which something is true."""
    columns = (Computed(id="kept", name="", expression=kept), Computed(id="u", name="", expression=of(1)))
    return PrivateAggregate(
        source=Project(source=source, columns=columns),
        unit=unit,
        keys=(),
        weights=by_hand(unit, 1, 1),
        measures=(counted("m1", "kept"),),
    )


def less(column: str, value: int) -> Call:
    return truth("lt", Column(id=column, type=INT64), of(value))


def more(column: str, value: int) -> Call:
    return truth("ge", Column(id=column, type=INT64), of(value))


def lost(*aggregates: PrivateAggregate) -> int:
    parts = tuple(plan(aggregate, 1).aggregates[0] for aggregate in aggregates)
    return int(guarantee_of(BudgetedPlan(aggregates=parts), ADD).epsilon)


def test_rows_of_one_table_in_several_aggregates() -> None:
    first, other = scan("t", "1"), scan("t", "2")
    assert lost(over(first, less("x1", 5)), over(other, more("x2", 5))) == 1
    assert lost(over(first, less("x1", 5)), over(other, more("x2", 4))) == 2
    assert lost(over(first, less("x1", 5)), over(other, more("y2", 5))) == 2
    where = Filter(source=other, condition=more("x2", 5))
    assert lost(over(first, less("x1", 5)), over(where, more("y2", 0))) == 1
    assert lost(over(first, less("x1", 5), unit="u"), over(other, more("x2", 5), unit="u")) == 2


def test_rows_of_other_tables_are_other_rows() -> None:
    everything = of(True, BOOLEAN)
    one, two = scan("t", "1"), scan("s", "2")
    assert lost(over(one, everything), over(two, everything)) == 1
    columns = tuple(Matched(id=f"c{i}", name="", type=INT64, left=f"{n}3", right=f"{n}4") for i, n in enumerate("xy"))
    both = SetOperation(kind="union_all", left=scan("t", "3"), right=scan("r", "4"), columns=columns)
    assert lost(over(both, everything), over(two, everything)) == 1
    assert lost(over(both, everything), over(one, everything)) == 2
    assert lost(over(both, less("c0", 5)), over(scan("t", "5"), more("x5", 5))) == 2, "ids of other relations"


def test_names_are_those_of_stored_columns() -> None:
    """y AS x is y."""
    named = Project(
        source=scan("t", "1"), columns=(Computed(id="x", name="x", expression=Column(id="y1", type=INT64)),)
    )
    assert lost(over(named, less("x", 5)), over(scan("t", "2"), more("x2", 5))) == 2
    assert lost(over(named, less("x", 5)), over(scan("t", "2"), more("y2", 5))) == 1
    values = Values(columns=(OutputColumn(id="t.x", name="x", type=INT64),), rows=())
    assert lost(over(values, less("t.x", 5)), over(scan("t", "2"), more("x2", 5))) == 2


def test_conditions_that_a_projection_makes_too_large_are_left_out() -> None:
    wide: Expression = Column(id="x1", type=INT64)
    for _ in range(8):
        wide = Call(function="add", arguments=(wide, wide), type=INT64)
    named = Project(source=scan("t", "1"), columns=(Computed(id="w", name="", expression=wide),))
    assert lost(over(named, less("w", 5)), over(named, more("w", 5))) == 2
