"""Exact aggregates by plain loops: what every backend's aggregates must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from math import ceil, floor, isnan, sqrt
from operator import and_, or_, xor
from typing import Any

from dpquery.errors import InternalError
from dpquery.plan.aggregates.exact import Pick
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import cast_value
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, Value, adds_exactly
from dpquery.plan.windows import exact_sum, summand

Row = dict[str, Value]

LARGEST_SUMMAND = 1e290
LARGEST_SQUARED = 1e140


def value_of(column: AggregateColumn, rows: list[Row]) -> Value:
    """Returns an exact aggregate of the rows of a group."""
    if column.filter is not None:
        rows = [row for row in rows if evaluate(column.filter, row) is True]
    if column.argument is None:
        return len(rows)
    if isinstance(column.function, PairAggregate):
        return _pair(column.function.name, list(_pairs(column, rows)))
    if isinstance(column.function, Pick) and column.second is not None:
        return _chosen(column, rows)
    values: list[Any] = [v for row in rows if (v := evaluate(column.argument, row)) is not None]
    match column.function.name:
        case "count":
            return len(values)
        case "count_distinct":
            return len(set(values))
        case "min" | "max" | "any_value":
            return _extreme(column.function.name, values)
        case "bool_and":
            return all(values) if values else None
        case "bool_or":
            return any(values) if values else None
        case "string_agg" if isinstance(column.second, Literal):
            return str(column.second.value).join(sorted(values))[: column.function.text_limit] if values else None
        case "sum":
            return sum_of(values, column)
        case "mode":
            return min(values, key=lambda value: (-values.count(value), value)) if values else None
        case "quantile_disc":
            return _place(sorted(values), column.fraction)
        case "quantile_cont":
            return _between(_floats(values, column.argument, LARGEST_SUMMAND), column.fraction)
        case "sum_distinct":
            return _sum_distinct(values, column)
        case "avg":
            return _mean(_floats(values, column.argument, LARGEST_SUMMAND))
        case "avg_distinct":
            return _mean(sorted(set(_floats(values, column.argument, LARGEST_SUMMAND))))
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _spread(column.function.name, _floats(values, column.argument, LARGEST_SQUARED))
        case "bit_and" | "bit_or" | "bit_xor":
            operation = {"bit_and": and_, "bit_or": or_, "bit_xor": xor}[column.function.name]
            return reduce(operation, values) if values else None
    raise InternalError(f"the aggregate {column.function} has no meaning here")


def sum_of(values: list[Value], column: AggregateColumn) -> Value:
    """Returns the sum of values that are not NULL; NULL of none, and where it does not fit its type."""
    assert column.argument is not None
    given = column.argument.type
    if not values:
        return None
    if adds_exactly(given):
        added = summand(Column(id="value", type=given))
        return exact_sum([evaluate(added, {"value": value}) for value in values], column.type)
    total = 0.0
    for number in _floats(values, column.argument, LARGEST_SUMMAND):
        total += number
    return total if given == FLOAT64 else cast_value(total, FLOAT64, column.type)


def _sum_distinct(values: list[Value], column: AggregateColumn) -> Value:
    """Returns the sum of the different values; floats are different after they are clamped."""
    assert column.argument is not None
    if column.argument.type == FLOAT64:
        return sum_of(list(dict.fromkeys(_floats(values, column.argument, LARGEST_SUMMAND))), column)
    added = summand(Column(id="value", type=column.argument.type))
    return sum_of(list(dict.fromkeys(evaluate(added, {"value": value}) for value in values)), column)


def _place(ordered: list[Value], fraction: Fraction | None) -> Value:
    """Returns the first value at which so large a part of all is reached."""
    return ordered[max(1, ceil(len(ordered) * (fraction or 0))) - 1] if ordered else None


def _between(ordered: list[float], fraction: Fraction | None) -> float | None:
    """Returns the value at a place, with fractions of places interpolated."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * (fraction or Fraction(0))
    low = ordered[floor(place)]
    part = place - floor(place)
    return low if not part else low + (ordered[floor(place) + 1] - low) * (part.numerator / part.denominator)


def _extreme(function: str, values: list[Any]) -> Value:
    if not values:
        return None
    found: Value = max(values) if function == "max" else min(values)
    return found


def _chosen(column: AggregateColumn, rows: list[Row]) -> Value:
    """Returns the argument of the first row: by `second`, NULL last; of equal ones the least argument, NULL last."""
    assert column.argument is not None
    assert column.second is not None
    given: list[tuple[Any, Any]] = [(evaluate(column.argument, row), evaluate(column.second, row)) for row in rows]
    if column.function.name.startswith("arg"):
        given = [(value, by) for value, by in given if value is not None and by is not None]
    known = [by for _, by in given if by is not None]
    if known:
        best = max(known) if column.function.name in ("last", "arg_max") else min(known)
        given = [(value, by) for value, by in given if by is not None and by == best]
    return _extreme("min", [value for value, _ in given if value is not None])


def _pairs(column: AggregateColumn, rows: list[Row]) -> Iterator[tuple[float, float]]:
    """Yields (y, x) of the rows where neither is NULL, within the limit for squares."""
    assert column.argument is not None
    assert column.second is not None
    for row in rows:
        y, x = _float_of(column.argument, row), _float_of(column.second, row)
        if y is not None and x is not None:
            yield (_limited(y, LARGEST_SQUARED), _limited(x, LARGEST_SQUARED))


def _pair(function: str, given: list[tuple[float, float]]) -> Value:
    pairs = sorted(given)
    count = len(pairs)
    if function == "regr_count":
        return count
    if not pairs or (function == "covar_samp" and count < 2):
        return None
    ys, xs = sorted(y for y, _ in pairs), sorted(x for _, x in pairs)
    joint = _joint(pairs)
    y_spread, x_spread = _spread("var_pop", ys) or 0.0, _spread("var_pop", xs) or 0.0
    spreads = sqrt(y_spread) * sqrt(x_spread)
    correlation = max(min(joint / count / spreads, 1.0), -1.0) if spreads > 0 else None
    slope = joint / count / x_spread if x_spread > 0 else None
    match function:
        case "covar_pop":
            return joint / count
        case "covar_samp":
            return joint / (count - 1)
        case "corr":
            return correlation
        case "regr_slope":
            return slope
        case "regr_intercept":
            found = None if slope is None else (_mean(ys) or 0.0) - slope * (_mean(xs) or 0.0)
            return None if found is None or isnan(found) else found
        case "regr_r2":
            if x_spread > 0 and y_spread == 0:
                return 1.0
            return None if correlation is None else correlation * correlation
        case "regr_avgx":
            return _mean(xs)
        case "regr_avgy":
            return _mean(ys)
        case "regr_sxx":
            return count * x_spread
        case "regr_syy":
            return count * y_spread
        case "regr_sxy":
            return count * (joint / count)
        case _:
            raise InternalError(f"the aggregate {function} of pairs has no meaning here")


def _joint(pairs: list[tuple[float, float]]) -> float:
    """Returns the sum of products of deviations from the means, by Welford's recurrence."""
    y_mean = x_mean = total = 0.0
    for count, (y, x) in enumerate(pairs, start=1):
        before = x - x_mean
        x_mean += before / count
        y_mean += (y - y_mean) / count
        total += before * (y - y_mean)
    return total


def _float_of(expression: Expression, row: Row) -> float | None:
    number = cast_value(evaluate(expression, row), expression.type, FLOAT64)
    return number if isinstance(number, float) else None


def _limited(number: float, limit: float) -> float:
    return min(max(number, -limit), limit)


def _floats(values: list[Value], argument: Expression, limit: float) -> list[float]:
    """Returns the values as floats within the limit, in ascending order: then rounding is repeatable."""
    numbers = [cast_value(value, argument.type, FLOAT64) for value in values]
    return sorted(_limited(number, limit) for number in numbers if isinstance(number, float))


def _mean(numbers: list[float]) -> float | None:
    total = 0.0
    for number in numbers:
        total += number
    return total / len(numbers) if numbers else None


def _spread(function: str, numbers: list[float]) -> float | None:
    """Returns a variance or standard deviation by Welford's recurrence."""
    mean = squares = 0.0
    for count, number in enumerate(numbers, start=1):
        before = number - mean
        mean += before / count
        squares += before * (number - mean)
    under = len(numbers) - (1 if function.endswith("samp") else 0)
    if under < 1:
        return None
    variance = squares / under
    return sqrt(variance) if function.startswith("stddev") else variance
