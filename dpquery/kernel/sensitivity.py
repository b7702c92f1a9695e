"""How far one privacy unit moves a vector of measurements. Reads only what the plan enforces.

All norms are over the groups of one measure, in lattice steps, for neighbours as declared; see
docs/proofs/private-aggregate.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from dpquery.errors import InternalError
from dpquery.kernel.plan import CHOICES, LARGEST_STEP, LARGEST_VALUE, Count, Measure, PrivateAggregate
from dpquery.kernel.quantiles import apart
from dpquery.units.declarations import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The most that neighbouring databases differ in one measure's vector, in lattice steps.

    Of a choice, the vector holds for each group how far its utilities move apart: the greatest change of the utility
    of a candidate less the least one, over all sides where several are chosen together. It is in steps of utility.

    Attributes:
        l0: Coordinates that change.
        linf: Change of one coordinate.
        l1: Sum of the absolute changes.
        l2_squared: Sum of the squared changes.
    """

    l0: int
    linf: int
    l1: int
    l2_squared: int


def contribution(aggregate: PrivateAggregate, measure: Measure) -> tuple[int, int]:
    """Returns the least and the greatest contribution of one unit to one group; 0 lies between them.

    Privacy:
        Relies on BoundContributions and the lattice's clamp, both enforced by the plan.
    Example:
        A sum of values in [-10, 40] with max_rows=2 contributes between -20 and 80.
    """
    rows = 1 if aggregate.unit is None else aggregate.bound.max_rows
    match measure.count:
        case Count.UNITS:
            return 0, 1
        case Count.ROWS | Count.VALUES | Count.DISTINCT:
            return 0, rows
        case Count.SUM:
            if measure.lattice is None:
                raise InternalError(f"the sum {measure.id} has no lattice")
            if max(-measure.lattice.lower, measure.lattice.upper) > LARGEST_STEP:
                raise InternalError(f"the lattice of {measure.id} has more steps than a double can tell apart")
            if measure.lattice.squared and measure.lattice.largest_deviation**2 >= LARGEST_VALUE:
                raise InternalError(f"the squares of {measure.id} have too many steps")
            least, greatest = measure.lattice.values
            return min(0, rows * least), max(0, rows * greatest)
        case Count.QUANTILE | Count.MODE:
            raise InternalError(f"the choice {measure.id} adds nothing up")
        case _:
            assert_never(measure.count)


def movement(aggregate: PrivateAggregate, measure: Measure) -> tuple[int, int]:
    """Returns how far one group moves at most where a unit comes or goes, and where one takes another's place."""
    if measure.count in CHOICES:
        return apart(aggregate, measure)
    least, greatest = contribution(aggregate, measure)
    return max(-least, greatest, 1), max(greatest - least, 1)


def groups_per_unit(aggregate: PrivateAggregate) -> int:
    """Returns the most groups in which one unit weighs."""
    groups = 1 if aggregate.unit is None or not aggregate.keys else aggregate.bound.max_groups
    possible = aggregate.public_groups
    return groups if possible is None else max(1, min(groups, possible))


def sensitivity(aggregate: PrivateAggregate, measure: Measure, neighbours: Neighbours) -> Sensitivity:
    """Returns the sensitivity of one measure's vector over the groups, exactly, in lattice steps.

    Returns:
        With M the largest magnitude and W the width of one contribution (see `movement`), g the groups of a unit and K
        all groups:
        add_remove: l0 = g, linf = M, l1 = g M, l2 squared = g M^2.
        replace_one: k shared groups move by W, the other 2 (g - k) by M, for the worst k with 2 g - k <= K.
        A vector that cannot move is given a step of 1, so that no scale is 0.
    Privacy:
        Neighbours as declared; one unit weighs in at most g groups (BoundContributions), and by at most one
        `contribution` in each.
    Source:
        docs/proofs/private-aggregate.md, docs/proofs/exponential.md; Wilson et al. 2020, "Differentially Private SQL
        with Bounded User Contribution".
    """
    largest, width = movement(aggregate, measure)
    if largest >= LARGEST_VALUE:
        raise InternalError(f"one unit could move {measure.id} by {largest} lattice steps; its grid is too fine")
    groups = groups_per_unit(aggregate)
    match neighbours:
        case Neighbours.ADD_REMOVE:
            return Sensitivity(l0=groups, linf=largest, l1=groups * largest, l2_squared=groups * largest**2)
        case Neighbours.REPLACE_ONE:
            possible = aggregate.public_groups
            least_shared = 0 if possible is None else max(0, 2 * groups - max(1, possible))
            ends = [(shared, 2 * (groups - shared)) for shared in (least_shared, groups)]
            return Sensitivity(
                l0=2 * groups - least_shared,
                linf=width,
                l1=max(k * width + rest * largest for k, rest in ends),
                l2_squared=max(k * width**2 + rest * largest**2 for k, rest in ends),
            )
        case _:
            assert_never(neighbours)
