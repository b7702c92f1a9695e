"""The formulas of docs/proofs/weights.md: every norm of a sum is M B, of units g, and what coarser steps add."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt

import pytest

from dpquery.errors import InternalError
from dpquery.kernel.contributions import cells, groups_per_unit, moved_by_row
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, PrivateAggregate, Weighing
from dpquery.kernel.sensitivity import MOST_FINE_STEPS, Sensitivity, coarseness, finer_steps, sensitivity
from dpquery.plan.types import INT64
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, UNITS, aggregate, total, weights

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
VALUES = Measure(id="v", label="", count=Count.VALUES, value="v_visit")
DISTINCT = Measure(id="d", label="", count=Count.DISTINCT, value="v_visit")
MODE = Measure(id="m", label="", count=Count.MODE, value="v_visit", domain=(1, 2, 3))
POINTS = Lattice(grid=Fraction(1), lower=-5, upper=5)
WEIGHINGS = [
    weights(Weighing.WHOLE, 7),
    weights(Weighing.COUNTED, 7),
    weights(Weighing.STORED, 7, column="v_w", most=100),
]


def moved(linf: int, l1: int, l2_squared: int) -> Sensitivity:
    return Sensitivity(linf=linf, l1=l1, l2_squared=l2_squared)


@pytest.mark.parametrize("made", WEIGHINGS)
@pytest.mark.parametrize("groups", [0, 1, 2, 5, None])
@pytest.mark.parametrize("measure", [ROWS, VALUES, DISTINCT])
def test_counts_move_by_the_weight_of_a_unit(made: object, groups: int | None, measure: Measure) -> None:
    plan = aggregate(measure, weights=made, keys=groups)  # type: ignore[arg-type]
    assert sensitivity(plan, measure, ADD) == moved(7, 7, 49)
    one = groups in (0, 1)
    assert sensitivity(plan, measure, REPLACE) == (moved(7, 7, 49) if one else moved(7, 14, 98))


@pytest.mark.parametrize(
    ("lower", "upper", "groups", "added", "replaced"),
    [
        (0, 10, 0, (20, 20, 400), (20, 20, 400)),
        (0, 10, 3, (20, 20, 400), (20, 40, 800)),
        (-4, 10, 0, (20, 20, 400), (28, 28, 784)),
        (-4, 10, 2, (20, 20, 400), (28, 40, 800)),
        (-10, 10, 2, (20, 20, 400), (40, 40, 1600)),
        (-10, 10, None, (20, 20, 400), (40, 40, 1600)),
        (-10, -2, 0, (20, 20, 400), (20, 20, 400)),
        (-2, -2, 3, (4, 4, 16), (4, 8, 32)),
        (0, 0, 3, (2, 2, 4), (2, 4, 8)),
    ],
)
def test_sums_move_by_the_largest_value_and_by_the_width(
    lower: int, upper: int, groups: int | None, added: tuple[int, int, int], replaced: tuple[int, int, int]
) -> None:
    """M = 2; W = max(0, b) - min(0, a)."""
    measure = total(lower, upper)
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, 2), keys=groups)
    assert sensitivity(plan, measure, ADD) == moved(*added)
    assert sensitivity(plan, measure, REPLACE) == moved(*replaced)


def test_magnitudes_of_deviations_and_of_squares() -> None:
    assert moved_by_row(total(10, 40, offset=25)) == (15, 30)
    squared = Lattice(grid=Fraction(1), lower=-3, upper=5, squared=True, offset_of_square=12)
    assert moved_by_row(replace(total(0, 1), lattice=squared)) == (13, 25)
    assert moved_by_row(ROWS) == moved_by_row(DISTINCT) == (1, 1)


@pytest.mark.parametrize(
    ("lattice", "most"),
    [
        (Lattice(grid=Fraction(1), lower=0, upper=2**53 + 1), 1),
        (Lattice(grid=Fraction(1), lower=-(2**31), upper=2**31, squared=True), 1),
        (Lattice(grid=Fraction(1), lower=0, upper=2**52), 2**10),
    ],
)
def test_lattices_of_too_many_steps_are_refused(lattice: Lattice, most: int) -> None:
    measure = replace(total(0, 1), lattice=lattice)
    with pytest.raises(InternalError):
        sensitivity(aggregate(measure, weights=weights(Weighing.WHOLE, most)), measure, ADD)


# Units.


def two_keys(plan: PrivateAggregate) -> PrivateAggregate:
    """Returns the plan by one public key and one that is selected."""
    return replace(plan, keys=(Key.of("v_place", INT64, (1, 2)), Key.of("v_visit", INT64, None)), selection="u")


def test_units_that_decide_in_rounds_move_by_one_in_squares() -> None:
    """Whatever g is; a replaced unit moves what two do. docs/proofs/selection.md, "In rounds"."""
    deciding = replace(UNITS, count=Count.DECIDING)
    for groups, root in ((1, 1), (2, 2), (4, 2), (5, 3), (16, 4)):
        plan = aggregate(deciding, weights=weights(Weighing.COUNTED, 9, groups=groups), keys=None, selection="u")
        assert sensitivity(plan, deciding, ADD) == moved(1, root, 1)
        assert sensitivity(plan, deciding, REPLACE) == moved(1, 2 * root, 2)
        assert finer_steps(plan, deciding) == WEIGHT


@pytest.mark.parametrize(
    ("made", "groups", "expected"),
    [
        (weights(Weighing.COUNTED, 9, groups=3), 10, 3),
        (weights(Weighing.COUNTED, 9), 10, 10),
        (weights(Weighing.COUNTED, 9, most=4), 10, 4),
        (weights(Weighing.COUNTED, 9, groups=3, most=2), None, 2),
        (weights(Weighing.COUNTED, 9, groups=3), None, 3),
        (weights(Weighing.COUNTED, 9), None, None),
        (weights(Weighing.WHOLE, 9), None, 9),
        (weights(Weighing.WHOLE, 9, groups=30), 20, 9),
        (weights(Weighing.COUNTED, 9, groups=3), 0, 1),
        (weights(Weighing.STORED, 1, column="v_w", most=50), 20, 20),
        (weights(Weighing.STORED, 1, column="v_w"), None, None),
    ],
)
def test_groups_of_a_unit(made: object, groups: int | None, expected: int | None) -> None:
    """Stored weights say nothing of the number of rows: only a proof of that does."""
    plan = aggregate(UNITS, weights=made, keys=groups)  # type: ignore[arg-type]
    assert groups_per_unit(plan) == expected
    if expected is None:
        with pytest.raises(InternalError):
            sensitivity(plan, UNITS, ADD)
        return
    assert sensitivity(plan, UNITS, ADD) == moved(1, expected, expected)
    both = 2 * expected if groups is None else max(1, min(2 * expected, max(groups, 1)))
    assert sensitivity(plan, UNITS, REPLACE) == moved(1, both, both)


def test_a_key_that_is_selected_makes_all_groups_selected() -> None:
    plan = two_keys(aggregate(UNITS, weights=weights(Weighing.COUNTED, 9, groups=3)))
    assert plan.public_groups is None and not plan.divides_units
    assert sensitivity(plan, UNITS, REPLACE) == moved(1, 6, 6)


@pytest.mark.parametrize(
    ("made", "groups", "divides"),
    [
        (weights(Weighing.COUNTED, 9, groups=3), 10, True),
        (weights(Weighing.COUNTED, 9, groups=3), 3, False),
        (weights(Weighing.COUNTED, 9, groups=3), None, False),
        (weights(Weighing.COUNTED, 9), 10, False),
        (weights(Weighing.COUNTED, 9, groups=3, most=3), 10, False),
        (weights(Weighing.COUNTED, 9, groups=3, most=4), 10, True),
        (weights(Weighing.STORED, 2, column="v_w", groups=3), 10, True),
        (weights(Weighing.WHOLE, 3, groups=3), 10, False),
        (weights(Weighing.WHOLE, 4, groups=3), 10, True),
    ],
)
def test_when_a_unit_counts_in_parts(made: object, groups: int | None, divides: bool) -> None:
    plan = aggregate(UNITS, weights=made, keys=groups)  # type: ignore[arg-type]
    assert plan.divides_units is divides
    assert plan.steps(UNITS) == (WEIGHT if divides else 1)
    assert plan.steps(DISTINCT) == 1
    assert plan.steps(ROWS) == (1 if plan.weights.weighing is Weighing.WHOLE else WEIGHT)


# Choices.


@pytest.mark.parametrize("made", [weights(Weighing.WHOLE, 4), weights(Weighing.COUNTED, 4)])
def test_choices_move_by_the_weights_of_a_unit(made: object) -> None:
    """Utilities are in steps of weight; r = max(q, 1 - q) of a quantile, twice as much to either side."""
    third = Measure(id="q", label="", count=Count.QUANTILE, value="v_visit", lattice=POINTS, target=Fraction(1, 3))
    for groups in (0, 5):
        plan = aggregate(third, MODE, weights=made, keys=groups)  # type: ignore[arg-type]
        m = 4 * plan.weight
        assert sensitivity(plan, third, ADD) == moved(4 * m, 4 * m, (4 * m) ** 2)
        assert sensitivity(plan, MODE, ADD) == moved(m, m, m * m)
        most, squares = (6 * m, (6 * m) ** 2) if groups == 0 else (8 * m, 2 * (4 * m) ** 2)
        assert sensitivity(plan, third, REPLACE) == moved(6 * m, most, max(squares, (6 * m) ** 2))
        assert sensitivity(plan, MODE, REPLACE) == moved(2 * m, 2 * m, (2 * m) ** 2)
        assert coarseness(plan, third) == coarseness(plan, MODE) == finer_steps(plan, MODE) == 1


# Coarser steps.


def test_numbers_are_released_coarser_where_noise_has_no_room() -> None:
    def of(largest: int, **more: object) -> tuple[PrivateAggregate, Measure]:
        measure = total(-largest, largest)
        return aggregate(measure, weights=weights(Weighing.COUNTED, 1, most=6), **more), measure  # type: ignore[arg-type]

    assert coarseness(*of(2**18)) == 1
    assert coarseness(*of(2**18 + 1)) == 2
    assert coarseness(*of(2**20)) == 4
    assert coarseness(*of(2**42)) == coarseness(*of(2**50)) == WEIGHT
    assert finer_steps(*of(2**18)) == WEIGHT
    assert finer_steps(*of(2**20)) == WEIGHT // 4
    for power in range(18, 42):
        plan, measure = of(2**power)
        fine = 2**power * WEIGHT // coarseness(plan, measure)
        assert MOST_FINE_STEPS // 2 < fine <= MOST_FINE_STEPS
    whole = aggregate(total(0, 2**50), weights=weights(Weighing.WHOLE, 1))
    assert coarseness(whole, whole.measures[0]) == 1


@pytest.mark.parametrize(
    ("groups", "neighbours", "changed"),
    [(0, ADD, 1), (4, ADD, 4), (100, ADD, 6), (None, ADD, 6), (0, REPLACE, 1), (100, REPLACE, 12), (None, REPLACE, 12)],
)
def test_each_group_that_changes_may_change_by_a_coarse_step_more(
    groups: int | None, neighbours: Neighbours, changed: int
) -> None:
    largest = 2**20
    measure = total(0, largest)
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, 1, most=6), keys=groups)
    assert cells(plan, neighbours) == changed
    step = Fraction(4, WEIGHT)
    found = sensitivity(plan, measure, neighbours)
    several = neighbours is REPLACE and groups != 0
    exact = moved(largest, 2 * largest if several else largest, (2 if several else 1) * largest**2)
    assert found.linf == exact.linf + step
    assert found.l1 == exact.l1 + step * changed
    least = isqrt(int(exact.l2_squared)) + step * isqrt(changed)
    assert least**2 <= found.l2_squared <= (least + 1 + step) ** 2
    if changed == 1:
        assert found.l2_squared == least**2


def test_of_any_number_of_groups_no_coarser_number_is_released() -> None:
    measure = total(0, 2**20)
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, 1), keys=None)
    with pytest.raises(InternalError):
        sensitivity(plan, measure, ADD)
    fine = total(0, 2**18)
    assert sensitivity(replace(plan, measures=(fine,)), fine, ADD).l1 == 2**18


def test_units_that_count_in_parts_have_steps_of_their_own() -> None:
    """However many rows a unit may have, it moves by `max_groups`; and coarser units move by a step more each."""
    plan = aggregate(UNITS, weights=weights(Weighing.COUNTED, 10**6, groups=3), keys=10)
    assert coarseness(plan, UNITS) == 1
    assert sensitivity(plan, UNITS, ADD) == moved(1, 3, 3)
    many = aggregate(UNITS, weights=weights(Weighing.COUNTED, 1, groups=2**18 + 1, most=2**40), keys=0)
    key = Key.of("v_place", INT64, range(2**18 + 2))
    many = replace(many, keys=(key,))
    assert coarseness(many, UNITS) == 2
    found = sensitivity(many, UNITS, ADD)
    assert found.l1 == 2**18 + 1 + Fraction(2, WEIGHT) * (2**18 + 2)
    assert found.linf == 1 + Fraction(2, WEIGHT)


def test_units_that_count_in_parts_change_in_groups_of_other_blocks() -> None:
    """Rows of a block are few; what the unit weighs in a group depends on how many groups it has in all blocks."""
    plan = aggregate(UNITS, weights=weights(Weighing.STORED, 1, column="w", groups=2**18 + 1, most=2**18 + 2), keys=0)
    plan = replace(plan, keys=(Key.of("v_place", INT64, range(2**19)),))
    assert cells(plan, ADD) == 2**18 + 2
    assert coarseness(plan, UNITS) == 2
    assert sensitivity(plan, UNITS, ADD).l1 == 2**18 + 1 + Fraction(2, WEIGHT) * 2**19
