"""The small language that the kernel accepts: private plans, and private plans with a mechanism for each number.

A private plan is a tuple of `PrivateAggregate`. Each turns a unit-local relation into a table of integers, which every
backend owes the kernel word by word (docs/proofs/weights.md):

1. Rows whose unit is NULL are dropped. Every other row has a weight, a whole number of steps of 1 / WEIGHT, as
   `Weights` says: from a column of the source, counted over the unit's rows of the source, or one step that is 1 row.
2. Rows with a key that is not in its public domain are dropped.
3. By group: the sum of the weights of the rows that count, for sums each times the value's lattice value; for a choice
   the same sums for each lattice value apart: a histogram.
   Of units that have rows that count, the sum of what one unit weighs in a group: see `Count.UNITS`.
   Of different values, how many there are among the pairs of group and value that units keep: see `Count.DISTINCT`.

Nothing is shifted, scaled or rounded before all rows are added.
Where groups are selected, one in which no unit counts need not be given: it is never shown.
Where the unit is the row, `unit` is None, every row is a unit, and all weigh 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import assert_never

from dpquery.kernel.loss import PrivacyLoss
from dpquery.plan.logical import Relation
from dpquery.plan.types import Type, Value

LARGEST_VALUE = 2**62
"""No lattice value, times `max_rows`, may reach this."""

LARGEST_STEP = 2**53
"""No bound of a lattice may exceed this: backends may divide by the grid, and clamp, in double precision."""

WEIGHT = 2**24
"""Steps of weight that make a whole row."""


class Count(Enum):
    """What a measure counts or adds up, over one group's rows that pass the measure's filter."""

    UNITS = "count_units"
    """Privacy units with at least one row that passes the filter, by group. A unit with rows in G groups, whether they
    pass the filter and whether the group is public or not, weighs min(1, max_groups / G) in each, rounded down to steps
    of 1 / WEIGHT; without `max_groups`, and unless the aggregate `divides_units`, 1. Where groups are selected it
    weighs 1 in the `max_groups` of its groups that have the least hash of (unit, group) under the release's key, and 0
    in others."""
    ROWS = "count"
    """Rows."""
    VALUES = "count_values"
    """Rows whose value is not NULL."""
    DISTINCT = "count_distinct"
    """Different non-NULL values by group. Of a unit count the `max_rows` pairs of group and value, over all groups,
    that have the least hash of (unit, group, value) under the release's key."""
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


class Weighing(Enum):
    """Where the weights of rows come from."""

    WHOLE = "whole"
    """Each row weighs 1: by the plan no unit has more than `max_rows` rows."""
    STORED = "stored"
    """A column of the source holds them: what scans give, carried along."""
    COUNTED = "counted"
    """T rows of a unit in the source weigh min(1, max_rows / T) each, rounded down to steps of 1 / WEIGHT; rows of all
    groups are counted, those that are not public too, before any filter of a measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What one unit may weigh: its rows at most `max_rows` together, over all groups.

    Attributes:
        weighing: Where weights come from.
        max_rows: The most that the rows of a unit weigh together, in rows; the kernel proves it of the plan.
        column: For stored weights the id of the source's column of them, int64 from 0 to WEIGHT; NULL weighs nothing.
        max_groups: In how many groups a unit counts as one, where units are counted; None: in all of its groups.
        most_rows: For weights that are not whole: no unit has more rows in the source, by the plan; None: not known.
    """

    weighing: Weighing
    max_rows: int
    column: str | None = None
    max_groups: int | None = None
    most_rows: int | None = None

    def __post_init__(self) -> None:
        limits = [self.max_rows, *(limit for limit in (self.max_groups, self.most_rows) if limit is not None)]
        if any(type(limit) is not int or limit < 1 for limit in limits):
            raise ValueError("a limit on rows or groups is at least 1")
        if (self.column is None) is (self.weighing is Weighing.STORED):
            raise ValueError("stored weights have a column, and others none")


WHOLE_ROW = Weights(weighing=Weighing.WHOLE, max_rows=1)
"""The weights where the unit is the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAggregate:
    """A table of integers, one row for each group, one column for each measure.

    Attributes:
        source: A unit-local relation.
        unit: Id of the column of the source that holds the privacy unit; None where the unit is the row.
        keys: The grouping columns; () for a grand total, which always has one row. The groups are all combinations of
            the keys' values.
        weights: What the rows of a unit weigh.
        measures: What is released.
        selection: Id of the UNITS measure without filter that decides which groups are shown; None where all keys
            are public.
    """

    source: Relation
    unit: str | None
    keys: tuple[Key, ...]
    weights: Weights
    measures: tuple[Measure, ...]
    selection: str | None = None

    @property
    def weight(self) -> int:
        """Steps of weight that make a whole row here: what rows, values, sums and choices are counted in."""
        return 1 if self.weights.weighing is Weighing.WHOLE else WEIGHT

    def steps(self, measure: Measure) -> int:
        """Returns how many steps of the exact integer of a measure make one lattice step, or one counted thing."""
        match measure.count:
            case Count.ROWS | Count.VALUES | Count.SUM | Count.QUANTILE | Count.MODE:
                return self.weight
            case Count.UNITS:
                return WEIGHT if self.divides_units else 1
            case Count.DISTINCT:
                return 1
            case _:
                assert_never(measure.count)

    @property
    def divides_units(self) -> bool:
        """Whether a unit may count for less than 1 in a group: in public groups, of which there are too many."""
        most, groups = self.weights.max_groups, self.public_groups
        if self.unit is None or most is None or groups is None or groups <= most:
            return False
        rows = self.weights.max_rows if self.weights.weighing is Weighing.WHOLE else self.weights.most_rows
        return rows is None or rows > most

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
