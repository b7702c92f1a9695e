"""What one privacy unit adds at most: to one group, to all, and to how many groups. Reads only what the plan enforces.

See docs/proofs/weights.md; `sensitivity` follows from these.
"""

from __future__ import annotations

from dpquery.errors import InternalError
from dpquery.kernel.plan import LARGEST_STEP, LARGEST_VALUE, Count, Measure, PrivateAggregate, Weighing
from dpquery.plan.cached import cached
from dpquery.units.declarations import Neighbours


@cached
def moved_by_row(measure: Measure) -> tuple[int, int]:
    """Returns the largest magnitude of what one row counts for, and how far apart two rows' may be; both at least 1.

    Privacy:
        Relies on the lattice's clamp, which the plan enforces.
        Neighbours: the first number where a row is added or removed, the second where it is replaced.
    """
    if measure.count is not Count.SUM:
        return 1, 1
    if measure.lattice is None:
        raise InternalError(f"the sum {measure.id} has no lattice")
    if any(max(-lattice.lower, lattice.upper) > LARGEST_STEP for lattice in measure.lattices):
        raise InternalError(f"the lattice of {measure.id} has more steps than a double can tell apart")
    if measure.lattice.squared and measure.lattice.largest_deviation**2 >= LARGEST_VALUE:
        raise InternalError(f"the squares of {measure.id} have too many steps")
    least, greatest = measure.lattice.values
    if measure.second is not None:
        greatest *= measure.second.lattice.values[1]
    return max(-least, greatest, 1), max(max(0, greatest) - min(0, least), 1)


def most_moved(aggregate: PrivateAggregate, measure: Measure) -> int:
    """Returns the most that one unit adds to a sum or count over all groups: M B, or S of a sum with a total.

    Source:
        docs/proofs/weights.md, Theorems 1 and 9.
    """
    return measure.total.most if measure.total is not None else aggregate.weights.max_rows * moved_by_row(measure)[0]


def groups_per_unit(aggregate: PrivateAggregate) -> int | None:
    """Returns g, what one unit counts for over all groups where units are counted; None where nothing limits it."""
    weights, groups = aggregate.weights, aggregate.public_groups
    rows = weights.max_rows if weights.weighing is Weighing.WHOLE else weights.most_rows
    alone = None if aggregate.keys else 1
    limits = [limit for limit in (alone, groups, rows, weights.max_groups) if limit is not None]
    return max(1, min(limits)) if limits else None


def in_groups(aggregate: PrivateAggregate, measure: Measure) -> tuple[int, int]:
    """Returns m and M, what one unit weighs at most in one group and in all groups, in rows. For how many different
    values a unit stands in a group is not limited by its rows there, but by how many there can be."""
    weights, groups = aggregate.weights, aggregate.public_groups
    most = min(weights.max_rows, measure.pairs or weights.max_rows)
    limit = measure.different if measure.count is Count.DISTINCT else weights.rows_in_group
    if limit is None:
        return most, most
    one = min(most, limit)
    return one, most if groups is None else min(most, max(1, groups) * one)


def cells(aggregate: PrivateAggregate, neighbours: Neighbours) -> int | None:
    """Returns the most groups whose sums one unit changes; None where nothing limits them."""
    weights, groups = aggregate.weights, aggregate.public_groups
    rows = weights.max_rows if weights.weighing is Weighing.WHOLE else weights.most_rows
    most = None if rows is None else rows * (2 if neighbours is Neighbours.REPLACE_ONE else 1)
    limits = [limit for limit in (groups, most) if limit is not None]
    return max(1, min(limits)) if limits else None
