"""Aggregates of pairs: covariance, correlation and regression from sums that other aggregates can share.

For pairs (y, x) with centres a and b of their ranges: the covariance is the mean of (y - a)(x - b) less the product of
the means of y - a and x - b. A pair with a NULL does not count, so each sum of one side skips the rows in which the
other side is NULL; where a side is never NULL, that is the sum which AVG and VAR of that column have too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.accuracy.arithmetic import clamped, number, ratio, where_more, without_number
from dpquery.errors import InternalError
from dpquery.kernel.plan import Lattice
from dpquery.plan.expr import Cast, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, INT64
from dpquery.planner.protect import lattices

if TYPE_CHECKING:
    from dpquery.planner.protect.measurements import MeasurementSet

ONE = Fraction(1)
EXACT = Fraction(2**53)
"""Products of integers up to here are computed as integers."""

_PAIR_COUNT = "regr_count"
_OF_X = ("regr_avgx", "regr_sxx")
_OF_Y = ("regr_avgy", "regr_syy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two values of a pair.

    Attributes:
        value: The expression.
        filter: Which rows its sums are over: the query's filter, and the other side not NULL.
        lower, upper: The bounds of the value.
        lattice: Of its deviations.
    """

    value: Expression
    filter: Expression | None
    lower: Fraction
    upper: Fraction
    lattice: Lattice

    @property
    def centre(self) -> Fraction:
        """What its deviations are taken from."""
        return self.lattice.offset * self.lattice.grid

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest deviation."""
        return self.lower - self.centre, self.upper - self.centre

    @property
    def reach(self) -> Fraction:
        """Half the width of the range: no standard deviation exceeds it."""
        return (self.upper - self.lower) / 2


def sides_of(
    column: AggregateColumn, measures: MeasurementSet
) -> tuple[tuple[Expression | None, Expression | None], ...]:
    """Returns (value, filter) of the sums of deviations that an aggregate of pairs measures."""
    if column.second is None or column.function == _PAIR_COUNT:
        return ()
    y, x = _filters(column, measures)
    sides = ((column.argument, y), (column.second, x))
    return sides[1:] if column.function in _OF_X else sides[:1] if column.function in _OF_Y else sides


def express_pair(column: AggregateColumn, measures: MeasurementSet) -> Expression:
    """Returns an aggregate of pairs as an expression over measures; NULL where it is not defined."""
    if column.argument is None or column.second is None:
        raise InternalError(f"{column.function} has two arguments")
    count = _count(column, measures)
    if column.function == _PAIR_COUNT:
        return count
    of_y, of_x = _filters(column, measures)
    if column.function in _OF_X:
        return where_more(count, 0, _of_one(column, _side(column, column.second, of_x, measures), count, measures))
    if column.function in _OF_Y:
        return where_more(count, 0, _of_one(column, _side(column, column.argument, of_y, measures), count, measures))
    y, x = _side(column, column.argument, of_y, measures), _side(column, column.second, of_x, measures)
    least = 1 if column.function == "covar_samp" else 0
    return where_more(count, least, _of_both(column, y, x, count, measures))


def _of_one(column: AggregateColumn, side: Side, count: Expression, measures: MeasurementSet) -> Expression:
    if column.function.startswith("regr_avg"):
        return _mean(side, count, measures)
    whole = call("multiply", (_float(count), _variance(side, count, measures)))
    return call("greatest", (whole, Literal(value=0.0, type=FLOAT64)))


def _of_both(column: AggregateColumn, y: Side, x: Side, count: Expression, measures: MeasurementSet) -> Expression:
    covariance = _covariance(column, y, x, count, measures)
    most = y.reach * x.reach
    match column.function:
        case "covar_pop":
            return clamped(covariance, -most, most)
        case "covar_samp":
            less = call("subtract", (count, Literal(value=1, type=INT64)))
            return clamped(call("multiply", (covariance, ratio(count, less))), -2 * most, 2 * most)
        case "regr_sxy":
            return call("multiply", (_float(count), clamped(covariance, -most, most)))
        case "regr_slope":
            return call("divide", (covariance, _variance(x, count, measures)))
        case "regr_intercept":
            slope = call("divide", (covariance, _variance(x, count, measures)))
            across = call("multiply", (slope, _mean(x, count, measures)))
            return call("subtract", (_mean(y, count, measures), across))
        case "corr" | "regr_r2":
            spreads = [call("sqrt", (_variance(side, count, measures),)) for side in (y, x)]
            found = clamped(call("divide", (covariance, call("multiply", spreads))), -ONE, ONE)
            return found if column.function == "corr" else clamped(call("multiply", (found, found)), Fraction(0), ONE)
        case _:
            raise InternalError(f"{column.function} is no aggregate of both sides of a pair")


def _covariance(column: AggregateColumn, y: Side, x: Side, count: Expression, measures: MeasurementSet) -> Expression:
    """Returns the mean product of deviations less the product of mean deviations."""
    if y.value == x.value:
        return _variance(y, count, measures)
    first, second = sorted((y, x), key=lambda side: repr(side.value))
    products = _products(first, second, column.filter, measures)
    means = call("multiply", (_mean_deviation(first, count, measures), _mean_deviation(second, count, measures)))
    return call("subtract", (ratio(products, count), means))


def _products(first: Side, second: Side, kept: Expression | None, measures: MeasurementSet) -> Expression:
    """Returns the sum of products of deviations; a product is NULL where a side is."""
    corners = [a * b for a in first.ends for b in second.ends]
    lower, upper = min(corners), max(corners)
    whole = all(_is_whole(side) for side in (first, second)) and max(-lower, upper) <= EXACT
    value = call("multiply", (_deviation(first, whole), _deviation(second, whole)))
    lattice = lattices.for_sum(value.type, lower, upper, measures.rows)
    shown = [_shown(measures.describe(side.value), side.centre) for side in (first, second)]
    return measures.sum_of(value, kept, lattice, " * ".join(shown))


def _deviation(side: Side, whole: bool) -> Expression:
    """Returns the clamped value less the centre: stored values may lie beyond their bounds."""
    if whole:
        ends = (Literal(value=math.floor(side.lower), type=INT64), Literal(value=math.ceil(side.upper), type=INT64))
        return call("subtract", (call("clamp", (side.value, *ends)), Literal(value=int(side.centre), type=INT64)))
    return call("subtract", (clamped(_float(side.value), side.lower, side.upper), number(side.centre, FLOAT64)))


def _is_whole(side: Side) -> bool:
    return side.value.type == INT64 and max(-side.lower, side.upper) <= EXACT


def _mean_deviation(side: Side, count: Expression, measures: MeasurementSet) -> Expression:
    return ratio(measures.sum_of(side.value, side.filter, side.lattice), count)


def _mean(side: Side, count: Expression, measures: MeasurementSet) -> Expression:
    deviation = _mean_deviation(side, count, measures)
    return clamped(call("add", (number(side.centre, FLOAT64), deviation)), side.lower, side.upper)


def _variance(side: Side, count: Expression, measures: MeasurementSet) -> Expression:
    found = measures.variance(side.value, side.filter, count, side.lower, side.upper)
    return clamped(found, Fraction(0), side.reach**2)


def _side(column: AggregateColumn, value: Expression, kept: Expression | None, measures: MeasurementSet) -> Side:
    lower, upper = measures.bounds(column, value)
    lattice = lattices.for_deviations(value.type, lower, upper, measures.rows)
    return Side(value=value, filter=kept, lower=lower, upper=upper, lattice=lattice)


def _count(column: AggregateColumn, measures: MeasurementSet) -> Expression:
    """Returns the number of pairs, counted by a side that can be NULL if there is one."""
    present = sorted({v for v in (column.argument, column.second) if v is not None}, key=repr)
    nullable = [value for value in present if measures.is_nullable(value)]
    if not nullable:
        return measures.count_of(None, column.filter)
    return measures.count_of(nullable[0], _and_present(column.filter, nullable[1:]))


def _filters(column: AggregateColumn, measures: MeasurementSet) -> tuple[Expression | None, Expression | None]:
    """Returns the filters of the sums of y and of x: sums skip their own NULLs, so only the other side's are named."""
    y, x = column.argument, column.second
    assert y is not None
    assert x is not None
    nullable = [value for value in (y, x) if measures.is_nullable(value)]
    return (
        _and_present(column.filter, [value for value in nullable if value != y]),
        _and_present(column.filter, [value for value in nullable if value != x]),
    )


def _and_present(kept: Expression | None, values: list[Expression]) -> Expression | None:
    for value in values:
        there = call("is_not_null", (without_number(value),))
        kept = there if kept is None else call("and", (kept, there))
    return kept


def _float(value: Expression) -> Expression:
    return value if value.type == FLOAT64 else Cast(argument=value, type=FLOAT64)


def _shown(name: str, centre: Fraction) -> str:
    if not centre:
        return name if name.isidentifier() else f"({name})"
    size = abs(centre)
    shown = str(size.numerator) if size.denominator == 1 else f"{float(size):.6g}"
    return f"({name} {'-' if centre > 0 else '+'} {shown})"
