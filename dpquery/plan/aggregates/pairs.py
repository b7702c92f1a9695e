"""Aggregates of pairs: covariance, correlation and regression from sums that other aggregates can share.

For pairs (y, x) with centres a and b of their ranges: the covariance is the mean of (y - a)(x - b) less the product of
the means of y - a and x - b. A pair with a NULL does not count, so each sum of one side skips the rows in which the
other side is NULL; where a side is never NULL, that is the sum which AVG and VAR of that column have too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.errors import InternalError
from dpquery.plan.aggregates.aggregate import AggregateFunction, Form, Measures, Sides, other_type
from dpquery.plan.aggregates.derivations import as_float, clamped, less_one, number, ratio, where_more, without_number
from dpquery.plan.aggregates.moments import argument_of, mean_of, variance_of
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import FLOAT64, INT64, Type

if TYPE_CHECKING:
    from dpquery.plan.logical import AggregateColumn

ONE = Fraction(1)
LEAST_SPREAD = Fraction(1, 1024)
"""The least part of its largest value that a standard deviation is taken for where something is divided by it."""
EXACT = Fraction(2**53)
"""Products of integers up to here are computed as integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two values of a pair.

    Attributes:
        value: The expression.
        filter: Which rows its sums are over: the query's filter, and the other side not NULL.
        lower, upper: The bounds of the value.
        centre: What its deviations are taken from.
    """

    value: Expression
    filter: Expression | None
    lower: Fraction
    upper: Fraction
    centre: Fraction

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Both bounds."""
        return self.lower, self.upper

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest deviation."""
        return self.lower - self.centre, self.upper - self.centre

    @property
    def reach(self) -> Fraction:
        """Half the width of the range: no standard deviation exceeds it."""
        return (self.upper - self.lower) / 2


class PairAggregate(AggregateFunction):
    """An aggregate of two numbers, y before x; NULL where it is not defined."""

    __slots__ = ()

    @property
    def reads_both(self) -> bool:
        """Whether it follows from products of both sides."""
        return self not in (REGR_COUNT, REGR_AVGX, REGR_AVGY, REGR_SXX, REGR_SYY)

    @property
    def degree(self) -> int:
        """The highest power of one side that it follows from."""
        return 1 if self in (COVAR_POP, COVAR_SAMP, REGR_SXY, REGR_COUNT, REGR_AVGX, REGR_AVGY) else 2

    def result(self, name: str, *given: Type) -> Type:
        """Returns float64, or int64 for the count."""
        for side in given:
            if not side.is_numeric:
                raise other_type(name.upper(), "two numbers", side)
        return INT64 if self is REGR_COUNT else FLOAT64

    def range(self, given: Sequence[Range], rows: Fraction | None, filtered: bool) -> Range:
        """Returns what the widths of both ranges allow."""
        y, x = given
        nullable = y.nullable or x.nullable or filtered
        if self is REGR_COUNT:
            return Range(lower=Fraction(0), upper=rows, nullable=False)
        if self in (REGR_AVGX, REGR_AVGY):
            return replace(x if self is REGR_AVGX else y, nullable=nullable)
        if self in (CORR, REGR_R2):
            return Range(lower=Fraction(-1 if self is CORR else 0), upper=Fraction(1), nullable=True)
        if self in (REGR_SLOPE, REGR_INTERCEPT):
            return UNKNOWN
        squared = self in (REGR_SXX, REGR_SYY)
        sides = (x, x) if self is REGR_SXX else (y, y) if self is REGR_SYY else (y, x)
        factor = Fraction(1) if self is COVAR_POP else Fraction(2) if self is COVAR_SAMP else rows
        reaches = [(side.upper - side.lower) / 2 for side in sides if side.lower is not None and side.upper is not None]
        if len(reaches) < 2 or factor is None:
            return Range(lower=Fraction(0) if squared else None, nullable=nullable)
        reach = reaches[0] * reaches[1] * factor
        lower = Fraction(0) if squared else -reach
        return Range(lower=lower, upper=reach, nullable=nullable or self is COVAR_SAMP)

    def deviations_of(self, column: AggregateColumn, measures: Measures) -> Sides:
        """Returns those of the sides that it reads."""
        if self is REGR_COUNT:
            return ()
        y, x = _filters(column, measures)
        sides = ((column.argument, y), (column.second, x))
        return sides[1:] if self in (REGR_AVGX, REGR_SXX) else sides[:1] if self in (REGR_AVGY, REGR_SYY) else sides

    def derive(self, column: AggregateColumn, measures: Measures) -> Expression:
        """Returns it from a count, sums of deviations, of their squares and of their products."""
        count = _count(column, measures)
        if self is REGR_COUNT:
            return count
        least = 1 if self is COVAR_SAMP else 0
        return where_more(count, least, self._value(column, count, measures))

    def _value(self, column: AggregateColumn, count: Expression, measures: Measures) -> Expression:
        of_y, of_x = _filters(column, measures)
        if self in (REGR_AVGX, REGR_SXX):
            return self._of_one(_side(column, _second_of(column), of_x, measures), count, measures)
        if self in (REGR_AVGY, REGR_SYY):
            return self._of_one(_side(column, argument_of(column), of_y, measures), count, measures)
        y = _side(column, argument_of(column), of_y, measures)
        return self._of_both(column, y, _side(column, _second_of(column), of_x, measures), count, measures)

    def _of_one(self, side: Side, count: Expression, measures: Measures) -> Expression:
        if self in (REGR_AVGX, REGR_AVGY):
            return _mean(side, count, measures)
        whole = call("multiply", (as_float(count), _variance(side, count, measures)))
        return call("greatest", (whole, Literal(value=0.0, type=FLOAT64)))

    def _of_both(self, column: AggregateColumn, y: Side, x: Side, count: Expression, measures: Measures) -> Expression:
        covariance = _covariance(column, y, x, count, measures)
        most = y.reach * x.reach
        if self is COVAR_POP:
            return clamped(covariance, -most, most)
        if self is COVAR_SAMP:
            return clamped(call("multiply", (covariance, ratio(count, less_one(count)))), -2 * most, 2 * most)
        if self is REGR_SXY:
            return call("multiply", (as_float(count), clamped(covariance, -most, most)))
        of_y, of_x = (_spread(side, count, measures) for side in (y, x))
        found = clamped(call("divide", (covariance, call("multiply", (of_y, of_x)))), -ONE, ONE)
        if self is CORR:
            return found
        if self is REGR_R2:
            return clamped(call("multiply", (found, found)), Fraction(0), ONE)
        slope = call("multiply", (found, call("divide", (of_y, of_x))))
        if self is REGR_SLOPE:
            return slope
        across = call("multiply", (slope, _mean(x, count, measures)))
        return call("subtract", (_mean(y, count, measures), across))


def _covariance(column: AggregateColumn, y: Side, x: Side, count: Expression, measures: Measures) -> Expression:
    """Returns the mean product of deviations less the product of mean deviations."""
    if y.value == x.value:
        return _variance(y, count, measures)
    first, second = sorted((y, x), key=lambda side: repr(side.value))
    products = measures.products(first.value, second.value, (first.centre, second.centre))
    if products is None:
        products = _products(first, second, column.filter, measures)
    means = call("multiply", (_mean_deviation(first, count, measures), _mean_deviation(second, count, measures)))
    return call("subtract", (ratio(products, count), means))


def _products(first: Side, second: Side, kept: Expression | None, measures: Measures) -> Expression:
    """Returns the sum of products of deviations; a product is NULL where a side is."""
    corners = [a * b for a in first.ends for b in second.ends]
    lower, upper = min(corners), max(corners)
    whole = all(_is_whole(side) for side in (first, second)) and max(-lower, upper) <= EXACT
    value = call("multiply", (_deviation(first, whole), _deviation(second, whole)))
    shown = [_shown(measures.describe(side.value), side.centre) for side in (first, second)]
    return measures.sum(value, kept, lower, upper, " * ".join(shown))


def _deviation(side: Side, whole: bool) -> Expression:
    """Returns the clamped value less the centre: stored values may lie beyond their bounds."""
    if whole:
        ends = (Literal(value=math.floor(side.lower), type=INT64), Literal(value=math.ceil(side.upper), type=INT64))
        return call("subtract", (call("clamp", (side.value, *ends)), Literal(value=int(side.centre), type=INT64)))
    return call("subtract", (clamped(as_float(side.value), side.lower, side.upper), number(side.centre, FLOAT64)))


def _is_whole(side: Side) -> bool:
    return side.value.type == INT64 and max(-side.lower, side.upper) <= EXACT


def _mean_deviation(side: Side, count: Expression, measures: Measures) -> Expression:
    return ratio(measures.deviations(side.value, side.filter, *side.bounds), count)


def _mean(side: Side, count: Expression, measures: Measures) -> Expression:
    return mean_of(side.value, side.filter, count, side.bounds, measures)


def _variance(side: Side, count: Expression, measures: Measures) -> Expression:
    found = variance_of(side.value, side.filter, count, side.bounds, measures)
    return clamped(found, Fraction(0), side.reach**2)


def _spread(side: Side, count: Expression, measures: Measures) -> Expression:
    """Returns the standard deviation, at least `LEAST_SPREAD` of the largest: with noise it is not known to be 0."""
    least = Literal(value=float(side.reach * LEAST_SPREAD), type=FLOAT64)
    return call("greatest", (call("sqrt", (_variance(side, count, measures),)), least))


def _side(column: AggregateColumn, value: Expression, kept: Expression | None, measures: Measures) -> Side:
    lower, upper = measures.bounds(column, value)
    centre = measures.centre(value, lower, upper)
    return Side(value=value, filter=kept, lower=lower, upper=upper, centre=centre)


def _count(column: AggregateColumn, measures: Measures) -> Expression:
    """Returns the number of pairs, counted by a side that can be NULL if there is one."""
    present = sorted({v for v in (column.argument, column.second) if v is not None}, key=repr)
    nullable = [value for value in present if measures.is_nullable(value)]
    if not nullable:
        return measures.count(None, column.filter)
    return measures.count(nullable[0], _and_present(column.filter, nullable[1:]))


def _filters(column: AggregateColumn, measures: Measures) -> tuple[Expression | None, Expression | None]:
    """Returns the filters of the sums of y and of x: sums skip their own NULLs, so only the other side's are named."""
    y, x = argument_of(column), _second_of(column)
    nullable = [value for value in (y, x) if measures.is_nullable(value)]
    return (
        _and_present(column.filter, [value for value in nullable if value != y]),
        _and_present(column.filter, [value for value in nullable if value != x]),
    )


def _second_of(column: AggregateColumn) -> Expression:
    if column.second is None:
        raise InternalError(f"{column.function} has two arguments")
    return column.second


def _and_present(kept: Expression | None, values: list[Expression]) -> Expression | None:
    for value in values:
        there = call("is_not_null", (without_number(value),))
        kept = there if kept is None else call("and", (kept, there))
    return kept


def _shown(name: str, centre: Fraction) -> str:
    if not centre:
        return name if name.isidentifier() else f"({name})"
    size = abs(centre)
    shown = str(size.numerator) if size.denominator == 1 else f"{float(size):.6g}"
    return f"({name} {'-' if centre > 0 else '+'} {shown})"


def _pair(name: str, doc: str) -> PairAggregate:
    return PairAggregate(name, doc, form=Form.PAIR, takes_booleans=True)


COVAR_POP = _pair("covar_pop", "The covariance; NULL where no pair has both.")
COVAR_SAMP = _pair("covar_samp", "The covariance as a sample estimates it; NULL where fewer than two pairs have both.")
CORR = _pair("corr", "The correlation; NULL where y or x does not vary.")
REGR_SLOPE = _pair("regr_slope", "The slope of the line of least squares; NULL where x does not vary.")
REGR_INTERCEPT = _pair("regr_intercept", "Where that line meets x = 0; NULL where x does not vary.")
REGR_R2 = _pair("regr_r2", "The square of the correlation; NULL where x does not vary.")
REGR_COUNT = _pair("regr_count", "The number of pairs that have both.")
REGR_AVGX = _pair("regr_avgx", "The mean of x; NULL where no pair has both.")
REGR_AVGY = _pair("regr_avgy", "The mean of y; NULL where no pair has both.")
REGR_SXX = _pair("regr_sxx", "The sum of squared deviations of x from its mean; NULL where no pair has both.")
REGR_SYY = _pair("regr_syy", "The sum of squared deviations of y from its mean; NULL where no pair has both.")
REGR_SXY = _pair("regr_sxy", "The sum of products of both deviations; NULL where no pair has both.")
