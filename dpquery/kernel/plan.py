"""The small language that the kernel accepts: private plans, and private plans with a mechanism for each number.

A private plan is a tuple of `PrivateAggregate`. Each turns a unit-local relation into a table of integers by three
steps, which every backend owes the kernel word by word (docs/proofs/private-aggregate.md):

1. For each privacy unit and group: n_j, the number of counted values, and s_j, the exact sum of their lattice values.
2. Bound: the unit keeps at most `max_groups` groups, chosen by a hash of (unit, group) under the release's key, and
   contributes trunc(s_j * min(1, max_rows / n_j)) to sums, min(n_j, max_rows) to counts, and to distinct counts at
   most `max_rows` values in each group, chosen by a hash in the same way. For a choice each of its counted values
   weighs trunc(WEIGHT * min(1, max_rows / n_j)). Bounded `together`, measures with a filter have n, all rows of the
   unit in the group, for n_j in sums and counts: trunc(n_j * min(1, max_rows / n)), and so with max_rows = 1 in units.
3. Sum over units, by group; for a choice, by group and lattice value: a histogram.

Rows whose unit is NULL and rows with a key that is not in its public domain are dropped first.
Where the unit is the row, `unit` is None, every row is a unit, and step 2 does nothing; a value weighs 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from dpquery.kernel.loss import PrivacyLoss
from dpquery.plan.logical import Relation
from dpquery.plan.types import Type, Value

LARGEST_VALUE = 2**62
"""No lattice value, times `max_rows`, may reach this: sums of 2**64 units stay below 2**127."""

LARGEST_STEP = 2**53
"""No bound of a lattice may exceed this: backends may divide by the grid, and clamp, in double precision."""

WEIGHT = 2**16
"""What a value weighs in a histogram if its unit has no more than `max_rows` of them in the group."""


class Count(Enum):
    """What a measure counts or adds up, over one group's rows that pass the measure's filter."""

    UNITS = "count_units"
    """Privacy units with at least one row."""
    ROWS = "count"
    """Rows."""
    VALUES = "count_values"
    """Rows whose value is not NULL."""
    DISTINCT = "count_distinct"
    """Different non-NULL values over all kept rows of all units."""
    SUM = "sum"
    """The sum of the lattice values of the non-NULL values."""
    QUANTILE = "quantile"
    """Chooses the lattice value at the rank `target` among the weighed values: 0 is the least, 1 the greatest."""
    MODE = "mode"
    """Chooses the value of `domain` that weighs most, by its place there; values outside are not counted."""


CHOICES = (Count.QUANTILE, Count.MODE)
"""What chooses a value, by the exponential mechanism, instead of adding noise to a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """How a value v becomes an integer: t = round(clamp(v / grid, lower, upper)) - offset, half to even.

    The lattice value is t, or t * t - offset_of_square where `squared`. NaN counts as NULL, infinities are clamped.
    v / grid is exact for floats on a power of two, and for integers and decimals of less than 2^53 grid steps on their
    own grid; otherwise it is the nearest double, which may round to either neighbour. Bounds hold in any case.

    Attributes:
        grid: Width of a step in the value's unit, a power of two or of ten; known without the data.
        lower, upper: Bounds on round(v / grid); they are enforced, not believed.
        offset: Subtracted from every value, so that sums are of deviations from it.
        squared: Whether deviations are squared.
        offset_of_square: Subtracted from every squared deviation; 0 unless `squared`.
    """

    grid: Fraction
    lower: int
    upper: int
    offset: int = 0
    squared: bool = False
    offset_of_square: int = 0

    def __post_init__(self) -> None:
        if self.grid <= 0 or self.lower > self.upper or (self.offset_of_square and not self.squared):
            raise ValueError("a lattice needs a positive grid and ordered bounds")

    @property
    def values(self) -> tuple[int, int]:
        """The least and the greatest lattice value."""
        low, high = self.lower - self.offset, self.upper - self.offset
        if not self.squared:
            return low, high
        least = 0 if low <= 0 <= high else min(low * low, high * high)
        return least - self.offset_of_square, max(low * low, high * high) - self.offset_of_square

    @property
    def largest_deviation(self) -> int:
        """The largest magnitude of a value less the offset."""
        return max(abs(self.lower - self.offset), abs(self.upper - self.offset))

    @property
    def unit(self) -> Fraction:
        """What one step of the lattice value is in the unit of the released number."""
        return self.grid * self.grid if self.squared else self.grid


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    id: str
    label: str
    count: Count
    value: str | None = None
    filter: str | None = None
    lattice: Lattice | None = None
    target: Fraction | None = None
    domain: tuple[Value, ...] | None = None

    def __post_init__(self) -> None:
        if (self.lattice is None) is (self.count in (Count.SUM, Count.QUANTILE)):
            raise ValueError("a lattice belongs to sums and quantiles alone")
        if (self.target is None) is (self.count is Count.QUANTILE) or (self.domain is None) is (
            self.count is Count.MODE
        ):
            raise ValueError("a target belongs to quantiles alone, and a domain to modes")
        if (self.value is None) is not (self.count in (Count.UNITS, Count.ROWS)):
            raise ValueError("a measure has a value unless it counts rows or units")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One grouping column of the source, or several whose public values belong together, as the rows of a public table.

    Attributes:
        columns, types: Their ids, and the type of each.
        domain: The public values of the columns as tuples, each once, in the order of the result; None where groups are
            selected, of one column alone. NULL is a value like others: rows with it are dropped if no tuple has it.
    """

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    domain: tuple[tuple[Value, ...], ...] | None

    def __post_init__(self) -> None:
        width, rows = len(self.columns), self.domain or ()
        if not width or len(set(self.columns)) != width or len(self.types) != width:
            raise ValueError("a key has columns, each once, and each with its type")
        if self.domain is None and width > 1:
            raise ValueError("groups are selected by one column each")
        if len(set(rows)) != len(rows) or any(len(values) != width for values in rows):
            raise ValueError("a public key stands twice in its domain, or has not one value for each column")

    @classmethod
    def of(cls, column: str, type: Type, domain: Iterable[Value] | None) -> Key:
        """Returns the key of one column; the domain holds its values."""
        return cls(columns=(column,), types=(type,), domain=None if domain is None else tuple((v,) for v in domain))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundContributions:
    """Lets one privacy unit weigh at most `max_rows` rows in each of at most `max_groups` groups,
    looking at that unit's own rows alone: for each measure, or `together`. Backends owe the kernel this sentence."""

    max_groups: int
    max_rows: int
    together: bool = False

    def __post_init__(self) -> None:
        if self.max_groups < 1 or self.max_rows < 1:
            raise ValueError("contribution bounds are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAggregate:
    """A table of integers, one row for each group, one column for each measure.

    Attributes:
        source: A unit-local relation.
        unit: Id of the column of the source that holds the privacy unit; None where the unit is the row.
        keys: The grouping columns; () for a grand total, which always has one row. The groups are all combinations of
            the keys' values.
        bound: What one unit may contribute.
        measures: What is released.
        selection: Id of the UNITS measure without filter that decides which groups are shown; None where all keys
            are public.
    """

    source: Relation
    unit: str | None
    keys: tuple[Key, ...]
    bound: BoundContributions
    measures: tuple[Measure, ...]
    selection: str | None = None

    @property
    def weight(self) -> int:
        """What a value weighs in the histogram of a choice where contributions are not bounded."""
        return 1 if self.unit is None else WEIGHT

    @property
    def is_selected(self) -> bool:
        """Whether some key has no public domain, so that groups are shown only above a threshold."""
        return any(key.domain is None for key in self.keys)

    @property
    def public_groups(self) -> int | None:
        """The number of groups, or None where groups are selected."""
        return None if self.is_selected else math.prod(len(key.domain or ()) for key in self.keys)


class Mechanism(Enum):
    """A law of noise on the integers, or of choosing one."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Which noise a measure gets, and the loss it may cause: epsilon for Laplace, rho for Gaussian, one of them for
    the exponential mechanism, which all choices and nothing else get."""

    mechanism: Mechanism
    loss: PrivacyLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedAggregate:
    """A private aggregate, with noise for each measure in order, and the delta that selecting groups may cost."""

    aggregate: PrivateAggregate
    noise: tuple[Noise, ...]
    selection_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if len(self.noise) != len(self.aggregate.measures):
            raise ValueError("each measure needs its noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedPlan:
    """All that one query measures."""

    aggregates: tuple[BudgetedAggregate, ...]
