"""pandas' names of aggregates, and SQL's."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.catalog.names import suggestion
from dpquery.errors import MissingBoundsError, UnsupportedQueryError
from dpquery.frontends.pandas.columns import Column
from dpquery.frontends.pandas.names import quoted

FORMS: Mapping[str, str] = {
    "size": "COUNT(*)",
    "count": "COUNT({})",
    "nunique": "COUNT(DISTINCT {})",
    "sum": "SUM({})",
    "mean": "AVG({})",
    "var": "VAR_SAMP({})",
    "std": "STDDEV_SAMP({})",
    "median": "MEDIAN({})",
    "min": "MIN({})",
    "max": "MAX({})",
    "mode": "MODE({})",
}
COUNTS = frozenset({"size", "count", "nunique", "mode"})
"""Aggregates that need no bounds."""
ORDERED = ("min", "max", "median", "quantile")
"""Aggregates by rank: dates and timestamps have them too, booleans do not."""


def aggregate(function: object, column: Column) -> str:
    """Returns the SQL of an aggregate of a column.

    Raises:
        UnsupportedQueryError: No such aggregate, or not of such a column.
        MissingBoundsError: It needs bounds, and the column has none.
    """
    if not isinstance(function, str) or function not in FORMS:
        if not isinstance(function, str):
            reason = "name an aggregate with a string; functions are never called on rows"
        else:
            reason = f"there is no aggregate {function!r}; {suggestion(function, FORMS)}"
        raise UnsupportedQueryError(reason, advice=f"Known: {', '.join(FORMS)}.")
    demand(function, column)
    return FORMS[function].format(quoted(column.name))


def demand(function: str, column: Column) -> None:
    """Refuses an aggregate that a column's type or missing bounds do not allow."""
    if function in COUNTS:
        return
    if not _fits(function, column):
        reason = f"{function} of {column.name}: its values are of type {column.type}"
        raise UnsupportedQueryError(reason, advice=_instead(column))
    if not column.has_bounds:
        name = repr(column.name)
        raise MissingBoundsError(
            f"{function} of {column.name} needs bounds, and {column.name} has none",
            advice=f"Declare them with protect(..., bounds={{{name}: (lower, upper)}}), or for this call: "
            f".assign_bounds({{{name}: (lower, upper)}}). If they are unknown, .suggest_bounds({name}) finds some.",
        )


def _fits(function: object, column: Column) -> bool:
    """Whether a column's type has an aggregate; that of `describe` is all that it shows."""
    if column.type == "boolean":
        return function not in (*ORDERED, "describe")
    return column.is_number or (column.is_moment and function in ORDERED)


def _instead(column: Column) -> str:
    if column.type == "boolean":
        return f"Write value_counts({column.name!r}), or mean({column.name!r}) for the part that is True."
    ranks = "; of dates and timestamps min, max, median and quantile too" if column.is_moment else ""
    return f"Numbers have it; of other columns count, nunique and mode{ranks}."


def numbers(function: object, columns: Mapping[str, Column], without: tuple[str, ...]) -> list[str]:
    """Returns the columns of numbers that have bounds and this aggregate.

    Raises:
        MissingBoundsError: There are none.
    """
    found = [name for name, c in columns.items() if c.is_number and _fits(function, c) and name not in without]
    bounded = [name for name in found if columns[name].has_bounds]
    if not bounded:
        first = repr(found[0]) if found else "'column'"
        raise MissingBoundsError(
            "no column of numbers has bounds",
            advice=f"Declare them with protect(..., bounds={{{first}: (lower, upper)}}).",
        )
    return bounded
