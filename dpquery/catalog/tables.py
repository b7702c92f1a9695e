"""Declared tables and columns, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpquery.catalog.blocks import Blocks
from dpquery.catalog.names import composed, fold
from dpquery.catalog.rows import RowsToMeasure
from dpquery.kernel.accountant import LEAST_SHARE
from dpquery.plan.logical import LONGEST_TEXT, ROW_LIMIT, Ownership
from dpquery.plan.ranges import Range, number_of
from dpquery.plan.strata import Strata
from dpquery.plan.types import BOOLEAN, TEXT, Type, Value

DEFAULT_SHARE_OF_DELTA = Fraction(1, 1000)
"""Of the dataset's delta, what a query may use that says none, and whose catalog says none."""
WORK = 10_000
"""Steps that one stored row may cause in one query, where the catalog says nothing."""
MOST_CATEGORIES, MOST_EPSILON = 1_000, Fraction(64)
"""Of a column that was reported by randomised response."""


REFUSE = "refuse"
TEXTS_WITHOUT_KEYS = (REFUSE, "null", "*")
"""What may be said of MIN and MAX of texts without public keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a query costs and how contributions are bounded where neither query nor table says.

    Attributes:
        epsilon, rho, delta: Loss offered to one query, or None.
        max_groups: Groups in which one privacy unit counts, or None.
        max_rows: Rows that one privacy unit has in a table, in all or in each block; or None, so that tables say it.
        row_limit: Rows of one privacy unit that are read of a table, or of a block of it.
        zone: Time zone of the dates and timestamps that say none; "" for none.
        min_units: Groups and totals of fewer people, by a noisy count, are withheld; or None.
        least_charge: What a fresh question costs at least, as a share of the analyst's limit, or else the dataset's.
        texts_without_keys: What MIN and MAX of a text give where its values are not public: they are refused, or
            "null" or "*" stands for each.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    row_limit: int = ROW_LIMIT
    least_charge: Fraction = LEAST_SHARE
    zone: str = ""
    texts_without_keys: str = REFUSE
    min_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomized:
    """How a column's values were reported: as they are, or else as any other category, by randomised response.

    Attributes:
        epsilon: Of one report.
        categories: What may be reported, in order.
    """

    epsilon: Fraction
    categories: tuple[Value, ...]


@dataclass(frozen=True, kw_only=True)
class ColumnDeclaration:
    """A column that queries may name.

    Attributes:
        name: Its name in the data.
        type: How its values are read; what does not fit is NULL.
        lower, upper: Bounds that are enforced by clamping, both or neither; None for neither.
        nullable: Whether the owner expects NULL.
        keys: Public group keys, in order, or None.
        keys_from: Table and column whose values are the public group keys, or None.
        description: A sentence for people.
        randomized: How its values were reported, or None for values as they are; its categories are the keys.
        max_length: Characters of a text that are read; what is beyond is cut off.
        zone: Of a date or timestamp the time zone in whose wall clock instants are read; "" for none.
        max_total: Of a number to what sum of magnitudes one unit's values are scaled, in all or in each block; or None.
    """

    name: str
    type: Type
    lower: Value = None
    upper: Value = None
    nullable: bool = False
    keys: tuple[Value, ...] | None = None
    keys_from: tuple[str, str] | None = None
    description: str = ""
    randomized: Randomized | None = None
    max_length: int = LONGEST_TEXT
    zone: str = ""
    max_total: Fraction | None = None

    @cached_property
    def range(self) -> Range:
        """What is declared of the values, as numbers; booleans are 0 and 1. Of texts it is how long they are."""
        if self.type == TEXT:
            longest = None if self.max_length == LONGEST_TEXT else self.max_length
            return Range(nullable=self.nullable, longest=longest)
        if self.type == BOOLEAN:
            return Range(lower=Fraction(0), upper=Fraction(1), nullable=self.nullable)
        return Range(lower=number_of(self.lower), upper=number_of(self.upper), nullable=self.nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that queries may name.

    Attributes:
        name: Its name in queries and sources.
        public: Whether everybody may know its rows.
        ownership: How a row finds its privacy unit; None for public tables, and where the unit is the row.
        unique: Sets of columns of which no two rows agree.
        max_rows: Rows that one privacy unit has, in all or in each block; AUTO where it is to be measured; None where
            the default says it, the table has one row of each unit, or rows have no owner. See `rows_of`.
        max_groups: Groups in which one privacy unit counts instead of the default, or None.
        columns: The declared columns by name, in order.
        description: A sentence for people.
        blocks: How rows are in blocks that have a budget each, or None.
        row_limit: Rows of one privacy unit that are read, in each block, instead of the default; or None.
        strata: Parts of the table in each of which a unit has a bounded number of rows, beside `max_rows`; or None.
        min_units: Groups and totals of fewer people, by a noisy count, are withheld; None where the default says it.
    """

    name: str
    public: bool
    ownership: Ownership | None
    unique: tuple[frozenset[str], ...]
    max_rows: int | RowsToMeasure | None
    max_groups: int | None
    columns: Mapping[str, ColumnDeclaration]
    description: str = ""
    blocks: Blocks | None = None
    row_limit: int | None = None
    strata: Strata | None = None
    min_units: int | None = None

    def find_column(self, name: str, quoted: bool) -> ColumnDeclaration | None:
        """Returns the column that a query means: quoted names match exactly, others in any case."""
        if quoted:
            same = (c for c in self.columns.values() if composed(c.name) == composed(name))
            return self.columns.get(name) or next(same, None)
        return next((c for c in self.columns.values() if fold(c.name) == fold(name)), None)
