"""What an aggregate says of itself, and what it may have measured where it is over different privacy units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpquery.errors import InternalError, UnsupportedQueryError
from dpquery.plan.expr import Expression
from dpquery.plan.functions.table import SignatureError
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import DATE, FLOAT64, INTERVAL, TEXT, TIMESTAMP, Type

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn

LARGEST, LARGEST_SQUARED = Fraction(10**290), Fraction(10**140)
"""Bounds on values whose sums, or sums of squares, stay finite as floats."""

_AS_NUMBERS = dict.fromkeys((DATE, TIMESTAMP), "Take a difference of dates first, in days.")
_AS_NUMBERS |= {TEXT: "COUNT it, GROUP BY it or CAST it to a number.", INTERVAL: "Write EXTRACT(EPOCH FROM x)."}
"""What to write where a number is needed."""


class Form(Enum):
    """How an aggregate is called in SQL."""

    VALUE = "f(x)"
    PAIR = "f(y, x)"
    CONDITION = "f(condition)"
    ORDERED = "f(x ORDER BY y)"
    JOINED = "f(x, separator ORDER BY x)"
    RANKED = "f(x, fraction), or f(fraction) WITHIN GROUP (ORDER BY x)"
    CHOSEN = "f(x), or f() WITHIN GROUP (ORDER BY x)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Squares:
    """A sum of (value - centre)^2 - middle."""

    total: Expression
    centre: Fraction
    middle: Fraction


class Measures(Protocol):
    """The noisy numbers that an aggregate over different privacy units is made of. Each is measured once, whoever asks.

    `kept` is the condition that rows fulfil, or None. In a sum values are clamped to the bounds, and NULL adds nothing.
    """

    def bounds(self, column: AggregateColumn, value: Expression) -> tuple[Fraction, Fraction]:
        """Returns the bounds of a value; raises MissingBoundsError where there are none."""

    def is_nullable(self, value: Expression) -> bool:
        """Whether the value can be NULL."""

    @property
    def describe(self) -> Callable[[Expression], str]:
        """Returns a value as people read it."""

    def count(self, value: Expression | None, kept: Expression | None) -> Expression:
        """Returns the number of rows whose value is not NULL; without a value, of rows."""

    def distinct(self, value: Expression, kept: Expression | None) -> Expression:
        """Returns the number of different values."""

    def total(self, column: AggregateColumn) -> Expression:
        """Returns a SUM, from deviations where others measure these."""

    def sum(
        self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction, name: str = ""
    ) -> Expression:
        """Returns the sum of a value, which people read as `name`."""

    def centre(self, value: Expression, lower: Fraction, upper: Fraction) -> Fraction:
        """Returns what deviations of a value are taken from: about the middle of its bounds."""

    def deviations(
        self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction, name: str = ""
    ) -> Expression:
        """Returns the sum of value - centre."""

    def squares(self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction) -> Squares:
        """Returns the sum of squared deviations."""

    def products(self, first: Expression, second: Expression, centres: tuple[Fraction, Fraction]) -> Expression | None:
        """Returns the sum of products of two values' deviations; None where it has to be made as a `sum`."""

    def quantile(self, column: AggregateColumn, value: Expression, target: Fraction) -> Expression:
        """Returns a value of about this rank, as a fraction of all ranks."""

    def most_frequent(self, column: AggregateColumn, value: Expression) -> Expression:
        """Returns one of the value's public keys that few others are more frequent than."""


Sides = tuple[tuple[Expression | None, Expression | None], ...]
"""Values, each with the condition that its rows fulfil."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AggregateFunction:
    """An aggregate: a function of the multiset of a group's rows.

    Attributes:
        name: Its name in plans.
        spellings: Names by which SQL calls it, as far as they differ from `name`; also the parser's.
        doc: What it gives and when it is NULL.
        form: How it is called.
        distinct: The name of the aggregate that `f(DISTINCT x)` is, or "".
        takes_booleans: Whether booleans count as 0 and 1.
        advice: What to write instead, over different privacy units.
        largest: Bound on values for which no sum that it is made of overflows.
        counts: Whether it counts, so that it is 0 over no rows, never NULL and never negative.
        skips_null: Whether it is of one argument and reads only the rows in which that is not NULL.
        in_any_order: Whether an engine computes it without sorting or keeping rows.
        text_limit: Characters of its result, where they may be more than those of its argument.
    """

    name: str
    doc: str
    spellings: tuple[str, ...] = ()
    form: Form = Form.VALUE
    distinct: str = ""
    takes_booleans: bool = False
    advice: str = ""
    largest: Fraction = LARGEST_SQUARED
    counts: bool = False
    skips_null: bool = False
    in_any_order: bool = False
    text_limit: int | None = None

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shown(self) -> str:
        """Its name in SQL."""
        name = self.name.upper()
        return f"{name.removesuffix('_DISTINCT')}(DISTINCT ...)" if name.endswith("_DISTINCT") else name

    @property
    def is_private(self) -> bool:
        """Whether it can be measured over different privacy units."""
        return type(self).derive is not AggregateFunction.derive

    @property
    def is_moment(self) -> bool:
        """Whether it follows from a count and from sums of powers of deviations: then `moved` says how."""
        return type(self).moved is not AggregateFunction.moved

    def result(self, name: str, *given: Type) -> Type:
        """Returns the type of its value; raises SignatureError (the reason, and perhaps advice) for other arguments.

        Args:
            name: What the query calls it.
        """
        return given[0]

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns in which range its exact value lies, for groups of at least one row.

        Args:
            given: What is known of the arguments.
            rows: The rows of a group at most, or None.
            filtered: Whether a condition may leave out rows.
        """
        return UNKNOWN

    def exact(self, column: AggregateColumn, id: str) -> tuple[AggregateColumn, Expression] | None:
        """Returns another aggregate, under an id, and its own exact value as an expression over that; None where
        engines compute it."""
        return None

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns its value over different privacy units as an expression over what is measured for it."""
        raise UnsupportedQueryError(
            f"{column.name.upper()} over different privacy units has no private mechanism",
            advice="Use it within one unit: GROUP BY the unit in an inner query.",
            span=column.span,
        )

    def deviations_of(self, column: AggregateColumn, measures: Measures) -> Sides:
        """Returns the values of which `derive` measures deviations: a SUM of them then needs no measurement."""
        return ((column.argument, column.filter),) if self.is_moment else ()

    def moved(self, value: Expression, factor: Fraction, shift: Fraction) -> Expression:
        """Returns its value for factor * x + shift, from its value for x."""
        raise InternalError(f"{self.name} does not follow from that of another value")


class NumberOfNumbers(AggregateFunction):
    """A float of numbers."""

    __slots__ = ()

    def result(self, name: str, *given: Type) -> Type:
        """Returns float64."""
        needs_number(name, given[0])
        return FLOAT64


def needs_number(name: str, given: Type) -> None:
    """Raises SignatureError unless it is the type of a number."""
    if not given.is_numeric:
        raise other_type(name.upper(), "a number", given)


def other_type(name: str, needed: str, given: Type) -> SignatureError:
    """Returns the refusal of an argument that is not what is needed, such as "a number"."""
    article = "an" if str(given)[0] in "aeiou" else "a"
    advice = _AS_NUMBERS.get(given, "") if "number" in needed else ""
    return SignatureError(f"{name} needs {needed}, not {article} {given}", advice)


def of_rows(known: Range, filtered: bool) -> Range:
    """Returns the range of a value that is one of some rows' values, or between them; NULL of no rows."""
    return replace(known, nullable=known.nullable or filtered)
