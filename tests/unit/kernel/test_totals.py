"""Sums scaled to a total of their column: what the gate accepts, and what shares a loss."""

from __future__ import annotations

import datetime
from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery.errors import InternalError
from dpquery.kernel.checks import check
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import (
    BudgetedAggregate,
    Count,
    Key,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Total,
    Weighing,
    Weights,
)
from dpquery.plan.calendar import By
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, Filter, Relation
from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.strata import Strata
from dpquery.plan.types import BOOLEAN, DATE
from dpquery.units.declarations import Declarations, Neighbours
from dpquery.units.scaled_weights import Totalled
from dpquery.units.weights import weighed
from tests.weighing import (
    ROWS,
    Facts,
    aggregate,
    both,
    declarations,
    join,
    kept,
    listed,
    number,
    numbered,
    of,
    scan,
    total,
)

LATTICE = (Fraction(1), -2, 9)
V = replace(
    scan("visits", "v", max_rows=3),
    scaled=(
        Scaled(id="v_s", column="visit", grid=Fraction(1), lower=-2, upper=9, most=20, max_rows=3),
        Scaled(id="v_c", column="cost", grid=Fraction(1), lower=-2, upper=9, most=7, max_rows=3),
    ),
)
W = replace(
    scan("visits", "w", max_rows=3),
    scaled=(Scaled(id="w_s", column="visit", grid=Fraction(1), lower=-2, upper=9, most=5, max_rows=3),),
)
SUM = replace(total(-2, 9), total=Total(column="v_s", most=20))
SAME = ("v_person", "w_person")


def pairs(relation: Relation, *, dated: bool = False) -> dict[str, tuple[set[str], int]]:
    """Returns for each column of scaled weights the columns whose totals it bounds, and the total."""
    found = weighed(relation, declarations(dated=dated), Facts()).scaled
    return {id: (set(pair.values), pair.most) for id, pair in found.items() if pair.values}


def accepted(plan: PrivateAggregate, declared: Declarations | None = None) -> bool:
    noise = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1)))
    budgeted = BudgetedAggregate(aggregate=plan, noise=(noise,) * len(plan.measures))
    try:
        check(budgeted, declared or declarations(), Facts())
    except InternalError:
        return False
    return True


def plan(*measures: Measure, source: Relation = V) -> PrivateAggregate:
    return aggregate(*measures, weights=Weights(weighing=Weighing.COUNTED, max_rows=3), source=source)


def test_a_scan_bounds_the_column_that_it_says() -> None:
    assert weighed(V, declarations(), Facts()).scaled["v_s"] == Totalled(
        values=frozenset({"v_visit"}), lattice=LATTICE, most=20
    )
    assert pairs(V) == {"v_s": ({"v_visit"}, 20), "v_c": ({"v_cost"}, 7)}


def test_a_scan_bounds_no_more_than_its_rows_weigh() -> None:
    """Three rows of 9 at most are 27, whatever the total is; also of values below 0."""
    ends = ((-2, 9, 27), (-9, 2, 27), (-5, 0, 15))
    for lower, upper, most in ends:
        scaled = Scaled(id="v_s", column="visit", grid=Fraction(1), lower=lower, upper=upper, most=100, max_rows=3)
        assert pairs(replace(V, scaled=(scaled,))) == {"v_s": ({"v_visit"}, most)}


def test_what_rows_weigh_in_a_group_says_nothing_of_weights_of_a_total() -> None:
    """Rows of a day weigh 1 together in a stratum, and up to 1 each under a total."""
    source = replace(V, strata=Strata(column="day", by=By.DAY, max_rows=1))
    key = Key.of("v_day", DATE, [datetime.date(2024, 3, 5), datetime.date(2024, 4, 5)])
    stored = Weights(weighing=Weighing.STORED, max_rows=3, column="v_w", rows_in_group=1)
    made = replace(aggregate(ROWS, weights=stored, source=source), keys=(key,))
    assert accepted(made)
    assert not accepted(replace(made, measures=(SUM,)))
    assert accepted(replace(made, measures=(SUM,), weights=replace(stored, rows_in_group=1000)))


def test_filters_windows_and_semi_joins_pass_pairs_on() -> None:
    few = Filter(source=V, condition=call("eq", (of("v_ok", BOOLEAN), of("v_ok", BOOLEAN))))
    for source in (few, numbered(V, "v_visit", "v_person")):
        assert pairs(source) == pairs(V)
    for kind in ("semi", "anti"):
        assert pairs(join(V, W, SAME, kind=kind)) == pairs(V)


def test_of_expressions_only_the_column_itself_is_bounded() -> None:
    source = kept(
        V, "v_person", weight=of("v_s"), value=of("v_visit"), twice=call("add", (of("v_visit"), of("v_visit")))
    )
    assert pairs(source) == {"weight": ({"value"}, 20)}
    less = kept(V, "v_person", "v_visit", weight=call("add", (of("v_s"), number(1))))
    assert pairs(less) == {}


def test_a_join_multiplies_a_total_by_the_rows_that_one_meets() -> None:
    cut = replace(W, row_limit=4)
    small = join(replace(V, row_limit=2), cut, SAME)
    assert pairs(small) == {"v_s": ({"v_visit"}, 80), "v_c": ({"v_cost"}, 28), "w_s": ({"w_visit"}, 10)}
    any_number = replace(W, row_limit=10**7)
    assert pairs(join(replace(V, row_limit=2), any_number, SAME)) == {"w_s": ({"w_visit"}, 10)}
    bands = listed(b=(1, 1, 2))
    assert pairs(join(V, bands, ("v_place", "b")))["v_s"] == ({"v_visit"}, 40)


@pytest.mark.parametrize("kind", ["left", "full"])
def test_a_side_that_is_filled_up_has_no_value_there(kind: str) -> None:
    joined = join(replace(V, row_limit=2), replace(W, row_limit=4), SAME, kind=kind)  # type: ignore[arg-type]
    source = (
        joined
        if kind == "left"
        else kept(joined, "v_s", "v_visit", "w_s", "w_visit", who=call("coalesce", (of("v_person"), of("w_person"))))
    )
    found = pairs(source)
    assert found["v_s"] == ({"v_visit"}, 80) and found["w_s"] == ({"w_visit"}, 10)


def test_weights_of_one_scan_bound_no_values_of_another() -> None:
    source = join(replace(V, row_limit=2), replace(W, row_limit=2), SAME)
    assert not accepted(plan(replace(SUM, value="w_visit", total=Total(column="v_s", most=10**6)), source=source))


def test_a_union_adds_totals_of_one_lattice() -> None:
    union = both(
        "union_all", V, W, who=SAME, weight=("v_s", "w_s"), value=("v_visit", "w_visit"), day=("v_day", "w_day")
    )
    assert pairs(union) == {"weight": ({"value"}, 25)}
    other = replace(W, scaled=(replace(W.scaled[0], upper=8),))
    assert pairs(both("union_all", V, other, who=SAME, weight=("v_s", "w_s"), value=("v_visit", "w_visit"))) == {}
    crossed = both("union_all", V, W, who=SAME, weight=("v_s", "w_s"), value=("v_place", "w_visit"))
    assert pairs(crossed) == {}
    plain = both("union_all", V, W, who=SAME, weight=("v_w", "w_s"), value=("v_visit", "w_visit"))
    assert pairs(plain) == {}


def test_groups_and_other_sets_pass_no_pair_on() -> None:
    assert pairs(Aggregate(source=V, group_by=("v_person", "v_s", "v_visit"), aggregates=())) == {}
    for kind in ("intersect", "except", "intersect_all", "except_all"):
        made = both(kind, V, W, who=SAME, weight=("v_s", "w_s"), value=("v_visit", "w_visit"))
        assert pairs(made) == {}


def test_blocks_bound_totals_of_rows_that_stem_from_one_row_each() -> None:
    assert pairs(V, dated=True) == pairs(V)
    assert pairs(numbered(V, "v_visit", "v_person"), dated=True) == {}
    assert pairs(join(replace(V, row_limit=2), replace(W, row_limit=2), SAME), dated=True) == {}
    assert pairs(join(V, replace(W, row_limit=2), SAME, kind="semi"), dated=True) == {}


def test_the_gate_accepts_the_total_that_is_proved_and_any_larger_one() -> None:
    assert accepted(plan(SUM)) and accepted(plan(replace(SUM, total=Total(column="v_s", most=21))))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SUM, total=Total(column="v_s", most=19)),
        replace(SUM, total=Total(column="v_c", most=20)),
        replace(SUM, total=Total(column="v_w", most=20)),
        replace(SUM, total=Total(column="v_place", most=20)),
        replace(SUM, total=Total(column="nothing", most=20)),
        replace(SUM, value="v_place"),
        replace(SUM, lattice=Lattice(grid=Fraction(1), lower=-2, upper=10)),
        replace(SUM, lattice=Lattice(grid=Fraction(1), lower=-3, upper=9)),
        replace(SUM, lattice=Lattice(grid=Fraction(1, 2), lower=-2, upper=9)),
        replace(SUM, lattice=Lattice(grid=Fraction(1), lower=0, upper=9)),
    ],
)
def test_the_gate_refuses_totals_that_are_not_proved(wrong: Measure) -> None:
    assert not accepted(plan(wrong))
    assert not accepted(plan(SUM, replace(wrong, id="another"))), "whichever measure it is"


def test_where_each_row_is_a_unit_there_are_no_totals() -> None:
    source = scan("visits", "v", by_row=True)
    made = aggregate(SUM, source=source, unit=None)
    assert not accepted(made, declarations(unit="row"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": Count.ROWS, "value": None, "lattice": None},
        {"count": Count.VALUES, "lattice": None},
        {"count": Count.DISTINCT, "lattice": None},
        {"count": Count.QUANTILE, "target": Fraction(1, 2)},
        {"lattice": Lattice(grid=Fraction(1), lower=-2, upper=9, offset=1)},
        {"lattice": Lattice(grid=Fraction(1), lower=-2, upper=9, squared=True)},
    ],
)
def test_only_plain_sums_have_totals(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="plain sums"):
        replace(SUM, **wrong)  # type: ignore[arg-type]


def test_sums_of_disjoint_filters_share_one_total_and_no_other() -> None:
    source = kept(
        V, "v_person", "v_visit", "v_cost", "v_s", "v_c",
        a=call("eq", (of("v_place"), number(1))), b=call("eq", (of("v_place"), number(2))),
    )  # fmt: skip
    first, second = (replace(SUM, id=f"s{f}", filter=f) for f in ("a", "b"))
    cost = replace(second, value="v_cost", total=Total(column="v_c", most=7))
    count = Measure(id="n", label="", count=Count.ROWS, filter="b")
    plain = replace(total(-2, 9), id="p", filter="b")
    for other, is_shared in ((second, True), (cost, False), (count, False), (plain, False)):
        made = plan(first, other, source=source)
        assert accepted(made)
        assert (len(chains([made], Neighbours.ADD_REMOVE)) == 1) is is_shared, other
