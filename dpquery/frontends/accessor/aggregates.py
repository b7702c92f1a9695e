"""pandas' names of aggregates, and SQL's."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.catalog.names import suggestion
from dpquery.errors import MissingBoundsError, UnsupportedQueryError
from dpquery.frontends.accessor.columns import Column
from dpquery.frontends.accessor.names import quoted

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
ORDERED = frozenset({"min", "max", "median", "quantile"})
"""Aggregates of dates and timestamps too."""


def aggregate(function: object, column: Column) -> str:
    """Returns the SQL of an aggregate of a column.

    Raises:
        UnsupportedQueryError: No such aggregate, or not of such a column.
        MissingBoundsError: It needs bounds, and the column has none.
    """
    if not isinstance(function, str) or function not in FORMS:
        if not isinstance(function, str):
            reason = "an aggregate is named by a text; functions are never called on rows"
        else:
            reason = f"there is no aggregate {function!r}; {suggestion(function, FORMS)}"
        raise UnsupportedQueryError(reason, advice=f"Known: {', '.join(FORMS)}.")
    demand(function, column)
    return FORMS[function].format(quoted(column.name))


def demand(function: str, column: Column) -> None:
    """Refuses an aggregate that a column's type or missing bounds do not allow."""
    if function in COUNTS:
        return
    if not column.is_number and not (column.is_moment and function in ORDERED):
        reason = f"{function} of {column.name}: its values are of type {column.type}"
        raise UnsupportedQueryError(reason, advice="Numbers have it; of other columns count, nunique and mode.")
    if not column.has_bounds:
        name = repr(column.name)
        raise MissingBoundsError(
            f"{function} of {column.name} needs bounds, and {column.name} has none",
            advice=f"Declare them with protect(..., bounds={{{name}: (lower, upper)}}), or for this call: "
            f".assign_bounds({{{name}: (lower, upper)}}). Where nobody knows them, .suggest_bounds({name}) finds some.",
        )


def numbers(columns: Mapping[str, Column], without: tuple[str, ...]) -> list[str]:
    """Returns the columns of numbers that have bounds; raises MissingBoundsError if there are none."""
    found = [name for name, column in columns.items() if column.is_number and name not in without]
    bounded = [name for name in found if columns[name].has_bounds]
    if not bounded:
        first = repr(found[0]) if found else "'column'"
        raise MissingBoundsError(
            "no column of numbers has bounds",
            advice=f"Declare them with protect(..., bounds={{{first}: (lower, upper)}}).",
        )
    return bounded
