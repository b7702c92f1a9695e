"""Exact aggregates in DuckDB's SQL: total, and functions of the multiset of a group's rows alone.

Floats are added up in order of their values, so that neither the order of rows nor an engine's batches decide how sums
are rounded; rows are chosen in an order that leaves only equal values to chance.
"""

from __future__ import annotations

from collections.abc import Callable

from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.errors import InternalError
from dpquery.plan.aggregates.choices import QUANTILE_CONT, QUANTILE_DISC, Mode, Quantile
from dpquery.plan.aggregates.counts import COUNT_DISTINCT, Counting
from dpquery.plan.aggregates.exact import ANY_VALUE, ARG_MAX, ARG_MIN, LAST, Bitwise, Joined, Logical, Pick
from dpquery.plan.aggregates.moments import AVG, Mean, Spread
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.aggregates.sums import AVG_DISTINCT, SUM_DISTINCT, OfDifferent, Summing
from dpquery.plan.expr import Cast, Expression, columns_of
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, adds_exactly
from dpquery.plan.windows import summand

Write = Callable[[Expression], str]

_LARGEST_SUMMAND, _LARGEST_SQUARED = "1e290", "1e140"


def exact(column: AggregateColumn, write: Write) -> str:
    """Returns an exact aggregate in SQL.

    Args:
        write: Writes an expression over the columns of the aggregation's source.
    """
    kept = [] if column.filter is None else [write(column.filter)]
    if column.argument is None:
        return f"COUNT(*){_where(kept)}"
    match column.function:
        case PairAggregate():
            return _pair(column, write, kept)
        case Summing() | OfDifferent():
            return _sum(column, column.argument, write, kept)
        case Mean() | Spread():
            limit = _LARGEST_SUMMAND if column.function is AVG else _LARGEST_SQUARED
            return f"{column.function.shown}({_ordered(_float(column.argument, write), limit)}){_where(kept)}"
        case Quantile() if column.function is QUANTILE_CONT:
            return _quantile(column, _clamped(_float(column.argument, write), _LARGEST_SUMMAND), kept)
    argument = write(column.argument)  # written where it is read alone: what is written binds its texts
    match column.function:
        case Quantile() if column.fraction is not None:
            return _quantile(column, argument, kept)
        case Pick() if column.second is not None:
            return _chosen(column, argument, write, kept)
        case Counting() if column.function is COUNT_DISTINCT:
            return f"COUNT(DISTINCT {argument}){_where(kept)}"
        case Mode():
            return f"MODE({argument}{_by((column.argument, argument))}){_where(kept)}"
        case Joined() if column.second is not None:
            joined = f"STRING_AGG({argument}, {write(column.second)}{_by((column.argument, argument))})"
            return f"LEFT({joined}{_where(kept)}, {column.function.text_limit})"
        case Pick() if column.function is ANY_VALUE:
            return f"MIN({argument}){_where(kept)}"
        case Counting() | Quantile() | Logical() | Bitwise():
            return f"{column.function.shown}({argument}){_where(kept)}"
    raise InternalError(f"the aggregate {column.function} has no form in SQL here")


def _sum(column: AggregateColumn, argument: Expression, write: Write, kept: list[str]) -> str:
    """Integers and decimals of up to 28 digits add up exactly in 128 bits; others as floats in order of value."""
    if column.function is AVG_DISTINCT:
        return f"AVG(DISTINCT {_in_order(_clamped(_float(argument, write), _LARGEST_SUMMAND))}){_where(kept)}"
    given, distinct = argument.type, "DISTINCT " if column.function is SUM_DISTINCT else ""
    if adds_exactly(given):
        return f"TRY_CAST(SUM({distinct}{write(summand(argument))}){_where(kept)} AS {type_name(column.type)})"
    value = _float(argument, write)
    if distinct:
        return f"SUM(DISTINCT {_in_order(_clamped(value, _LARGEST_SUMMAND))}){_where(kept)}"
    total = f"SUM({_ordered(value, _LARGEST_SUMMAND)}){_where(kept)}"
    return total if given == FLOAT64 else f"TRY_CAST({total} AS {type_name(column.type)})"


def _quantile(column: AggregateColumn, argument: str, kept: list[str]) -> str:
    """Returns the value at a place of the sorted list, or between two places; exact arithmetic finds the place."""
    assert column.fraction is not None
    r, q = column.fraction.numerator, column.fraction.denominator
    count = f"COUNT({argument}){_where(kept)}"
    values = f"list_sort(LIST({argument}){_where([*kept, f'({argument}) IS NOT NULL'])})"
    if column.function is QUANTILE_DISC:
        return f"list_extract({values}, GREATEST(1, ({count} * {r} + {q - 1}) // {q}))"
    place = f"(({count} - 1) * {r})"
    low, high = (f"list_extract({values}, {place} // {q} + {after})" for after in (1, 2))
    between = f"{low} + ({high} - {low}) * (({place} % {q}) / {q}::DOUBLE)"
    return f"CASE WHEN {count} = 0 THEN NULL WHEN {place} % {q} = 0 THEN {low} ELSE {between} END"


def _chosen(column: AggregateColumn, argument: str, write: Write, kept: list[str]) -> str:
    if column.second is None:
        raise InternalError(f"the aggregate {column.function} has no order")
    assert column.argument is not None
    by = write(column.second)
    if column.function in (ARG_MIN, ARG_MAX):
        kept = [*kept, f"{argument} IS NOT NULL", f"{by} IS NOT NULL"]
    direction = "DESC" if column.function in (LAST, ARG_MAX) else "ASC"
    order = _by(
        (column.second, f"{by} {direction} NULLS LAST"),
        (column.argument, f"{argument} ASC NULLS LAST"),
    )
    return f"FIRST({argument}{order}){_where(kept)}"


def _pair(column: AggregateColumn, write: Write, kept: list[str]) -> str:
    """Aggregates of pairs, from a covariance, variances and means over the pairs without NULL."""
    if column.argument is None or column.second is None:
        raise InternalError(f"the aggregate {column.function} has one argument")
    y, x = _float(column.argument, write), _float(column.second, write)
    where = _where([*kept, f"{y} IS NOT NULL", f"{x} IS NOT NULL"])
    first, second = _clamped(y, _LARGEST_SQUARED), _clamped(x, _LARGEST_SQUARED)

    def one(function: str, value: str) -> str:
        return f"{function}({_in_order(value)}){where}"

    def both(function: str) -> str:
        return f"{function}({first}, {second} ORDER BY {first}, {second}){where}"

    count = f"COUNT(*){where}"
    x_spread, y_spread, joint = one("VAR_POP", second), one("VAR_POP", first), both("COVAR_POP")
    spreads = f"(sqrt({y_spread}) * sqrt({x_spread}))"
    slope = f"CASE WHEN {x_spread} > 0 THEN {joint} / {x_spread} END"
    correlation = f"CASE WHEN {spreads} > 0 THEN GREATEST(LEAST({joint} / {spreads}, 1), -1) END"
    match column.function.name:
        case "covar_pop" | "covar_samp":
            return both(column.function.shown)
        case "corr":
            return correlation
        case "regr_slope":
            return slope
        case "regr_intercept":
            found = f"({one('AVG', first)} - ({slope}) * {one('AVG', second)})"
            return f"CASE WHEN NOT isnan({found}) THEN {found} END"
        case "regr_r2":
            squared = f"({correlation}) * ({correlation})"
            return f"CASE WHEN {x_spread} > 0 AND {y_spread} = 0 THEN 1.0::DOUBLE ELSE {squared} END"
        case "regr_count":
            return count
        case "regr_avgx":
            return one("AVG", second)
        case "regr_avgy":
            return one("AVG", first)
        case "regr_sxx":
            return f"{count} * {x_spread}"
        case "regr_syy":
            return f"{count} * {y_spread}"
        case "regr_sxy":
            return f"{count} * {joint}"
        case _:
            raise InternalError(f"the aggregate {column.function} of pairs has no form in SQL here")


def _where(conditions: list[str]) -> str:
    return f" FILTER (WHERE {' AND '.join(f'({one})' for one in conditions)})" if conditions else ""


def _float(expression: Expression, write: Write) -> str:
    return write(expression if expression.type == FLOAT64 else Cast(argument=expression, type=FLOAT64))


def _clamped(value: str, limit: str) -> str:
    """Returns a float moved to where no sum overflows."""
    most, least = f"{limit}::DOUBLE", f"-{limit}::DOUBLE"
    return f"CASE WHEN {value} > {most} THEN {most} WHEN {value} < {least} THEN {least} ELSE {value} END"


def _by(*order: tuple[Expression, str]) -> str:
    """Returns the ORDER BY of an aggregate. What reads no column orders nothing, and the engine takes no such order."""
    kept = ", ".join(text for expression, text in order if columns_of(expression))
    return f" ORDER BY {kept}" if kept else ""


def _in_order(value: str) -> str:
    return f"{value} ORDER BY {value}"


def _ordered(value: str, limit: str) -> str:
    """Returns a clamped float with the order that makes the rounding of its sum repeatable."""
    return f"{_clamped(value, limit)} ORDER BY {value}"
