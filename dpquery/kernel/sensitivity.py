"""How far one privacy unit moves a vector of measurements. Reads only what the plan enforces.

All norms are over the groups of one measure, in lattice steps or counted things, for neighbours as declared; see
docs/proofs/weights.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dpquery.errors import InternalError
from dpquery.kernel.contributions import cells, groups_per_unit, in_groups, most_moved, moved_by_row
from dpquery.kernel.plan import CHOICES, LARGEST_VALUE, Count, Lattice, Measure, PrivateAggregate, Weighing
from dpquery.kernel.quantiles import apart
from dpquery.units.declarations import Neighbours

MOST_FINE_STEPS = 2**42
"""Exact integers are released in coarser steps where one unit could move them by more: noise has 64 bits."""

COARSEST_STEPS = 2**10
"""Lattice steps that make one step of a sum at most: with noise it has 72 bits of them."""

COARSEST_TERM = 2**20
"""The same of a Bernstein term, whose lattice steps are products of those of its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The most that neighbouring databases differ in one measure's vector, in lattice steps.

    Of a choice, the vector holds for each group how far its utilities move apart: the greatest change of the utility
    of a candidate less the least one, over all sides where several are chosen together. It is in steps of utility.

    Attributes:
        linf: Change of one coordinate.
        l1: Sum of the absolute changes.
        l2_squared: Sum of the squared changes.
    """

    linf: int | Fraction
    l1: int | Fraction
    l2_squared: int | Fraction


def coarseness(aggregate: PrivateAggregate, measure: Measure) -> int:
    """Returns R, a power of two: the exact integer x of a measure is released as floor(x / R), plus noise.

    It is 1 wherever noise on x itself has 64 bits at losses that are not small; for small ones see `coarsest`. All rows
    are added before anything is rounded.
    """
    steps = aggregate.steps(measure)
    if measure.count in (*CHOICES, Count.DECIDING) or steps == 1:
        return 1
    units = measure.count is Count.UNITS
    most = groups_per_unit(aggregate) or 1 if units else most_moved(aggregate, measure)
    moved = most * steps
    return min(steps, 1 << max(0, math.ceil(moved / MOST_FINE_STEPS) - 1).bit_length())


def coarsest(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours) -> int:
    """Returns the largest R at which a measure may be released where its loss asks for noise that has no 64 bits.

    It is that of `coarseness` for choices, for what may share its bound with disjoint filters, and where nothing limits
    how many groups one unit changes. No step is more than one counted thing, or so many lattice steps of a sum.
    """
    plain = coarseness(aggregate, measure)
    shares = aggregate.unit is not None and weighs_together(aggregate, measure)
    if measure.count in (*CHOICES, Count.DECIDING) or shares or _changed(aggregate, measure, neighbours) is None:
        return plain
    most = {1: 1 if measure.count is not Count.SUM else COARSEST_STEPS}.get(measure.terms, COARSEST_TERM)
    return max(plain, aggregate.steps(measure) * most)


def weighs_together(aggregate: PrivateAggregate, measure: Measure) -> bool:
    """Whether what a unit adds to measures of disjoint filters is at most `max_rows` together: the weights of rows, of
    which each is in one measure. What is rounded before noise is added moves by a step more in each of them."""
    if aggregate.unit is None:
        return True
    if measure.count is Count.UNITS:
        return aggregate.weights.weighing is Weighing.WHOLE and aggregate.weights.max_rows == 1
    is_sum = measure.filter is not None and measure.count in (Count.ROWS, Count.VALUES, Count.SUM)
    return is_sum and coarseness(aggregate, measure) == 1


def finer_steps(aggregate: PrivateAggregate, measure: Measure, coarse: int = 0) -> int | Fraction:
    """Returns into how many steps a lattice step is divided when noise is added, for R as of `sensitivity`: less than 1
    where several lattice steps are one of these, and 1 for choices."""
    steps = Fraction(aggregate.steps(measure), coarse or coarseness(aggregate, measure))
    return 1 if measure.count in CHOICES else int(steps) if steps >= 1 else steps


def sensitivity(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours, coarse: int = 0) -> Sensitivity:
    """Returns the sensitivity of one measure's vector over the groups, exactly.

    Args:
        coarse: R, by which exact integers are rounded down; 0 for that of `coarseness`.
    Returns:
        With m and M of `in_groups`, B and W of `moved_by_row`, K all groups and g of `groups_per_unit`:
        add_remove: sums and counts m B, M B, m M B^2 (squared); units 1, g, g (squared).
        replace_one, with D = max(0, 2 M - K m), 0 for selected groups: sums and counts m W, 2 (M - D) B + D W, and
        m max(M W^2, 2 (M - D) B^2 + D W^2) (squared); units 1, and twice min(2 g, K).
        Units that decide in rounds: 1, sqrt(g) rounded up, 1 (squared); replaced: 1, and twice both.
        Of a sum with a total S, with c the least of S and m B, N of S, K m B and n B for n rows, and d that of both
        ends: add_remove c, N, c N (squared); replace_one d, min(2 N, K d), and the product of both (squared).
        Of a Bernstein term that of the vector of all terms of its family: m B, M B, m M B^2; replaced m B, 2 M B,
        2 m M B^2.
        Where a sum is released coarser, as many coarse steps more as groups may change.
    Privacy:
        Neighbours as declared; the rows of one unit weigh at most M together (`Weights`, which the gate proves).
    Source:
        docs/proofs/weights.md, Theorems 1 to 6, 9 and 10.
    """
    coarse = coarse or coarseness(aggregate, measure)
    step = Fraction(coarse, aggregate.steps(measure)) if coarse > 1 else Fraction(0)
    if measure.count is Count.UNITS:
        return _coarser(_of_units(aggregate, neighbours), aggregate, measure, neighbours, step)
    if measure.count is Count.DECIDING:
        return _of_deciding(aggregate, neighbours)
    if measure.count in CHOICES:
        return _of_choice(aggregate, measure, neighbours)
    if (most := most_moved(aggregate, measure)) >= LARGEST_VALUE:
        raise InternalError(f"one unit could move {measure.id} by {most} lattice steps; its grid is too fine")
    size, width = moved_by_row(measure)
    one, all = in_groups(aggregate, measure)
    groups = aggregate.public_groups
    if measure.total is not None and measure.lattice is not None:
        exact = _of_total(aggregate, measure.lattice, measure.total.most, neighbours)
        return _coarser(exact, aggregate, measure, neighbours, step)
    match neighbours:
        case Neighbours.ADD_REMOVE:
            exact = Sensitivity(linf=one * size, l1=all * size, l2_squared=one * all * size**2)
        case Neighbours.REPLACE_ONE if measure.family is not None:
            exact = Sensitivity(linf=one * size, l1=2 * all * size, l2_squared=2 * one * all * size**2)
        case Neighbours.REPLACE_ONE:
            both = 0 if groups is None else max(0, 2 * all - max(1, groups) * one)
            squares = max(all * width**2, 2 * (all - both) * size**2 + both * width**2)
            l1 = 2 * (all - both) * size + both * width
            exact = Sensitivity(linf=one * width, l1=l1, l2_squared=one * squares)
        case _:
            assert_never(neighbours)
    return _coarser(exact, aggregate, measure, neighbours, step)


def _of_total(aggregate: PrivateAggregate, lattice: Lattice, most: int, neighbours: Neighbours) -> Sensitivity:
    """Of a sum with a total S: no row weighs more than 1, so that m rows move a group by m values at most."""
    weights, groups = aggregate.weights, aggregate.public_groups
    rows = weights.max_rows if weights.weighing is Weighing.WHOLE else weights.most_rows
    each = min((limit for limit in (rows, weights.rows_in_group) if limit is not None), default=most)
    below, above = (min(most, each * max(0, end)) for end in (-lattice.lower, lattice.upper))
    one, size = max(below, above, 1), max(-lattice.lower, lattice.upper)
    limits = [most, *([] if groups is None else [groups * one]), *([] if rows is None else [rows * size])]
    all = max(1, min(limits))
    if neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(linf=one, l1=all, l2_squared=one * all)
    width = max(1, below + above)
    both = 2 * all if groups is None else min(2 * all, max(1, groups) * width)
    return Sensitivity(linf=width, l1=both, l2_squared=width * both)


def _of_units(aggregate: PrivateAggregate, neighbours: Neighbours) -> Sensitivity:
    groups, possible = groups_per_unit(aggregate), aggregate.public_groups
    if groups is None:
        raise InternalError("a unit may count in any number of groups")
    if neighbours is Neighbours.REPLACE_ONE:
        groups = 2 * groups if possible is None else max(1, min(2 * groups, possible))
    return Sensitivity(linf=1, l1=groups, l2_squared=groups)


def _of_deciding(aggregate: PrivateAggregate, neighbours: Neighbours) -> Sensitivity:
    """One round's vector, or all of them in the norm of `rounds`: docs/proofs/selection.md, "In rounds"."""
    groups = groups_per_unit(aggregate)
    if groups is None:
        raise InternalError("a unit may count in any number of groups")
    sides = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    root = 1 if groups == 1 else math.isqrt(groups - 1) + 1
    return Sensitivity(linf=1, l1=sides * root, l2_squared=sides)


def _of_choice(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours) -> Sensitivity:
    largest, moved = apart(aggregate, measure)
    match neighbours:
        case Neighbours.ADD_REMOVE:
            return Sensitivity(linf=largest, l1=largest, l2_squared=largest**2)
        case Neighbours.REPLACE_ONE:
            if aggregate.public_groups in (0, 1):
                return Sensitivity(linf=moved, l1=moved, l2_squared=moved**2)
            return Sensitivity(linf=moved, l1=2 * largest, l2_squared=max(moved**2, 2 * largest**2))
        case _:
            assert_never(neighbours)


def _changed(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours) -> int | None:
    """Returns how many groups of a measure, or groups and terms of its vector, one unit changes, or None; what a unit
    that counts in parts weighs in a group depends on all of its groups."""
    found = aggregate.public_groups if measure.count is Count.UNITS else cells(aggregate, neighbours)
    return None if found is None else found * measure.terms


def _coarser(
    exact: Sensitivity, aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours, step: Fraction
) -> Sensitivity:
    """Rounded down to coarser steps, each group that changes may change by one such step more; 0 rounds nothing."""
    if not step:
        return exact
    if (changed := _changed(aggregate, measure, neighbours)) is None:
        raise InternalError(f"one unit may change any number of groups of {measure.id}, whose steps are too fine")
    root = math.isqrt(int(exact.l2_squared) - 1) + 1 + step * (math.isqrt(changed - 1) + 1)
    return Sensitivity(linf=exact.linf + step, l1=exact.l1 + step * changed, l2_squared=root**2)
