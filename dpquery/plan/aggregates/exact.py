"""Aggregates that no mechanism measures: exact within one unit, and over public or noisy tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.plan.aggregates.aggregate import AggregateFunction, Form, other_type
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import INT64, TEXT, Type


class Pick(AggregateFunction):
    """The first argument in one of the rows, which the second one decides if there is one."""

    __slots__ = ()

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of the argument."""
        known, by = given[0], given[1] if len(given) > 1 else UNKNOWN
        skips = self in (ARG_MIN, ARG_MAX) and by.nullable
        return replace(known, nullable=known.nullable or filtered or skips)


class Logical(AggregateFunction):
    """Whether a condition holds in all or any rows."""

    __slots__ = ()

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of a boolean."""
        return Range(lower=Fraction(0), upper=Fraction(1), nullable=given[0].nullable or filtered)


class Bitwise(AggregateFunction):
    """An operation on integers, bit by bit."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns int64."""
        if given[0] != INT64:
            raise other_type(name.upper(), "an integer", given[0])
        return INT64

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Bits beyond those of both bounds are all equal in every value, and stay as they are in AND and OR."""
        known, nullable = given[0], given[0].nullable or filtered
        if known.lower is None or known.upper is None:
            return Range(nullable=nullable)
        size = max(int(abs(known.lower)), int(abs(known.upper))).bit_length()
        above = Fraction(2**size - 1)
        if known.lower < 0:
            return Range(lower=-above - 1, upper=above, nullable=nullable)
        if self is BIT_AND:
            return Range(lower=Fraction(0), upper=known.upper, nullable=nullable)
        return Range(lower=known.lower if self is BIT_OR else Fraction(0), upper=above, nullable=nullable)


class Joined(AggregateFunction):
    """All texts as one."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns text."""
        if given[0] != TEXT:
            raise other_type(name.upper(), "a text", given[0])
        return TEXT

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns that of a text."""
        return Range(nullable=given[0].nullable or filtered)


_FROM_ROWS = "Pick one row of each unit in a subquery that groups by the unit, and aggregate those."
_TIES = "of several such rows the least x; NULL where no row has both"


def _bitwise(name: str, doc: str) -> Bitwise:
    advice = "Count each bit: COUNT_IF(x & 1 = 1), COUNT_IF(x & 2 = 2), ..."
    return Bitwise(name, doc, (f"{name.replace('bit', 'BITWISE').upper()}_AGG",), advice=advice, in_any_order=True)


ANY_VALUE = Pick(
    "any_value",
    "The least value; NULL where no value is not NULL.",
    spellings=("ARBITRARY",),
    advice="GROUP BY it too, or take COUNT(DISTINCT x); by a unique key of a public table, its columns are free.",
)
FIRST = Pick(
    "first",
    "The x of the row with the least y that is not NULL, of several such rows the least x, NULL last.",
    form=Form.ORDERED,
    advice=_FROM_ROWS,
)
LAST = Pick(
    "last",
    "The x of the row with the greatest y that is not NULL, of several such rows the least x, NULL last.",
    form=Form.ORDERED,
    advice=_FROM_ROWS,
)
ARG_MIN = Pick(
    "arg_min",
    f"The x of the row with the least y, {_TIES}.",
    form=Form.PAIR,
    advice="Sort groups: GROUP BY x ORDER BY AVG(y) LIMIT 1, with bounds on y.",
)
ARG_MAX = Pick(
    "arg_max",
    f"The x of the row with the greatest y, {_TIES}.",
    form=Form.PAIR,
    advice="Sort groups: GROUP BY x ORDER BY AVG(y) DESC LIMIT 1, with bounds on y.",
)
BOOL_AND = Logical(
    "bool_and",
    "Whether the condition holds in all rows in which it is not NULL; NULL where there are none.",
    spellings=("EVERY",),
    form=Form.CONDITION,
    advice="Count the exceptions: COUNT_IF(NOT condition) is near 0 where the condition always holds.",
    in_any_order=True,
)
BOOL_OR = Logical(
    "bool_or",
    "Whether the condition holds in any row; NULL where it is NULL in all.",
    form=Form.CONDITION,
    advice="Count: COUNT_IF(condition) is near 0 where the condition never holds.",
    in_any_order=True,
)
BIT_AND = _bitwise("bit_and", "The bits that all integers have; NULL where no value is not NULL.")
BIT_OR = _bitwise("bit_or", "The bits that any integer has; NULL where no value is not NULL.")
BIT_XOR = _bitwise("bit_xor", "The bits that an odd number of integers has; NULL where no value is not NULL.")
STRING_AGG = Joined(
    "string_agg",
    "All texts in their own order with the separator between them, at most 10,000 characters; NULL of none.",
    spellings=("GROUP_CONCAT",),
    form=Form.JOINED,
    advice="GROUP BY the value and take COUNT(*): groups and their noisy counts can be shown.",
    text_limit=10_000,
)
