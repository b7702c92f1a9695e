"""The small language that the kernel accepts: private plans, and private plans with a mechanism for each number.

A private plan is a tuple of `PrivateAggregate`. Each turns a unit-local relation into a table of integers, which every
backend owes the kernel word by word (docs/proofs/weights.md):

1. Rows whose unit is NULL are dropped. Every other row has a weight, a whole number of steps of 1 / WEIGHT, as
   `Weights` says: from a column of the source, counted over the unit's rows of the source, or one step that is 1 row.
2. Rows with a key that is not in its public domain are dropped.
3. By group: the sum of the weights of the rows that count, for sums each times the value's lattice value; for a choice
   the same sums for each lattice value apart: a histogram. A sum with a `total` takes the weights from that column.
   Of units that have rows that count, the sum of what one unit weighs in a group: see `Count.UNITS`.
   Of different values, for how many pairs of group and value some unit stands: see `Count.DISTINCT`.
   Of units that decide in rounds, which of them have which groups: see `Count.DECIDING`.

Nothing is shifted, scaled or rounded before all rows are added.
Where groups are selected, one in which no unit counts need not be given: it is never shown.
Where the unit is the row, `unit` is None, every row is a unit, and all weigh 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import assert_never

from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.measures import CHOICES as CHOICES
from dpquery.kernel.measures import LARGEST_STEP as LARGEST_STEP
from dpquery.kernel.measures import LARGEST_VALUE as LARGEST_VALUE
from dpquery.kernel.measures import Count as Count
from dpquery.kernel.measures import Lattice as Lattice
from dpquery.kernel.measures import Measure as Measure
from dpquery.kernel.measures import Second as Second
from dpquery.kernel.measures import Total as Total
from dpquery.plan.keys import Key as Key
from dpquery.plan.logical import Relation

WEIGHT = 2**24
"""Steps of weight that make a whole row."""


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
        rows_in_group: The rows of no unit weigh more in one group, in rows, by the plan; None: not known.
    """

    weighing: Weighing
    max_rows: int
    column: str | None = None
    max_groups: int | None = None
    most_rows: int | None = None
    rows_in_group: int | None = None

    def __post_init__(self) -> None:
        said = (self.max_groups, self.most_rows, self.rows_in_group)
        limits = [self.max_rows, *(limit for limit in said if limit is not None)]
        if any(type(limit) is not int or limit < 1 for limit in limits):
            raise ValueError("a limit on rows or groups is at least 1")
        if (self.column is None) is (self.weighing is Weighing.STORED):
            raise ValueError("stored weights have a column, and others none")


WHOLE_ROW = Weights(weighing=Weighing.WHOLE, max_rows=1)
"""The weights where the unit is the row."""


@dataclass(frozen=True, kw_only=True)
class PrivateAggregate:
    """A table of integers, one row for each group, one column for each measure.

    Attributes:
        source: A unit-local relation.
        unit: Id of the column of the source that holds the privacy unit; None where the unit is the row.
        keys: The grouping columns; () for a grand total, which always has one row. The groups are all combinations of
            the keys' values.
        weights: What the rows of a unit weigh.
        measures: What is released.
        selection: Id of the UNITS or DECIDING measure without filter that decides which groups are shown; None where
            all keys are public.
    """

    source: Relation
    unit: str | None
    keys: tuple[Key, ...]
    weights: Weights
    measures: tuple[Measure, ...]
    selection: str | None = None

    @cached_property
    def weight(self) -> int:
        """Steps of weight that make a whole row here: what rows, values, sums and choices are counted in."""
        return 1 if self.weights.weighing is Weighing.WHOLE else WEIGHT

    def steps(self, measure: Measure) -> int:
        """Returns how many steps of the exact integer of a measure make one lattice step, or one counted thing."""
        match measure.count:
            case Count.SUM if measure.total is not None:
                return WEIGHT
            case Count.ROWS | Count.VALUES | Count.SUM | Count.QUANTILE | Count.MODE:
                return self.weight
            case Count.UNITS:
                return WEIGHT if self.divides_units else 1
            case Count.DECIDING:
                return WEIGHT
            case Count.DISTINCT:
                return 1
            case _:
                assert_never(measure.count)

    @cached_property
    def divides_units(self) -> bool:
        """Whether a unit may count for less than 1 in a group: in public groups, of which there are too many."""
        most, groups = self.weights.max_groups, self.public_groups
        if self.unit is None or most is None or groups is None or groups <= most:
            return False
        rows = self.weights.max_rows if self.weights.weighing is Weighing.WHOLE else self.weights.most_rows
        return rows is None or rows > most

    @cached_property
    def is_selected(self) -> bool:
        """Whether some key has no public domain, so that groups are shown only from a tau on."""
        return None in [key.domain for key in self.keys]

    @cached_property
    def public_groups(self) -> int | None:
        """The number of groups, or None where groups are selected."""
        return None if self.is_selected else math.prod([len(key.domain or ()) for key in self.keys])


class Mechanism(Enum):
    """A law of noise on the integers, or of choosing one."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    EXPONENTIAL = "exponential"
    PERMUTE_AND_FLIP = "permute_and_flip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Which noise a measure gets, and the loss it may cause: epsilon for Laplace and permute-and-flip, rho for
    Gaussian, one of them for the exponential mechanism. Choices get the latter or permute-and-flip, and nothing else
    does."""

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
