"""The table of sensitivities against all that a unit can add: exact norms by brute force over small worlds.

What a unit adds to the groups is a vector of sums of weight times value, with weights that add up to M at most. Norms
are convex, so they are largest where each weight is whole and each value at an end; fractions are tried too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpquery.kernel.plan import WEIGHT, Count, Lattice, Measure, Total, Weighing
from dpquery.kernel.sensitivity import coarseness, sensitivity
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, UNITS, aggregate, total, weights

Vector = tuple[Fraction, ...]
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def shares(units: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Yields all ways to lay at most so many units into groups."""
    for given in itertools.product(range(units + 1), repeat=groups):
        if sum(given) <= units:
            yield given


def vectors(most: int, groups: int, lower: int, upper: int, parts: int = 1) -> set[Vector]:
    """Returns what a unit of weight `most` can add, in parts of a row, each with an end of the range or 0."""
    found = set()
    for low in shares(most * parts, groups):
        for high in shares(most * parts - sum(low), groups):
            pairs = zip(low, high, strict=True)
            found.add(tuple(Fraction(a * lower + b * upper, parts) for a, b in pairs))
    return found


def moved(added: set[Vector], neighbours: Neighbours) -> tuple[Fraction, Fraction, Fraction]:
    """Returns the largest norms, the third squared: of one vector, or of the difference of any two."""
    parts = math.lcm(*(number.denominator for vector in added for number in vector))
    vectors = np.array([[int(number * parts) for number in vector] for vector in added], np.int64)
    if neighbours is not ADD:
        vectors = (vectors[:, None] - vectors[None]).reshape(-1, vectors.shape[1])
    sizes = np.abs(vectors)
    assert sizes.max() < 2**28  # squares add up to less than 2**63
    linf, l1, l2 = (int(found.max()) for found in (sizes, sizes.sum(axis=1), (sizes**2).sum(axis=1)))
    return Fraction(linf, parts), Fraction(l1, parts), Fraction(l2, parts**2)


def declared(
    measure: Measure, most: int, groups: int, neighbours: Neighbours, limit: int | None = None
) -> tuple[Fraction, Fraction, Fraction]:
    made = weights(Weighing.COUNTED, most, groups=limit)
    found = sensitivity(aggregate(measure, weights=made, keys=groups), measure, neighbours)
    return Fraction(found.linf), Fraction(found.l1), Fraction(found.l2_squared)


def within(most: int, one: int, groups: int, lower: int, upper: int) -> set[Vector]:
    """Returns what a unit of weight `most` can add that weighs at most `one` in each group."""
    found = set()
    for low in shares(most, groups):
        for high in shares(most - sum(low), groups):
            if all(a + b <= one for a, b in zip(low, high, strict=True)):
                found.add(tuple(Fraction(a * lower + b * upper) for a, b in zip(low, high, strict=True)))
    return found


RANGES = [(0, 3), (-2, 3), (-3, 3), (-3, 1), (-3, 0), (1, 2), (-2, -1), (2, 2), (0, 1), (-1, 1)]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("most", [1, 2])
def test_sums_move_as_far_as_is_declared_and_no_farther(
    most: int, groups: int, ends: tuple[int, int], neighbours: Neighbours
) -> None:
    """All norms are reached, whatever the ends."""
    linf, l1, l2 = declared(total(*ends), most, groups, neighbours)
    real = moved(vectors(most, groups, *ends), neighbours)
    assert real == (linf, l1, l2)


def within_total(most: int, groups: int, *, below: bool, above: bool, parts: int = 1) -> set[Vector]:
    """Returns what a unit can add whose magnitudes add up to `most`, in parts of a step, of the signs of its values."""
    signs = [sign for sign, there in ((-1, below), (1, above)) if there]
    found = set()
    for shared in shares(most * parts, groups * len(signs)):
        rows = [(place // len(signs), signs[place % len(signs)] * size) for place, size in enumerate(shared)]
        found.add(tuple(Fraction(sum(size for of, size in rows if of == group), parts) for group in range(groups)))
    return found


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("most", "parts"), [(1, 1), (2, 1), (1, 3)])
def test_sums_with_a_total_move_as_far_as_is_declared_and_no_farther(
    most: int, parts: int, groups: int, ends: tuple[int, int], neighbours: Neighbours
) -> None:
    """Whatever the rows weigh besides, and however large one value is; all norms are reached."""
    measure = replace(total(*ends), total=Total(column="v_total", most=most))
    below, above = ends[0] < 0, ends[1] > 0
    real = moved(within_total(most, groups, below=below, above=above, parts=parts), neighbours)
    assert real == declared(measure, 50, groups, neighbours)


def of_rows(most: int, one: int, rows: int, groups: int, ends: tuple[int, int]) -> set[Vector]:
    """Returns what a unit of so many rows can add, at most `one` of them in a group, with magnitudes of `most` in all.

    A row of weight 1 or less adds any number between 0 and an end.
    """
    below, above = max(0, -ends[0]), max(0, ends[1])
    in_one = {(0, 0, 0)}
    for low, high in itertools.product(range(one + 1), repeat=2):
        if low + high <= one:
            in_one |= {
                (a, b, low + high)
                for a in range(min(most, low * below) + 1)
                for b in range(min(most, high * above) + 1)
            }
    found = set()
    for given in itertools.product(in_one, repeat=groups):
        if sum(a + b for a, b, _ in given) <= most and sum(count for *_, count in given) <= rows:
            found.add(tuple(Fraction(b - a) for a, b, _ in given))
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ends", [(0, 3), (-2, 3), (-3, 1), (-2, 0), (-1, 1), (1, 2)])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("most", "one", "rows"), [(5, 1, 3), (2, 1, 2), (4, 1, 1), (5, 2, 2), (3, 2, 3)])
def test_sums_with_a_total_of_few_rows(
    most: int, one: int, rows: int, groups: int, ends: tuple[int, int], neighbours: Neighbours
) -> None:
    """Few rows in a group, or in all, move a sum by less than its total may be."""
    measure = replace(total(*ends), total=Total(column="v_total", most=most))
    real = moved(of_rows(most, one, rows, groups, ends), neighbours)
    for weighing in (Weighing.WHOLE, Weighing.COUNTED):
        made = weights(weighing, rows if weighing is Weighing.WHOLE else 50)
        made = replace(made, rows_in_group=one, most_rows=None if weighing is Weighing.WHOLE else rows)
        found = sensitivity(aggregate(measure, weights=made, keys=groups), measure, neighbours)
        limits = found.linf, found.l1, found.l2_squared
        assert all(a <= b for a, b in zip(real, limits, strict=True))
        if neighbours is ADD:
            assert real[:2] == limits[:2], "reached"
        if neighbours is REPLACE and groups == 1:
            assert real[0] <= found.linf <= real[0] + (one * rows > 1) * most


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("most", "few", "pairs"), [(4, 2, None), (4, 1, None), (4, None, 1), (4, 2, 3), (2, 3, 3)])
def test_few_different_values(
    most: int, few: int | None, pairs: int | None, groups: int, neighbours: Neighbours
) -> None:
    """Pairs that a unit adds are no more than it has, nor in a group than there are values; most of it is reached."""
    measure = Measure(id="d", label="", count=Count.DISTINCT, value="v_visit", different=few, pairs=pairs)
    real = moved(within(min(most, pairs or most), few or most, groups, 0, 1), neighbours)
    limits = declared(measure, most, groups, neighbours)
    assert all(a <= b for a, b in zip(real, limits, strict=True))
    assert real[0] == limits[0] and (real[1] == limits[1] or neighbours is REPLACE)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2])
def test_sums_with_a_total_that_are_rounded_down_to_coarser_steps(groups: int, neighbours: Neighbours) -> None:
    most = 2**20 + 1
    measure = replace(total(-(2**20), 2**20), total=Total(column="v_total", most=most))
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, 3, most=3), keys=groups)
    steps, found = plan.steps(measure), sensitivity(plan, measure, neighbours)
    coarse = coarseness(plan, measure)
    assert coarse > 1
    ends = [-most * steps, 0, most * steps]
    vertices = [tuple(end if i == j else 0 for j in range(groups)) for i in range(groups) for end in ends]
    others = vertices if neighbours is REPLACE else [(0,) * groups]
    for base in itertools.product((0, 1, coarse - 1), repeat=groups):
        for x, y in itertools.product(vertices, others):
            moves = [(a + c) // coarse - (b + c) // coarse for a, b, c in zip(x, y, base, strict=True)]
            sizes = [abs(Fraction(move * coarse, steps)) for move in moves]
            assert max(sizes) <= found.linf and sum(sizes) <= found.l1
            assert sum(size**2 for size in sizes) <= found.l2_squared


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("steps", [1, WEIGHT])
def test_sums_move_as_far_as_is_declared_whatever_they_are_rounded_down_by(
    steps: int, groups: int, neighbours: Neighbours
) -> None:
    """R follows from the loss, and may be more than a lattice step."""
    most, ends = 3, (-5, 2**10)
    measure = total(*ends)
    weighing = Weighing.WHOLE if steps == 1 else Weighing.COUNTED
    plan = aggregate(measure, weights=weights(weighing, most, most=None if steps == 1 else most), keys=groups)
    assert coarseness(plan, measure) == 1
    own = [tuple(most * steps * end if i == j else 0 for j in range(groups)) for i in range(groups) for end in ends]
    others = [*own, (0,) * groups] if neighbours is REPLACE else [(0,) * groups]
    for coarse in (2, 2**9, 2**15, 2**26, 2**34):
        found, reached = sensitivity(plan, measure, neighbours, coarse), Fraction(0)
        for base in itertools.product((0, 1, coarse - 1), repeat=groups):
            for x, y in itertools.product(own, others):
                moves = [(a + c) // coarse - (b + c) // coarse for a, b, c in zip(x, y, base, strict=True)]
                sizes = [abs(Fraction(move * coarse, steps)) for move in moves]
                assert max(sizes) <= found.linf and sum(sizes) <= found.l1
                assert sum(size**2 for size in sizes) <= found.l2_squared
                reached = max(reached, *sizes)
        assert reached > found.linf / 2, "steps as coarse as all that a unit moves are moved by too"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("most", "one"), [(2, 1), (3, 1), (3, 2), (4, 2), (2, 5)])
def test_units_with_few_rows_in_a_group_move_as_far_as_is_declared(
    most: int, one: int, groups: int, ends: tuple[int, int], neighbours: Neighbours
) -> None:
    """All norms hold, and are reached where a unit's rows fill so many groups, and others as many."""
    made = replace(weights(Weighing.COUNTED, most), rows_in_group=one)
    for measure in (total(*ends), ROWS):
        found = sensitivity(aggregate(measure, weights=made, keys=groups), measure, neighbours)
        limits = found.linf, found.l1, found.l2_squared
        real = moved(within(most, one, groups, *(ends if measure.lattice else (0, 1))), neighbours)
        assert all(a <= b for a, b in zip(real, limits, strict=True))
        if most % one == 0 or groups * one <= most or one >= most:
            assert real == limits
        assert real[0] == found.linf


def in_strata(most: int, one: int, groups: int, ends: tuple[int, int]) -> set[Vector]:
    """Returns what a unit adds to groups, each in a stratum of its own, beside rows in a stratum that no group shows:
    from its stored rows, by the weights that they have, with all values in a group at one end."""
    found = set()
    for counts in itertools.product(range(2 * one + 2), repeat=groups + 1):
        held = sum(min(one, count) for count in counts)
        whole = min(Fraction(1), Fraction(most, max(held, 1)))
        weigh = [count * whole * min(Fraction(1), Fraction(one, max(count, 1))) for count in counts[:groups]]
        for values in itertools.product(set(ends), repeat=groups):
            found.add(tuple(weight * value for weight, value in zip(weigh, values, strict=True)))
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ends", [(0, 3), (-2, 3), (-3, 3), (1, 2), (-2, -1)])
@pytest.mark.parametrize(("most", "one", "groups"), [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 2, 2), (3, 3, 2), (2, 1, 3)])
def test_units_in_strata_move_as_far_as_is_declared(
    most: int, one: int, groups: int, ends: tuple[int, int], neighbours: Neighbours
) -> None:
    """The table of sensitivities where each group is in one stratum; a unit's rows fill some, and others as many."""
    made = replace(weights(Weighing.STORED, most, column="v_w"), rows_in_group=one)
    measure = total(*ends)
    found = sensitivity(aggregate(measure, weights=made, keys=groups), measure, neighbours)
    limits = found.linf, found.l1, found.l2_squared
    real = moved(in_strata(most, one, groups, ends), neighbours)
    assert all(a <= b for a, b in zip(real, limits, strict=True))
    assert neighbours is REPLACE or real[0] == found.linf
    if neighbours is ADD and most % one == 0 and groups * one >= most:
        assert real == limits


def test_values_of_others_may_be_many_in_a_group_of_one_row() -> None:
    """A unit that takes a value from others moves them to theirs, in any groups: its own rows there limit nothing."""
    made = replace(weights(Weighing.COUNTED, 3), rows_in_group=1)
    distinct = Measure(id="d", label="", count=Count.DISTINCT, value="v_visit")
    found = sensitivity(aggregate(distinct, weights=made, keys=3), distinct, ADD)
    assert (found.linf, found.l1, found.l2_squared) == (3, 3, 9)


@pytest.mark.parametrize("ends", [(-2, 3), (-1, 1), (0, 2)])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_weights_that_are_no_whole_rows_move_no_farther(ends: tuple[int, int], neighbours: Neighbours) -> None:
    whole, parts = (moved(vectors(1, 2, *ends, parts=parts), neighbours) for parts in (1, 3))
    assert whole == parts


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_counts_and_different_values(most: int, groups: int, neighbours: Neighbours) -> None:
    """Of different values a unit adds those that others do not have: any numbers that add up to M at most."""
    real = moved(vectors(most, groups, 0, 1), neighbours)
    distinct = Measure(id="d", label="", count=Count.DISTINCT, value="v_visit")
    for measure in (ROWS, distinct):
        assert declared(measure, most, groups, neighbours) == real


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2, 3, 5])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_units_that_share_what_they_count_for(limit: int, groups: int, neighbours: Neighbours) -> None:
    """A unit in G groups, some of them not public, weighs min(1, g / G) in each."""
    added = set()
    for inside in itertools.product((0, 1), repeat=groups):
        for outside in range(4):
            count = sum(inside) + outside
            weight = min(Fraction(1), Fraction(limit, max(1, count)))
            added.add(tuple(weight * there for there in inside))
    real = moved(added, neighbours)
    found = declared(UNITS, 50, groups, neighbours, limit)
    assert all(a <= b for a, b in zip(real, found, strict=True))
    if neighbours is ADD or groups >= 2 * limit:
        assert real == found, "reached"


CHOSEN = [
    *(
        Measure(
            id="q",
            label="",
            count=Count.QUANTILE,
            value="v_visit",
            lattice=Lattice(grid=Fraction(1), lower=0, upper=2),
            target=target,
        )
        for target in (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1))
    ),
    Measure(id="m", label="", count=Count.MODE, value="v_visit", domain=(0, 1, 2)),
]


def histograms(most: int, groups: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yields what a unit may weigh at each of three values in each group."""
    for given in shares(most, 3 * groups):
        yield tuple(given[3 * i : 3 * i + 3] for i in range(groups))


def utility(measure: Measure, weights: tuple[int, ...]) -> list[int]:
    """Returns the utility of each of three candidates, from the definition; of extremes at the plain rank."""
    if measure.target is None:
        return list(weights)
    r, q = measure.target.numerator, measure.target.denominator
    n, below = sum(weights), [sum(weights[:i]) for i in range(4)]
    if measure.target in (0, 1):  # the rank 1, from below or from above
        rank = 1
        ends = (
            [(below[i], below[i + 1]) for i in range(3)]
            if r == 0
            else [(n - below[i + 1], n - below[i]) for i in range(3)]
        )
        return [-max(0, before - (rank - 1), rank - upto) for before, upto in ends]
    return [-max(0, q * below[i] - r * n, r * n - q * below[i + 1]) for i in range(3)]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("measure", CHOSEN, ids=lambda measure: f"{measure.count.value} {measure.target}")
def test_utilities_move_apart_as_far_as_is_declared_over_two_groups(measure: Measure, neighbours: Neighbours) -> None:
    """Beside rows of others, in steps of a whole row; quantiles and modes reach the squares of a replaced unit."""
    most, groups = 2, 2
    made = weights(Weighing.WHOLE, most)
    found = sensitivity(aggregate(measure, weights=made, keys=groups), measure, neighbours)
    own = list(histograms(most, groups))
    linf = l1 = l2 = 0
    for base in ((0, 0, 0), (3, 0, 3), (2, 3, 7), (5, 35, 0), (9, 0, 12)):
        given = [[utility(measure, tuple(map(sum, zip(base, part, strict=True)))) for part in one] for one in own]
        without = [[utility(measure, base)] * groups] if neighbours is ADD else given
        for x, y in itertools.product(given, without):
            steps = [[a - b for a, b in zip(after, before, strict=True)] for after, before in zip(x, y, strict=True)]
            ranges = [max(each) - min(each) for each in steps]
            linf, l1 = max(linf, *ranges), max(l1, sum(ranges))
            l2 = max(l2, sum(each * each for each in ranges))
    assert linf <= found.linf and l1 <= found.l1 and l2 <= found.l2_squared
    if measure.target not in (0, 1):
        assert l2 == found.l2_squared


@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_units_that_are_kept_in_some_selected_groups(kept: int, neighbours: Neighbours) -> None:
    groups = 6
    added = {tuple(Fraction(x) for x in one) for one in itertools.product((0, 1), repeat=groups) if sum(one) <= kept}
    made = weights(Weighing.COUNTED, 50, groups=kept)
    found = sensitivity(aggregate(UNITS, weights=made, keys=None), UNITS, neighbours)
    assert moved(added, neighbours) == (found.linf, found.l1, found.l2_squared)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_rounding_down_to_coarser_steps(groups: int, neighbours: Neighbours) -> None:
    """Beside any other weights, numbers that are rounded down move by less than a step more in each group."""
    measure, most = total(-(2**20), 2**20), 1
    plan = aggregate(measure, weights=weights(Weighing.COUNTED, most), keys=groups)
    coarse, steps, found = 4, plan.steps(measure), sensitivity(plan, measure, neighbours)
    ends = [-(2**20) * steps, 0, 2**20 * steps]
    vertices = [tuple(end if i == j else 0 for j in range(groups)) for i in range(groups) for end in ends]
    others = vertices if neighbours is REPLACE else [(0,) * groups]
    for base in itertools.product((0, 1, 3), repeat=groups):
        for x, y in itertools.product(vertices, others):
            moves = [(a + c) // coarse - (b + c) // coarse for a, b, c in zip(x, y, base, strict=True)]
            sizes = [abs(Fraction(move * coarse, steps)) for move in moves]
            assert max(sizes) <= found.linf and sum(sizes) <= found.l1
            assert sum(size**2 for size in sizes) <= found.l2_squared
