"""What a private plan counts and adds up: one integer for each group, or a choice among values.

A part of the language of `kernel/plan.py`, which says what the rows are and what they weigh. docs/proofs/weights.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property

from dpquery.plan.types import Value

LARGEST_VALUE = 2**62
"""No lattice value, times `max_rows`, may reach this."""

LARGEST_STEP = 2**53
"""No bound of a lattice may exceed this: backends may divide by the grid, and clamp, in double precision."""

LOOKED_AT = 64
"""So many times `max_rows` pairs are looked at in the turn of a unit, in its own order, regardless of other units: what
one unit adds to the lists of turns is bounded by declared numbers. docs/proofs/weights.md, Theorem 4."""


CONSIDERED = 64
"""In so many groups of a unit, or in `max_groups` where these are more, it may count in rounds."""


class Count(Enum):
    """What a measure counts or adds up, over one group's rows that pass the measure's filter."""

    UNITS = "count_units"
    """Privacy units with at least one row that passes the filter, by group. A unit with rows in G groups, whether they
    pass the filter and whether the group is public or not, weighs min(1, max_groups / G) in each, rounded down to steps
    of 1 / WEIGHT; without `max_groups`, and unless the aggregate `divides_units`, 1. Where groups are selected it
    weighs 1 in the `max_groups` of its groups that have the least hash of (unit, group) under the release's key, and 0
    in others."""
    DECIDING = "deciding_units"
    """Privacy units, of which groups are selected in rounds. Not a number, but which units have rows in which groups:
    of each unit the CONSIDERED groups, or `max_groups` where these are more, that have the least hash of (unit, group)
    under the release's key, in the order of that hash."""
    ROWS = "count"
    """Rows."""
    VALUES = "count_values"
    """Rows whose value is not NULL."""
    DISTINCT = "count_distinct"
    """Different non-NULL values by group: how many pairs of group and value units stand for. Units take turns, those
    with fewer different pairs over all groups first, and of as many those with the least hash of the unit under the
    release's key. In its turn a unit looks at the LOOKED_AT times `max_rows` of its pairs that have the least hash of
    (group, value) under that key, and stands for the first `max_rows` of these for which no unit stands yet, or for
    all of them where they are fewer."""
    SUM = "sum"
    """The sum of the lattice values of the non-NULL values."""
    QUANTILE = "quantile"
    """Chooses the lattice value at the rank `target` among the weighed values: 0 is the least, 1 the greatest."""
    MODE = "mode"
    """Chooses the value of `domain` that weighs most, by its place there; values outside are not counted."""


CHOICES = (Count.QUANTILE, Count.MODE)
"""What chooses a value, by the exponential mechanism, instead of adding noise to a number."""


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """How a value v becomes an integer: t = round(clamp(v / grid, lower, upper)) - offset, half to even.

    The lattice value is t, or t * t - offset_of_square where `squared`, or a Bernstein term: with j = t - lower and
    N = upper - lower (of t before the offset) it is C(i + k, i) j^i (N - j)^k where `bernstein` is (i, k). The terms of
    a degree i + k add up to N^(i + k) in each row. NaN counts as NULL, infinities are clamped.
    v / grid is exact for floats on a power of two, and for integers and decimals of less than 2^53 grid steps on their
    own grid; otherwise it is the nearest double, which may round to either neighbour. Bounds hold in any case.

    Attributes:
        grid: Width of a step in the value's unit, a power of two or of ten; known without the data.
        lower, upper: Bounds on round(v / grid); they are enforced, not believed.
        offset: Subtracted from every value, so that sums are of deviations from it.
        squared: Whether deviations are squared.
        offset_of_square: Subtracted from every squared deviation; 0 unless `squared`.
        bernstein: The powers (i, k) of a Bernstein term; None for other values. There is no offset then.
    """

    grid: Fraction
    lower: int
    upper: int
    offset: int = 0
    squared: bool = False
    offset_of_square: int = 0
    bernstein: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.grid <= 0 or self.lower > self.upper or (self.offset_of_square and not self.squared):
            raise ValueError("a lattice needs a positive grid and ordered bounds")
        powers = self.bernstein
        if powers is not None and (self.offset or self.squared or min(powers) < 0 or not 1 <= sum(powers) <= 2):
            raise ValueError("a Bernstein term has a degree of 1 or 2, and no offset")

    @cached_property
    def values(self) -> tuple[int, int]:
        """The least and the greatest lattice value; of a Bernstein term what all terms of its degree add up to."""
        if self.bernstein is not None:
            return 0, (self.upper - self.lower) ** self.degree
        low, high = self.lower - self.offset, self.upper - self.offset
        if not self.squared:
            return low, high
        least = 0 if low <= 0 <= high else min(low * low, high * high)
        return least - self.offset_of_square, max(low * low, high * high) - self.offset_of_square

    @property
    def largest_deviation(self) -> int:
        """The largest magnitude of a value less the offset."""
        return max(abs(self.lower - self.offset), abs(self.upper - self.offset))

    @cached_property
    def degree(self) -> int:
        """Of the lattice value as a polynomial of t."""
        return sum(self.bernstein) if self.bernstein is not None else 2 if self.squared else 1

    @cached_property
    def unit(self) -> Fraction:
        """What one step of the lattice value is in the unit of the released number."""
        return self.grid if self.degree == 1 else self.grid**self.degree


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Weights of its own for a sum, in place of the aggregate's, under which no unit adds much to it.

    Attributes:
        column: Id of the source's column of them, int64 from 0 to WEIGHT; NULL weighs nothing.
        most: Weights times magnitudes of lattice values of one unit add up to at most this, in lattice steps; the
            kernel proves it of the plan.
    """

    column: str
    most: int

    def __post_init__(self) -> None:
        if type(self.most) is not int or self.most < 1:
            raise ValueError("a total is at least one lattice step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The other value of a pair: each row's Bernstein term is multiplied by that of this column on its own lattice."""

    value: str
    lattice: Lattice


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One integer per group; of a choice, the lattice value or the place in the domain that was chosen.

    Attributes:
        id: The column under which the noisy number is released; unique in the plan.
        label: What it is, for people.
        count: What is counted or added up.
        value: Id of the source's column that is counted or added; None for UNITS and ROWS.
        filter: Id of a boolean column of the source; only rows where it is true count. None: all rows.
        lattice: For SUM and QUANTILE alone; the values of a MODE are their places in the domain.
        target: For QUANTILE alone, from 0 to 1.
        domain: For MODE alone: the public values to choose from, each once.
        total: For SUM alone, with a lattice that neither shifts nor squares: the weights that it adds up with.
        second: For SUM of a Bernstein term alone: another value, whose term it is multiplied by. A row in which either
            is NULL adds nothing.
        different: For DISTINCT alone: no more different values can be in one group, by the plan; None: not known.
        pairs: For DISTINCT alone: no unit has more pairs of group and value, by the plan; None: not known.
    """

    id: str
    label: str
    count: Count
    value: str | None = None
    filter: str | None = None
    lattice: Lattice | None = None
    target: Fraction | None = None
    domain: tuple[Value, ...] | None = None
    total: Total | None = None
    second: Second | None = None
    different: int | None = None
    pairs: int | None = None

    def __post_init__(self) -> None:
        if (self.lattice is None) is (self.count in (Count.SUM, Count.QUANTILE)):
            raise ValueError("only sums and quantiles have a lattice")
        if (self.target is None) is (self.count is Count.QUANTILE) or (self.domain is None) is (
            self.count is Count.MODE
        ):
            raise ValueError("only quantiles have a target, and only modes a domain")
        if (self.value is None) is not (self.count in (Count.UNITS, Count.DECIDING, Count.ROWS)):
            raise ValueError("a measure has a value unless it counts rows or units")
        is_plain = self.lattice is not None and (self.lattice.offset, self.lattice.degree) == (0, 1) and not self.family
        if self.total is not None and not (self.count is Count.SUM and is_plain):
            raise ValueError("only plain sums have a total")
        few = (self.different, self.pairs)
        if few != (None, None) and (self.count is not Count.DISTINCT or 0 in few):
            raise ValueError("only different values are limited, to 1 at least")
        if any(one.bernstein and self.count is not Count.SUM for one in self.lattices) or (
            self.second is not None and not all(one.bernstein for one in self.lattices)
        ):
            raise ValueError("Bernstein terms are added up, and only they are multiplied")

    @cached_property
    def lattices(self) -> tuple[Lattice, ...]:
        """Those of its value and of the second one, as far as there are any."""
        if self.lattice is None:
            return ()
        return (self.lattice,) if self.second is None else (self.lattice, self.second.lattice)

    @cached_property
    def unit(self) -> Fraction:
        """What one step of the released number is in its unit: 1 for what is counted."""
        if self.lattice is None:
            return Fraction(1)
        return self.lattice.unit if self.second is None else self.lattice.unit * self.second.lattice.unit

    @cached_property
    def family(self) -> tuple[object, ...] | None:
        """Of a Bernstein term what it has in common with the others of its vector; None for others."""
        if self.lattice is None or self.lattice.bernstein is None:
            return None
        bare = tuple((replace(one, bernstein=None), one.degree) for one in self.lattices)
        return (self.value, self.filter, self.second and self.second.value, *bare)

    @cached_property
    def powers(self) -> tuple[object, ...]:
        """Of a Bernstein term which one of its vector it is."""
        return tuple(one.bernstein for one in self.lattices)

    @cached_property
    def terms(self) -> int:
        """How many Bernstein terms its vector has; 1 for others."""
        if self.lattice is None or self.lattice.bernstein is None:
            return 1
        return math.prod(lattice.degree + 1 for lattice in self.lattices)
