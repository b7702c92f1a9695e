"""What the gate demands of the weights of a plan: each number in it is proved, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery.errors import InternalError
from dpquery.kernel.checks import check
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import (
    WHOLE_ROW,
    BudgetedAggregate,
    Count,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Weighing,
    Weights,
)
from dpquery.plan.functions import call
from dpquery.plan.logical import Project, Relation
from dpquery.plan.types import DATE
from dpquery.units.declarations import Declarations
from tests.weighing import (
    ROWS,
    UNITS,
    Facts,
    aggregate,
    day,
    declarations,
    join,
    kept,
    number,
    of,
    scan,
    weights,
    where,
)

WEIGHED = scan("visits", "v", max_rows=5)
FEW = scan("visits", "v", limit=7)
IN_MARCH = where(scan("visits", "v", max_rows=5, limit=7), "eq", of("v_day", DATE), day("2024-03-05"))
COUNTED, WHOLE, STORED = Weighing.COUNTED, Weighing.WHOLE, Weighing.STORED


def plan(source: Relation, made: Weights, *, keys: int | None = 0) -> PrivateAggregate:
    measures = (ROWS,) if keys is not None else (ROWS, UNITS)
    return aggregate(*measures, source=source, weights=made, keys=keys, selection=None if keys is not None else "u")


def checked(made: PrivateAggregate, declared: Declarations) -> None:
    noise = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1)))
    delta = Fraction(1, 1000) if made.is_selected else Fraction(0)
    check(
        BudgetedAggregate(aggregate=made, noise=(noise,) * len(made.measures), selection_delta=delta), declared, Facts()
    )


SUM_OF_BOTH = kept(
    join(WEIGHED, scan("people", "p", max_rows=1), ("v_person", "p_person"), kind="left"),
    "v_person",
    "v_place",
    "v_w",
    either=call("coalesce", (of("p_w"), of("v_w"))),
)
MADE_UP = Project(
    source=WEIGHED,
    columns=(*kept(WEIGHED, "v_person", "v_place", "v_w").columns, *kept(WEIGHED, own=number(1)).columns),
)
ALLOWED = {
    "whole rows within the limit of their scan": plan(FEW, weights(WHOLE, 7)),
    "whole rows, fewer than is said": plan(FEW, weights(WHOLE, 8, most=7)),
    "whole rows of units that have one each": plan(
        kept(scan("people", "v"), "v_person", v_place=number(1)), weights(WHOLE, 1)
    ),
    "stored weights": plan(WEIGHED, weights(STORED, 5, column="v_w")),
    "stored weights of less than is said": plan(WEIGHED, weights(STORED, 9, column="v_w", most=1000)),
    "stored weights, passed on": plan(MADE_UP, weights(STORED, 5, column="v_w")),
    "counted": plan(FEW, weights(COUNTED, 1)),
    "counted, of any relation": plan(
        join(scan("visits", "v"), scan("visits", "w"), ("v_person", "w_person")), weights(COUNTED, 1)
    ),
    "counted, with a proof of the rows": plan(FEW, weights(COUNTED, 3, most=7)),
    "selected, in some groups": plan(scan("visits", "v"), weights(COUNTED, 3, groups=2), keys=None),
    "selected, of few rows": plan(FEW, weights(COUNTED, 3, most=7), keys=None),
    "selected, of few whole rows": plan(FEW, weights(WHOLE, 7), keys=None),
}
REFUSED = {
    "whole rows, more than is said": (plan(FEW, weights(WHOLE, 6)), "weigh more"),
    "whole rows of which no rule bounds the number": (
        plan(join(scan("visits", "v", limit=10**9), scan("places", "c"), kind="cross"), weights(WHOLE, 10**9)),
        "weigh more",
    ),
    "stored weights of more than is said": (plan(WEIGHED, weights(STORED, 4, column="v_w")), "weigh more"),
    "no weights": (plan(WEIGHED, weights(STORED, 1000, column="v_visit")), "weigh more"),
    "a column that is not there": (plan(WEIGHED, weights(STORED, 1000, column="w_w")), "weigh more"),
    "weights that the plan made up": (plan(MADE_UP, weights(STORED, 1000, column="own")), "weigh more"),
    "weights of no scan that were not asked for": (plan(FEW, weights(STORED, 1000, column="v_w")), "weigh more"),
    "weights of two sides": (plan(SUM_OF_BOTH, weights(STORED, 1004, column="either")), "weigh more"),
    "too few rows, stored": (plan(WEIGHED, weights(STORED, 5, column="v_w", most=999)), "more rows"),
    "too few rows, counted": (plan(FEW, weights(COUNTED, 1, most=6)), "more rows"),
    "too few rows, whole": (plan(FEW, weights(WHOLE, 7, most=6)), "more rows"),
    "selected, in any number of groups": (
        plan(WEIGHED, weights(STORED, 5, column="v_w"), keys=None),
        "any number of groups",
    ),
    "selected, counted in any number": (plan(scan("visits", "v"), weights(COUNTED, 5), keys=None), "any number"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_weights_that_are_proved(case: str) -> None:
    checked(ALLOWED[case], declarations())


@pytest.mark.parametrize("case", REFUSED)
def test_weights_that_are_not(case: str) -> None:
    made, reason = REFUSED[case]
    with pytest.raises(InternalError, match=reason):
        checked(made, declarations())


def test_of_two_sides_the_weights_of_both_add_up() -> None:
    """A person's weight is there for each of up to 1000 visits, and each visit's where there is no such person."""
    checked(plan(SUM_OF_BOTH, weights(STORED, 1005, column="either")), declarations())


@pytest.mark.parametrize(
    ("made", "is_right"),
    [
        (weights(STORED, 5, column="v_w"), True),
        (weights(STORED, 4, column="v_w"), False),
        (weights(STORED, 5, column="v_w", most=7), True),
        (weights(WHOLE, 7), True),
        (weights(WHOLE, 6), False),
        (weights(COUNTED, 1), True),
        (weights(COUNTED, 1, most=7), False),
    ],
)
def test_with_blocks_a_scan_bounds_rows_by_block(made: Weights, is_right: bool) -> None:
    """Rows of a unit in other blocks stay and weigh the same, unless weights are counted over all of them."""
    budgeted = plan(IN_MARCH, made)
    if is_right:
        checked(budgeted, declarations(dated=True))
    else:
        with pytest.raises(InternalError):
            checked(budgeted, declarations(dated=True))


def test_where_rows_meet_their_like_blocks_bound_nothing() -> None:
    """A row of March that meets those of April: one block's change moves rows of another."""
    met = join(FEW, scan("visits", "w", max_rows=5, limit=7), ("v_person", "w_person"))
    made = plan(met, weights(WHOLE, 49))
    checked(made, declarations())
    with pytest.raises(InternalError):
        checked(made, declarations(dated=True))
    checked(plan(met, weights(COUNTED, 3)), declarations(dated=True))


DECIDING = Measure(id="u", label="", count=Count.DECIDING)


def test_units_decide_in_rounds_about_groups_and_nothing_else() -> None:
    limited = weights(COUNTED, 5, groups=3)
    selected = aggregate(ROWS, DECIDING, source=FEW, weights=limited, keys=None, selection="u")
    checked(selected, declarations())
    for made in (
        aggregate(ROWS, DECIDING, source=FEW, weights=limited, keys=2),
        replace(selected, measures=(ROWS, UNITS, replace(DECIDING, id="again"))),
        replace(selected, measures=(ROWS, DECIDING, replace(DECIDING, id="again"))),
        replace(selected, measures=(ROWS, replace(DECIDING, filter="v_place"))),
        replace(selected, weights=weights(COUNTED, 5)),
    ):
        with pytest.raises(InternalError):
            checked(made, declarations())
    rows = scan("visits", "v", by_row=True)
    with pytest.raises(InternalError):
        checked(aggregate(ROWS, DECIDING, source=rows, unit=None, keys=None, selection="u"), declarations(unit="row"))


def test_rows_that_are_units_weigh_one_row_each() -> None:
    source = scan("visits", "v", by_row=True)
    made = aggregate(ROWS, source=source, unit=None)
    assert made.weights == WHOLE_ROW
    checked(made, declarations(unit="row"))
    for other in (weights(WHOLE, 2), weights(COUNTED, 1), replace(WHOLE_ROW, max_groups=1)):
        with pytest.raises(InternalError, match="weighs more than 1"):
            checked(replace(made, weights=other), declarations(unit="row"))


@pytest.mark.parametrize("said", [1, 6])
def test_fewer_rows_in_a_group_than_are_proved_are_refused(said: int) -> None:
    with pytest.raises(InternalError, match="weigh more in a group"):
        checked(plan(FEW, replace(weights(COUNTED, 5), rows_in_group=said), keys=2), declarations())
    with pytest.raises(InternalError, match="weigh more in a group"):
        checked(plan(FEW, replace(weights(COUNTED, 5, groups=1), rows_in_group=said), keys=None), declarations())
    checked(plan(FEW, replace(weights(COUNTED, 5), rows_in_group=7), keys=2), declarations())


@pytest.mark.parametrize("keys", [0, 2])
def test_fewer_different_values_and_pairs_than_are_proved_are_refused(keys: int) -> None:
    many = Measure(id="d", label="", count=Count.DISTINCT, value="v_kind")
    few, groups = replace(many, value="v_ok"), max(1, keys)
    read = aggregate(few, source=scan("visits", "v"), weights=weights(COUNTED, 5), keys=keys)

    def checks(measure: Measure) -> None:
        checked(replace(read, measures=(measure,)), declarations())

    checks(replace(few, different=2, pairs=2 * groups))
    for wrong in (replace(few, different=1), replace(many, different=10**6)):
        with pytest.raises(InternalError, match="more different values"):
            checks(wrong)
    for wrong in (replace(few, pairs=2 * groups - 1), replace(many, pairs=999)):
        with pytest.raises(InternalError, match="more pairs"):
            checks(wrong)
    with pytest.raises(ValueError, match="to 1 at least"):
        replace(few, different=0)
    with pytest.raises(ValueError, match="only different values"):
        Measure(id="r", label="", count=Count.ROWS, pairs=1)


def test_two_scans_of_a_table_read_the_same_rows() -> None:
    made = join(FEW, scan("visits", "w", limit=8), ("v_person", "w_person"))
    with pytest.raises(InternalError, match="different numbers"):
        checked(plan(made, weights(COUNTED, 1)), declarations())


@pytest.mark.parametrize("wrong", [0, -1, True, Fraction(1, 2), None])
def test_limits_are_whole_numbers_from_one_on(wrong: object) -> None:
    with pytest.raises(ValueError):
        weights(COUNTED, wrong)  # type: ignore[arg-type]
    if wrong is not None:
        with pytest.raises(ValueError):
            weights(COUNTED, 1, groups=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError):
            weights(COUNTED, 1, most=wrong)  # type: ignore[arg-type]


def test_stored_weights_alone_have_a_column() -> None:
    for weighing, column in ((STORED, None), (COUNTED, "v_w"), (WHOLE, "v_w")):
        with pytest.raises(ValueError):
            weights(weighing, 1, column=column)


def test_rows_whose_parent_may_be_in_another_block_have_no_weights_of_one() -> None:
    """Without its parent a row has no unit: a change of one block then moves rows of others."""
    known = declarations(dated=True)
    dated = replace(known.tables["items"], dated=("day", DATE, ""))
    known = replace(known, tables={**known.tables, "items": dated})
    source = kept(scan("items", "v", max_rows=5, limit=7), "v_person", "v_w", v_place=number(1))
    for made in (weights(STORED, 5, column="v_w"), weights(WHOLE, 7), weights(COUNTED, 3, most=7)):
        checked(plan(source, made), declarations(dated=True))
        with pytest.raises(InternalError):
            checked(plan(source, made), known)
    checked(plan(source, weights(COUNTED, 3)), known)
